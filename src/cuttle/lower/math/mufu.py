"""NVIDIA's multi-function unit (MUFU), bit for bit: the f32 approximations that `.approx` instructions are made of.

The unit (S. Oberman and M. Siu, "A high-performance area-efficient multifunction interpolator", ARITH 2005) splits a
mantissa into a table index of 6 or 7 bits and a rest u, and computes C0 + C1 u + C2 u**2 in fixed point. What an H200
does precisely (each claim is checked by tests/ops/test_golden.py against recorded sweeps):

- u**2 comes from a squarer whose partial products below 2**-15 are cut off (`_square`);
- the sum has a constant added, one per function, and is cut, never rounded, to the bits of the result;
- subnormal operands count as zero and subnormal results become zero; ptxas scales operands where `.ftz` is missing;
- sine reflects the odd quadrants and log2 negates by ones' complement; so does ex2 with negative operands.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.math import mufu_tables

_NAN = 0x7FFFFFFF
_INFINITY = 0x7F800000
_SIGN = 1 << 31
_MANTISSA = (1 << 23) - 1


@dataclass(frozen=True, slots=True)
class Unit:
    """One function's table and fixed-point format: sum = (C0 << `first`) + `bias` + C1 u + (C2 square << `second`).

    u is an integer of `width` bits, the sum counts 2**-`fraction` of the table's unit.
    """

    name: str
    table: tuple[int, ...]
    width: int
    first: int
    second: int
    bias: int
    fraction: int


RECIPROCAL = Unit("mufu_rcp", mufu_tables.RECIPROCAL, 16, 13, 0, 2023, 15)
RECIPROCAL_ROOT = Unit("mufu_rsq", mufu_tables.RECIPROCAL_ROOT, 17, 14, 2, 16383, 16)
ROOT = Unit("mufu_sqrt", mufu_tables.ROOT, 17, 16, 2, 65534, 18)
EXPONENTIAL = Unit("mufu_ex2", mufu_tables.EXPONENTIAL, 17, 15, 2, 24458, 17)
LOGARITHM = Unit("mufu_lg2", mufu_tables.LOGARITHM, 17, 14, 2, 3350, 16)
SINE = Unit("mufu_sin", mufu_tables.SINE, 17, 14, 2, 0, 15)
TANGENT = Unit("mufu_tanh", mufu_tables.TANGENT, 17, 16, 2, 0, 16)

# tanh: exponent field of the operand: (first table entry, index bits).
_TANGENT_OCTAVES = {
    119: (0, 0), 120: (1, 0), 121: (2, 0), 122: (3, 1), 123: (5, 1), 124: (7, 2), 125: (11, 2), 126: (15, 2),
    127: (19, 3), 128: (27, 4), 129: (43, 3),
}  # fmt: skip


def _c(emitter: Emitter, value: int) -> Value:
    return emitter.const("i32", value)


def _square(emitter: Emitter, top: Value) -> Value:
    """The truncated square of the 15-bit fraction `top` (i32), in units of 2**-15.

    With bits b1 (worth 1/2) to b15: the sum of bi 2**-2i and bi bj 2**-(i+j-1) over i < j, without what is below 2**-15.
    """
    # With top = 256 high + low the cut touches only the products of the two: 2 high**2 + sum of low's bit k times
    # floor(high * 2 / 2**(7 - k)).
    high = emitter.lshr(top, _c(emitter, 8))
    total = emitter.shl(emitter.mul(high, high), _c(emitter, 1))
    products = emitter.bit_products(high, top)
    if products is not None:
        return emitter.add(total, products)
    doubled = emitter.shl(high, _c(emitter, 1))
    for k in range(8):
        there = emitter.icmp("ne", emitter.and_(top, _c(emitter, 1 << k)), _c(emitter, 0))
        part = emitter.lshr(doubled, _c(emitter, 7 - k)) if k < 7 else doubled
        total = emitter.add(total, emitter.select(there, part, _c(emitter, 0)))
    return total


def _coefficients(emitter: Emitter, unit: Unit, index: Value) -> tuple[Value, Value, Value]:
    """C0, C1 and C2 (i32) of a table index."""
    low, high = emitter.lookup_halves(unit.name, unit.table, index)
    c0 = emitter.lshr(high, _c(emitter, 6))
    top = emitter.ashr(emitter.shl(high, _c(emitter, 26)), _c(emitter, 11))
    c1 = emitter.or_(top, emitter.lshr(low, _c(emitter, 17)))
    return c0, c1, emitter.ashr(emitter.shl(low, _c(emitter, 15)), _c(emitter, 15))


def interpolate(emitter: Emitter, unit: Unit, index: Value, rest: Value) -> Value:
    """The sum (i64) for a table index and rest u (i32)."""
    c0, c1, c2 = _coefficients(emitter, unit, index)

    def const(value: int) -> Value:
        return emitter.const("i64", value)

    square = _square(emitter, emitter.lshr(rest, _c(emitter, unit.width - 15)))
    linear = emitter.mul(emitter.cast("sext", c1, "i64"), emitter.cast("zext", rest, "i64"))
    quadratic = emitter.cast("sext", emitter.mul(c2, square), "i64")
    total = emitter.add(emitter.shl(emitter.cast("zext", c0, "i64"), const(unit.first)), const(unit.bias))
    return emitter.add(emitter.add(total, linear), emitter.shl(quadratic, const(unit.second)))


def _mantissa(emitter: Emitter, unit: Unit, index: Value, rest: Value) -> Value:
    """The sum cut to the table's unit, as i32; in 32-bit arithmetic, which vectors have twice as many lanes for.

    C1 u is C1 (256 uh + ul). With A = bias + C1 ul and B = C2 square, the floor of (A + B * 2**second) / 256 + C1 uh
    comes from 32 bits each: |C1| < 2**20, u < 2**17, |C2 square| < 2**31 (tests/ops/test_approximate.py).
    """
    c0, c1, c2 = _coefficients(emitter, unit, index)
    product = emitter.mul(c2, _square(emitter, emitter.lshr(rest, _c(emitter, unit.width - 15))))
    low = emitter.mul(c1, emitter.and_(rest, _c(emitter, 255)))
    high = emitter.mul(c1, emitter.lshr(rest, _c(emitter, 8)))
    below = emitter.add(low, _c(emitter, unit.bias))
    if unit.second:
        below = emitter.ashr(below, _c(emitter, unit.second))
    upper = emitter.add(emitter.ashr(emitter.add(below, product), _c(emitter, 8 - unit.second)), high)
    total = emitter.add(c0, emitter.ashr(upper, _c(emitter, unit.first - 8)))
    return emitter.ashr(total, _c(emitter, unit.fraction - unit.first))


@dataclass(frozen=True, slots=True)
class Parts:
    """The fields of a float: its bits (i32), sign bit in place, exponent field, mantissa."""

    bits: Value
    sign: Value
    exponent: Value
    mantissa: Value


def _parts(emitter: Emitter, x: Value) -> Parts:
    bits = emitter.bitcast(x, "i32")
    exponent = emitter.and_(emitter.lshr(bits, _c(emitter, 23)), _c(emitter, 255))
    return Parts(bits, emitter.and_(bits, _c(emitter, _SIGN)), exponent, emitter.and_(bits, _c(emitter, _MANTISSA)))


def _pick(emitter: Emitter, result: Value, *cases: tuple[Value, Value | int]) -> Value:
    """The float with the result's bits, or those of the last case that holds."""
    for condition, value in cases:
        result = emitter.select(condition, _c(emitter, value) if isinstance(value, int) else value, result)
    return emitter.bitcast(result, "float")


