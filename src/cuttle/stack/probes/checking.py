"""What a capability test says when it does not pass."""

from __future__ import annotations

import math
from collections.abc import Sequence


class Failed(Exception):
    """A wrong answer."""


class Refused(Exception):
    """What was asked for is not offered, and that was said."""


class NotApplicable(Exception):
    """The test makes no sense here."""


def require(condition: bool, message: str) -> None:
    if not condition:
        raise Failed(message)


def close(found: Sequence[float], right: Sequence[float], tolerance: float) -> None:
    """All elements within `tolerance` times the largest right one; a NaN never is."""
    require(len(found) == len(right), f"{len(found)} elements instead of {len(right)}")
    scale = max(1e-30, *(abs(value) for value in right)) * tolerance
    for place, (one, other) in enumerate(zip(found, right, strict=True)):
        if not abs(one - other) <= scale or math.isnan(one):
            raise Failed(f"element {place} is {one:.9g} instead of {other:.9g}")


def same(found: Sequence[int], right: Sequence[int], what: str) -> None:
    require(len(found) == len(right), f"{what}: {len(found)} elements instead of {len(right)}")
    for place, (one, other) in enumerate(zip(found, right, strict=True)):
        require(one == other, f"{what}: element {place} is {one} instead of {other}")
