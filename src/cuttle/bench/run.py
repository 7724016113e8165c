"""One benchmark run: all contenders take turns on each problem; then launches and starting."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuttle.bench import machine
from cuttle.bench.build import Built, build
from cuttle.bench.contenders import (
    Contender,
    Sample,
    cuttle_contender,
    intel_contender,
    native_contender,
    openblas_contender,
    pocl_contender,
)
from cuttle.bench.first_launches import first_launch_figures
from cuttle.bench.launches import Figure, launch_figures, start_figures
from cuttle.bench.noise import Interval, interval, verdict
from cuttle.bench.problems import PROBLEMS, Problem
from cuttle.bench.processes import WorkerFailure
from cuttle.lower.cpu.image_file import ImageError, unpack_image

# A sample lasts at least this long, so that clocks and the way there and back do not count.
SAMPLE_MS = 20.0
MOST_LAUNCHES = 64
CONTENDERS = ("cuttle", "fast", "native", "intel", "pocl", "openblas")


@dataclass(frozen=True)
class Options:
    """What to run. `small`: tiny sizes and few samples, to see that all of it works; such numbers mean nothing."""

    rounds: int = 11
    problems: tuple[str, ...] = tuple(problem.name for problem in PROBLEMS)
    contenders: tuple[str, ...] = CONTENDERS
    small: bool = False
    launches: bool = True
    nvcc: Path | None = None
    opencl_python: str = sys.executable
    folder: Path | None = None


@dataclass
class Timing:
    """One contender on one problem. `trouble` says why there are no samples."""

    samples: list[Sample] = field(default_factory=list)
    launches: int = 1
    first_ms: float = 0.0
    trouble: str = ""

    @property
    def cpu_ms(self) -> Interval | None:
        return interval([sample.cpu_ms for sample in self.samples]) if self.samples else None


@dataclass
class Measured:
    """One problem: timings by contender, and Cuttle's ratio to Intel's runtime round by round."""

    problem: Problem
    timings: dict[str, Timing] = field(default_factory=dict)
    lowering: dict[str, Any] = field(default_factory=dict)

    def ratio(self, name: str, base: str) -> Interval | None:
        """CPU time of one contender divided by another's, both from the same round."""
        ours, theirs = self.timings.get(name), self.timings.get(base)
        if ours is None or theirs is None or not ours.samples or len(ours.samples) != len(theirs.samples):
            return None
        pairs = zip(ours.samples, theirs.samples, strict=True)
        return interval([one.cpu_ms / other.cpu_ms for one, other in pairs])

    @property
    def verdict(self) -> str:
        found = self.ratio("cuttle", "intel")
        return "" if found is None or self.problem.bar is None else verdict(found, self.problem.bar)


@dataclass
class Results:
    """Everything a run found."""

    options: Options
    facts: dict[str, str]
    contenders: dict[str, str]
    kernels: list[Measured]
    figures: list[Figure]
    troubles: list[str]

    @property
    def sound(self) -> bool:
        """Whether Cuttle ran everything it was asked to, with right results."""
        ours = [m.timings[name].trouble for m in self.kernels for name in ("cuttle", "fast") if name in m.timings]
        return not any(ours) and not self.troubles


def talk_to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


@contextmanager
def work_folder(chosen: Path | None) -> Any:
    """The chosen folder, or one that goes away."""
    if chosen is not None:
        chosen.mkdir(parents=True, exist_ok=True)
        yield chosen
        return
    with tempfile.TemporaryDirectory(prefix="cuttle-bench-") as folder:
        yield Path(folder)


def make_contenders(options: Options, built: Built, folder: Path, troubles: list[str]) -> list[Contender]:
    """Those asked for that this machine has; each missing one is named once."""
    made: list[Contender | str] = []
    for name in options.contenders:
        match name:
            case "cuttle":
                made.append(cuttle_contender(built, folder))
            case "fast":
                made.append(cuttle_contender(built, folder, fast=True))
            case "openblas":
                made.append(openblas_contender())
            case "native":
                made.append(native_contender(built))
            case "intel":
                made.append(intel_contender(options.opencl_python, folder))
            case "pocl":
                made.append(pocl_contender(options.opencl_python, folder))
    troubles += [text for text in made if isinstance(text, str)]
    return [contender for contender in made if isinstance(contender, Contender)]


