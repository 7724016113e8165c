"""The `.approx` functions on f32: range reduction and polynomials without library calls.

Accuracy is that of the PTX manual's bounds or better; the bit patterns of NVIDIA's tables are not reproduced yet.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from cuttle.lower.emit import Emitter, Value


def f32(emitter: Emitter, value: float) -> Value:
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return emitter.const("float", bits)


def f64(emitter: Emitter, value: float) -> Value:
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return emitter.const("double", bits)


def fma(emitter: Emitter, a: Value, b: Value, c: Value) -> Value:
    return emitter.intrinsic("llvm.fma", [a, b, c])


def horner(emitter: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with the coefficients, highest power first, in x's type."""
    make = f32 if x.type == "float" else f64
    result = make(emitter, coefficients[0])
    for coefficient in coefficients[1:]:
        result = fma(emitter, result, x, make(emitter, coefficient))
    return result


def reciprocal(emitter: Emitter, x: Value) -> Value:
    return emitter.binary("fdiv", f32(emitter, 1.0) if x.type == "float" else f64(emitter, 1.0), x)


def divide(emitter: Emitter, a: Value, b: Value) -> Value:
    """`div.approx.f32`: a * (1/b) with the reciprocal flushed, so 0 (or NaN for infinite a) above |b| = 2**126."""
    inverse = reciprocal(emitter, b)
    bits = emitter.bitcast(inverse, "i32")
    tiny = emitter.icmp("eq", emitter.and_(bits, emitter.const("i32", 0x7F800000)), emitter.const("i32", 0))
    flushed = emitter.select(tiny, emitter.and_(bits, emitter.const("i32", 1 << 31)), bits)
    return emitter.binary("fmul", a, emitter.bitcast(flushed, "float"))


def reciprocal_root(emitter: Emitter, x: Value) -> Value:
    return reciprocal(emitter, emitter.intrinsic("llvm.sqrt", [x]))


# ln(2)**k / k!: on [-0.5, 0.5] the neglected term is below 2**-27.
_EXP2 = (
    1.525273380405984e-05, 0.00015403530393381608, 0.0013333558146428443, 0.009618129107628477, 0.05550410866482158,
    0.2402265069591007, 0.6931471805599453, 1.0,
)  # fmt: skip


def exp2(emitter: Emitter, x: Value) -> Value:
    """2**x in float: 2**round(x) times a polynomial of the rest; subnormal results are rounded once."""
    low, high = f32(emitter, -160.0), f32(emitter, 160.0)
    bounded = emitter.select(emitter.fcmp("ogt", x, low), x, low)
    bounded = emitter.select(emitter.fcmp("olt", bounded, high), bounded, high)
    whole = emitter.intrinsic("llvm.rint", [bounded])
    rest = emitter.binary("fsub", bounded, whole)
    fraction = horner(emitter, rest, _EXP2)
    exponent = emitter.cast("fptosi", whole, "i32")
    # Two factors keep both powers normal; the second product rounds into the subnormals or to infinity.
    half = emitter.ashr(exponent, emitter.const("i32", 1))
    other = emitter.sub(exponent, half)
    result = emitter.binary("fmul", fraction, power_of_two(emitter, half))
    result = emitter.binary("fmul", result, power_of_two(emitter, other))
    return emitter.select(emitter.fcmp("uno", x, x), x, result)


def power_of_two(emitter: Emitter, exponent: Value) -> Value:
    """2**exponent as float, for -126 <= exponent <= 127."""
    field = emitter.add(exponent, emitter.const("i32", 127))
    return emitter.bitcast(emitter.shl(field, emitter.const("i32", 23)), "float")


# atanh series of log2 in s = (m - 1) / (m + 1): 2/ln(2) * s**(2k) / (2k + 1), evaluated in double.
_LOG2 = tuple(2.8853900817779268 / (2 * k + 1) for k in reversed(range(8)))


def log2(emitter: Emitter, x: Value) -> Value:
    """log2(x) in float, computed in double on a mantissa in [sqrt(1/2), sqrt(2))."""
    wide = emitter.cast("fpext", x, "double")
    bits = emitter.bitcast(wide, "i64")
    offset = emitter.sub(bits, emitter.const("i64", 0x3FE6A09E667F3BCD))
    exponent = emitter.ashr(offset, emitter.const("i64", 52))
    mantissa = emitter.sub(bits, emitter.shl(exponent, emitter.const("i64", 52)))
    m = emitter.bitcast(mantissa, "double")
    one = f64(emitter, 1.0)
    s = emitter.binary("fdiv", emitter.binary("fsub", m, one), emitter.binary("fadd", m, one))
    series = horner(emitter, emitter.binary("fmul", s, s), _LOG2)
    number = emitter.cast("sitofp", emitter.cast("trunc", exponent, "i32"), "double")
    result = emitter.cast("fptrunc", fma(emitter, s, series, number), "float")
    infinity = emitter.const("float", 0x7F800000)
    result = emitter.select(emitter.fcmp("oeq", x, infinity), infinity, result)
    zero = emitter.const("float", 0)
    result = emitter.select(emitter.fcmp("oeq", x, zero), emitter.const("float", 0xFF800000), result)
    return emitter.select(emitter.fcmp("ult", x, zero), emitter.const("float", 0x7FFFFFFF), result)


