"""The strict stand-in's runtime: what `fake_hip.c` forwards is executed here, kernels by the RDNA emulator.

Strict: what was not made, was freed, belongs to nobody or is too large gets HIP's own error; work of streams is done when somebody waits for it or asks, never
before, so a buffer that is used again too early shows as wrong data, and memory has no contents until something was written. A kernel that faults
ends the process with HIP 5 and 6 and is an error that stays with HIP 7; HIP 7 crashes on a stream that is none.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from cuttle.abi import hip
from cuttle.device.rdna.code_object import CodeObject
from cuttle.device.rdna.errors import CodeObjectError, IllegalAddress, LaunchError, RdnaFault
from cuttle.device.rdna.memory import Memory
from cuttle.device.rdna.program import Program, load

PIECE = 2 << 20
MULTIPROCESSORS, RESIDENT_THREADS = 48, 2048


class Refused(Exception):
    """A call that HIP refuses, with its hipError_t."""

    def __init__(self, result: int) -> None:
        super().__init__(result)
        self.result = result


class Stream:
    """Work in order, done when somebody asks. `running` is the piece of work that a query has started."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []
        self.running: threading.Thread | None = None


def write(address: int, value: int, size: int) -> None:
    ctypes.memmove(address, value.to_bytes(size, "little"), size)


class Runtime:
    """One process's HIP."""

    def __init__(self, major: int) -> None:
        self.major = major
        self.target = os.environ["FAKE_HIP_DEVICES"].split(",")[0].partition(":")[0]
        self.device: int | None = None
        self.memory = Memory()
        self.sizes: dict[int, int] = {}  # of hipMalloc
        self.pinned: dict[int, Any] = {}
        self.reserved: dict[int, int] = {}
        self.pieces: dict[int, list[int]] = {}  # handle → size, mappings, 1 if released
        self.mapped: dict[int, tuple[int, int, Any]] = {}  # address → size, handle, bytes
        self.accessible: set[int] = set()
        self.streams: dict[int, Stream] = {}
        self.events: dict[int, tuple[Stream, list[int]] | None] = {}  # handle → stream, 1 when it was reached
        self.modules: dict[int, Program] = {}
        self.functions: dict[int, tuple[int, str]] = {}
        self.next_handle = 0x4800
        self.sticky = 0
        self.stack_bytes = 16384  # of kernels whose need is not known; HIP 5 cannot change it

    def handle(self) -> int:
        self.next_handle += 16
        return self.next_handle

    # -- work --------------------------------------------------------------------------------------------------------------

    def stream(self, handle: int) -> Stream:
        if handle not in self.streams:
            if self.major == 7:
                os.abort()
            raise Refused(hip.INVALID_HANDLE)
        return self.streams[handle]

    def perform(self, stream: Stream) -> None:
        if stream.running is not None:
            stream.running.join()
            stream.running = None
        while stream.work:
            self.do(stream.work.pop(0))
        if self.sticky:
            raise Refused(self.sticky)

    def do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except RdnaFault as fault:
            if self.major < 7:
                sys.stderr.write(f"Memory access fault by GPU node-1: {fault.message}\n")
                sys.stderr.flush()
                os.abort()
            self.sticky = hip.ILLEGAL_ADDRESS if isinstance(fault, IllegalAddress) else hip.LAUNCH_FAILURE
        except Refused as refused:
            self.sticky = refused.result

    def region(self, address: int, size: int) -> None:
        """Raises for a range that a copy may not touch."""
        try:
            at = self.memory.region_at(address, max(size, 1))
        except IllegalAddress:
            # Several mappings side by side.
            end = address
            while end < address + size:
                found = next(
                    (start for start, (length, _, _) in self.mapped.items() if start <= end < start + length), None
                )
                if found is None:
                    raise Refused(hip.INVALID_VALUE) from None
                end = found + self.mapped[found][0]
            return
        if at.base in self.mapped and at.base not in self.accessible:
            raise Refused(hip.INVALID_VALUE)

    def parts(self, address: int, size: int) -> list[tuple[Any, int, int]]:
        """(region, offset, bytes) of a device range."""
        found = []
        while size > 0:
            region = self.memory.region_at(address)
            count = min(size, region.base + region.size - address)
            found.append((region, address - region.base, count))
            address, size = address + count, size - count
        return found

    def read(self, address: int, size: int) -> bytes:
        return b"".join(region.bytes[at : at + count].tobytes() for region, at, count in self.parts(address, size))

    def store(self, address: int, data: bytes) -> None:
        done = 0
        for region, at, count in self.parts(address, len(data)):
            region.bytes[at : at + count] = np.frombuffer(data, np.uint8, count, done)
            done += count


