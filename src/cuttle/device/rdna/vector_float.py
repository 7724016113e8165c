"""Floating-point instructions of the vector unit. Functions marked `mode` get the MODE register first; see `arithmetic.py`.

Approximations (`approximate`) are correctly rounded here; hardware's last bit may differ.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna import arithmetic as fp
from cuttle.device.rdna.semantics import vector

Array = NDArray[Any]
U32, I32, F32, F64 = np.uint32, np.int32, np.float32, np.float64
IEEE = 1 << 9  # MODE.IEEE; gfx12 has no such bit and behaves as if it were set

# -- sums and products -------------------------------------------------------------------------------------------------

for _kind in ("f16", "f32", "f64"):
    _dual = " v_dual_{}_f32" if _kind == "f32" else ""
    _two, _three = f"{_kind} = {_kind} {_kind}", f"{_kind} = {_kind} {_kind} {_kind}"
    vector(f"v_add_{_kind}{_dual.format('add')}", _two, mode=True)(fp.add)
    vector(f"v_mul_{_kind}{_dual.format('mul')}", _two, mode=True)(fp.mul)
    vector(f"v_fma_{_kind}", _three, mode=True)(fp.fma)
    if _kind != "f64":

        @vector(f"v_sub_{_kind}{_dual.format('sub')}", _two, mode=True)
        def sub(mode: int, a: Array, b: Array) -> Array:
            return fp.add(mode, a, -b)

        @vector(f"v_subrev_{_kind}{_dual.format('subrev')}", _two, mode=True)
        def sub_reverse(mode: int, a: Array, b: Array) -> Array:
            return fp.add(mode, b, -a)

        vector(f"v_fmac_{_kind}{_dual.format('fmac')}", f"{_kind} = {_kind} {_kind} +{_kind}", mode=True)(fp.fma)
        vector(f"v_fmaak_{_kind}{_dual.format('fmaak')}", _three, mode=True)(fp.fma)
        vector(f"v_fmamk_{_kind}{_dual.format('fmamk')}", _three, mode=True)(fp.fma)


def _zero_wins(a: Array, b: Array) -> Array:
    return (a == 0) | (b == 0)


@vector("v_mul_dx9_zero_f32 v_dual_mul_dx9_zero_f32", "f32 = f32 f32", mode=True)
def mul_dx9(mode: int, a: Array, b: Array) -> Array:
    return np.where(_zero_wins(a, b), F32(0), fp.mul(mode, a, b))


@vector("v_fma_dx9_zero_f32", "f32 = f32 f32 f32", mode=True)
@vector("v_fmac_dx9_zero_f32", "f32 = f32 f32 +f32", mode=True)
def fma_dx9(mode: int, a: Array, b: Array, c: Array) -> Array:
    return np.where(_zero_wins(a, b), c, fp.fma(mode, a, b, c))


@vector("v_mullit_f32", "f32 = f32 f32 f32", mode=True)
def mullit(mode: int, a: Array, b: Array, c: Array) -> Array:
    low = np.finfo(F32).min
    special = (b == low) | (b == -np.inf) | np.isnan(b) | (c <= 0) | np.isnan(c)
    return np.where(special, low, fp.mul(mode, a, b))


# -- minimum and maximum -----------------------------------------------------------------------------------------------


def _less(a: Array, b: Array) -> Array:
    return (a < b) | ((a == 0) & (b == 0) & np.signbit(a) & ~np.signbit(b))


def _min_or_max(mode: int, a: Array, b: Array, smallest: bool) -> Array:
    """The number, if the other is a NaN; gfx11 with MODE.IEEE makes signalling NaNs quiet and answers them."""
    a, b = fp.flush_inputs(mode, a), fp.flush_inputs(mode, b)
    result = np.where(_less(a, b) if smallest else _less(b, a), a, b)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    if nan_a.any() or nan_b.any():
        result = np.where(nan_b, a, np.where(nan_a, b, result))
        if mode & IEEE:
            result = np.where(fp.is_signalling(a), fp.quiet(a), np.where(fp.is_signalling(b), fp.quiet(b), result))
        else:
            result = np.where(nan_a & nan_b, fp.quiet(a), result)
    return result


def minimum_number(mode: int, a: Array, b: Array) -> Array:
    return _min_or_max(mode, a, b, True)


def maximum_number(mode: int, a: Array, b: Array) -> Array:
    return _min_or_max(mode, a, b, False)


def _without_ieee(function: Any) -> Any:
    return lambda mode, *operands: function(mode & ~IEEE, *operands)


def _with_nan(function: Any) -> Any:
    """IEEE 754-2019 minimum and maximum: a NaN operand is the result, signalling ones first."""

    def either(mode: int, a: Array, b: Array) -> Array:
        result = function(mode & ~IEEE, a, b)
        if np.isnan(a).any() or np.isnan(b).any():
            result = np.where(np.isnan(b), fp.quiet(b), result)
            result = np.where(np.isnan(a) & ~(fp.is_signalling(b) & ~fp.is_signalling(a)), fp.quiet(a), result)
        return result

    return either


minimum, maximum = _with_nan(minimum_number), _with_nan(maximum_number)


def _chain(first: Any, second: Any) -> Any:
    return lambda mode, a, b, c: second(mode, first(mode, a, b), c)


def _median(low: Any, high: Any) -> Any:
    def med3(mode: int, a: Array, b: Array, c: Array) -> Array:
        top = high(mode, high(mode, a, b), c)
        rest = np.where(top == a, high(mode, b, c), np.where(top == b, high(mode, a, c), high(mode, a, b)))
        nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
        return np.where(nan, low(mode, low(mode, a, b), c), rest)

    return med3


for _kind in ("f16", "f32", "f64"):
    _two, _three = f"{_kind} = {_kind} {_kind}", f"{_kind} = {_kind} {_kind} {_kind}"
    _dual_min, _dual_max = (" v_dual_min_f32", " v_dual_max_f32") if _kind == "f32" else ("", "")
    vector(f"v_min_{_kind}{_dual_min}", _two, mode=True)(minimum_number)
    vector(f"v_max_{_kind}{_dual_max}", _two, mode=True)(maximum_number)
    _num_min, _num_max = _without_ieee(minimum_number), _without_ieee(maximum_number)
    _dual_min, _dual_max = (" v_dual_min_num_f32", " v_dual_max_num_f32") if _kind == "f32" else ("", "")
    vector(f"v_min_num_{_kind}{_dual_min}", _two, mode=True)(_num_min)
    vector(f"v_max_num_{_kind}{_dual_max}", _two, mode=True)(_num_max)
    vector(f"v_minimum_{_kind}", _two, mode=True)(minimum)
    vector(f"v_maximum_{_kind}", _two, mode=True)(maximum)
    if _kind == "f64":
        continue
    for _suffix, _low, _high in (("", minimum_number, maximum_number), ("_num", _num_min, _num_max)):
        vector(f"v_min3{_suffix}_{_kind}", _three, mode=True)(_chain(_low, _low))
        vector(f"v_max3{_suffix}_{_kind}", _three, mode=True)(_chain(_high, _high))
        vector(f"v_med3{_suffix}_{_kind}", _three, mode=True)(_median(_low, _high))
        vector(f"v_minmax{_suffix}_{_kind}", _three, mode=True)(_chain(_low, _high))
        vector(f"v_maxmin{_suffix}_{_kind}", _three, mode=True)(_chain(_high, _low))
    vector(f"v_minimum3_{_kind}", _three, mode=True)(_chain(minimum, minimum))
    vector(f"v_maximum3_{_kind}", _three, mode=True)(_chain(maximum, maximum))
    vector(f"v_minimummaximum_{_kind}", _three, mode=True)(_chain(minimum, maximum))
    vector(f"v_maximumminimum_{_kind}", _three, mode=True)(_chain(maximum, minimum))


# -- rounding to integers, parts ---------------------------------------------------------------------------------------


def _rounds(function: Any) -> Any:
    def apply(mode: int, x: Array) -> Array:
        x = fp.flush_inputs(mode, x)
        return fp.fix_nans(function(x), x)

    return apply


def _fraction(mode: int, x: Array) -> Array:
    """x - floor(x), below 1 always: hardware's largest result is the number before 1."""
    result = fp.add(mode, x, -np.floor(x))
    below_one = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    return np.where(result >= 1, below_one, result)


