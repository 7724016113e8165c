"""The problems: inputs, launch shapes, and how results are checked. The kernels are in `bench/kernels`.

Arguments are in the order of the kernel's parameters and serve every contender: a text names an array, anything else is
a NumPy scalar. Runs in the workers' interpreters too: needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = Mapping[str, Array]

THREADS = 256


@dataclass(frozen=True)
class Case:
    """One problem at one size. `check` returns what is wrong with the arrays after one launch, or an empty text."""

    arrays: dict[str, Array]
    outputs: tuple[str, ...]
    arguments: tuple[str | np.generic, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    check: Callable[[Arrays], str]


@dataclass(frozen=True)
class Problem:
    """`name` is the kernel's name in all sources. `bar`: the highest acceptable ratio Cuttle / Intel, None without one.

    `against`: the contenders other than Cuttle that have the kernel. `inexact`: CUTTLE_FAST_MATH makes a difference.
    """

    name: str
    title: str
    bar: float | None
    make: Callable[[bool], Case]
    against: tuple[str, ...] = ("native", "intel", "pocl")
    inexact: bool = False


def _random() -> np.random.Generator:
    return np.random.default_rng(1)


def _differs(name: str, found: Array, expected: Array, tolerance: float = 0.0) -> str:
    """A text about the worst element unless all are within the relative tolerance (of the largest expected value)."""
    if tolerance == 0.0:
        wrong = np.flatnonzero(found.ravel() != expected.ravel())
        if wrong.size == 0:
            return ""
        at = int(wrong[0])
    else:
        error = np.abs(found.astype(np.float64) - expected).ravel()
        limit = tolerance * float(np.abs(expected).max())
        at = int(np.nanargmax(error))
        if not np.isnan(error).any() and error[at] <= limit:
            return ""
    return f"{name}[{at}] is {found.ravel()[at]}, expected {expected.ravel()[at]}"


def _saxpy(small: bool) -> Case:
    n = 10_000 if small else 1 << 24
    random = _random()
    x, y = random.random(n, dtype=np.float32), random.random(n, dtype=np.float32)
    expected = 2.0 * x.astype(np.float64) + y

    def check(arrays: Arrays) -> str:
        return _differs("y", arrays["y"], expected, 1e-6)

    arguments = (np.float32(2.0), "x", "y", np.int32(n))
    return Case({"x": x, "y": y}, ("y",), arguments, (-(-n // THREADS), 1, 1), (THREADS, 1, 1), check)


def _matmul(small: bool) -> Case:
    n = 64 if small else 512
    random = _random()
    a, b = random.random((n, n), dtype=np.float32), random.random((n, n), dtype=np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)

    def check(arrays: Arrays) -> str:
        return _differs("c", arrays["c"], expected, 1e-5)

    arrays = {"a": a, "b": b, "c": np.zeros((n, n), np.float32)}
    return Case(arrays, ("c",), ("a", "b", "c", np.int32(n)), (n // 16, n // 16, 1), (16, 16, 1), check)


def _nbody(small: bool) -> Case:
    n = 512 if small else 4096
    bodies = _random().random((n, 4), dtype=np.float32)
    expected = np.zeros((n, 4))
    exact = bodies.astype(np.float64)
    for start in range(0, n, 256):
        difference = exact[None, :, :3] - exact[start : start + 256, None, :3]
        weight = exact[None, :, 3] * ((difference**2).sum(2) + 1e-3) ** -1.5
        expected[start : start + 256, :3] = (difference * weight[:, :, None]).sum(1)

    def check(arrays: Arrays) -> str:
        return _differs("accelerations", arrays["accelerations"], expected, 1e-4)

    arrays: dict[str, Array] = {"bodies": bodies, "accelerations": np.zeros((n, 4), np.float32)}
    arguments = ("bodies", "accelerations", np.int32(n))
    return Case(arrays, ("accelerations",), arguments, (n // THREADS, 1, 1), (THREADS, 1, 1), check)


def _reduce(small: bool) -> Case:
    n = 10_000 if small else 1 << 24
    blocks = -(-n // THREADS)
    x = _random().random(n, dtype=np.float32)
    padded = np.zeros(blocks * THREADS)
    padded[:n] = x
    expected = padded.reshape(blocks, THREADS).sum(1)

    def check(arrays: Arrays) -> str:
        return _differs("sums", arrays["sums"], expected, 1e-5)

    arrays = {"x": x, "sums": np.zeros(blocks, np.float32)}
    return Case(arrays, ("sums",), ("x", "sums", np.int32(n)), (blocks, 1, 1), (THREADS, 1, 1), check)


def _histogram(small: bool) -> Case:
    n = 10_000 if small else 1 << 24
    data = _random().integers(0, 256, n, dtype=np.uint8)
    expected = np.bincount(data, minlength=256)

    def check(arrays: Arrays) -> str:
        return _differs("counts", arrays["counts"], expected)

    arrays: dict[str, Array] = {"data": data, "counts": np.zeros(256, np.uint32)}
    grid = (8 if small else 1024, 1, 1)
    return Case(arrays, ("counts",), ("data", "counts", np.int32(n)), grid, (THREADS, 1, 1), check)


def _diverge(small: bool) -> Case:
    n = 10_000 if small else 1 << 20
    value = np.arange(1, n + 1, dtype=np.uint32)
    expected = np.zeros(n, np.int32)
    for _ in range(200):
        alive = value != 1
        expected += alive
        value = np.where(alive, np.where(value & 1, 3 * value + 1, value >> 1), value)

    def check(arrays: Arrays) -> str:
        return _differs("steps", arrays["steps"], expected)

    arrays = {"steps": np.zeros(n, np.int32)}
    return Case(arrays, ("steps",), ("steps", np.int32(n)), (-(-n // THREADS), 1, 1), (THREADS, 1, 1), check)


def _black_scholes(small: bool) -> Case:
    n = 10_000 if small else 1 << 22
    random = _random()

    def between(low: float, high: float) -> Array:
        return (low + (high - low) * random.random(n)).astype(np.float32)

    arrays: dict[str, Array] = {"price": between(5, 30), "strike": between(1, 100), "years": between(0.25, 10)}
    price, strike, years = (arrays[name].astype(np.float64) for name in ("price", "strike", "years"))
    spread = 0.3 * np.sqrt(years)
    d1 = (np.log(price / strike) + (0.02 + 0.045) * years) / spread

    def below(d: Array) -> Array:
        k = 1 / (1 + 0.2316419 * np.abs(d))
        tail = ((((1.330274429 * k - 1.821255978) * k + 1.781477937) * k - 0.356563782) * k + 0.319381530) * k
        tail *= 0.39894228 * np.exp(-0.5 * d * d)
        return np.where(d > 0, 1 - tail, tail)

    discounted = strike * np.exp(-0.02 * years)
    first, second = below(d1), below(d1 - spread)
    call = price * first - discounted * second
    put = discounted * (1 - second) - price * (1 - first)

    def check(found: Arrays) -> str:
        return _differs("call", found["call"], call, 1e-5) or _differs("put", found["put"], put, 1e-5)

    arrays |= {"call": np.zeros(n, np.float32), "put": np.zeros(n, np.float32)}
    arguments = ("price", "strike", "years", "call", "put", np.int32(n))
    return Case(arrays, ("call", "put"), arguments, (-(-n // THREADS), 1, 1), (THREADS, 1, 1), check)


def _softmax(small: bool) -> Case:
    rows = 8 if small else 4096
    x = (_random().random((rows, 1024)) * 20).astype(np.float32)
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    expected = powers / powers.sum(1, keepdims=True)

    def check(arrays: Arrays) -> str:
        return _differs("y", arrays["y"], expected, 1e-5)

    arrays: dict[str, Array] = {"x": x, "y": np.zeros_like(x)}
    return Case(arrays, ("y",), ("x", "y", np.int32(rows)), (rows, 1, 1), (THREADS, 1, 1), check)


def _matmul_mma(small: bool) -> Case:
    n = 128 if small else 512
    random = _random()
    a, b = random.random((n, n)).astype(np.float16), random.random((n, n)).astype(np.float16)
    expected = a.astype(np.float64) @ b.astype(np.float64).T

    def check(arrays: Arrays) -> str:
        return _differs("c", arrays["c"], expected, 1e-5)

    arrays: dict[str, Array] = {"a": a, "b": b, "c": np.zeros((n, n), np.float32)}
    return Case(arrays, ("c",), ("a", "b", "c", np.int32(n)), (n // 64, n // 64, 1), (128, 1, 1), check)


# Bars: issue 3, "Speed".
PROBLEMS = (
    Problem("saxpy", "saxpy, 2^24 floats", 0.36, _saxpy),
    Problem("matmul_naive", "matrix product 512^3, naive", 0.13, _matmul),
    Problem("matmul_tiled", "matrix product 512^3, 16x16 shared tiles", 0.4, _matmul),
    Problem("nbody", "n-body, 4096 bodies, shared tiles of 256", 1.1, _nbody),
    Problem("reduce_tree", "sum of 2^24 floats, shared-memory tree", 0.16, _reduce),
    Problem("reduce_shuffle", "sum of 2^24 floats, warp shuffles", None, _reduce),
    Problem("histogram_global", "histogram of 2^24 bytes, global atomics", 0.85, _histogram),
    Problem("histogram_shared", "histogram of 2^24 bytes, shared atomics", 0.2, _histogram),
    Problem("diverge", "Collatz loop of up to 200 steps, 2^20 threads", 0.95, _diverge),
    Problem("black_scholes", "Black-Scholes, 2^22 options, MUFU functions", None, _black_scholes, inexact=True),
    Problem("softmax", "softmax of 4,096 rows of 1,024", None, _softmax, inexact=True),
    Problem("matmul_mma", "matrix product 512^3, mma.sync f16 on f32", None, _matmul_mma, ("openblas",), inexact=True),
)

BY_NAME = {problem.name: problem for problem in PROBLEMS}
