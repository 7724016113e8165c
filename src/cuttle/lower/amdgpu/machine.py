"""The AMDGPU `Machine`: a lane is a work-item, values are scalars. See `lower/machine.py` for what each method means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from cuttle.abi.ptx_isa.refused_on_amdgpu import ATOMICS_128, BARRIER_IN_FUNCTION, CLUSTERS
from cuttle.lower.amdgpu import bulk, lanes
from cuttle.lower.amdgpu.atomics import Atomics
from cuttle.lower.amdgpu.barriers import Barriers
from cuttle.lower.amdgpu.memory import LDS, SCRATCH, Memory, Moved
from cuttle.lower.amdgpu.outline import call_outlined, is_shared
from cuttle.lower.amdgpu.services import Services
from cuttle.lower.amdgpu.special import special_value
from cuttle.lower.emit import Value
from cuttle.lower.ops.dispatch import refusal
from cuttle.lower.passes.graph import SsaAddress
from cuttle.lower.without_clusters import WithoutClusters
from cuttle.ptx.ir import Instruction

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

STACK_FAULT = 5
STACK_WORD = "ptr addrspace(5) %stack.word"
SCOPES = {"cta": 'syncscope("workgroup") ', "cluster": 'syncscope("agent") ', "gpu": 'syncscope("agent") ', "sys": ""}
ORDERINGS = {"weak": "monotonic", "volatile": "monotonic", "relaxed": "monotonic", "acquire": "acquire",
             "release": "release", "acq_rel": "acq_rel", "sc": "seq_cst"}  # fmt: skip


class LaneMachine(WithoutClusters):
    """Implements `cuttle.lower.machine.Machine` for one lane per work-item of a wave of 32."""

    def __init__(self, writer: FunctionWriter) -> None:
        self.writer = writer
        self.emitter = writer.emitter
        self.memory = Memory(writer)
        self.atomics = Atomics(writer)
        self.barriers = Barriers(writer)
        self.services = Services(writer)
        self.instruction: Instruction | None = None
        self.result_unused = False

    def outline(
        self, name: str, operands: Sequence[Value], body: Callable[[Sequence[Value]], Sequence[Value]]
    ) -> Sequence[Value]:
        if not is_shared(self.writer, name):
            return body(operands)
        return call_outlined(self.writer, name, operands, body)

    def refuse(self, reason: str, code: str = "PTX-0304") -> NoReturn:
        raise refusal(self.instruction or "amdgpu", reason, code)

    # -- memory ------------------------------------------------------------------------------------------------------

    def advance(self, address: Any, offset: int | Value) -> Any:
        if isinstance(offset, int) and isinstance(address, SsaAddress):
            return SsaAddress(address.base, address.offset + offset)
        amount = self.emitter.const("i64", offset) if isinstance(offset, int) else offset
        amount = self.emitter.resize(amount, 64, signed=True)
        if isinstance(address, Value):
            return self.emitter.add(self.emitter.resize(address, 64), amount)
        if isinstance(address, Moved):
            return Moved(address.base, self.emitter.add(address.amount, amount))
        return Moved(address, amount)

    def load(
        self, space: str, bits: int, count: int, address: Any, *, ordering: str = "weak", read_only: bool = False,
        where: Value | None = None
    ) -> list[Value]:  # fmt: skip
        if where is None:
            return self.memory.load(space, bits, count, address, ordering, read_only=read_only)
        zeros = [self.emitter.const(f"i{bits}", 0)] * count
        return self.writer.when(
            where, lambda: self.memory.load(space, bits, count, address, ordering, read_only=read_only), zeros
        )

    def store(
        self, space: str, bits: int, address: Any, values: Sequence[Value], *, ordering: str = "weak",
        where: Value | None = None
    ) -> None:  # fmt: skip
        def store() -> list[Value]:
            self.memory.store(space, bits, address, [self.emitter.as_bits(value) for value in values], ordering)
            return []

        if where is None:
            store()
        else:
            self.writer.when(where, store, [])

    def atomic(
        self, operation: str, type_name: str, space: str, address: Any, operands: Sequence[Value], *,
        want_result: bool, ordering: str, scope: str, where: Value | None = None
    ) -> Value | None:  # fmt: skip
        if where is not None:
            self.refuse("atomics of some lanes are not there on this device")
        number, pointer = self.memory.pointer(space, address)
        values = [self.emitter.as_bits(operand) for operand in operands]
        if values[0].bits > 64:
            self.refuse("128-bit atomics", ATOMICS_128.code)
        order = f"{SCOPES['cta'] if number == 3 else SCOPES[scope]}{ORDERINGS[ordering]}"
        unused = not want_result or self.result_unused
        return self.atomics.atomic(operation, type_name, number, pointer, values, order, unused=unused)

    def copy_bytes(
        self, to: str, destination: Any, origin: str, source: Any, size: Value, *, where: Value | None = None
    ) -> None:
        def copy() -> list[Value]:
            bulk.copy_bytes(self.writer, to, destination, origin, source, size)
            return []

        if where is None:
            copy()
        else:
            self.writer.when(where, copy, [])

    def reduce_bytes(
        self, operation: str, type_name: str, to: str, destination: Any, origin: str, source: Any, size: Value
    ) -> None:
        bulk.reduce_bytes(self.writer, operation, type_name, to, destination, origin, source, size)

    def expect_aligned(self, space: str, address: Any, size: int, *, where: Value | None = None) -> None:
        """Not looked at: the hardware carries out misaligned accesses (docs/design/amdgpu.md)."""

    def zero_bytes(self, space: str, address: Any, size: Value) -> None:
        bulk.zero_bytes(self.writer, space, address, size)

    def address_value(self, space: str, address: Any) -> Value:
        number, pointer = self.memory.pointer(space, address)
        bits = 32 if number in (LDS, SCRATCH) else 64
        return self.emitter.resize(self.emitter.emit(f"i{bits}", 1, f"ptrtoint {pointer} to i{bits}"), 64)

    def fence(self, scope: str, semantics: str) -> None:
        self.emitter.line(f"fence {SCOPES[scope]}{ORDERINGS[semantics]}")

    def stack_pointer(self) -> Value:
        e = self.emitter
        return e.cast("zext", e.emit("i32", 1, f"load i32, {STACK_WORD}, align 4"), "i64")

    def move_stack(self, pointer: Value) -> None:
        e, writer = self.emitter, self.writer
        start = Value("i32", "%stack.start")
        used = e.sub(pointer, e.cast("zext", start, "i64"))
        assert self.instruction is not None
        line = self.instruction.location.line

        def overflow() -> list[Value]:
            self.services.trap(STACK_FAULT, line)
            return []

        writer.when(e.icmp("ugt", used, e.const("i64", writer.plan.options.stack_bytes)), overflow, [])
        e.line(f"store {e.resize(pointer, 32).typed}, {STACK_WORD}, align 4")

    def map_to_rank(self, address: Value, rank: Value, *, generic: bool) -> Value:
        self.refuse("clusters", CLUSTERS.code)

    def rank_of(self, address: Value, *, generic: bool) -> Value:
        self.refuse("clusters", CLUSTERS.code)

    # -- lanes -------------------------------------------------------------------------------------------------------

    def special_register(self, name: str) -> Value:
        return special_value(self.writer, name)

    def lane_index(self) -> Value:
        e = self.emitter
        return self.writer.call("i32", "llvm.amdgcn.mbcnt.lo", e.const("i32", -1), e.const("i32", 0))

    def shuffle(self, value: Value, source_lane: Value) -> Value:
        pattern = lanes.constant_pattern(self.instruction) if self.instruction is not None else None
        return lanes.shuffle(self.writer, value, source_lane, pattern)

    def lane_of(self, value: Value, lane: Value) -> Value:
        return lanes.by_words(self.writer, value, lambda word: lanes.read_lane(self.writer, word, lane))

    def ballot(self, predicate: Value) -> Value:
        return self.writer.call("i32", "llvm.amdgcn.ballot.i32", predicate)

    def active_mask(self) -> Value:
        return self.ballot(self.emitter.const("i1", 1))

    # -- barriers, services, addresses -------------------------------------------------------------------------------

    def barrier(self, kind: str, barrier: Value, threads: Value | None, predicate: Value | None = None) -> Value | None:
        if not self.writer.plan.is_entry:
            self.refuse("a barrier in a function that is called for real", BARRIER_IN_FUNCTION.code)
        if kind.startswith("cluster"):
            self.refuse("clusters", CLUSTERS.code)
        return self.barriers.barrier(kind, barrier, threads, predicate)

    def warp_sync(self, member_mask: Value) -> None:
        """Lanes that reach the instruction together execute it together; memory must be seen in order."""
        self.emitter.line('fence syncscope("wavefront") acq_rel')
        self.writer.call("void", "llvm.amdgcn.wave.barrier")

    def service(self, name: str, arguments: Sequence[Value], result_bits: int = 0) -> Value | None:
        return self.services.call(name, list(arguments), result_bits)

    def convert_address(self, space: str, address: Value, *, to_generic: bool) -> Value:
        return self.memory.convert_address(space, address, to_generic=to_generic)

    def is_space(self, space: str, address: Value) -> Value:
        return self.memory.is_space("shared" if space == "cluster" else space, address)