# -- the functions: arguments as 64-bit words, a hipError_t or nothing for success -------------------------------------------


def hipSetDevice(r: Runtime, device: int) -> None:
    if device >= os.environ["FAKE_HIP_DEVICES"].count(",") + 1:
        raise Refused(hip.INVALID_DEVICE)
    r.device = device
    r.target = os.environ["FAKE_HIP_DEVICES"].split(",")[device].partition(":")[0]


def hipDeviceSetLimit(r: Runtime, limit: int, value: int) -> None:
    if limit != hip.LIMIT_STACK_SIZE or not value:
        raise Refused(hip.INVALID_VALUE)
    r.stack_bytes = value


def hipStreamCreateWithFlags(r: Runtime, out: int, flags: int) -> None:
    if not out or flags > 1:
        raise Refused(hip.INVALID_VALUE)
    handle = r.handle()
    r.streams[handle] = Stream()
    write(out, handle, 8)


def hipStreamSynchronize(r: Runtime, stream: int) -> None:
    r.perform(r.stream(stream))


def hipStreamQuery(r: Runtime, handle: int) -> int:
    stream = r.stream(handle)
    if stream.running is not None:
        stream.running.join(0.001)
        if stream.running.is_alive():
            return hip.NOT_READY
        stream.running = None
    if stream.work:
        stream.running = threading.Thread(target=r.do, args=(stream.work.pop(0),), daemon=True)
        stream.running.start()
        return hip.NOT_READY
    return r.sticky


def hipStreamDestroy(r: Runtime, handle: int) -> None:
    r.perform(r.stream(handle))
    del r.streams[handle]


def hipEventCreateWithFlags(r: Runtime, out: int, flags: int) -> None:
    if not out:
        raise Refused(hip.INVALID_VALUE)
    handle = r.handle()
    r.events[handle] = None
    write(out, handle, 8)


def hipEventRecord(r: Runtime, event: int, stream: int) -> None:
    if event not in r.events:
        raise Refused(hip.INVALID_HANDLE)
    reached: list[int] = []
    r.stream(stream).work.append(lambda: reached.append(1))
    r.events[event] = r.stream(stream), reached


def hipEventSynchronize(r: Runtime, event: int) -> None:
    if event not in r.events:
        raise Refused(hip.INVALID_HANDLE)
    if r.events[event] is not None:
        stream, reached = r.events[event]
        while not reached:
            r.do(stream.work.pop(0))
        if r.sticky:
            raise Refused(r.sticky)


