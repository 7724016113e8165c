"""The executor of AMD GPUs: drives the HIP library with the jobs of `device/job_loop.py`.

    python -c "... main(sys.argv[1:])" LIBRARY ORDINAL STATUS ARENA JOBS SOCKET

Jobs that are there together are one batch: memory goes to the GPU before its first kernel and comes back before the program is told that
anything is done (`mirror.py`). Each kernel is waited for: its faults and its text are known before the next one starts.
"""

from __future__ import annotations

import ctypes
import time
from struct import unpack_from
from typing import Any

from cuttle.abi import hip as rows
from cuttle.abi import wire_layout as wire
from cuttle.abi.hip import ATTRIBUTES
from cuttle.device.amdgpu_launch import (
    OUTPUT_AREA_BYTES,
    STRING_LIMIT,
    WORKSPACE_BYTES,
    Image,
    Launch,
    fresh_heap,
    fresh_output,
    kernel_arguments,
    read_launch,
    read_load,
)
from cuttle.device.arena_jobs import ArenaJobs
from cuttle.device.device_output import OUTPUT_BYTES, read_fault, read_records
from cuttle.device.hip.mirror import Mirror
from cuttle.device.hip.runtime_library import open_hip
from cuttle.device.job_loop import (
    ASSERT,
    ILLEGAL_ADDRESS,
    LAUNCH_FAILED,
    LOAD_FAILED,
    TIME_OUT,
    Fault,
    serve,
)
from cuttle.errors import CuttleError

# HIP's errors of kernels, and what the context gets.
_KERNEL_FAULTS = {rows.ILLEGAL_ADDRESS: ILLEGAL_ADDRESS, rows.LAUNCH_TIME_OUT: TIME_OUT, rows.ASSERT: ASSERT}
_LONGEST_PAUSE_S = 0.002
# Stack frames of the GPU are larger than those that a program's CU_LIMIT_STACK_SIZE is made for, and nothing sees them overflow.
_STACK_FACTOR = 4
_USUAL_STACK_BYTES = 1024


