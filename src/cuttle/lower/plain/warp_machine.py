"""The `Machine` of operations across a warp: every value is a vector of 32 lanes.

Code is emitted into the body of `void @cross<n>(ptr %block, i32 %warp, i32 %lanes, ptr %states)`, where `%lanes` are the lanes
that execute it together. Registers are fetched from each lane's activation before and written back after, by small functions
with a loop over the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuttle.lower.emit import Value
from cuttle.lower.ops.dispatch import refusal
from cuttle.lower.plain.lane_loops import (
    gather,
    lane_local_bases,
    read_registers,
    scatter,
    shuffle_lanes,
    write_registers,
)
from cuttle.lower.plain.lane_machine import LANE_MASKS, MISALIGNED_FAULT
from cuttle.lower.plain.places import LANES, Place, Structures
from cuttle.lower.plain.program import CARRY, Activation, Program
from cuttle.lower.without_clusters import WithoutClusters
from cuttle.ptx.ir import TYPE_BITS, Instruction


class WarpMachine(Structures, WithoutClusters):
    """See `lower/machine.py` for what each method means."""

    def __init__(self, program: Program, activation: Activation) -> None:
        super().__init__(program, activation)
        self.instruction: Instruction | None = None
        self.where: Value | None = None

    # -- registers ---------------------------------------------------------------------------------------------------

    def register_bits(self, name: str) -> int:
        return 1 if name == CARRY else TYPE_BITS[self.activation.function.registers[name]]

    def read_register(self, name: str) -> Value:
        bits = self.register_bits(name)
        at = self.activation.registers[name]
        value = read_registers(self.emitter, f"i{max(bits, 8)}", at, self.program.local_bytes)
        return self.emitter.resize(value, bits)

    def write_register(self, name: str, value: Value) -> None:
        wide = self.emitter.splat(self.emitter.resize(value, max(value.bits, 8)), LANES)
        write_registers(self.emitter, wide, self.activation.registers[name], self.program.local_bytes)

    def bases(self) -> Value:
        """Where each lane's activation begins in its local memory (i64)."""
        return self.emitter.cast("zext", read_registers(self.emitter, "i32", -1, self.program.local_bytes), "i64")

    # -- memory ------------------------------------------------------------------------------------------------------

    def as_place(self, address: Any) -> Place:
        return address if isinstance(address, Place) else Place(self.emitter.resize(address, 64, signed=True))

    def addresses(self, space: str, address: Any, offset: int) -> Value:
        """Absolute addresses, one per lane."""
        e = self.emitter
        place = self.as_place(address)
        space = self.space_of(place, space)
        value = e.add(e.splat(place.value, LANES), e.const("i64", offset))
        if space == "local":
            return e.add(value, lane_local_bases(e, self.program.local_bytes))
        if space in ("shared", "param"):
            pointer = self.shared_memory() if space == "shared" else self.parameters()
            return e.add(value, e.emit("i64", 1, f"ptrtoint {pointer.typed} to i64"))
        return value

    def advance(self, address: Any, offset: int | Value) -> Place:
        place = self.as_place(address)
        amount = self.emitter.const("i64", offset) if isinstance(offset, int) else offset
        return Place(self.emitter.add(place.value, amount), place.space)

    def active(self, where: Value | None) -> Value:
        if where is None:
            return Value("i32", "%lanes")
        chosen = self.emitter.emit("i32", 1, f"bitcast {self.emitter.splat(where, LANES).typed} to i32")
        return self.emitter.and_(chosen, Value("i32", "%lanes"))

    def load(
        self, space: str, bits: int, count: int, address: Any, *, ordering: str = "weak", read_only: bool = False,
        where: Value | None = None
    ) -> list[Value]:  # fmt: skip
        active = self.active(where)
        return [
            gather(self.emitter, f"i{bits}", self.addresses(space, address, index * bits // 8), active)
            for index in range(count)
        ]

    def store(
        self, space: str, bits: int, address: Any, values: Sequence[Value], *, ordering: str = "weak",
        where: Value | None = None
    ) -> None:  # fmt: skip
        e = self.emitter
        active = self.active(where)
        for index, value in enumerate(values):
            content = e.splat(e.as_bits(value), LANES)
            scatter(e, self.addresses(space, address, index * bits // 8), content, active)

    def atomic(
        self, operation: str, type_name: str, space: str, address: Any, operands: Sequence[Value], *,
        want_result: bool, ordering: str, scope: str, where: Value | None = None
    ) -> Value | None:  # fmt: skip
        if where is not None:
            self.refuse("atomics of some lanes are not there on this device")
        self.refuse("an atomic operation of a whole warp")
        return None

    def expect_aligned(self, space: str, address: Any, size: int, *, where: Value | None = None) -> None:
        if size <= 1:
            return
        e = self.emitter
        value = e.splat(self.as_place(address).value, LANES)
        low = e.and_(value, e.splat(e.const("i64", size - 1), LANES))
        found = e.splat(e.icmp("ne", low, e.const("i64", 0)), LANES)
        wrong = e.and_(e.emit("i32", 1, f"bitcast {found.typed} to i32"), self.active(where))
        fine, misaligned = self.label("aligned"), self.label("misaligned")
        e.line(f"br {e.icmp('eq', wrong, e.const('i32', 0)).typed}, label %{fine}, label %{misaligned}")
        self.mark(misaligned)
        lane = e.and_(e.intrinsic("llvm.cttz", [wrong, e.const("i1", 0)]), e.const("i32", LANES - 1))
        thread = e.add(e.mul(Value("i32", "%warp"), e.const("i32", LANES)), lane)
        assert self.instruction is not None
        line = e.const("i64", self.instruction.location.line)
        details = [e.const("i64", MISALIGNED_FAULT), line, self.lane_of(value, lane), e.const("i64", size)]
        self.call_service("trap", thread, details)
        e.line(f"br label %{fine}")
        self.mark(fine)

    def fence(self, scope: str, semantics: str) -> None:
        self.emitter.line("fence seq_cst")

    # -- lanes -------------------------------------------------------------------------------------------------------

    def special_register(self, name: str) -> Value:
        if name == "%laneid":
            return self.lane_index()
        if name.startswith("%lanemask_"):
            one, minus = LANE_MASKS[name[-2:]]
            flip = -1 if name[-2:] in ("ge", "gt") else 0
            masks = [((one << lane) + minus & 0xFFFF_FFFF) ^ flip for lane in range(LANES)]
            return self.emitter.vector_constant("i32", masks)
        if name == "WARP_SZ":
            return self.emitter.const("i32", LANES)
        self.refuse(f"special register {name} in an operation across the warp")
        raise AssertionError

    def lane_index(self) -> Value:
        return self.emitter.vector_constant("i32", range(LANES))

    def shuffle(self, value: Value, source_lane: Value) -> Value:
        e = self.emitter
        if value.lanes == 1:
            return value
        integer = e.as_bits(value)
        if integer.type == "i1":
            wide = shuffle_lanes(e, e.cast("zext", integer, "i8"), e.splat(source_lane, LANES))
            return e.cast("trunc", wide, "i1")
        return e.bitcast(shuffle_lanes(e, integer, e.splat(source_lane, LANES)), value.type)

    def lane_of(self, value: Value, lane: Value) -> Value:
        if value.lanes == 1:
            return value
        index = self.emitter.and_(lane, self.emitter.const("i32", LANES - 1))
        return self.emitter.emit(value.type, 1, f"extractelement {value.typed}, {index.typed}")

    def ballot(self, predicate: Value) -> Value:
        return self.active(predicate)

    def active_mask(self) -> Value:
        return Value("i32", "%lanes")

    def warp_sync(self, member_mask: Value) -> None:
        """The scheduler has waited for the lanes of the mask."""

    # -- barriers, services, addresses -------------------------------------------------------------------------------

    def barrier(self, kind: str, barrier: Value, threads: Value | None, predicate: Value | None = None) -> Value | None:
        raise AssertionError("barriers are not operations across a warp")

    def service(self, name: str, arguments: Sequence[Value], result_bits: int = 0) -> Value | None:
        raise AssertionError("services are called lane by lane")

    def convert_address(self, space: str, address: Value, *, to_generic: bool) -> Value:
        if space != "shared":
            return address
        e = self.emitter
        base = e.emit("i64", 1, f"ptrtoint {self.shared_memory().typed} to i64")
        wide = e.resize(address, 64, signed=True)
        return e.resize(e.add(wide, base) if to_generic else e.sub(wide, base), address.bits)

    def is_space(self, space: str, address: Value) -> Value:
        self.refuse("a look at the spaces of addresses, for a whole warp")
        raise AssertionError

    def refuse(self, reason: str, code: str = "PTX-0304") -> None:
        assert self.instruction is not None
        raise refusal(self.instruction, reason, code)
