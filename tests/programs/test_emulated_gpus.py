"""The CUDA test programs on emulated AMD GPUs, against what an H200 printed.

A few run always; all of them with `pytest -m slow tests/programs/test_emulated_gpus.py` (about ten minutes on two cores).
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.programs.programs import PROGRAMS, Program
from tests.programs.test_programs import RUN_TIMEOUT_S, build, recorded

TARGETS = ("rdna:gfx1100", "rdna:gfx1200")
QUICK = ("vector_add", "matmul_tiled", "reduce_shuffle")
# What a program prints when it uses what AMD GPUs do not have.
REFUSED = {"clusters": "a launch with thread block clusters was refused"}


def check(program: Program, device: str) -> None:
    entry = recorded(program)["normal"]
    executable = build(program, broken=False)
    done = subprocess.run(
        [sys.executable, "-m", "cuttle", "run", "--device", device, "--", str(executable)],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_TIMEOUT_S, env={**os.environ}, check=False
    )  # fmt: skip
    explanation = f"stderr:\n{done.stderr.decode(errors='replace')}"
    if program.name in REFUSED:
        assert done.returncode != 0 and REFUSED[program.name] in explanation
        return
    assert done.returncode == entry["exit_code"], explanation
    assert done.stdout.decode(errors="replace") == entry["stdout"], explanation


@pytest.mark.nvcc
@pytest.mark.device
@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize("name", QUICK)
def test_program_prints_what_a_gpu_printed(name: str, device: str) -> None:
    check(next(program for program in PROGRAMS if program.name == name), device)


@pytest.mark.slow
@pytest.mark.nvcc
@pytest.mark.device
@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.name not in QUICK], ids=lambda program: program.name)
def test_every_program_prints_what_a_gpu_printed(program: Program, device: str) -> None:
    check(program, device)
