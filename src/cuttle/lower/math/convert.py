"""Conversions between number formats with every rounding mode, in software where LLVM's casts do not reach."""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.math.exact import adjust_direction, narrow_double, narrow_double_to_odd
from cuttle.lower.ops.element_types import narrow_bf16

INTEGRAL = {"rni": "llvm.roundeven", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}


def power(emitter: Emitter, kind: str, exponent: int, negative: bool = False) -> Value:
    """2**exponent as a constant of the float type."""
    fraction, bias, sign = {"float": (23, 127, 31), "double": (52, 1023, 63)}[kind]
    return emitter.const(kind, (exponent + bias) << fraction | (1 << sign if negative else 0))


def to_integer(emitter: Emitter, value: Value, bits: int, signed: bool, nan: int) -> Value:
    """An integral float or double to an integer of `bits`, clamped to its range; NaN gives `nan`.

    LLVM's saturating casts are taken apart lane by lane on x86, so the range is guarded here.
    """
    kind = value.type
    least = power(emitter, kind, bits - 1, negative=True) if signed else emitter.const(kind, 0)
    limit = power(emitter, kind, bits - 1 if signed else bits)
    width = bits if bits > 32 else 32
    most = (1 << (bits - 1 if signed else bits)) - 1
    bounded = emitter.select(emitter.fcmp("ogt", value, least), value, least)
    big = emitter.fcmp("oge", bounded, limit)
    safe = emitter.select(big, emitter.const(kind, 0), bounded)
    result = emitter.cast("fptosi" if signed else "fptoui", safe, f"i{width}")
    result = emitter.select(big, emitter.const(f"i{width}", most), result)
    result = emitter.resize(result, bits)
    return emitter.select(emitter.fcmp("uno", value, value), emitter.const(f"i{bits}", nan), result)


def integer_to_double_odd(emitter: Emitter, value: Value, signed: bool) -> Value:
    """An integer of up to 64 bits as a double that any format of at most 48 bits can be rounded from.

    Up to 32 bits it is exact; beyond 2**40, the low 16 bits are folded into one sticky bit.
    """
    if value.bits <= 32:
        return emitter.cast("sitofp" if signed else "uitofp", value, "double")

    def const(number: int) -> Value:
        return emitter.const("i64", number)

    negative = emitter.icmp("slt", value, const(0)) if signed else emitter.const("i1", 0)
    magnitude = emitter.select(negative, emitter.neg(value), value)
    big = emitter.icmp("ugt", magnitude, const((1 << 40) - 1))
    sticky = emitter.icmp("ne", emitter.and_(magnitude, const(0xFFFF)), const(0))
    folded = emitter.or_(emitter.lshr(magnitude, const(16)), emitter.cast("zext", sticky, "i64"))
    number = emitter.cast("uitofp", emitter.select(big, folded, magnitude), "double")
    number = emitter.select(big, emitter.binary("fmul", number, power(emitter, "double", 16)), number)
    return emitter.select(negative, emitter.fneg(number), number)


def integer_to_double(emitter: Emitter, value: Value, signed: bool, mode: str) -> Value:
    """An integer to double rounded by `mode`; only 64-bit integers can be inexact."""
    nearest = emitter.cast("sitofp" if signed else "uitofp", value, "double")
    if mode == "rn" or value.bits <= 32:
        return nearest
    # The error nearest - value fits in 64 bits modulo 2**64 also where nearest is 2**63 or 2**64.
    half = emitter.binary("fmul", nearest, power(emitter, "double", -1))
    back = emitter.shl(emitter.cast("fptosi" if signed else "fptoui", half, "i64"), emitter.const("i64", 1))
    # Numbers below 2**53 are exact and may be odd; halving would lose their last bit.
    magnitude = emitter.intrinsic("llvm.fabs", [nearest])
    exact = emitter.fcmp("olt", magnitude, power(emitter, "double", 53))
    error = emitter.select(exact, emitter.const("i64", 0), emitter.sub(value, back))
    zero = emitter.const("i64", 0)
    return adjust_direction(emitter, nearest, emitter.icmp("sgt", error, zero), emitter.icmp("slt", error, zero), mode)


def float_to_half(emitter: Emitter, value: Value, mode: str) -> Value:
    """A float (or one rounded to odd) to half."""
    nearest = emitter.cast("fptrunc", value, "half")
    if mode == "rn":
        return nearest
    back = emitter.cast("fpext", nearest, "float")
    above, below = emitter.fcmp("ogt", value, back), emitter.fcmp("olt", value, back)
    return adjust_direction(emitter, nearest, above, below, mode)


def float_to_bf16(emitter: Emitter, value: Value, mode: str) -> Value:
    """A float (or one rounded to odd) to bf16 (i16); NaN becomes 0x7fff."""
    if mode == "rn":
        return narrow_bf16(emitter, value)
    bits = emitter.bitcast(value, "i32")
    top = emitter.lshr(bits, emitter.const("i32", 16))
    if mode != "rz":
        inexact = emitter.icmp("ne", emitter.and_(bits, emitter.const("i32", 0xFFFF)), emitter.const("i32", 0))
        away = emitter.icmp("slt" if mode == "rm" else "sge", bits, emitter.const("i32", 0))
        top = emitter.add(top, emitter.cast("zext", emitter.and_(inexact, away), "i32"))
    nan = emitter.fcmp("uno", value, value)
    return emitter.cast("trunc", emitter.select(nan, emitter.const("i32", 0x7FFF), top), "i16")


