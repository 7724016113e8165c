"""Random kernels on emulated GPUs give what their NumPy interpreters give: structured ones, and any graph of blocks."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.lower.amdgpu.launcher import TARGETS, run
from tests.lower.cpu.kernels import HEADER
from tests.lower.cpu.random_flow import make_flow
from tests.lower.cpu.random_kernels import make_kernel

SCHEDULES = ("lockstep", "serial", "random:1")


def compare_kernel(number: int, target: str, schedule: str) -> None:
    kernel = make_kernel(random.Random(number).randrange, number)
    out, counters = kernel.expected()
    specialise = number % 2 == 1
    arrays = run(
        HEADER + kernel.text, target, kernel.block, kernel.arrays(), grid=(kernel.blocks, 1, 1), schedule=schedule,
        specialise=specialise, check_waits=True,
    )  # fmt: skip
    np.testing.assert_array_equal(arrays[1], out, err_msg=f"{target} {schedule}\n{kernel.text}")
    np.testing.assert_array_equal(arrays[2], counters, err_msg=f"{target} {schedule}\n{kernel.text}")


def compare_flow(number: int, target: str) -> None:
    text, block, expected = make_flow(random.Random(number))
    (out,) = run(
        text if text.lstrip().startswith(".version") else HEADER + text, target, block, [np.zeros_like(expected)]
    )
    np.testing.assert_array_equal(out, expected, err_msg=f"{target}\n{text}")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", [*range(22), 1100, 1104])  # the last two: what is no missing wait
def test_random_kernels(number: int, target: str) -> None:
    compare_kernel(number, target, SCHEDULES[number % len(SCHEDULES)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(20))
def test_random_flow(number: int, target: str) -> None:
    compare_flow(number, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(1000, 1200))
def test_many_random_kernels(number: int, target: str) -> None:
    compare_kernel(number, target, SCHEDULES[number % len(SCHEDULES)])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(1000, 1200))
def test_much_random_flow(number: int, target: str) -> None:
    compare_flow(number, target)