def exponent_bits(x: Array) -> Array:
    """The biased exponent field (int32)."""
    mantissa, mask = {2: (10, 31), 4: (23, 255), 8: (52, 2047)}[x.dtype.itemsize]
    bits = fp.bits_of(x)
    return (bits >> bits.dtype.type(mantissa)).astype(I32) & I32(mask)


for _kind in ("f16", "f32", "f64"):
    _one = f"{_kind} = {_kind}"
    vector(f"v_trunc_{_kind}", _one, mode=True)(_rounds(np.trunc))
    vector(f"v_ceil_{_kind}", _one, mode=True)(_rounds(np.ceil))
    vector(f"v_floor_{_kind}", _one, mode=True)(_rounds(np.floor))
    vector(f"v_rndne_{_kind}", _one, mode=True)(_rounds(np.rint))
    vector(f"v_fract_{_kind}", _one, mode=True)(_fraction)

    @vector(f"v_frexp_mant_{_kind}", _one, mode=True)
    def frexp_mantissa(mode: int, x: Array) -> Array:
        x = fp.flush_inputs(mode, x)
        return fp.quiet(np.where(np.isfinite(x), np.frexp(x)[0], x))

    @vector(
        f"v_frexp_exp_{'i16' if _kind == 'f16' else 'i32'}_{_kind}",
        f"{'i16' if _kind == 'f16' else 'i32'} = {_kind}",
        mode=True,
    )
    def frexp_exponent(mode: int, x: Array) -> Array:
        x = fp.flush_inputs(mode, x)
        exponent = np.where(np.isfinite(x), np.frexp(np.where(np.isfinite(x), x, x.dtype.type(0)))[1], 0)
        return exponent.astype(np.int16 if x.dtype == fp.F16 else I32)


