"""Capability tests of the driver API itself."""

from __future__ import annotations

import ctypes
import re
import struct
import sys
from array import array
from typing import Any

from cuttle.stack.device_program import DeviceProgram, offset
from cuttle.stack.probes.checking import Refused, require, same

COUNT = 1000
# CUdevice_attribute
WARP_SIZE, MULTIPROCESSORS, MAJOR, MINOR, MAX_THREADS, PITCH = 10, 16, 75, 76, 1, 11


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: an id, padding, a value of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    )


PROGRAMMATIC_SERIALIZATION, PRIORITY = 6, 8  # CUlaunchAttributeID


def program() -> DeviceProgram:
    return DeviceProgram("arrays")


def optional(made: DeviceProgram, function: str) -> None:
    """Raises Refused if the library has no such function: it came with a newer CUDA."""
    if not hasattr(made.cuda, function):
        raise Refused(f"the driver library has no {function}")


def attribute(made: DeviceProgram, number: int) -> int:
    value = ctypes.c_int()
    made.call("cuDeviceGetAttribute", ctypes.byref(value), number, made.device)
    return value.value


def read_words(made: DeviceProgram, pointer: ctypes.c_uint64, count: int) -> list[int]:
    return array("I", made.read(pointer, 4 * count)).tolist()


def advanced(values: list[int], factor: int) -> list[int]:
    """What the kernel `advance` makes of them."""
    return [(value * factor + place) & 0xFFFFFFFF for place, value in enumerate(values)]


def start_with(
    made: DeviceProgram, name: str, grid: int, block: int, attributes: list[tuple[int, int]], *values: Any
) -> None:
    """cuLaunchKernelEx in the default stream."""
    optional(made, "cuLaunchKernelEx")
    rows = (LaunchAttribute * max(1, len(attributes)))()
    for row, (number, value) in zip(rows, attributes, strict=False):
        row.id, row.value[0] = number, value
    config = LaunchConfig((grid, 1, 1), (block, 1, 1), 0, None, rows, len(attributes))
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
    made.call("cuLaunchKernelEx", ctypes.byref(config), made.function(name), pointers, None)


def probe_device_info() -> None:
    made = program()
    name = ctypes.create_string_buffer(256)
    made.call("cuDeviceGetName", name, 256, made.device)
    require(bool(name.value), "the device has no name")
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    made.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    whole = ctypes.c_size_t()
    made.call("cuDeviceTotalMem_v2", ctypes.byref(whole), made.device)
    require(0 < free.value <= total.value, f"{free.value} bytes free of {total.value}")
    require(whole.value >= total.value, f"the device has {whole.value} bytes, its context sees {total.value}")
    capability = attribute(made, MAJOR) * 10 + attribute(made, MINOR)
    require(50 <= capability < 200, f"compute capability {capability / 10}")
    require(attribute(made, WARP_SIZE) == 32, f"warps of {attribute(made, WARP_SIZE)}: CUDA programs expect 32")
    require(attribute(made, MULTIPROCESSORS) > 0, "no multiprocessors")
    require(attribute(made, MAX_THREADS) >= 1024, f"at most {attribute(made, MAX_THREADS)} threads in a block")


def probe_driver_pci_bus_id() -> None:
    made = program()
    text = ctypes.create_string_buffer(32)
    made.call("cuDeviceGetPCIBusId", text, 32, made.device)
    shown = text.value.decode(errors="replace")
    require(
        bool(re.fullmatch(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.0", shown)), f"the PCI address is {shown!r}"
    )
    device = ctypes.c_int(-1)
    made.call("cuDeviceGetByPCIBusId", ctypes.byref(device), text)
    require(device.value == made.device.value, f"{shown} is device {device.value}, not {made.device.value}")


def probe_driver_api() -> None:
    made = program()
    version = ctypes.c_int()
    made.call("cuDriverGetVersion", ctypes.byref(version))
    require(version.value >= 11000, f"driver API {version.value}: older than CUDA 11")
    optional(made, "cuGetProcAddress")
    found = ctypes.c_void_p()
    made.call("cuGetProcAddress", b"cuDriverGetVersion", ctypes.byref(found), 11030, ctypes.c_uint64(0))
    require(bool(found.value), "cuGetProcAddress does not find cuDriverGetVersion")
    again = ctypes.c_int()
    result = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int))(found.value or 0)(ctypes.byref(again))
    require(result == 0 and again.value == version.value, f"the entry point answers {result} and {again.value}")
    missing = ctypes.c_void_p()
    made.cuda.cuGetProcAddress(b"cuNoSuchFunction", ctypes.byref(missing), 11030, ctypes.c_uint64(0))
    require(not missing.value, "cuGetProcAddress gives an entry point for a function that does not exist")
    text = ctypes.c_char_p()
    made.call("cuGetErrorName", 700, ctypes.byref(text))
    require(text.value == b"CUDA_ERROR_ILLEGAL_ADDRESS", f"error 700 is called {text.value!r}")


