"""Comparing two configurations by their samples: medians, spread, and a verdict only where the noise is smaller than the effect."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from cuttle.bench.noise import interval

# Which way is better, by the end of a metric's name; other metrics are results, which ought to be the same.
HIGHER_IS_BETTER = ("_rate", "_per_second", "gflops", "tflops")
LOWER_IS_BETTER = ("seconds", "_ms")
ENOUGH = 6  # samples without which no range holds the median with 95 % confidence


@dataclass(frozen=True, slots=True)
class Samples:
    """One metric of one configuration."""

    count: int
    median: float
    mean: float
    deviation: float
    low: float  # the range that holds the median with 95 % confidence
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of both. `percent`: by how much B's median differs from A's. `noise_percent`: how much of that may be noise.

    `verdict`: `A is faster`, `B is faster`, `noise`, `too few samples`; for results `same`, `different`.
    """

    metric: str
    a: Samples
    b: Samples
    percent: float
    noise_percent: float
    verdict: str


def summarize(trials: Sequence[Sequence[float]]) -> Samples:
    """All samples of all trials together."""
    values = [value for trial in trials for value in trial]
    found = interval(values)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return Samples(len(values), found.median, statistics.fmean(values), deviation, found.low, found.high)


def direction(metric: str) -> int:
    """1: more is better; -1: less is better; 0: neither."""
    if metric.endswith(HIGHER_IS_BETTER):
        return 1
    return -1 if metric.endswith(LOWER_IS_BETTER) else 0


def compare(metric: str, a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> Comparison:
    """Samples of one metric, by trial; at least one sample each.

    Samples of one trial share its luck (where it lies in memory, what else ran), so the noise is also how far the medians of
    trials of the same configuration lie apart, and a verdict needs the trials of A all on one side of those of B.
    """
    left, right = summarize(a), summarize(b)
    if not direction(metric):
        same = sorted(x for trial in a for x in trial) == sorted(x for trial in b for x in trial)
        percent = _percent(left.median, right.median)
        return Comparison(metric, left, right, percent, 0.0, "same" if same else "different")
    percent = _percent(left.median, right.median)
    spread_a = [statistics.median(trial) for trial in a] + [left.low, left.high]
    spread_b = [statistics.median(trial) for trial in b] + [right.low, right.high]
    noise = max(
        abs(_percent(left.median, value)) for value in spread_a
    ) + max(abs(_percent(right.median, value)) for value in spread_b)  # fmt: skip
    if min(left.count, right.count) < ENOUGH:
        verdict = "too few samples"
    elif max(spread_a) < min(spread_b) or max(spread_b) < min(spread_a):
        faster = "B" if (right.median > left.median) == (direction(metric) > 0) else "A"
        verdict = f"{faster} is faster"
    else:
        verdict = "noise"
    return Comparison(metric, left, right, percent, noise, verdict)


def _percent(of: float, value: float) -> float:
    if of == value:
        return 0.0
    return 100 * (value - of) / abs(of) if of else float("inf")
