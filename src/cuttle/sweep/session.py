"""A worker process and the items it is given, from the side of whoever gives them."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

import msgspec

from cuttle.errors import SweepError, said_error
from cuttle.sweep.domains import Item
from cuttle.sweep.golden import FOLDER
from cuttle.sweep.verdict import Verdict

BATCH = 32  # forms in one module, for domains whose items are cheap
SINGLE = ("exhaustive", "reference", "matrix", "matrix-second")
SYSTEM = "system"
TIMEOUT = 300.0  # seconds without a word from the worker, after which a form hangs
Progress = Callable[[float], None]


class Message(msgspec.Struct):
    """A line from the worker; exactly one of the fields is set. None of them: it has ended, or `silent`: it says nothing."""

    device: str = ""
    progress: float | None = None
    verdicts: list[Verdict] | None = None
    error: tuple[str, str] | None = None
    silent: bool = False


class Lines:
    """The lines of a pipe, with a limit on the time that one may take."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._ready = selectors.DefaultSelector()
        self._ready.register(descriptor, selectors.EVENT_READ)
        self._rest = b""

    def next(self, seconds: float) -> bytes | None:
        """The next line; what there is of one if the pipe has ended; None if none comes in time."""
        limit = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if not self._ready.select(max(limit - time.monotonic(), 0)):
                return None
            more = os.read(self._descriptor, 1 << 16)
            if not more:
                break
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def close(self) -> None:
        self._ready.close()


def launcher_of(device: str) -> list[str]:
    """The command in front of the worker program: `cuttle run` on a device; nothing for the machine's own libcuda.so.1."""
    return [] if device == SYSTEM else [sys.executable, "-m", "cuttle", "run", "--device", device, "--"]


def batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Items of one domain each, as many as a worker takes at once."""
    for domain, group in groupby(items, key=lambda item: item.domain):
        size = 1 if domain in SINGLE else BATCH
        while batch := list(islice(group, size)):
            yield batch


class Session:
    """A worker process on a device (`cpu`, `system`, ...); started when first needed and again after it has ended.

    `timeout`: seconds without a word from the worker, after which it is ended and the form in hand is said to hang.
    """

    def __init__(self, device: str, folder: Path = FOLDER, timeout: float = TIMEOUT) -> None:
        self.device = device
        self.folder = folder
        self.timeout = timeout
        self.name = ""
        # What the device says about kernels that it refuses stands in the verdicts, too.
        self._talk = tempfile.TemporaryFile("w+", errors="replace")
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: Lines | None = None

    def start(self) -> str:
        """Start the worker; returns the name of its device. Raises SweepError if there is none."""
        self._started()
        return self.name

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            source = str(Path(__file__).resolve().parents[2])
            path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
            command = [*launcher_of(self.device), sys.executable, "-m", "cuttle.sweep.worker", str(self.folder)]
            environment = {**os.environ, "PYTHONPATH": path}
            self._talk.seek(0)
            self._talk.truncate()
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._talk,
                    bufsize=0,
                    env=environment,
                )
            except OSError as error:
                raise SweepError("SWP-0105", f"{command[0]}: {error.strerror}") from None
            assert self._process.stdout is not None
            self._lines = Lines(self._process.stdout.fileno())
            message = self._read()
            self.name = message.device
            if not self.name:
                self.close(0 if message.silent else 10)
                reason = (
                    f"no device within {self.timeout:g} s" if message.silent else f"no device: {self._last_words()}"
                )
                said = said_error(self._words())
                if said is not None:
                    raise SweepError(said.code, said.message, hint=said.hint)
                hint = (
                    "`system` is a driver library of this machine's own; other devices are Cuttle's."
                    if self.device == SYSTEM
                    else ""
                )
                raise SweepError(*(message.error or ("SWP-0105", reason)), hint=hint)
        return self._process

    def _read(self) -> Message:
        """The next line; an empty message if the worker has ended."""
        assert self._lines is not None
        line = self._lines.next(self.timeout)
        if line is None:
            return Message(silent=True)
        try:
            return msgspec.json.decode(line, type=Message)
        except msgspec.MsgspecError:
            return Message()

    def run(self, batch: Sequence[Item], progress: Progress = lambda share: None) -> list[Verdict]:
        """The verdicts of one batch. Where the worker ends, or says nothing for too long, its items are run alone:

        whatever ends it then has `crashed`, and what it is silent on is `hung`. Raises SweepError for unusable recordings.
        """
        process = self._started()
        assert process.stdin is not None
        request = {"domain": batch[0].domain, "names": [item.name for item in batch]}
        message = Message()
        begin = time.monotonic()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            while (message := self._read()).progress is not None:
                progress(message.progress)
        except BrokenPipeError:
            pass
        if message.verdicts is not None:
            return message.verdicts
        # Nothing is to be hoped for from a worker that hangs in a driver call.
        self.close(0 if message.silent else 10)
        if message.error and message.error[0] != "SWP-0105":
            raise SweepError(*message.error)
        if len(batch) > 1:
            return [verdict for item in batch for verdict in self.run([item])]
        if message.silent:
            outcome, text = "hung", f"no answer within {self.timeout:g} s"
        else:
            outcome, text = "crashed", message.error[1] if message.error else self._last_words()
        return [Verdict(batch[0].domain, batch[0].name, outcome, text=text, seconds=time.monotonic() - begin)]

    def _words(self) -> str:
        """The end of what the worker and its device process said on stderr."""
        self._talk.seek(0)
        return self._talk.read()[-2000:]

    def _last_words(self) -> str:
        lines = self._words().strip().splitlines()
        return lines[-1] if lines else "the worker ended"

    def close(self, patience: float = 10) -> None:
        """End the worker: it has `patience` seconds to do so itself."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None and self._lines is not None
        self._lines.close()
        process.stdin.close()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
