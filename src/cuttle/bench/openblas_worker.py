"""Worker: `sgemm` of the OpenBLAS in NumPy's wheels, one thread, on matrices of floats.

What the tensor-core product is compared with: the halves are widened before the clock starts.
"""

from __future__ import annotations

import numpy as np

from cuttle.bench.problems import Array, Arrays, Case
from cuttle.bench.worker_loop import Absent, serve


class OpenBlasBackend:
    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}

    def describe(self) -> str:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"NumPy {np.__version__}, {blas['name']} {blas['version']}, single precision"

    def load(self, case: Case) -> None:
        self.arrays = {name: array.astype(np.float32) for name, array in case.arrays.items()}

    def compile(self, kernel: str) -> None:
        if kernel != "matmul_mma":
            raise Absent("not a matrix product")

    def reset(self) -> None:
        self.arrays["c"][...] = 0

    def run(self, launches: int) -> None:
        for _ in range(launches):
            np.matmul(self.arrays["a"], self.arrays["b"].T, out=self.arrays["c"])

    def outputs(self) -> Arrays:
        return self.arrays

    def unload(self) -> None:
        self.arrays.clear()


if __name__ == "__main__":
    serve(OpenBlasBackend)
