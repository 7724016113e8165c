"""IEEE arithmetic on NumPy arrays with the rounding and denormal modes of a wave.

The mode word is the MODE register: bits 1:0 rounding of f32, 3:2 of f64 and f16 (0 nearest even, 1 up, 2 down, 3 to zero),
bits 5:4 denormals of f32, 7:6 of f64 and f16 (bit 0: inputs kept, bit 1: results kept). AMD, RDNA3 Instruction Set Architecture,
section "MODE register".

Exact sums of several terms are rounded *to odd* in f64, which makes a second rounding to f32 or f16 harmless in every direction
(Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NEAREST, UP, DOWN, TO_ZERO = range(4)
DEFAULT_MODE = 0xF0
F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
_BITS: dict[Any, Any] = {F16: np.uint16, F32: np.uint32, F64: np.uint64}
_QUIET = {F16: np.uint16(0x200), F32: np.uint32(0x400000), F64: np.uint64(1 << 51)}
_NAN = {F16: np.uint16(0x7E00), F32: np.uint32(0x7FC00000), F64: np.uint64(0x7FF8 << 48)}
_TINY = {F16: np.float16(2.0**-14), F32: np.float32(2.0**-126), F64: np.float64(2.0**-1022)}


def bits_of(x: Array) -> Array:
    """The bit pattern of floats."""
    return np.asarray(x).view(_BITS[x.dtype])


def rounding(mode: int, dtype: Any) -> int:
    return mode & 3 if dtype == F32 else mode >> 2 & 3


def flush_inputs(mode: int, x: Array) -> Array:
    """Denormal inputs become zeros of their sign, if the mode says so."""
    if mode >> (4 if x.dtype == F32 else 6) & 1:
        return x
    return flush(x)


def flush_result(mode: int, x: Array) -> Array:
    if mode >> (5 if x.dtype == F32 else 7) & 1:
        return x
    return flush(x)


def flush(x: Array) -> Array:
    """Denormals become zeros of their sign."""
    return np.where(np.abs(x) < _TINY[x.dtype], np.copysign(x.dtype.type(0), x), x)


def fix_nans(result: Array, *operands: Array) -> Array:
    """NaN results: the first NaN operand made quiet, else the default NaN (positive, quiet)."""
    nan = np.isnan(result)
    if not nan.any():
        return result
    dtype = result.dtype
    bits = np.full(result.shape, _NAN[dtype])
    for operand in reversed(operands):
        if operand.dtype == dtype:
            bits = np.where(np.isnan(operand), bits_of(operand) | _QUIET[dtype], bits)
    return np.where(nan, bits, bits_of(result)).view(dtype)


def quiet(x: Array) -> Array:
    """Signalling NaNs made quiet."""
    nan = np.isnan(x)
    if not nan.any():
        return x
    return np.where(nan, bits_of(x) | _QUIET[x.dtype], bits_of(x)).view(x.dtype)


def is_signalling(x: Array) -> Array:
    return np.isnan(x) & ((bits_of(x) & _QUIET[x.dtype]) == 0)


def _next_odd(total: Array, error: Array) -> Array:
    """A nearest-even f64 sum, and its error, to the sum rounded to odd."""
    bits = bits_of(total)
    change = (error != 0) & ((bits & np.uint64(1)) == 0) & np.isfinite(total)
    if not change.any():
        return total
    grow = (error > 0) == (total > 0)
    return np.where(change, np.where(grow, bits + np.uint64(1), bits - np.uint64(1)), bits).view(np.float64)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b in f64, nearest even, and the exact error (Knuth)."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    return total, np.where(np.isfinite(total), error, 0.0)


def odd_sum(a: Array, b: Array) -> Array:
    """a + b in f64, rounded to odd."""
    total, error = two_sum(a, b)
    return _next_odd(total, error)


def narrow(x: Array, dtype: Any, direction: int) -> Array:
    """f64 (exact, or rounded to odd) to f32 or f16 with a rounding direction."""
    near = x.astype(dtype)
    if direction == NEAREST:
        return near
    back = near.astype(np.float64)
    bits = bits_of(near)
    one = bits.dtype.type(1)
    magnitude_up, magnitude_down = bits + one, bits - one
    if direction == TO_ZERO:
        bits = np.where(np.abs(back) > np.abs(x), magnitude_down, bits)
    else:
        wrong = back < x if direction == UP else back > x
        away = x > 0 if direction == UP else x < 0
        # A result rounded to zero on the wrong side becomes the smallest denormal of the right sign.
        bits = np.where(wrong, np.where(away, magnitude_up, magnitude_down), bits)
    return np.where(np.isnan(x), bits_of(near), bits).view(dtype)


def _step(x: Array, error: Array, direction: int) -> Array:
    """An f64 nearest-even result and the sign of what is missing, moved to the other directions."""
    if direction == NEAREST:
        return x
    if direction == UP:
        return np.where(error > 0, np.nextafter(x, np.inf), x)
    if direction == DOWN:
        return np.where(error < 0, np.nextafter(x, -np.inf), x)
    return np.where((error != 0) & ((error > 0) != (x > 0)), np.nextafter(x, 0.0), x)


def _overflow(x: Array, finite_inputs: Array, direction: int) -> Array:
    """Infinities that came of finite operands, for f64 and the directed roundings."""
    if direction == NEAREST:
        return x
    largest = np.finfo(np.float64).max
    over = np.isinf(x) & finite_inputs
    keep = {UP: x > 0, DOWN: x < 0, TO_ZERO: np.zeros(x.shape, bool)}[direction]
    return np.where(over & ~keep, np.copysign(largest, x), x)


def _zero_sign(total: Array, a: Array, b: Array, direction: int) -> Array:
    """x + -x is -0 when rounding down (two zeros of one sign keep it)."""
    if direction != DOWN:
        return total
    minus = (total == 0) & ~((a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b))
    return np.where(minus, np.copysign(total, -1.0), total)


def add(mode: int, a: Array, b: Array) -> Array:
    a, b = flush_inputs(mode, a), flush_inputs(mode, b)
    direction = rounding(mode, a.dtype)
    if direction == NEAREST:
        result = a + b
    elif a.dtype == F64:
        total, error = two_sum(a, b)
        result = _overflow(_step(total, error, direction), np.isfinite(a) & np.isfinite(b), direction)
        result = _zero_sign(result, a, b, direction)
    else:
        wide, other = a.astype(np.float64), b.astype(np.float64)
        result = narrow(_zero_sign(odd_sum(wide, other), wide, other, direction), a.dtype, direction)
    return flush_result(mode, fix_nans(result, a, b))


def mul(mode: int, a: Array, b: Array) -> Array:
    a, b = flush_inputs(mode, a), flush_inputs(mode, b)
    direction = rounding(mode, a.dtype)
    if direction == NEAREST:
        result = a * b
    elif a.dtype == F64:
        a, b = np.broadcast_arrays(a, b)
        result = _exact_fma(a, b, np.full(a.shape, -0.0), direction, negative_zero=True)
    else:
        result = narrow(a.astype(np.float64) * b.astype(np.float64), a.dtype, direction)
    return flush_result(mode, fix_nans(result, a, b))


def fma(mode: int, a: Array, b: Array, c: Array) -> Array:
    """a * b + c with one rounding."""
    a, b, c = flush_inputs(mode, a), flush_inputs(mode, b), flush_inputs(mode, c)
    direction = rounding(mode, a.dtype)
    if a.dtype == F64:
        a, b, c = np.broadcast_arrays(a, b, c)
        result = _fma64(a, b, c, direction)
    else:
        result = fma_narrow(a, b, c, a.dtype, direction)
    return flush_result(mode, fix_nans(result, a, b, c))


def scaled_fma(mode: int, a: Array, b: Array, c: Array, exponent: Array) -> Array:
    """(a * b + c) * 2**exponent with one rounding."""
    a, b, c = flush_inputs(mode, a), flush_inputs(mode, b), flush_inputs(mode, c)
    a, b, c, exponent = np.broadcast_arrays(a, b, c, exponent)
    direction = rounding(mode, a.dtype)
    if a.dtype != F64:
        scale = np.ldexp(1.0, exponent.astype(np.int32))
        result = narrow(odd_sum(a.astype(np.float64) * b * scale, c.astype(np.float64) * scale), a.dtype, direction)
        return flush_result(mode, fix_nans(result, a, b, c))
    plain = _fma64(a, b, c, direction)
    result = np.array(np.ldexp(plain, exponent.astype(np.int32)))
    again = np.isfinite(plain) & (plain != 0) & ((np.abs(result) < 2.0**-1021) | (np.abs(plain) < 2.0**-1021))
    for index in np.flatnonzero(again.reshape(-1)).tolist():
        x, y, z, n = (float(v.reshape(-1)[index]) for v in (a, b, c, exponent))
        exact = (Fraction(x) * Fraction(y) + Fraction(z)) * Fraction(2) ** int(n)
        result.reshape(-1)[index] = round_fraction(exact, direction)
    return flush_result(mode, fix_nans(result, a, b, c))


def fma_narrow(a: Array, b: Array, c: Array, dtype: Any, direction: int) -> Array:
    """Exact a * b + c of f32 or f16 values, rounded once to `dtype`."""
    product = a.astype(np.float64) * b
    addend = c.astype(np.float64)
    if direction == NEAREST and dtype == F32:
        total = product + addend
        near = total.astype(np.float32)
        # Rounding twice goes wrong only at the middle between two f32 values, and among denormals.
        middle = (bits_of(total) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
        if not (middle | (np.abs(near) < np.float32(2.0**-125))).any():
            return near
    total = _zero_sign(odd_sum(product, addend), product, addend, direction)
    return narrow(total, dtype, direction)


def _split(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b in f64 and its exact error (Dekker); exponents must be far from the limits."""
    product = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _fma64(a: Array, b: Array, c: Array, direction: int) -> Array:
    product = a * b
    magnitude = np.abs(product)
    easy = (magnitude < 2.0**1000) & (np.abs(a) < 2.0**990) & (np.abs(b) < 2.0**990) & (np.abs(c) < 2.0**1000)
    easy &= (magnitude > 2.0**-900) & ((np.abs(c) > 2.0**-900) | (c == 0))
    if direction != NEAREST:
        easy &= False
    high, low = two_product(a, b)
    th, tl = two_sum(c, low)
    vh, vl = two_sum(high, th)
    result = vh + odd_sum(tl, vl)
    easy &= (np.abs(result) > 2.0**-900) | ((high == -c) & (low == 0))
    if easy.all():
        return result
    hard = ~easy
    # A finite product may have overflowed: beside an infinite addend it does not count.
    result = np.array(np.where(easy, result, np.where(np.isfinite(a) & np.isfinite(b), c, product + c)))
    finite = hard & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    if finite.any():
        result[finite] = _exact_fma(a[finite], b[finite], c[finite], direction)
    return result


