"""A few of the programs, built by the newest toolkit: its runtime asks for more than that of 13.0, its PTX is newer.

`tools/test.sh` installs it to build/cuda-13.5 (the packages have the same names as those of 13.0, so they cannot share an
environment).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import cuda_toolchain
from tests.programs.programs import PROGRAMS, Program
from tests.programs.test_programs import recorded, run

FOLDER = cuda_toolchain.REPOSITORY / "build" / "cuda-13.5" / "nvidia" / "cu13"
NAMES = ("vector_add", "saxpy_streams", "constant_managed_symbols", "matmul_tiled")
CHOSEN = [program for program in PROGRAMS if program.name in NAMES]


def build(program: Program) -> Path:
    nvcc = FOLDER / "bin" / "nvcc"
    if not nvcc.exists():
        pytest.skip(f"the toolkit 13.5 is not in {FOLDER}: tools/test.sh installs it")
    toolchain = cuda_toolchain.Toolchain(nvcc, (f"-L{FOLDER / 'lib'}",), "13.5")
    flags = program.compiler_flags(broken=False)
    return cuda_toolchain.cached_build(
        toolchain, f"{program.name}.13.5", program.source_paths(), flags, program.source_hash()
    )


@pytest.mark.nvcc
@pytest.mark.device
@pytest.mark.parametrize("program", CHOSEN, ids=lambda program: program.name)
def test_a_program_of_the_newest_toolkit(program: Program) -> None:
    code, stdout, stderr = run(build(program))
    entry = recorded(program)["normal"]
    assert code == entry["exit_code"], stderr.decode(errors="replace")
    assert stdout.decode() == entry["stdout"]
