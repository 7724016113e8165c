"""Advice about managed memory is kept and answered page by page; the expected values are an H200's (driver 580.159)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from cuttle.abi import cuda_errors as errors
from tests.client.driver import Driver

pytestmark = pytest.mark.device

u64, size_t = ctypes.c_uint64, ctypes.c_size_t
BYTES, PAGE = 1 << 20, 4096
SET_READ_MOSTLY, UNSET_READ_MOSTLY, SET_PREFERRED, UNSET_PREFERRED, SET_ACCESSED_BY, UNSET_ACCESSED_BY = range(1, 7)
READ_MOSTLY, PREFERRED, ACCESSED_BY, PREFETCHED, PREFERRED_TYPE, PREFERRED_ID, PREFETCHED_TYPE, PREFETCHED_ID = range(
    1, 9
)
DEVICE, HOST, HOST_NUMA = 1, 2, 3


class Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class Managed:
    """A megabyte of managed memory; ranges are (offset, bytes)."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.address = int(driver.get("cuMemAllocManaged", u64, size_t(BYTES), 1))

    def advise(self, advice: int, device: int, offset: int = 0, count: int = BYTES) -> int:
        return self.driver.result("cuMemAdvise", u64(self.address + offset), size_t(count), advice, device)

    def advise_at(self, advice: int, kind: int, number: int) -> int:
        return self.driver.result("cuMemAdvise_v2", u64(self.address), size_t(BYTES), advice, Location(kind, number))

    def ask(self, attribute: int, offset: int = 0, count: int = BYTES, words: int = 1) -> list[int]:
        data = (ctypes.c_int * words)(*([77] * words))
        self.driver.cuMemRangeGetAttribute(
            data, size_t(4 * words), attribute, u64(self.address + offset), size_t(count)
        )
        return list(data)

    def everything(self) -> list[list[int]]:
        return [self.ask(attribute, words=3 if attribute == ACCESSED_BY else 1) for attribute in range(1, 9)]


@pytest.fixture
def managed(driver: Driver) -> Iterator[Managed]:
    made = Managed(driver)
    yield made
    driver.cuMemFree_v2(u64(made.address))


def test_nothing_said(managed: Managed) -> None:
    assert managed.everything() == [[0], [-2], [-2, -2, -2], [-2], [0], [-2], [0], [-2]]


def test_said_and_taken_back(managed: Managed) -> None:
    for advice, device in ((SET_READ_MOSTLY, 0), (SET_PREFERRED, -1), (SET_ACCESSED_BY, -1), (SET_ACCESSED_BY, 0)):
        assert managed.advise(advice, device) == 0
    assert managed.everything() == [[1], [-1], [0, -1, -2], [-2], [2], [-1], [0], [-2]]
    assert managed.ask(ACCESSED_BY, words=1) == [0]
    assert managed.advise(SET_PREFERRED, 0) == 0
    assert (managed.ask(PREFERRED), managed.ask(PREFERRED_TYPE), managed.ask(PREFERRED_ID)) == ([0], [DEVICE], [0])
    for advice, device in ((UNSET_PREFERRED, 7), (UNSET_ACCESSED_BY, -1), (UNSET_READ_MOSTLY, 7)):
        assert managed.advise(advice, device) == 0
    assert managed.everything() == [[0], [-2], [0, -2, -2], [-2], [0], [-2], [0], [-2]]


def test_a_range_has_what_all_its_pages_have(managed: Managed) -> None:
    assert managed.advise(SET_READ_MOSTLY, 0, 65536, PAGE) == 0
    ranges = ((0, BYTES), (65536, PAGE), (65536, 1), (65536, 2 * PAGE), (65536 - PAGE, PAGE))
    assert [managed.ask(READ_MOSTLY, *each) for each in ranges] == [[0], [1], [1], [0], [0]]
    assert managed.advise(SET_READ_MOSTLY, 0, 200000, 10) == 0
    ranges = ((200000, 10), (196608, PAGE), (200704, PAGE))
    assert [managed.ask(READ_MOSTLY, *each) for each in ranges] == [[1], [1], [0]]
    assert managed.advise(SET_ACCESSED_BY, 0, 65536, PAGE) == 0
    assert managed.advise(SET_ACCESSED_BY, -1, 65536 + PAGE, PAGE) == 0
    assert managed.ask(ACCESSED_BY, 65536, 2 * PAGE, 2) == [-2, -2]
    assert managed.ask(ACCESSED_BY, 65536, PAGE, 2) == [0, -2]
    assert managed.ask(ACCESSED_BY, 65536 + PAGE, PAGE, 2) == [-1, -2]


def test_prefetching_is_remembered(driver: Driver, managed: Managed) -> None:
    whole = u64(managed.address), size_t(BYTES)
    driver.cuMemPrefetchAsync(*whole, 0, None)
    assert managed.everything() == [[0], [-2], [-2, -2, -2], [0], [0], [-2], [1], [0]]
    driver.cuMemPrefetchAsync(u64(managed.address + 65536), size_t(65536), -1, None)
    assert managed.ask(PREFETCHED) == [-2]
    assert managed.ask(PREFETCHED, 65536, 65536) == [-1]
    assert managed.ask(PREFETCHED, 0, 65536) == [0]
    driver.cuMemPrefetchAsync_v2(*whole, Location(HOST_NUMA, 0), 0, None)
    assert (managed.ask(PREFETCHED), managed.ask(PREFETCHED_TYPE), managed.ask(PREFETCHED_ID)) == ([-1], [3], [0])


def test_new_memory_starts_without_advice(driver: Driver, managed: Managed) -> None:
    managed.advise(SET_READ_MOSTLY, 0)
    driver.cuMemFree_v2(u64(managed.address))
    managed.address = int(driver.get("cuMemAllocManaged", u64, size_t(BYTES), 1))
    assert managed.ask(READ_MOSTLY) == [0]


def test_what_is_refused(driver: Driver, managed: Managed) -> None:
    value, device = errors.CUDA_ERROR_INVALID_VALUE, errors.CUDA_ERROR_INVALID_DEVICE
    assert [managed.advise(SET_PREFERRED, number) for number in (1, 7, -2)] == [device] * 3
    assert managed.advise(SET_ACCESSED_BY, 1) == device
    assert [managed.advise(advice, 0) for advice in (0, 7)] == [value] * 2
    assert managed.advise(SET_READ_MOSTLY, 0, 0, 0) == value
    assert managed.advise(SET_READ_MOSTLY, 0, 0, BYTES + PAGE) == value
    for advice, kind, number in ((3, 0, 0), (3, 1, 9), (3, 3, 9), (5, 3, 0), (1, 0, 0)):
        assert managed.advise_at(advice, kind, number) == value
    assert managed.advise_at(SET_ACCESSED_BY, HOST, 0) == 0
    data = (ctypes.c_int * 4)()
    asked = ((8, READ_MOSTLY), (2, READ_MOSTLY), (6, ACCESSED_BY), (0, ACCESSED_BY), (4, 0), (4, 9))
    for size, attribute in asked:
        result = driver.result(
            "cuMemRangeGetAttribute", data, size_t(size), attribute, u64(managed.address), size_t(BYTES)
        )
        assert result == value
    plain = driver.get("cuMemAlloc_v2", u64, size_t(BYTES))
    assert driver.result("cuMemAdvise", u64(plain), size_t(BYTES), SET_READ_MOSTLY, 0) == value
    driver.cuMemFree_v2(u64(plain))
