"""Records what the CUDA test programs print on a real GPU: tests/programs/record/h200.json.

Runs on a machine with an NVIDIA GPU, nvcc 13.0 and g++; needs nothing but Python's standard library:

    python3 tools/record_programs.py --output FOLDER [NAME ...]

FOLDER gets `h200.json`, to be copied to tests/programs/record/, and `record.log`. With names, only those programs
are recorded again; all others keep the entries of the record in the repository. A program that fails, or prints
something else when it runs again, gets no entry, and the log says why.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests import cuda_toolchain
from tests.programs.programs import FAILED, PROGRAMS, RECORD, Program

RUN_TIMEOUT_S = 60
TIMED_OUT = 124


@dataclass(frozen=True)
class Run:
    """One run of a program."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float

    def entry(self) -> dict[str, Any]:
        """What the record keeps of it."""
        return {"exit_code": self.exit_code, "stdout_sha256": hashlib.sha256(self.stdout).hexdigest()}


@dataclass(frozen=True)
class Outcome:
    """A program's entry, or None with the reasons, and its part of the log."""

    entry: dict[str, Any] | None
    complaints: list[str]
    log: str


def run(executable: Path) -> Run:
    """Runs a program in a process group of its own, which goes as a whole when it takes too long."""
    start = time.monotonic()
    with subprocess.Popen(
        [str(executable)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=RUN_TIMEOUT_S)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            code = TIMED_OUT
    return Run(code, stdout, stderr, time.monotonic() - start)


def describe(title: str, result: Run) -> str:
    """A run as text for the log."""
    lines = [f"  {title}: exit code {result.exit_code}, {result.seconds:.2f} s"]
    for name, data in (("stdout", result.stdout), ("stderr", result.stderr)):
        lines += [f"    {name}| {line}" for line in data.decode(errors="replace").splitlines()[:60]]
    return "\n".join(lines)


class Recorder:
    """Builds and runs programs; several at a time, as compiling needs cores and running needs the GPU."""

    def __init__(self, toolchain: cuda_toolchain.Toolchain, folder: Path, jobs: int, run_jobs: int) -> None:
        self._toolchain = toolchain
        self._folder = folder
        self._builders = ThreadPoolExecutor(jobs)
        self._runners = ThreadPoolExecutor(run_jobs)
        self._origin = {**gpu_facts(), "nvcc": toolchain.version, "date": datetime.now(UTC).date().isoformat()}

    def record(self, programs: list[Program]) -> dict[str, Outcome]:
        """The outcome of each program; no program can hinder another."""
        builds = {
            (program.name, broken): self._builders.submit(self._build, program, broken)
            for program in programs
            for broken in (False, True)
        }
        outcomes = {}
        waiting = {}
        for program in programs:
            problems = [builds[program.name, broken].exception() for broken in (False, True)]
            found = [f"build: {problem}" for problem in problems if problem is not None]
            if found:
                outcomes[program.name] = Outcome(None, found, "")
            else:
                normal, broken_build = (builds[program.name, broken].result() for broken in (False, True))
                waiting[program.name] = self._runners.submit(self._run, program, normal, broken_build)
        for name, future in waiting.items():
            error = future.exception()
            outcomes[name] = Outcome(None, [f"run: {error!r}"], "") if error else future.result()
        return outcomes

    def _build(self, program: Program, broken: bool) -> Path:
        output = self._folder / (program.name + (".break" if broken else ""))
        self._toolchain.build(program.source_paths(), program.compiler_flags(broken=broken), output)
        return output

    def _run(self, program: Program, executable: Path, broken_executable: Path) -> Outcome:
        normal, again, broken = run(executable), run(executable), run(broken_executable)
        log = "\n".join([describe("normal", normal), describe("again", again), describe("broken", broken)])
        complaints = []
        if normal.exit_code != program.exit_code:
            complaints.append(f"exit code {normal.exit_code}, expected {program.exit_code}")
        if (again.exit_code, again.stdout) != (normal.exit_code, normal.stdout):
            complaints.append("two runs differ")
        if broken.exit_code != FAILED:
            complaints.append(f"the broken build ended with {broken.exit_code}, expected {FAILED}")
        if complaints:
            return Outcome(None, complaints, log)
        entry = {
            "source_hash": program.source_hash(),
            **self._origin,
            "normal": {**normal.entry(), "stdout": normal.stdout.decode(errors="replace")},
            "broken": broken.entry(),
        }
        return Outcome(entry, [], log)


def gpu_facts() -> dict[str, str]:
    """Name and driver version of the first GPU."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
        name, driver = text.splitlines()[0].split(",")
    except (OSError, subprocess.SubprocessError, IndexError, ValueError) as error:
        print(f"nvidia-smi gave no answer: {error}", file=sys.stderr)
        return {"gpu": "unknown", "driver": "unknown"}
    return {"gpu": name.strip(), "driver": driver.strip()}


def main() -> int:
    """Records, writes record and log, and returns 0 only if every program got its entry."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder for h200.json and record.log")
    parser.add_argument("--jobs", type=int, default=16, help="compilers at the same time")
    parser.add_argument("--run-jobs", type=int, default=4, help="programs at the same time")
    parser.add_argument("names", nargs="*", help="programs to record; all if none is named")
    options = parser.parse_args()
    unknown = set(options.names) - {program.name for program in PROGRAMS}
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")

    start = time.monotonic()
    chosen = [program for program in PROGRAMS if not options.names or program.name in options.names]
    with tempfile.TemporaryDirectory() as scratch:
        toolchain = cuda_toolchain.from_path()
        outcomes = Recorder(toolchain, Path(scratch), options.jobs, options.run_jobs).record(chosen)

    entries: dict[str, Any] = {}
    if options.names and RECORD.exists():
        entries = json.loads(RECORD.read_text(encoding="utf-8"))["programs"]
    lines = []
    for program in chosen:
        outcome = outcomes[program.name]
        entries.pop(program.name, None)
        if outcome.entry is not None:
            entries[program.name] = outcome.entry
        lines += [f"{program.name}: {'; '.join(outcome.complaints) or 'recorded'}", outcome.log]
    failed = [program.name for program in chosen if outcomes[program.name].entry is None]
    summary = f"{len(chosen) - len(failed)} recorded, {len(failed)} failed in {time.monotonic() - start:.0f} s"
    if failed:
        summary += f": {', '.join(failed)}"
    options.output.mkdir(parents=True, exist_ok=True)
    record = {"programs": dict(sorted(entries.items()))}
    (options.output / RECORD.name).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (options.output / "record.log").write_text("\n".join([*lines, summary]) + "\n", encoding="utf-8")
    for name in failed:
        print(f"{name}: {'; '.join(outcomes[name].complaints)}\n{outcomes[name].log}")
    print(summary)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