vector("v_ldexp_f32", "f32 = f32 i32", mode=True)(fp.ldexp)
vector("v_ldexp_f64", "f64 = f64 i32", mode=True)(fp.ldexp)
vector("v_ldexp_f16", "f16 = f16 i16", mode=True)(fp.ldexp)


# -- approximations ----------------------------------------------------------------------------------------------------


def _approximation(function: Any, *, flush_in: bool = True, flush_out: bool = True) -> Any:
    """Computed in f64 and rounded. The f32 forms know no denormals, whatever the mode says (why LLVM scales around them)."""

    def apply(mode: int, x: Array) -> Array:
        if x.dtype == fp.F32:
            if flush_in:
                x = fp.flush(x)
        else:
            x = fp.flush_inputs(mode, x)
        result = function(x.astype(F64)).astype(x.dtype)
        if x.dtype == fp.F32:
            if flush_out:
                result = fp.flush(result)
        else:
            result = fp.flush_result(mode, result)
        return fp.fix_nans(result, x)

    return apply


def _sine(x: Array) -> Array:
    return _turns(x, np.sin)


def _cosine(x: Array) -> Array:
    return _turns(x, np.cos)


def _turns(x: Array, function: Any) -> Array:
    """Of x turns. Hardware is good for |x| <= 256."""
    return np.asarray(function((x - np.rint(x)) * (2 * np.pi)))


_FUNCTIONS = {
    "exp": np.exp2, "log": np.log2, "rcp": lambda x: 1.0 / x, "rsq": lambda x: 1.0 / np.sqrt(x), "sqrt": np.sqrt,
    "sin": _sine, "cos": _cosine,
}  # fmt: skip
for _name, _function in _FUNCTIONS.items():
    for _kind in ("f16", "f32"):
        _scalar = f" v_s_{_name}_{_kind}" if _name not in ("sin", "cos") else ""
        vector(f"v_{_name}_{_kind}{_scalar}", f"{_kind} = {_kind}", mode=True, approximate=True)(
            _approximation(_function)
        )
for _name in ("rcp", "rsq", "sqrt"):
    vector(f"v_{_name}_f64", "f64 = f64", mode=True, approximate=True)(_approximation(_FUNCTIONS[_name]))
vector("v_rcp_iflag_f32", "f32 = f32", mode=True, approximate=True)(_approximation(_FUNCTIONS["rcp"]))


