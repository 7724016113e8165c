"""Other processes: a worker to talk to, and what the processes of a run have used of the CPU."""

from __future__ import annotations

import json
import os
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
