"""Free address ranges: best fit, neighbours joined."""

from __future__ import annotations

from bisect import bisect_left, insort


class FreeRanges:
    """A set of disjoint address ranges that never touch each other.

    Kept twice: by address, to join neighbours, and by size, to find the best fit.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._sizes: dict[int, int] = {}
        self._by_size: list[tuple[int, int]] = []

    def items(self) -> list[tuple[int, int]]:
        """(start, size) of all ranges, by address."""
        return [(start, self._sizes[start]) for start in self._starts]

    def largest_first(self) -> list[tuple[int, int]]:
        """(start, size) of all ranges, largest first."""
        return [(start, size) for size, start in reversed(self._by_size)]

    def add(self, start: int, size: int) -> tuple[int, int]:
        """Adds a range that overlaps none; returns the joined one."""
        place = bisect_left(self._starts, start)
        if place < len(self._starts) and self._starts[place] == start + size:
            size += self._drop(place)
        if place > 0:
            before = self._starts[place - 1]
            if before + self._sizes[before] == start:
                size += self._drop(place - 1)
                start = before
        insort(self._starts, start)
        self._sizes[start] = size
        insort(self._by_size, (size, start))
        return start, size

    def take(self, size: int, alignment: int) -> int | None:
        """Removes `size` bytes at a multiple of `alignment` from the smallest range that has them; None if none has."""
        for place in range(bisect_left(self._by_size, (size, 0)), len(self._by_size)):
            have, start = self._by_size[place]
            aligned = -(-start // alignment) * alignment
            if aligned + size <= start + have:
                self._cut(start, have, aligned, size)
                return aligned
        return None

    def take_at(self, start: int, size: int) -> bool:
        """Removes exactly this range if it is free."""
        place = bisect_left(self._starts, start + 1) - 1
        if place < 0:
            return False
        holder = self._starts[place]
        have = self._sizes[holder]
        if start + size > holder + have:
            return False
        self._cut(holder, have, start, size)
        return True

    def _cut(self, start: int, have: int, taken: int, size: int) -> None:
        self._drop(bisect_left(self._starts, start))
        if taken > start:
            self._insert(start, taken - start)
        rest = start + have - (taken + size)
        if rest > 0:
            self._insert(taken + size, rest)

    def _insert(self, start: int, size: int) -> None:
        insort(self._starts, start)
        self._sizes[start] = size
        insort(self._by_size, (size, start))

    def _drop(self, place: int) -> int:
        start = self._starts.pop(place)
        size = self._sizes.pop(start)
        del self._by_size[bisect_left(self._by_size, (size, start))]
        return size
