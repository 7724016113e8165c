"""How long compiling takes: measured in processor time, so that a busy machine changes little."""

from __future__ import annotations

import time
from statistics import median

import pytest

from cuttle.lower.amdgpu.compile_kernel import compile_kernel
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.ptx.parser import parse_module
from tests.lower.amdgpu.kernels import straight_kernel
from tests.lower.amdgpu.launcher import TARGETS

MOST_SECONDS = 0.15


@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_of_a_hundred_instructions(target: str) -> None:
    text = straight_kernel(100)
    assert sum(line.endswith(";") and not line.startswith((".", "  .")) for line in text.splitlines()) == 100
    times = []
    for _ in range(5):
        start = time.process_time()
        compile_kernel(parse_module(text), "straight", AmdgpuOptions(target))
        times.append(time.process_time() - start)
    assert median(times) <= MOST_SECONDS
