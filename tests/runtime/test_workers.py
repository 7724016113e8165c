"""Compile workers: answers, crashes, time limits, big modules."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuttle.runtime import workers
from cuttle.runtime.workers import CompileWorkers

ROOT = Path(__file__).parents[2]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, float], CompileWorkers]]:
    monkeypatch.setattr(workers, "WORKER_MODULE", "tests.runtime.fake_compile_worker")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    made: list[CompileWorkers] = []

    def build(limit: int = 1, seconds: float = 30.0) -> CompileWorkers:
        made.append(CompileWorkers(limit, seconds))
        return made[-1]

    yield build
    for one in made:
        one.close()


class Answers:
    """Collects what compilations say."""

    def __init__(self) -> None:
        self.of: dict[str, tuple[bytes, str]] = {}

    def take(self, name: str) -> Callable[[bytes, str, float], None]:
        def finished(data: bytes, error: str, seconds: float) -> None:
            assert name not in self.of
            self.of[name] = (data, error)

        return finished

    def wait(self, compilers: CompileWorkers, count: int) -> None:
        limit = time.monotonic() + 20
        while len(self.of) < count:
            assert time.monotonic() < limit, self.of
            compilers.poll()
            time.sleep(0.002)


def test_answers_come_back(make: Callable[..., CompileWorkers]) -> None:
    compilers, answers = make(2), Answers()
    for name in ("one", "two", "noise", "three"):
        compilers.compile("module", b"text", name, {}, answers.take(name))
    answers.wait(compilers, 4)
    assert answers.of == {name: (name.encode() + b"text", "") for name in ("one", "two", "noise", "three")}


@pytest.mark.parametrize(
    "name,reason", [("crash", "signal 6"), ("exit", "exit code 3"), ("raise", "something unforeseen")]
)
def test_only_the_kernel_at_fault_fails(make: Callable[..., CompileWorkers], name: str, reason: str) -> None:
    compilers, answers = make(1), Answers()
    for one in ("before", name, "after"):
        compilers.compile("module", b"text", one, {}, answers.take(one))
    answers.wait(compilers, 3)
    assert answers.of["before"][1] == answers.of["after"][1] == ""
    assert reason in answers.of[name][1] and answers.of[name][0] == b""


def test_time_limit(make: Callable[..., CompileWorkers]) -> None:
    compilers, answers = make(1, 0.5), Answers()
    compilers.compile("module", b"text", "hang", {}, answers.take("hang"))
    answers.wait(compilers, 1)
    assert "CUTTLE_COMPILE_TIMEOUT" in answers.of["hang"][1]


def test_big_modules_do_not_block(make: Callable[..., CompileWorkers]) -> None:
    compilers, answers = make(1), Answers()
    text = b"x" * (8 << 20)
    started = time.monotonic()
    compilers.prewarm("module", text)
    compilers.compile("module", text, "one", {}, answers.take("one"))
    assert time.monotonic() - started < 1.0
    answers.wait(compilers, 1)
    assert answers.of["one"] == (b"one" + text, "")
