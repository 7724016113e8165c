"""The noise rule: ratios are taken round by round, and a verdict needs an interval that does not contain the bar."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """The median of some samples and a range that holds the true median with 95 % confidence."""

    low: float
    median: float
    high: float

    @property
    def spread(self) -> float:
        """Width of the range relative to the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


def interval(samples: Sequence[float]) -> Interval:
    """Median and its confidence interval by order statistics, which assume nothing about the noise but independence.

    Fewer than six samples cannot give 95 % confidence: then it is the whole range.
    """
    ordered = sorted(samples)
    count = len(ordered)
    if count == 0:
        raise ValueError("no samples")
    drop = 0
    # Probability that the true median lies outside the range when `drop + 1` samples are cut off at each end.
    tail = 1.0
    while 2 * (drop + 1) < count:
        tail = 2 * sum(comb(count, k) for k in range(drop + 2)) / 2**count
        if tail > 1 - CONFIDENCE:
            break
        drop += 1
    return Interval(ordered[drop], statistics.median(ordered), ordered[count - 1 - drop])


def verdict(found: Interval, bar: float) -> str:
    """`met` or `missed`; `noise` while the interval contains the bar."""
    if found.high <= bar:
        return "met"
    if found.low > bar:
        return "missed"
    return "noise"
