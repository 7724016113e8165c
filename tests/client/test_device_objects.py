"""Virtual memory, pools, graphs and captures, linking, and many threads at once."""

from __future__ import annotations

import ctypes
import struct
import threading

import pytest

from cuttle.abi import cuda_errors as errors
from tests.client.cluster_launches import COOPERATIVE, NodeParameters
from tests.client.driver import Driver

pytestmark = pytest.mark.device

u64, size_t, void_p = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
GRANULE = 2 << 20
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 address, .param .u32 amount, .param .align 4 .b8 pair[8])
{
    .reg .b64 %a;
    .reg .b32 %v, %w, %x;
    ld.param.u64 %a, [address];
    ld.param.u32 %v, [amount];
    ld.param.u32 %w, [pair+4];
    cvta.to.global.u64 %a, %a;
    ld.global.u32 %x, [%a];
    add.u32 %x, %x, %v;
    add.u32 %x, %x, %w;
    st.global.u32 [%a], %x;
    ret;
}
\0"""

HEAD = b".version 7.0\n.target sm_70\n.address_size 64\n"
CALLER = (
    HEAD
    + b"""
.extern .func (.param .b32 r) other(.param .b32 a);
.visible .entry run(.param .u64 p)
{
    .reg .b64 %a;
    .reg .b32 %v;
    ld.param.u64 %a, [p];
    {
        .param .b32 r;
        .param .b32 a;
        st.param.b32 [a], 20;
        call.uni (r), other, (a);
        ld.param.b32 %v, [r];
    }
    st.global.u32 [%a], %v;
    ret;
}
\0"""
)
CALLEE = (
    HEAD
    + b"""
.visible .func (.param .b32 r) other(.param .b32 a)
{
    .reg .b32 %v;
    ld.param.b32 %v, [a];
    add.u32 %v, %v, 3;
    st.param.b32 [r], %v;
    ret;
}
\0"""
)


def read_words(driver: Driver, address: int, count: int) -> list[int]:
    back = (ctypes.c_uint32 * count)()
    driver.cuMemcpyDtoH_v2(back, u64(address), size_t(4 * count))
    return list(back)


@pytest.fixture
def word(driver: Driver) -> int:
    """Address of a zeroed word."""
    address = int(driver.get("cuMemAlloc_v2", u64, size_t(4)))
    driver.cuMemsetD32_v2(u64(address), 0, size_t(1))
    return address


def parameters(address: int, amount: int, more: int) -> tuple[ctypes.Array[void_p], list[object]]:
    values: list[object] = [u64(address), ctypes.c_uint32(amount), (ctypes.c_uint32 * 2)(99, more)]
    return (void_p * 3)(*(ctypes.addressof(value) for value in values)), values  # type: ignore[arg-type]


def kernel(driver: Driver) -> ctypes.c_void_p:
    module = void_p(driver.get("cuModuleLoadData", void_p, PTX))
    return void_p(driver.get("cuModuleGetFunction", void_p, module, b"add"))


def launch(driver: Driver, function: object, array: object, stream: object = None) -> int:
    return driver.result("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, array, None)


def test_launch_with_parameters_and_with_a_buffer(driver: Driver, word: int) -> None:
    function = kernel(driver)
    array, _keep = parameters(word, 5, 7)
    assert launch(driver, function, array) == 0
    assert read_words(driver, word, 1) == [12]
    buffer = struct.pack("<QIII", word, 100, 0, 1000)
    count = size_t(len(buffer))
    extra = (void_p * 5)(1, ctypes.cast(buffer, void_p), 2, ctypes.addressof(count), None)
    driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, extra)
    assert read_words(driver, word, 1) == [1112]


def test_parameter_places(driver: Driver) -> None:
    function = kernel(driver)
    offset, size = size_t(), size_t()
    places = []
    for index in range(3):
        driver.cuFuncGetParamInfo(function, size_t(index), ctypes.byref(offset), ctypes.byref(size))
        places.append((offset.value, size.value))
    assert places == [(0, 8), (8, 4), (12, 8)]
    result = driver.result("cuFuncGetParamInfo", function, size_t(3), ctypes.byref(offset), ctypes.byref(size))
    assert result == errors.CUDA_ERROR_INVALID_VALUE


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [
        ((0, 1, 1), (1, 1, 1), 0),
        ((1, 65536, 1), (1, 1, 1), 0),
        ((1, 1, 1), (1025, 1, 1), 0),
        ((1, 1, 1), (1, 1, 65), 0),
        ((1, 1, 1), (64, 64, 1), 0),
        ((1, 1, 1), (1, 1, 1), 1 << 20),
    ],
)
def test_impossible_launches_are_refused(
    driver: Driver, word: int, grid: tuple[int, ...], block: tuple[int, ...], shared: int
) -> None:
    array, _keep = parameters(word, 1, 1)
    result = driver.result("cuLaunchKernel", kernel(driver), *grid, *block, shared, None, array, None)
    assert result == errors.CUDA_ERROR_INVALID_VALUE


def test_memory_of_a_graph_freed_outside_of_it(driver: Driver) -> None:
    """It is the graph's: a program may free it after each launch, and nothing else gets its place meanwhile."""
    stream = void_p(driver.get("cuStreamCreate", void_p, 1))
    driver.cuStreamBeginCapture_v2(stream, 2)
    address = driver.get("cuMemAllocAsync", u64, size_t(1 << 20), stream)
    driver.cuMemsetD32Async(u64(address), 7, size_t(1 << 18), stream)
    graph = void_p()
    driver.cuStreamEndCapture(stream, ctypes.byref(graph))
    executable = void_p(driver.get("cuGraphInstantiateWithFlags", void_p, graph, u64(0)))
    for asynchronous in (True, False, True):
        driver.cuGraphLaunch(executable, stream)
        driver.cuStreamSynchronize(stream)
        assert read_words(driver, address, 1) == [7]
        if asynchronous:
            driver.cuMemFreeAsync(u64(address), stream)
        else:
            driver.cuMemFree_v2(u64(address))
        other = driver.get("cuMemAllocAsync", u64, size_t(1 << 20), stream)
        assert abs(other - address) >= 1 << 20
        driver.cuMemFreeAsync(u64(other), stream)
    driver.cuGraphExecDestroy(executable)
    driver.cuGraphDestroy(graph)
    driver.cuStreamDestroy_v2(stream)


