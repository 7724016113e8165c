"""Worker: plain C in a shared library. `python -m cuttle.bench.native_worker LIBRARY DESCRIPTION`."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cuttle.bench.problems import Array, Arrays, Case
from cuttle.bench.worker_loop import serve

SCALARS: dict[str, Callable[[Any], ctypes._SimpleCData[Any]]] = {"float32": ctypes.c_float, "int32": ctypes.c_int32}


def aligned_copy(array: Array) -> Array:
    """A copy at a multiple of 256 bytes, where device memory begins too: NumPy's own arrays straddle cache lines."""
    raw = np.empty(array.nbytes + 256, np.uint8)
    start = -raw.ctypes.data % 256
    copy: Array = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class NativeBackend:
    def __init__(self, library: str, description: str) -> None:
        self.arrays: dict[str, Array] = {}
        self.library = ctypes.CDLL(library)
        self.description = description

    def describe(self) -> str:
        return self.description

    def load(self, case: Case) -> None:
        self.case = case
        self.arrays = {name: aligned_copy(array) for name, array in case.arrays.items()}

    def compile(self, kernel: str) -> None:
        self.function: Any = getattr(self.library, kernel)
        self.values = [
            ctypes.c_void_p(self.arrays[argument].ctypes.data)
            if isinstance(argument, str)
            else SCALARS[argument.dtype.name](argument.item())
            for argument in self.case.arguments
        ]

    def reset(self) -> None:
        for name in self.case.outputs:
            self.arrays[name][...] = self.case.arrays[name]

    def run(self, launches: int) -> None:
        for _ in range(launches):
            self.function(*self.values)

    def outputs(self) -> Arrays:
        return self.arrays

    def unload(self) -> None:
        self.arrays.clear()


if __name__ == "__main__":
    serve(lambda: NativeBackend(sys.argv[1], sys.argv[2]))