def probe_driver_launch_ex() -> None:
    made = program()
    pointer, count, factor = made.floats(COUNT), ctypes.c_uint32(COUNT), ctypes.c_uint32(3)
    start_with(made, "advance", 4, 256, [], pointer, count, factor)
    start_with(made, "advance", 4, 256, [(PRIORITY, 0)], pointer, count, factor)
    same(read_words(made, pointer, COUNT), advanced(advanced([0] * COUNT, 3), 3), "after two launches")


def probe_driver_pdl_semantics() -> None:
    made = program()
    pointer, count, factor = made.floats(COUNT), ctypes.c_uint32(COUNT), ctypes.c_uint32(5)
    right = [0] * COUNT
    for _ in range(20):
        start_with(made, "advance_late", 4, 256, [], pointer, count, factor, ctypes.c_uint32(20000))
        if attribute(made, MAJOR) >= 9:
            # There the second kernel may begin early, and says itself from where on it needs the first one's results.
            waiting = waiting_module(made)
            start_waiting(made, waiting, pointer, count, factor)
        else:
            attributes = [(PROGRAMMATIC_SERIALIZATION, 1)]
            start_with(made, "advance", 4, 256, attributes, pointer, count, factor)
        right = advanced(advanced(right, 5), 5)
    same(read_words(made, pointer, COUNT), right, "after 20 pairs")


WAITING = b"""
.version 7.8
.target sm_90
.address_size 64
.visible .entry advance_waiting(.param .u64 values, .param .u32 count, .param .u32 factor)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    griddepcontrol.wait;
    ld.param.u64 %rd1, [values];
    ld.param.u32 %r1, [count];
    ld.param.u32 %r2, [factor];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 ret;
    mul.wide.u32 %rd2, %r6, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r7, [%rd3];
    mad.lo.u32 %r7, %r7, %r2, %r6;
    st.global.u32 [%rd3], %r7;
    ret;
}
"""


def waiting_module(made: DeviceProgram) -> ctypes.c_void_p:
    function = ctypes.c_void_p()
    made.call("cuModuleGetFunction", ctypes.byref(function), made.load(WAITING), b"advance_waiting")
    return function


def start_waiting(made: DeviceProgram, function: ctypes.c_void_p, *values: Any) -> None:
    rows = (LaunchAttribute * 1)()
    rows[0].id, rows[0].value[0] = PROGRAMMATIC_SERIALIZATION, 1
    config = LaunchConfig((4, 1, 1), (256, 1, 1), 0, None, rows, 1)
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
    made.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)


def probe_driver_func_attributes() -> None:
    made = program()
    function = made.function("known_attributes")

    def value(number: int) -> int:
        found = ctypes.c_int()
        made.call("cuFuncGetAttribute", ctypes.byref(found), number, function)
        return found.value

    require(value(1) == 1024, f"the kernel has {value(1)} bytes of shared memory instead of 1024")
    require(0 < value(0) <= 1024, f"at most {value(0)} threads in a block")
    require(0 < value(4) <= 255, f"{value(4)} registers")
    capability = attribute(made, MAJOR) * 10 + attribute(made, MINOR)
    require(value(5) <= capability, f"PTX for {value(5)} on a device of {capability}")
    made.call("cuFuncSetAttribute", function, 8, 4096)
    require(value(8) >= 4096, f"dynamic shared memory is limited to {value(8)} after 4096 were asked for")


def probe_driver_function_metadata() -> None:
    made = program()
    function = made.function("known_attributes")
    for needed in ("cuFuncGetModule", "cuFuncGetName", "cuFuncGetParamInfo"):
        optional(made, needed)
    module, name = ctypes.c_void_p(), ctypes.c_char_p()
    made.call("cuFuncGetModule", ctypes.byref(module), function)
    require(bool(module.value), "the kernel has no module")
    made.call("cuFuncGetName", ctypes.byref(name), function)
    require(name.value == b"known_attributes", f"the kernel is called {name.value!r}")
    found = []
    for place in range(3):
        at, size = ctypes.c_size_t(), ctypes.c_size_t()
        made.call("cuFuncGetParamInfo", function, ctypes.c_size_t(place), ctypes.byref(at), ctypes.byref(size))
        found.append((at.value, size.value))
    require(found == [(0, 8), (8, 4), (12, 2)], f"offsets and sizes of its parameters: {found}")