def test_parameters_of_a_node_outlive_other_questions_about_it(driver: Driver, word: int) -> None:
    """What cuGraphKernelNodeGetParams points to stays until the next such call, so it can be given back changed."""
    graph, node, given = void_p(driver.get("cuGraphCreate", void_p, 0)), void_p(), NodeParameters()
    array, _keep = parameters(word, 1, 2)
    made = NodeParameters(kernel(driver), (1, 1, 1), (1, 1, 1), 0, ctypes.addressof(array))
    driver.cuGraphAddKernelNode_v2(ctypes.byref(node), graph, None, size_t(0), ctypes.byref(made))
    driver.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(given))
    for _ in range(100):
        driver.cuGraphNodeGetType(node, ctypes.byref(ctypes.c_int()))
        driver.cuGraphKernelNodeGetAttribute(node, COOPERATIVE, ctypes.byref((ctypes.c_uint * 16)()))
    given.block = (2, 1, 1)
    driver.cuGraphKernelNodeSetParams_v2(node, ctypes.byref(given))
    driver.cuGraphKernelNodeGetParams_v2(node, ctypes.byref(given))
    assert list(given.block) == [2, 1, 1]
    assert ctypes.cast(given.parameters, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint32)))[1][0] == 1
    executable = void_p(driver.get("cuGraphInstantiateWithFlags", void_p, graph, u64(0)))
    driver.cuGraphLaunch(executable, None)
    driver.cuCtxSynchronize()
    assert read_words(driver, word, 1) == [3]
    driver.cuGraphExecDestroy(executable)
    driver.cuGraphDestroy(graph)


def test_captured_graph(driver: Driver, word: int) -> None:
    function = kernel(driver)
    stream = void_p(driver.get("cuStreamCreate", void_p, 1))
    driver.cuStreamBeginCapture_v2(stream, 2)
    array, _keep = parameters(word, 1, 2)
    assert launch(driver, function, array, stream) == 0
    driver.cuMemsetD32Async(u64(word), 50, size_t(1), stream)
    assert launch(driver, function, array, stream) == 0
    graph = void_p()
    driver.cuStreamEndCapture(stream, ctypes.byref(graph))
    assert read_words(driver, word, 1) == [0]
    count = size_t()
    driver.cuGraphGetNodes(graph, None, ctypes.byref(count))
    nodes = (void_p * count.value)()
    driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count))
    kinds = []
    for node in nodes:
        kind = ctypes.c_int()
        driver.cuGraphNodeGetType(void_p(node), ctypes.byref(kind))
        kinds.append(kind.value)
    assert kinds == [0, 2, 0]
    executable = void_p(driver.get("cuGraphInstantiateWithFlags", void_p, graph, u64(0)))
    driver.cuGraphLaunch(executable, stream)
    driver.cuStreamSynchronize(stream)
    assert read_words(driver, word, 1) == [53]
    driver.cuGraphExecDestroy(executable)
    driver.cuGraphDestroy(graph)
    assert driver.result("cuGraphDestroy", graph) == errors.CUDA_ERROR_INVALID_VALUE
    driver.cuStreamDestroy_v2(stream)


