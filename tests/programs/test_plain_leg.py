"""Test programs by way of the plain leg (docs/design/plain_leg.md): what they print is what a GPU printed."""

from __future__ import annotations

import hashlib

import pytest

from tests.programs.programs import PROGRAMS, Program
from tests.programs.test_programs import build, recorded, run

# Enough of everything for each run of the tests; the rest takes two minutes.
ALWAYS = frozenset(
    (
        "scan_block",
        "reduce_shuffle",
        "function_pointers",
        "recursion",
        "device_printf",
        "grid_sync",
        "half_bfloat16",
        "textures",
    )
)


def rows() -> list[object]:
    return [
        pytest.param(program, id=program.name, marks=() if program.name in ALWAYS else pytest.mark.slow)
        for program in PROGRAMS
    ]


@pytest.mark.nvcc
@pytest.mark.device
@pytest.mark.parametrize("program", rows())
def test_program_prints_what_a_gpu_printed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTTLE_PLAIN", "1")
    entry = recorded(program)["normal"]
    code, stdout, stderr = run(build(program, broken=False), program.architecture)
    assert code == entry["exit_code"], stderr.decode(errors="replace")
    assert hashlib.sha256(stdout).hexdigest() == entry["stdout_sha256"], stdout.decode(errors="replace")[-2000:]


def test_the_short_selection_names_programs() -> None:
    assert ALWAYS <= {program.name for program in PROGRAMS}