def _is_nan(emitter: Emitter, parts: Parts) -> Value:
    return emitter.icmp("ugt", emitter.and_(parts.bits, _c(emitter, 0x7FFFFFFF)), _c(emitter, _INFINITY))


def _zero(emitter: Emitter, parts: Parts) -> Value:
    """The operand is zero or subnormal."""
    return emitter.icmp("eq", parts.exponent, _c(emitter, 0))


def _top(emitter: Emitter, parts: Parts) -> Value:
    """The operand is infinite or a NaN."""
    return emitter.icmp("eq", parts.exponent, _c(emitter, 255))


def reciprocal_mantissa(emitter: Emitter, mantissa: Value) -> Value:
    """23 bits below the leading one of 1/m in [1/2, 1); 2**23 for a mantissa of 0."""
    index, rest = emitter.lshr(mantissa, _c(emitter, 16)), emitter.and_(mantissa, _c(emitter, 0xFFFF))
    return _mantissa(emitter, RECIPROCAL, index, rest)


def reciprocal(emitter: Emitter, x: Value) -> Value:
    """MUFU.RCP."""
    p = _parts(emitter, x)
    field = emitter.shl(emitter.sub(_c(emitter, 253), p.exponent), _c(emitter, 23))
    magnitude = emitter.add(field, reciprocal_mantissa(emitter, p.mantissa))
    tiny = emitter.icmp("slt", magnitude, _c(emitter, 1 << 23))
    magnitude = emitter.select(emitter.or_(tiny, _top(emitter, p)), _c(emitter, 0), magnitude)
    magnitude = emitter.select(_zero(emitter, p), _c(emitter, _INFINITY), magnitude)
    return _pick(emitter, emitter.or_(magnitude, p.sign), (_is_nan(emitter, p), _NAN))


