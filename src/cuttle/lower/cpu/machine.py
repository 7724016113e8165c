"""The CPU's `Machine`: a warp is a vector of 32 lanes with a mask.

Implements `lower/machine.py` for the op functions. State that changes from instruction to instruction (the active lanes, the
segment that is being computed) is set by the region emitter before it applies an op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cuttle.abi.kernel_abi import CLUSTER_STRIDE, SERVICES
from cuttle.lower.cpu.aligned import expect_aligned
from cuttle.lower.cpu.atomics import scalar_atomic
from cuttle.lower.cpu.bulk import copy_lanes, reduce_lanes, zero_lanes
from cuttle.lower.cpu.lane_loop import for_each_lane
from cuttle.lower.cpu.memory import Address, Lanes, Memory
from cuttle.lower.cpu.outline import call_outlined
from cuttle.lower.cpu.shaped import Shaped, materialise, operand_value, segment_bases, uniform
from cuttle.lower.cpu.special import special_value
from cuttle.lower.cpu.textures import call_texture
from cuttle.lower.emit import Value
from cuttle.lower.ops.dispatch import refusal
from cuttle.lower.passes.graph import SsaAddress, ValueRef
from cuttle.lower.passes.shape import LANES
from cuttle.ptx.ir import TYPE_BITS, Instruction, Symbol

if TYPE_CHECKING:
    from cuttle.lower.cpu.region import RegionEmitter

# Alias scopes (module metadata, see lower/cpu/module_text.py): explicit state spaces cannot overlap.
NOTES = {
    "param": ", !invariant.load !0",
    "global": ", !alias.scope !4, !noalias !7",
    "shared": ", !alias.scope !5, !noalias !8",
}
SERVICE_INDEX = {name: index for index, (name, _) in enumerate(SERVICES)}
STACK_FAULT = 5
ONE_WORKER = 2  # cuttle_launch.flags: the whole grid runs on one worker
X86_PERMUTE = "@llvm.x86.avx512.vpermi2var.d.512"


class WarpMachine:
    """See `lower/machine.py` for what each method means."""

    def __init__(self, region: RegionEmitter) -> None:
        self.region = region
        self.emitter = region.emitter
        self.memory = Memory(region.emitter, region.plan.counts, region.nowhere, region.plan.target.avx512)
        self.lanes = Lanes()
        self.instruction: Instruction | None = None
        self.segment: tuple[int, int] | None = None
        self.barrier_request: tuple[str, Value, Value | None, Value | None] | None = None
        self.barrier_result: Value | None = None
        self.result_unused = False
        self.outlined: dict[str, list[Value]] = {}

    # -- addresses ---------------------------------------------------------------------------------------------------

    def resolve(self, space: str, address: Any) -> Address:
        """The byte address of a memory operand: `SsaAddress` (opaque to the op), or a plain i64/i32 value."""
        if isinstance(address, SsaAddress):
            shaped, symbol_space = self.address_operand(address)
            space = symbol_space or space
        elif isinstance(address, Shaped):
            shaped = address
        else:
            shaped = uniform(address) if address.lanes == 1 else Shaped(address)
        shaped = self.to_64(shaped)
        if self.segment is not None:
            index, count = self.segment
            shaped = uniform(segment_bases(self.emitter, shaped, count)[index])
        if space == "shared":
            return Address(shaped, self.region.shared_origin())
        if space == "param" and not self.region.plan.is_entry:
            space = "local"
        if space == "param":
            return Address(shaped, self.region.parameters())
        if space == "local":
            return Address(self.add_lane_stride(shaped), self.region.local_pointer())
        return Address(shaped)

    def address_operand(self, address: SsaAddress) -> tuple[Shaped, str | None]:
        e = self.emitter
        if address.base is None:
            return uniform(e.const("i64", address.offset)), None
        space: str | None = None
        if isinstance(address.base, Symbol):
            shaped, space = self.region.symbol(Symbol(address.base.name, address.base.offset + address.offset))
            return shaped, space
        assert isinstance(address.base, ValueRef)
        shaped = self.region.read(address.base.id)
        if not address.offset:
            return shaped, None
        shaped = self.to_64(shaped)
        constant = e.const("i64", address.offset)
        if shaped.vector is not None:
            return Shaped(e.add(shaped.vector, constant)), None
        return Shaped(None, tuple(e.add(base, constant) for base in shaped.bases), shaped.offsets), None

    def to_64(self, shaped: Shaped) -> Shaped:
        """32-bit window addresses extended by sign: a base may be negative before its lane offset is added."""
        e = self.emitter
        if shaped.type == "i64":
            return shaped
        if shaped.vector is not None:
            return Shaped(e.cast("sext", shaped.vector, "i64"))
        return Shaped(None, tuple(e.cast("sext", base, "i64") for base in shaped.bases), shaped.offsets)

    def add_lane_stride(self, shaped: Shaped) -> Shaped:
        stride = self.region.plan.layout_local_bytes
        offsets = tuple(lane * stride for lane in range(LANES))
        e = self.emitter
        if shaped.vector is not None:
            return Shaped(e.add(shaped.vector, e.vector_constant("i64", offsets)))
        both = tuple(a + b for a, b in zip(shaped.offsets, offsets, strict=True))
        return Shaped(None, shaped.bases, both)

    def note(self, space: str, address: Any) -> str:
        if isinstance(address, SsaAddress) and isinstance(address.base, Symbol):
            space = self.region.symbol_space(address.base.name) or space
        if space == "param" and not self.region.plan.is_entry:
            return ""
        return NOTES.get(space, "")

    def lanes_for_access(self) -> Lanes:
        if self.segment is None or self.lanes.full:
            return self.lanes
        index, count = self.segment
        per = LANES // count
        mask = ((1 << per) - 1) << (index * per)
        assert self.lanes.bits is not None
        bits = self.emitter.and_(self.lanes.bits, self.emitter.const("i32", mask))
        return Lanes(bits, self.lanes.vector, maybe_none=True)

    # -- memory ------------------------------------------------------------------------------------------------------

    def compiler_fence(self) -> None:
        """Keeps LLVM from moving or merging accesses; costs no instruction."""
        self.emitter.line('fence syncscope("singlethread") seq_cst')

    def restricted(self, where: Value | None) -> Lanes:
        """The active lanes for which `where` holds."""
        if where is None:
            return self.lanes
        e = self.emitter
        vector = e.splat(where, LANES)
        if self.lanes.vector is not None:
            vector = e.and_(self.lanes.vector, vector)
        return Lanes(e.emit("i32", 1, f"bitcast {vector.typed} to i32"), vector, maybe_none=True)

    def advance(self, address: Any, offset: int | Value) -> Any:
        if isinstance(offset, int) and isinstance(address, SsaAddress):
            return SsaAddress(address.base, address.offset + offset)
        e = self.emitter
        amount = e.const("i64", offset) if isinstance(offset, int) else offset
        if isinstance(address, SsaAddress):
            shaped, _ = self.address_operand(address)
            address = self.to_64(shaped)
        if isinstance(address, Shaped):
            if address.vector is None and amount.lanes == 1:
                return Shaped(None, tuple(e.add(base, amount) for base in address.bases), address.offsets)
            address = materialise(e, address)
        return e.add(address, amount)

    def load(
        self, space: str, bits: int, count: int, address: Any, *, ordering: str = "weak", read_only: bool = False,
        where: Value | None = None
    ) -> list[Value]:  # fmt: skip
        if where is not None:
            before, self.lanes = self.lanes, self.restricted(where)
            values = self.load(space, bits, count, address, ordering=ordering, read_only=read_only)
            self.lanes = before
            zero = self.emitter.const(f"i{bits}", 0)
            return [self.emitter.select(self.emitter.splat(where, LANES), value, zero) for value in values]
        resolved = self.resolve(space, address)
        if bits == 128:
            halves = self.load(space, 64, 2 * count, address, ordering=ordering, read_only=read_only)
            return [self.join_128(halves[2 * i], halves[2 * i + 1]) for i in range(count)]
        strong = ordering != "weak"
        if strong:
            self.compiler_fence()
        note = "" if strong else self.note(space, address)
        if strong and resolved.shaped.is_uniform:
            # All lanes read at their own time on hardware; one volatile read is one of the possible outcomes.
            values = self.load_volatile(f"i{bits}", count, resolved)
        else:
            values = self.memory.load(f"i{bits}", count, resolved, self.lanes_for_access(), note)
        if strong:
            self.compiler_fence()
        return values

    def load_volatile(self, element: str, count: int, address: Address) -> list[Value]:
        e = self.emitter
        size = int(element[1:]) // 8
        values = []
        for index in range(count):
            pointer = self.memory.pointer(address, address.shaped.bases[0], index * size)
            lanes = self.lanes_for_access()
            if lanes.maybe_none:
                pointer = self.memory.safe_pointer(pointer, self.memory.any_lane(lanes))
            scalar = e.emit(element, 1, f"load volatile {element}, {pointer.typed}, align {size}")
            values.append(e.splat(scalar, LANES) if self.segment is None else scalar)
        return values

    def join_128(self, low: Value, high: Value) -> Value:
        e = self.emitter
        wide = e.shl(e.cast("zext", high, "i128"), e.const("i128", 64))
        return e.or_(e.cast("zext", low, "i128"), wide)

    def store(
        self, space: str, bits: int, address: Any, values: Sequence[Value], *, ordering: str = "weak",
        where: Value | None = None
    ) -> None:  # fmt: skip
        e = self.emitter
        if where is not None:
            before, self.lanes = self.lanes, self.restricted(where)
            self.store(space, bits, address, values, ordering=ordering)
            self.lanes = before
            return
        if bits == 128:
            halves: list[Value] = []
            for value in values:
                halves.append(e.cast("trunc", value, "i64"))
                halves.append(e.cast("trunc", e.lshr(value, e.const("i128", 64)), "i64"))
            self.store(space, 64, address, halves, ordering=ordering)
            return
        resolved = self.resolve(space, address)
        strong = ordering != "weak"
        if strong:
            self.compiler_fence()
        note = "" if strong else self.note(space, address)
        integers = [e.as_bits(value) for value in values]
        self.memory.store(f"i{bits}", resolved, integers, self.lanes, note)
        if strong:
            self.compiler_fence()

    def atomic(
        self, operation: str, type_name: str, space: str, address: Any, operands: Sequence[Value], *,
        want_result: bool, ordering: str, scope: str, where: Value | None = None
    ) -> Value | None:  # fmt: skip
        e = self.emitter
        if where is not None:
            before, self.lanes = self.lanes, self.restricted(where)
            old = self.atomic(
                operation, type_name, space, address, operands, want_result=want_result, ordering=ordering, scope=scope
            )
            self.lanes = before
            return old
        resolved = self.resolve(space, address)
        bits = TYPE_BITS[type_name]
        values = [e.as_bits(operand) for operand in operands]
        own_block = space == "shared"
        # An op function may use an atomic for more than the instruction's result (mbarrier.arrive).
        plain_atomic = self.instruction is not None and self.instruction.opcode in ("atom", "red")
        unused = not want_result or (self.result_unused and plain_atomic)
        self.compiler_fence()
        if unused and resolved.shaped.is_uniform and not own_block:
            combined = self.reduce_uniform(operation, type_name, values)
            if combined is not None:
                self.atomic_once(operation, type_name, resolved, combined)
                return e.const(f"i{bits}", 0)
        inputs = [self.memory.pointers(resolved), *values]
        result: Value | None = None
        if unused and not own_block and scope != "sys" and not self.region.plan.spin_loops:
            # With a single worker nobody else is there: no bus lock (it costs ten times the addition).
            alone, shared, done = (self.region.fresh_label(stem) for stem in ("alone", "together", "atomics.done"))
            flags = e.and_(self.region.launch_field("flags", 0), e.const("i32", ONE_WORKER))
            e.line(f"br {e.icmp('ne', flags, e.const('i32', 0)).typed}, label %{alone}, label %{shared}")
            self.region.label(alone)
            self.each_atomic(operation, type_name, inputs, None, plain=True, ordering=ordering)
            e.line(f"br label %{done}")
            self.region.label(shared)
            self.each_atomic(operation, type_name, inputs, None, plain=False, ordering=ordering)
            e.line(f"br label %{done}")
            self.region.label(done)
        else:
            wanted = None if unused else f"i{bits}"
            result = self.each_atomic(operation, type_name, inputs, wanted, plain=own_block, ordering=ordering)
        self.compiler_fence()
        return e.const(f"i{bits}", 0) if result is None and want_result else result

    def each_atomic(
        self, operation: str, type_name: str, inputs: Sequence[Value], wanted: str | None, *, plain: bool, ordering: str
    ) -> Value | None:
        """The atomic of each active lane in turn; `plain` where no other thread can see the memory."""
        e = self.emitter

        def one(lane: Value, scalars: list[Value]) -> Value:
            return scalar_atomic(
                e, operation, type_name, scalars[0], scalars[1:], plain=plain, ordering=ordering,
                label=self.region.fresh_label, allocate=self.region.allocate,
            )  # fmt: skip

        return for_each_lane(
            e, self.lanes, inputs, wanted, one, unroll=plain and TYPE_BITS[type_name] <= 64,
            label=self.region.fresh_label, allocate=self.region.allocate,
        )  # fmt: skip

    def reduce_uniform(self, operation: str, type_name: str, values: Sequence[Value]) -> Value | None:
        """The warp's operands combined, where order does not matter: integer add, min, max, and, or, xor."""
        e = self.emitter
        if type_name in ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2") or TYPE_BITS[type_name] > 64:
            return None
        signed = type_name.startswith("s")
        names = {
            "add": "add", "and": "and", "or": "or", "xor": "xor",
            "min": "smin" if signed else "umin", "max": "smax" if signed else "umax",
        }  # fmt: skip
        if operation not in names:
            return None
        vector = e.splat(values[0], LANES)
        bits = vector.bits
        if not self.lanes.full:
            top = (1 << bits) - 1
            neutral = {
                "add": 0, "or": 0, "xor": 0, "and": top,
                "min": top >> 1 if signed else top, "max": 1 << (bits - 1) if signed else 0,
            }[operation]  # fmt: skip
            assert self.lanes.vector is not None
            vector = e.select(self.lanes.vector, vector, e.const(vector.type, neutral))
        name = f"@llvm.vector.reduce.{names[operation]}.v{LANES}{vector.type}"
        e.declare(name, f"declare {vector.type} {name}({vector.llvm_type})")
        return e.emit(vector.type, 1, f"call {vector.type} {name}({vector.typed})")

    def atomic_once(self, operation: str, type_name: str, address: Address, value: Value) -> None:
        e = self.emitter
        pointer = self.memory.pointer(address, address.shaped.bases[0])
        if self.lanes.maybe_none:
            pointer = self.memory.safe_pointer(pointer, self.memory.any_lane(self.lanes))
        scalar_atomic(
            e, operation, type_name, pointer, [value], plain=False, ordering="relaxed",
            label=self.region.fresh_label, allocate=self.region.allocate,
        )  # fmt: skip
        self.compiler_fence()

    def expect_aligned(self, space: str, address: Any, size: int, *, where: Value | None = None) -> None:
        expect_aligned(self, space, address, size, where)

    def copy_bytes(
        self, to: str, destination: Any, origin: str, source: Any, size: Value, *, where: Value | None = None
    ) -> None:
        copy_lanes(self, self.resolve(to, destination), self.resolve(origin, source), size, self.restricted(where))

    def reduce_bytes(
        self, operation: str, type_name: str, to: str, destination: Any, origin: str, source: Any, size: Value
    ) -> None:
        places = self.resolve(to, destination), self.resolve(origin, source)
        reduce_lanes(self, operation, type_name, *places, size, plain=to == "shared")

    def zero_bytes(self, space: str, address: Any, size: Value) -> None:
        zero_lanes(self, self.resolve(space, address), size)

    def address_value(self, space: str, address: Any) -> Value:
        if isinstance(address, SsaAddress):
            return operand_value(self.emitter, self.to_64(self.address_operand(address)[0]))
        if isinstance(address, Shaped):
            return operand_value(self.emitter, self.to_64(address))
        return self.emitter.resize(address, 64, signed=True)

    def fence(self, scope: str, semantics: str) -> None:
        if scope == "cta" and semantics != "sc":
            self.compiler_fence()
        else:
            self.emitter.line("fence seq_cst")

    # -- lanes -------------------------------------------------------------------------------------------------------

    def special_register(self, name: str) -> Value:
        return operand_value(self.emitter, special_value(self.region, name))

    def lane_index(self) -> Value:
        return self.emitter.vector_constant("i32", range(LANES))

    def shuffle(self, value: Value, source_lane: Value) -> Value:
        e = self.emitter
        if value.lanes == 1:
            return value
        constant = e.vector_elements(source_lane)
        if constant is not None:
            pattern = ", ".join(f"i32 {lane % LANES}" for lane in constant)
            return e.emit(
                value.type, LANES,
                f"shufflevector {value.typed}, {value.llvm_type} poison, <{LANES} x i32> <{pattern}>",
            )  # fmt: skip
        if source_lane.lanes == 1:
            lane = e.and_(source_lane, e.const("i32", LANES - 1))
            return e.emit(value.type, 1, f"extractelement {value.typed}, {lane.typed}")
        index = e.and_(source_lane, e.const("i32", LANES - 1))
        if value.type == "i32" and self.region.plan.target.avx512:
            return self.permute(value, index)
        slot = self.region.allocate(f"[{LANES} x {value.type}]")
        e.line(f"store {value.typed}, ptr {slot}, align 64")
        wide = e.cast("zext", index, "i64")
        address = Address(Shaped(e.mul(wide, e.const("i64", value.bits // 8))), Value("ptr", slot))
        return self.memory.gather(value.type, value.bits // 8, address, 0, Lanes(), "")

    def permute(self, value: Value, index: Value) -> Value:
        """Any lane from any lane with AVX-512's two-table permute."""
        e = self.emitter
        e.declare(X86_PERMUTE, f"declare <16 x i32> {X86_PERMUTE}(<16 x i32>, <16 x i32>, <16 x i32>)")
        low, high = self.memory.part(value, 0, 16), self.memory.part(value, 16, 16)
        halves = []
        for first in (0, 16):
            part = self.memory.part(index, first, 16)
            halves.append(e.emit("i32", 16, f"call <16 x i32> {X86_PERMUTE}({low.typed}, {part.typed}, {high.typed})"))
        return self.memory.concatenate(halves)

    def ballot(self, predicate: Value) -> Value:
        e = self.emitter
        bits = (
            e.select(predicate, e.const("i32", -1), e.const("i32", 0)) if predicate.lanes == 1 else self.bits(predicate)
        )
        return bits if self.lanes.full else e.and_(bits, self.active_mask())

    def bits(self, predicate: Value) -> Value:
        return self.emitter.emit("i32", 1, f"bitcast {predicate.typed} to i32")

    def active_mask(self) -> Value:
        return self.lanes.bits if self.lanes.bits is not None else self.emitter.const("i32", -1)

    def lane_of(self, value: Value, lane: Value) -> Value:
        if value.lanes == 1:
            return value
        index = self.emitter.and_(lane, self.emitter.const("i32", LANES - 1))
        return self.emitter.emit(value.type, 1, f"extractelement {value.typed}, {index.typed}")

    # -- barriers, services, addresses -------------------------------------------------------------------------------

    def barrier(self, kind: str, barrier: Value, threads: Value | None, predicate: Value | None = None) -> Value | None:
        """Notes the request for the region emitter, which stops the warp here; the result is what it resumes with."""
        value = self.ballot(predicate) if predicate is not None else None
        self.barrier_request = (kind, barrier, threads, value)
        if kind.startswith("red"):
            if self.barrier_result is not None:
                result = self.barrier_result
                return result if kind == "red.popc" else self.emitter.icmp("ne", result, self.emitter.const("i32", 0))
            return self.emitter.const("i32" if kind == "red.popc" else "i1", 0)
        return None

    def take_barrier_request(self) -> tuple[str, Value, Value | None, Value | None]:
        """What the last barrier instruction asked for."""
        request, self.barrier_request = self.barrier_request, None
        if request is None:
            raise AssertionError("a barrier instruction that asks for no barrier")
        return request

    def warp_sync(self, member_mask: Value) -> None:
        """The lanes of a warp that reach an instruction together execute it together; memory must be seen in order."""
        self.compiler_fence()

    def service(self, name: str, arguments: Sequence[Value], result_bits: int = 0) -> Value | None:
        e = self.emitter

        def one(lane: Value, scalars: list[Value]) -> Value | None:
            result = self.region.call_service(name, lane, scalars)
            if not result_bits:
                return None
            return e.resize(result, result_bits)

        return for_each_lane(
            e, self.lanes, list(arguments), f"i{result_bits}" if result_bits else None, one,
            unroll=False, label=self.region.fresh_label, allocate=self.region.allocate,
        )  # fmt: skip

    def texture(self, form: int, words: Sequence[Value]) -> list[Value]:
        return call_texture(self, form, words)

    def convert_address(self, space: str, address: Value, *, to_generic: bool) -> Value:
        e = self.emitter
        wide = e.cast("sext", address, "i64")
        if space == "shared":
            base = e.emit("i64", 1, f"ptrtoint {self.region.shared_origin().typed} to i64")
        elif space == "local":
            base = e.emit("i64", 1, f"ptrtoint {self.region.local_pointer().typed} to i64")
            if address.lanes > 1 or not self.region.converting_bases:
                stride = self.region.plan.layout_local_bytes
                base = e.add(base, e.vector_constant("i64", [lane * stride for lane in range(LANES)]))
        elif space == "param":
            base = e.emit("i64", 1, f"ptrtoint {self.region.parameters().typed} to i64")
        else:
            return address
        result = e.add(wide, base) if to_generic else e.sub(wide, base)
        return e.resize(result, address.bits) if address.bits != 64 else result

    def is_space(self, space: str, address: Value) -> Value:
        e = self.emitter
        region = self.region
        if space == "shared":
            # Between guard pages: nothing else can be there, and a pointer just outside still belongs to shared memory.
            base = e.emit("i64", 1, f"ptrtoint {region.pointer_field('shared').typed} to i64")
            size: Value = e.cast("zext", region.shared_bytes(), "i64")
            return e.icmp("ule", e.sub(address, base), size)
        if space == "cluster":
            if not region.plan.cluster_addresses:
                return self.is_space("shared", address)
            base = e.emit("i64", 1, f"ptrtoint {region.shared_origin().typed} to i64")
            blocks = self.special_register("%cluster_nctarank")
            size = e.mul(e.cast("zext", blocks, "i64"), e.const("i64", CLUSTER_STRIDE))
            return e.and_(e.icmp("ult", e.sub(address, base), size), self.in_a_blocks_memory(address, base))
        if space == "local":
            base = e.emit("i64", 1, f"ptrtoint {region.local_pointer().typed} to i64")
            return e.icmp("ult", e.sub(address, base), e.const("i64", LANES * region.plan.layout_local_bytes))
        if space == "param":
            base = e.emit("i64", 1, f"ptrtoint {region.parameters().typed} to i64")
            size = e.cast("zext", region.launch_field("parameter_bytes", 0), "i64")
            return e.icmp("ult", e.sub(address, base), size)
        if space == "const":
            inside: Value = e.const("i1", 0)
            for name in region.plan.layout.symbols:
                variable = region.plan.module.variables[name]
                if variable.space == "const":
                    begin = operand_value(e, region.symbol(Symbol(name, 0))[0])
                    within = e.icmp("ult", e.sub(address, begin), e.const("i64", max(variable.size_bytes, 1)))
                    inside = e.or_(inside, within)
            return inside
        # global: none of the others (a kernel's parameters and constants can be read as global memory as well)
        other = self.is_space("local", address), self.is_space("cluster", address), self.is_space("const", address)
        return e.not_(e.or_(e.or_(*other[:2]), other[2]))

    def in_a_blocks_memory(self, address: Value, base: Value) -> Value:
        """Whether an address in the cluster's window is one that a block of it has."""
        e = self.emitter
        place = e.and_(e.sub(address, base), e.const("i64", CLUSTER_STRIDE - 1))
        return e.icmp("ule", place, e.cast("zext", self.region.shared_bytes(), "i64"))

    def stack_pointer(self) -> Value:
        (word,) = self.memory.load("i64", 1, self.stack_word(), self.lanes, "")
        return word

    def move_stack(self, pointer: Value) -> None:
        e, region = self.emitter, self.region
        used = pointer if region.plan.is_entry else e.add(pointer, Value("i64", "%local"))
        over = e.icmp("ugt", e.splat(used, LANES), e.const("i64", region.plan.layout_local_bytes))
        fine, overflow = region.fresh_label("stack"), region.fresh_label("overflow")
        bits = self.ballot(over)
        e.line(f"br {e.icmp('eq', bits, e.const('i32', 0)).typed}, label %{fine}, label %{overflow}, !prof !10")
        region.label(overflow)
        assert self.instruction is not None
        region.trap(STACK_FAULT, self.instruction.location.line)
        region.label(fine)
        self.memory.store("i64", self.stack_word(), [e.splat(pointer, LANES)], self.lanes, "")

    def stack_word(self) -> Address:
        """Where each lane notes the end of its stack, for functions that use `alloca`."""
        place = self.emitter.const("i64", self.region.plan.stack_word)
        return Address(self.add_lane_stride(uniform(place)), self.region.local_pointer())

    def map_to_rank(self, address: Value, rank: Value, *, generic: bool) -> Value:
        e = self.emitter
        wide = e.resize(address, 64)
        base = e.emit("i64", 1, f"ptrtoint {self.region.shared_origin().typed} to i64")
        if generic:
            wide = e.sub(wide, base)
        place = e.and_(wide, e.const("i64", CLUSTER_STRIDE - 1))
        mapped = e.or_(place, e.shl(e.resize(rank, 64), e.const("i64", CLUSTER_STRIDE.bit_length() - 1)))
        return e.resize(e.add(mapped, base) if generic else mapped, address.bits)

    def rank_of(self, address: Value, *, generic: bool) -> Value:
        e = self.emitter
        wide = e.resize(address, 64)
        if generic:
            wide = e.sub(wide, e.emit("i64", 1, f"ptrtoint {self.region.shared_origin().typed} to i64"))
        return e.resize(e.lshr(wide, e.const("i64", CLUSTER_STRIDE.bit_length() - 1)), 32)

    def outline(
        self, name: str, operands: Sequence[Value], body: Callable[[Sequence[Value]], Sequence[Value]]
    ) -> Sequence[Value]:
        return call_outlined(self, name, operands, body)

    def refuse(self, reason: str, code: str = "PTX-0304") -> None:
        assert self.instruction is not None
        raise refusal(self.instruction, reason, code)
