"""A plain warp of 32 lanes for tests: every cross-lane and memory operation lane by lane, all under one mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.ops.dispatch import refusal

LANES = 32


class WarpMachine:
    """`mask` is a uniform i32 value: the active lanes. Addresses are i64 values (`<32 x i64>` or uniform)."""

    def __init__(self, emitter: Emitter, mask: Value) -> None:
        self.emitter = emitter
        self.mask = mask

    def refuse(self, reason: str, code: str = "PTX-0304") -> NoReturn:
        raise refusal("test", reason, code)

    def outline(
        self, name: str, operands: Sequence[Value], body: Callable[[Sequence[Value]], Sequence[Value]]
    ) -> Sequence[Value]:
        return body(operands)

    def _lanes(self, where: Value | None = None) -> Value:
        bits = self.emitter.emit("i1", LANES, f"bitcast {self.mask.typed} to <{LANES} x i1>")
        return bits if where is None else self.emitter.and_(bits, where)

    def _each(self, active: Value, body: Any) -> None:
        """Run `body(lane)` under a branch for each active lane."""
        e = self.emitter
        for lane in range(LANES):
            tag = e.name()[1:]
            flag = e.extract(active, lane)
            e.line(f"br i1 {flag.text}, label %then{tag}, label %next{tag}")
            e.lines.append(f"then{tag}:")
            body(lane)
            e.line(f"br label %next{tag}")
            e.lines.append(f"next{tag}:")

    def _slot(self, bits: int) -> str:
        name = self.emitter.name()
        self.emitter.line(f"{name} = alloca [{LANES} x i{bits}], align 64")
        return name

    def _pointer(self, address: Value, lane: int, offset: int) -> str:
        e = self.emitter
        place = e.add(e.resize(e.extract(address, lane), 64), e.const("i64", offset))
        name = e.name()
        e.line(f"{name} = inttoptr {place.typed} to ptr")
        return name

    def expect_aligned(self, space: str, address: Any, size: int, *, where: Value | None = None) -> None:
        """Tests of single operations use aligned addresses."""

    def load(
        self, space: str, bits: int, count: int, address: Any, *, ordering: str = "weak", read_only: bool = False,
        where: Value | None = None
    ) -> list[Value]:  # fmt: skip
        e = self.emitter
        values = []
        for index in range(count):
            slot = self._slot(bits)
            e.line(f"store <{LANES} x i{bits}> zeroinitializer, ptr {slot}, align 64")

            def one(lane: int, slot: str = slot, index: int = index) -> None:
                value = e.emit(
                    f"i{bits}", 1, f"load i{bits}, ptr {self._pointer(address, lane, index * bits // 8)}, align 1"
                )
                element = e.name()
                e.line(f"{element} = getelementptr i{bits}, ptr {slot}, i64 {lane}")
                e.line(f"store {value.typed}, ptr {element}, align 1")

            self._each(self._lanes(where), one)
            values.append(e.emit(f"i{bits}", LANES, f"load <{LANES} x i{bits}>, ptr {slot}, align 64"))
        return values

    def store(
        self, space: str, bits: int, address: Any, values: Sequence[Value], *, ordering: str = "weak",
        where: Value | None = None
    ) -> None:  # fmt: skip
        def one(lane: int) -> None:
            for index, value in enumerate(values):
                item = self.emitter.extract(value, lane)
                self.emitter.line(f"store {item.typed}, ptr {self._pointer(address, lane, index * bits // 8)}, align 1")

        self._each(self._lanes(where), one)

    def atomic(
        self, operation: str, type_name: str, space: str, address: Any, operands: Sequence[Value], *,
        want_result: bool, ordering: str, scope: str, where: Value | None = None
    ) -> Value:  # fmt: skip
        """Additions of 64-bit words, lane after lane."""
        assert (operation, type_name) == ("add", "u64")
        e = self.emitter
        amounts = e.splat(operands[0], LANES)
        slot = self._slot(64)
        e.line(f"store <{LANES} x i64> zeroinitializer, ptr {slot}, align 64")

        def one(lane: int) -> None:
            pointer = self._pointer(address, lane, 0)
            old = e.emit("i64", 1, f"load i64, ptr {pointer}, align 8")
            e.line(f"store {e.add(old, e.extract(amounts, lane)).typed}, ptr {pointer}, align 8")
            element = e.name()
            e.line(f"{element} = getelementptr i64, ptr {slot}, i64 {lane}")
            e.line(f"store {old.typed}, ptr {element}, align 8")

        self._each(self._lanes(where), one)
        return e.emit("i64", LANES, f"load <{LANES} x i64>, ptr {slot}, align 64")

    def advance(self, address: Any, offset: int | Value) -> Any:
        if isinstance(offset, int):
            offset = self.emitter.const("i64", offset)
        return self.emitter.add(address, offset)

    def lane_index(self) -> Value:
        return self.emitter.vector_constant("i32", list(range(LANES)))

    def shuffle(self, value: Value, source_lane: Value) -> Value:
        e = self.emitter
        value, source_lane = e.splat(value, LANES), e.splat(source_lane, LANES)
        result = e.poison(value.type, LANES)
        for lane in range(LANES):
            index = e.extract(source_lane, lane)
            result = e.insert(result, lane, e.emit(value.type, 1, f"extractelement {value.typed}, {index.typed}"))
        return result

    def lane_of(self, value: Value, lane: Value) -> Value:
        value = self.emitter.splat(value, LANES)
        return self.emitter.emit(value.type, 1, f"extractelement {value.typed}, {lane.typed}")

    def ballot(self, predicate: Value) -> Value:
        predicate = self.emitter.splat(predicate, LANES)
        bits = self.emitter.emit("i32", 1, f"bitcast {predicate.typed} to i32")
        return self.emitter.and_(bits, self.mask)

    def active_mask(self) -> Value:
        return self.mask

    def warp_sync(self, member_mask: Value) -> None:
        pass
