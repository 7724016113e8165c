"""Random kernels: every way to compile one gives what its NumPy interpreter gives."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from cuttle.lower.cpu.options import CompileOptions
from tests.lower.cpu.kernels import QUICK_WAYS, WAYS, Way, in_child, run, run_or_fault
from tests.lower.cpu.random_flow import make_flow
from tests.lower.cpu.random_kernels import RandomKernel, make_kernel

SOME_WAYS = (*QUICK_WAYS, Way("unified", CompileOptions(optimization=0), unified=True, alone=False))


def compare(kernel: RandomKernel, ways: tuple[Way, ...]) -> None:
    out, counters = kernel.expected()
    for way in ways:
        arrays = run_or_fault(kernel.text, kernel.block, kernel.arrays(), way, grid=(kernel.blocks, 1, 1))
        np.testing.assert_array_equal(arrays[1], out, err_msg=f"{way.name}\n{kernel.text}")
        np.testing.assert_array_equal(arrays[2], counters, err_msg=f"{way.name}\n{kernel.text}")


@pytest.mark.parametrize("number", range(30))
def test_random_kernels(number: int) -> None:
    compare(make_kernel(random.Random(number).randrange, number), SOME_WAYS)


@pytest.mark.parametrize("number", range(30, 36))
def test_random_kernels_optimised(number: int) -> None:
    compare(make_kernel(random.Random(number).randrange, number), WAYS)


@pytest.mark.parametrize("number", range(20))
def test_random_flow(number: int) -> None:
    """Any graph of blocks, irreducible ones included."""
    text, block, expected = make_flow(random.Random(number))
    for way in SOME_WAYS:
        (out,) = in_child(lambda way=way: run(text, block, [np.zeros_like(expected)], way)[0])  # type: ignore[misc]
        np.testing.assert_array_equal(out, expected, err_msg=f"{way.name}\n{text}")


@seed(1)
@settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_small_random_kernels(data: st.DataObject) -> None:
    """The same by Hypothesis, which makes a failing kernel small."""
    compare(make_kernel(lambda count: data.draw(st.integers(0, count - 1))), QUICK_WAYS)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1000, 1400))
def test_many_random_kernels(number: int) -> None:
    compare(make_kernel(random.Random(number).randrange, number), (*SOME_WAYS, *WAYS))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1000, 1200))
def test_much_random_flow(number: int) -> None:
    text, block, expected = make_flow(random.Random(number))
    for way in (*SOME_WAYS, *WAYS):
        (out,) = in_child(lambda way=way: run(text, block, [np.zeros_like(expected)], way)[0])  # type: ignore[misc]
        np.testing.assert_array_equal(out, expected, err_msg=f"{way.name}\n{text}")