def run(options: Options, talk: Callable[[str], None] = talk_to_stderr) -> Results:
    """The whole benchmark."""
    facts = machine.description()
    troubles: list[str] = []
    with work_folder(options.folder) as folder:
        talk("building kernels")
        built = build(folder, options.nvcc)
        facts["nvcc"] = built.nvcc_version
        contenders = make_contenders(options, built, folder, troubles)
        wanted = [problem for problem in PROBLEMS if problem.name in options.problems]
        kernels = measure_all(contenders, wanted, options, folder, talk)
        if "cuttle" in options.contenders:
            reports = lowering_reports(folder / "cache")
            for measured in kernels:
                measured.lowering = reports.get(measured.problem.name, {})
        figures: list[Figure] = []
        if options.launches and "cuttle" in options.contenders:
            count = 2_000 if options.small else 200_000
            rounds = min(3, options.rounds)
            try:
                figures += launch_figures(built, folder, rounds, count, talk)
            except WorkerFailure as failure:
                troubles.append(str(failure))
            try:
                figures += first_launch_figures(built, folder, rounds, talk)
            except WorkerFailure as failure:
                troubles.append(str(failure))
            try:
                figures += start_figures(built, folder, options.rounds, talk)
            except WorkerFailure as failure:
                troubles.append(str(failure))
        described = {contender.title: contender.description for contender in contenders}
    return Results(options, facts, described, kernels, figures, troubles)


def measure_all(
    contenders: Sequence[Contender],
    problems: Sequence[Problem],
    options: Options,
    folder: Path,
    talk: Callable[[str], None],
) -> list[Measured]:
    kernels = []
    try:
        for problem in problems:
            talk(f"{problem.title}")
            kernels.append(measure_problem(problem, contenders, options, folder))
    finally:
        for contender in contenders:
            contender.stop()
    return kernels


def measure_problem(problem: Problem, contenders: Sequence[Contender], options: Options, folder: Path) -> Measured:
    """Prepares and checks every contender, then lets them take turns, in the opposite order every second round."""
    measured = Measured(problem)
    ready: list[Contender] = []
    takes_part = {"cuttle", *problem.against, *(("fast",) if problem.inexact else ())}
    for contender in contenders:
        if contender.name not in takes_part:
            continue
        timing = measured.timings[contender.name] = Timing()
        with noting_failure(contender, timing):
            prepare(contender, problem, timing, options, folder)
        if not timing.trouble:
            ready.append(contender)
    for number in range(options.rounds):
        for contender in ready if number % 2 else ready[::-1]:
            timing = measured.timings[contender.name]
            if not timing.trouble:
                with noting_failure(contender, timing):
                    timing.samples.append(contender.sample(timing.launches))
    for contender in ready:
        if not measured.timings[contender.name].trouble:
            contender.ask("unload")
    return measured


@contextmanager
def noting_failure(contender: Contender, timing: Timing) -> Any:
    """A contender that fails loses this problem's samples and gets a fresh process for the next."""
    try:
        yield
    except WorkerFailure as failure:
        timing.trouble = str(failure)
        timing.samples.clear()
        contender.stop()


def prepare(contender: Contender, problem: Problem, timing: Timing, options: Options, folder: Path) -> None:
    """First launch (which compiles), check of the result, and how many launches make one sample."""
    if contender.worker is None:
        contender.start(folder / f"{contender.name}.log")
    reply = contender.ask("load", problem=problem.name, small=options.small)
    if "absent" in reply:
        timing.trouble = reply["absent"]
        return
    timing.first_ms = reply["first_ns"] / 1e6
    wrong = contender.ask("check")["wrong"]
    if wrong:
        raise WorkerFailure(f"WRONG RESULT: {wrong}")
    once = contender.sample(1)
    timing.first_ms = max(0.0, timing.first_ms - once.wall_ms)
    if not options.small:
        timing.launches = max(1, min(MOST_LAUNCHES, round(SAMPLE_MS / max(once.cpu_ms, 1e-3))))


def lowering_reports(cache: Path) -> dict[str, dict[str, Any]]:
    """How each kernel in the cache was compiled: kernel → the report in its image."""
    reports = {}
    for folder, _, files in os.walk(cache):
        for name in files:
            try:
                metadata, _ = unpack_image(Path(folder, name).read_bytes())
            except (ImageError, OSError):
                continue
            reports[metadata["name"]] = metadata["report"]
    return reports
