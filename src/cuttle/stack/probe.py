"""`cuttle stack probe`: runs capability tests, each in a process of its own, and says where on the ladder a configuration stands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import msgspec

import cuttle
from cuttle.errors import StackError, reason_in
from cuttle.stack.configurations import Configuration
from cuttle.stack.probes.rows import PROBES, ProbeRow

MARK = "CUTTLE_PROBE:"
FRONT_ENDS = ("own", "torch", "cupy")
RESULTS = ("pass", "refused", "not applicable", "fail", "crashed", "timed out")
# A CUDA-facing Python must not only have the package: it must see a device.
SEES_A_DEVICE = {
    "torch": "import torch, sys; sys.exit(not torch.cuda.is_available())",
    "cupy": "import cupy, sys; sys.exit(not cupy.cuda.runtime.getDeviceCount())",
}
LADDER = ("nothing", "detected", "loads", "refuses safely", "correct")

Watch = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one test: one of `RESULTS`, and the reason unless it passed."""

    name: str
    group: str
    result: str
    reason: str
    seconds: float


class ProbeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The matrix of one configuration. `rung`: the highest of `LADDER`; empty where only some tests were run."""

    configuration: str
    front_end: str
    rung: str
    counts: dict[str, int]
    tests: list[Finding]


@dataclass(frozen=True, slots=True)
class Setting:
    """How tests are run. `python`: the interpreter, which may be that of another environment."""

    configuration: Configuration
    front_end: str = "own"
    seconds: float = 120.0  # for one test
    python: str = sys.executable


def select(names: Sequence[str]) -> list[ProbeRow]:
    """Rows by name or group, all for no names; raises STK-1001."""
    known = {row.name for row in PROBES} | {row.group for row in PROBES}
    for name in names:
        if name not in known:
            raise StackError("STK-1001", f"there is no capability test {name}")
    return [row for row in PROBES if not names or row.name in names or row.group in names]


def choose_front_end(configuration: Configuration, python: str, seconds: float) -> str:
    """PyTorch or CuPy if that Python has one and it sees a device here, else `own`."""
    for front_end, test in SEES_A_DEVICE.items():
        try:
            done = subprocess.run(
                configuration.command([python, "-c", test]), env=environment(configuration), timeout=seconds,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except (subprocess.TimeoutExpired, OSError):
            continue
        if done.returncode == 0:
            return front_end
    return "own"


def environment(configuration: Configuration) -> dict[str, str]:
    """The configuration's variables, with this package on the path of whatever Python runs the test."""
    variables = configuration.environment()
    package = str(Path(cuttle.__file__).parents[1])
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [package, variables.get("PYTHONPATH", "")]))
    return variables


def run_probes(rows: Sequence[ProbeRow], setting: Setting, watch: Watch) -> list[Finding]:
    """One after the other."""
    found = []
    for done, row in enumerate(rows):
        watch(done, len(rows), row.name)
        found.append(run_probe(row, setting))
    watch(len(rows), len(rows), "")
    return found


def run_probe(row: ProbeRow, setting: Setting) -> Finding:
    """One test in its process; whatever becomes of that is a result."""
    command = setting.configuration.command([setting.python, "-m", "cuttle.stack.probes", row.name, setting.front_end])
    began = monotonic()
    try:
        # A group of its own: what a hanging program started ends with it.
        process = subprocess.Popen(
            command, env=environment(setting.configuration), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise StackError("STK-1002", f"{command[0]}: {error.strerror}") from None
    try:
        out, errors = process.communicate(timeout=setting.seconds)
    except subprocess.TimeoutExpired:
        end_group(process)
        out, errors = process.communicate()
        return Finding(row.name, row.group, "timed out", f"no result after {setting.seconds:g} s", monotonic() - began)
    result, reason = read_result(out, errors, process.returncode)
    return Finding(row.name, row.group, result, reason, monotonic() - began)


def end_group(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()


def read_result(out: bytes, errors: bytes, exit_code: int) -> tuple[str, str]:
    """The marked line among what the process printed, or why there is none."""
    for line in reversed(out.decode(errors="replace").splitlines()):
        if line.startswith(MARK):
            try:
                told = json.loads(line[len(MARK) :])
                if told["result"] in RESULTS[:4] and isinstance(told["reason"], str):
                    return told["result"], printable(told["reason"])
            except (ValueError, KeyError, TypeError):
                pass
            return "crashed", "the test printed a damaged result"
    last = printable(reason_in(errors.decode(errors="replace")))
    if exit_code < 0:
        return "crashed", f"ended by signal {-exit_code}{last}"
    return "crashed", f"ended with {exit_code} before it had a result{last}"


def make_report(findings: list[Finding], configuration: str, front_end: str, whole: bool) -> ProbeReport:
    """Counts and, if all tests were run, the rung."""
    counts = {result: sum(finding.result == result for finding in findings) for result in RESULTS}
    return ProbeReport(configuration, front_end, ladder(findings) if whole else "", counts, findings)


def printable(text: str) -> str:
    """One line without control characters, of bounded length."""
    return "".join(character if character.isprintable() else "?" for character in text)[:500]


def ladder(findings: Sequence[Finding]) -> str:
    """The highest rung of `LADDER` that the tests prove. Whether it is fast too, `cuttle stack bench` says."""
    by_name = {finding.name: finding.result for finding in findings}
    results = list(by_name.values())
    if by_name.get("device_info", "pass") != "pass":
        return "nothing"
    ran = [finding.result for finding in findings if finding.group != "driver"]
    if not any(result in ("pass", "fail") for result in ran):
        return "detected"
    if any(result in ("fail", "crashed", "timed out") for result in results):
        return "loads"
    if any(result == "refused" for result in results):
        return "refuses safely"
    return "correct"
