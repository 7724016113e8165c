"""Copies that the client makes itself come after what CUDA's rules put before them; pitches are checked as on an H200."""

from __future__ import annotations

import ctypes

import pytest

from cuttle.abi import cuda_errors as errors
from tests.client.driver import Driver

pytestmark = pytest.mark.device

u64, size_t = ctypes.c_uint64, ctypes.c_size_t
HOST, DEVICE = 1, 2
FILL_BYTES = 256 << 20


class Copy2d(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = tuple(
        (f"{side}_{name}", kind)
        for side in ("source", "destination")
        for name, kind in (
            ("x", size_t), ("y", size_t), ("type", ctypes.c_int), ("host", ctypes.c_void_p), ("device", u64),
            ("array", ctypes.c_void_p), ("pitch", size_t),
        )
    ) + (("width", size_t), ("height", size_t))  # fmt: skip


def to_device(address: int, host: ctypes.Array[ctypes.c_char], **fields: int) -> Copy2d:
    return Copy2d(
        source_type=HOST,
        source_host=ctypes.addressof(host),
        destination_type=DEVICE,
        destination_device=address,
        **fields,
    )


@pytest.mark.parametrize("block", [False, True], ids=["plain", "block"])
def test_a_blocking_stream_waits_for_the_default_stream(driver: Driver, block: bool) -> None:
    """The fill of the default stream must not overwrite what a later copy from pageable memory has brought."""
    address = int(driver.get("cuMemAlloc_v2", u64, size_t(FILL_BYTES)))
    stream = ctypes.c_void_p(driver.get("cuStreamCreate", ctypes.c_void_p, 0))
    data = ctypes.create_string_buffer(b"x" * 64, 64)
    last = address + FILL_BYTES - 64
    for _ in range(3):
        driver.cuMemsetD8_v2(u64(address), 0xAA, size_t(FILL_BYTES))
        if block:
            copy = to_device(last, data, source_pitch=16, destination_pitch=16, width=16, height=4)
            driver.cuMemcpy2DAsync_v2(ctypes.byref(copy), stream)
        else:
            driver.cuMemcpyHtoDAsync_v2(u64(last), data, size_t(64), stream)
        driver.cuCtxSynchronize()
        found = ctypes.create_string_buffer(64)
        driver.cuMemcpyDtoH_v2(found, u64(last), size_t(64))
        assert found.raw == b"x" * 64
    driver.cuStreamDestroy_v2(stream)
    driver.cuMemFree_v2(u64(address))


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        ({"destination_x": 160, "height": 8}, errors.CUDA_ERROR_INVALID_VALUE),
        ({"source_x": 1, "destination_x": 1, "height": 1}, errors.CUDA_ERROR_INVALID_VALUE),
        ({"width": 17, "height": 1}, errors.CUDA_ERROR_INVALID_VALUE),
        ({"source_pitch": 8, "destination_pitch": 8, "height": 1}, errors.CUDA_ERROR_INVALID_VALUE),
        ({"source_pitch": 0, "destination_pitch": 0, "source_x": 4, "source_y": 2, "height": 1}, 0),
        ({"source_x": 100, "width": 0, "height": 4}, 0),
        ({"width": 17, "height": 0}, 0),
    ],
)
def test_pitches(driver: Driver, fields: dict[str, int], result: int) -> None:
    address = int(driver.get("cuMemAlloc_v2", u64, size_t(4096)))
    data = ctypes.create_string_buffer(4096)
    copy = to_device(address, data, **{"source_pitch": 16, "destination_pitch": 16, "width": 16, **fields})
    assert driver.result("cuMemcpy2D_v2", ctypes.byref(copy)) == result
    driver.cuMemFree_v2(u64(address))


@pytest.mark.parametrize(
    ("source_in_pool", "destination_in_pool", "results"),
    [
        (False, False, [1, 1, 1, 1, 1]),
        (True, True, [0, 0, 1, 0, 0]),
        (True, False, [1, 0, 1, 0, 1]),
        (False, True, [0, 1, 1, 1, 1]),
    ],
)
def test_pitches_of_pool_memory(
    driver: Driver, source_in_pool: bool, destination_in_pool: bool, results: list[int]
) -> None:
    """In memory of a pool, positions may lie beyond the pitch."""
    addresses = [
        int(driver.get("cuMemAllocAsync", u64, size_t(65536), None))
        if in_pool
        else int(driver.get("cuMemAlloc_v2", u64, size_t(65536)))
        for in_pool in (source_in_pool, destination_in_pool)
    ]
    driver.cuMemsetD8_v2(u64(addresses[0]), 1, size_t(65536))
    driver.cuMemsetD8_v2(u64(addresses[1]), 0, size_t(65536))
    cases = (
        {"source_x": 16, "source_pitch": 32, "destination_x": 1968, "height": 123},
        {"source_x": 160, "height": 8},
        {"width": 17, "height": 8},
        {"source_x": 1, "height": 8},
        {"width": 8, "height": 4, "source_x": 100, "destination_x": 50},
    )
    found = []
    for fields in cases:
        given = {"source_pitch": 16, "destination_pitch": 16, "width": 16, **fields}
        copy = Copy2d(source_type=DEVICE, destination_type=DEVICE, **given)
        copy.source_device, copy.destination_device = addresses
        found.append(driver.result("cuMemcpy2D_v2", ctypes.byref(copy)))
    assert found == results
    data = ctypes.create_string_buffer(123 * 16)
    driver.cuMemcpyDtoH_v2(data, u64(addresses[1] + 1968), size_t(123 * 16))
    assert data.raw == bytes([results[0] == 0]) * (123 * 16)
    for address in addresses:
        driver.cuMemFree_v2(u64(address))


def test_fills_with_a_pitch(driver: Driver) -> None:
    address = int(driver.get("cuMemAlloc_v2", u64, size_t(4096)))

    def fill(pitch: int, height: int) -> int:
        return driver.result("cuMemsetD2D32_v2", u64(address), size_t(pitch), 1, size_t(4), size_t(height))

    invalid = errors.CUDA_ERROR_INVALID_VALUE
    assert [fill(pitch, 2) for pitch in (15, 16, 17, 18, 20)] == [invalid, 0, invalid, invalid, 0]
    assert [fill(pitch, 1) for pitch in (15, 16, 17, 18, 20)] == [0] * 5
    driver.cuMemFree_v2(u64(address))


def test_synchronising_pointers(driver: Driver) -> None:
    """CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: on for managed memory from the start, and what was set is answered."""
    kinds = {
        int(driver.get("cuMemAlloc_v2", u64, size_t(4096))): 0,
        int(driver.get("cuMemAllocManaged", u64, size_t(4096), 1)): 1,
    }
    for address, first in kinds.items():
        assert driver.get("cuPointerGetAttribute", ctypes.c_uint, 6, u64(address)) == first
        for value, expected in ((1, 1), (0, 0), (2, 1)):
            driver.cuPointerSetAttribute(ctypes.byref(ctypes.c_uint(value)), 6, u64(address))
            assert driver.get("cuPointerGetAttribute", ctypes.c_uint, 6, u64(address)) == expected
        driver.cuMemFree_v2(u64(address))
