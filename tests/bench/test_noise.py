"""The noise rule: intervals of medians, and when there is no verdict."""

from __future__ import annotations

import pytest

from cuttle.bench.noise import Interval, interval, verdict


@pytest.mark.parametrize(
    ("count", "dropped"),
    # How many samples may be cut off at each end for 95 %: tables of the sign test.
    [(1, 0), (5, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5), (25, 7)],
)
def test_interval_cuts_as_the_sign_test_allows(count: int, dropped: int) -> None:
    samples = [float(value) for value in range(count)]
    found = interval(samples[::-1])
    assert (found.low, found.high) == (dropped, count - 1 - dropped)
    assert found.median == (count - 1) / 2


def test_interval_needs_samples() -> None:
    with pytest.raises(ValueError, match="no samples"):
        interval([])


def test_spread_is_relative() -> None:
    assert Interval(9.0, 10.0, 12.0).spread == pytest.approx(0.3)
    assert Interval(0.0, 0.0, 0.0).spread == 0.0


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0.1, 0.2, "met"), (0.1, 0.4, "met"), (0.3, 0.5, "noise"), (0.41, 0.5, "missed")]
)
def test_no_verdict_while_the_bar_is_inside(low: float, high: float, expected: str) -> None:
    assert verdict(Interval(low, (low + high) / 2, high), 0.4) == expected
