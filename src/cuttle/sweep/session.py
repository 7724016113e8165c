"""A worker process and the items it is given, from the side of whoever gives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

import msgspec

from cuttle.errors import SweepError
from cuttle.sweep.domains import Item
from cuttle.sweep.golden import FOLDER
from cuttle.sweep.verdict import Verdict

BATCH = 32  # forms in one module, for domains whose items are cheap
SINGLE = ("exhaustive", "reference", "matrix", "matrix-second")
SYSTEM = "system"
Progress = Callable[[float], None]


class Message(msgspec.Struct):
    """A line from the worker; exactly one of the fields is set."""

    device: str = ""
    progress: float | None = None
    verdicts: list[Verdict] | None = None
    error: tuple[str, str] | None = None


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
    """A worker process on a device (`cpu`, `system`, ...); started when first needed and again after it has ended."""

    def __init__(self, device: str, folder: Path = FOLDER) -> None:
        self.device = device
        self.folder = folder
        self.name = ""
        # What the device says about kernels that it refuses stands in the verdicts, too.
        self._talk = tempfile.TemporaryFile("w+", errors="replace")
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start the worker; returns the name of its device. Raises SweepError if there is none."""
        self._started()
        return self.name

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            source = str(Path(__file__).resolve().parents[2])
            path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
            command = [*launcher_of(self.device), sys.executable, "-m", "cuttle.sweep.worker", str(self.folder)]
            environment = {**os.environ, "PYTHONPATH": path}
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._talk,
                    text=True,
                    env=environment,
                )
            except OSError as error:
                raise SweepError("SWP-0105", f"{command[0]}: {error.strerror}") from None
            message = self._read()
            self.name = message.device
            if not self.name:
                self.close()
                raise SweepError(*(message.error or ("SWP-0105", f"no device: {self._last_words()}")))
        return self._process

    def _read(self) -> Message:
        """The next line; an empty message if the worker has ended."""
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            return msgspec.json.decode(line, type=Message)
        except msgspec.MsgspecError:
            return Message()

    def run(self, batch: Sequence[Item], progress: Progress = lambda share: None) -> list[Verdict]:
        """The verdicts of one batch. Items that end the worker are run alone, then said to have failed."""
        process = self._started()
        assert process.stdin is not None
        request = {"domain": batch[0].domain, "names": [item.name for item in batch]}
        message = Message()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            while (message := self._read()).progress is not None:
                progress(message.progress)
        except BrokenPipeError:
            pass
        if message.verdicts is not None:
            return message.verdicts
        self.close()
        if message.error and message.error[0] != "SWP-0105":
            raise SweepError(*message.error)
        if len(batch) > 1:
            return [verdict for item in batch for verdict in self.run([item])]
        text = message.error[1] if message.error else self._last_words()
        return [Verdict(batch[0].domain, batch[0].name, "failed", text=text)]

    def _last_words(self) -> str:
        """The last line that the worker said on stderr."""
        self._talk.seek(0)
        lines = self._talk.read()[-2000:].strip().splitlines()
        return lines[-1] if lines else "the worker ended"

    def close(self) -> None:
        """End the worker."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
