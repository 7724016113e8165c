"""The few functions of the CUDA driver API that sweeps, probes and recorders need, through ctypes. Standard library only.

Sweeps go through the driver API, so that they run on whatever device stands behind `libcuda.so.1`: Cuttle's CPU device,
another of its devices, or an NVIDIA GPU with NVIDIA's own library (which is how the recordings were made).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

BLOCK = 128
_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6  # CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES


class DriverFailure(Exception):
    """A driver function answered an error: its name, the CUresult and that one's name, and what the compiler said, if it did."""

    def __init__(self, function: str, result: int, name: str = "", text: str = "") -> None:
        super().__init__(
            f"{function} answered {result}" + (f" ({name})" if name else "") + (f": {text}" if text else "")
        )
        self.function = function
        self.result = result
        self.name = name
        self.text = text


class DriverLibrary:
    """A driver library whose functions raise DriverFailure when they do not answer 0."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        self.cuda = ctypes.CDLL(library)

    def call(self, function: str, *arguments: Any) -> None:
        """Call a driver function; raises DriverFailure."""
        result = getattr(self.cuda, function)(*arguments)
        if result:
            raise DriverFailure(function, result, self.error_name(result))

    def error_name(self, result: int) -> str:
        """`CUDA_ERROR_NO_DEVICE` for 100; empty if the library does not know it."""
        name = ctypes.c_char_p()
        ask = getattr(self.cuda, "cuGetErrorName", None)
        return name.value.decode() if ask is not None and ask(result, ctypes.byref(name)) == 0 and name.value else ""

    def integer(self, function: str, *arguments: Any) -> int:
        """The value of a function whose first parameter is `int *`."""
        value = ctypes.c_int()
        self.call(function, ctypes.byref(value), *arguments)
        return value.value


class Driver(DriverLibrary):
    """A device of the driver API, with its primary context current."""

    def __init__(self, library: str = "libcuda.so.1", ordinal: int = 0) -> None:
        super().__init__(library)
        self.call("cuInit", 0)
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(self.device), ordinal)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, self.device)
        self.name = f"{name.value.decode()}, driver API {self.integer('cuDriverGetVersion')}"

    def reset(self) -> None:
        """Begin again after a fault: everything on the device is gone."""
        self.call("cuDevicePrimaryCtxReset_v2", self.device)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def load(self, image: bytes) -> ctypes.c_void_p:
        """A module from a cubin or from PTX text."""
        module = ctypes.c_void_p()
        log = ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), image + b"\0", 2, options, values)
        except DriverFailure as failure:
            text = log.value.decode(errors="replace").strip()
            raise DriverFailure(failure.function, failure.result, failure.name, text) from None
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        self.call("cuModuleUnload", module)

    def allocate(self, size: int) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def free(self, pointer: ctypes.c_uint64) -> None:
        self.call("cuMemFree_v2", pointer)

    def write(self, pointer: ctypes.c_uint64, data: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", pointer, data, ctypes.c_size_t(len(data)))

    def read(self, pointer: ctypes.c_uint64, size: int) -> bytes:
        host = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", host, pointer, ctypes.c_size_t(size))
        return host.raw

    def synchronize(self) -> None:
        self.call("cuCtxSynchronize")

    def launch(
        self, module: ctypes.c_void_p, name: str, arguments: Sequence[Any], threads: int, block: int = BLOCK
    ) -> None:
        """Start a kernel with at least `threads` threads in blocks of 128, or of `block`; arguments are ctypes values."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        pointers = (ctypes.c_void_p * len(arguments))(*[ctypes.addressof(argument) for argument in arguments])
        blocks = (threads + block - 1) // block
        self.call("cuLaunchKernel", function, blocks, 1, 1, block, 1, 1, 0, None, pointers, None)
