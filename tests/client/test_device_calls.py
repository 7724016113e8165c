"""Calls against a running device process: contexts, memory, streams, events, and what has to be refused."""

from __future__ import annotations

import ctypes
import mmap
import os

import pytest

from cuttle.abi import cuda_errors as errors
from tests.client.driver import Driver

pytestmark = pytest.mark.device

u64 = ctypes.c_uint64
MANY = 1 << 20


def allocate(driver: Driver, count: int) -> int:
    return int(driver.get("cuMemAlloc_v2", u64, ctypes.c_size_t(count)))


def free(driver: Driver, address: int) -> None:
    driver.cuMemFree_v2(u64(address))


def test_every_attribute_answers(driver: Driver) -> None:
    for number in range(1, 256):
        driver.get("cuDeviceGetAttribute", ctypes.c_int, number, 0)
    assert driver.result("cuDeviceGetAttribute", ctypes.byref(ctypes.c_int()), 0, 0) == errors.CUDA_ERROR_INVALID_VALUE
    assert (
        driver.result("cuDeviceGetAttribute", ctypes.byref(ctypes.c_int()), 10, 1) == errors.CUDA_ERROR_INVALID_DEVICE
    )
    assert driver.get("cuDeviceGetAttribute", ctypes.c_int, 10, 0) == 32


def test_device_names(driver: Driver) -> None:
    name = ctypes.create_string_buffer(100)
    driver.cuDeviceGetName(name, 100, 0)
    assert name.value
    bus = ctypes.create_string_buffer(20)
    driver.cuDeviceGetPCIBusId(bus, 20, 0)
    assert driver.get("cuDeviceGetByPCIBusId", ctypes.c_int, bus.value) == 0
    assert driver.get("cuDeviceTotalMem_v2", ctypes.c_size_t, 0) > 0


def test_context_stack(driver: Driver) -> None:
    primary = driver.get("cuCtxGetCurrent", ctypes.c_void_p)
    own = driver.get("cuCtxCreate_v2", ctypes.c_void_p, 0, 0)
    assert driver.get("cuCtxGetCurrent", ctypes.c_void_p) == own
    assert driver.get("cuCtxPopCurrent_v2", ctypes.c_void_p) == own
    assert driver.get("cuCtxGetCurrent", ctypes.c_void_p) == primary
    driver.cuCtxPushCurrent_v2(ctypes.c_void_p(own))
    driver.cuCtxDestroy_v2(ctypes.c_void_p(own))
    assert driver.get("cuCtxGetCurrent", ctypes.c_void_p) == primary
    assert driver.result("cuCtxPushCurrent_v2", ctypes.c_void_p(own)) == errors.CUDA_ERROR_CONTEXT_IS_DESTROYED


def test_copies_there_and_back(driver: Driver) -> None:
    data = os.urandom(MANY + 3)
    first, second = allocate(driver, len(data)), allocate(driver, len(data))
    driver.cuMemcpyHtoD_v2(u64(first), data, ctypes.c_size_t(len(data)))
    driver.cuMemcpyDtoD_v2(u64(second), u64(first), ctypes.c_size_t(len(data)))
    back = ctypes.create_string_buffer(len(data))
    driver.cuMemcpyDtoH_v2(back, u64(second), ctypes.c_size_t(len(data)))
    assert back.raw == data
    free(driver, first)
    free(driver, second)


def test_fills(driver: Driver) -> None:
    address = allocate(driver, 64)
    driver.cuMemsetD8_v2(u64(address), 1, ctypes.c_size_t(64))
    driver.cuMemsetD2D16_v2(
        u64(address), ctypes.c_size_t(16), ctypes.c_ushort(0x0302), ctypes.c_size_t(2), ctypes.c_size_t(3)
    )
    driver.cuMemsetD32_v2(u64(address + 60), ctypes.c_uint(0x07060504), ctypes.c_size_t(1))
    back = ctypes.create_string_buffer(64)
    driver.cuMemcpyDtoH_v2(back, u64(address), ctypes.c_size_t(64))
    row = b"\2\3\2\3" + b"\1" * 12
    assert back.raw == row * 3 + b"\1" * 12 + b"\4\5\6\7"
    free(driver, address)


