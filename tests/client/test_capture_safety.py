"""Calls that CUDA calls potentially unsafe end a capture that watches them; the table is an H200's (driver 580.159)."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator

import pytest

from cuttle.abi import cuda_errors as errors
from tests.client.driver import Driver

pytestmark = pytest.mark.device

u64, size_t = ctypes.c_uint64, ctypes.c_size_t
GLOBAL, THREAD_LOCAL, RELAXED = range(3)
NON_BLOCKING = 1
ACTIVE, INVALIDATED = 1, 2
UNSUPPORTED, ENDED = errors.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, errors.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED


class Objects:
    """What the calls work on."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.stream = self.new_stream()
        self.other = self.new_stream()
        self.event = ctypes.c_void_p(driver.get("cuEventCreate", ctypes.c_void_p, 0))
        self.memory = int(driver.get("cuMemAlloc_v2", u64, size_t(4096)))

    def new_stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.driver.get("cuStreamCreate", ctypes.c_void_p, NON_BLOCKING))

    def call(self, name: str, *arguments: object) -> int:
        return self.driver.result(name, *arguments)


@pytest.fixture
def objects(driver: Driver) -> Iterator[Objects]:
    made = Objects(driver)
    yield made
    driver.cuMemFree_v2(u64(made.memory))
    driver.cuEventDestroy_v2(made.event)
    for stream in (made.stream, made.other):
        driver.cuStreamDestroy_v2(stream)


def captured(objects: Objects, mode: int, call: Callable[[], int]) -> tuple[int, int, int]:
    """What a call answers during a capture, the capture's state after it, and what ends it."""
    objects.driver.cuStreamBeginCapture_v2(objects.stream, mode)
    result, status = call(), ctypes.c_int()
    objects.driver.cuStreamIsCapturing(objects.stream, ctypes.byref(status))
    graph = ctypes.c_void_p()
    ended = objects.call("cuStreamEndCapture", objects.stream, ctypes.byref(graph))
    if graph:
        objects.driver.cuGraphDestroy(graph)
    return result, status.value, ended


UNSAFE: dict[str, Callable[[Objects], int]] = {
    "cuMemAlloc": lambda o: o.call("cuMemAlloc_v2", ctypes.byref(u64()), size_t(64)),
    "cuMemAllocManaged": lambda o: o.call("cuMemAllocManaged", ctypes.byref(u64()), size_t(64), 1),
    "cuMemHostAlloc": lambda o: o.call("cuMemHostAlloc", ctypes.byref(u64()), size_t(64), 0),
    "cuMemAllocAsync": lambda o: o.call("cuMemAllocAsync", ctypes.byref(u64()), size_t(64), o.other),
    "cuEventQuery": lambda o: o.call("cuEventQuery", o.event),
    "cuEventSynchronize": lambda o: o.call("cuEventSynchronize", o.event),
    "cuStreamQuery": lambda o: o.call("cuStreamQuery", o.other),
    "cuStreamSynchronize": lambda o: o.call("cuStreamSynchronize", o.other),
    "cuCtxSetLimit": lambda o: o.call("cuCtxSetLimit", 0, size_t(1024)),
}

SAFE: dict[str, Callable[[Objects], int]] = {
    "cuMemGetInfo": lambda o: o.call("cuMemGetInfo_v2", ctypes.byref(size_t()), ctypes.byref(size_t())),
    "cuMemcpyHtoD": lambda o: o.call("cuMemcpyHtoD_v2", u64(o.memory), bytes(16), size_t(16)),
    "cuMemsetD8": lambda o: o.call("cuMemsetD8_v2", u64(o.memory), 0, size_t(16)),
    "cuMemcpyHtoDAsync": lambda o: o.call("cuMemcpyHtoDAsync_v2", u64(o.memory), bytes(16), size_t(16), o.other),
    "cuEventRecord": lambda o: o.call("cuEventRecord", o.event, o.other),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_calls(objects: Objects, name: str) -> None:
    for mode in (GLOBAL, THREAD_LOCAL):
        assert captured(objects, mode, lambda: UNSAFE[name](objects)) == (UNSUPPORTED, INVALIDATED, ENDED)
    assert captured(objects, RELAXED, lambda: UNSAFE[name](objects)) == (0, ACTIVE, 0)
    assert UNSAFE[name](objects) == 0


@pytest.mark.parametrize("name", SAFE)
def test_safe_calls(objects: Objects, name: str) -> None:
    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        assert captured(objects, mode, lambda: SAFE[name](objects)) == (0, ACTIVE, 0)


def test_waiting_for_everything_is_never_possible(objects: Objects) -> None:
    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        assert captured(objects, mode, lambda: objects.call("cuCtxSynchronize")) == (UNSUPPORTED, INVALIDATED, ENDED)


def test_a_thread_can_take_the_risk(objects: Objects) -> None:
    def relaxed() -> int:
        mode = ctypes.c_int(RELAXED)
        objects.driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        result = UNSAFE["cuMemAlloc"](objects)
        objects.driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
        return result

    assert captured(objects, GLOBAL, relaxed) == (0, ACTIVE, 0)


@pytest.mark.parametrize(
    ("mode", "expected"), [(GLOBAL, (UNSUPPORTED, INVALIDATED, ENDED)), (THREAD_LOCAL, (0, ACTIVE, 0))]
)
def test_other_threads(objects: Objects, mode: int, expected: tuple[int, int, int]) -> None:
    """Only a capture in the global mode watches other threads."""
    context = ctypes.c_void_p(objects.driver.get("cuCtxGetCurrent", ctypes.c_void_p))

    def elsewhere() -> int:
        found: list[int] = []

        def run() -> None:
            objects.driver.cuCtxSetCurrent(context)
            found.append(UNSAFE["cuMemAlloc"](objects))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return found[0]

    assert captured(objects, mode, elsewhere) == expected
