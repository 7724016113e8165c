"""The `.approx` and `.full` instructions as ptxas expands them around the multi-function unit (`mufu.py`).

Without `.ftz`, operands that the unit would flush are scaled by powers of two. All f32 unless said otherwise.
"""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.math import mufu

_NORMAL = 0x00800000  # the least normal number
_LARGE = 0x7E800000  # 2**126


def _f(emitter: Emitter, bits: int) -> Value:
    return emitter.const("float", bits)


def _power(emitter: Emitter, exponent: int) -> Value:
    return _f(emitter, (127 + exponent) << 23)


def _tiny(emitter: Emitter, x: Value) -> Value:
    return emitter.fcmp("olt", emitter.intrinsic("llvm.fabs", [x]), _f(emitter, _NORMAL))


def _large(emitter: Emitter, x: Value) -> Value:
    return emitter.fcmp("ogt", emitter.intrinsic("llvm.fabs", [x]), _f(emitter, _LARGE))


def _times(emitter: Emitter, condition: Value, x: Value, exponent: int) -> Value:
    """x * 2**exponent where the condition holds, else x."""
    return emitter.select(condition, emitter.binary("fmul", x, _power(emitter, exponent)), x)


def reciprocal(emitter: Emitter, x: Value, ftz: bool) -> Value:
    if ftz:
        return mufu.reciprocal(emitter, x)
    scale = emitter.select(_tiny(emitter, x), _power(emitter, 24), _power(emitter, 0))
    scale = emitter.select(_large(emitter, x), _power(emitter, -2), scale)
    return emitter.binary("fmul", scale, mufu.reciprocal(emitter, emitter.binary("fmul", x, scale)))


def quotient_operands(emitter: Emitter, a: Value, b: Value, ftz: bool, full: bool) -> tuple[Value, Value]:
    """The factors whose product is `div.approx` or, with its full range of divisors, `div.full`."""
    tiny, large = _tiny(emitter, b), _large(emitter, b)
    if full:
        a, b = _times(emitter, large, a, -2), _times(emitter, large, b, -2)
    if not ftz:
        a, b = _times(emitter, tiny, a, 24), _times(emitter, tiny, b, 24)
    return mufu.reciprocal(emitter, b), a


def root(emitter: Emitter, x: Value, ftz: bool) -> Value:
    if ftz:
        return mufu.root(emitter, x)
    tiny = _tiny(emitter, x)
    return _times(emitter, tiny, mufu.root(emitter, _times(emitter, tiny, x, 24)), -12)


def reciprocal_root(emitter: Emitter, x: Value, ftz: bool) -> Value:
    if ftz:
        return mufu.reciprocal_root(emitter, x)
    tiny = _tiny(emitter, x)
    return _times(emitter, tiny, mufu.reciprocal_root(emitter, _times(emitter, tiny, x, 24)), 12)


def log2(emitter: Emitter, x: Value, ftz: bool) -> Value:
    if ftz:
        return mufu.logarithm(emitter, x)
    tiny = _tiny(emitter, x)
    result = mufu.logarithm(emitter, _times(emitter, tiny, x, 24))
    return emitter.select(tiny, emitter.binary("fadd", result, _f(emitter, 0xC1C00000)), result)


def exp2(emitter: Emitter, x: Value, ftz: bool) -> Value:
    if ftz:
        return mufu.exponential(emitter, x)
    small = emitter.fcmp("olt", x, _f(emitter, 0xC2FC0000))  # -126
    result = mufu.exponential(emitter, _times(emitter, small, x, -1))
    return emitter.select(small, emitter.binary("fmul", result, result), result)


# -- f64 -------------------------------------------------------------------------------------------------------------


def _high_word(emitter: Emitter, x: Value) -> Value:
    bits = emitter.bitcast(x, "i64")
    return emitter.cast("trunc", emitter.lshr(bits, emitter.const("i64", 32)), "i32")


def _from_high_word(emitter: Emitter, high: Value) -> Value:
    wide = emitter.shl(emitter.cast("zext", high, "i64"), emitter.const("i64", 32))
    return emitter.bitcast(wide, "double")


