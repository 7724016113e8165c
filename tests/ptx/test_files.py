"""PTX file tests (`cuttle/selftest/files/<family>/<name>.ptx`) through the client library; see `selftest/run_files.py` for what they look like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cuttle.abi.ptx_isa import OPCODES
from cuttle.client import build
from cuttle.selftest import file_runner
from cuttle.selftest.file_runner import FOLDER
from cuttle.selftest.run_files import read_file

pytestmark = pytest.mark.device

FILES = file_runner.file_names()
LIBRARY = {"LD_LIBRARY_PATH": str(build.LIB)}
# A kernel that does not end is ended by the device, which counts from the kernel's own start: how long the machine takes to get
# there, or to compile, decides nothing.
LIMITED = {**LIBRARY, "CUTTLE_TIMEOUT": "1.5"}
HANGS = "CUDA_ERROR_LAUNCH_TIMEOUT"


def run(
    names: Sequence[str], environment: dict[str, str] = LIBRARY, seconds: float = file_runner.PATIENCE_SECONDS
) -> dict[str, Any]:
    """The outcomes by file name; `seconds` is the patience with one file."""
    build.build()
    return file_runner.run(names, environment, seconds)


@pytest.fixture(scope="session")
def outcomes() -> dict[str, Any]:
    """Results of all files that end, from one process as far as they go well."""
    return run([name for name in FILES if not file_runner.left_out(name, amd=False)])


@pytest.mark.parametrize("name", FILES)
def test_file(name: str, outcomes: dict[str, Any]) -> None:
    test = read_file(FOLDER / name)
    assert test.source, "a file test says where its expectation comes from"
    expect = test.expect
    assert expect is not None, "a file test has an expectation"
    if expect == "hang":
        # On hardware nothing ends it; here, what can be seen to wait for ever is a fault.
        outcome = run([name], LIMITED)[name]
        assert outcome.endswith((HANGS, "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_ILLEGAL_INSTRUCTION"))
    elif expect == "refused":
        assert outcomes[name].startswith("fault") and "CUDA_ERROR_INVALID_PTX" in outcomes[name]
    else:
        assert outcomes[name] == expect


def test_every_root_opcode_has_a_file() -> None:
    """A file is named after the opcode it tests, perhaps with a dash and more."""
    tested = {Path(name).stem.partition("-")[0].replace("__", "::") for name in FILES}
    assert set(OPCODES) <= tested