# (architecture, PTX version that knows it)
ARCHITECTURES = (
    (52, (4, 1)),
    (60, (5, 0)),
    (70, (6, 0)),
    (75, (6, 3)),
    (80, (7, 0)),
    (90, (7, 8)),
    (100, (8, 6)),
    (120, (8, 7)),
)
TELLS_ITS_ARCHITECTURE = """
.version {major}.{minor}
.target sm_{architecture}
.address_size 64
.visible .entry tell(.param .u64 out)
{{
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    st.global.u32 [%rd1], {architecture};
    ret;
}}
"""


def fat_binary() -> bytes:
    """The same kernel for each of `ARCHITECTURES`, uncompressed. The layout is what nvcc -fatbin --no-compress writes."""
    entries = b""
    for architecture, (major, minor) in ARCHITECTURES:
        text = TELLS_ITS_ARCHITECTURE.format(major=major, minor=minor, architecture=architecture).encode() + b"\0"
        text += bytes(-len(text) % 8)
        flags = 0x11  # for 64-bit programs on Linux
        entries += struct.pack(
            "<HHIQIIHHIIIQQQQQ", 1, 0x101, 80, len(text), 0, 64, minor, major, architecture, 0, 0, flags, 0, 0, 72, 0
        )
        entries += text
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def probe_driver_ptx_selection() -> None:
    made = program()
    capability = attribute(made, MAJOR) * 10 + attribute(made, MINOR)
    function, out = ctypes.c_void_p(), made.floats(1)
    image = ctypes.create_string_buffer(fat_binary())
    module = ctypes.c_void_p()
    made.call("cuModuleLoadData", ctypes.byref(module), image)
    made.call("cuModuleGetFunction", ctypes.byref(function), module, b"tell")
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    made.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, pointers, None)
    right = max(architecture for architecture, _ in ARCHITECTURES if architecture <= capability)
    (found,) = read_words(made, out, 1)
    require(found == right, f"a device of {capability} ran the PTX for {found} instead of {right}")


def probe_driver_buffer_clear() -> None:
    made = program()
    pointer = made.floats(COUNT)
    right = bytearray(4 * COUNT)

    def clear(function: str, at: int, value: int, count: int, width: int) -> None:
        made.call(function, ctypes.c_uint64(pointer.value + at), value, ctypes.c_size_t(count))
        right[at : at + count * width] = value.to_bytes(width, "little") * count

    clear("cuMemsetD8_v2", 3, 0xA5, 77, 1)
    clear("cuMemsetD16_v2", 202, 0x1234, 33, 2)
    clear("cuMemsetD32_v2", 804, 0xDEADBEEF, 55, 4)
    made.call(
        "cuMemsetD2D8_v2", ctypes.c_uint64(pointer.value + 2001), ctypes.c_size_t(64), 0x77, ctypes.c_size_t(10), ctypes.c_size_t(5)
    )  # fmt: skip
    for row in range(5):
        right[2001 + 64 * row : 2011 + 64 * row] = b"\x77" * 10
    same(list(made.read(pointer, 4 * COUNT)), list(right), "bytes")


