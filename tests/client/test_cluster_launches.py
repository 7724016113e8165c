"""Launches with clusters: what they answer here is what an H200 answered (recorded by tools/record_cluster_launches.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cuttle.abi import cuda_errors as errors
from cuttle.client import build
from tests.client import cluster_launches

RECORD = json.loads(Path(__file__).with_name("cluster_launches.json").read_text(encoding="utf-8"))
# An H200 has room for clusters that no launch takes: 16 of 17 or 18 blocks, one in each group of its multiprocessors.
ONLY_ON_H200 = frozenset(
    (
        "active plain grid=34 block=32 cluster=17 set=14:1",
        "active plain grid=36 block=32 cluster=18 set=14:1",
    )
)


def run(library: Path, capability: str, *cases: str) -> tuple[dict[str, list[Any]], str]:
    """Cuttle's answers to some or all cases, and what it said."""
    path = os.pathsep.join(filter(None, [str(build.CLIENT.parent.parent), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, cluster_launches.__file__, str(library), *cases],
        env={**os.environ, "CUTTLE_COMPUTE_CAPABILITY": capability, "CUTTLE_PYTHON": sys.executable, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def answers(library: Path) -> dict[str, list[Any]]:
    """The answers to all cases, as a device of compute capability 9.0."""
    return run(library, "9.0")[0]


def comparable(case: str, answer: list[Any]) -> list[Any]:
    """How many clusters fit depends on the number of multiprocessors; whether one fits does not."""
    return [*answer[:-1], answer[-1] > 0] if case.startswith("active") else answer


def test_the_record_is_of_these_cases() -> None:
    assert "H200" in RECORD["origin"]["gpu"]
    assert list(RECORD["answers"]) == cluster_launches.CASES


@pytest.mark.device
@pytest.mark.parametrize("call", sorted({case.split()[0] for case in cluster_launches.CASES}))
def test_answers_are_those_of_an_h200(answers: dict[str, list[Any]], call: str) -> None:
    different = [
        f"{case}: {answers[case]}, an H200: {expected}"
        for case, expected in RECORD["answers"].items()
        if case.split()[0] == call
        and case not in ONLY_ON_H200
        and comparable(case, answers[case]) != comparable(case, expected)
    ]
    assert not different, "\n".join(different)


@pytest.mark.device
def test_what_only_fits_an_h200_is_refused(answers: dict[str, list[Any]]) -> None:
    assert {case: answers[case][-1] for case in ONLY_ON_H200} == dict.fromkeys(ONLY_ON_H200, 0)


@pytest.mark.device
def test_a_device_without_clusters_refuses_and_says_so(library: Path) -> None:
    several, one = (f"launch_ex plain grid=4 block=32 cluster={blocks}" for blocks in (2, 1))
    question = "active plain grid=4 block=32 cluster=2"
    found, said = run(library, "8.0", question, one, several)
    assert found[several] == [errors.CUDA_ERROR_NOT_SUPPORTED]
    assert found[question][0] == errors.CUDA_ERROR_NOT_SUPPORTED
    assert found[one] == RECORD["answers"]["launch_ex plain grid=2 block=32 cluster=1"][:-1] + [[4, 1, 1, 1, 1]]
    assert said.count("hint: on the CPU, set CUTTLE_COMPUTE_CAPABILITY=9.0") == 1