def _by_parity(emitter: Emitter, unit: Unit, mantissa: Value, even: Value) -> Value:
    """A root's mantissa: the table's second half serves odd exponents, whose fields are even numbers."""
    index = emitter.lshr(mantissa, _c(emitter, 17))
    half = emitter.shl(emitter.cast("zext", even, "i32"), _c(emitter, 6))
    return _mantissa(emitter, unit, emitter.or_(index, half), emitter.and_(mantissa, _c(emitter, 0x1FFFF)))


def _is_even(emitter: Emitter, value: Value) -> Value:
    return emitter.icmp("eq", emitter.and_(value, emitter.const(value.type, 1)), emitter.const(value.type, 0))


def _negative_is_nan(emitter: Emitter, p: Parts) -> tuple[Value, int]:
    """The case of a NaN result: NaNs and negative numbers other than (flushed) -0."""
    negative = emitter.and_(emitter.icmp("slt", p.bits, _c(emitter, 0)), emitter.not_(_zero(emitter, p)))
    return emitter.or_(negative, _is_nan(emitter, p)), _NAN


def root_mantissa(emitter: Emitter, mantissa: Value, even: Value) -> Value:
    """23 bits below the leading one of 1/sqrt(m) for m in [1, 4); 2**23 for a power of 4. `even`: m is above 2."""
    result = _by_parity(emitter, RECIPROCAL_ROOT, mantissa, even)
    whole = emitter.and_(emitter.icmp("eq", mantissa, _c(emitter, 0)), emitter.not_(even))
    return emitter.select(whole, _c(emitter, 1 << 23), result)


def reciprocal_root(emitter: Emitter, x: Value) -> Value:
    """MUFU.RSQ."""
    p = _parts(emitter, x)
    # floor((exponent - 127) / 2) without negative numbers.
    half = emitter.lshr(emitter.add(p.exponent, _c(emitter, 1)), _c(emitter, 1))
    field = emitter.shl(emitter.sub(_c(emitter, 126 + 64), half), _c(emitter, 23))
    result = emitter.add(field, root_mantissa(emitter, p.mantissa, _is_even(emitter, p.exponent)))
    infinite = emitter.or_(p.sign, _c(emitter, _INFINITY))
    return _pick(emitter, result, (_top(emitter, p), 0), (_zero(emitter, p), infinite), _negative_is_nan(emitter, p))