def test_copies_out_of_bounds_are_refused(driver: Driver) -> None:
    address = allocate(driver, 4096)
    data = bytes(8192)
    assert (
        driver.result("cuMemcpyHtoD_v2", u64(address), data, ctypes.c_size_t(8192)) == errors.CUDA_ERROR_INVALID_VALUE
    )
    assert driver.result("cuMemcpyHtoD_v2", u64(0), data, ctypes.c_size_t(1)) == errors.CUDA_ERROR_INVALID_VALUE
    assert (
        driver.result("cuMemsetD8_v2", u64(address + 4000), 0, ctypes.c_size_t(97)) == errors.CUDA_ERROR_INVALID_VALUE
    )
    assert driver.result("cuMemFree_v2", u64(address + 8)) == errors.CUDA_ERROR_INVALID_VALUE
    free(driver, address)
    assert driver.result("cuMemFree_v2", u64(address)) == errors.CUDA_ERROR_INVALID_VALUE
    assert driver.result("cuMemAlloc_v2", ctypes.byref(u64()), ctypes.c_size_t(0)) == errors.CUDA_ERROR_INVALID_VALUE
    assert (
        driver.result("cuMemAlloc_v2", ctypes.byref(u64()), ctypes.c_size_t(1 << 46)) == errors.CUDA_ERROR_OUT_OF_MEMORY
    )


def test_pointer_attributes(driver: Driver) -> None:
    address = allocate(driver, 100)
    pinned = driver.get("cuMemHostAlloc", ctypes.c_void_p, ctypes.c_size_t(100), 0)
    assert driver.get("cuPointerGetAttribute", ctypes.c_uint, 2, u64(address + 5)) == 2
    assert driver.get("cuPointerGetAttribute", ctypes.c_uint, 2, u64(pinned + 5)) == 1
    assert driver.get("cuPointerGetAttribute", u64, 11, u64(address + 5)) == address
    assert driver.get("cuPointerGetAttribute", u64, 12, u64(address + 5)) == 100
    unknown = ctypes.create_string_buffer(8)
    assert driver.result("cuPointerGetAttribute", ctypes.byref(u64()), 2, unknown) == errors.CUDA_ERROR_INVALID_VALUE
    free(driver, address)
    driver.cuMemFreeHost(ctypes.c_void_p(pinned))


def test_registered_host_memory(driver: Driver) -> None:
    pages = mmap.mmap(-1, 5 * 4096)
    pages.write(os.urandom(5 * 4096))
    before = pages[:]
    view = ctypes.c_char.from_buffer(pages)
    start = ctypes.addressof(view) + 100
    driver.cuMemHostRegister_v2(ctypes.c_void_p(start), ctypes.c_size_t(8000), 0)
    assert pages[:] == before
    device = driver.get("cuMemHostGetDevicePointer_v2", u64, ctypes.c_void_p(start), 0)
    driver.cuMemsetD8_v2(u64(device), 0x55, ctypes.c_size_t(8000))
    driver.cuCtxSynchronize()
    assert pages[:] == before[:100] + b"\x55" * 8000 + before[8100:]
    assert driver.result("cuMemHostRegister_v2", ctypes.c_void_p(start), ctypes.c_size_t(8), 0) == 712
    driver.cuMemHostUnregister(ctypes.c_void_p(start))
    assert pages[:] == before[:100] + b"\x55" * 8000 + before[8100:]
    assert driver.result("cuMemHostUnregister", ctypes.c_void_p(start)) == errors.CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
    del view
    pages.close()


def test_streams_and_events(driver: Driver) -> None:
    stream = ctypes.c_void_p(driver.get("cuStreamCreate", ctypes.c_void_p, 1))
    start, end = (ctypes.c_void_p(driver.get("cuEventCreate", ctypes.c_void_p, 0)) for _ in range(2))
    milliseconds = ctypes.c_float()
    assert (
        driver.result("cuEventElapsedTime", ctypes.byref(milliseconds), start, end) == errors.CUDA_ERROR_INVALID_HANDLE
    )
    address = allocate(driver, MANY)
    driver.cuEventRecord(start, stream)
    driver.cuMemsetD8Async(u64(address), 3, ctypes.c_size_t(MANY), stream)
    driver.cuEventRecord(end, stream)
    driver.cuEventSynchronize(end)
    driver.cuEventElapsedTime(ctypes.byref(milliseconds), start, end)
    assert milliseconds.value >= 0
    driver.cuStreamSynchronize(stream)
    assert driver.result("cuStreamQuery", stream) == 0
    driver.cuEventDestroy_v2(start)
    driver.cuEventDestroy_v2(end)
    assert driver.result("cuEventQuery", end) == errors.CUDA_ERROR_INVALID_HANDLE
    driver.cuStreamDestroy_v2(stream)
    assert driver.result("cuStreamQuery", stream) != 0
    free(driver, address)


def test_host_functions_run_in_order(driver: Driver) -> None:
    seen: list[int] = []
    inside: list[int] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def note(value: int | None) -> None:
        seen.append(value or 0)
        inside.append(driver.result("cuCtxSynchronize"))

    for number in range(20):
        driver.cuLaunchHostFunc(None, note, ctypes.c_void_p(number))
    driver.cuCtxSynchronize()
    assert seen == list(range(20))
    assert set(inside) == {errors.CUDA_ERROR_NOT_PERMITTED}


