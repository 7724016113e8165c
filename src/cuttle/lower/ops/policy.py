"""Knobs of the op functions that trade exactness for speed. Defaults are exact."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Policy:
    """`exact_nan`: NaN results of f32 arithmetic are NVIDIA's canonical 0x7fffffff (one compare and one select each).
    `generate_nan`: the target's own NaN of an invalid f64 operation is not NVIDIA's 0xfff8000000000000, so results are made that.
    `fast_math`: approximate f32 instructions and f16 matrix products keep to PTX's bounds, but not to NVIDIA's bits.
    """

    exact_nan: bool = True
    generate_nan: bool = False
    fast_math: bool = False


policy = Policy()
