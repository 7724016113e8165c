"""Worker: a CUDA driver-API program. `cuttle run -- python -m cuttle.bench.cuda_worker KERNELS.ptx`.

It finds libcuda.so.1 as any program does and would run on an NVIDIA GPU just the same.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cuttle.bench.problems import Array, Arrays, Case
from cuttle.bench.worker_loop import serve

SCALARS: dict[str, Callable[[Any], ctypes._SimpleCData[Any]]] = {"float32": ctypes.c_float, "int32": ctypes.c_int32}


class CudaError(Exception):
    """A driver function answered an error."""


class CudaBackend:
    def __init__(self, ptx: Path) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context, self.module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)
        self("cuModuleLoadData", ctypes.byref(self.module), ptx.read_bytes() + b"\0")
        self.device = device
        self.buffers: dict[str, ctypes.c_uint64] = {}

    def __call__(self, function: str, *arguments: Any) -> None:
        result = getattr(self.library, function)(*arguments)
        if result:
            name = ctypes.c_char_p()
            self.library.cuGetErrorName(result, ctypes.byref(name))
            raise CudaError(f"{function}: {(name.value or b'unknown error').decode()} ({result})")

    def describe(self) -> str:
        name = ctypes.create_string_buffer(256)
        self("cuDeviceGetName", name, 256, self.device)
        return name.value.decode()

    def load(self, case: Case) -> None:
        self.case = case
        for name, array in case.arrays.items():
            self.buffers[name] = ctypes.c_uint64()
            self("cuMemAlloc_v2", ctypes.byref(self.buffers[name]), ctypes.c_size_t(array.nbytes))
            self.copy_in(name)
        self.values = [
            self.buffers[argument] if isinstance(argument, str) else SCALARS[argument.dtype.name](argument.item())
            for argument in case.arguments
        ]
        self.pointers: Any = (ctypes.c_void_p * len(self.values))(*(ctypes.addressof(value) for value in self.values))

    def compile(self, kernel: str) -> None:
        self.function = ctypes.c_void_p()
        self("cuModuleGetFunction", ctypes.byref(self.function), self.module, kernel.encode())

    def copy_in(self, name: str) -> None:
        array = self.case.arrays[name]
        self("cuMemcpyHtoD_v2", self.buffers[name], ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))

    def reset(self) -> None:
        for name in self.case.outputs:
            self.copy_in(name)

    def run(self, launches: int) -> None:
        grid, block = self.case.grid, self.case.block
        for _ in range(launches):
            self("cuLaunchKernel", self.function, *grid, *block, 0, None, self.pointers, None)
        self("cuCtxSynchronize")

    def outputs(self) -> Arrays:
        found: dict[str, Array] = {name: np.empty_like(self.case.arrays[name]) for name in self.case.outputs}
        for name, array in found.items():
            size = ctypes.c_size_t(array.nbytes)
            self("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), self.buffers[name], size)
        return found

    def unload(self) -> None:
        for buffer in self.buffers.values():
            self("cuMemFree_v2", buffer)
        self.buffers.clear()


if __name__ == "__main__":
    serve(lambda: CudaBackend(Path(sys.argv[1])))
