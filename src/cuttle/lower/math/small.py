"""Single-rounding fma for f16 and bf16."""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.math.exact import narrow_double_to_odd, to_odd, two_sum
from cuttle.lower.ops.element_types import narrow_bf16, widen_bf16


def fma_half(emitter: Emitter, a: Value, b: Value, c: Value) -> Value:
    """a * b + c on halves: the product is exact in float, the sum is rounded to odd there."""
    wide_a, wide_b, wide_c = (emitter.cast("fpext", value, "float") for value in (a, b, c))
    total, error = two_sum(emitter, emitter.binary("fmul", wide_a, wide_b), wide_c)
    return emitter.cast("fptrunc", to_odd(emitter, total, error), "half")


def fma_bf16(emitter: Emitter, a: Value, b: Value, c: Value) -> Value:
    """a * b + c on bf16 (i16): the product is exact in double, the sum is rounded to odd there."""
    wide_a, wide_b, wide_c = (emitter.cast("fpext", widen_bf16(emitter, value), "double") for value in (a, b, c))
    total, error = two_sum(emitter, emitter.binary("fmul", wide_a, wide_b), wide_c)
    return narrow_bf16(emitter, narrow_double_to_odd(emitter, to_odd(emitter, total, error)))