def test_more_records_than_the_ring_holds(driver: Driver) -> None:
    address = allocate(driver, 4096)
    for number in range(40000):
        driver.result("cuMemsetD32Async", u64(address), ctypes.c_uint(number), ctypes.c_size_t(4), None)
    back = (ctypes.c_uint * 4)()
    driver.cuMemcpyDtoH_v2(back, u64(address), ctypes.c_size_t(16))
    assert list(back) == [39999] * 4
    free(driver, address)


def test_a_forked_child_has_no_device(driver: Driver) -> None:
    address = allocate(driver, 4096)
    child = os.fork()
    if child == 0:
        results = [
            driver.result("cuMemAlloc_v2", ctypes.byref(u64()), ctypes.c_size_t(16)),
            driver.result("cuCtxSynchronize"),
            driver.result("cuDevicePrimaryCtxReset_v2", 0),
            driver.result("cuInit", 0),
        ]
        os._exit(0 if set(results) == {errors.CUDA_ERROR_NOT_INITIALIZED} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    driver.cuMemsetD8_v2(u64(address), 0, ctypes.c_size_t(4096))
    driver.cuCtxSynchronize()
    free(driver, address)


def test_handles_of_the_wrong_kind(driver: Driver) -> None:
    event = ctypes.c_void_p(driver.get("cuEventCreate", ctypes.c_void_p, 0))
    assert driver.result("cuStreamSynchronize", event) == errors.CUDA_ERROR_INVALID_HANDLE
    assert driver.result("cuModuleUnload", event) == errors.CUDA_ERROR_INVALID_HANDLE
    assert (
        driver.result("cuLaunchKernel", event, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        == errors.CUDA_ERROR_INVALID_HANDLE
    )
    driver.cuEventDestroy_v2(event)


def test_context_local_storage(driver: Driver) -> None:
    table = ctypes.c_void_p()
    driver.cuGetExportTable(ctypes.byref(table), bytes.fromhex("C693336E1121DF11A8C368F355D89593"))
    assert table.value is not None
    slots = (ctypes.c_void_p * 3).from_address(table.value)
    put = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        slots[0] or 0
    )
    delete = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(slots[1] or 0)
    get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(slots[2] or 0)
    value = ctypes.c_void_p()
    assert get(ctypes.addressof(value), None, 77) == errors.CUDA_ERROR_INVALID_HANDLE
    assert put(None, 77, 1234, None) == 0
    assert get(ctypes.addressof(value), None, 77) == 0
    assert value.value == 1234
    assert delete(None, 77) == 0
    assert delete(None, 77) == 0
    assert get(ctypes.addressof(value), None, 77) == errors.CUDA_ERROR_INVALID_HANDLE


def test_handles_work_without_a_current_context(driver: Driver) -> None:
    """An NVIDIA H200 answers the same: handles name their context; the default stream and plain memory calls need one."""
    ptx = b".version 6.0\n.target sm_60\n.address_size 64\n.visible .global .u32 g; .visible .entry k() { ret; }\0"
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    stream, event = driver.get("cuStreamCreate", pointer, 0), driver.get("cuEventCreate", pointer, 0)
    on, of = pointer(stream), pointer(event)
    module = pointer(driver.get("cuModuleLoadData", pointer, ptx))
    address = u64(allocate(driver, 1024))
    host = ctypes.create_string_buffer(8)
    context = driver.get("cuCtxGetCurrent", pointer)
    driver.cuCtxSetCurrent(None)
    try:
        kernel = pointer(driver.get("cuModuleGetFunction", pointer, module, b"k"))
        driver.cuModuleGetGlobal_v2(ctypes.byref(u64()), None, module, b"g")
        driver.cuFuncSetAttribute(kernel, 8, 64)
        driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, on, None, None)
        driver.cuMemsetD8Async(address, 5, size(8), on)
        driver.cuMemcpyDtoHAsync_v2(host, address, size(8), on)
        driver.cuEventRecord(of, on)
        driver.cuStreamWaitEvent(on, of, 0)
        driver.cuEventSynchronize(of)
        driver.cuStreamSynchronize(on)
        owner = pointer()
        driver.cuStreamGetCtx(on, ctypes.byref(owner))
        assert host.raw == b"\5" * 8 and owner.value == context
        invalid = errors.CUDA_ERROR_INVALID_CONTEXT
        assert driver.result("cuEventRecord", of, None) == invalid
        assert driver.result("cuStreamSynchronize", None) == invalid
        assert driver.result("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == invalid
        assert driver.result("cuMemcpyDtoH_v2", host, address, size(8)) == invalid
        assert driver.result("cuMemAlloc_v2", ctypes.byref(u64()), size(8)) == invalid
        assert driver.result("cuCtxSynchronize") == invalid
        driver.cuMemFree_v2(address)
        driver.cuModuleUnload(module)
    finally:
        driver.cuCtxSetCurrent(pointer(context))
    driver.cuEventDestroy_v2(of)
    driver.cuStreamDestroy_v2(on)
