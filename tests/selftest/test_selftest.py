"""`cuttle selftest` from the command line, on the CPU and on a stand-in for HIP; and that a wrong device is found out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cuttle.selftest import file_runner
from cuttle.selftest.run import Tally, clean, first_difference
from cuttle.selftest.run_files import read_file
from cuttle.stack.selftest_report import read_report
from tests.device.hip.builds import fake_hip
from tests.device.hip.test_executor import use

pytestmark = pytest.mark.device


def selftest(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    """The data of the JSON envelope. In its folder are the two files."""
    done = subprocess.run(
        [sys.executable, "-m", "cuttle", "selftest", "--json", "--quick", "--output", str(folder), *arguments],
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    envelope: dict[str, Any] = json.loads(done.stdout)
    return dict(envelope["data"])


def test_on_the_cpu(tmp_path: Path) -> None:
    data = selftest(tmp_path, "--part", "files", "--part", "forms")
    report = read_report(Path(data["files"][0]))
    assert [part.name for part in report.parts] == ["files", "forms"] and report.failed == 0
    assert report.evidence == "cpu" and not report.whole and not report.verifies
    files, forms = report.parts
    assert files.passed >= 15 and files.results >= 400 and forms.passed >= 10 and forms.results >= 2000
    text = Path(data["files"][1]).read_text()
    assert "# Self-test of Cuttle" in text and "| files |" in text
    for word in (os.uname().nodename, str(Path.home()), str(tmp_path)):
        assert len(word) < 5 or word not in Path(data["files"][0]).read_text() + text


def test_on_a_stand_in_for_hip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole chain; a stand-in is no hardware, since the kernel driver knows nothing of it."""
    use(monkeypatch, fake_hip(tmp_path / "hip", 6))
    monkeypatch.delenv("CUTTLE_DEVICE")
    data = selftest(tmp_path, "--device", "hip", "--part", "forms")
    assert (data["target"], data["library"], data["evidence"]) == ("gfx1200", "HIP 6.2.345", "unconfirmed hardware")
    assert data["parts"][0]["passed"] >= 10 and data["parts"][0]["failed"] == 0
    assert Path(data["files"][0]).name.startswith("cuttle-selftest-gfx1200-")


def test_a_device_that_answers_wrongly_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: a driver that flips a bit of what comes back."""
    use(monkeypatch, fake_hip(tmp_path / "hip", 7), FAKE_HIP_BEHAVIOUR="flips a bit")
    monkeypatch.delenv("CUTTLE_DEVICE")
    data = selftest(tmp_path, "--device", "hip", "--part", "forms", code=1)
    assert data["parts"][0]["failed"] >= 10
    assert "fail" in Path(data["files"][1]).read_text()


def test_no_such_device(tmp_path: Path) -> None:
    for name, error in (("gpu", "CLI-0104"), ("hip:N", "CLI-0104")):
        done = subprocess.run(
            [sys.executable, "-m", "cuttle", "selftest", "--device", name, "--output", str(tmp_path)], capture_output=True, text=True, check=False
        )  # fmt: skip
        assert done.returncode != 0 and error in done.stderr
    environment = {**os.environ, "CUTTLE_HIP_LIBRARY": "/nowhere/libamdhip64.so.7"}
    done = subprocess.run(
        [sys.executable, "-m", "cuttle", "selftest", "--device", "hip", "--output", str(tmp_path)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and "DEV-0202" in done.stderr and not list(tmp_path.iterdir())


def test_verdicts_of_files() -> None:
    name = "warp/shfl.ptx"
    test = read_file(file_runner.FOLDER / name)
    assert isinstance(test.expect, list)
    wrong = [test.expect[0] ^ 1, *test.expect[1:]]
    assert file_runner.verdict(name, test, test.expect, True) == "pass"
    assert file_runner.verdict(name, test, wrong, True) == "fail"
    assert file_runner.verdict(name, test, "fault cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX", True) == "fail"
    assert first_difference(wrong, test.expect).startswith(f"1 of {len(wrong)} results differ; the first, [0], is")
    mapa = "memory/mapa.ptx"
    test = read_file(file_runner.FOLDER / mapa)
    refusal = "fault cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX"
    assert file_runner.verdict(mapa, test, refusal, True) == "refused"
    assert file_runner.verdict(mapa, test, refusal, False) == "fail"
    tables = file_runner.REFUSED_ON_AMD | file_runner.FAULTS_ON_AMD | set(file_runner.NOT_RUN_ON_AMD)
    assert tables <= set(file_runner.file_names())


def test_reasons_name_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "marguerite")
    text = clean("cannot open /home/marguerite/x\n\x1b[2J of marguerite")
    assert "marguerite" not in text and "\x1b" not in text and "\n" not in text
    tally = Tally()
    tally.add("a", "fail", "r" * 2000)
    assert len(tally.report("files").troubles[0].reason) == 500
