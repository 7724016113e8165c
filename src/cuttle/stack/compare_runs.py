"""Runs a workload on two configurations in turn and collects what it prints: one JSON line per iteration.

A workload is one of ours (`workloads/`), a command, or one that an installed package names by an entry point of the group
`cuttle.workloads` whose value is a function without arguments that returns the command line.
"""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from threading import Thread
from time import monotonic

import msgspec

from cuttle.errors import StackError, reason_in
from cuttle.stack.compare import Comparison, compare
from cuttle.stack.configurations import Configuration
from cuttle.stack.ready import require_device
from cuttle.stack.workloads import NAMES

GROUP = "cuttle.workloads"
LONGEST_LINE = 1 << 16

Trials = list[list[dict[str, float]]]
Watch = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """`trials` processes per configuration, `iterations` samples in each after the first iteration, which is dropped."""

    workload: str
    size: str = "full"
    iterations: int = 5
    trials: int = 2
    seconds: float = 1800.0  # for one process
    command: tuple[str, ...] = ()  # a workload that is a command of the user's


class Side(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A configuration and the metrics of its iterations, by trial."""

    configuration: str
    trials: Trials


class BenchReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two configurations compared: all samples, and what follows for every metric that all iterations have."""

    workload: str
    size: str
    iterations: int
    trials: int
    a: Side
    b: Side
    metrics: list[Comparison]


def known_workloads() -> dict[str, str]:
    """Name → where it comes from."""
    found = dict.fromkeys(NAMES, "cuttle")
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, point.value)
    return found


def workload_command(plan: Plan) -> list[str]:
    """The command line of a plan's workload; raises STK-1102."""
    if plan.command:
        return list(plan.command)
    if plan.workload in NAMES:
        iterations = str(plan.iterations + 1)
        return [
            sys.executable, "-m", "cuttle.stack.workloads", plan.workload, "--size", plan.size, "--iterations", iterations,
        ]  # fmt: skip
    for point in entry_points(group=GROUP, name=plan.workload):
        made = point.load()()
        if not isinstance(made, list) or not all(isinstance(part, str) for part in made):
            raise StackError("STK-1102", f"the workload {plan.workload} gives no command line ({point.value})")
        return made
    raise StackError(
        "STK-1102", f"there is no workload {plan.workload} (known: {', '.join(sorted(known_workloads()))})"
    )


def require_devices(plan: Plan, *configurations: Configuration) -> list[str]:
    """The devices' names, before anything long; raises STK-1107. A command of the user's may find a device that we do not see
    where the machine's own libraries are used: it is not asked for."""
    return [
        "" if plan.command and each.engine == "system" else require_device(each)
        for each in dict.fromkeys(configurations)
    ]  # fmt: skip


def run_comparison(plan: Plan, a: Configuration, b: Configuration, watch: Watch) -> BenchReport:
    """A B, B A, A B ...: who comes first changes with every trial, so that a drift of the machine hits both.

    Watched are iterations, those that are dropped included.
    """
    command = workload_command(plan)
    found: dict[str, Trials] = {"a": [], "b": []}
    each = plan.iterations + 1
    total = 2 * plan.trials * each
    for trial in range(plan.trials):
        for side in "ab" if trial % 2 == 0 else "ba":
            configuration = a if side == "a" else b
            before = (len(found["a"]) + len(found["b"])) * each
            text = f"trial {trial + 1}, {side.upper()}: {configuration.name}"

            def heard(lines: int, before: int = before, text: str = text) -> None:
                watch(before + min(lines, each), total, text)

            found[side].append(run_trial(command, configuration, plan, heard)[1:])
    watch(total, total, "")
    return BenchReport(
        plan.workload, "" if plan.command else plan.size, plan.iterations, plan.trials,
        Side(a.name, found["a"]), Side(b.name, found["b"]), compare_all(found["a"], found["b"]),
    )  # fmt: skip


def compare_all(a: Trials, b: Trials) -> list[Comparison]:
    """Every metric that all iterations of both have, in the order in which they are printed."""
    rows = [row for trial in (*a, *b) for row in trial]
    shared = [name for name in rows[0] if all(name in row for row in rows)] if rows else []
    return [
        compare(name, [[row[name] for row in trial] for trial in a], [[row[name] for row in trial] for trial in b])
        for name in shared
    ]


def run_trial(
    command: list[str], configuration: Configuration, plan: Plan, heard: Callable[[int], None]
) -> list[dict[str, float]]:
    """The metrics of each iteration of one process; raises STK-1103 to STK-1106. `heard`: told, about every second, how many lines
    there are."""
    started = configuration.command(command)
    lines: list[bytes] = []
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                started, env=configuration.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )  # fmt: skip
        except OSError as error:
            raise StackError("STK-1103", f"{started[0]}: {error.strerror}", hint="Is the command there?") from None
        out = process.stdout
        assert out is not None
        reader = Thread(target=lambda: lines.extend(out), daemon=True)
        reader.start()
        began = monotonic()
        try:
            while reader.is_alive() and monotonic() - began < plan.seconds:
                heard(len(lines))
                reader.join(min(1.0, plan.seconds))
            process.wait(max(0.0, plan.seconds - (monotonic() - began)))
        except subprocess.TimeoutExpired:
            raise StackError(
                "STK-1106", f"{configuration.name}: the workload was still running after {monotonic() - began:.0f} s"
            ) from None
        finally:
            process.kill()
            process.wait()
        heard(len(lines))
        errors.seek(0)
        told = errors.read().decode(errors="replace")
    if process.returncode:
        raise StackError(
            "STK-1103",
            f"{configuration.name}: the workload ended with {process.returncode}{reason_in(told)}",
            hint=f"Run it alone: {shlex.join(started)}",
        )
    rows = [read_line(line, configuration) for line in lines if line.strip()]
    if len(rows) < 2:
        raise StackError(
            "STK-1105", f"{configuration.name}: {len(rows)} iterations; the first is dropped, so two are the least"
        )
    return rows


def read_line(line: bytes, configuration: Configuration) -> dict[str, float]:
    """The metrics of one line of output: finite numbers by name; raises STK-1104."""
    try:
        if len(line) > LONGEST_LINE:
            raise ValueError("too long")
        metrics = json.loads(line)["metrics"]
        if not all(type(value) in (int, float) and math.isfinite(value) for value in metrics.values()):
            raise ValueError("a metric is no finite number")
        return {str(name): float(value) for name, value in metrics.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        shown = line[:80].decode(errors="replace")
        raise StackError(
            "STK-1104", f'{configuration.name}: the workload printed {shown!r}, not a line like {{"metrics": {{...}}}}'
        ) from None
