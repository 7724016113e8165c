"""The capability tests as a CuPy program does them. Right answers come from NumPy, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import cupyx.scipy.sparse
import numpy as np

from cuttle.stack.probes.checking import require

Array = Any


def drawn(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def agree(function: Callable[..., Array], *values: Array, tolerance: float = 1e-4) -> None:
    """`function(library, arrays...)` with CuPy, against NumPy in double precision."""
    found = cupy.asnumpy(function(cupy, *(cupy.asarray(value) for value in values))).astype(np.float64)
    right = function(np, *(value.astype(np.float64) if value.dtype.kind == "f" else value for value in values))
    error = float(np.abs(found - right).max())
    require(error <= tolerance * max(1e-30, float(np.abs(right).max())), f"off by {error:.3g}")


def probe_elementwise() -> None:
    agree(lambda lib, x, y: x * y + lib.sqrt(lib.abs(x)) / (1 + lib.exp(-y)), drawn(5000), drawn(5000, seed=2))


def probe_reductions() -> None:
    agree(lambda lib, x: lib.stack([x.sum(), x.max(), x.min(), x.mean()]), drawn(100000))


def probe_matmul() -> None:
    agree(lambda lib, a, b: a @ b, drawn(67, 67), drawn(67, 67, seed=2))


def probe_fft() -> None:
    def parts(lib: Any, x: Array) -> Array:
        found = lib.fft.fft(x)
        return lib.stack([found.real, found.imag])

    agree(parts, drawn(256))


def probe_sparse_mm() -> None:
    dense = drawn(50, 50) * (drawn(50, 50, seed=2) > 1)

    def product(lib: Any, a: Array, b: Array) -> Array:
        return a @ b if lib is np else cupyx.scipy.sparse.csr_matrix(a) @ b

    agree(product, dense, drawn(50, 9, seed=3))


def probe_softmax() -> None:
    def rows(lib: Any, x: Array) -> Array:
        weights = lib.exp(x - x.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    agree(rows, drawn(40, 33))


def probe_gather_scatter() -> None:
    places = np.arange(3000) * 7919 % 300

    def both(lib: Any, x: Array, at: Array) -> Array:
        return lib.concatenate([x[at], lib.bincount(at, weights=x, minlength=300)])

    agree(both, drawn(3000), places)


def probe_random() -> None:
    rows = [cupy.asnumpy(cupy.random.default_rng(5).random(20000)) for _ in range(2)]
    require(bool((rows[0] == rows[1]).all()), "the same seed gives other numbers")
    require(abs(float(rows[0].mean()) - 0.5) < 0.02, f"their mean is {float(rows[0].mean())}")


def positive(seed: int) -> Array:
    a = drawn(24, 24, seed=seed)
    return a @ a.T + np.eye(24, dtype=np.float32)


def probe_linalg_solve() -> None:
    a = drawn(24, 24) + 5 * np.eye(24, dtype=np.float32)
    agree(lambda lib, a, b: lib.linalg.solve(a, b), a, drawn(24, 3, seed=2), tolerance=1e-3)


def probe_linalg_cholesky() -> None:
    agree(lambda lib, a: lib.linalg.cholesky(a), positive(1), tolerance=1e-3)


def probe_linalg_qr() -> None:
    def again(lib: Any, a: Array) -> Array:
        q, r = lib.linalg.qr(a)
        return lib.concatenate([q @ r, q.T @ q])

    agree(again, drawn(40, 24), tolerance=1e-3)


def probe_linalg_inv() -> None:
    a = drawn(24, 24) + 5 * np.eye(24, dtype=np.float32)
    agree(lambda lib, a: lib.linalg.inv(a), a, tolerance=1e-3)


def probe_linalg_lstsq() -> None:
    agree(lambda lib, a, b: lib.linalg.lstsq(a, b, rcond=None)[0], drawn(40, 24), drawn(40, 2, seed=2), tolerance=1e-3)


def probe_linalg_svd() -> None:
    agree(lambda lib, a: lib.linalg.svd(a, compute_uv=False), drawn(40, 24), tolerance=1e-3)


def probe_linalg_pinv() -> None:
    agree(lambda lib, a: lib.linalg.pinv(a), drawn(40, 24), tolerance=1e-3)


def probe_linalg_eigh() -> None:
    def again(lib: Any, a: Array) -> Array:
        values, vectors = lib.linalg.eigh(a)
        return lib.concatenate([vectors * values @ vectors.T, values[None]])

    agree(again, positive(2), tolerance=1e-3)


def probe_linalg_eigvalsh() -> None:
    agree(lambda lib, a: lib.linalg.eigvalsh(a), positive(3), tolerance=1e-3)