def _exact_fma(a: Array, b: Array, c: Array, direction: int, *, negative_zero: bool = False) -> Array:
    """Lane by lane with rational numbers: slow, for what the quick ways cannot do."""
    result = np.array(a * b + c)
    flat = result.reshape(-1)
    for index, (x, y, z) in enumerate(
        zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), c.reshape(-1).tolist(), strict=True)
    ):
        if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
            continue
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact == 0:
            if x * y == 0 or negative_zero:
                flat[index] = x * y if negative_zero else x * y + z
                if direction == DOWN and not negative_zero and math.copysign(1, x * y) != math.copysign(1, z):
                    flat[index] = -0.0
            else:
                flat[index] = -0.0 if direction == DOWN else 0.0
        else:
            flat[index] = round_fraction(exact, direction)
    return result


def round_fraction(exact: Fraction, direction: int) -> float:
    """A rational number to f64 with a rounding direction."""
    negative = exact < 0
    magnitude = -exact if negative else exact
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = max(exponent, -1022) - 52
    scaled = magnitude / Fraction(2) ** unit
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    up = {TO_ZERO: False, UP: rest != 0 and not negative, DOWN: rest != 0 and negative}.get(
        direction, 2 * rest > scaled.denominator or (2 * rest == scaled.denominator and whole & 1 == 1)
    )
    whole += up
    if whole.bit_length() + unit > 1024:
        stay = direction == TO_ZERO or (direction == UP and negative) or (direction == DOWN and not negative)
        value = float(np.finfo(np.float64).max) if stay else math.inf
    else:
        value = math.ldexp(whole, unit)
    return -value if negative else value


