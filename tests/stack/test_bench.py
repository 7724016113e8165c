"""`cuttle stack bench` as users meet it: engines that are not there, failures, progress."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from cuttle.cli import progress
from cuttle.cli.progress import StepBar
from cuttle.cli.render import Style
from cuttle.errors import StackError
from cuttle.stack.compare_runs import Plan, require_devices, run_trial
from cuttle.stack.configurations import parse_configuration
from cuttle.stack.ready import require_device
from tests.cli.conftest import Cuttle


@pytest.mark.device
def test_engines_are_tried_before_anything_long(cuttle: Cuttle, tmp_path: Path) -> None:
    for other, told in (
        ("cuttle:hip,CUTTLE_HIP_LIBRARY=/nowhere/libamdhip64.so.7", "(DEV-0202)"),
        (f"zluda,CUTTLE_STACK_DIR={tmp_path}", "(STK-0405)"),
        ("cuttle,CUTTLE_EXECUTOR=/nowhere/executor", "(DEV-0002)"),
    ):
        done = cuttle("stack", "bench", "ppo", "--a", "cuttle", "--b", other)
        assert done.returncode == 1 and done.stdout == ""
        assert f"error[STK-1107]: {other}: " in done.stderr and told in done.stderr and "hint: " in done.stderr
    device = require_device(parse_configuration("cuttle:cpu"))
    assert device.startswith("Cuttle CPU")


@pytest.fixture
def without_driver(tmp_path: Path) -> str:
    """A configuration whose libcuda.so.1 is none, whatever this machine has."""
    (tmp_path / "libcuda.so.1").write_text("no library")
    return f"system,LD_LIBRARY_PATH={tmp_path}"


def test_a_machine_without_a_driver(without_driver: str) -> None:
    with pytest.raises(StackError) as caught:
        require_device(parse_configuration(without_driver))
    assert caught.value.code == "STK-1107" and "libcuda.so.1" in caught.value.message
    assert "--b cuttle,CUTTLE_FAST_MATH=1" in caught.value.hint


def test_a_command_may_find_a_driver_of_its_own(without_driver: str) -> None:
    """A program that is built for this GPU needs no libcuda.so.1."""
    system = parse_configuration(without_driver)
    assert require_devices(Plan("mine", command=("program",)), system) == [""]
    with pytest.raises(StackError):
        require_devices(Plan("gemm"), system)


def test_a_failed_workload_says_how_to_run_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "a program.py"
    path.write_text("import sys; sys.exit('error[DEV-0001]: gone\\n  hint: Look.')")
    configuration = parse_configuration("system")
    with pytest.raises(StackError) as caught:
        run_trial([sys.executable, str(path)], configuration, Plan("mine"), lambda lines: None)
    assert caught.value.message == "system: the workload ended with 1: gone (DEV-0001)"
    assert caught.value.hint == f"Run it alone: {sys.executable} '{path}'"
    with pytest.raises(StackError) as caught:
        run_trial(["/nowhere/program"], configuration, Plan("mine"), lambda lines: None)
    assert (caught.value.code, caught.value.message) == ("STK-1103", "/nowhere/program: No such file or directory")


def test_lines_are_heard_as_they_come(tmp_path: Path) -> None:
    """The workload waits until its first line was heard."""
    path = tmp_path / "workload.py"
    line = json.dumps({"metrics": {"seconds": 1}})
    path.write_text(
        "import os, time\n"
        f"print({line!r}, flush=True)\n"
        f"while not os.path.exists({str(tmp_path / 'heard')!r}): time.sleep(0.01)\n"
        f"print({line!r})\n"
    )

    def heard(lines: int) -> None:
        if lines == 1:
            (tmp_path / "heard").touch()

    rows = run_trial([sys.executable, str(path)], parse_configuration("system"), Plan("mine", seconds=60), heard)
    assert len(rows) == 2


def test_progress_in_a_file_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    for style, expected in (
        (Style(), "cuttle: begin\ncuttle: 3 of 9 after 12 s: third \\x1b\ncuttle: 5 of 9 after 24 s: fifth\n"),
        (Style(quiet=True), ""),
        (Style(json=True), ""),
    ):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        bar = StepBar(style)
        bar.remark("begin")
        for seconds, done, text in (
            (0, 1, "first"),
            (9, 2, "second"),
            (3, 3, "third \x1b"),
            (0, 4, "fourth"),
            (12, 5, "fifth"),
        ):
            clock[0] += seconds
            bar.watch(done, 9, text)
        assert stream.getvalue() == expected


def test_names_of_devices_are_looked_at_first(cuttle: Cuttle) -> None:
    for arguments in (("bench", "gemm", "--b", "cuttle:nosuch"), ("probe", "--engine", "cuttle:hip:x")):
        done = cuttle("stack", *arguments)
        assert (
            done.returncode == 2
            and "error[STK-1101]: there is no device" in done.stderr
            and "rdna:gfx1100" in done.stderr
        )
    done = cuttle("stack", "run", "--device", "nosuch", "--", "true")
    assert done.returncode == 125 and "error[STK-1101]: there is no device nosuch" in done.stderr


def test_a_capability_that_is_missing_says_how_to_run_it_alone(cuttle: Cuttle) -> None:
    done = cuttle("stack", "probe", "device_info", "--front-end", "own", "--python", "/nowhere/python")
    assert done.returncode == 1 and "/nowhere/python: no such file (CLI-0301)" in done.stdout
    assert "`cuttle stack probe device_info --engine cuttle` runs one" in done.stderr


def test_a_bundle_that_cannot_be_written(cuttle: Cuttle) -> None:
    done = cuttle("stack", "report", "--output", "/nowhere/bundle.zip")
    assert done.returncode == 1 and done.stderr.startswith("error[STK-0406]: /nowhere/bundle.zip: No such file")
    assert "--output" in done.stderr
