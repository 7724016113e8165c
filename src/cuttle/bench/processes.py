"""Other processes: a worker to talk to, and what the processes of a run have used of the CPU."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

TOKEN_VARIABLE = "CUTTLE_BENCH_TOKEN"
EXECUTOR_NAME = "cuttle-executor"
# Protects against a runtime that hangs.
REPLY_TIMEOUT_S = 300.0


class WorkerFailure(Exception):
    """A worker died, hung or could not do what it was asked."""


class WorkerProcess:
    """A process that runs `worker_loop.serve`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=dict(environment)
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.requests: IO[bytes] = self.process.stdin
        self.replies: IO[bytes] = self.process.stdout
        self.pending = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        """Sends a request and returns the reply; raises WorkerFailure if there is none, or an error."""
        try:
            self.requests.write(json.dumps({"do": do, **details}).encode() + b"\n")
            self.requests.flush()
        except OSError:
            raise WorkerFailure(self.last_words()) from None
        reply: dict[str, Any] = json.loads(self.line())
        if "error" in reply:
            raise WorkerFailure(reply["error"])
        return reply

    def line(self) -> bytes:
        deadline = time.monotonic() + REPLY_TIMEOUT_S
        while b"\n" not in self.pending:
            ready, _, _ = select.select([self.replies], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise WorkerFailure(f"no reply within {REPLY_TIMEOUT_S:.0f} s")
            chunk = os.read(self.replies.fileno(), 65536)
            if not chunk:
                raise WorkerFailure(self.last_words())
            self.pending += chunk
        line, _, self.pending = self.pending.partition(b"\n")
        return line

    def last_words(self) -> str:
        code = self.process.wait(10)
        tail = self.log.read_text(errors="replace").strip().splitlines()[-3:]
        return f"ended with {code}" + "".join(f"; {line}" for line in tail)

    def close(self) -> None:
        """Ends the process: first kindly, by the end of its input."""
        try:
            self.requests.close()
        except OSError:
            pass
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.replies.close()


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of another process, in nanoseconds (clock_getcpuclockid: the clock ~pid << 3 | 2)."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def marked_processes(token: str) -> dict[int, str]:
    """Living processes that inherited the token in their environment: pid → name."""
    mark = f"{TOKEN_VARIABLE}={token}".encode()
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{entry}/comm") as names:
                found[int(entry)] = names.read().strip()
        except OSError:
            continue
    return found


def adopt_orphans() -> None:
    """Makes this process the parent of its descendants' orphans, so that their CPU time is counted when they end."""
    pr_set_child_subreaper = 36
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def reap() -> bool:
    """Collects children that have ended, adopted ones too; whether none is left. Only when no child is wanted any more."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def own_cpu_s() -> float:
    """CPU time of this process and of all descendants that were collected."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class OthersMeter:
    """How much of the machine other programs have used since this object was made."""

    def __init__(self) -> None:
        self.cores = os.cpu_count() or 1
        self.started = time.monotonic()
        self.busy = self.busy_s()
        self.own = own_cpu_s()

    def busy_s(self) -> float:
        """CPU time that all cores together have spent on anything, from the first line of /proc/stat."""
        with open("/proc/stat") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")

    def share(self) -> float:
        """Part of the machine's time, 0 to 1."""
        used = self.busy_s() - self.busy - (own_cpu_s() - self.own)
        return max(0.0, used / ((time.monotonic() - self.started) * self.cores))