def probe_nvml() -> None:
    name = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError:
        raise Refused(f"there is no {name}") from None
    call = NvmlCalls(library)
    call("nvmlInit_v2")
    count = ctypes.c_uint()
    call("nvmlDeviceGetCount_v2", ctypes.byref(count))
    require(count.value > 0, "the management library counts no devices")
    device, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
    call("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(device))
    call("nvmlDeviceGetName", device, text, 96)
    require(bool(text.value), "the device has no name")
    memory = (ctypes.c_uint64 * 3)()
    call("nvmlDeviceGetMemoryInfo", device, memory)
    require(0 < memory[1] <= memory[0], f"{memory[1]} bytes free of {memory[0]}")
    call("nvmlShutdown")


class NvmlCalls:
    """Functions of the management library: nvmlReturn_t 3 is NOT_SUPPORTED, 13 FUNCTION_NOT_FOUND."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def __call__(self, function: str, *arguments: Any) -> None:
        result = getattr(self._library, function)(*arguments)
        if result in (3, 13):
            raise Refused(f"{function} answered {result}")
        require(result == 0, f"{function} answered {result}")


def probe_memory_copy() -> None:
    made = program()
    size = 4 * COUNT
    data = bytes((7 * i + i // 251) % 256 for i in range(size))
    one, two = made.floats(COUNT), made.floats(COUNT)
    made.write(one, data)
    made.call("cuMemcpyDtoD_v2", two, one, ctypes.c_size_t(size))
    same(list(made.read(two, size)), list(data), "from device to device")
    pinned = ctypes.c_void_p()
    made.call("cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(2 * size), 0)
    ctypes.memmove(pinned.value or 0, data[::-1], size)
    made.call("cuMemcpyHtoDAsync_v2", one, pinned, ctypes.c_size_t(size), None)
    made.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p((pinned.value or 0) + size), one, ctypes.c_size_t(size), None)
    made.synchronize()
    same(list(ctypes.string_at((pinned.value or 0) + size, size)), list(data[::-1]), "through pinned memory")
    made.call("cuMemFreeHost", pinned)
    made.write(one, data)
    made.call("cuMemcpy2D_v2", pitched(one, 100, two, 64, 60, 12))
    right = bytearray(data)
    for row in range(12):
        right[64 * row : 64 * row + 60] = data[100 * row : 100 * row + 60]
    same(list(made.read(two, size)), list(right), "with pitch")


def pitched(
    source: ctypes.c_uint64, source_pitch: int, target: ctypes.c_uint64, target_pitch: int, width: int, height: int
) -> ctypes.Array[ctypes.c_uint64]:
    """CUDA_MEMCPY2D between device addresses, as 64-bit words."""
    device = 2  # CU_MEMORYTYPE_DEVICE
    return (ctypes.c_uint64 * 16)(
        0, 0, device, 0, source.value, 0, source_pitch, 0, 0, device, 0, target.value, 0, target_pitch, width, height
    )  # fmt: skip


def probe_streams_events() -> None:
    made = program()
    streams = [ctypes.c_void_p(), ctypes.c_void_p()]
    for stream in streams:
        made.call("cuStreamCreate", ctypes.byref(stream), 1)
    begin, middle, end = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    for event in (begin, middle, end):
        made.call("cuEventCreate", ctypes.byref(event), 0)
    pointer, count, factor = made.floats(COUNT), ctypes.c_uint32(COUNT), ctypes.c_uint32(7)
    made.synchronize()
    right = [0] * COUNT
    for round_number in range(10):
        first, second = streams[round_number % 2], streams[1 - round_number % 2]
        made.call("cuEventRecord", begin, first)
        values = [pointer, count, factor, ctypes.c_uint32(20000)]
        pointers = (ctypes.c_void_p * 4)(*[ctypes.addressof(value) for value in values])
        made.call("cuLaunchKernel", made.function("advance_late"), 4, 1, 1, 256, 1, 1, 0, first, pointers, None)
        made.call("cuEventRecord", middle, first)
        made.call("cuStreamWaitEvent", second, middle, 0)
        made.call("cuLaunchKernel", made.function("advance"), 4, 1, 1, 256, 1, 1, 0, second, pointers, None)
        made.call("cuEventRecord", end, second)
        made.call("cuEventSynchronize", end)
        right = advanced(advanced(right, 7), 7)
    same(read_words(made, pointer, COUNT), right, "after ten rounds")
    milliseconds = ctypes.c_float(-1)
    made.call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
    require(0 < milliseconds.value < 60000, f"{milliseconds.value} ms between the events")


def probe_cuda_graph() -> None:
    made = program()
    pointer = made.floats(COUNT)
    stream, graph, ready = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    made.call("cuStreamCreate", ctypes.byref(stream), 1)
    made.synchronize()
    made.call("cuStreamBeginCapture_v2", stream, 0)
    for factor in (3, 5):
        values = [pointer, ctypes.c_uint32(COUNT), ctypes.c_uint32(factor)]
        pointers = (ctypes.c_void_p * 3)(*[ctypes.addressof(value) for value in values])
        made.call("cuLaunchKernel", made.function("advance"), 4, 1, 1, 256, 1, 1, 0, stream, pointers, None)
    made.call("cuMemsetD32Async", offset(pointer, 10), 1, ctypes.c_size_t(5), stream)
    made.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    made.call("cuStreamSynchronize", stream)
    same(read_words(made, pointer, COUNT), [0] * COUNT, "captured work is not to run")
    made.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
    right = [0] * COUNT
    for _ in range(3):
        made.call("cuGraphLaunch", ready, stream)
        right = advanced(advanced(right, 3), 5)
        right[10:15] = [1] * 5
    made.call("cuStreamSynchronize", stream)
    same(read_words(made, pointer, COUNT), right, "after three launches")