def test_the_legacy_stream_spoils_a_capture(driver: Driver, word: int) -> None:
    stream = void_p(driver.get("cuStreamCreate", void_p, 0))
    driver.cuStreamBeginCapture_v2(stream, 0)
    assert driver.result("cuMemsetD32Async", u64(word), 1, size_t(1), None) == errors.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
    graph = void_p()
    assert (
        driver.result("cuStreamEndCapture", stream, ctypes.byref(graph)) == errors.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    )
    driver.cuMemsetD32Async(u64(word), 1, size_t(1), None)
    driver.cuStreamDestroy_v2(stream)


def test_virtual_memory(driver: Driver) -> None:
    properties = struct.pack("<iiiiQBBH4x", 1, 0, 1, 0, 0, 0, 0, 0)
    assert driver.get("cuMemGetAllocationGranularity", size_t, properties, 0) == GRANULE
    address = driver.get("cuMemAddressReserve", u64, size_t(4 * GRANULE), size_t(0), u64(0), u64(0))
    handles = [driver.get("cuMemCreate", u64, size_t(GRANULE), properties, u64(0)) for _ in range(2)]
    for index, handle in enumerate(handles):
        driver.cuMemMap(u64(address + index * GRANULE), size_t(GRANULE), size_t(0), u64(handle), u64(0))
    access = struct.pack("<iii", 1, 0, 3)
    driver.cuMemSetAccess(u64(address), size_t(2 * GRANULE), access, size_t(1))
    # Mappings side by side are one range, what lies behind them is none.
    driver.cuMemsetD32_v2(u64(address + GRANULE - 64), 7, size_t(32))
    assert read_words(driver, address + GRANULE - 4, 2) == [7, 7]
    data = bytes(8)
    assert (
        driver.result("cuMemcpyHtoD_v2", u64(address + 2 * GRANULE - 4), data, size_t(8))
        == errors.CUDA_ERROR_INVALID_VALUE
    )
    driver.cuMemUnmap(u64(address), size_t(2 * GRANULE))
    for handle in handles:
        driver.cuMemRelease(u64(handle))
    driver.cuMemAddressFree(u64(address), size_t(4 * GRANULE))
    assert driver.result("cuMemcpyHtoD_v2", u64(address), data, size_t(8)) == errors.CUDA_ERROR_INVALID_VALUE


def test_pool(driver: Driver) -> None:
    address = driver.get("cuMemAllocAsync", u64, size_t(1000), None)
    driver.cuMemsetD8Async(u64(address), 1, size_t(1000), None)
    assert read_words(driver, address, 1) == [0x01010101]
    driver.cuMemFreeAsync(u64(address), None)
    assert driver.result("cuMemFreeAsync", u64(address), None) == errors.CUDA_ERROR_INVALID_VALUE
    pool = driver.get("cuDeviceGetDefaultMemPool", void_p, 0)
    assert pool == driver.get("cuDeviceGetMemPool", void_p, 0)


def test_link_two_texts(driver: Driver, word: int) -> None:
    link = void_p()
    driver.cuLinkCreate_v2(0, None, None, ctypes.byref(link))
    for text in (CALLER, CALLEE):
        driver.cuLinkAddData_v2(link, 1, text, size_t(len(text)), b"text", 0, None, None)
    image, size = void_p(), size_t()
    driver.cuLinkComplete(link, ctypes.byref(image), ctypes.byref(size))
    module = void_p(driver.get("cuModuleLoadData", void_p, image))
    driver.cuLinkDestroy(link)
    function = void_p(driver.get("cuModuleGetFunction", void_p, module, b"run"))
    value = u64(word)
    assert launch(driver, function, (void_p * 1)(ctypes.addressof(value))) == 0
    assert read_words(driver, word, 1) == [23]
    driver.cuModuleUnload(module)
    assert launch(driver, function, (void_p * 1)(ctypes.addressof(value))) == errors.CUDA_ERROR_INVALID_HANDLE


def test_many_threads(driver: Driver) -> None:
    context = driver.get("cuCtxGetCurrent", void_p)
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            driver.cuCtxSetCurrent(void_p(context))
            stream = void_p(driver.get("cuStreamCreate", void_p, 1))
            for turn in range(60):
                address = driver.get("cuMemAlloc_v2", u64, size_t(4096))
                event = void_p(driver.get("cuEventCreate", void_p, 2))
                driver.cuMemsetD32Async(u64(address), number * 1000 + turn, size_t(1024), stream)
                driver.cuEventRecord(event, stream)
                driver.cuEventSynchronize(event)
                back = (ctypes.c_uint32 * 1024)()
                driver.cuMemcpyDtoHAsync_v2(back, u64(address), size_t(4096), stream)
                if set(back) != {number * 1000 + turn}:
                    wrong.append((number, turn, set(back)))
                driver.cuEventDestroy_v2(event)
                driver.cuMemFree_v2(u64(address))
            driver.cuStreamDestroy_v2(stream)
        except Exception as error:  # what a thread raises must reach the test
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []
