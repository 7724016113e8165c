"""Add, multiply, fma, divide and square root rounded toward zero, -infinity or +infinity, in software.

f32 goes through f64, where products are exact and sums can be rounded to odd. f64 works on mantissas scaled to [1, 2)
with a separate exponent, so that the error terms are exact whatever the operands' range.
"""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.math.exact import adjust_direction, narrow_double, to_odd, two_product, two_sum

_MANTISSA = (1 << 52) - 1
_SIGN = 1 << 63
_CLAMP = 200  # exponent distance beyond which an addend of a scaled fma only decides inexactness


def add(emitter: Emitter, a: Value, b: Value, mode: str) -> Value:
    """a + b rounded by `mode` (`rz`, `rm`, `rp`), float or double."""
    if a.type == "double":
        return _add_double(emitter, a, b, mode)
    wide_a, wide_b = emitter.cast("fpext", a, "double"), emitter.cast("fpext", b, "double")
    return _sum_to_float(emitter, wide_a, wide_b, mode)


def mul(emitter: Emitter, a: Value, b: Value, mode: str) -> Value:
    """a * b rounded by `mode`."""
    if a.type == "double":
        return _mul_double(emitter, a, b, mode)
    product = emitter.binary("fmul", emitter.cast("fpext", a, "double"), emitter.cast("fpext", b, "double"))
    return narrow_double(emitter, product, mode)


def fma(emitter: Emitter, a: Value, b: Value, c: Value, mode: str) -> Value:
    """a * b + c rounded once by `mode`."""
    if a.type == "double":
        return _fma_double(emitter, a, b, c, mode)
    product = emitter.binary("fmul", emitter.cast("fpext", a, "double"), emitter.cast("fpext", b, "double"))
    return _sum_to_float(emitter, product, emitter.cast("fpext", c, "double"), mode)


def div(emitter: Emitter, a: Value, b: Value, mode: str) -> Value:
    """a / b rounded by `mode`."""
    if a.type == "double":
        return _div_double(emitter, a, b, mode)
    wide_a, wide_b = emitter.cast("fpext", a, "double"), emitter.cast("fpext", b, "double")
    quotient = emitter.binary("fdiv", wide_a, wide_b)
    return narrow_double(emitter, to_odd(emitter, quotient, _remainder(emitter, quotient, wide_a, wide_b)), mode)


def sqrt(emitter: Emitter, a: Value, mode: str) -> Value:
    """The square root rounded by `mode`."""
    if a.type == "double":
        return _sqrt_double(emitter, a, mode)
    wide = emitter.cast("fpext", a, "double")
    root = emitter.intrinsic("llvm.sqrt", [wide])
    error = emitter.intrinsic("llvm.fma", [emitter.fneg(root), root, wide])
    return narrow_double(emitter, to_odd(emitter, root, error), mode)


def _remainder(emitter: Emitter, quotient: Value, a: Value, b: Value) -> Value:
    """A value with the sign of a/b - quotient (exactly zero where they are equal)."""
    rest = emitter.intrinsic("llvm.fma", [emitter.fneg(quotient), b, a])
    integer = f"i{b.bits}"
    sign = emitter.and_(emitter.bitcast(b, integer), emitter.const(integer, 1 << (b.bits - 1)))
    return emitter.bitcast(emitter.xor(emitter.bitcast(rest, integer), sign), b.type)


def _sum_to_float(emitter: Emitter, a: Value, b: Value, mode: str) -> Value:
    total, error = two_sum(emitter, a, b)
    result = narrow_double(emitter, to_odd(emitter, total, error), mode)
    return _zero_sign(emitter, result, a, b, mode, total)


def _zero_sign(emitter: Emitter, result: Value, a: Value, b: Value, mode: str, total: Value) -> Value:
    """An exact zero sum is -0 when rounding toward -infinity, unless both operands are +0."""
    if mode != "rm":
        return result
    signs = emitter.or_(emitter.bitcast(a, f"i{a.bits}"), emitter.bitcast(b, f"i{b.bits}"))
    negative = emitter.icmp("slt", signs, emitter.const(f"i{a.bits}", 0))
    zero = emitter.fcmp("oeq", total, emitter.const(total.type, 0))
    minus = emitter.const(result.type, 1 << (result.bits - 1))
    return emitter.select(emitter.and_(zero, negative), minus, result)


# -- f64 -------------------------------------------------------------------------------------------------------------


def _finite(emitter: Emitter, *values: Value) -> Value:
    """Whether all doubles are finite."""
    result: Value | None = None
    for value in values:
        infinity = emitter.const("double", 0x7FF << 52)
        good = emitter.fcmp("olt", emitter.intrinsic("llvm.fabs", [value]), infinity)
        result = good if result is None else emitter.and_(result, good)
    assert result is not None
    return result


def _nonzero(emitter: Emitter, value: Value) -> Value:
    return emitter.fcmp("one", value, emitter.const("double", 0))


def _split(emitter: Emitter, value: Value) -> tuple[Value, Value]:
    """(m, e): value = m * 2**e with 1 <= |m| < 2, for finite non-zero doubles (anything for others); e is i64."""
    bits = emitter.bitcast(value, "i64")
    mask = emitter.const("i64", 0x7FF << 52)
    tiny = emitter.icmp("eq", emitter.and_(bits, mask), emitter.const("i64", 0))
    scaled = emitter.bitcast(emitter.binary("fmul", value, emitter.const("double", (1023 + 54) << 52)), "i64")
    bits = emitter.select(tiny, scaled, bits)
    field = emitter.lshr(emitter.and_(bits, mask), emitter.const("i64", 52))
    bias = emitter.select(tiny, emitter.const("i64", 1023 + 54), emitter.const("i64", 1023))
    mantissa = emitter.and_(bits, emitter.const("i64", _SIGN | _MANTISSA))
    return emitter.bitcast(emitter.or_(mantissa, emitter.const("i64", 1023 << 52)), "double"), emitter.sub(field, bias)


def _assemble(emitter: Emitter, high: Value, low: Value, exponent: Value, mode: str) -> Value:
    """(high + low) * 2**exponent rounded by `mode`: |low| at most half an ulp of high, high a normal non-zero double."""
    bits = emitter.bitcast(high, "i64")
    zero, one = emitter.const("i64", 0), emitter.const("i64", 1)
    sign = emitter.and_(bits, emitter.const("i64", _SIGN))
    negative = emitter.icmp("ne", sign, zero)
    inexact = _nonzero(emitter, low)
    opposite = emitter.icmp("slt", emitter.xor(bits, emitter.bitcast(low, "i64")), zero)
    magnitude = emitter.xor(bits, sign)
    magnitude = emitter.sub(magnitude, emitter.cast("zext", emitter.and_(inexact, opposite), "i64"))
    field = emitter.add(emitter.lshr(magnitude, emitter.const("i64", 52)), exponent)
    mantissa = emitter.or_(emitter.and_(magnitude, emitter.const("i64", _MANTISSA)), emitter.const("i64", 1 << 52))
    shift = emitter.intrinsic("llvm.smax", [emitter.sub(one, field), zero])
    shift = emitter.intrinsic("llvm.smin", [shift, emitter.const("i64", 63)])
    kept = emitter.lshr(mantissa, shift)
    dropped = emitter.icmp("ne", emitter.shl(kept, shift), mantissa)
    sticky = emitter.or_(inexact, dropped)
    base = emitter.sub(emitter.intrinsic("llvm.smax", [field, one]), one)
    packed = emitter.add(emitter.shl(base, emitter.const("i64", 52)), kept)
    overflow = emitter.icmp("sgt", field, emitter.const("i64", 2046))
    packed = emitter.select(overflow, emitter.const("i64", (0x7FF << 52) - 1), packed)
    sticky = emitter.or_(sticky, overflow)
    if mode != "rz":
        away = negative if mode == "rm" else emitter.not_(negative)
        packed = emitter.add(packed, emitter.cast("zext", emitter.and_(sticky, away), "i64"))
    return emitter.bitcast(emitter.or_(packed, sign), "double")


def _add_double(emitter: Emitter, a: Value, b: Value, mode: str) -> Value:
    total, error = two_sum(emitter, a, b)
    zero = emitter.const("double", 0)
    infinity = emitter.const("double", 0x7FF << 52)
    finite = _finite(emitter, a, b)
    over = emitter.and_(finite, emitter.fcmp("oeq", total, infinity))
    under = emitter.and_(finite, emitter.fcmp("oeq", total, emitter.const("double", 0xFFF << 52)))
    below = emitter.or_(emitter.fcmp("olt", error, zero), over)
    above = emitter.or_(emitter.fcmp("ogt", error, zero), under)
    return _zero_sign(emitter, adjust_direction(emitter, total, above, below, mode), a, b, mode, total)