class HipExecutor(ArenaJobs):
    """Jobs on one GPU."""

    def __init__(self, library: str, ordinal: int, descriptors: tuple[int, int, int, int]) -> None:
        super().__init__(*descriptors)
        self._hip = open_hip(library)
        self._hip.start()
        self._hip.call("hipSetDevice", ordinal)
        self._ordinal = ordinal
        self._stream = ctypes.c_void_p()
        self._hip.call("hipStreamCreateWithFlags", ctypes.byref(self._stream), rows.STREAM_NON_BLOCKING)
        self._mirror = Mirror(self._hip, ordinal, self._stream, self.arena, self.arena_descriptor, self.arena_base)
        self._images: dict[int, tuple[Image, Any, Any, Any]] = {}  # facts, hipModule_t, hipFunction_t, code
        self._output = self._allocate(OUTPUT_BYTES + OUTPUT_AREA_BYTES)
        self._workspace = self._allocate(WORKSPACE_BYTES)
        self._on_gpu = False  # the GPU's memory is newer than the arena
        self._grid_id = 0
        self._heap_base = 0
        self._stack_bytes = 0

    def _allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self._hip.call("hipMalloc", ctypes.byref(address), size)
        self._hip.call("hipMemsetD8Async", address.value, 0, size, self._stream)
        return address.value

    # -- memory ----------------------------------------------------------------------------------------------------------

    @property
    def settles_each_job(self) -> bool:
        return False

    def settle(self) -> None:
        if self._on_gpu:
            self._mirror.download()
            self._on_gpu = False

    def cover(self, at: int) -> None:
        address, size = unpack_from("<2Q", self.jobs.bytes, at + 16)
        self.offset(address, 1, "memory of the GPU")
        self._mirror.cover(address, size)

    def copy(self, at: int) -> None:
        if not self._on_gpu:
            super().copy(at)
            return
        destination, source, size = unpack_from("<3Q", self.jobs.bytes, at + 16)
        self.offset(destination, size, "a memory copy")
        self.offset(source, size, "a memory copy")
        if size:
            self._hip.call("hipMemcpyDtoDAsync", destination, source, size, self._stream)

    def copy_3d(self, at: int) -> None:
        self.settle()
        super().copy_3d(at)

    def fill(self, at: int) -> None:
        if not self._on_gpu:
            super().fill(at)
            return
        destination, width, height, pitch, value, element = unpack_from("<4Q2I", self.jobs.bytes, at + 16)
        if height > 1 and pitch == width * element:
            width, height = width * height, 1
        name = {1: "hipMemsetD8Async", 2: "hipMemsetD16Async", 4: "hipMemsetD32Async"}[element]
        value &= (1 << 8 * element) - 1
        for y in range(height if width else 0):
            address = destination + y * pitch
            self.offset(address, width * element, "a memory fill")
            self._hip.call(name, address, ctypes.c_int32(value) if element == 4 else value, width, self._stream)

    def write_value(self, at: int) -> None:
        self.settle()
        super().write_value(at)

    # -- images and launches ---------------------------------------------------------------------------------------------

    def load(self, at: int) -> None:
        number, image, code = read_load(self.jobs.bytes, at)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        data = ctypes.create_string_buffer(code, len(code))
        result = self._hip.result("hipModuleLoadData", ctypes.byref(module), ctypes.addressof(data))
        if result == rows.SUCCESS:
            result = self._hip.result("hipModuleGetFunction", ctypes.byref(function), module, image.name.encode())
        if result != rows.SUCCESS:
            text = (
                f"HIP refuses the code of kernel {image.name}, made for {image.target}: {self._hip.error_text(result)}"
            )
            raise Fault(LOAD_FAILED, text)
        # The library may look at the code again as long as the module is loaded.
        self._images[number] = image, module, function, data

    def unload(self, at: int) -> None:
        found = self._images.pop(unpack_from("<I", self.jobs.bytes, at + 16)[0], None)
        if found is not None:
            self._hip.call("hipModuleUnload", found[1])

    def launch(self, at: int) -> None:
        launch = read_launch(self.jobs.bytes, at)
        if launch.image not in self._images:
            raise Fault(LOAD_FAILED, "a launch names an image that is not loaded")
        image, _, function, _ = self._images[launch.image]
        if launch.empty:
            return
        self.running = launch.image, image.name
        heap = self._ready_heap()
        if launch.cooperative:
            self._check_residency(function, launch)
        self._set_stack_limit()
        if not self._on_gpu:
            self._mirror.upload()
            self._on_gpu = True
        self._grid_id += 1
        at_symbols = self.offset(image.symbols, 8 * image.symbol_count, "symbols") if image.symbol_count else 0
        symbols = self.arena[at_symbols : at_symbols + 8 * image.symbol_count].tobytes()
        arguments = kernel_arguments(
            image, launch, symbols, grid_id=self._grid_id, workspace=self._workspace, output=self._output, heap=heap
        )
        header = ctypes.create_string_buffer(fresh_output(), OUTPUT_BYTES)
        self._hip.call("hipMemcpyHtoDAsync", self._output, ctypes.addressof(header), OUTPUT_BYTES, self._stream)
        if launch.cooperative:
            self._hip.call("hipMemsetD8Async", self._workspace, 0, WORKSPACE_BYTES, self._stream)
        self._start(function, launch, arguments)
        self._wait()
        self._after(launch)
        self.running = None

    def _start(self, function: Any, launch: Launch, arguments: bytes) -> None:
        buffer = ctypes.create_string_buffer(arguments, len(arguments))
        size = ctypes.c_size_t(len(arguments))
        extra = (ctypes.c_void_p * 5)(
            rows.LAUNCH_BUFFER_POINTER, ctypes.addressof(buffer), rows.LAUNCH_BUFFER_SIZE, ctypes.addressof(size), rows.LAUNCH_END
        )  # fmt: skip
        result = self._hip.result(
            "hipModuleLaunchKernel", function, *launch.grid, *launch.block, launch.dynamic_bytes, self._stream, None,
            ctypes.addressof(extra),
        )  # fmt: skip
        self._check_kernel(result, "hipModuleLaunchKernel")

    def _wait(self) -> None:
        """Until the kernel is done. Raises Fault for what it did wrong, and when it takes too long."""
        timeout_ms = self.timeout_ms
        if not timeout_ms:
            self._check_kernel(self._hip.result("hipStreamSynchronize", self._stream), "a kernel")
            return
        end, pause = time.monotonic() + timeout_ms / 1000, 0.00002
        while (result := self._hip.result("hipStreamQuery", self._stream)) == rows.NOT_READY:
            if time.monotonic() > end:
                # Nothing stops a kernel but the end of the process.
                raise Fault(TIME_OUT, f"a kernel ran for more than {timeout_ms} ms (CUTTLE_TIMEOUT)")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        self._check_kernel(result, "a kernel")

    def _check_kernel(self, result: int, what: str) -> None:
        if result != rows.SUCCESS:
            raise Fault(_KERNEL_FAULTS.get(result, LAUNCH_FAILED), f"{what}: {self._hip.error_text(result)}")

    def _check_residency(self, function: Any, launch: Launch) -> None:
        """Cooperative launches need all their blocks on the GPU at once: the queue is ours and empty, so it is enough that they fit."""
        per_processor, processors = ctypes.c_int32(), ctypes.c_int32()
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        self._hip.call(
            "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(per_processor), function, threads, launch.dynamic_bytes
        )  # fmt: skip
        number = ATTRIBUTES["multiprocessor_count"]
        self._hip.call("hipDeviceGetAttribute", ctypes.byref(processors), number, self._ordinal)
        blocks, room = launch.grid[0] * launch.grid[1] * launch.grid[2], per_processor.value * processors.value
        if blocks > room:
            raise Fault(
                LAUNCH_FAILED, f"a cooperative launch of {blocks} blocks, of which the GPU holds {room} at once"
            )

    def _set_stack_limit(self) -> None:
        """For kernels whose need of stack is not known."""
        wanted = self.stack_bytes
        if wanted == self._stack_bytes:
            return
        if self._hip.major >= 6:
            self._hip.call("hipDeviceSetLimit", rows.LIMIT_STACK_SIZE, _STACK_FACTOR * wanted)
        elif wanted > _USUAL_STACK_BYTES:
            # A GPU does not notice that a stack grows into another one's.
            raise Fault(LAUNCH_FAILED, f"HIP 5 cannot give threads stacks of {wanted} bytes; HIP 6 can")
        self._stack_bytes = wanted

    def _ready_heap(self) -> int:
        """The heap of device malloc, made ready at its first launch; 0 if there is none."""
        base, size = self.heap
        header = fresh_heap(base, size)
        if not header:
            return 0
        if self._heap_base != base:
            self.settle()
            self._heap_base = base
            at = self.offset(base, size, "the heap")
            self.arena_map[at : at + len(header)] = header
        return base

    # -- what a kernel leaves ----------------------------------------------------------------------------------------------

    def _after(self, launch: Launch) -> None:
        """Text and faults of the kernel that is done."""
        header = self._read(self._output, OUTPUT_BYTES)
        capacity, cursor = unpack_from("<QQ", header)
        used = min(capacity, cursor, OUTPUT_AREA_BYTES)
        if used:
            area = self._read(self._output + OUTPUT_BYTES, used)
            for channel, text in read_records(area, launch.block, self._string_at):
                self.write_text(channel, text)
            self._hip.call("hipMemsetD8Async", self._output + OUTPUT_BYTES, 0, used, self._stream)
        kind, line, where, thread = read_fault(header)
        if kind:
            name = wire.FAULTS[kind][0] if kind in wire.FAULTS else "fault"
            raise Fault(kind, f"{name} at PTX line {line}" if line else name, where, thread)

    def _read(self, address: int, size: int) -> bytes:
        data = ctypes.create_string_buffer(size)
        self._hip.call("hipMemcpyDtoHAsync", ctypes.addressof(data), address, size, self._stream)
        self._hip.call("hipStreamSynchronize", self._stream)
        return data.raw

    def _string_at(self, address: int) -> bytes:
        """A string of the GPU, up to its end or the end of what can be read."""
        data = self._mirror.read(address, STRING_LIMIT)
        return data.split(b"\0", 1)[0] if data else b"(bad address)"

    def run(self) -> None:
        """As `JobLoop.run`; a HIP call that fails is a fault."""
        try:
            super().run()
        except CuttleError as error:
            raise Fault(LAUNCH_FAILED, f"[{error.code}] {error.message}") from None


def main(arguments: list[str]) -> None:
    library, ordinal, *descriptors = arguments

    def make(*numbers: int) -> HipExecutor:
        try:
            return HipExecutor(library, int(ordinal), (numbers[0], numbers[1], numbers[2], numbers[3]))
        except CuttleError as error:
            raise Fault(LAUNCH_FAILED, f"[{error.code}] {error.message}") from None

    serve(make, descriptors, "the HIP executor")