def double_to(emitter: Emitter, value: Value, target: str, mode: str) -> Value:
    """A double to `f32`, `f16` or `bf16`, rounded once."""
    if target == "f32":
        return narrow_double(emitter, value, mode)
    odd = narrow_double_to_odd(emitter, value)
    if target == "f16":
        return float_to_half(emitter, odd, mode)
    result = float_to_bf16(emitter, odd, mode)
    # From f64 a NaN keeps its sign and the top of its payload and becomes quiet, as x86 narrows it to float.
    top = emitter.cast("trunc", emitter.lshr(emitter.bitcast(odd, "i32"), emitter.const("i32", 16)), "i16")
    quiet = emitter.or_(top, emitter.const("i16", 0x40))
    return emitter.select(emitter.fcmp("uno", value, value), quiet, result)


def float_to_tf32(emitter: Emitter, value: Value, mode: str) -> Value:
    """A float to tf32 (i32, the low 13 bits 0): `rna` ties away from zero, `rn` to even, `rz`.

    NaN is 0x7fffe000; `rna` cuts its low bits instead.
    """
    bits = emitter.bitcast(value, "i32")
    half = emitter.const("i32", 0x1000)
    if mode == "rna":
        bits = emitter.select(emitter.fcmp("uno", value, value), bits, emitter.add(bits, half))
    elif mode == "rn":
        odd = emitter.and_(emitter.lshr(bits, emitter.const("i32", 13)), emitter.const("i32", 1))
        bits = emitter.add(emitter.add(bits, emitter.const("i32", 0xFFF)), odd)
    rounded = emitter.and_(bits, emitter.const("i32", 0xFFFFE000))
    if mode == "rna":
        return rounded
    return emitter.select(emitter.fcmp("uno", value, value), emitter.const("i32", 0x7FFFE000), rounded)


# Name: (mantissa bits, exponent bias, code of the largest finite number).
SMALL_FORMATS = {"e4m3": (3, 7, 0x7E), "e5m2": (2, 15, 0x7B)}


def float_to_small(emitter: Emitter, value: Value, name: str) -> Value:
    """A float to an 8-bit format (i8), to nearest even, saturating to the largest finite number; NaN is 0x7f."""
    mantissa, bias, largest = SMALL_FORMATS[name]

    def const(number: int) -> Value:
        return emitter.const("i32", number)

    bits = emitter.bitcast(value, "i32")
    magnitude = emitter.and_(bits, const(0x7FFFFFFF))
    drop = 23 - mantissa
    odd = emitter.and_(emitter.lshr(magnitude, const(drop)), const(1))
    rounded = emitter.add(emitter.add(magnitude, const((1 << (drop - 1)) - 1)), odd)
    normal = emitter.sub(emitter.lshr(rounded, const(drop)), const((127 - bias) << mantissa))
    # Below the least normal number, adding 2**23 quanta rounds to a multiple of the subnormal quantum.
    magic = power(emitter, "float", 1 - bias - mantissa + 23)
    shifted = emitter.binary("fadd", emitter.bitcast(magnitude, "float"), magic)
    subnormal = emitter.sub(emitter.bitcast(shifted, "i32"), emitter.bitcast(magic, "i32"))
    is_small = emitter.icmp("ult", magnitude, emitter.bitcast(power(emitter, "float", 1 - bias), "i32"))
    code = emitter.select(is_small, subnormal, normal)
    code = emitter.intrinsic("llvm.umin", [code, const(largest)])
    code = emitter.or_(code, emitter.and_(emitter.lshr(bits, const(24)), const(0x80)))
    nan = emitter.icmp("ugt", magnitude, const(0x7F800000))
    return emitter.cast("trunc", emitter.select(nan, const(0x7F), code), "i8")


def small_to_half(emitter: Emitter, code: Value, name: str) -> Value:
    """An 8-bit format (i8) to half: exact."""
    wide = emitter.cast("zext", code, "i16")

    def const(number: int) -> Value:
        return emitter.const("i16", number)

    if name == "e5m2":
        bits = emitter.shl(wide, const(8))
        nan = emitter.icmp("ugt", emitter.and_(wide, const(0x7F)), const(0x7C))
        return emitter.bitcast(emitter.select(nan, const(0x7FFF), bits), "half")
    # Place the code as a half whose exponent is off by 8: a multiplication puts it right, subnormals included.
    magnitude = emitter.shl(emitter.and_(wide, const(0x7F)), const(7))
    scaled = emitter.binary("fmul", emitter.cast("fpext", emitter.bitcast(magnitude, "half"), "float"),
                            power(emitter, "float", 8))  # fmt: skip
    number = emitter.bitcast(emitter.cast("fptrunc", scaled, "half"), "i16")
    sign = emitter.shl(emitter.and_(wide, const(0x80)), const(8))
    nan = emitter.icmp("eq", emitter.and_(wide, const(0x7F)), const(0x7F))
    return emitter.bitcast(emitter.select(nan, const(0x7FFF), emitter.or_(number, sign)), "half")