def _mul_double(emitter: Emitter, a: Value, b: Value, mode: str) -> Value:
    (ma, ea), (mb, eb) = _split(emitter, a), _split(emitter, b)
    high, low = two_product(emitter, ma, mb)
    result = _assemble(emitter, high, low, emitter.add(ea, eb), mode)
    regular = emitter.and_(_finite(emitter, a, b), emitter.and_(_nonzero(emitter, a), _nonzero(emitter, b)))
    return emitter.select(regular, result, emitter.binary("fmul", a, b))


def _div_double(emitter: Emitter, a: Value, b: Value, mode: str) -> Value:
    (ma, ea), (mb, eb) = _split(emitter, a), _split(emitter, b)
    quotient = emitter.binary("fdiv", ma, mb)
    result = _assemble(emitter, quotient, _remainder(emitter, quotient, ma, mb), emitter.sub(ea, eb), mode)
    regular = emitter.and_(_finite(emitter, a, b), emitter.and_(_nonzero(emitter, a), _nonzero(emitter, b)))
    return emitter.select(regular, result, emitter.binary("fdiv", a, b))


def _sqrt_double(emitter: Emitter, a: Value, mode: str) -> Value:
    mantissa, exponent = _split(emitter, a)
    one = emitter.const("i64", 1)
    odd = emitter.icmp("ne", emitter.and_(exponent, one), emitter.const("i64", 0))
    doubled = emitter.binary("fadd", mantissa, mantissa)
    scaled = emitter.select(odd, doubled, mantissa)
    root = emitter.intrinsic("llvm.sqrt", [scaled])
    error = emitter.intrinsic("llvm.fma", [emitter.fneg(root), root, scaled])
    result = _assemble(emitter, root, error, emitter.ashr(exponent, one), mode)
    regular = emitter.and_(_finite(emitter, a), emitter.fcmp("ogt", a, emitter.const("double", 0)))
    return emitter.select(regular, result, emitter.intrinsic("llvm.sqrt", [a]))


def _fma_double(emitter: Emitter, a: Value, b: Value, c: Value, mode: str) -> Value:
    (ma, ea), (mb, eb), (mc, ec) = _split(emitter, a), _split(emitter, b), _split(emitter, c)
    product_exponent = emitter.add(ea, eb)
    distance = emitter.sub(ec, product_exponent)
    clamp = emitter.const("i64", _CLAMP)
    limited = emitter.intrinsic("llvm.smin", [distance, clamp])
    limited = emitter.intrinsic("llvm.smax", [limited, emitter.const("i64", -_CLAMP)])
    scale = emitter.shl(emitter.add(limited, emitter.const("i64", 1023)), emitter.const("i64", 52))
    addend = emitter.binary("fmul", mc, emitter.bitcast(scale, "double"))
    addend = emitter.select(_nonzero(emitter, c), addend, c)
    far = emitter.and_(emitter.icmp("sgt", distance, clamp), _nonzero(emitter, c))
    exponent = emitter.select(far, emitter.sub(ec, clamp), product_exponent)
    product_high, product_low = two_product(emitter, ma, mb)
    inner_high, inner_low = two_sum(emitter, addend, product_low)
    outer_high, outer_low = two_sum(emitter, product_high, inner_high)
    tail, tail_error = two_sum(emitter, inner_low, outer_low)
    high, low = two_sum(emitter, outer_high, to_odd(emitter, tail, tail_error))
    result = _assemble(emitter, high, low, exponent, mode)
    plain = emitter.intrinsic("llvm.fma", [a, b, c])
    product = emitter.binary("fmul", a, b)
    signed_zero = _zero_sign(emitter, plain, product, c, mode, plain)
    regular = emitter.and_(_finite(emitter, a, b, c), emitter.and_(_nonzero(emitter, a), _nonzero(emitter, b)))
    # A zero sum of a non-zero product is exact cancellation; its sign follows the rounding mode.
    return emitter.select(emitter.and_(regular, _nonzero(emitter, high)), result, signed_zero)