@cache
def _two_over_pi() -> int:
    """The first 1201 bits of the fraction 2 / pi (Machin's formula for pi)."""
    one = 1 << 1400

    def arctangent(inverse: int) -> int:
        total, term, n = 0, one // inverse, 0
        while term:
            total += (-1) ** n * (term // (2 * n + 1))
            term //= inverse * inverse
            n += 1
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    return (2 * one << 1201) // pi


@vector("v_trig_preop_f64", "f64 = f64 u32", mode=True)
def trig_preop(mode: int, x: Array, segment: Array) -> Array:
    exponent, segment = np.broadcast_arrays(exponent_bits(x), segment)
    result = np.zeros(exponent.shape, F64)
    flat = result.reshape(-1)
    for index, (e, n) in enumerate(zip(exponent.reshape(-1).tolist(), segment.reshape(-1).tolist(), strict=True)):
        shift = (n & 31) * 53 + max(0, e - 1077)
        part = (_two_over_pi() << shift) >> (1201 - 53) & (1 << 53) - 1
        flat[index] = np.ldexp(float(part), -53 - shift + (128 if e >= 1968 else 0))
    return result


# -- division ----------------------------------------------------------------------------------------------------------


@vector("v_div_scale_f32", "f32 m = f32 f32 f32", mode=True)
@vector("v_div_scale_f64", "f64 m = f64 f64 f64", mode=True)
def div_scale(mode: int, value: Array, denominator: Array, numerator: Array) -> tuple[Array, Array]:
    """Scales numerator or denominator so that the steps of a division stay in range; the mask makes v_div_fmas scale back.

    Where AMD's text leaves a choice, the one with which the published division sequence gives correctly rounded quotients: a denominator whose
    reciprocal and quotient would both be denormal is scaled down, and a quotient counts as denormal by the difference of the exponents.
    """
    value, denominator, numerator = (fp.flush_inputs(mode, x) for x in (value, denominator, numerator))
    gap, tiny, by, bias = (768, 53, 128, 1023) if value.dtype == fp.F64 else (96, 23, 64, 127)
    en, ed = exponent_bits(numerator), exponent_bits(denominator)
    denormal = (ed == 0) & (denominator != 0)
    small_quotient = en - ed <= 1 - bias
    small_reciprocal = (ed >= 2 * bias - 1) & (ed <= 2 * bias)
    up, down = (fp.ldexp(mode | 0xF0, value, np.full(value.shape, n)) for n in (by, -by))
    is_denominator, is_numerator = value == denominator, value == numerator
    rules = [  # condition, value, mask
        ((numerator == 0) | (denominator == 0), np.full((1, 1), np.nan, value.dtype), True),
        (en - ed >= gap, np.where(is_denominator, up, value), True),
        (denormal, up, False),
        (small_reciprocal & small_quotient, np.where(is_denominator, down, value), True),
        (small_reciprocal, down, False),
        (small_quotient, np.where(is_numerator, up, value), True),
        (en <= tiny, up, False),
    ]
    shape = np.broadcast_shapes(value.shape, denominator.shape, numerator.shape)
    conditions = [np.broadcast_to(condition, shape) for condition, _, _ in rules]
    result = np.select(conditions, [np.broadcast_to(x, shape) for _, x, _ in rules], np.broadcast_to(value, shape))
    flags = np.select(conditions, [np.full(shape, flag) for _, _, flag in rules], False)
    return fp.fix_nans(result.astype(value.dtype)), flags


@vector("v_div_fmas_f32", "f32 = f32 f32 f32 vcc", mode=True)
@vector("v_div_fmas_f64", "f64 = f64 f64 f64 vcc", mode=True)
def div_fmas(mode: int, a: Array, b: Array, c: Array, scaled: Array) -> Array:
    """fma, scaled back by 2**64 (f64: 2**128): up if the addend is 2 or more, else down. (AMD's text names half the power and one direction;
    this is what hardware does, as published test programs for RDNA3 cards show.)"""
    if not scaled.any():
        return fp.fma(mode, a, b, c)
    power, bias = (128, 1023) if a.dtype == fp.F64 else (64, 127)
    by = np.where(scaled, np.where(exponent_bits(c) > bias, power, -power), 0)
    return fp.scaled_fma(mode, a, b, c, by)


@vector("v_div_fixup_f32", "f32 = f32 f32 f32", mode=True)
@vector("v_div_fixup_f64", "f64 = f64 f64 f64", mode=True)
@vector("v_div_fixup_f16", "f16 = f16 f16 f16", mode=True)
def div_fixup(mode: int, quotient: Array, denominator: Array, numerator: Array) -> Array:
    """The quotient with the special cases of IEEE division put in."""
    denominator, numerator = fp.flush_inputs(mode, denominator), fp.flush_inputs(mode, numerator)
    dtype = quotient.dtype.type
    negative = np.signbit(denominator) ^ np.signbit(numerator)
    sign = np.where(negative, dtype(-1), dtype(1))
    result = np.copysign(quotient, sign)
    zero_over, infinite_over = numerator == 0, np.isinf(numerator)
    by_zero, by_infinity = denominator == 0, np.isinf(denominator)
    if quotient.dtype != fp.F16:
        wide = quotient.dtype == fp.F64
        gap = exponent_bits(numerator) - exponent_bits(denominator)
        result = np.where(gap < (-1075 if wide else -150), np.copysign(dtype(0), sign), result)
    # An estimate that is a NaN (its denominator was scaled out of range) stands for an overflow.
    result = np.where(by_zero | infinite_over | np.isnan(quotient), np.copysign(dtype(np.inf), sign), result)
    result = np.where((by_infinity | zero_over) & ~(by_zero | infinite_over), np.copysign(dtype(0), sign), result)
    bad = (by_zero & zero_over) | (by_infinity & infinite_over)
    nan = bad | np.isnan(numerator) | np.isnan(denominator)
    if nan.any():
        invalid = np.copysign(fp.fix_nans(np.full(result.shape, np.nan, result.dtype)), dtype(-1))
        result = np.where(bad, invalid, result)
        result = np.where(np.isnan(denominator), fp.quiet(denominator), result)
        result = np.where(np.isnan(numerator), fp.quiet(numerator), result)
    return result.astype(quotient.dtype)


# -- cube maps ---------------------------------------------------------------------------------------------------------


def _faces(x: Array, y: Array, z: Array) -> tuple[Array, Array]:
    is_z = (np.abs(z) >= np.abs(x)) & (np.abs(z) >= np.abs(y))
    return is_z, ~is_z & (np.abs(y) >= np.abs(x))


@vector("v_cubeid_f32", "f32 = f32 f32 f32")
def cube_face(x: Array, y: Array, z: Array) -> Array:
    is_z, is_y = _faces(x, y, z)
    return np.where(is_z, np.where(z < 0, 5, 4), np.where(is_y, np.where(y < 0, 3, 2), np.where(x < 0, 1, 0))).astype(
        F32
    )


@vector("v_cubesc_f32", "f32 = f32 f32 f32")
def cube_s(x: Array, y: Array, z: Array) -> Array:
    is_z, is_y = _faces(x, y, z)
    return np.where(is_z, np.where(z < 0, -x, x), np.where(is_y, x, np.where(x < 0, z, -z)))


@vector("v_cubetc_f32", "f32 = f32 f32 f32")
def cube_t(x: Array, y: Array, z: Array) -> Array:
    is_z, is_y = _faces(x, y, z)
    return np.where(~is_z & is_y, np.where(y < 0, -z, z), -y)


@vector("v_cubema_f32", "f32 = f32 f32 f32")
def cube_major(x: Array, y: Array, z: Array) -> Array:
    is_z, is_y = _faces(x, y, z)
    return np.where(is_z, z, np.where(is_y, y, x)) * F32(2)


# -- dot products ------------------------------------------------------------------------------------------------------


def halves(word: Array) -> tuple[Array, Array]:
    """The two f16 of words."""
    return word.astype(np.uint16).view(np.float16), (word >> U32(16)).astype(np.uint16).view(np.float16)


def bfloat_halves(word: Array) -> tuple[Array, Array]:
    """The two bfloat16 of words, as f32."""
    return (word << U32(16)).view(F32), (word & U32(0xFFFF0000)).view(F32)


def _dot2(parts: Any) -> Any:
    """c + a0 * b0 + a1 * b1, from the left, one rounding a step; hardware's inner precision is not published."""

    def dot(mode: int, a: Array, b: Array, c: Array) -> Array:
        (a0, a1), (b0, b1) = ((x.astype(c.dtype) for x in parts(word)) for word in (a, b))
        return fp.fma(mode, a1, b1, fp.fma(mode, a0, b0, c))

    return dot


vector("v_dot2acc_f32_f16 v_dual_dot2acc_f32_f16", "f32 = p32 p32 +f32", mode=True, approximate=True)(_dot2(halves))
vector("v_dual_dot2acc_f32_bf16", "f32 = p32 p32 +f32", mode=True, approximate=True)(_dot2(bfloat_halves))
vector("v_dot2_f16_f16", "f16 = p32 p32 f16", mode=True, approximate=True)(_dot2(halves))
