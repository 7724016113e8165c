"""A tiny run of everything: does it work at all. Says nothing about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cuttle.bench import report
from cuttle.bench.build import BenchError, find_nvcc
from cuttle.bench.contenders import Contender, Sample, base_environment
from cuttle.bench.noise import Interval
from cuttle.bench.problems import PROBLEMS
from cuttle.bench.processes import WorkerFailure, WorkerProcess, cpu_ns, marked_processes
from cuttle.bench.run import Measured, Options, Results, Timing

SCRIPT = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["do"] == "die":
        sys.exit("out of steam")
    print(json.dumps({"error": "no"} if request["do"] == "fail" else {"text": request["do"]}), flush=True)
"""


def worker(tmp_path: Path) -> WorkerProcess:
    return WorkerProcess([sys.executable, "-c", SCRIPT], base_environment(), tmp_path / "log")


def test_worker_answers_fails_and_dies(tmp_path: Path) -> None:
    process = worker(tmp_path)
    try:
        assert process.ask("describe") == {"text": "describe"}
        assert cpu_ns(process.pid) > 0
        with pytest.raises(WorkerFailure, match="^no$"):
            process.ask("fail")
        with pytest.raises(WorkerFailure, match="ended with 1; out of steam"):
            process.ask("die")
    finally:
        process.close()


def test_processes_are_found_by_their_token(tmp_path: Path) -> None:
    contender = Contender("native", "plain C", [sys.executable, "-c", SCRIPT], base_environment())
    contender.start(tmp_path / "log")
    try:
        assert contender.worker is not None
        assert list(marked_processes(contender.token)) == [contender.worker.pid]
    finally:
        contender.stop()
    assert marked_processes(contender.token) == {}


def made_up(ours: list[float], theirs: list[float]) -> Measured:
    measured = Measured(PROBLEMS[0])
    for name, values in (("cuttle", ours), ("intel", theirs)):
        measured.timings[name] = Timing([Sample(value, value + 0.1, value + 0.2) for value in values])
    return measured


def test_ratio_is_taken_round_by_round() -> None:
    # The machine slowed down by ten half way, which no ratio of medians would survive.
    measured = made_up([1, 1, 10, 10, 10], [4, 4, 40, 40, 40])
    assert measured.ratio("cuttle", "intel") == Interval(0.25, 0.25, 0.25)
    assert measured.verdict == "met"
    assert made_up([1, 3, 1, 3], [4, 4, 4, 4]).verdict == "noise"
    assert made_up([3, 3], [4, 4]).verdict == "missed"
    assert made_up([], [4, 4]).verdict == ""


def test_page_names_everything() -> None:
    measured = made_up([1, 3, 1, 3], [4, 4, 4, 4])
    measured.lowering = {"mode": "regions", "gathers": 3, "scatters": 0}
    measured.timings["pocl"] = Timing(trouble="no such thing")
    results = Results(Options(), {"processor": "a | b"}, {"Cuttle": "device"}, [measured], [], ["gone"])
    page = report.page(results)
    for text in (
        "no verdict (noise)",
        f"≤ {PROBLEMS[0].bar}",
        "regions, 3 gathers",
        "saxpy: no such thing",
        "gone",
        "a \\| b",
    ):
        assert text in page
    assert not Results(Options(), {}, {}, [], [], ["gone"]).sound


def test_price_of_exactness() -> None:
    inexact = next(problem for problem in PROBLEMS if problem.inexact)
    measured = Measured(inexact)
    for name, value in (("cuttle", 3.0), ("fast", 2.0), ("openblas", 1.0)):
        measured.timings[name] = Timing([Sample(value, value, value)] * 3)
    page = report.page(Results(Options(), {}, {}, [measured], [], []))
    assert f"| {inexact.title} | 3 ± 0 % | 2 ± 0 % | 1.5 ± 0 % | 1 ± 0 % | 0.333 ± 0 % | 0.5 ± 0 % |" in page


@pytest.mark.nvcc
@pytest.mark.device
def test_small_run(tmp_path: Path) -> None:
    try:
        find_nvcc(None)
    except BenchError as error:
        pytest.skip(str(error))
    # A process of its own: the benchmark adopts orphans.
    command = [sys.executable, "-m", "cuttle.bench", "--small", "--rounds", "1", "--json", "--folder", str(tmp_path)]
    command += ["--contenders", "cuttle,fast,native,openblas", "--only", "saxpy,histogram_shared,softmax,matmul_mma"]
    done = subprocess.run(command, capture_output=True, text=True, env=base_environment(), timeout=300, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    results = json.loads(done.stdout)
    assert results["troubles"] == []
    names = [measured["name"] for measured in results["kernels"]]
    assert names == ["saxpy", "histogram_shared", "softmax", "matmul_mma"]
    assert list(results["kernels"][3]["timings"]) == ["cuttle", "fast", "openblas"]
    for measured in results["kernels"]:
        assert all(len(timing["samples"]) == 1 for timing in measured["timings"].values()), measured
        assert measured["lowering"]["mode"] == "regions"
    assert len(results["figures"]) == 11