def root(emitter: Emitter, x: Value) -> Value:
    """MUFU.SQRT."""
    p = _parts(emitter, x)
    half = emitter.lshr(emitter.add(p.exponent, _c(emitter, 1)), _c(emitter, 1))
    field = emitter.shl(emitter.add(half, _c(emitter, 127 - 64)), _c(emitter, 23))
    result = emitter.add(field, _by_parity(emitter, ROOT, p.mantissa, _is_even(emitter, p.exponent)))
    return _pick(emitter, result, (_top(emitter, p), p.bits), (_zero(emitter, p), p.sign), _negative_is_nan(emitter, p))


def exponential(emitter: Emitter, x: Value) -> Value:
    """MUFU.EX2: the operand as a fixed-point number of 23 fractional bits."""
    p = _parts(emitter, x)
    magnitude = emitter.intrinsic("llvm.fabs", [x])
    bounded = emitter.select(
        emitter.fcmp("olt", magnitude, emitter.const("float", 0x43800000)),
        magnitude,
        emitter.const("float", 0x437F0000),
    )
    scaled = emitter.binary("fmul", bounded, emitter.const("float", (127 + 23) << 23))
    fixed = emitter.cast("fptosi", scaled, "i32")
    fraction = emitter.and_(fixed, _c(emitter, _MANTISSA))
    whole = emitter.icmp("eq", fraction, _c(emitter, 0))
    negative = emitter.select(whole, emitter.neg(fixed), emitter.not_(fixed))
    number = emitter.select(emitter.icmp("slt", p.bits, _c(emitter, 0)), negative, fixed)
    index = emitter.and_(emitter.lshr(number, _c(emitter, 17)), _c(emitter, 63))
    mantissa = _mantissa(emitter, EXPONENTIAL, index, emitter.and_(number, _c(emitter, 0x1FFFF)))
    exponent = emitter.ashr(number, _c(emitter, 23))
    field = emitter.shl(emitter.add(exponent, _c(emitter, 127)), _c(emitter, 23))
    return _pick(
        emitter, emitter.add(field, mantissa),
        (emitter.icmp("slt", exponent, _c(emitter, -126)), 0),
        (emitter.icmp("sgt", exponent, _c(emitter, 127)), _INFINITY),
        (_is_nan(emitter, p), _NAN),
    )  # fmt: skip


def _normalise(emitter: Emitter, total: Value, fraction: int) -> Value:
    """A non-negative sum (i64, below 2**53) times 2**-fraction as a float, cut to its 24 bits."""
    exact = emitter.bitcast(emitter.cast("sitofp", total, "double"), "i64")
    cut = emitter.bitcast(emitter.and_(exact, emitter.const("i64", -1 << 29)), "double")
    number = emitter.cast("fptrunc", cut, "float")
    return emitter.binary("fmul", number, emitter.const("float", (127 - fraction) << 23))


def logarithm(emitter: Emitter, x: Value) -> Value:
    """MUFU.LG2."""
    p = _parts(emitter, x)

    def const(value: int) -> Value:
        return emitter.const("i64", value)

    index, rest = emitter.lshr(p.mantissa, _c(emitter, 17)), emitter.and_(p.mantissa, _c(emitter, 0x1FFFF))
    whole = emitter.cast("sext", emitter.sub(p.exponent, _c(emitter, 127)), "i64")
    total = emitter.add(emitter.shl(whole, const(40)), interpolate(emitter, LOGARITHM, index, rest))
    magnitude = emitter.xor(total, emitter.ashr(total, const(63)))
    magnitude = emitter.and_(magnitude, const(-16))  # 36 fractional bits at most
    number = emitter.bitcast(_normalise(emitter, magnitude, 40), "i32")
    sign = emitter.and_(emitter.cast("trunc", emitter.lshr(total, const(32)), "i32"), _c(emitter, _SIGN))
    return _pick(
        emitter, emitter.or_(number, sign),
        (emitter.icmp("eq", p.bits, _c(emitter, 0x3F800000)), 0),
        (_top(emitter, p), _INFINITY),
        (_zero(emitter, p), _INFINITY | _SIGN),
        _negative_is_nan(emitter, p),
    )  # fmt: skip


