"""The launch interface of CUDA 2: what it answers is what an H200 answered."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuttle.client import build
from tests.client.driver import Driver

pytestmark = pytest.mark.device
ROOT = Path(__file__).resolve().parents[2]
# By tools/record_launch_state.py on an H200 with its own driver: results of the calls, then the number in memory.
RECORDED = {
    "all set": [0, 0, 0, 0, 0, 0, 0, 1344],
    "one block": [0, 0, 0, 0, 0, 0, 0, 224],
    "on a stream": [0, 0, 0, 0, 0, 0, 0, 448],
    "twice": [0, 0, 0, 0, 0, 0, 0, 0, 448],
    "no shape": [0, 0, 0, 0, 0, 0, 7],
    "small size": [0, 0, 0, 0, 0, 0, 0, 160],
    "large size": [0, 0, 0, 0, 0, 701, 0, 0],
    "shape 0": [1, 0, 0],
    "shape negative": [1, 0, 0],
    "shape 2048": [1, 0, 0, 0, 0, 0, 0, 7],
    "grid 0": [0, 0, 0, 0, 0, 1, 0, 0],
    "grid negative": [0, 0, 0, 0, 0, 1, 0, 0],
    "shared too large": [0, 0, 0, 0, 0, 1, 0, 0, 224],
    "size 1 MiB": [1, 0, 0],
    "parameter behind the end": [0, 0, 0, 0],
    "parameter far behind the end": [0, 1, 0, 0],
    "nothing from nowhere": [0, 1, 0, 0],
}


@pytest.fixture(scope="module")
def answers(library: Path) -> dict[str, list[int]]:
    parts = [str(build.CLIENT.parent.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "CUTTLE_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(filter(None, parts))}
    command = [sys.executable, str(ROOT / "tools/record_launch_state.py"), str(library)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return {name: list(row) for name, row in json.loads(done.stdout).items()}


@pytest.mark.parametrize("name", RECORDED)
def test_as_on_an_h200(answers: dict[str, list[int]], name: str) -> None:
    assert answers[name] == RECORDED[name]


def test_sizes_of_parameters(driver: Driver) -> None:
    """On an H200: size 4,097 and a number at 4,093 are taken, size 32,768 is not."""
    text = b".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret; }\n"
    module = driver.get("cuModuleLoadData", ctypes.c_void_p, text)
    function = ctypes.c_void_p(driver.get("cuModuleGetFunction", ctypes.c_void_p, ctypes.c_void_p(module), b"k"))
    driver.cuParamSetSize(function, 4097)
    driver.cuParamSeti(function, 4093, 0)
    assert driver.result("cuParamSetSize", function, 32768) == 1
    assert driver.result("cuParamSeti", function, 32761, 0) == 1


def test_all_cases_were_recorded(answers: dict[str, list[int]]) -> None:
    assert set(answers) == set(RECORDED)
