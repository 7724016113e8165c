"""The `Machine` of one lane: every value is a scalar.

Code is emitted into the body of `void @step<n>(ptr %block, i32 %warp, i32 %lane, ptr %state)`, where `%state` is the lane's
record of the scheduler, `%thread` its number in the block, `%mine` its local memory, `%base` where its activation begins in
it, `%me` the activation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuttle.abi import wire_layout as wire
from cuttle.abi.kernel_abi import CLUSTER_STRIDE
from cuttle.lower.cpu.atomics import scalar_atomic
from cuttle.lower.emit import Value
from cuttle.lower.ops.dispatch import refusal
from cuttle.lower.plain.places import AXES, Place, Structures
from cuttle.lower.plain.program import CARRY, STACK_END_AT, Activation, Program
from cuttle.ptx.ir import TYPE_BITS, Instruction, Symbol

EXPLICIT_CLUSTER = 4  # cuttle_launch.flags
STACK_FAULT, MISALIGNED_FAULT = 5, 2
LANE_MASKS = {"eq": (1, 0), "le": (2, -1), "lt": (1, -1), "ge": (1, -1), "gt": (2, -1)}
CONSTANT_REGISTERS = {
    "WARP_SZ": 32, "%nwarpid": 32, "%nsmid": 1, "%smid": 0, "%reserved_smem_offset_begin": 0,
    "%reserved_smem_offset_end": 0, "%reserved_smem_offset_cap": 0, "%reserved_smem_offset_0": 0,
    "%reserved_smem_offset_1": 0, "%current_graph_exec": 0,
}  # fmt: skip


class LaneMachine(Structures):
    """See `lower/machine.py` for what each method means."""

    def __init__(self, program: Program, activation: Activation) -> None:
        super().__init__(program, activation)
        self.instruction: Instruction | None = None
        self.barrier_request: tuple[str, Value, Value | None, Value | None] | None = None
        self.barrier_result: Value | None = None
        self.allocas: list[str] = []

    # -- registers ---------------------------------------------------------------------------------------------------

    def register_bits(self, name: str) -> int:
        return 1 if name == CARRY else TYPE_BITS[self.activation.function.registers[name]]

    def read_register(self, name: str) -> Value:
        bits = self.register_bits(name)
        value = self.read(Value("ptr", "%me"), f"i{max(bits, 8)}", self.activation.registers[name])
        return self.emitter.resize(value, bits)

    def write_register(self, name: str, value: Value) -> None:
        wide = self.emitter.resize(value, max(value.bits, 8))
        place = self.offset(Value("ptr", "%me"), self.activation.registers[name])
        self.emitter.line(f"store {wide.typed}, {place.typed}, align 1")

    def set_word(self, at: int, value: Value) -> None:
        """Writes a member of the lane's record (lane_record.py)."""
        self.emitter.line(f"store {value.typed}, {self.offset(Value('ptr', '%state'), at).typed}")

    # -- memory ------------------------------------------------------------------------------------------------------

    def as_place(self, address: Any) -> Place:
        return address if isinstance(address, Place) else Place(self.emitter.resize(address, 64, signed=True))

    def pointer(self, space: str, address: Any, offset: int = 0) -> Value:
        place = self.as_place(address)
        space = self.space_of(place, space)
        bases = {"shared": self.shared_memory, "local": lambda: Value("ptr", "%mine"), "param": self.parameters}
        if space in bases:
            pointer = self.offset(bases[space](), place.value)
        else:
            pointer = self.emitter.emit("ptr", 1, f"inttoptr {place.value.typed} to ptr")
        return self.offset(pointer, offset)

    def advance(self, address: Any, offset: int | Value) -> Place:
        place = self.as_place(address)
        amount = self.emitter.const("i64", offset) if isinstance(offset, int) else offset
        return Place(self.emitter.add(place.value, amount), place.space)

    def only_where(self, where: Value, work: Any) -> None:
        """Code that is skipped where the condition does not hold."""
        inside, after = self.label("where"), self.label("after")
        self.emitter.line(f"br {where.typed}, label %{inside}, label %{after}")
        self.mark(inside)
        work()
        self.emitter.line(f"br label %{after}")
        self.mark(after)

    def allocate(self, llvm_type: str) -> str:
        name = f"%slot{len(self.allocas)}"
        self.allocas.append(f"  {name} = alloca {llvm_type}, align 16")
        return name

    def load(
        self, space: str, bits: int, count: int, address: Any, *, ordering: str = "weak", read_only: bool = False,
        where: Value | None = None
    ) -> list[Value]:  # fmt: skip
        element = f"i{bits}"
        if where is not None:
            slots = [Value("ptr", self.allocate(element)) for _ in range(count)]
            for slot in slots:
                self.emitter.line(f"store {element} 0, {slot.typed}")

            def work() -> None:
                for slot, value in zip(slots, self.load(space, bits, count, address), strict=True):
                    self.emitter.line(f"store {value.typed}, {slot.typed}")

            self.only_where(where, work)
            return [self.read(slot, element) for slot in slots]
        return [
            self.emitter.emit(
                element, 1, f"load volatile {element}, {self.pointer(space, address, i * bits // 8).typed}, align 1"
            )
            for i in range(count)
        ]

    def store(
        self, space: str, bits: int, address: Any, values: Sequence[Value], *, ordering: str = "weak",
        where: Value | None = None
    ) -> None:  # fmt: skip
        if where is not None:
            self.only_where(where, lambda: self.store(space, bits, address, values, ordering=ordering))
            return
        for index, value in enumerate(values):
            content = self.emitter.as_bits(value)
            pointer = self.pointer(space, address, index * bits // 8)
            self.emitter.line(f"store volatile {content.typed}, {pointer.typed}, align 1")

    def atomic(
        self, operation: str, type_name: str, space: str, address: Any, operands: Sequence[Value], *,
        want_result: bool, ordering: str, scope: str, where: Value | None = None
    ) -> Value | None:  # fmt: skip
        if where is not None:
            element = f"i{TYPE_BITS[type_name]}"
            slot = Value("ptr", self.allocate(element))
            self.emitter.line(f"store {element} 0, {slot.typed}")

            def work() -> None:
                old = self.atomic(
                    operation, type_name, space, address, operands, want_result=want_result, ordering=ordering,
                    scope=scope,
                )  # fmt: skip
                if old is not None:
                    self.emitter.line(f"store {old.typed}, {slot.typed}")

            self.only_where(where, work)
            return self.read(slot, element)
        return scalar_atomic(
            self.emitter, operation, type_name, self.pointer(space, address),
            [self.emitter.as_bits(operand) for operand in operands], plain=False, ordering="acq_rel",
            label=self.label, allocate=self.allocate,
        )  # fmt: skip

    def expect_aligned(self, space: str, address: Any, size: int, *, where: Value | None = None) -> None:
        if size <= 1:
            return
        e = self.emitter
        value = self.as_place(address).value
        wrong = e.icmp("ne", e.and_(value, e.const("i64", size - 1)), e.const("i64", 0))

        def trap() -> None:
            assert self.instruction is not None
            line = self.instruction.location.line
            details = [e.const("i64", MISALIGNED_FAULT), e.const("i64", line), value, e.const("i64", size)]
            self.service("trap", details)

        self.only_where(wrong if where is None else e.and_(wrong, where), trap)

    def copy_bytes(
        self, to: str, destination: Any, origin: str, source: Any, size: Value, *, where: Value | None = None
    ) -> None:
        e = self.emitter
        if where is not None:
            self.only_where(where, lambda: self.copy_bytes(to, destination, origin, source, size))
            return
        e.declare("@llvm.memmove.p0.p0.i64", "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
        places = self.pointer(to, destination), self.pointer(origin, source)
        count = e.resize(size, 64)
        e.line(f"call void @llvm.memmove.p0.p0.i64({places[0].typed}, {places[1].typed}, {count.typed}, i1 false)")

    def reduce_bytes(
        self, operation: str, type_name: str, to: str, destination: Any, origin: str, source: Any, size: Value
    ) -> None:
        e = self.emitter
        step = TYPE_BITS[type_name] // 8
        counter = Value("ptr", self.allocate("i64"))
        head, work, done = (self.label(stem) for stem in ("elements", "element", "elements.done"))
        e.line(f"store i64 0, {counter.typed}")
        e.line(f"br label %{head}")
        self.mark(head)
        at = self.read(counter, "i64")
        e.line(f"br {e.icmp('ult', at, e.resize(size, 64)).typed}, label %{work}, label %{done}")
        self.mark(work)
        (value,) = self.load(origin, 8 * step, 1, self.advance(source, at))
        self.atomic(
            operation, type_name, to, self.advance(destination, at), [value], want_result=False, ordering="relaxed",
            scope="gpu",
        )  # fmt: skip
        e.line(f"store {e.add(at, e.const('i64', step)).typed}, {counter.typed}")
        e.line(f"br label %{head}")
        self.mark(done)

    def zero_bytes(self, space: str, address: Any, size: Value) -> None:
        e = self.emitter
        e.declare("@llvm.memset.p0.i64", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        count = e.resize(size, 64)
        e.line(f"call void @llvm.memset.p0.i64({self.pointer(space, address).typed}, i8 0, {count.typed}, i1 false)")

    def address_value(self, space: str, address: Any) -> Value:
        return self.as_place(address).value

    def stack_pointer(self) -> Value:
        return self.read(Value("ptr", "%me"), "i64", STACK_END_AT)

    def move_stack(self, pointer: Value) -> None:
        e = self.emitter
        over = e.icmp("ugt", pointer, e.const("i64", self.program.local_bytes))

        def trap() -> None:
            assert self.instruction is not None
            self.service("trap", [e.const("i64", STACK_FAULT), e.const("i64", self.instruction.location.line)])

        self.only_where(over, trap)
        e.line(f"store {pointer.typed}, {self.offset(Value('ptr', '%me'), STACK_END_AT).typed}")

    def fence(self, scope: str, semantics: str) -> None:
        self.emitter.line("fence seq_cst")

    # -- registers that are not the program's --------------------------------------------------------------------------

    def special_register(self, name: str) -> Value:
        e = self.emitter
        base, _, axis_name = name.partition(".")
        if name in CONSTANT_REGISTERS:
            return e.const("i64" if name == "%current_graph_exec" else "i32", CONSTANT_REGISTERS[name])
        if name == "%is_explicit_cluster":
            flags = self.launch_word(wire.KERNEL_LAUNCH_FLAGS_AT)
            return e.icmp("ne", e.and_(flags, e.const("i32", EXPLICIT_CLUSTER)), e.const("i32", 0))
        if name == "%cluster_ctarank":
            return self.cluster_rank()
        if name == "%cluster_nctarank":
            return self.blocks_of_cluster()
        if axis_name in AXES:
            axis = AXES.index(axis_name)
            sizes = [self.launch_word(wire.KERNEL_LAUNCH_BLOCK_AT + 4 * each) for each in range(3)]
            if base == "%tid":
                left = Value("i32", "%thread")
                for each in sizes[:axis]:
                    left = e.binary("udiv", left, each)
                return e.binary("urem", left, sizes[axis])
            if base == "%ntid":
                return sizes[axis]
            index = self.block_word(wire.KERNEL_BLOCK_CTAID_AT + 4 * axis)
            blocks = self.launch_word(wire.KERNEL_LAUNCH_GRID_AT + 4 * axis)
            size = self.cluster_size(axis)
            if base == "%ctaid":
                return index
            if base == "%nctaid":
                return blocks
            if base == "%cluster_nctaid":
                return size
            if base == "%cluster_ctaid":
                return e.binary("urem", index, size)
            if base in ("%clusterid", "%nclusterid"):
                return e.binary("udiv", index if base == "%clusterid" else blocks, size)
        if name == "%laneid":
            return Value("i32", "%lane")
        if name == "%warpid":
            return Value("i32", "%warp")
        if name.startswith("%lanemask_"):
            return self.lane_mask(name[-2:])
        if name in ("%clock", "%clock_hi", "%clock64"):
            e.declare("@llvm.readcyclecounter", "declare i64 @llvm.readcyclecounter()")
            return self.part_of(e.emit("i64", 1, "call i64 @llvm.readcyclecounter()"), name, "%clock64")
        if name.startswith("%globaltimer"):
            time = self.service("globaltimer", [], 64)
            assert time is not None
            return self.part_of(time, name, "%globaltimer")
        if name == "%gridid":
            return self.launch_word(wire.KERNEL_LAUNCH_GRID_ID_AT, "i64")
        dynamic = self.launch_word(wire.KERNEL_LAUNCH_DYNAMIC_SHARED_BYTES_AT)
        if name == "%dynamic_smem_size":
            return dynamic
        if name in ("%total_smem_size", "%aggr_smem_size"):
            return e.add(self.launch_word(wire.KERNEL_LAUNCH_STATIC_SHARED_BYTES_AT), dynamic)
        if name in ("%envreg1", "%envreg2"):
            # Where cooperative groups find the memory of the grid that its barrier counts in.
            workspace = self.launch_word(wire.KERNEL_LAUNCH_WORKSPACE_AT, "i64")
            return self.part_of(workspace, "_hi" if name == "%envreg1" else "_lo", "")
        if name.startswith(("%envreg", "%pm")):
            return e.const("i64" if name.endswith("_64") else "i32", 0)
        self.refuse(f"special register {name} is not supported")
        raise AssertionError

    def lane_mask(self, kind: str) -> Value:
        e = self.emitter
        one, minus = LANE_MASKS[kind]
        bit = e.cast("trunc", e.shl(e.const("i64", one), e.cast("zext", Value("i32", "%lane"), "i64")), "i32")
        mask = e.add(bit, e.const("i32", minus))
        return e.not_(mask) if kind in ("ge", "gt") else mask

    def part_of(self, wide: Value, name: str, whole: str) -> Value:
        if name == whole:
            return wide
        part = self.emitter.lshr(wide, self.emitter.const("i64", 32)) if name.endswith("_hi") else wide
        return self.emitter.cast("trunc", part, "i32")

    # -- other lanes -------------------------------------------------------------------------------------------------

    def lane_index(self) -> Value:
        return Value("i32", "%lane")

    def shuffle(self, value: Value, source_lane: Value) -> Value:
        return self.alone()

    def ballot(self, predicate: Value) -> Value:
        return self.alone()

    def active_mask(self) -> Value:
        return self.alone()

    def lane_of(self, value: Value, lane: Value) -> Value:
        return self.alone()

    def warp_sync(self, member_mask: Value) -> None:
        self.alone()

    def alone(self) -> Value:
        """Rows whose ops need other lanes have the effect `cross`, and get the other machine."""
        raise AssertionError(f"{self.instruction} needs other lanes: its row must say so")

    # -- barriers, services, addresses -------------------------------------------------------------------------------

    def barrier(self, kind: str, barrier: Value, threads: Value | None, predicate: Value | None = None) -> Value | None:
        """Notes the request; when the barrier is passed the op is applied again, with `barrier_result` (i32)."""
        self.barrier_request = (kind, barrier, threads, predicate)
        if not kind.startswith("red"):
            return None
        result = self.barrier_result or self.emitter.const("i32", 0)
        return result if kind == "red.popc" else self.emitter.icmp("ne", result, self.emitter.const("i32", 0))

    def service(self, name: str, arguments: Sequence[Value], result_bits: int = 0) -> Value | None:
        result = self.call_service(name, Value("i32", "%thread"), arguments)
        return self.emitter.resize(result, result_bits) if result_bits else None

    def texture(self, form: int, words: Sequence[Value]) -> list[Value]:
        e = self.emitter
        block = Value("ptr", self.allocate(f"[{len(words) + 4} x i32]"))
        for index, word in enumerate(words):
            e.line(f"store {word.typed}, {self.offset(block, 4 * index).typed}")
        address = self.number_of(block)
        self.service("texture", [address, e.const("i64", 1), e.const("i64", 1), e.const("i64", form)])
        return [self.read(block, "i32", 4 * (len(words) + index)) for index in range(4)]

    def blocks_of_cluster(self) -> Value:
        x, y, z = (self.cluster_size(axis) for axis in range(3))
        return self.emitter.mul(self.emitter.mul(x, y), z)

    def number_of(self, pointer: Value) -> Value:
        return self.emitter.emit("i64", 1, f"ptrtoint {pointer.typed} to i64")

    def convert_address(self, space: str, address: Value, *, to_generic: bool) -> Value:
        e = self.emitter
        if space == "param" and not self.activation.function.is_entry:
            space = "local"
        if space in ("shared", "cluster"):
            origin = self.shared_memory()
        elif space in ("local", "param"):
            origin = Value("ptr", "%mine") if space == "local" else self.parameters()
        else:
            return address
        wide, base = e.resize(address, 64, signed=True), self.number_of(origin)
        return e.resize(e.add(wide, base) if to_generic else e.sub(wide, base), address.bits)

    def shared_bytes(self) -> Value:
        """Static and dynamic shared memory of the block (i64)."""
        static = self.launch_word(wire.KERNEL_LAUNCH_STATIC_SHARED_BYTES_AT)
        both = self.emitter.add(static, self.launch_word(wire.KERNEL_LAUNCH_DYNAMIC_SHARED_BYTES_AT))
        return self.emitter.cast("zext", both, "i64")

    def is_space(self, space: str, address: Value) -> Value:
        e = self.emitter
        if space == "shared":
            # Between guard pages: nothing else can be there, and a pointer just outside still belongs to shared memory.
            return e.icmp("ule", e.sub(address, self.number_of(self.own_shared_memory())), self.shared_bytes())
        if space == "cluster":
            far = e.sub(address, self.number_of(self.shared_memory()))
            stride = e.const("i64", CLUSTER_STRIDE)
            inside = e.icmp("ult", far, e.mul(e.cast("zext", self.blocks_of_cluster(), "i64"), stride))
            place = e.and_(far, e.const("i64", CLUSTER_STRIDE - 1))
            return e.and_(inside, e.icmp("ule", place, self.shared_bytes()))
        if space == "local":
            near = e.sub(address, self.number_of(Value("ptr", "%mine")))
            return e.icmp("ult", near, e.const("i64", self.program.local_bytes))
        if space == "param":
            size = e.cast("zext", self.launch_word(wire.KERNEL_LAUNCH_PARAMETER_BYTES_AT), "i64")
            return e.icmp("ult", e.sub(address, self.number_of(self.parameters())), size)
        if space == "const":
            return self.is_constant(address)
        others = e.or_(self.is_space("local", address), self.is_space("cluster", address))
        return e.not_(e.or_(others, self.is_constant(address)))

    def is_constant(self, address: Value) -> Value:
        """Whether a generic address lies in one of the module's `.const` variables that the kernel uses."""
        e = self.emitter
        inside: Value = e.const("i1", 0)
        for name in self.program.symbols:
            variable = self.program.module.variables.get(name)
            if variable is not None and variable.space == "const":
                begin = self.symbol(Symbol(name), Value("i64", "%base")).value
                size = e.const("i64", max(variable.size_bytes, 1))
                inside = e.or_(inside, e.icmp("ult", e.sub(address, begin), size))
        return inside

    def map_to_rank(self, address: Value, rank: Value, *, generic: bool) -> Value:
        e = self.emitter
        base = self.number_of(self.shared_memory())
        wide = e.sub(e.resize(address, 64), base) if generic else e.resize(address, 64)
        place = e.and_(wide, e.const("i64", CLUSTER_STRIDE - 1))
        mapped = e.add(place, e.mul(e.resize(rank, 64), e.const("i64", CLUSTER_STRIDE)))
        return e.resize(e.add(mapped, base) if generic else mapped, address.bits)

    def rank_of(self, address: Value, *, generic: bool) -> Value:
        e = self.emitter
        wide = e.resize(address, 64)
        if generic:
            wide = e.sub(wide, self.number_of(self.shared_memory()))
        return e.resize(e.binary("udiv", wide, e.const("i64", CLUSTER_STRIDE)), 32)

    def refuse(self, reason: str, code: str = "PTX-0304") -> None:
        assert self.instruction is not None
        raise refusal(self.instruction, reason, code)
