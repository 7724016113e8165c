"""Loads and stores of a warp, by the shape of their addresses.

| address                                   | full warp                     | some lanes                    |
| ----------------------------------------- | ----------------------------- | ----------------------------- |
| uniform                                   | scalar load                   | scalar load (safe pointer)    |
| base + lane * size (per run of lanes)     | vector loads, joined          | masked vector loads           |
| base + lane * n * size, n-element access  | wide load and de-interleave   | masked gathers                |
| anything else                             | gather                        | masked gather                 |

Addresses are bytes. A *run* is a group of 4 (of 16 bytes and more), 8, 16 or 32 neighbouring lanes whose offsets are consecutive or all equal.

Where lanes store to one place with one instruction, PTX does not say whose value stays, but programs count on what the
hardware does (found on an H200, the same in shared and global memory): the warp's lanes store 128 bytes at a time, all 32
if a lane stores up to 4 bytes, 16 of them for 8 bytes, 8 for 16; a later group overwrites an earlier one, and within
a group the lowest active lane wins. So lanes are stored group by group, each group from its highest lane down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuttle.lower.cpu.narrow_access import has_instruction, masked_gather, masked_scatter
from cuttle.lower.cpu.shaped import Shaped, materialise
from cuttle.lower.emit import Emitter, Value
from cuttle.lower.passes.shape import LANES


@dataclass(frozen=True, slots=True)
class Address:
    """A byte address with its shape; pointers are `origin` (an LLVM pointer, None for absolute) plus these i64 bytes."""

    shaped: Shaped
    origin: Value | None = None


@dataclass(slots=True)
class AccessCounts:
    """What the benchmark report shows of a kernel."""

    plain: int = 0
    gathers: int = 0
    scatters: int = 0
    scalar: int = 0


@dataclass(frozen=True, slots=True)
class Lanes:
    """The active lanes: None is all of them; else the mask as bits (i32) and as a vector of i1.

    `maybe_none` says that no lane at all may be active.
    """

    bits: Value | None = None
    vector: Value | None = None
    maybe_none: bool = False

    @property
    def full(self) -> bool:
        return self.vector is None


class Memory:
    """Emits accesses; `note` is the alias annotation of the state space (`, !noalias ...` or empty)."""

    def __init__(self, emitter: Emitter, counts: AccessCounts, nowhere: Callable[[], str], avx512: bool) -> None:
        self.emitter = emitter
        self.counts = counts
        self.nowhere = nowhere
        self.avx512 = avx512

    # -- pointers ----------------------------------------------------------------------------------------------------

    def pointer(self, address: Address, base: Value, offset: int = 0) -> Value:
        """The scalar pointer `origin + base + offset`."""
        e = self.emitter
        if address.origin is None:
            pointer = e.emit("ptr", 1, f"inttoptr {base.typed} to ptr")
        elif base.constant == 0:
            pointer = address.origin
        else:
            pointer = e.emit("ptr", 1, f"getelementptr i8, {address.origin.typed}, {base.typed}")
        if offset:
            pointer = e.emit("ptr", 1, f"getelementptr i8, {pointer.typed}, i64 {offset}")
        return pointer

    def pointers(self, address: Address, offset: int = 0) -> Value:
        """One pointer per lane."""
        e = self.emitter
        shaped = address.shaped
        if address.origin is None and shaped.vector is not None:
            index = shaped.vector
            if offset:
                index = e.add(index, e.const("i64", offset))
            return e.emit("ptr", LANES, f"inttoptr {index.typed} to <{LANES} x ptr>")
        if shaped.vector is None and len(shaped.bases) == 1:
            base = self.pointer(address, shaped.bases[0], offset)
            lanes = e.vector_constant("i64", shaped.offsets)
            return e.emit("ptr", LANES, f"getelementptr i8, {base.typed}, {lanes.typed}")
        index = materialise(e, shaped)
        if offset:
            index = e.add(index, e.const("i64", offset))
        if address.origin is None:
            return e.emit("ptr", LANES, f"inttoptr {index.typed} to <{LANES} x ptr>")
        return e.emit("ptr", LANES, f"getelementptr i8, {address.origin.typed}, {index.typed}")

    def safe_pointer(self, pointer: Value, condition: Value) -> Value:
        """The pointer if the condition holds, else one to 64 harmless bytes that can also be written."""
        return self.emitter.emit("ptr", 1, f"select {condition.typed}, {pointer.typed}, ptr {self.nowhere()}")

    def any_lane(self, lanes: Lanes, segment_mask: int = 0xFFFF_FFFF) -> Value:
        """Whether an active lane is in the segment."""
        e = self.emitter
        assert lanes.bits is not None
        bits = lanes.bits
        if segment_mask != 0xFFFF_FFFF:
            bits = e.and_(bits, e.const("i32", segment_mask))
        return e.icmp("ne", bits, e.const("i32", 0))

    # -- runs --------------------------------------------------------------------------------------------------------

    def runs(self, shaped: Shaped, size_bytes: int) -> list[tuple[int, int, bool]] | None:
        """Groups of lanes (first lane, count, consecutive) that cover the warp, or None if a gather is better."""
        if shaped.vector is not None:
            return None
        per_base = LANES // len(shaped.bases)
        offsets = shaped.offsets
        for count in (32, 16, 8, 4):
            if count > per_base or count * size_bytes < 16:
                continue
            result = []
            for first in range(0, LANES, count):
                group = offsets[first : first + count]
                if all(value == group[0] + i * size_bytes for i, value in enumerate(group)):
                    result.append((first, count, True))
                elif all(value == group[0] for value in group):
                    result.append((first, count, False))
                else:
                    break
            else:
                return result
        return None

    def run_base(self, shaped: Shaped, first: int) -> Value:
        return shaped.bases[first // (LANES // len(shaped.bases))]

    def part_mask(self, lanes: Lanes, first: int, count: int) -> Value:
        """Lanes `first .. first+count` of the mask vector."""
        assert lanes.vector is not None
        if count == LANES:
            return lanes.vector
        return self.part(lanes.vector, first, count)

    def part(self, vector: Value, first: int, count: int) -> Value:
        return self.emitter.lanes_from(vector, first, count)

    def concatenate(self, parts: list[Value]) -> Value:
        """Equal-sized parts joined in order."""
        return self.emitter.joined(parts)

    # -- loads -------------------------------------------------------------------------------------------------------

    def load(self, element: str, count: int, address: Address, lanes: Lanes, note: str) -> list[Value]:
        """`count` adjacent elements of LLVM type `element` per lane; scalars if the address is uniform."""
        size = self.emitter_size(element)
        if address.shaped.is_uniform:
            return self.load_uniform(element, count, address, lanes, note)
        if count > 1 and lanes.full:
            wide = self.load_interleaved(element, count, address, note)
            if wide is not None:
                return wide
        results = []
        for index in range(count):
            results.append(self.load_lanes(element, size, address, index * size, lanes, note))
        return results

    def emitter_size(self, element: str) -> int:
        return int(element[1:]) // 8 if element.startswith("i") else 8

    def load_uniform(self, element: str, count: int, address: Address, lanes: Lanes, note: str) -> list[Value]:
        e = self.emitter
        size = self.emitter_size(element)
        self.counts.scalar += 1
        results = []
        for index in range(count):
            pointer = self.pointer(address, address.shaped.bases[0], index * size)
            if lanes.maybe_none:
                pointer = self.safe_pointer(pointer, self.any_lane(lanes))
            results.append(e.emit(element, 1, f"load {element}, {pointer.typed}, align {size}{note}"))
        return results

    def load_lanes(self, element: str, size: int, address: Address, offset: int, lanes: Lanes, note: str) -> Value:
        e = self.emitter
        runs = self.runs(address.shaped, size)
        if runs is None:
            self.counts.gathers += 1
            return self.gather(element, size, address, offset, lanes, note)
        self.counts.plain += 1
        parts = []
        for first, count, consecutive in runs:
            base = self.run_base(address.shaped, first)
            pointer = self.pointer(address, base, address.shaped.offsets[first] + offset)
            if consecutive:
                parts.append(self.load_run(element, size, pointer, count, lanes, first, note))
                continue
            if not lanes.full:
                pointer = self.safe_pointer(pointer, self.any_lane(lanes, ((1 << count) - 1) << first))
            scalar = e.emit(element, 1, f"load {element}, {pointer.typed}, align {size}{note}")
            parts.append(e.splat(scalar, count))
        return self.concatenate(parts)

    def load_run(
        self, element: str, size: int, pointer: Value, count: int, lanes: Lanes, first: int, note: str
    ) -> Value:
        e = self.emitter
        vector = f"<{count} x {element}>"
        if lanes.full:
            return e.emit(element, count, f"load {vector}, {pointer.typed}, align {size}{note}")
        known = self.known_part(lanes, first, count)
        if known is not None:
            return self.load_part(element, size, pointer, count, known, note)
        name = f"@llvm.masked.load.v{count}{element}.p0"
        e.declare(name, f"declare {vector} {name}(ptr, <{count} x i1>, {vector})")
        mask = self.part_mask(lanes, first, count)
        return e.emit(
            element, count,
            f"call {vector} {name}(ptr align {size} {pointer.text}, {mask.typed}, {vector} zeroinitializer){note}",
        )  # fmt: skip

    def known_part(self, lanes: Lanes, first: int, count: int) -> tuple[int, int] | None:
        """The first and the number of the active lanes of a run, relative to it, if they are known here, neighbours, and none
        or a power of two: they are then accessed as a vector of their own. The processor passes on what was stored that
        way to a load of it or of a part, which it does not do for masked stores.
        """
        mask = lanes.vector
        if mask is None or mask.elements is None:
            return None
        active = [lane for lane in range(count) if mask.elements[first + lane]]
        if not active:
            return 0, 0
        number = len(active)
        return (active[0], number) if active[-1] - active[0] == number - 1 and not number & number - 1 else None

    def load_part(self, element: str, size: int, pointer: Value, count: int, part: tuple[int, int], note: str) -> Value:
        """`count` lanes, of which some neighbours are loaded and the others undefined."""
        e = self.emitter
        start, number = part
        if not number:
            return e.splat(e.const(element, 0), count)
        place = e.emit("ptr", 1, f"getelementptr i8, {pointer.typed}, i64 {start * size}") if start else pointer
        kind = Value(element, "", number).llvm_type
        loaded = e.emit(element, number, f"load {kind}, {place.typed}, align {size}{note}")
        if number == count:
            return loaded
        if number == 1:
            return e.insert(e.poison(element, count), start, loaded)
        inside = range(start, start + number)
        pattern = ", ".join(f"i32 {lane - start}" if lane in inside else "i32 poison" for lane in range(count))
        poison = f"{loaded.llvm_type} poison"
        return e.emit(element, count, f"shufflevector {loaded.typed}, {poison}, <{count} x i32> <{pattern}>")

    def gather(self, element: str, size: int, address: Address, offset: int, lanes: Lanes, note: str) -> Value:
        e = self.emitter
        vector = f"<{LANES} x {element}>"
        pointers = self.pointers(address, offset)
        if lanes.vector is not None and not has_instruction(element, self.avx512):
            return masked_gather(e, element, pointers, lanes.vector, note)
        name = f"@llvm.masked.gather.v{LANES}{element}.v{LANES}p0"
        e.declare(name, f"declare {vector} {name}(<{LANES} x ptr>, <{LANES} x i1>, {vector})")
        mask = f"<{LANES} x i1> splat (i1 true)" if lanes.vector is None else lanes.vector.typed
        return e.emit(
            element, LANES,
            f"call {vector} {name}(<{LANES} x ptr> align {size} {pointers.text}, {mask}, {vector} zeroinitializer){note}",
        )  # fmt: skip

    def load_interleaved(self, element: str, count: int, address: Address, note: str) -> list[Value] | None:
        """Lanes `count` elements apart: one wide load, then every count-th element."""
        e = self.emitter
        size = self.emitter_size(element)
        shaped = address.shaped
        if shaped.vector is not None or len(shaped.bases) != 1:
            return None
        if any(value != shaped.offsets[0] + lane * count * size for lane, value in enumerate(shaped.offsets)):
            return None
        self.counts.plain += 1
        total = LANES * count
        pointer = self.pointer(address, shaped.bases[0], shaped.offsets[0])
        wide = e.emit(element, total, f"load <{total} x {element}>, {pointer.typed}, align {size}{note}")
        results = []
        for index in range(count):
            pattern = ", ".join(f"i32 {lane * count + index}" for lane in range(LANES))
            results.append(
                e.emit(
                    element, LANES, f"shufflevector {wide.typed}, {wide.llvm_type} poison, <{LANES} x i32> <{pattern}>"
                )
            )
        return results

    # -- stores ------------------------------------------------------------------------------------------------------

    def store(self, element: str, address: Address, values: Sequence[Value], lanes: Lanes, note: str) -> None:
        """Adjacent elements per lane. Lanes with the same address: see above."""
        size = self.emitter_size(element)
        group = max(8, min(LANES, 128 // (size * len(values))))
        if address.shaped.is_uniform:
            self.store_uniform(element, address, values, group, lanes, note)
            return
        if len(values) > 1 and lanes.full and self.store_interleaved(element, address, values, note):
            return
        for index, value in enumerate(values):
            self.store_lanes(element, size, address, index * size, value, group, lanes, note)

    def store_uniform(
        self, element: str, address: Address, values: Sequence[Value], group: int, lanes: Lanes, note: str
    ) -> None:
        e = self.emitter
        size = self.emitter_size(element)
        self.counts.scalar += 1
        for index, value in enumerate(values):
            pointer = self.pointer(address, address.shaped.bases[0], index * size)
            if lanes.maybe_none:
                pointer = self.safe_pointer(pointer, self.any_lane(lanes))
            scalar = value
            if value.lanes > 1:
                scalar = e.extract(value, LANES - group) if lanes.full else self.winner(value, group, lanes)
            e.line(f"store {scalar.typed}, {pointer.typed}, align {size}{note}")

    def winner(self, value: Value, group: int, lanes: Lanes) -> Value:
        """The value of the lowest active lane in the last group of lanes that has one."""
        e = self.emitter
        bits = lanes.bits
        assert bits is not None
        for first in range(group, LANES, group):
            above = e.and_(bits, e.const("i32", 0xFFFF_FFFF << first & 0xFFFF_FFFF))
            bits = e.select(e.icmp("ne", above, e.const("i32", 0)), above, bits)
        lane = e.and_(e.intrinsic("llvm.cttz", [bits, e.const("i1", 0)]), e.const("i32", LANES - 1))
        return e.emit(value.type, 1, f"extractelement {value.typed}, {lane.typed}")

    def store_lanes(
        self, element: str, size: int, address: Address, offset: int, value: Value, group: int, lanes: Lanes, note: str
    ) -> None:
        e = self.emitter
        vector = e.splat(value, LANES)
        runs = self.runs(address.shaped, size)
        if runs is None or not all(consecutive for _, _, consecutive in runs):
            self.counts.scatters += 1
            apart = value.lanes == 1 or self.apart(address.shaped, size)
            self.scatter(element, size, address, offset, vector, 1 if apart else group, lanes, note)
            return
        self.counts.plain += 1
        for first, count, _ in runs:
            base = self.run_base(address.shaped, first)
            pointer = self.pointer(address, base, address.shaped.offsets[first] + offset)
            part = vector if count == LANES else self.part(vector, first, count)
            if lanes.full:
                e.line(f"store {part.typed}, {pointer.typed}, align {size}{note}")
                continue
            known = self.known_part(lanes, first, count)
            if known is not None:
                self.store_part(size, pointer, part, known, note)
                continue
            name = f"@llvm.masked.store.v{count}{element}.p0"
            e.declare(name, f"declare void {name}(<{count} x {element}>, ptr, <{count} x i1>)")
            mask = self.part_mask(lanes, first, count)
            e.line(f"call void {name}({part.typed}, ptr align {size} {pointer.text}, {mask.typed}){note}")

    def store_part(self, size: int, pointer: Value, value: Value, part: tuple[int, int], note: str) -> None:
        """Some neighbouring lanes of a run."""
        e = self.emitter
        start, number = part
        if not number:
            return
        place = e.emit("ptr", 1, f"getelementptr i8, {pointer.typed}, i64 {start * size}") if start else pointer
        stored = e.extract(value, start) if number == 1 else self.part(value, start, number)
        e.line(f"store {stored.typed}, {place.typed}, align {size}{note}")

    def apart(self, shaped: Shaped, size: int) -> bool:
        """Whether no two lanes' elements overlap, as far as is known here."""
        if shaped.vector is not None or len(shaped.bases) != 1:
            return False
        offsets = sorted(shaped.offsets)
        return all(b - a >= size for a, b in zip(offsets, offsets[1:], strict=False))

    def scatter(
        self, element: str, size: int, address: Address, offset: int, value: Value, group: int, lanes: Lanes, note: str
    ) -> None:
        """LLVM's scatter stores from lane 0 up; `group` neighbouring lanes each are turned around for it."""
        e = self.emitter
        pointers = self.pointers(address, offset)
        name = f"@llvm.masked.scatter.v{LANES}{element}.v{LANES}p0"
        e.declare(name, f"declare void {name}(<{LANES} x {element}>, <{LANES} x ptr>, <{LANES} x i1>)")
        mask = lanes.vector
        if group > 1:
            value, pointers = self.turned(value, group), self.turned(pointers, group)
            mask = None if mask is None else self.turned(mask, group)
        if mask is not None and not has_instruction(element, self.avx512):
            masked_scatter(e, element, pointers, mask, value, note)
            return
        active = f"<{LANES} x i1> splat (i1 true)" if mask is None else mask.typed
        e.line(f"call void {name}({value.typed}, <{LANES} x ptr> align {size} {pointers.text}, {active}){note}")

    def turned(self, vector: Value, group: int) -> Value:
        """The order of lanes reversed within each group."""
        e = self.emitter
        pattern = ", ".join(f"i32 {lane ^ (group - 1)}" for lane in range(LANES))
        return e.emit(
            vector.type, LANES, f"shufflevector {vector.typed}, {vector.llvm_type} poison, <{LANES} x i32> <{pattern}>"
        )

    def store_interleaved(self, element: str, address: Address, values: Sequence[Value], note: str) -> bool:
        e = self.emitter
        size = self.emitter_size(element)
        shaped = address.shaped
        count = len(values)
        if shaped.vector is not None or len(shaped.bases) != 1 or count not in (2, 4):
            return False
        if any(value != shaped.offsets[0] + lane * count * size for lane, value in enumerate(shaped.offsets)):
            return False
        self.counts.plain += 1
        joined = self.concatenate([e.splat(value, LANES) for value in values])
        total = LANES * count
        pattern = ", ".join(f"i32 {(i % count) * LANES + i // count}" for i in range(total))
        mixed = e.emit(
            element, total, f"shufflevector {joined.typed}, {joined.llvm_type} poison, <{total} x i32> <{pattern}>"
        )
        pointer = self.pointer(address, shaped.bases[0], shaped.offsets[0])
        e.line(f"store {mixed.typed}, {pointer.typed}, align {size}{note}")
        return True
