"""`cuttle stack probe`: all tests on the CPU device, and programs that crash, hang and lie."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from cuttle.errors import StackError
from cuttle.stack.configurations import parse_configuration
from cuttle.stack.probe import Finding, Setting, choose_front_end, ladder, run_probes, select
from cuttle.stack.probes import algebra, arrays, driver, learning
from cuttle.stack.probes.checking import Failed, close, same
from cuttle.stack.probes.rows import GROUPS, PROBES

ROOT = Path(__file__).parents[2]
SYSTEM = parse_configuration("system")
MODULES = {"driver": driver, "arrays": arrays, "algebra": algebra, "learning": learning}


def nothing(done: int, total: int, text: str) -> None:
    pass


def test_rows_and_functions_are_the_same() -> None:
    assert len(PROBES) == len({row.name for row in PROBES}) == 41
    for group in GROUPS:
        names = {name.removeprefix("probe_") for name in vars(MODULES[group]) if name.startswith("probe_")}
        assert names == {row.name for row in PROBES if row.group == group}


def test_all_on_the_cpu_device(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cuttle", "stack", "probe", "--json", "--front-end", "own", "--root", str(tmp_path / "root")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "CUTTLE_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(done.stdout)["data"]
    results = {test["name"]: test["result"] for test in data["tests"]}
    # A machine with NVIDIA's driver has a management library; Cuttle has none.
    assert results.pop("nvml") in ("refused", "pass", "fail")
    assert Counter(results.values()) == {"pass": 40}, data["tests"]
    assert json.loads((tmp_path / "root" / "results" / "probe.json").read_text()) == data


def stand_in(tmp_path: Path, text: str) -> str:
    """A program that is started as if it were Python."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("text", "result", "reason"),
    [
        ('echo \'CUTTLE_PROBE:{"result": "pass", "reason": ""}\'', "pass", ""),
        ('echo noise; echo \'CUTTLE_PROBE:{"result": "refused", "reason": "no"}\'; echo more', "refused", "no"),
        ('printf \'CUTTLE_PROBE:{"result": "fail", "reason": "\\\\u001b[2J"}\'', "fail", "?[2J"),
        ('echo \'CUTTLE_PROBE:{"result": "perfect", "reason": ""}\'', "crashed", "damaged result"),
        ("echo 'CUTTLE_PROBE:[' ; exit 0", "crashed", "damaged result"),
        ("kill -SEGV $$", "crashed", "signal 11"),
        ("echo 'no driver' >&2; exit 4", "crashed", "ended with 4 before it had a result: no driver"),
        ("sleep 100 & sleep 100", "timed out", "no result after 1 s"),
    ],
)
def test_whatever_a_test_does_is_a_result(tmp_path: Path, text: str, result: str, reason: str) -> None:
    setting = Setting(SYSTEM, "own", 1.0, stand_in(tmp_path, text))
    (found,) = run_probes(select(["fft"]), setting, nothing)
    assert found.result == result and reason in found.reason


def test_a_missing_python_is_told(tmp_path: Path) -> None:
    with pytest.raises(StackError) as caught:
        run_probes(select(["fft"]), Setting(SYSTEM, "own", 1.0, str(tmp_path / "none")), nothing)
    assert caught.value.code == "STK-1002"
    with pytest.raises(StackError) as caught:
        select(["nothing"])
    assert caught.value.code == "STK-1001"


def test_the_front_end_is_what_sees_a_device(tmp_path: Path) -> None:
    assert choose_front_end(SYSTEM, stand_in(tmp_path, "exit 1"), 5) == "own"
    assert choose_front_end(SYSTEM, stand_in(tmp_path, 'case "$2" in *cupy*) exit 0;; esac; exit 1'), 5) == "cupy"
    assert choose_front_end(SYSTEM, stand_in(tmp_path, "exit 0"), 5) == "torch"


def findings(**results: str) -> list[Finding]:
    groups = {row.name: row.group for row in PROBES}
    return [Finding(name, groups[name], result, "", 0.0) for name, result in results.items()]


def test_ladder() -> None:
    assert ladder(findings(device_info="crashed", fft="pass")) == "nothing"
    assert ladder(findings(device_info="pass", fft="refused")) == "detected"
    assert ladder(findings(device_info="pass", fft="pass", matmul="fail")) == "loads"
    assert ladder(findings(device_info="pass", fft="pass", matmul="refused")) == "refuses safely"
    assert ladder(findings(device_info="pass", fft="pass", amp="not applicable")) == "correct"


def test_wrong_answers_are_seen() -> None:
    close([1.0, 2.0], [1.0, 2.00001], 1e-4)
    for found in ([1.0, 2.1], [1.0, float("nan")], [1.0]):
        with pytest.raises(Failed):
            close(found, [1.0, 2.0], 1e-4)
    with pytest.raises(Failed, match="element 1 is 3 instead of 2"):
        same([1, 3], [1, 2], "x")
