"""What launches and starting cost: `bench/programs` under `cuttle run`."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuttle.bench.build import Built
from cuttle.bench.contenders import base_environment, cuttle_run
from cuttle.bench.noise import Interval, interval, verdict
from cuttle.bench.processes import (
    TOKEN_VARIABLE,
    OthersMeter,
    WorkerFailure,
    adopt_orphans,
    marked_processes,
    own_cpu_s,
    reap,
)

# Issue 2, "How good".
LAUNCH_BAR_US = 0.3
RATE_BAR = 200_000.0
START_BAR_S = 0.25
# Above this part of the machine's time, other programs are in the way.
BUSY_SHARE = 0.05
# The device outlives its program by this long at most.
GONE_S = 5.0


@dataclass(frozen=True)
class Figure:
    """One measured number beside its bar. `verdict` is empty where there is no bar."""

    name: str
    unit: str
    found: Interval
    bar: str = ""
    verdict: str = ""


def wall_verdict(found: Interval, bar: float, others: OthersMeter) -> str:
    """As `verdict`, for wall time, which other programs can only lengthen: a miss on a busy machine counts for nothing."""
    said = verdict(found, bar)
    return "busy" if said == "missed" and others.share() > BUSY_SHARE else said


def run_checked(command: Sequence[str], environment: dict[str, str]) -> str:
    """Runs a program to its end; returns its output, raises WorkerFailure if it fails."""
    done = subprocess.run(
        list(command),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise WorkerFailure(f"{' '.join(command[-2:])} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def launch_figures(built: Built, folder: Path, rounds: int, launches: int, talk: Callable[[str], None]) -> list[Figure]:
    """Cost of a launch and launches per second, over several runs of the program."""
    command = cuttle_run(folder / "cache", str(built.launch_program), str(built.ptx), str(launches))
    token = uuid.uuid4().hex
    environment = {**base_environment(), TOKEN_VARIABLE: token}
    results: list[dict[str, Any]] = []
    adopt_orphans()
    others = OthersMeter()
    for number in range(rounds):
        talk(f"launches, run {number + 1} of {rounds}")
        results.append(json.loads(run_checked(command, environment)))
        wait_until_gone(token)
    cost = interval([result["launch_us"] for result in results])
    # Launches per second are compared as seconds per launch, so that smaller is better everywhere.
    rates = [rate for result in results for rate in result["rates"]]
    seconds = interval([1 / rate for rate in rates])
    return [
        Figure("inside cuLaunchKernel, device awake", "µs", cost, f"≤ {LAUNCH_BAR_US}", verdict(cost, LAUNCH_BAR_US)),
        Figure("inside cuLaunchKernel, device asleep", "µs", interval([r["wake_up_us"] for r in results])),
        Figure("launch and wait for it", "µs", interval([r["round_trip_us"] for r in results])),
        Figure(
            "launches per second, counter checked",
            "/s",
            interval(rates),
            f"≥ {RATE_BAR:,.0f}",
            wall_verdict(seconds, 1 / RATE_BAR, others),
        ),
    ]


def start_figures(built: Built, folder: Path, rounds: int, talk: Callable[[str], None]) -> list[Figure]:
    """What `cuttle run` adds to a small program, and whether anything is left behind."""
    token = uuid.uuid4().hex
    environment = {**base_environment(), TOKEN_VARIABLE: token}
    alone = [str(built.trivial_program)]
    under = cuttle_run(folder / "cache", *alone)
    if run_checked(under, environment).strip() != "42":
        raise WorkerFailure("the trivial program found no device under `cuttle run`")
    wait_until_gone(token)
    added, whole, cpu = [], [], []
    others = OthersMeter()
    for number in range(rounds):
        talk(f"start, round {number + 1} of {rounds}")
        times = {}
        for name, command in (("alone", alone), ("under", under))[:: 1 if number % 2 else -1]:
            started, used = time.perf_counter(), own_cpu_s()
            run_checked(command, environment)
            times[name] = time.perf_counter() - started
            wait_until_gone(token)
            times[f"{name} cpu"] = own_cpu_s() - used
        added.append(times["under"] - times["alone"])
        whole.append(times["under"])
        cpu.append(times["under cpu"] - times["alone cpu"])
    found = interval(added)
    return [
        Figure("trivial program under `cuttle run`, warm cache", "s", interval(whole)),
        Figure(
            "... more than the program alone", "s", found, f"≤ {START_BAR_S}", wall_verdict(found, START_BAR_S, others)
        ),
        Figure("... the same in CPU time of all processes", "s", interval(cpu)),
    ]


def wait_until_gone(token: str) -> None:
    """Raises WorkerFailure if processes of a finished program stay."""
    deadline = time.monotonic() + GONE_S
    while not reap() or marked_processes(token):
        if time.monotonic() > deadline:
            raise WorkerFailure(f"left behind: {', '.join(marked_processes(token).values())}")
        time.sleep(0.01)
