"""The faster stand-ins for NVIDIA's multi-function unit that `CUTTLE_FAST_MATH` allows: within PTX's bounds, other bits.

PTX ISA 9.0, 9.7.3, states for f32: `rcp` 1 ulp, `sqrt` and `rsqrt` relative errors of 2**-23 and 2**-22.9, `ex2` 2 ulp (9.7.3.21), `lg2`
an absolute error of 2**-22 between 1/2 and 2, a relative one of 2**-22 elsewhere, `div.approx` and `div.full` 2 ulp. What these functions
reach is measured by tests/ops/test_fast_math.py. Special values are as in the exact functions. `ftz` as the instruction says.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuttle.lower.emit import Emitter, Value

_ONE = 0x3F800000
_INFINITY = 0x7F800000
_NAN = 0x7FFFFFFF
_LEAST_NORMAL = 0x00800000
_ROOT_OF_HALF = 0x3F3504F3

# Minimax fits; the constant term last. 2**f on [-1/2, 1/2]; log2(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1].
_POWER = (0x39224C77, 0x3AAFA463, 0x3C1D94CB, 0x3D635766, 0x3E75FDF1, 0x3F317218, 0x3F800000)
_LOGARITHM = (
    0x3E045C92,
    0xBE55F229,
    0x3E5C60CF,
    0xBE74677E,
    0x3E936CBF,
    0xBEB8AFCD,
    0x3EF639DF,
    0xBF38AA36,
    0x3FB8AA3B,
)


def _f(emitter: Emitter, bits: int) -> Value:
    return emitter.const("float", bits)


def _flushed(emitter: Emitter, x: Value, ftz: bool) -> Value:
    """Zero of the same sign for a subnormal number."""
    if not ftz:
        return x
    tiny = emitter.fcmp("olt", emitter.intrinsic("llvm.fabs", [x]), _f(emitter, _LEAST_NORMAL))
    zero = emitter.and_(emitter.bitcast(x, "i32"), emitter.const("i32", 1 << 31))
    return emitter.bitcast(emitter.select(tiny, zero, emitter.bitcast(x, "i32")), "float")


def _polynomial(emitter: Emitter, coefficients: Sequence[int], x: Value) -> Value:
    total = _f(emitter, coefficients[0])
    for coefficient in coefficients[1:]:
        total = emitter.intrinsic("llvm.fma", [total, x, _f(emitter, coefficient)])
    return total


def _pick(emitter: Emitter, result: Value, *cases: tuple[Value, int]) -> Value:
    """The number, or the bits of the last case that holds."""
    bits = emitter.bitcast(result, "i32")
    for condition, value in cases:
        bits = emitter.select(condition, emitter.const("i32", value), bits)
    return emitter.bitcast(bits, "float")


def reciprocal(emitter: Emitter, x: Value, ftz: bool) -> Value:
    return quotient(emitter, _f(emitter, _ONE), x, ftz)


def quotient(emitter: Emitter, a: Value, b: Value, ftz: bool) -> Value:
    a, b = _flushed(emitter, a, ftz), _flushed(emitter, b, ftz)
    return _flushed(emitter, emitter.binary("fdiv", a, b), ftz)


def root(emitter: Emitter, x: Value, ftz: bool) -> Value:
    return emitter.intrinsic("llvm.sqrt", [_flushed(emitter, x, ftz)])


def reciprocal_root(emitter: Emitter, x: Value, ftz: bool) -> Value:
    return emitter.binary("fdiv", _f(emitter, _ONE), root(emitter, x, ftz))


def exp2(emitter: Emitter, x: Value, ftz: bool) -> Value:
    low, high = _f(emitter, 0xC3000000), _f(emitter, 0x43000000)  # -128, 128
    small = emitter.fcmp("olt", x, _f(emitter, 0xC2FC0000))  # -126
    scaled = x if ftz else emitter.select(small, emitter.binary("fmul", x, _f(emitter, 0x3F000000)), x)
    bounded = emitter.intrinsic("llvm.minnum", [emitter.intrinsic("llvm.maxnum", [scaled, low]), high])
    whole = emitter.intrinsic("llvm.rint", [bounded])
    power = _polynomial(emitter, _POWER, emitter.binary("fsub", bounded, whole))
    exponent = emitter.shl(emitter.cast("fptosi", whole, "i32"), emitter.const("i32", 23))
    result = emitter.bitcast(emitter.add(emitter.bitcast(power, "i32"), exponent), "float")
    beyond = (emitter.fcmp("oge", x, high), _INFINITY)
    if ftz:
        return _pick(emitter, result, (small, 0), beyond, (emitter.fcmp("uno", x, x), _NAN))
    result = emitter.select(small, emitter.binary("fmul", result, result), result)
    vanishing = emitter.fcmp("olt", x, _f(emitter, 0xC3170000))  # -151
    return _pick(emitter, result, (vanishing, 0), beyond, (emitter.fcmp("uno", x, x), _NAN))


def log2(emitter: Emitter, x: Value, ftz: bool) -> Value:
    def const(value: int) -> Value:
        return emitter.const("i32", value)

    tiny = emitter.fcmp("olt", emitter.intrinsic("llvm.fabs", [x]), _f(emitter, _LEAST_NORMAL))
    scaled = x if ftz else emitter.select(tiny, emitter.binary("fmul", x, _f(emitter, 0x4B800000)), x)
    bits = emitter.bitcast(scaled, "i32")
    whole = emitter.ashr(emitter.sub(bits, const(_ROOT_OF_HALF)), const(23))
    mantissa = emitter.bitcast(emitter.sub(bits, emitter.shl(whole, const(23))), "float")
    part = emitter.binary("fsub", mantissa, _f(emitter, _ONE))
    if not ftz:
        whole = emitter.sub(whole, emitter.select(tiny, const(24), const(0)))
    number = emitter.cast("sitofp", whole, "float")
    result = emitter.intrinsic("llvm.fma", [part, _polynomial(emitter, _LOGARITHM, part), number])
    zero = tiny if ftz else emitter.fcmp("oeq", x, _f(emitter, 0))
    negative = emitter.fcmp("ult", x, _f(emitter, 0))
    return _pick(
        emitter, result,
        (emitter.fcmp("oeq", x, _f(emitter, _INFINITY)), _INFINITY),
        (negative, _NAN),
        (zero, _INFINITY | 1 << 31),
    )  # fmt: skip
