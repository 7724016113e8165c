"""Exact binary floating point with Python fractions: the reference for everything that is rounded once."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

# Exponent bits, mantissa bits.
LAYOUT = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
CANONICAL = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8000000000000}


@dataclass(frozen=True, slots=True)
class Number:
    """`kind`: nan, inf or finite; zero keeps its sign."""

    kind: str
    negative: bool
    magnitude: Fraction = Fraction(0)

    @property
    def value(self) -> Fraction:
        return -self.magnitude if self.negative else self.magnitude

    @property
    def is_zero(self) -> bool:
        return self.kind == "finite" and self.magnitude == 0


NAN = Number("nan", False)


def decode(bits: int, name: str) -> Number:
    exponent_bits, mantissa_bits = LAYOUT[name]
    negative = bool(bits >> (exponent_bits + mantissa_bits) & 1)
    exponent = bits >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = bits & (1 << mantissa_bits) - 1
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1:
        return NAN if mantissa else Number("inf", negative)
    if exponent == 0:
        return Number("finite", negative, Fraction(mantissa) * Fraction(2) ** (1 - bias - mantissa_bits))
    scale = Fraction(2) ** (exponent - bias - mantissa_bits)
    return Number("finite", negative, (mantissa + (1 << mantissa_bits)) * scale)


def flush(number: Number, name: str) -> Number:
    """Subnormals to zero."""
    exponent_bits, _ = LAYOUT[name]
    least = Fraction(2) ** (2 - (1 << (exponent_bits - 1)))
    if number.kind == "finite" and number.magnitude < least:
        return Number("finite", number.negative)
    return number


def flush_unrounded(number: Number, name: str, mode: str) -> Number:
    """Flush as NVIDIA does: what would be too small if exponents had no lower end, after rounding."""
    exponent_bits, mantissa_bits = LAYOUT[name]
    least = Fraction(2) ** (2 - (1 << (exponent_bits - 1)))
    if number.kind != "finite" or number.is_zero or number.magnitude >= least:
        return number
    quantum = Fraction(2) ** (floor_log2(number.magnitude) - mantissa_bits)
    rounded = round_integer(number.magnitude / quantum, mode, number.negative) * quantum
    return Number("finite", number.negative, rounded if rounded >= least else Fraction(0))


def floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def round_integer(value: Fraction, mode: str, negative: bool) -> int:
    """A non-negative fraction to an integer; rm and rp look at the sign of the whole number."""
    floor = value.numerator // value.denominator
    rest = value - floor
    if rest == 0:
        return floor
    if mode == "rn":
        half = Fraction(1, 2)
        return floor + (rest > half or (rest == half and floor & 1))
    if mode == "rna":
        return floor + (rest >= Fraction(1, 2))
    away = (mode == "rp" and not negative) or (mode == "rm" and negative)
    return floor + away


def encode(number: Number, name: str, mode: str = "rn") -> int:
    """The bits of the number rounded to the format."""
    exponent_bits, mantissa_bits = LAYOUT[name]
    sign = int(number.negative) << (exponent_bits + mantissa_bits)
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    if number.kind == "nan":
        return CANONICAL[name]
    if number.kind == "inf":
        return sign | infinity
    if number.magnitude == 0:
        return sign
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = max(floor_log2(number.magnitude), 1 - bias)
    quantum = Fraction(2) ** (exponent - mantissa_bits)
    mantissa = round_integer(number.magnitude / quantum, mode, number.negative)
    bits = mantissa + ((exponent + bias - 1) << mantissa_bits)
    if bits >= infinity:
        toward = mode == "rz" or (mode == "rm" and not number.negative) or (mode == "rp" and number.negative)
        bits = infinity - 1 if toward else infinity
    return sign | bits


def from_fraction(value: Fraction, zero_negative: bool = False) -> Number:
    return Number("finite", value < 0 if value else zero_negative, abs(value))


def add(a: Number, b: Number, mode: str = "rn") -> Number:
    if a.kind == "nan" or b.kind == "nan":
        return NAN
    if a.kind == "inf" or b.kind == "inf":
        if a.kind == b.kind and a.negative != b.negative:
            return NAN
        return a if a.kind == "inf" else b
    total = a.value + b.value
    if a.is_zero and b.is_zero and a.negative == b.negative:
        return a
    return from_fraction(total, zero_negative=mode == "rm")


def mul(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if a.kind == "nan" or b.kind == "nan":
        return NAN
    if a.kind == "inf" or b.kind == "inf":
        return NAN if a.is_zero or b.is_zero else Number("inf", negative)
    return Number("finite", negative, a.magnitude * b.magnitude)


def fma(a: Number, b: Number, c: Number, mode: str = "rn") -> Number:
    return add(mul(a, b), c, mode)


def div(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if a.kind == "nan" or b.kind == "nan" or (a.kind == "inf" and b.kind == "inf") or (a.is_zero and b.is_zero):
        return NAN
    if a.kind == "inf" or b.is_zero:
        return Number("inf", negative)
    if b.kind == "inf":
        return Number("finite", negative)
    return Number("finite", negative, a.magnitude / b.magnitude)


def sqrt(a: Number) -> Number:
    """The root to 200 bits and a sticky bit: enough for any rounding to f64."""
    if a.kind == "nan" or (a.negative and not a.is_zero):
        return NAN
    if a.kind == "inf" or a.is_zero:
        return a
    shift = 2 * (200 - floor_log2(a.magnitude) // 2)
    scaled = a.magnitude * Fraction(2) ** shift
    whole = scaled.numerator // scaled.denominator
    root = isqrt(whole)
    value = Fraction(root)
    if root * root != scaled:
        value += Fraction(1, 2)
    return Number("finite", False, value * Fraction(2) ** (-shift // 2))


def less(a: Number, b: Number) -> bool:
    """Total order of non-NaN numbers with -0 below +0."""
    if a.kind == "inf" or b.kind == "inf":
        rank = {True: -1, False: 1}
        left = rank[a.negative] if a.kind == "inf" else 0
        right = rank[b.negative] if b.kind == "inf" else 0
        return left < right
    if a.is_zero and b.is_zero:
        return a.negative and not b.negative
    return a.value < b.value


def saturate(number: Number) -> Number:
    if number.kind == "nan" or number.negative:
        return Number("finite", False)
    if number.kind == "inf" or number.magnitude > 1:
        return Number("finite", False, Fraction(1))
    return number


def round_to_integral(number: Number, mode: str) -> Number:
    """`rni`, `rzi`, `rmi`, `rpi`."""
    if number.kind != "finite":
        return number
    whole = round_integer(number.magnitude, mode[:2], number.negative)
    return Number("finite", number.negative, Fraction(whole))
