"""Feeds hostile input to everything that reads data from outside, case after case.

    python -m tests.robustness.fuzz --minutes 60                   # all targets in turn
    python -m tests.robustness.fuzz --target ptx --minutes 5 --first 100000
    python -m tests.robustness.fuzz --replay FOLDER/words-4711.case

Cases run in a child process with limits on memory and time, a new one after every thousand cases. What raises anything but
an error meant for users, ends the child, or takes too long is kept under `--folder` with the reason, and made smaller as
long as the reason stays. Every case comes from the target's name and its number alone, so runs can be repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import mmap
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.robustness.fuzz_cases import Containers, FuzzTarget, Images, PtxBytes, PtxForms, PtxWords

SECONDS = 20.0  # processor time of one case
MEMORY_BYTES = 4 << 30
CASES_PER_CHILD = 1000
REDUCE_SECONDS = 30.0


def make_wire() -> FuzzTarget:
    from tests.robustness.fuzz_wire import Wire

    return Wire()


@dataclass(frozen=True, slots=True)
class Kind:
    """How to make a target, and how many of its cases one turn takes."""

    make: Callable[[], FuzzTarget]
    turn: int
    reducible: bool = True
    limited: bool = True  # in memory; not where the child maps the device memory of a process of its own


TARGETS = {
    "ptx": Kind(PtxBytes, 400),
    "words": Kind(PtxWords, 60),
    "forms": Kind(PtxForms, 300),
    "containers": Kind(Containers, 2000),
    "images": Kind(Images, 4000),
    "wire": Kind(make_wire, 15, reducible=False, limited=False),
}


@dataclass(slots=True)
class Findings:
    """What a run has found so far."""

    folder: Path | None
    cases: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def add(self, name: str, number: int, case: bytes, reason: str) -> None:
        key = signature(reason)
        self.reasons.append(f"{name} {number}: {key}")
        first = key not in self.seen
        self.seen.add(key)
        if self.folder is None or not first:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{name}-{number}.case").write_bytes(case)
        (self.folder / f"{name}-{number}.txt").write_text(reason)
        print(f"found: {name} {number}: {key}", flush=True)


def signature(reason: str) -> str:
    """The last frame and the error, without numbers of the case: what makes two findings one."""
    lines = [line.strip() for line in reason.strip().splitlines()]
    frames = [line for line in lines if line.startswith('File "')]
    last = lines[-1][:100] if lines else ""
    return f"{last} at {frames[-1].rsplit('/', 1)[-1]}" if frames else last


def limit_child(kind: Kind) -> None:
    """Limits on what the cases may take, beyond the memory that the child has from its parent (much, in a test run)."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    if kind.limited:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def attempt(target: FuzzTarget, case: bytes) -> str:
    """Feeds one case; the traceback of what should not have been raised, or nothing."""
    try:
        target.feed(case)
    except Exception:
        return traceback.format_exc()
    return ""


def run_child(name: str, numbers: range, progress: mmap.mmap, pipe: int) -> None:
    """In the child: case after case. Progress is the count of cases begun; findings go through the pipe."""
    limit_child(TARGETS[name])
    faulthandler.enable()
    target = TARGETS[name].make()
    for done, number in enumerate(numbers, start=1):
        progress[:8] = done.to_bytes(8, "little")
        reason = attempt(target, target.make(number))
        if reason:
            text = reason.encode()[-60000:]
            os.write(pipe, number.to_bytes(8, "little") + len(text).to_bytes(4, "little") + text)


def run_cases(name: str, numbers: range, findings: Findings) -> None:
    """Cases of one target in children, until all are done."""
    while numbers:
        progress = mmap.mmap(-1, 4096)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(reader)
                run_child(name, numbers, progress, writer)
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        data, ending = watch(child, reader, progress)
        begun = int.from_bytes(progress[:8], "little")
        while data:
            number, size = int.from_bytes(data[:8], "little"), int.from_bytes(data[8:12], "little")
            report(name, number, data[12 : 12 + size].decode(errors="replace"), findings)
            data = data[12 + size :]
        findings.cases[name] = findings.cases.get(name, 0) + begun
        if not ending:
            return
        report(name, numbers[max(begun - 1, 0)], ending, findings)
        numbers = numbers[max(begun, 1) :]


