"""The reference of higher precision: what the approximate f32 functions should have answered, without any GPU.

`float64` NumPy functions are within 2**-52 of the truth, so their distance to an f32 result is known to a millionth of an
ulp. Bounds are those of the PTX ISA (9.7.3.13 to 9.7.3.22): in ulp, or absolute errors where the manual gives those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuttle.errors import SweepError

Array = Any  # numpy.ndarray; NumPy is an extra, imported when the domain is asked for
COUNT = 1 << 20
FARTHEST = 2.0**32  # ulp: no two f32 lie farther apart


@dataclass(frozen=True, slots=True)
class Function:
    """An approximate function: operands between `low` and `high`, the error admitted in ulp, or absolute if negative."""

    name: str
    low: float
    high: float
    bound: float


# The manual bounds lg2 and the trigonometric functions absolutely near their zeros; tanh relatively, by 2**-11.
FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "rcp.approx.f32": (Function("reciprocal", 2.0**-126, 2.0**127, 1),),
    "rcp.approx.ftz.f32": (Function("reciprocal", 2.0**-125, 2.0**125, 1),),
    "rcp.rn.f32": (Function("reciprocal", 2.0**-126, 2.0**126, 0.5),),
    "rsqrt.approx.f32": (Function("rsqrt", 2.0**-126, 2.0**127, 2),),
    "rsqrt.approx.ftz.f32": (Function("rsqrt", 2.0**-126, 2.0**127, 2),),
    "sqrt.approx.f32": (Function("sqrt", 2.0**-126, 2.0**127, 2),),
    "sqrt.approx.ftz.f32": (Function("sqrt", 2.0**-126, 2.0**127, 2),),
    "sqrt.rn.f32": (Function("sqrt", 2.0**-126, 2.0**127, 0.5),),
    "ex2.approx.f32": (Function("exp2", -126.0, 127.0, 2),),
    "ex2.approx.ftz.f32": (Function("exp2", -126.0, 127.0, 2),),
    "lg2.approx.f32": (Function("log2", 2.0, 2.0**127, 4), Function("log2", 0.5, 2.0, -(2.0**-22))),
    "lg2.approx.ftz.f32": (Function("log2", 2.0, 2.0**127, 4), Function("log2", 0.5, 2.0, -(2.0**-22))),
    "sin.approx.f32": (Function("sin", -3.1415925, 3.1415925, -(2.0**-20.5)),),
    "sin.approx.ftz.f32": (Function("sin", -3.1415925, 3.1415925, -(2.0**-20.5)),),
    "cos.approx.f32": (Function("cos", -3.1415925, 3.1415925, -(2.0**-20.5)),),
    "cos.approx.ftz.f32": (Function("cos", -3.1415925, 3.1415925, -(2.0**-20.5)),),
    "tanh.approx.f32": (Function("tanh", -9.0, 9.0, 2.0**13),),
}  # fmt: skip


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise SweepError("SWP-0103", "the domain `reference` needs NumPy") from None
    return numpy


def operands(function: Function, count: int = COUNT) -> Array:
    """`count` operands, spread evenly over the bit patterns of the range (so that small ones are not left out)."""
    np = _numpy()
    if function.low > 0:
        first, last = (int(np.float32(value).view(np.uint32)) for value in (function.low, function.high))
        bits = first + (np.arange(count, dtype=np.uint64) * (last - first)) // count
        found: Array = bits.astype(np.uint32).view(np.float32)
        return found
    top = int(np.float32(max(-function.low, function.high)).view(np.uint32))
    bits = (np.arange(count // 2, dtype=np.uint64) * top // (count // 2)).astype(np.uint32)
    both: Array = np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)
    return both[(both >= np.float32(function.low)) & (both <= np.float32(function.high))]


def errors(function: Function, inputs: Array, results: bytes) -> Array:
    """The error of each result: in units in the last place of the true value, or absolute for a negative bound."""
    np = _numpy()
    x = inputs.astype(np.float64)
    exact: Callable[[Any], Any] = {
        "reciprocal": lambda v: 1.0 / v, "rsqrt": lambda v: 1.0 / np.sqrt(v), "sqrt": np.sqrt, "exp2": np.exp2,
        "log2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    }[function.name]  # fmt: skip
    wanted = exact(x)
    got = np.frombuffer(results, dtype=np.float32).astype(np.float64)
    difference = np.abs(got - wanted)
    if function.bound < 0:
        absolute: Array = np.minimum(np.where(np.isnan(difference), np.inf, difference), FARTHEST)
        return absolute
    exponent = np.maximum(np.frexp(wanted)[1], -125)
    scaled: Array = difference / np.ldexp(1.0, exponent - 24)
    # Where there is no number, or an infinite one, the error has no size: as large as one can be told from another.
    return np.minimum(np.where(np.isnan(scaled), np.inf, scaled), FARTHEST)