def sine(emitter: Emitter, x: Value, shift: int) -> Value:
    """sin(x) for shift 0, cos(x) for 1: FMUL.RZ by 1/(2 pi), then MUFU.SIN or MUFU.COS of the turns' 25-bit fraction."""
    p = _parts(emitter, x)
    wide = emitter.cast("fpext", emitter.intrinsic("llvm.fabs", [x]), "double")
    product = emitter.binary("fmul", wide, emitter.const("double", 0x3FC45F3060000000))
    cut = emitter.and_(emitter.bitcast(product, "i64"), emitter.const("i64", -1 << 29))
    turns = _parts(emitter, emitter.cast("fptrunc", emitter.bitcast(cut, "double"), "float"))
    significand = emitter.or_(turns.mantissa, _c(emitter, 1 << 23))
    left = emitter.sub(turns.exponent, _c(emitter, 125))
    right = emitter.neg(left)
    is_left = emitter.icmp("sge", left, _c(emitter, 0))
    amount = emitter.intrinsic("llvm.umin", [emitter.select(is_left, left, right), _c(emitter, 31)])
    fixed = emitter.select(is_left, emitter.shl(significand, amount), emitter.lshr(significand, amount))
    quadrant = emitter.add(emitter.and_(emitter.lshr(fixed, _c(emitter, 23)), _c(emitter, 3)), _c(emitter, shift))
    odd = emitter.neg(emitter.and_(quadrant, _c(emitter, 1)))
    angle = emitter.and_(emitter.xor(fixed, odd), _c(emitter, _MANTISSA))
    rest = emitter.and_(angle, _c(emitter, 0x1FFFF))
    total = interpolate(emitter, SINE, emitter.lshr(angle, _c(emitter, 17)), rest)
    number = _normalise(emitter, emitter.and_(total, emitter.const("i64", -4)), 39)  # 37 fractional bits at most
    sign = emitter.and_(emitter.shl(quadrant, _c(emitter, 30)), _c(emitter, _SIGN))
    if shift == 0:
        sign = emitter.xor(sign, p.sign)
    return _pick(emitter, emitter.or_(emitter.bitcast(number, "i32"), sign), (_top(emitter, p), _NAN))


def tangent(emitter: Emitter, x: Value) -> Value:
    """MUFU.TANH: x itself below 2**-8, 1 from 8 on, tables by octave between."""
    p = _parts(emitter, x)
    magnitude = emitter.and_(p.bits, _c(emitter, 0x7FFFFFFF))
    octave = emitter.sub(p.exponent, _c(emitter, 119))
    octave = emitter.intrinsic("llvm.umin", [octave, _c(emitter, len(_TANGENT_OCTAVES) - 1)])
    rows = [first << 8 | 23 - index_bits for first, index_bits in _TANGENT_OCTAVES.values()]
    row = emitter.lookup(emitter.table("mufu_tanh_octaves", "i32", rows), "i32", octave)
    bits = emitter.and_(row, _c(emitter, 31))
    index = emitter.add(emitter.lshr(row, _c(emitter, 8)), emitter.lshr(p.mantissa, bits))
    rest = emitter.and_(p.mantissa, emitter.sub(emitter.shl(_c(emitter, 1), bits), _c(emitter, 1)))
    rest = emitter.lshr(rest, emitter.sub(bits, _c(emitter, 17)))
    number = emitter.bitcast(_normalise(emitter, interpolate(emitter, TANGENT, index, rest), 40), "i32")
    number = emitter.select(emitter.icmp("ult", p.exponent, _c(emitter, 119)), magnitude, number)
    number = emitter.select(emitter.icmp("ugt", p.exponent, _c(emitter, 129)), _c(emitter, 0x3F800000), number)
    return _pick(emitter, emitter.or_(number, p.sign), (_is_nan(emitter, p), _NAN))
