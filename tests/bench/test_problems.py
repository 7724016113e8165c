"""The checks of the problems accept right results and notice wrong ones."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cuttle.bench.build import SOURCES
from cuttle.bench.problems import PROBLEMS, Arrays, Problem

pytestmark = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)


def expected_saxpy(arrays: Arrays) -> dict[str, np.ndarray]:
    return {"y": np.float32(2) * arrays["x"] + arrays["y"]}


def expected_matmul(arrays: Arrays) -> dict[str, np.ndarray]:
    return {"c": arrays["a"] @ arrays["b"]}


def expected_nbody(arrays: Arrays) -> dict[str, np.ndarray]:
    bodies = arrays["bodies"]
    result = np.zeros_like(bodies)
    for number, body in enumerate(bodies):
        difference = bodies[:, :3] - body[:3]
        inverse = 1 / np.sqrt((difference**2).sum(1) + np.float32(1e-3))
        result[number, :3] = (difference * (bodies[:, 3] * inverse**3)[:, None]).sum(0)
    return {"accelerations": result}


def expected_reduce(arrays: Arrays) -> dict[str, np.ndarray]:
    starts = np.arange(0, arrays["x"].size, 256)
    return {"sums": np.add.reduceat(arrays["x"], starts)}


def expected_histogram(arrays: Arrays) -> dict[str, np.ndarray]:
    counts = np.zeros(256, np.uint32)
    np.add.at(counts, arrays["data"], 1)
    return {"counts": counts}


def expected_diverge(arrays: Arrays) -> dict[str, np.ndarray]:
    steps = []
    for thread in range(arrays["steps"].size):
        value, count = thread + 1, 0
        while value != 1 and count < 200:
            value = (3 * value + 1) % 2**32 if value % 2 else value // 2
            count += 1
        steps.append(count)
    return {"steps": np.array(steps, np.int32)}


def expected_black_scholes(arrays: Arrays) -> dict[str, np.ndarray]:
    """With the normal distribution itself in place of the kernel's fit, which is within 1e-7 of it."""
    price, strike, years = (arrays[name].astype(np.float64) for name in ("price", "strike", "years"))
    spread = 0.3 * np.sqrt(years)
    d1 = (np.log(price / strike) + (0.02 + 0.5 * 0.3**2) * years) / spread
    first, second = (np.array([(1 + math.erf(d / math.sqrt(2))) / 2 for d in ds]) for ds in (d1, d1 - spread))
    today = strike * np.exp(-0.02 * years)
    call = price * first - today * second
    return {"call": call.astype(np.float32), "put": (call - price + today).astype(np.float32)}


def expected_softmax(arrays: Arrays) -> dict[str, np.ndarray]:
    rows = [np.exp(row - row.max()) for row in arrays["x"]]
    return {"y": np.array([row / row.sum() for row in rows], np.float32)}


def expected_matmul_mma(arrays: Arrays) -> dict[str, np.ndarray]:
    return {"c": arrays["a"].astype(np.float32) @ arrays["b"].astype(np.float32).T}


EXPECTED = {
    "saxpy": expected_saxpy,
    "matmul_naive": expected_matmul,
    "matmul_tiled": expected_matmul,
    "nbody": expected_nbody,
    "reduce_tree": expected_reduce,
    "reduce_shuffle": expected_reduce,
    "histogram_global": expected_histogram,
    "histogram_shared": expected_histogram,
    "diverge": expected_diverge,
    "black_scholes": expected_black_scholes,
    "softmax": expected_softmax,
    "matmul_mma": expected_matmul_mma,
}


def test_check_accepts_what_is_right_and_nothing_else(problem: Problem) -> None:
    case = problem.make(True)
    assert case.check(case.arrays), "the kernel has not run yet"
    right = EXPECTED[problem.name](case.arrays)
    assert set(right) == set(case.outputs)
    assert case.check(right) == ""
    for name, array in right.items():
        wrong = array.copy()
        wrong.flat[wrong.size // 2] += 1
        assert case.check({**right, name: wrong}).startswith(f"{name}[{wrong.size // 2}] is ")


def test_not_a_number_is_wrong(problem: Problem) -> None:
    case = problem.make(True)
    right = EXPECTED[problem.name](case.arrays)
    for name, array in right.items():
        if array.dtype.kind == "f":
            wrong = array.copy()
            wrong.flat[3] = np.nan
            assert case.check({**right, name: wrong})


@pytest.mark.parametrize("file", ["kernels.cu", "kernels.cl", "kernels.c"])
def test_every_source_has_the_kernel(problem: Problem, file: str) -> None:
    if file != "kernels.cu" and "native" not in problem.against:
        pytest.skip("what this kernel is compared with is a library")
    text = Path(SOURCES, "kernels", file).read_text()
    assert f" {problem.name}(" in text
