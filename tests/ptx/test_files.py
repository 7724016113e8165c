"""PTX file tests (`tests/ptx/<family>/<name>.ptx`) through the client library; see `run_files.py` for what they look like."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cuttle.abi.ptx_isa import OPCODES
from cuttle.client import build
from tests.ptx.run_files import read_file

pytestmark = pytest.mark.device

FOLDER = Path(__file__).parent
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.ptx"))
PATIENCE_SECONDS = 30.0  # for a file that ends
HANG_SECONDS = 1.5  # for one that does not


def start(names: list[str]) -> subprocess.Popen[str]:
    """A process that runs files one after the other and prints a line for each."""
    build.build()
    environment = {
        **os.environ, "LD_LIBRARY_PATH": str(build.LIB), "CUTTLE_PYTHON": sys.executable, "CUTTLE_COMPUTE_CAPABILITY": "9.0",
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, str(FOLDER / "run_files.py"), *names], cwd=FOLDER, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def run(names: list[str], seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
    """The outcomes by file name. Behind a fault or a hang the rest runs in a new process."""
    outcomes: dict[str, Any] = {}
    left = list(names)
    while left:
        process = start(left)
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=read_lines, args=(process, lines), daemon=True)
        reader.start()
        while left:
            try:
                line = lines.get(timeout=seconds)
            except queue.Empty:
                outcomes[left.pop(0)] = "hang"
                break
            if not line:
                outcomes[left.pop(0)] = "the process ended"
                break
            result = json.loads(line)
            outcomes[result["file"]] = result["outcome"]
            left.remove(result["file"])
            if isinstance(result["outcome"], str):
                break  # the context is lost
        process.kill()
        process.wait()
        reader.join()
    return outcomes


def read_lines(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Passes a process's lines on; an empty one is its end."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


@pytest.fixture(scope="session")
def outcomes() -> dict[str, Any]:
    """Results of all files that end, from one process as far as they go well."""
    return run(
        [name for name in FILES if read_file(FOLDER / name).expect != "hang" and not read_file(FOLDER / name).limit]
    )


@pytest.mark.parametrize("name", FILES)
def test_file(name: str, outcomes: dict[str, Any]) -> None:
    test = read_file(FOLDER / name)
    assert test.source, "a file test says where its expectation comes from"
    expect = test.expect
    assert expect is not None, "a file test has an expectation"
    if test.limit:
        # Known, and documented in docs/design/cpu_simt.md, section 10. A result would have to be the hardware's.
        outcome = run([name], HANG_SECONDS)[name]
        assert outcome == "hang" or "CUDA_ERROR_INVALID_PTX" in outcome
    elif expect == "hang":
        # On hardware nothing ends it; here, what can be seen to wait for ever is a fault.
        outcome = run([name], HANG_SECONDS)[name]
        assert outcome == "hang" or outcome.endswith(("CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_ILLEGAL_INSTRUCTION"))
    elif expect == "refused":
        assert outcomes[name].startswith("fault") and "CUDA_ERROR_INVALID_PTX" in outcomes[name]
    else:
        assert outcomes[name] == expect


def test_every_root_opcode_has_a_file() -> None:
    """A file is named after the opcode it tests, perhaps with a dash and more."""
    tested = {Path(name).stem.partition("-")[0].replace("__", "::") for name in FILES}
    assert set(OPCODES) <= tested