def _quarter_series() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """sin(pi/2 * r) / r and cos(pi/2 * r) in r**2, for |r| up to 1/2: Taylor, error far below float's."""
    half_pi = 1.5707963267948966
    sine: list[float] = []
    cosine: list[float] = []
    term = 1.0
    for power in range(16):
        sign = -1.0 if power % 4 in (2, 3) else 1.0
        (cosine if power % 2 == 0 else sine).append(sign * term)
        term = term * half_pi / (power + 1)
    return tuple(reversed(sine)), tuple(reversed(cosine))


def sine(emitter: Emitter, x: Value, shift: int) -> Value:
    """sin(x) for shift 0, cos(x) for shift 1: x in turns by one float multiplication, as the hardware reduces it."""
    turns = emitter.binary("fmul", x, f32(emitter, 0.15915493667125702))
    wide = emitter.binary("fmul", emitter.cast("fpext", turns, "double"), f64(emitter, 4.0))
    quadrant = emitter.intrinsic("llvm.rint", [wide])
    rest = emitter.binary("fsub", wide, quadrant)
    # Quadrant modulo 4 in floating point: the number may exceed any integer.
    cycles = emitter.intrinsic("llvm.floor", [emitter.binary("fmul", quadrant, f64(emitter, 0.25))])
    phase = fma(emitter, cycles, f64(emitter, -4.0), quadrant)
    finite = emitter.fcmp("olt", emitter.intrinsic("llvm.fabs", [x]), emitter.const("float", 0x7F800000))
    phase = emitter.select(finite, phase, f64(emitter, 0.0))
    index = emitter.add(emitter.cast("fptosi", phase, "i32"), emitter.const("i32", shift))
    sine_series, cosine_series = _quarter_series()
    square = emitter.binary("fmul", rest, rest)
    odd_part = emitter.binary("fmul", rest, horner(emitter, square, sine_series))
    even_part = horner(emitter, square, cosine_series)
    one, two, zero = emitter.const("i32", 1), emitter.const("i32", 2), emitter.const("i32", 0)
    is_odd = emitter.icmp("ne", emitter.and_(index, one), zero)
    value = emitter.cast("fptrunc", emitter.select(is_odd, even_part, odd_part), "float")
    negate = emitter.icmp("ne", emitter.and_(index, two), zero)
    value = emitter.select(negate, emitter.fneg(value), value)
    if shift == 0:  # the subtraction above loses the sign of zero
        value = emitter.select(emitter.fcmp("oeq", turns, emitter.const("float", 0)), turns, value)
    return emitter.select(finite, value, emitter.const("float", 0x7FFFFFFF))


def tanh(emitter: Emitter, x: Value) -> Value:
    """tanh(x) in float, from exp2 in double precision: (1 - t) / (1 + t) with t = 2**(-2 log2(e) |x|)."""
    magnitude = emitter.intrinsic("llvm.fabs", [x])
    wide = emitter.cast("fpext", magnitude, "double")
    bounded = emitter.select(emitter.fcmp("olt", wide, f64(emitter, 20.0)), wide, f64(emitter, 20.0))
    t = exp2_double(emitter, emitter.binary("fmul", bounded, f64(emitter, -2.8853900817779268)))
    one = f64(emitter, 1.0)
    quotient = emitter.binary("fdiv", emitter.binary("fsub", one, t), emitter.binary("fadd", one, t))
    # Below 2**-12 the quotient cancels; there x itself is tanh(x) to float precision.
    small = emitter.fcmp("olt", magnitude, f32(emitter, 2.0**-12))
    result = emitter.select(small, magnitude, emitter.cast("fptrunc", quotient, "float"))
    sign = emitter.and_(emitter.bitcast(x, "i32"), emitter.const("i32", 1 << 31))
    signed = emitter.bitcast(emitter.or_(emitter.bitcast(result, "i32"), sign), "float")
    return emitter.select(emitter.fcmp("uno", x, x), x, signed)


def exp2_double(emitter: Emitter, x: Value) -> Value:
    """2**x in double for |x| below 1000, relative error below 2**-44."""
    whole = emitter.intrinsic("llvm.rint", [x])
    rest = emitter.binary("fsub", x, whole)
    series: list[float] = []
    term = 1.0
    for power in range(12):
        series.append(term)
        term = term * 0.6931471805599453 / (power + 1)
    fraction = horner(emitter, rest, series[::-1])
    exponent = emitter.cast("sext", emitter.cast("fptosi", whole, "i32"), "i64")
    field = emitter.shl(emitter.add(exponent, emitter.const("i64", 1023)), emitter.const("i64", 52))
    return emitter.binary("fmul", fraction, emitter.bitcast(field, "double"))