def watch(child: int, reader: int, progress: mmap.mmap) -> tuple[bytes, str]:
    """Waits for a child; what it wrote, and why it had to end if it did not end by itself."""
    os.set_blocking(reader, False)
    data, before, since = b"", b"", processor_seconds(child)
    wall = time.monotonic()
    while True:
        with contextlib.suppress(BlockingIOError):
            while part := os.read(reader, 1 << 16):
                data += part
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with contextlib.suppress(BlockingIOError):
                while part := os.read(reader, 1 << 16):
                    data += part
            os.close(reader)
            return data, "" if status == 0 else f"the child ended with wait status {status}"
        now = progress[:8]
        if now != before:
            before, since, wall = now, processor_seconds(child), time.monotonic()
        elif processor_seconds(child) - since > SECONDS or time.monotonic() - wall > 15 * SECONDS:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
            return data, f"more than {SECONDS:.0f} seconds"
        time.sleep(0.02)


def processor_seconds(process: int) -> float:
    try:
        with open(f"/proc/{process}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report(name: str, number: int, reason: str, findings: Findings) -> None:
    case = TARGETS[name].make().make(number)
    if findings.folder is not None and TARGETS[name].reducible and "Traceback" in reason:
        case = reduced(name, case, signature(reason))
    findings.add(name, number, case, reason)


def reduced(name: str, case: bytes, key: str) -> bytes:
    """A smaller case with the same reason, found in a child: what is left of a case may do anything."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            limit_child(TARGETS[name])
            signal.alarm(int(2 * REDUCE_SECONDS))
            smaller = smallest(TARGETS[name].make(), case, key)
            with os.fdopen(writer, "wb") as stream:
                stream.write(smaller)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        smaller = stream.read()
    os.waitpid(child, 0)
    return smaller or case


def smallest(target: FuzzTarget, case: bytes, key: str) -> bytes:
    """Pieces are left out, halves first, single bytes last, while the reason stays and the time lasts."""
    end = time.monotonic() + REDUCE_SECONDS
    size = len(case) // 2
    while size and time.monotonic() < end:
        at = 0
        while at < len(case) and time.monotonic() < end:
            shorter = case[:at] + case[at + size :]
            if signature(attempt(target, shorter)) == key:
                case = shorter
            else:
                at += size
        size //= 2
    return case


def fuzz(names: list[str], findings: Findings, seconds: float, first: int = 0) -> None:
    """All targets in turn until the time is over."""
    end = time.monotonic() + seconds
    at = dict.fromkeys(names, first)
    told = time.monotonic()
    while time.monotonic() < end:
        for name in names:
            turn = TARGETS[name].turn
            run_cases(name, range(at[name], at[name] + min(turn, CASES_PER_CHILD * 4)), findings)
            at[name] += turn
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(f"{sum(findings.cases.values())} cases {findings.cases}, {len(findings.seen)} findings", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--target", choices=sorted(TARGETS), action="append")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    if options.replay:
        name = options.replay.name.split("-")[0]
        reason = attempt(TARGETS[name].make(), options.replay.read_bytes())
        print(reason or "no finding")
        return 1 if reason else 0
    findings = Findings(options.folder)
    fuzz(options.target or list(TARGETS), findings, options.minutes * 60, options.first)
    print(f"{sum(findings.cases.values())} cases: {findings.cases}")
    for reason in sorted(set(findings.seen)):
        print(f"found: {reason}")
    return 1 if findings.seen else 0


if __name__ == "__main__":
    sys.exit(main())
