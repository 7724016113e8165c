"""Runs PTX file tests (`files/<family>/<name>.ptx`, see `run_files.py`) through the client library and judges what came out."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cuttle.selftest.run_files import FileTest, read_file

FOLDER = Path(__file__).resolve().parent / "files"
RUNNER = Path(__file__).resolve().parent / "run_files.py"
PATIENCE_SECONDS = 30.0  # for a file that ends

# Refused by `abi/ptx_isa/refused_on_amdgpu.py`: isspacep in a module with constants. Launches of clusters are refused whatever the kernel:
# the device says that it has none.
REFUSED_ON_AMD = frozenset(("conversion/isspacep.ptx",))
# Lanes of a wave at different reductions or arrivals of one barrier: a fault (docs/design/amdgpu.md, section 4).
FAULTS_ON_AMD = frozenset(("barrier/barrier-arrive_divergent.ptx", "barrier/barrier-red_divergent.ptx"))
NOT_RUN_ON_AMD = {
    "barrier/bar-exited_warp_whole_block.ptx": "a numbered barrier for the whole block does not know of warps that have ended",
    "control/call-barrier_in_recursion.ptx": "a barrier in a function that is called for real is refused",
    "control/exit-in_function.ptx": "`exit` in a function that is called for real is refused",
    "control/call-spin_in_function.ptx": "a spin loop in a function that is called for real does not let other warps go on",
    "atomics/atom-lock_between_lanes.ptx": "thousands of turns at one lock take an emulator minutes",
    "asynchronous/cp.reduce.async.bulk.ptx": "the NaN of a native float atomic is quiet, but not 0x7fffffff",
}


def file_names() -> list[str]:
    """All files, as names below `files/`."""
    return sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.ptx"))


def left_out(name: str, amd: bool) -> str:
    """Why a file is not part of a self-test on an AMD GPU, or elsewhere; empty if it is."""
    test = read_file(FOLDER / name)
    if test.expect == "hang":
        return "it does not end"
    return NOT_RUN_ON_AMD.get(name, "") if amd else ""


def verdict(name: str, test: FileTest, outcome: list[int] | str, amd: bool) -> str:
    """`pass`, `refused` or `fail` for the outcome of a file that ends."""
    text = outcome if isinstance(outcome, str) else ""
    if amd and max(test.cluster) > 1:
        return "refused" if "CUDA_ERROR_NOT_SUPPORTED" in text or "CUDA_ERROR_INVALID_PTX" in text else "fail"
    if test.expect == "refused" or (amd and name in REFUSED_ON_AMD):
        good = "CUDA_ERROR_INVALID_PTX" in text
        return ("pass" if test.expect == "refused" else "refused") if good else "fail"
    if amd and name in FAULTS_ON_AMD:
        return "refused" if "CUDA_ERROR_ILLEGAL_INSTRUCTION" in text else "fail"
    return "pass" if outcome == test.expect else "fail"


def start(names: Sequence[str], variables: dict[str, str]) -> subprocess.Popen[str]:
    """A process that runs files one after the other and prints a line for each. `variables`: what the client library needs."""
    environment = {
        **os.environ, **variables, "CUTTLE_PYTHON": sys.executable, "CUTTLE_COMPUTE_CAPABILITY": "9.0",
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, str(RUNNER), *names], cwd=FOLDER, env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def run(
    names: Sequence[str],
    variables: dict[str, str],
    seconds: float = PATIENCE_SECONDS,
    watch: Callable[[str], None] = lambda name: None,
) -> dict[str, Any]:
    """The outcomes by file name. Behind a fault or a hang the rest runs in a new process. `watch` is told each name when it is done."""
    outcomes: dict[str, Any] = {}
    left = list(names)
    while left:
        process = start(left, variables)
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_read_lines, args=(process, lines), daemon=True)
        reader.start()
        try:
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
                watch(result["file"])
                if isinstance(result["outcome"], str):
                    break  # the context is lost
        finally:
            process.kill()
            process.wait()
            reader.join()
    return outcomes


def _read_lines(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Passes a process's lines on; an empty one is its end."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")
