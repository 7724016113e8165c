"""CUDA programs that check their own results and are not recorded on hardware.

The instructions that they use are: see src/cuttle/selftest/files (barrier, asynchronous, memory).
"""

from __future__ import annotations

import pytest

from tests.programs.programs import FAILED, UNRECORDED, Program
from tests.programs.test_programs import build, run

pytestmark = [pytest.mark.nvcc, pytest.mark.device]


@pytest.mark.parametrize("program", UNRECORDED, ids=lambda program: program.name)
def test_program(program: Program) -> None:
    code, stdout, stderr = run(build(program, broken=False), program.architecture)
    assert code == 0, stderr.decode(errors="replace")
    assert stdout.endswith(f"PASS {program.name}\n".encode())
    code, _, _ = run(build(program, broken=True), program.architecture)
    assert code == FAILED
