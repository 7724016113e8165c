"""The arena's allocator: disjoint, aligned, within budget, recycled; and free ranges by themselves."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuttle.abi import wire_layout as wire
from cuttle.device.shared import SharedMemory
from cuttle.runtime import memory as kinds
from cuttle.runtime.memory import DeviceMemory, choose_budget
from cuttle.runtime.pools import Pools
from cuttle.runtime.ranges import FreeRanges
from cuttle.runtime.results import CudaError
from cuttle.runtime.virtual_memory import GRANULARITY, VirtualMemory


class Arena:
    """Shared memory with an arena, and a hand-set position of the executor."""

    def __init__(self, budget: int = 64 << 20) -> None:
        self.descriptors = [os.memfd_create(name) for name in ("control", "status", "arena")]
        os.ftruncate(self.descriptors[0], wire.CONTROL_BYTES)
        os.ftruncate(self.descriptors[1], wire.STATUS_BYTES)
        self.shared = SharedMemory(*self.descriptors)
        self.shared.arena_base = wire.ARENA_BASE
        self.shared.open_arena(1 << 30)
        self.position = 0
        self.memory = DeviceMemory(self.shared, budget, lambda: self.position, lambda address, size: None)

    def resident(self) -> int:
        return os.fstat(self.descriptors[2]).st_blocks * 512

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


@pytest.fixture
def arena():  # type: ignore[no-untyped-def]
    made = Arena()
    yield made
    made.close()


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=60))
def test_free_ranges_are_joined(pieces: list[tuple[int, int]]) -> None:
    ranges = FreeRanges()
    free: set[int] = set()
    for start, size in pieces:
        if free.isdisjoint(range(start, start + size)):
            ranges.add(start, size)
            free.update(range(start, start + size))
    items = ranges.items()
    assert {place for start, size in items for place in range(start, start + size)} == free
    assert all(start + size < following for (start, size), (following, _) in zip(items, items[1:], strict=False))
    for alignment in (1, 4, 16):
        taken = ranges.take(8, alignment)
        fits = [p for p in range(0, 300, alignment) if set(range(p, p + 8)) <= free]
        assert (taken is None) == (not fits)
        if taken is not None:
            assert taken % alignment == 0 and set(range(taken, taken + 8)) <= free
            free -= set(range(taken, taken + 8))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3 << 20), st.sampled_from([0, 1, 2]), st.integers(0, 9)), max_size=60))
def test_allocations_are_disjoint_and_counted(steps: list[tuple[int, int, int]]) -> None:
    arena = Arena(32 << 20)
    try:
        live = []
        for size, kind, choice in steps:
            if choice < 4 and live:
                arena.memory.free(live.pop(choice % len(live)))
                continue
            try:
                live.append(arena.memory.allocate(size, kind))
            except CudaError as error:
                assert error.result == 2 and arena.memory.used + size > arena.memory.budget - (1 << 20)
        spans = sorted((one.address, one.address + one.reserved) for one in live)
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
        assert arena.memory.used == sum(one.reserved for one in live) <= arena.memory.budget
        for one in live:
            assert one.address % (4096 if one.kind else 512) == 0
            assert arena.memory.find(one.address + one.bytes - 1) is one
            arena.memory.free(one)
        assert arena.memory.used == 0
        assert arena.memory.allocate(31 << 20, 0).bytes == 31 << 20
    finally:
        arena.close()


def test_out_of_memory_and_zero_bytes(arena: Arena) -> None:
    with pytest.raises(CudaError) as refused:
        arena.memory.allocate((64 << 20) + 1, 0)
    assert refused.value.result == 2
    with pytest.raises(CudaError) as refused:
        arena.memory.allocate(0, 0)
    assert refused.value.result == 1


def test_freed_in_order_is_not_reused_early(arena: Arena) -> None:
    first = arena.memory.allocate(4096, kinds.DEVICE)
    arena.memory.free_later(first, 10)
    assert arena.memory.find(first.address) is None
    assert arena.memory.allocate(4096, kinds.DEVICE).address != first.address
    arena.position = 10
    assert arena.memory.allocate(4096, kinds.DEVICE).address == first.address


def test_big_frees_give_pages_back(arena: Arena) -> None:
    blocks = [arena.memory.allocate(8 << 20, kinds.DEVICE) for _ in range(6)]
    for block in blocks:
        arena.shared.write(block.address, b"x" * block.bytes)
    assert arena.resident() >= 48 << 20
    for block in blocks:
        arena.memory.free(block)
    # A quarter of the budget may stay for quick reuse.
    assert arena.resident() <= 17 << 20
    arena.memory.trim()
    assert arena.resident() <= 1 << 20


def test_pages_of_memory_in_use_are_never_given_back(arena: Arena) -> None:
    for _ in range(20):
        blocks = [arena.memory.allocate(5 << 20, kinds.DEVICE) for _ in range(8)]
        for number, block in enumerate(blocks):
            arena.shared.write(block.address, bytes([number + 1]) * block.bytes)
        for block in blocks[::2]:
            arena.memory.free(block)
        again = [arena.memory.allocate(3 << 20, kinds.DEVICE) for _ in range(4)]
        for block in again:
            arena.shared.write(block.address, b"\xff" * block.bytes)
        arena.memory.trim()
        for number, block in enumerate(blocks):
            if number % 2:
                assert arena.shared.read(block.address, block.bytes) == bytes([number + 1]) * block.bytes
        for block in again:
            assert arena.shared.read(block.address, block.bytes) == b"\xff" * block.bytes
        for block in [*blocks[1::2], *again]:
            arena.memory.free(block)


def test_pools_count(arena: Arena) -> None:
    pools = Pools(arena.memory)
    pool = pools.create(1, 1 << 20)
    one = pools.allocate(pool, 1000, 3, 1)
    assert pools.attribute(pool, 7) == 1024 and pools.attribute(pool, 8) == 1024
    with pytest.raises(CudaError):
        pools.allocate(pool, 1 << 20, 3, 1)
    pools.freed(one)
    one.stream = 3
    arena.memory.free_later(one, 5)
    assert pools.attribute(pool, 7) == 0 and pools.attribute(pool, 8) == 1024
    pools.set_attribute(pool, 8, 0)
    assert pools.attribute(pool, 8) == 0
    assert pools.allocate(pool, 1000, 4, 1).address != one.address
    assert pools.allocate(pool, 1000, 3, 1).address == one.address


def test_virtual_memory(arena: Arena) -> None:
    virtual = VirtualMemory(arena.memory)
    place = virtual.reserve(4 * GRANULARITY, 0, 0)
    assert arena.memory.used == 0
    physical = virtual.create(GRANULARITY)
    assert arena.memory.used == GRANULARITY
    virtual.map(place, GRANULARITY, 0, physical, 1)
    arena.shared.write(place, b"contents")
    assert arena.memory.find(place + 5) is not None
    virtual.unmap(place, GRANULARITY)
    assert arena.shared.read(place, 8) == bytes(8)
    virtual.map(place + GRANULARITY, GRANULARITY, 0, physical, 1)
    assert arena.shared.read(place + GRANULARITY, 8) == b"contents"
    with pytest.raises(CudaError):
        virtual.release(place, 4 * GRANULARITY)
    virtual.destroy(physical)
    assert arena.memory.used == GRANULARITY
    virtual.unmap(place + GRANULARITY, GRANULARITY)
    assert arena.memory.used == 0
    virtual.release(place, 4 * GRANULARITY)


def test_budget_is_what_was_asked_for() -> None:
    assert choose_budget(1 << 30) == 1 << 30
    assert 16 << 20 <= choose_budget(0) < 1 << 50


def test_large_allocations_start_where_an_h200_puts_them(arena: Arena) -> None:
    memory = arena.memory
    memory.allocate(512, kinds.DEVICE)
    for kind in (kinds.DEVICE, kinds.MANAGED):
        assert memory.allocate((1 << 20) + 1, kind).address % (2 << 20) == 0
    # Rather unaligned than out of memory.
    left = memory.budget - memory.used - 4096
    assert memory.allocate(left, kinds.DEVICE).bytes == left
