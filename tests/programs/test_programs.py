"""Runs every CUDA test program under `cuttle run` and compares it with what a real GPU printed.

Each program checks its own results; the record of an H200 (written by tools/record_programs.py) is the second
opinion. The build with -DBREAK shows that the program's checks can fail at all.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import cuda_toolchain
from tests.programs.programs import FAILED, FOLDER, PROGRAMS, RECORD, Program

# Protects against a program that hangs; it decides nothing else.
RUN_TIMEOUT_S = 300

each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


def build(program: Program, *, broken: bool) -> Path:
    """The program's executable, out of the cache where possible."""
    return cuda_toolchain.cached_build(
        cuda_toolchain.from_wheels(),
        program.name + (".break" if broken else ""),
        program.source_paths(),
        program.compiler_flags(broken=broken),
        program.source_hash(),
    )


def run(executable: Path, architecture: int = 80) -> tuple[int, bytes, bytes]:
    """Exit code, stdout and stderr of the program under Cuttle."""
    capability = f"{architecture // 10}.{architecture % 10}"
    command = [sys.executable, "-m", "cuttle", "run", "--", str(executable)]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "CUTTLE_COMPUTE_CAPABILITY": capability},
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # The program's own children go too, or they would hold the pipes open.
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"{executable.name} did not end within {RUN_TIMEOUT_S} s")
    return process.returncode, stdout, stderr


def recorded(program: Program) -> dict[str, Any]:
    """The program's entry in the record; fails if it is missing or belongs to other sources."""
    hint = f"hint: python3 tools/record_programs.py --output FOLDER {program.name} (on a machine with an NVIDIA GPU)"
    entries = json.loads(RECORD.read_text(encoding="utf-8"))["programs"] if RECORD.exists() else {}
    entry: dict[str, Any] | None = entries.get(program.name)
    if entry is None:
        pytest.fail(f"{program.name} is not in {RECORD.name}\n{hint}")
    if entry["source_hash"] != program.source_hash():
        pytest.fail(f"the record of {program.name} is stale: its sources or flags have changed\n{hint}")
    return entry


@each_program
def test_record_is_fresh(program: Program) -> None:
    """The record belongs to these sources and says where it comes from; needs neither nvcc nor a device."""
    entry = recorded(program)
    for fact in ("gpu", "driver", "nvcc", "date"):
        assert entry[fact] not in ("", "unknown"), fact
    assert "H200" in entry["gpu"]
    stdout = entry["normal"]["stdout"].encode()
    assert hashlib.sha256(stdout).hexdigest() == entry["normal"]["stdout_sha256"], "the text is not what was hashed"


@pytest.mark.nvcc
@pytest.mark.device
@each_program
def test_program_prints_what_a_gpu_printed(program: Program) -> None:
    """Exit code and every byte of stdout are as on the H200."""
    entry = recorded(program)["normal"]
    code, stdout, stderr = run(build(program, broken=False), program.architecture)
    explanation = f"stderr:\n{stderr.decode(errors='replace')}"
    assert code == program.exit_code == entry["exit_code"], explanation
    if hashlib.sha256(stdout).hexdigest() != entry["stdout_sha256"]:
        actual = stdout.decode(errors="replace").splitlines()
        difference = difflib.unified_diff(entry["stdout"].splitlines(), actual, "H200", "Cuttle", lineterm="")
        pytest.fail("\n".join([*difference, explanation]))


@pytest.mark.nvcc
@pytest.mark.device
@each_program
def test_broken_build_is_noticed(program: Program) -> None:
    """With -DBREAK the program's own checks fail, here as on the H200."""
    entry = recorded(program)["broken"]
    code, _, stderr = run(build(program, broken=True), program.architecture)
    assert code == FAILED == entry["exit_code"], f"stderr:\n{stderr.decode(errors='replace')}"
    assert stderr.strip(), "nothing says what was wrong"


def test_every_source_belongs_to_a_program() -> None:
    """No file lies about that no row names, and no name is there twice."""
    listed = {source for program in PROGRAMS for source in program.sources}
    present = {path.relative_to(FOLDER).as_posix() for end in ("*.cu", "*.cpp") for path in FOLDER.rglob(end)}
    assert present == listed
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


def test_record_has_no_other_programs() -> None:
    """An entry without a program would never be looked at."""
    assert RECORD.exists(), "no record"
    entries = json.loads(RECORD.read_text(encoding="utf-8"))["programs"]
    assert set(entries) <= {program.name for program in PROGRAMS}
