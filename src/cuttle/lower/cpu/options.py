"""What a kernel is compiled for."""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Choices that are part of an image's cache key.

    `block_shape`: block size (x, y, z) the image is specialised on, None for any. `max_index`: upper bound of
    grid * block in each dimension that index proofs may assume (the runtime checks it at launch).
    `affine`: use value shapes; off, every value that differs between lanes is a plain vector and nothing is assumed about
    indices. `plain`: by way of the plain leg (`lower/plain`), for which the other choices mean nothing.
    `optimization`: 0 is the fast tier, 2 the optimised one; both have the same LLVM text but for lockstep. `processor`: LLVM CPU
    name, empty for the host. `exact_nan`: NaN results as NVIDIA's. `fast_math`: approximate instructions and floating matrix
    products within PTX's bounds only.
    `stack_bytes`: local memory of each thread of kernels whose functions are called for real, or that use `alloca`.
    `check_alignment`: accesses whose alignment follows from the kernel's parameters are checked, too (the runtime asks for it
    when a launch has others than `aligned` in the image's metadata says).
    """

    block_shape: tuple[int, int, int] | None = None
    max_index: int = 2**31 - 1
    affine: bool = True
    plain: bool = False
    optimization: int = 2
    processor: str = ""
    exact_nan: bool = True
    fast_math: bool = False
    stack_bytes: int = 16 << 10
    check_alignment: bool = False

    @property
    def block_threads(self) -> int | None:
        if self.block_shape is None:
            return None
        return self.block_shape[0] * self.block_shape[1] * self.block_shape[2]

    @property
    def partial_warps(self) -> bool:
        """Whether a warp may start with fewer than 32 lanes."""
        threads = self.block_threads
        return threads is None or threads % WARP != 0

    @property
    def segment(self) -> int:
        """Lanes per segment: rows of a 2-D block that is 8 or 16 wide, else the whole warp."""
        if self.block_shape is not None and self.affine and self.block_shape[0] in (8, 16):
            return self.block_shape[0]
        return WARP


@dataclass(frozen=True, slots=True)
class Target:
    """What the emitted text may rely on. `avx512_bytes`: AVX512-VBMI and AVX512-VNNI as well."""

    avx512: bool = False
    avx512_bytes: bool = False