def hipHostMalloc(r: Runtime, out: int, size: int, flags: int) -> None:
    if not out or not size:
        raise Refused(hip.INVALID_VALUE)
    buffer = ctypes.create_string_buffer(b"\x5a" * size, size + 64)
    address = -(-ctypes.addressof(buffer) // 64) * 64
    r.pinned[address] = buffer
    write(out, address, 8)


def hipHostFree(r: Runtime, address: int) -> None:
    if r.pinned.pop(address, None) is None:
        raise Refused(hip.INVALID_VALUE)


def hipMalloc(r: Runtime, out: int, size: int) -> None:
    if not out:
        raise Refused(hip.INVALID_VALUE)
    address = r.memory.allocate(max(size, 1))
    r.sizes[address] = size
    write(out, address, 8)


def hipFree(r: Runtime, address: int) -> None:
    if address and r.sizes.pop(address, None) is None:
        raise Refused(hip.INVALID_VALUE)
    if address:
        r.memory.unmap(address)


# Memory at chosen addresses


def check_properties(r: Runtime, properties: int) -> None:
    if not properties:
        raise Refused(hip.INVALID_VALUE)
    data = ctypes.string_at(properties, 32)
    # Written down a second time, from the headers: HIP 5's struct begins with the compression type and the location.
    kind, place, device = struct.unpack_from("<i", data, 16) + struct.unpack_from("<ii", data, 4)
    if r.major >= 6:
        (kind,), (place, device) = struct.unpack_from("<i", data, 0), struct.unpack_from("<ii", data, 8)
    if kind != 1 or place != 1 or device != r.device:
        raise Refused(hip.INVALID_VALUE)


def hipMemGetAllocationGranularity(r: Runtime, out: int, properties: int, option: int) -> None:
    check_properties(r, properties)
    if not out or option > 1:
        raise Refused(hip.INVALID_VALUE)
    write(out, PIECE, 8)


def hipMemAddressReserve(r: Runtime, out: int, size: int, alignment: int, hint: int, flags: int) -> None:
    if not out or not size or size % PIECE or flags:
        raise Refused(hip.INVALID_VALUE)
    if os.environ.get("FAKE_HIP_BEHAVIOUR") == "no virtual memory":
        raise Refused(hip.NOT_SUPPORTED)
    address = hint if hint and os.environ.get("FAKE_HIP_BEHAVIOUR") != "other addresses" else 0x7_0000_0000
    r.reserved[address] = size
    write(out, address, 8)


def hipMemAddressFree(r: Runtime, address: int, size: int) -> None:
    if r.reserved.get(address) != size:
        raise Refused(hip.INVALID_VALUE)
    del r.reserved[address]


def hipMemCreate(r: Runtime, out: int, size: int, properties: int, flags: int) -> None:
    check_properties(r, properties)
    if not out or not size or size % PIECE or flags:
        raise Refused(hip.INVALID_VALUE)
    limit = int(os.environ.get("FAKE_HIP_MEMORY", str(24 << 30)))
    if sum(piece[0] for piece in r.pieces.values()) + size > limit:
        raise Refused(hip.OUT_OF_MEMORY)
    handle = r.handle()
    r.pieces[handle] = [size, 0, 0]
    write(out, handle, 8)


def hipMemMap(r: Runtime, address: int, size: int, offset: int, handle: int, flags: int) -> None:
    if handle not in r.pieces or offset or flags or size != r.pieces[handle][0]:
        raise Refused(hip.INVALID_VALUE)
    if not any(start <= address and address + size <= start + length for start, length in r.reserved.items()):
        raise Refused(hip.INVALID_VALUE)
    if any(address < start + length and start < address + size for start, (length, _, _) in r.mapped.items()):
        raise Refused(hip.INVALID_VALUE)
    data = np.full(size, 0xA5, np.uint8)
    r.memory.map(address, data)
    r.mapped[address] = size, handle, data
    r.pieces[handle][1] += 1


def hipMemSetAccess(r: Runtime, address: int, size: int, descriptions: int, count: int) -> None:
    if not descriptions or count != 1 or address not in r.mapped or r.mapped[address][0] != size:
        raise Refused(hip.INVALID_VALUE)
    if struct.unpack("<3i", ctypes.string_at(descriptions, 12)) != (1, r.device, 3):
        raise Refused(hip.INVALID_VALUE)
    r.accessible.add(address)


def hipMemUnmap(r: Runtime, address: int, size: int) -> None:
    if address not in r.mapped or r.mapped[address][0] != size:
        raise Refused(hip.INVALID_VALUE)
    r.pieces[r.mapped.pop(address)[1]][1] -= 1
    r.accessible.discard(address)
    r.memory.unmap(address)


def hipMemRelease(r: Runtime, handle: int) -> None:
    if handle not in r.pieces or r.pieces[handle][2]:
        raise Refused(hip.INVALID_VALUE)
    r.pieces[handle][2] = 1


# Copies


def hipMemcpyHtoDAsync(r: Runtime, to: int, source: int, size: int, stream: int) -> None:
    if not source:
        raise Refused(hip.INVALID_VALUE)
    r.region(to, size)
    r.stream(stream).work.append(lambda: r.store(to, ctypes.string_at(source, size)))


def hipMemcpyDtoHAsync(r: Runtime, to: int, source: int, size: int, stream: int) -> None:
    if not to:
        raise Refused(hip.INVALID_VALUE)
    r.region(source, size)
    flip = os.environ.get("FAKE_HIP_BEHAVIOUR") == "flips a bit"

    def run() -> None:
        data = bytearray(r.read(source, size))
        if flip and size == PIECE:
            # Of one word in 64, the lowest bit of each byte.
            for at in range(0, size, 256):
                data[at : at + 4] = bytes(byte ^ 1 for byte in data[at : at + 4])
        ctypes.memmove(to, bytes(data), size)

    r.stream(stream).work.append(run)


def hipMemcpyDtoDAsync(r: Runtime, to: int, source: int, size: int, stream: int) -> None:
    r.region(to, size)
    r.region(source, size)
    r.stream(stream).work.append(lambda: r.store(to, r.read(source, size)))


def fill(width: int) -> Callable[..., None]:
    def run(r: Runtime, to: int, value: int, count: int, stream: int) -> None:
        if to % width:
            raise Refused(hip.INVALID_VALUE)
        r.region(to, count * width)
        pattern = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
        r.stream(stream).work.append(lambda: r.store(to, pattern * count))

    return run


# Modules and launches


def hipModuleLoadData(r: Runtime, out: int, image: int) -> None:
    if not out or not image:
        raise Refused(hip.INVALID_VALUE)
    head = ctypes.string_at(image, 64)
    if head[:4] != b"\x7fELF":
        raise Refused(hip.INVALID_IMAGE)
    section_at, count, size = int.from_bytes(head[40:48], "little"), head[60] | head[61] << 8, head[58] | head[59] << 8
    try:
        code = CodeObject.parse(ctypes.string_at(image, section_at + count * size))
    except CodeObjectError:
        raise Refused(hip.INVALID_IMAGE) from None
    if code.target != r.target:
        raise Refused(hip.NO_BINARY_FOR_GPU)
    # AMD's code object manager of HIP 5 reads version 4 only.
    if r.major == 5 and code.version != 4:
        raise Refused(hip.INVALID_IMAGE)
    handle = r.handle()
    r.modules[handle] = load(code, r.memory)
    write(out, handle, 8)


def hipModuleUnload(r: Runtime, module: int) -> None:
    if module not in r.modules:
        raise Refused(hip.INVALID_HANDLE)
    for stream in r.streams.values():
        r.perform(stream)
    r.modules.pop(module).unload()
    r.functions = {number: row for number, row in r.functions.items() if row[0] != module}


def hipModuleGetFunction(r: Runtime, out: int, module: int, name: int) -> None:
    if not out or not name:
        raise Refused(hip.INVALID_VALUE)
    if module not in r.modules:
        raise Refused(hip.INVALID_HANDLE)
    text = ctypes.string_at(name).decode()
    if text not in r.modules[module].code.kernels:
        raise Refused(hip.NOT_FOUND)
    handle = r.handle()
    r.functions[handle] = module, text
    write(out, handle, 8)


def launch_buffer(extra: int) -> bytes:
    """The kernel arguments of `extra`: 1, address, 2, address of the size, 3."""
    words = struct.unpack("<5Q", ctypes.string_at(extra, 40))
    if words[0] != 1 or words[2] != 2 or words[4] != 3 or not words[1] or not words[3]:
        raise Refused(hip.INVALID_VALUE)
    return ctypes.string_at(words[1], int.from_bytes(ctypes.string_at(words[3], 8), "little"))


def hipModuleLaunchKernel(r: Runtime, function: int, *rest: int) -> None:
    gx, gy, gz, bx, by, bz, dynamic, stream, parameters, extra = rest
    if function not in r.functions:
        raise Refused(hip.INVALID_HANDLE if r.major < 7 else hip.INVALID_VALUE)
    if parameters or not extra or not gx * gy * gz:
        raise Refused(hip.INVALID_VALUE)
    module, name = r.functions[function]
    program = r.modules[module]
    kernel = program.code.kernels[name]
    if not 0 < bx * by * bz <= kernel.largest_group or kernel.lds_bytes + dynamic > 65536:
        raise Refused(hip.INVALID_CONFIGURATION if r.major == 7 else hip.INVALID_VALUE)
    arguments = launch_buffer(extra)
    if len(arguments) > kernel.kernarg_bytes:
        raise Refused(hip.INVALID_VALUE)

    def run() -> None:
        try:
            # All groups at once where they fit, as on a GPU.
            resident = gx * gy * gz * bx * by * bz <= MULTIPROCESSORS * RESIDENT_THREADS and gx * gy * gz <= 64
            program.run(
                name, arguments, (gx, gy, gz), (bx, by, bz), dynamic_lds_bytes=dynamic, resident=resident,
                schedule=os.environ.get("CUTTLE_RDNA_SCHEDULE") or "lockstep", stack_bytes=r.stack_bytes,
            )  # fmt: skip
        except LaunchError:
            raise Refused(hip.LAUNCH_FAILURE) from None

    r.stream(stream).work.append(run)


def hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
    r: Runtime, out: int, function: int, threads: int, dynamic: int
) -> None:
    if not out or function not in r.functions or not threads:
        raise Refused(hip.INVALID_VALUE)
    write(out, RESIDENT_THREADS // threads, 4)


FUNCTIONS: dict[str, Callable[..., int | None]] = {
    **{name: value for name, value in globals().items() if name.startswith("hip") and callable(value)},
    "hipMemsetD8Async": fill(1), "hipMemsetD16Async": fill(2), "hipMemsetD32Async": fill(4),
}  # fmt: skip

_runtime: Runtime | None = None


def call(major: int, name: str, count: int, place: int) -> int:
    """A call that `fake_hip.c` forwards: `place` is the address of its arguments."""
    global _runtime
    if _runtime is None:
        _runtime = Runtime(major)
    if _runtime.device is None and name != "hipSetDevice":
        return hip.INVALID_DEVICE
    function = FUNCTIONS.get(name)
    if function is None:
        return hip.NOT_SUPPORTED
    if _runtime.sticky and name != "hipStreamQuery":
        return _runtime.sticky
    words = list((ctypes.c_uint64 * count).from_address(place)) if count else []
    try:
        return function(_runtime, *words) or hip.SUCCESS
    except Refused as refused:
        return refused.result