def convert(mode: int, x: Array, dtype: Any) -> Array:
    """Between float formats; narrowing uses the rounding of the result's format."""
    x = flush_inputs(mode, x)
    if x.dtype == dtype:
        return x
    if dtype.itemsize > x.dtype.itemsize:
        return fix_widened_nan(x, x.astype(dtype))
    result = narrow(x.astype(np.float64), dtype, rounding(mode, dtype))
    return flush_result(mode, fix_widened_nan(x, result))


def fix_widened_nan(x: Array, result: Array) -> Array:
    """A converted NaN keeps sign and leading payload bits, and is quiet."""
    nan = np.isnan(x)
    if not nan.any():
        return result
    source_bits = {2: (10, 15), 4: (23, 31), 8: (52, 63)}
    (m0, s0), (m1, s1) = source_bits[x.dtype.itemsize], source_bits[result.dtype.itemsize]
    bits = bits_of(x).astype(np.uint64)
    payload = bits & np.uint64((1 << m0) - 1)
    payload = payload << np.uint64(m1 - m0) if m1 >= m0 else payload >> np.uint64(m0 - m1)
    sign = (bits >> np.uint64(s0)) << np.uint64(s1)
    exponent = np.uint64(((1 << (s1 - m1)) - 1) << m1)
    made = (sign | exponent | payload | np.uint64(1 << (m1 - 1))).astype(_BITS[result.dtype]).view(result.dtype)
    return np.where(nan, made, result)


def ldexp(mode: int, x: Array, exponent: Array) -> Array:
    """x * 2**exponent with one rounding; the exponent is an integer array."""
    x = flush_inputs(mode, x)
    steps = np.clip(exponent.astype(np.int64), -5000, 5000)
    if x.dtype == F64:
        mantissa, old = np.frexp(x)
        total = old + steps
        result = np.ldexp(mantissa, np.clip(total, -1021, 1100).astype(np.int32))
        low = total < -1021  # the result is a denormal: one rounding, by the product with a power of two
        if low.any():
            scale = np.ldexp(1.0, np.clip(total + 1021, -1000, 0).astype(np.int32))
            result = np.where(low, mul(mode | 0xC0, np.ldexp(mantissa, np.int32(-1021)), scale), result)
        result = np.where(np.isfinite(x) & (x != 0), result, x)
        direction = rounding(mode, F64)
        result = _overflow(result, np.isfinite(x), direction)
    else:
        wide = np.ldexp(x.astype(np.float64), np.clip(steps, -900, 900).astype(np.int32))
        result = narrow(wide, x.dtype, rounding(mode, x.dtype))
    return flush_result(mode, fix_nans(result, x))
