"""Texture accesses as an NVIDIA H200 answered them (`tools/record_textures.py`), bit by bit, through the client library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from cuttle.client import build
from cuttle.sweep.texture_cases import cases
from tests.textures.replay import recorded

pytestmark = pytest.mark.device

LEVEL_STEPS = 2 / 256  # how far a level that gradients choose may be from the hardware's
LEVEL_LANES = 0.1  # and in what part of the lanes


def run(*arguments: str, **knobs: str) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, before a client library of ours."""
    build.build()
    environment = {
        **os.environ, "LD_LIBRARY_PATH": str(build.LIB), "CUTTLE_PYTHON": sys.executable, "CUTTLE_COMPUTE_CAPABILITY": "9.0",
        **knobs,
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def replay(**knobs: str) -> list[dict[str, Any]]:
    done = run("-m", "tests.textures.replay", **knobs)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("knobs", [{}, {"CUTTLE_PLAIN": "1"}], ids=["warps", "plain"])
def test_recorded_accesses(knobs: dict[str, str]) -> None:
    first, *outcomes, last = replay(**knobs)
    assert first == {"failures": {}}
    assert last == {"arrays": []}
    by_name = {case.name: case for case in cases()}
    _, results = recorded()
    assert [outcome["case"] for outcome in outcomes] == list(by_name)
    problems = []
    for outcome in outcomes:
        case, wanted = by_name[outcome["case"]], results[outcome["case"]]
        if outcome["result"] != (wanted if isinstance(wanted, int) else 0):
            problems.append(
                f"{case.name}: CUresult {outcome['result']}, not {wanted if isinstance(wanted, int) else 0}"
            )
        elif case.inexact and outcome["levels"] <= LEVEL_STEPS and outcome["lanes"] <= LEVEL_LANES * case.threads:
            continue
        elif outcome.get("lanes"):
            problems.append(f"{case.name}: {outcome['lanes']} lanes; {outcome['first']}")
    assert not problems, "\n".join(problems)


ANISOTROPIC = """
from dataclasses import replace
from cuttle.sweep.driver import Driver, DriverFailure
from cuttle.sweep.texture_cases import gradients
from cuttle.sweep.textures import Textures
case = next(case for case in gradients() if case.name == "gradients 2d")
textures = Textures(Driver())
textures.compile([case.instruction])
try:
    textures.run(replace(case, sampling=replace(case.sampling, anisotropy=4)))
except DriverFailure as failure:
    print(failure.result)
"""


def test_anisotropic_gradients_end_the_kernel() -> None:
    """They are not built: no answer rather than a wrong one, and the user is told."""
    done = run("-c", ANISOTROPIC)
    assert done.stdout.split() == ["719"], done.stderr
    assert "gradients with anisotropic filtering are not built" in done.stderr
