"""What users read where a part is missing: NumPy, the executor, AMD's software, a place to write to."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from cuttle.abi.errors import ERRORS
from cuttle.cli import demo_program, selftest
from cuttle.cli.checks import FAILURE, OK, WARNING
from cuttle.cli.command_line import VERBS
from cuttle.cli.result import FINDINGS, Table
from cuttle.cli.stack import STACK_VERBS
from cuttle.errors import said_error
from tests.selftest.test_report import report

ROOT = Path(__file__).resolve().parents[2]
CU_INIT = 'import ctypes; print(ctypes.CDLL("libcuda.so.1").cuInit(0))'


@pytest.fixture
def no_numpy(tmp_path: Path) -> dict[str, str]:
    """Variables with which no Python finds NumPy: `import numpy` fails as where it is not installed."""
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text('import sys\nsys.modules["numpy"] = None\n')
    return {"PYTHONPATH": os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))}


@pytest.mark.device
def test_an_emulated_gpu_without_numpy_is_refused_at_the_start(cuttle: Any, no_numpy: dict[str, str]) -> None:
    done = cuttle("run", "--device", "rdna:gfx1100", "--", "python3", "-c", CU_INIT, env=no_numpy)
    assert done.stdout == "100\n"
    assert (
        "error[DEV-0108]: an emulated gfx1100 needs NumPy" in done.stderr and "hint: pip install numpy" in done.stderr
    )
    assert cuttle("run", "--", "python3", "-c", CU_INIT, env=no_numpy).stdout == "0\n"


@pytest.mark.device
def test_a_gpu_without_numpy_is_refused_at_the_start(cuttle: Any, no_numpy: dict[str, str], tmp_path: Path) -> None:
    from tests.device.hip.builds import fake_hip

    variables = {**no_numpy, "CUTTLE_HIP_LIBRARY": str(fake_hip(tmp_path / "hip", 6)), "FAKE_HIP_DEVICES": "gfx1100"}
    done = cuttle("run", "--device", "hip", "--", "python3", "-c", CU_INIT, env=variables)
    assert done.stdout == "100\n" and "error[DEV-0108]" in done.stderr
    check = json.loads(cuttle("doctor", "hip", "--json", env=variables).stdout)["data"]["checks"][0]
    assert check["mark"] == WARNING and "needs NumPy" in check["text"] and "pip install numpy" in check["hint"]


@pytest.mark.device
def test_the_doctor_blames_numpy_and_not_the_kernel(cuttle: Any, no_numpy: dict[str, str]) -> None:
    done = cuttle("doctor", "--json", "device_process", "kernel", env={**no_numpy, "CUTTLE_DEVICE": "rdna:gfx1200"})
    process, kernel = json.loads(done.stdout)["data"]["checks"]
    assert process["mark"] == FAILURE and "needs NumPy" in process["text"] and "pip install numpy" in process["hint"]
    assert kernel["text"] == "no kernel was run: there is no device"


@pytest.mark.device
def test_a_self_test_without_a_device_says_so_once(cuttle: Any, no_numpy: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "report"
    done = cuttle("selftest", "--quick", "--device", "rdna:gfx1100", "--output", str(folder), env=no_numpy)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("error[DEV-0108]")
    assert not folder.exists()


@pytest.mark.device
def test_an_executor_that_is_missing_is_found_out_at_the_start(cuttle: Any, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        variables = {"CUTTLE_EXECUTOR": str(path)}
        done = cuttle("run", "--", "python3", "-c", CU_INIT, env=variables)
        assert done.stdout == "100\n" and f"error[DEV-0002]: the executor {path}" in done.stderr
        assert "error[DEV-0002]" in cuttle("info", env=variables).stderr


def test_the_error_that_a_device_process_says() -> None:
    talk = "cuttle: note\ncuttle: error[DEV-0202]: no HIP\n  hint: Install it.\nmore"
    said = said_error(talk)
    assert said is not None and (said.code, said.message, said.hint) == ("DEV-0202", "no HIP", "Install it.")
    assert said_error("cuttle: something else") is None


def test_the_doctor_on_amd_software_that_is_not_there(cuttle: Any) -> None:
    """No tick for who asks for it or runs on it; "ready" is only said after all checks."""

    def marks(*arguments: str, **variables: str) -> tuple[str, ...]:
        settings = {"CUTTLE_HIP_LIBRARY": "/nowhere/libamdhip64.so.7", **variables}
        checks = json.loads(cuttle("doctor", "--json", *arguments, env=settings).stdout)["data"]["checks"]
        return tuple(check["mark"] for check in checks if check["check"] == "hip")

    assert marks("hip") == (WARNING,)
    assert marks("hip", CUTTLE_DEVICE="hip:0") == (FAILURE,)
    assert marks() == (OK,) and marks(CUTTLE_DEVICE="hip") == (FAILURE,)
    done = cuttle("doctor", "hip", env={"CUTTLE_HIP_LIBRARY": "/nowhere/libamdhip64.so.7"})
    assert done.returncode == 1 and "1 check: 1 warning." in done.stdout
    assert cuttle("doctor", "python").stdout.endswith("\n1 check, nothing found.\n")


@pytest.mark.parametrize("output", ["missing/x.png", "file/x.png"])
def test_a_picture_that_cannot_be_written_is_not_drawn(cuttle: Any, tmp_path: Path, output: str) -> None:
    (tmp_path / "file").write_text("")
    done = cuttle("demo", "-o", str(tmp_path / output), "--size", "16x16")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"error[CLI-0602]: {tmp_path / output}: ") and "--output" in done.stderr


@pytest.mark.device
def test_a_picture_for_which_there_is_no_room(cuttle: Any, tmp_path: Path) -> None:
    done = cuttle("demo", "-o", "/dev/full", "--size", "16x16")
    assert done.returncode == 1 and "error[CLI-0602]" in done.stderr and "Traceback" not in done.stderr
    picture = tmp_path / "old.png"
    picture.write_bytes(b"old")
    assert cuttle("demo", "-o", str(picture), "--size", "16x16", env={"CUTTLE_EXECUTOR": "/nowhere"}).returncode == 1
    assert picture.read_bytes() == b"old", "a demo that fails leaves what was there"


def test_the_demo_program_without_a_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo_program.main([str(tmp_path / "no.ptx"), str(tmp_path / "x.png"), "1", "1", "1", "0"]) == 1
    assert "no.ptx" in capsys.readouterr().err


def test_the_folder_of_a_report_is_tried_first(cuttle: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file" / "under", Path("/proc/cuttle")):
        done = cuttle("selftest", "--output", str(folder))
        assert done.returncode == 1 and done.stderr.startswith(f"error[STS-0102]: {folder}: ")


def test_a_report_that_cannot_be_written_is_shown(tmp_path: Path) -> None:
    result = selftest.write_and_show(report(), tmp_path / "gone")
    assert result.exit_code == FINDINGS and [problem.code for problem in result.errors] == ["STS-0102"]
    assert result.data["parts"][0]["passed"] == 10 and result.data["files"] == []
    assert isinstance(result.blocks[0], Table)
    written = selftest.write_and_show(report(), tmp_path)
    assert written.exit_code == 0 and all(Path(file).exists() for file in written.data["files"])


@pytest.mark.device
def test_a_sweep_says_why_there_is_no_device(cuttle: Any, no_numpy: dict[str, str], tmp_path: Path) -> None:
    results = str(tmp_path / "verdicts.sqlite")
    done = cuttle("sweep", "--device", "rdna:gfx1100", "--form", "^add.u32$", "--results", results, env=no_numpy)
    assert done.returncode == 1 and "error[DEV-0108]" in done.stderr and "pip install numpy" in done.stderr


def test_the_doctor_names_bad_knobs_and_folders(cuttle: Any, tmp_path: Path) -> None:
    """Nothing of that is a check that crashes."""
    file = tmp_path / "file"
    file.write_text("")
    for check, name, value, mark in (
        ("cache", "CUTTLE_CACHE", "maybe", FAILURE), ("memory", "CUTTLE_MEMORY", "lots", FAILURE),
        ("cache", "CUTTLE_CACHE_DIR", str(file), WARNING), ("cache", "CUTTLE_CACHE_DIR", str(file / "below"), WARNING),
    ):  # fmt: skip
        found = json.loads(cuttle("doctor", check, "--json", env={name: value}).stdout)["data"]["checks"][0]
        assert found["mark"] == mark and value in found["text"] and name in found["hint"], found


def test_hints_install_nothing_of_a_stranger() -> None:
    """On PyPI the name `cuttle` is taken by another project."""
    pages = [
        *(ROOT / "src").rglob("*.py"),
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("bench/*.md"),
    ]
    found = [
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in pages
        for line in page.read_text().splitlines()
        if re.search(r"pip3? install\b[^`#]*?[ '\"]cuttle\b(?![/-])", line)
    ]
    assert found == []


def test_hints_name_verbs_that_exist() -> None:
    texts = [text for row in ERRORS for text in (row.hint, row.explanation)]
    texts += [page.read_text() for page in (ROOT / "src").rglob("*.py")]
    named = {found for text in texts for found in re.findall(r"`cuttle ([a-z]+(?: [a-z]+)?)", text)}
    assert len(named) > 20
    wrong = []
    for words in sorted(named):
        verb, _, more = words.partition(" ")
        if verb not in VERBS or (verb == "stack" and more and more not in STACK_VERBS):
            wrong.append(words)
    assert wrong == []
