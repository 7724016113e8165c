"""`check`: every library of an engine in a process of its own: found, loads, creates a handle, computes one right answer."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from cuttle.abi.stack_engines import BY_NAME, LIBRARIES
from cuttle.errors import StackError
from cuttle.stack.engine import EngineInPlace
from cuttle.stack.library_check import MARK

DEFAULT_SECONDS = 60.0

State = Literal["correct", "wrong answer", "refused", "failed", "crashed", "timed out", "absent"]
StepName = Literal["", "found", "loads", "handle", "answer"]
Grade = Literal["absent", "detected", "loads", "refuses safely", "correct"]

# States that need somebody's attention. What an engine does not have at all, or refuses by itself, does not.
BAD = ("wrong answer", "failed", "crashed", "timed out")


class LibraryCheck(msgspec.Struct, frozen=True):
    """How far a library came. `step` is the last that went well: found, loads, handle, answer, or empty. `file` is its name, without its folder."""

    library: str
    state: State
    step: StepName
    file: str
    text: str
    seconds: float

    @property
    def grade(self) -> Grade:
        """Its place on the ladder."""
        if self.state == "correct":
            return "correct"
        if self.state == "refused":
            return "refuses safely"
        if self.state == "absent":
            return "absent"
        return "loads" if self.step in ("loads", "handle", "answer") else "detected"


class CheckResult(msgspec.Struct, frozen=True):
    """The data of `check`."""

    engine: str
    version: str
    platform: str
    libraries: list[LibraryCheck]


class _Line(msgspec.Struct):
    step: StepName = ""
    end: Literal["", "correct", "wrong answer", "refused", "failed"] = ""
    text: str = ""


def _lines(output: str) -> list[_Line]:
    """What the process said in our form; libraries print what they like besides."""
    found = []
    for line in output.splitlines():
        if line.startswith(MARK):
            try:
                found.append(msgspec.json.decode(line[len(MARK) :], type=_Line))
            except msgspec.DecodeError:
                continue
    return found


def library_command(library: str, driver_file: str, file: str) -> list[str]:
    """The process that tries a library."""
    return [sys.executable, "-m", "cuttle.stack.library_check", library, driver_file, file]


def check_library(
    engine: EngineInPlace, library: str, environment: Mapping[str, str], seconds: float = DEFAULT_SECONDS
) -> LibraryCheck:
    """Tries one library of an engine with the variables of a program on it."""
    rows = {row.library: row for row in BY_NAME[engine.name].files}
    row = rows.get(library)
    if row is None:
        what = "only the driver" if engine.name == "cuttle" else f"no {library}"
        return LibraryCheck(library, "absent", "", "", f"the engine {engine.name} has {what} in this version", 0.0)
    file, driver = engine.library(row), engine.library(rows["driver"])
    if file is None or driver is None:
        return LibraryCheck(library, "absent", "", "", "its file is not in the engine's folder", 0.0)
    start = time.perf_counter()
    try:
        done = subprocess.run(
            library_command(library, str(driver), str(file)),
            env=dict(environment),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        output, stderr, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout.decode(errors="replace") if isinstance(expired.stdout, bytes) else expired.stdout or ""
        stderr, code = "", None
    took = round(time.perf_counter() - start, 3)
    lines = _lines(output)
    step: StepName = next((line.step for line in reversed(lines) if line.step), "found")
    end = next((line for line in lines if line.end), None)
    if code is None:
        return LibraryCheck(library, "timed out", step, file.name, f"it did not answer within {seconds:g} s", took)
    if end is None:
        return LibraryCheck(library, "crashed", step, file.name, _last_words(code, stderr), took)
    if end.end == "correct":
        return LibraryCheck(library, "correct", "answer", file.name, "", took)
    return LibraryCheck(library, end.end or "failed", step, file.name, without_folders(end.text), took)


def _last_words(code: int, stderr: str) -> str:
    """How a process ended that said nothing more."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = f": {without_folders(lines[-1])[:200]}" if lines else ""
    if code < 0:
        try:
            return f"ended by {signal.Signals(-code).name}{said}"
        except ValueError:
            return f"ended by signal {-code}{said}"
    return f"ended with exit code {code}{said}"


def without_folders(text: str) -> str:
    """File names without their folders: results may be sent to somebody."""
    return re.sub(r"(?:[A-Za-z]:)?(?:[/\\][^/\\\s:'\"]*)+[/\\]", "", text)


def check_engine(
    engine: EngineInPlace,
    environment: Mapping[str, str],
    libraries: Sequence[str] = LIBRARIES,
    seconds: float = DEFAULT_SECONDS,
    before: Callable[[str], None] = lambda library: None,
) -> CheckResult:
    """Tries libraries one after the other. Raises STK-0803 for names that are none."""
    for name in libraries:
        if name not in LIBRARIES:
            raise StackError("STK-0803", f"there is no library {name}; there are {', '.join(LIBRARIES)}")
    results = []
    for name in libraries:
        before(name)
        results.append(check_library(engine, name, environment, seconds))
    return CheckResult(engine.name, engine.version, engine.platform, results)
