"""Error-free transformations and round-to-odd (Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", 2008).

A value rounded to odd in a format with at least two more bits than the target can be rounded again, in any direction,
as if it were the exact value. These helpers give directed rounding and the small formats without touching the
processor's rounding mode.
"""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value


def two_sum(emitter: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    """s = a + b rounded, e with s + e = a + b exactly (no overflow)."""
    total = emitter.binary("fadd", a, b)
    shadow = emitter.binary("fsub", total, a)
    first = emitter.binary("fsub", a, emitter.binary("fsub", total, shadow))
    second = emitter.binary("fsub", b, shadow)
    return total, emitter.binary("fadd", first, second)


def two_product(emitter: Emitter, a: Value, b: Value) -> tuple[Value, Value]:
    """p = a * b rounded, e with p + e = a * b exactly (no underflow)."""
    product = emitter.binary("fmul", a, b)
    return product, emitter.intrinsic("llvm.fma", [a, b, emitter.fneg(product)])


def to_odd(emitter: Emitter, nearest: Value, error: Value) -> Value:
    """The value `nearest + error` (error at most half an ulp) rounded to odd instead of to nearest.

    Of the two neighbours of an inexact value exactly one has an odd last bit; if `nearest` is even, it is the one
    beside it on the error's side. A NaN error (overflow, NaN operands) changes nothing.
    """
    integer = f"i{nearest.bits}"
    bits = emitter.bitcast(nearest, integer)
    one = emitter.const(integer, 1)
    zero = emitter.const(nearest.type, 0)
    inexact = emitter.fcmp("one", error, zero)
    even = emitter.icmp("eq", emitter.and_(bits, one), emitter.const(integer, 0))
    # Away from zero if error and value have the same sign.
    signs = emitter.xor(bits, emitter.bitcast(error, integer))
    step = emitter.or_(emitter.ashr(signs, emitter.const(integer, nearest.bits - 1)), one)
    adjust = emitter.binary("and", inexact, even)
    moved = emitter.select(adjust, emitter.add(bits, step), bits)
    return emitter.bitcast(moved, nearest.type)


def step_bits(emitter: Emitter, value: Value, up: Value, down: Value) -> Value:
    """`value` moved to the next number toward +infinity where `up`, toward -infinity where `down`.

    Works on the ordered integers behind the floats; zero steps to the least subnormals, infinities stay when moved
    outward, the least finite neighbour follows when moved inward.
    """
    integer = f"i{value.bits}"
    bits = emitter.bitcast(value, integer)
    zero, one = emitter.const(integer, 0), emitter.const(integer, 1)
    negative = emitter.icmp("slt", bits, zero)
    # Toward +infinity the magnitude grows for positive values and shrinks for negative ones.
    forward = emitter.select(negative, emitter.sub(bits, one), emitter.add(bits, one))
    backward = emitter.select(negative, emitter.add(bits, one), emitter.sub(bits, one))
    is_zero = emitter.icmp("eq", emitter.shl(bits, one), zero)
    forward = emitter.select(is_zero, one, forward)
    backward = emitter.select(is_zero, emitter.const(integer, 1 << (value.bits - 1) | 1), backward)
    moved = emitter.select(up, forward, emitter.select(down, backward, bits))
    return emitter.bitcast(moved, value.type)


def adjust_direction(emitter: Emitter, nearest: Value, above: Value, below: Value, mode: str) -> Value:
    """Turn a result rounded to nearest into one rounded by `mode` (`rz`, `rm`, `rp`).

    `above`: the exact value lies above `nearest`; `below`: it lies below.
    """
    never = emitter.const("i1", 0)
    if mode == "rp":
        return step_bits(emitter, nearest, above, never)
    if mode == "rm":
        return step_bits(emitter, nearest, never, below)
    integer = f"i{nearest.bits}"
    bits = emitter.bitcast(nearest, integer)
    negative = emitter.icmp("slt", bits, emitter.const(integer, 0))
    # Toward zero only ever lowers the magnitude, and only of a non-zero result.
    lower = emitter.select(negative, above, below)
    return emitter.bitcast(emitter.select(lower, emitter.sub(bits, emitter.const(integer, 1)), bits), nearest.type)


def narrow_double(emitter: Emitter, value: Value, mode: str) -> Value:
    """A double (exact, or rounded to odd) to float in a rounding mode (`rn`, `rz`, `rm`, `rp`); NaN stays NaN."""
    nearest = emitter.cast("fptrunc", value, "float")
    if mode == "rn":
        return nearest
    back = emitter.cast("fpext", nearest, "double")
    above = emitter.fcmp("ogt", value, back)
    below = emitter.fcmp("olt", value, back)
    return adjust_direction(emitter, nearest, above, below, mode)


def narrow_double_to_odd(emitter: Emitter, value: Value) -> Value:
    """A double to float, rounded to odd; finite values beyond float's range become its largest number or infinity."""
    nearest = emitter.cast("fptrunc", value, "float")
    error = emitter.binary("fsub", value, emitter.cast("fpext", nearest, "double"))
    # The float's own bits decide parity; the error only lends its sign, so a subnormal error may vanish in narrowing.
    bits = emitter.bitcast(nearest, "i32")
    one = emitter.const("i32", 1)
    zero = emitter.const("double", 0)
    inexact = emitter.fcmp("one", error, zero)
    even = emitter.icmp("eq", emitter.and_(bits, one), emitter.const("i32", 0))
    negative = emitter.icmp("slt", bits, emitter.const("i32", 0))
    outward = emitter.xor(emitter.fcmp("ogt", error, zero), negative)
    step = emitter.select(outward, one, emitter.const("i32", -1))
    finite = emitter.fcmp("olt", emitter.intrinsic("llvm.fabs", [value]), emitter.const("double", 0x7FF0000000000000))
    adjust = emitter.and_(emitter.and_(inexact, even), finite)
    return emitter.bitcast(emitter.select(adjust, emitter.add(bits, step), bits), "float")
