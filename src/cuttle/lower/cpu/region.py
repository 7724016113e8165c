"""One region of a kernel as an LLVM function: from its entry, or from a resume point, to the next stops.

    i32 @region<k>(ptr block, i32 first_warp, i32 last_warp, i32 resume)

runs each warp of the range from resume point k until it stops (in large kernels one function has all resume points). The result is the resume point they all stopped at,
STEP_DONE if all are done, or MIXED; each warp's own resume point stands in `block->warps`. The text of blocks and edges is
in `blocks.py`; here are the function's frame, value slots, fields and stops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuttle.abi.kernel_abi import BLOCK, CLUSTER_STRIDE, LAUNCH, STEP_DONE, STOPS, WARP
from cuttle.abi.wire import Field
from cuttle.lower.cpu.avx512_emitter import Avx512Emitter
from cuttle.lower.cpu.machine import SERVICE_INDEX, WarpMachine
from cuttle.lower.cpu.options import Target
from cuttle.lower.cpu.plan import MASKED, KernelPlan, Stop
from cuttle.lower.cpu.shaped import Shaped, is_constant, materialise, uniform
from cuttle.lower.emit import Emitter, Value
from cuttle.lower.passes.shape import LANES, Shape
from cuttle.ptx.ir import Symbol

NONE_YET = 0xFFFF_FFFD
MIXED = 0xFFFF_FFFE
STOP_NUMBERS = {name: number for number, name in STOPS}
PRIVATE = ", !alias.scope !6, !noalias !9"
FIELD_BYTES = {"u8": 1, "u16": 2, "u32": 4, "i32": 4, "u64": 8}


def field_offset(members: tuple[Field, ...], name: str) -> int:
    """Byte offset of a member of a row struct with natural alignment."""
    offset = 0
    for member in members:
        size = FIELD_BYTES[member.type]
        offset = -(-offset // size) * size
        if member.name == name:
            return offset
        offset += size * member.count
    raise KeyError(name)


def new_emitter(target: Target) -> Emitter:
    return Avx512Emitter(bytes_too=target.avx512_bytes) if target.avx512 else Emitter()


class RegionEmitter:
    """State while one region function is written. `starts` are its resume points, None for the kernel's entry."""

    def __init__(self, plan: KernelPlan, starts: Sequence[Stop | None]) -> None:
        self.plan = plan
        self.options = plan.options
        self.starts = starts
        self.emitter = new_emitter(plan.target)
        self.prelude = Emitter("p")
        self.allocas: list[str] = []
        self.nowhere_slot: str | None = None
        self.zeroed: list[str] = []
        self.local: dict[int, Shaped] = {}
        self.clean: dict[int, Shaped] = {}
        self.fields: dict[str, Value] = {}
        self.declared: set[str] = set()
        self.labels = 0
        self.slots = 0
        self.warp = Value("i32", "%warp")
        self.block = Value("ptr", "%block")
        self.converting_bases = False
        self.machine = WarpMachine(self)
        self.plain_stops: list[int] = []
        # Lockstep (see lockstep.py): which warp's slots are meant, values that all warps share, and known constants.
        self.copy = ""
        self.shared_values: frozenset[int] | set[int] = frozenset()
        self.constants: dict[int, Shaped] = {}
        self.keeps_constants = False

    # -- names and slots ---------------------------------------------------------------------------------------------

    def fresh_label(self, stem: str) -> str:
        self.labels += 1
        return f"{stem}.{self.labels}"

    def remember(self) -> tuple[dict[int, Shaped], dict[int, Shaped]]:
        """What is known of values here, to be recalled after a side branch."""
        return dict(self.local), dict(self.clean)

    def recall(self, known: tuple[dict[int, Shaped], dict[int, Shaped]]) -> None:
        self.local, self.clean = dict(known[0]), dict(known[1])

    def forget(self) -> None:
        """At the start of a piece of code nothing is known."""
        self.local, self.clean = {}, {}

    def allocate(self, llvm_type: str) -> str:
        """A stack slot in the entry block."""
        self.slots += 1
        name = f"%slot{self.slots}"
        self.allocas.append(f"  {name} = alloca {llvm_type}, align 64")
        return name

    def nowhere(self) -> str:
        """64 bytes on the stack for accesses that no lane makes: images are read-only, and threads share them."""
        if self.nowhere_slot is None:
            self.nowhere_slot = self.allocate("[64 x i8]")
            self.allocas.append(f"  store [64 x i8] zeroinitializer, ptr {self.nowhere_slot}, align 64")
        return self.nowhere_slot

    def label(self, name: str) -> None:
        self.emitter.lines.append(f"{name}:")

    # -- values ------------------------------------------------------------------------------------------------------

    def parts(self, value: int) -> list[tuple[str, str, int]]:
        """The stack slots of a crossing value: (name, element type, lanes)."""
        info = self.plan.graph.values[value]
        element = f"i{info.bits}"
        shape = self.plan.shape(value)
        stem = f"%r{value}" if value in self.shared_values else f"%r{value}{self.copy}"
        if shape.is_vector:
            slots = [(stem, element, LANES)]
        elif shape.kind == "segmented":
            slots = [(f"{stem}.{index}", element, 1) for index in range(self.plan.segments)]
        else:
            slots = [(stem, element, 1)]
        if stem not in self.declared:
            self.declared.add(stem)
            for name, kind, lanes in slots:
                self.allocas.append(f"  {name} = alloca {Value(kind, '', lanes).llvm_type}, align 64")
        return slots

    def load_slot(self, value: int, name: str, element: str, lanes: int) -> Value:
        """What a value's slot holds. Values kept in memory are read with `volatile`: LLVM leaves their slots alone."""
        kind = "volatile " if value in self.plan.kept_in_memory else ""
        return self.emitter.emit(
            element, lanes, f"load {kind}{Value(element, '', lanes).llvm_type}, ptr {name}, align 64"
        )

    def store_slot(self, value: int, name: str, content: Value) -> None:
        kind = "volatile " if value in self.plan.kept_in_memory else ""
        self.emitter.line(f"store {kind}{content.typed}, ptr {name}, align 64")

    def read(self, value: int) -> Shaped:
        """A value where it is used."""
        known = self.constants.get(value) or self.local.get(value)
        if known is not None:
            return known
        info = self.plan.graph.values[value]
        if info.undefined:
            return uniform(self.emitter.const(f"i{info.bits}", 0))
        shape = self.plan.shape(value)
        loaded = [self.load_slot(value, *slot) for slot in self.parts(value)]
        shaped = Shaped(loaded[0]) if shape.is_vector else Shaped(None, tuple(loaded), shape.offsets)
        self.local[value] = shaped
        return shaped

    def conform(self, shaped: Shaped, shape: Shape) -> Shaped:
        """The value in the representation of `shape`, which must cover it."""
        if shape.is_vector:
            return Shaped(materialise(self.emitter, shaped))
        if shaped.vector is not None:
            raise AssertionError("a vector where the analysis promised scalars")
        bases = shaped.bases
        if shape.kind == "segmented" and len(bases) == 1:
            bases = bases * self.plan.segments
        return Shaped(None, bases, shape.offsets)

    def write(self, value: int, shaped: Shaped, *, blend: bool = False) -> None:
        """Defines a value; `blend` keeps what the inactive lanes had."""
        if self.keeps_constants and is_constant(shaped) and (self.machine.lanes.full or shaped.vector is None):
            self.constants[value] = shaped
        shaped = self.conform(shaped, self.plan.shape(value))
        if value in self.plan.crossing:
            slots = self.parts(value)
            if blend and shaped.vector is not None and not self.machine.lanes.full:
                name, element, lanes = slots[0]
                kept = self.load_slot(value, name, element, lanes)
                mask = self.machine.lanes.vector
                assert mask is not None
                shaped = Shaped(self.emitter.select(mask, shaped.vector, kept))
            elements = (shaped.vector,) if shaped.vector is not None else shaped.bases
            for (name, _, _), element_value in zip(slots, elements, strict=True):
                assert element_value is not None
                self.store_slot(value, name, element_value)
        self.local[value] = shaped
        self.clean.pop(value, None)

    # -- fields ------------------------------------------------------------------------------------------------------

    def once(self, key: str, make: Callable[[Emitter], Value]) -> Value:
        """A value computed once, in the function's entry block."""
        if key not in self.fields:
            self.fields[key] = make(self.prelude)
        return self.fields[key]

    def load_field(self, e: Emitter, base: Value, offset: int, element: str, *, invariant: bool) -> Value:
        place = e.emit("ptr", 1, f"getelementptr i8, {base.typed}, i64 {offset}")
        return e.emit(element, 1, f"load {element}, {place.typed}{', !invariant.load !0' if invariant else PRIVATE}")

    def block_field(self, name: str, index: int = 0) -> Value:
        offset = field_offset(BLOCK.fields, name) + 4 * index
        return self.once(f"{name}.{index}", lambda e: self.load_field(e, self.block, offset, "i32", invariant=False))

    def pointer_field(self, name: str) -> Value:
        offset = field_offset(BLOCK.fields, name)
        return self.once(name, lambda e: self.load_field(e, self.block, offset, "ptr", invariant=False))

    def launch_pointer(self) -> Value:
        return self.pointer_field("launch")

    def launch_field(self, name: str, index: int) -> Value:
        launch = self.launch_pointer()
        offset = field_offset(LAUNCH.fields, name) + 4 * index
        return self.once(f"l.{name}.{index}", lambda e: self.load_field(e, launch, offset, "i32", invariant=True))

    def launch_field64(self, name: str) -> Value:
        launch = self.launch_pointer()
        offset = field_offset(LAUNCH.fields, name)
        return self.once(f"l.{name}", lambda e: self.load_field(e, launch, offset, "i64", invariant=True))

    def launch_pointer_field(self, name: str) -> Value:
        launch = self.launch_pointer()
        offset = field_offset(LAUNCH.fields, name)
        return self.once(f"l.{name}", lambda e: self.load_field(e, launch, offset, "ptr", invariant=True))

    def cluster_rank(self) -> Value:
        """`%cluster_ctarank`: the block's number in its cluster, x fastest."""
        at = [self.block_field("ctaid", axis) for axis in range(3)]
        size = [self.launch_field("cluster", axis) for axis in range(3)]

        def rank(e: Emitter) -> Value:
            x, y, z = (e.binary("urem", at[axis], size[axis]) for axis in range(3))
            return e.add(x, e.mul(size[0], e.add(y, e.mul(size[1], z))))

        return self.once("cluster.rank", rank)

    def shared_offset(self) -> Value:
        """Where the block's own memory begins in the shared window: rank << 24 where that matters, else 0."""
        if not self.plan.cluster_addresses:
            return self.emitter.const("i64", 0)
        rank = self.cluster_rank()
        return self.once("shared.offset", lambda e: e.mul(e.cast("zext", rank, "i64"), e.const("i64", CLUSTER_STRIDE)))

    def shared_origin(self) -> Value:
        """The pointer that shared addresses count from: the block's own shared memory, or that of its cluster's first."""
        own = self.pointer_field("shared")
        if not self.plan.cluster_addresses:
            return own
        offset = self.shared_offset()

        def origin(e: Emitter) -> Value:
            return e.emit("ptr", 1, f"getelementptr i8, {own.typed}, {e.neg(offset).typed}")

        return self.once("shared.origin", origin)

    def shared_bytes(self) -> Value:
        """Static and dynamic shared memory of the block."""
        static, dynamic = (self.launch_field(f"{kind}_shared_bytes", 0) for kind in ("static", "dynamic"))
        return self.once("shared.bytes", lambda e: e.add(static, dynamic))

    def parameters(self) -> Value:
        return self.launch_pointer_field("parameters")

    def local_pointer(self) -> Value:
        """The warp's part of local memory."""
        base = self.pointer_field("local")
        e = self.emitter
        stride = LANES * self.plan.layout_local_bytes
        index = e.cast("zext", self.warp, "i64")
        mine = e.emit("ptr", 1, f"getelementptr [{stride} x i8], {base.typed}, {index.typed}")
        if self.plan.is_entry:
            return mine
        return e.emit("ptr", 1, f"getelementptr i8, {mine.typed}, i64 %local")

    def block_size(self, axis: int) -> Value:
        shape = self.options.block_shape
        return self.emitter.const("i32", shape[axis]) if shape is not None else self.launch_field("block", axis)

    def block_threads(self) -> Value:
        """Threads of the block, computed once."""
        threads = self.options.block_threads
        if threads is not None:
            return self.emitter.const("i32", threads)
        sizes = [self.launch_field("block", axis) for axis in range(3)]
        return self.once("threads", lambda e: e.mul(e.mul(sizes[0], sizes[1]), sizes[2]))

    # -- symbols -----------------------------------------------------------------------------------------------------

    def symbol_space(self, name: str) -> str | None:
        layout = self.plan.layout
        if name in layout.shared:
            return "shared"
        if name in layout.local:
            return "local"
        if any(parameter.name == name for parameter in self.plan.graph.function.parameters):
            return "param"
        return "param" if name in self.plan.formals else None

    def symbol(self, symbol: Symbol) -> tuple[Shaped, str | None]:
        """A symbol's address in its own space, and the space if it is shared, local or param."""
        e = self.emitter
        name = symbol.name
        space = self.symbol_space(name)
        layout = self.plan.layout
        if space == "shared":
            place = e.const("i64", layout.shared[name] + symbol.offset)
            return uniform(e.add(place, self.shared_offset()) if self.plan.cluster_addresses else place), space
        if space == "local":
            return uniform(e.const("i64", layout.local[name] + symbol.offset)), space
        if space == "param" and not self.plan.is_entry:
            return uniform(e.const("i64", self.plan.formals[name] + symbol.offset)), space
        if space == "param":
            parameter = next(p for p in self.plan.graph.function.parameters if p.name == name)
            return uniform(e.const("i64", parameter.offset + symbol.offset)), space
        name = self.plan.module.aliases.get(name, name)
        handle = self.plan.function_handles.get(name)
        if handle is not None:
            return uniform(e.const("i64", handle + symbol.offset)), None
        index = layout.symbol_index(name)
        table = self.launch_pointer_field("symbols")
        address = self.once(f"s.{name}", lambda p: self.load_field(p, table, 8 * index, "i64", invariant=True))
        return uniform(e.add(address, e.const("i64", symbol.offset)) if symbol.offset else address), None

    # -- services ----------------------------------------------------------------------------------------------------

    def call_service(self, name: str, lane: Value, arguments: list[Value]) -> Value:
        """One call of a host service for one lane; arguments are extended to i64."""
        e = self.emitter
        table = self.launch_pointer_field("services")
        place = e.emit("ptr", 1, f"getelementptr ptr, {table.typed}, i64 {SERVICE_INDEX[name]}")
        function = e.emit("ptr", 1, f"load ptr, {place.typed}, !invariant.load !0")
        thread = e.add(e.mul(self.warp, e.const("i32", LANES)), lane)
        wide = [e.cast("zext", argument, "i64").typed for argument in arguments]
        wide += ["i64 0"] * (4 - len(wide))
        return e.emit("i64", 1, f"call i64 {function.text}({self.block.typed}, {thread.typed}, {', '.join(wide)})")

    def scalar_service(self, name: str, arguments: list[Value]) -> Value:
        return self.call_service(name, self.emitter.const("i32", 0), arguments)

    def trap(self, fault: int, line: int, lane: Value | None = None, details: Sequence[Value] = ()) -> None:
        """Ends the executor with a fault of a lane; nothing after it is reached."""
        e = self.emitter
        self.call_service("trap", lane or e.const("i32", 0), [e.const("i64", fault), e.const("i64", line), *details])
        e.line("unreachable")

    # -- stops -------------------------------------------------------------------------------------------------------

    def warp_slot(self) -> Value:
        e = self.emitter
        warps = self.pointer_field("warps")
        index = e.cast("zext", self.warp, "i64")
        return e.emit("ptr", 1, f"getelementptr [{WARP.bytes} x i8], {warps.typed}, {index.typed}")

    def store_warp(self, slot: Value, name: str, value: Value) -> None:
        e = self.emitter
        place = e.emit("ptr", 1, f"getelementptr i8, {slot.typed}, i64 {field_offset(WARP.fields, name)}")
        e.line(f"store {value.typed}, {place.typed}{PRIVATE}")

    def load_warp(self, slot: Value, name: str) -> Value:
        e = self.emitter
        place = e.emit("ptr", 1, f"getelementptr i8, {slot.typed}, i64 {field_offset(WARP.fields, name)}")
        return e.emit("i32", 1, f"load i32, {place.typed}{PRIVATE}")

    def frame_pointer(self, offset: int) -> Value:
        e = self.emitter
        base = self.pointer_field("frame")
        index = e.cast("zext", self.warp, "i64")
        mine = e.emit("ptr", 1, f"getelementptr [{self.plan.frame_bytes} x i8], {base.typed}, {index.typed}")
        return e.emit("ptr", 1, f"getelementptr i8, {mine.typed}, i64 {offset}")

    def leave(self, resume: int) -> None:
        """Notes where the warp goes on and takes the next warp."""
        e = self.emitter
        common = e.emit("i32", 1, "load i32, ptr %common")
        first = e.icmp("eq", common, e.const("i32", NONE_YET))
        same = e.icmp("eq", common, e.const("i32", resume))
        merged = e.select(same, common, e.const("i32", MIXED))
        result = e.select(first, e.const("i32", resume), merged)
        e.line(f"store {result.typed}, ptr %common")
        e.line("br label %warp.next")

    def finish_warp(self) -> None:
        e = self.emitter
        if not self.plan.is_entry:
            e.line("ret void")
            return
        if self.plan.stops:
            slot = self.warp_slot()
            self.store_warp(slot, "resume", e.const("i32", STEP_DONE))
            self.store_warp(slot, "stop", e.const("i32", STOP_NUMBERS["done"]))
        self.leave(STEP_DONE)

    def stop(self, stop: Stop, kind: str | Value, barrier: Value, threads: Value | None, value: Value | None) -> None:
        """Saves what lives on and leaves the warp's code. `kind` is a name of STOPS, or its number as a value."""
        e = self.emitter
        plan = self.plan
        for value_id in plan.saved_at(stop):
            shaped = self.read(value_id)
            self.save(plan.frame[value_id], shaped)
        if stop.version == MASKED:
            for block in sorted(plan.pending_at(stop)):
                offset = plan.mask_frame[block]
                mask = e.emit("i32", 1, f"load i32, ptr {self.mask_slot(block)}")
                if stop.loop < 0 and block == stop.block:
                    mask = self.current_bits()
                e.line(f"store {mask.typed}, {self.frame_pointer(offset).typed}{PRIVATE}")
            for name, offset in plan.gate_frame.items():
                bits = e.emit("i32", 1, f"load i32, ptr {self.gate_slot(name)}")
                e.line(f"store {bits.typed}, {self.frame_pointer(offset).typed}{PRIVATE}")
        slot = self.warp_slot()
        self.store_warp(slot, "resume", e.const("i32", stop.identifier))
        self.store_warp(slot, "stop", e.const("i32", STOP_NUMBERS[kind]) if isinstance(kind, str) else kind)
        self.store_warp(slot, "barrier", barrier)
        self.store_warp(slot, "threads", threads if threads is not None else e.const("i32", 0))
        whole = threads is None or (threads.constant is not None and threads.constant == self.options.block_threads)
        if kind == "barrier_sync" and whole and barrier.constant is not None:
            self.plain_stops.append(stop.identifier)
        if value is not None:
            self.store_warp(slot, "value", value)
            self.store_warp(slot, "active", self.current_bits())
        self.leave(stop.identifier)

    def current_bits(self) -> Value:
        return self.machine.lanes.bits if self.machine.lanes.bits is not None else self.emitter.const("i32", -1)

    def save(self, offset: int, shaped: Shaped) -> None:
        e = self.emitter
        elements = (shaped.vector,) if shaped.vector is not None else shaped.bases
        for element in elements:
            assert element is not None
            if element.type == "i1":
                if element.lanes > 1:
                    element = e.emit("i32", 1, f"bitcast {element.typed} to i32")
                else:
                    element = e.cast("zext", element, "i8")
            size = element.bits * element.lanes // 8
            e.line(f"store {element.typed}, {self.frame_pointer(offset).typed}, align {min(size, 64)}{PRIVATE}")
            offset += size

    def restore(self, stop: Stop) -> None:
        """Loads what `stop` saved into the value slots."""
        e = self.emitter
        for value_id in self.plan.saved_at(stop):
            offset = self.plan.frame[value_id]
            for name, element, lanes in self.parts(value_id):
                stored, stored_lanes = element, lanes
                if element == "i1":
                    stored, stored_lanes = ("i32", 1) if lanes > 1 else ("i8", 1)
                kind = Value(stored, "", stored_lanes)
                size = kind.bits * stored_lanes // 8
                place = self.frame_pointer(offset)
                loaded = e.emit(
                    stored, stored_lanes, f"load {kind.llvm_type}, {place.typed}, align {min(size, 64)}{PRIVATE}"
                )
                if element == "i1" and lanes > 1:
                    loaded = e.emit("i1", lanes, f"bitcast {loaded.typed} to <{lanes} x i1>")
                elif element == "i1":
                    loaded = e.cast("trunc", loaded, "i1")
                self.store_slot(value_id, name, loaded)
                offset += size
        if stop.version == MASKED:
            for block in sorted(self.plan.pending_at(stop)):
                offset = self.plan.mask_frame[block]
                mask = e.emit("i32", 1, f"load i32, {self.frame_pointer(offset).typed}{PRIVATE}")
                e.line(f"store {mask.typed}, ptr {self.mask_slot(block)}")
            for name, offset in self.plan.gate_frame.items():
                bits = e.emit("i32", 1, f"load i32, {self.frame_pointer(offset).typed}{PRIVATE}")
                e.line(f"store {bits.typed}, ptr {self.gate_slot(name)}")

    # -- masks -------------------------------------------------------------------------------------------------------

    def mask_slot(self, block: int) -> str:
        """The slot that says which lanes wait to execute a block."""
        return self.zeroed_slot(f"%wait{block}", "i32", 4)

    def gate_slot(self, name: str, llvm_type: str = "i32") -> str:
        """A slot of the state of gates (`gates.py`): no lanes, to begin with."""
        return self.zeroed_slot(f"%gate.{name}", llvm_type, 64)

    def zeroed_slot(self, slot: str, llvm_type: str, align: int) -> str:
        if slot not in self.declared:
            self.declared.add(slot)
            self.allocas.append(f"  {slot} = alloca {llvm_type}, align {align}")
            self.zeroed.append(f"  store {llvm_type} zeroinitializer, ptr {slot}")
        return slot

    def add_waiting(self, block: int, bits: Value) -> None:
        e = self.emitter
        slot = self.mask_slot(block)
        old = e.emit("i32", 1, f"load i32, ptr {slot}")
        new = e.or_(old, bits)
        e.line(f"store {new.typed}, ptr {slot}")
