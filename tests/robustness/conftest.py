"""Programs in processes of their own, and a look at what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuttle.client import build

ROOT = Path(__file__).parents[2]
LIMIT_S = 60
# What a look at a process tree may take on a machine that is busy with other tests.
GONE_S = 3.0


class Run:
    """A program under `cuttle run`, and everything Cuttle starts for it: found by a mark in the environment."""

    def __init__(self, command: list[str], cache: Path, env: dict[str, str], settings: dict[str, object]) -> None:
        self.mark = uuid.uuid4().hex
        variables = {name: value for name, value in os.environ.items() if not name.startswith("CUTTLE_")}
        # pytest may be found through an installed Cuttle or through a path: the programs get both.
        variables["PYTHONPATH"] = f"{ROOT / 'src'}:{ROOT}"
        variables |= {"CUTTLE_CACHE_DIR": str(cache), "CUTTLE_THREADS": "2", "CUTTLE_TEST_MARK": self.mark, **env}
        self.process = subprocess.Popen(
            command,
            env={name: value for name, value in variables.items() if value != "unset"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **settings,  # type: ignore[call-overload]
        )

    def line(self) -> str:
        """The next line of the program's output."""
        assert self.process.stdout is not None
        return str(self.process.stdout.readline()).strip()

    def end(self, seconds: float = LIMIT_S) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)."""
        try:
            out, errors = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.kill_all()
            out, errors = self.process.communicate(timeout=5)
            pytest.fail(f"the program hangs\n{out}\n{errors}")
        return self.process.returncode, out, errors

    def alive(self, part: str = "") -> dict[int, str]:
        """Processes with our mark: number → command line."""
        mark = f"CUTTLE_TEST_MARK={self.mark}".encode()
        found = {}
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            try:
                if mark not in (folder / "environ").read_bytes().split(b"\0"):
                    continue
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if part in line:
                found[int(folder.name)] = line
        return found

    def find(self, part: str, seconds: float = 10.0) -> int:
        """Number of the process whose command line holds this text."""
        limit = time.monotonic() + seconds
        while not (found := self.alive(part)):
            assert time.monotonic() < limit, f"no {part} among {self.alive()}"
            time.sleep(0.01)
        return next(iter(found))

    def assert_gone(self, seconds: float = GONE_S) -> None:
        limit = time.monotonic() + seconds
        while left := self.alive():
            assert time.monotonic() < limit, f"left behind: {left}"
            time.sleep(0.02)

    def kill_all(self) -> None:
        for number in self.alive():
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                pass


Start = Callable[..., Run]


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the tests that do not look at it."""
    build.build()
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def start(shared_cache: Path) -> Iterator[Start]:
    """`start("program text")` or `start(command=[...])` → a running program."""
    runs: list[Run] = []

    def begin(
        text: str = "",
        command: list[str] | None = None,
        cache: Path = shared_cache,
        env: dict[str, str] | None = None,
        options: tuple[str, ...] = (),
        **settings: object,
    ) -> Run:
        program = command or [sys.executable, "-c", "from tests.robustness.program import *\n" + text]
        runs.append(Run([sys.executable, "-m", "cuttle", "run", *options, "--", *program], cache, env or {}, settings))
        return runs[-1]

    yield begin
    for one in runs:
        one.kill_all()
        one.process.wait(10)
