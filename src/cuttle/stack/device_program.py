"""A program on the CUDA driver API: kernels from the PTX shipped here, buffers, launches, times.

It loads whatever driver library the machine has (`libcuda.so.1`, `nvcuda.dll`), so that the same program runs on NVIDIA's
driver, on Cuttle and on ZLUDA. The PTX comes from the C files in `kernels/`, by LLVM's NVPTX back end
(`tools/emit_stack_ptx.py`).
"""

from __future__ import annotations

import ctypes
import sys
from array import array
from importlib.resources import files

from cuttle.sweep.driver import Driver

Size = tuple[int, int, int]


def default_library() -> str:
    """Name of the platform's driver library."""
    return "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


class DeviceProgram(Driver):
    """A device with the kernels of some of our sources, and what was allocated on it."""

    def __init__(self, *sources: str, library: str = "", ordinal: int = 0) -> None:
        super().__init__(library or default_library(), ordinal)
        self._functions: dict[str, ctypes.c_void_p] = {}
        folder = files("cuttle.stack") / "kernels"
        self._modules = [self.load((folder / f"{source}.ptx").read_bytes()) for source in sources]

    def function(self, name: str) -> ctypes.c_void_p:
        """A kernel by its name; LookupError if no source has it."""
        found = self._functions.get(name)
        if found is None:
            found = ctypes.c_void_p()
            for module in self._modules:
                if self.cuda.cuModuleGetFunction(ctypes.byref(found), module, name.encode()) == 0:
                    break
            else:
                raise LookupError(f"no kernel {name} in the modules of this program")
            self._functions[name] = found
        return found

    def start(self, name: str, grid: Size, block: Size, *arguments: int | float | ctypes.c_uint64) -> None:
        """Launches a kernel: integers are passed as 32 bits, floats as single precision, allocations as pointers."""
        values = [
            value if isinstance(value, ctypes.c_uint64)
            else ctypes.c_float(value) if isinstance(value, float) else ctypes.c_uint32(value)
            for value in arguments
        ]  # fmt: skip
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        self.call("cuLaunchKernel", self.function(name), *grid, *block, 0, None, pointers, None)

    def start_threads(self, name: str, threads: int, *arguments: int | float | ctypes.c_uint64) -> None:
        """Launches at least so many threads in blocks of 256."""
        self.start(name, (-(-threads // 256), 1, 1), (256, 1, 1), *arguments)

    def floats(self, count: int) -> ctypes.c_uint64:
        """Room for 32-bit values, zeroed."""
        pointer = self.allocate(4 * count)
        self.call("cuMemsetD32_v2", pointer, 0, ctypes.c_size_t(count))
        return pointer

    def upload(self, values: array[float] | array[int]) -> ctypes.c_uint64:
        """A copy of an array on the device."""
        pointer = self.allocate(len(values) * values.itemsize)
        self.write(pointer, values.tobytes())
        return pointer

    def read_floats(self, pointer: ctypes.c_uint64, count: int) -> array[float]:
        """Values from the device; waits for all work before."""
        return array("f", self.read(pointer, 4 * count))

    def write_floats(self, pointer: ctypes.c_uint64, values: array[float]) -> None:
        self.write(pointer, values.tobytes())


class Stopwatch:
    """Milliseconds of device time between pairs of marks in the default stream, added up."""

    def __init__(self, program: DeviceProgram) -> None:
        self._program = program
        self._events: list[ctypes.c_void_p] = []
        self._used = 0

    def mark(self) -> None:
        if self._used == len(self._events):
            event = ctypes.c_void_p()
            self._program.call("cuEventCreate", ctypes.byref(event), 0)
            self._events.append(event)
        self._program.call("cuEventRecord", self._events[self._used], None)
        self._used += 1

    def take(self) -> float:
        """Seconds between the first and second mark, the third and fourth ..., since the last `take`; the work must be done."""
        total = 0.0
        for begin, end in zip(self._events[: self._used : 2], self._events[1 : self._used : 2], strict=True):
            milliseconds = ctypes.c_float()
            self._program.call("cuEventElapsedTime", ctypes.byref(milliseconds), begin, end)
            total += milliseconds.value
        self._used = 0
        return total / 1000


def offset(pointer: ctypes.c_uint64, count: int) -> ctypes.c_uint64:
    """The address `count` 32-bit values further on."""
    return ctypes.c_uint64(pointer.value + 4 * count)
