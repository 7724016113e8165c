"""Settings of GPU core dumps; the expected values are an H200's (driver 580.159), but that nothing switches dumps on."""

from __future__ import annotations

import ctypes

import pytest

from cuttle.abi import cuda_errors as errors
from tests.client.driver import Driver

pytestmark = pytest.mark.device

size_t = ctypes.c_size_t
ON_EXCEPTION, TRIGGER_HOST, LIGHTWEIGHT, USER_TRIGGER, FILE, PIPE, FLAGS = range(1, 8)
INVALID = errors.CUDA_ERROR_INVALID_VALUE


def get(driver: Driver, which: int, room: int, scope: str = "Global") -> tuple[int, bytes]:
    data, size = ctypes.create_string_buffer(room), size_t(room)
    return driver.result(f"cuCoredumpGetAttribute{scope}", which, data, ctypes.byref(size)), data.raw


def put(driver: Driver, which: int, value: bytes, scope: str = "Global") -> int:
    return driver.result(f"cuCoredumpSetAttribute{scope}", which, value, ctypes.byref(size_t(len(value))))


def test_switches(driver: Driver) -> None:
    assert [get(driver, which, 1) for which in (1, 2, 3, 4)] == [(0, b"\0"), (0, b"\1"), (0, b"\0"), (0, b"\0")]
    assert get(driver, TRIGGER_HOST, 4)[0] == get(driver, TRIGGER_HOST, 256)[0] == INVALID
    assert put(driver, LIGHTWEIGHT, b"\1") == 0
    assert get(driver, LIGHTWEIGHT, 1) == (0, b"\1")
    assert put(driver, LIGHTWEIGHT, b"\0\0\0\0") == INVALID
    assert put(driver, LIGHTWEIGHT, b"\0") == 0
    assert put(driver, FLAGS, b"\1\0\0\0") == 0
    assert get(driver, FLAGS, 4) == (0, b"\1\0\0\0")
    assert put(driver, FLAGS, b"\1") == get(driver, FLAGS, 256)[0] == INVALID
    assert put(driver, FLAGS, b"\0\0\0\0") == 0


@pytest.mark.parametrize("which", [FILE, PIPE])
def test_names(driver: Driver, which: int) -> None:
    assert get(driver, which, 1) == (0, b"\0")
    assert put(driver, which, b"corefile") == 0
    assert get(driver, which, 12) == (0, b"corefile\0\0\0\0")
    assert get(driver, which, 4)[0] == get(driver, which, 8)[0] == INVALID
    assert put(driver, which, b"x" * 1024) == 0
    assert put(driver, which, b"x" * 2000) == INVALID
    assert get(driver, which, 2000)[1].rstrip(b"\0") == b"x" * 1024
    assert put(driver, which, b"") == 0
    size = size_t(5)
    driver.cuCoredumpGetAttributeGlobal(which, None, ctypes.byref(size))
    assert size.value == 1024


def test_contexts_have_settings_of_their_own(driver: Driver) -> None:
    assert put(driver, FILE, b"mine", "") == 0
    assert get(driver, FILE, 8, "") == (0, b"mine\0\0\0\0")
    assert get(driver, FILE, 8) == (0, bytes(8))
    assert put(driver, FILE, b"", "") == 0
    assert get(driver, USER_TRIGGER, 1, "")[0] == get(driver, PIPE, 8, "")[0] == INVALID


def test_dumps_cannot_be_switched_on(driver: Driver) -> None:
    for scope in ("Global", ""):
        assert put(driver, ON_EXCEPTION, b"\1", scope) == errors.CUDA_ERROR_NOT_SUPPORTED
        assert put(driver, ON_EXCEPTION, b"\0", scope) == 0
    assert put(driver, USER_TRIGGER, b"\1") == errors.CUDA_ERROR_NOT_SUPPORTED
    assert [get(driver, which, 16)[0] for which in (0, 8)] == [INVALID] * 2