def reciprocal_high(emitter: Emitter, x: Value) -> Value:
    """MUFU.RCP64H, `rcp.approx.ftz.f64`: from the high word to the high word, by the table of f32."""

    def const(value: int) -> Value:
        return emitter.const("i32", value)

    high = _high_word(emitter, x)
    sign, magnitude = emitter.and_(high, const(1 << 31)), emitter.and_(high, const(0x7FFFFFFF))
    exponent = emitter.lshr(magnitude, const(20))
    mantissa = emitter.shl(emitter.and_(magnitude, const(0xFFFFF)), const(3))
    part = emitter.lshr(mufu.reciprocal_mantissa(emitter, mantissa), const(3))
    result = emitter.add(emitter.shl(emitter.sub(const(2045), exponent), const(20)), part)
    vanishes = emitter.or_(emitter.icmp("slt", result, const(1 << 20)), emitter.icmp("eq", exponent, const(2047)))
    result = emitter.select(vanishes, const(0), result)
    result = emitter.select(emitter.icmp("eq", exponent, const(0)), const(0x7FF00000), result)
    nan = emitter.icmp("ugt", magnitude, const(0x7FF00000))
    return _from_high_word(emitter, emitter.select(nan, const(0x7FFFFFFF), emitter.or_(result, sign)))


def reciprocal_root_high(emitter: Emitter, x: Value) -> Value:
    """MUFU.RSQ64H, `rsqrt.approx.ftz.f64`."""

    def const(value: int) -> Value:
        return emitter.const("i32", value)

    high = _high_word(emitter, x)
    sign, magnitude = emitter.and_(high, const(1 << 31)), emitter.and_(high, const(0x7FFFFFFF))
    exponent = emitter.lshr(magnitude, const(20))
    mantissa = emitter.shl(emitter.and_(magnitude, const(0xFFFFF)), const(3))
    even = emitter.icmp("eq", emitter.and_(exponent, const(1)), const(0))
    part = emitter.lshr(mufu.root_mantissa(emitter, mantissa, even), const(3))
    half = emitter.lshr(emitter.add(exponent, const(1)), const(1))
    result = emitter.add(emitter.shl(emitter.sub(const(1022 + 512), half), const(20)), part)
    result = emitter.select(emitter.icmp("eq", exponent, const(2047)), const(0), result)
    zero = emitter.icmp("eq", exponent, const(0))
    result = emitter.select(zero, emitter.or_(sign, const(0x7FF00000)), result)
    negative = emitter.and_(emitter.icmp("slt", high, const(0)), emitter.not_(zero))
    nan = emitter.or_(negative, emitter.icmp("ugt", magnitude, const(0x7FF00000)))
    return _from_high_word(emitter, emitter.select(nan, const(0x7FFFFFFF), result))


def reciprocal_root_double(emitter: Emitter, x: Value) -> Value:
    """`rsqrt.approx.f64`: one step of a cubic iteration from MUFU.RSQ64H."""

    def const(bits: int) -> Value:
        return emitter.const("double", bits)

    zero, infinity = const(0), const(0x7FF << 52)
    tiny = emitter.fcmp("olt", x, const(1 << 52))
    scaled = emitter.select(tiny, emitter.binary("fmul", x, const((1023 + 54) << 52)), x)
    seed = reciprocal_root_high(emitter, scaled)
    square = emitter.fneg(emitter.binary("fmul", seed, seed))
    error = emitter.intrinsic("llvm.fma", [scaled, square, const(0x3FF << 52)])
    series = emitter.intrinsic("llvm.fma", [error, const(0x3FD8 << 48), const(0x3FE0 << 48)])
    result = emitter.intrinsic("llvm.fma", [series, emitter.binary("fmul", seed, error), seed])
    result = emitter.select(tiny, emitter.binary("fmul", result, const((1023 + 27) << 52)), result)
    result = emitter.select(emitter.fcmp("olt", x, zero), const(0xFFF8 << 48), result)
    result = emitter.select(emitter.fcmp("oeq", x, infinity), zero, result)
    signed_infinity = emitter.intrinsic("llvm.copysign", [infinity, x])
    result = emitter.select(emitter.fcmp("oeq", x, zero), signed_infinity, result)
    return emitter.select(emitter.fcmp("uno", x, x), emitter.binary("fadd", x, x), result)
