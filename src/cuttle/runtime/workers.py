"""The compile workers, seen from the device process.

LLVM holds one lock for all and aborts on some errors, so compilations run in processes of their own. A worker that dies
costs the kernel it was at, nothing else.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from struct import pack, unpack_from
from typing import Any

from cuttle.runtime.messages import say

SLOW_SECONDS = 2.0
ENDING_SECONDS = 2.0
WORKER_MODULE = "cuttle.runtime.compile_worker"

# What a finished compilation says: image file (empty on failure), error text, seconds.
Finished = Callable[[bytes, str, float], None]


class Task:
    """A compilation that is waited for."""

    __slots__ = ("digest", "finished", "kernel", "number", "options", "said_slow", "started", "text")

    def __init__(self, number: int, digest: str, text: bytes, kernel: str, options: dict[str, Any], finished: Finished):
        self.number = number
        self.digest = digest
        self.text = text
        self.kernel = kernel
        self.options = options
        self.finished = finished
        self.started = 0.0
        self.said_slow = False


class Worker:
    """One worker process, its pipes, and what it is at."""

    def __init__(self, niceness: int = 0) -> None:
        their_in, self.outgoing = os.pipe()
        self.incoming, their_out = os.pipe()
        numbers = (max(self.outgoing, self.incoming, their_in, their_out, 10) + 1, 0)
        first = numbers[0]
        arguments = [sys.executable, "-m", WORKER_MODULE, str(first), str(first + 1), str(os.getpid()), str(niceness)]
        actions: list[tuple[int, int, int]] = [
            (os.POSIX_SPAWN_DUP2, their_in, first),
            (os.POSIX_SPAWN_DUP2, their_out, first + 1),
        ]
        try:
            self.process = os.posix_spawn(sys.executable, arguments, os.environ, file_actions=actions)
        except OSError:
            os.close(self.outgoing)
            os.close(self.incoming)
            raise
        finally:
            os.close(their_in)
            os.close(their_out)
        self.known: set[str] = set()
        self.task: Task | None = None
        self._received = bytearray()
        self._unsent = b""
        os.set_blocking(self.incoming, False)

    def send(self, header: dict[str, Any], data: bytes) -> None:
        """A worker reads its whole request before it does anything, so writing blocks only for a moment; but at its
        start it imports for some 100 ms, which must not be waited for: what does not fit the pipe is kept."""
        text = json.dumps(header).encode()
        self._unsent += pack("<II", len(text), len(data)) + text + data
        self.flush()

    def flush(self) -> bool:
        """Writes what it can; returns whether all is written."""
        os.set_blocking(self.outgoing, False)
        while self._unsent:
            try:
                written = os.write(self.outgoing, self._unsent[: 1 << 20])
            except BlockingIOError:
                return False
            except OSError:
                self._unsent = b""  # it is gone: reading will say so
                return True
            self._unsent = self._unsent[written:]
        return True

    @property
    def unsent(self) -> bool:
        return bool(self._unsent)

    def receive(self) -> tuple[dict[str, Any], bytes] | None:
        """A complete answer, or None. Raises EOFError when the worker is gone."""
        while True:
            try:
                part = os.read(self.incoming, 1 << 20)
            except BlockingIOError:
                break
            except OSError:
                raise EOFError from None
            if not part:
                raise EOFError
            self._received += part
        if len(self._received) < 8:
            return None
        header_bytes, data_bytes = unpack_from("<II", self._received)
        end = 8 + header_bytes + data_bytes
        if len(self._received) < end:
            return None
        header = json.loads(self._received[8 : 8 + header_bytes])
        data = bytes(self._received[8 + header_bytes : end])
        del self._received[:end]
        return header, data

    def close(self, kill: bool = False) -> int:
        """Ends it; returns its exit code. Without `kill` it is ending already, and gets a moment for it."""
        os.close(self.outgoing)
        os.close(self.incoming)
        limit = 0.0 if kill else time.monotonic() + ENDING_SECONDS
        ended, status = os.waitpid(self.process, os.WNOHANG)
        while not ended and time.monotonic() < limit:
            time.sleep(0.002)
            ended, status = os.waitpid(self.process, os.WNOHANG)
        if not ended:
            os.kill(self.process, 9)
            _, status = os.waitpid(self.process, 0)
        return os.waitstatus_to_exitcode(status)


class CompileWorkers:
    """A few workers and the queue before them.

    With a `niceness` they work in the background: behind everything else that the machine has to do, and without a word
    about how long it takes.
    """

    def __init__(self, limit: int, time_limit: float, niceness: int = 0) -> None:
        self._limit = max(1, limit)
        self._niceness = niceness
        self._time_limit = time_limit
        self._workers: list[Worker] = []
        self._queue: deque[Task] = deque()
        self._number = 0

    def prewarm(self, digest: str, text: bytes) -> None:
        """A module was loaded whose kernels are not in the cache: start a worker and let it have the text."""
        if not self._workers:
            try:
                self._start()
            except OSError:
                return  # whoever needs it will say so
        for worker in self._workers[:1]:
            if digest not in worker.known:
                worker.known.add(digest)
                worker.send({"digest": digest}, text)

    def compile(self, digest: str, text: bytes, kernel: str, options: dict[str, Any], finished: Finished) -> None:
        """Queues a compilation; `finished` is called from `poll`."""
        self._number += 1
        self._queue.append(Task(self._number, digest, text, kernel, options, finished))
        self._dispatch()

    def descriptors(self) -> list[int]:
        return [worker.incoming for worker in self._workers]

    @property
    def busy(self) -> bool:
        """Whether `poll` has to be called again without being told by a descriptor."""
        return any(worker.task is not None or worker.unsent for worker in self._workers)

    @property
    def sending(self) -> bool:
        return any(worker.unsent for worker in self._workers)

    def poll(self) -> bool:
        """Takes answers; returns whether any compilation has finished."""
        any_finished = False
        for worker in list(self._workers):
            if worker.unsent:
                worker.flush()
            try:
                message = worker.receive()
            except EOFError:
                self._lose(worker)
                any_finished = True
                continue
            if message is not None:
                any_finished = True
                header, data = message
                task, worker.task = worker.task, None
                if task is not None:
                    task.finished(data, header.get("error", ""), header.get("seconds", 0.0))
            elif worker.task is not None:
                self._watch(worker, worker.task)
        self._dispatch()
        return any_finished

    def close(self) -> None:
        for worker in self._workers:
            worker.close(kill=True)
        self._workers.clear()

    def _start(self) -> Worker:
        worker = Worker(self._niceness)
        self._workers.append(worker)
        return worker

    def _dispatch(self) -> None:
        while self._queue:
            idle = [worker for worker in self._workers if worker.task is None]
            if not idle and len(self._workers) < self._limit:
                try:
                    idle = [self._start()]
                except OSError as error:
                    if not self._workers:
                        task = self._queue.popleft()
                        task.finished(b"", f"the compiler process cannot be started: {error.strerror}", 0.0)
                        continue
            if not idle:
                return
            task = self._queue.popleft()
            # A worker that has parsed the module already saves time.
            worker = next((one for one in idle if task.digest in one.known), idle[0])
            text = b"" if task.digest in worker.known else task.text
            worker.known.add(task.digest)
            worker.task = task
            task.started = time.monotonic()
            header = {"number": task.number, "digest": task.digest, "kernel": task.kernel, "options": task.options}
            worker.send(header, text)

    def _watch(self, worker: Worker, task: Task) -> None:
        passed = time.monotonic() - task.started
        if passed > SLOW_SECONDS and not task.said_slow and not self._niceness:
            task.said_slow = True
            say(f"compiling {task.kernel} takes a while")
        if passed > self._time_limit:
            self._workers.remove(worker)
            worker.close(kill=True)
            task.finished(b"", f"compilation took more than {self._time_limit:g} s (CUTTLE_COMPILE_TIMEOUT)", passed)

    def _lose(self, worker: Worker) -> None:
        self._workers.remove(worker)
        code = worker.close()
        task = worker.task
        if task is not None:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            if code == -9:
                how += ": it was killed, usually because memory ran out"
            task.finished(b"", f"the compiler process ended with {how}", time.monotonic() - task.started)
