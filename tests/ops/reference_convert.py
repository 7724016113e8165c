"""Reference of the conversions, from the PTX manual's sections 9.7.9.21 and 9.7.9.22 and what an H200 does with NaNs."""

from __future__ import annotations

from fractions import Fraction

import softfloat as soft
from reference import ELEMENT, Result, clamp, is_float, mode_of, number, width
from softfloat import Number

from cuttle.lower.ops.forms import Form
from cuttle.ptx.ir import Instruction

# Exponent bias, mantissa bits, largest finite code, NaN test.
SMALL = {"e4m3": (7, 3, 0x7E), "e5m2": (15, 2, 0x7B)}
INTEGRAL = ("rni", "rzi", "rmi", "rpi")


def expect_convert(form: Form, operands: tuple[int, ...], carry: int = 0) -> Result | None:
    i = form.instruction
    if i.opcode == "cvt.pack":
        return pack(i, operands)
    target, source = i.types[0], i.types[-1]
    if target in ("e4m3x2", "e5m2x2"):
        parts = [(operands[0] & 0xFFFF, "f16"), (operands[0] >> 16, "f16")]
        if len(operands) == 2:
            parts = [(operands[1], "f32"), (operands[0], "f32")]
        codes = [to_small(soft.decode(bits, name), target[:-2], i.has("relu")) for bits, name in parts]
        return codes[0] | codes[1] << 8
    if source in ("e4m3x2", "e5m2x2"):
        halves = [from_small(operands[0] >> 8 * k & 255, source[:-2], i.has("relu")) for k in (0, 1)]
        return halves[0] | halves[1] << 16
    if target in ELEMENT:
        return (
            to_float(i, ELEMENT[target], source, operands[1]) | to_float(i, ELEMENT[target], source, operands[0]) << 16
        )
    if target == "tf32":
        return to_tf32(i, operands[0])
    if is_float(target):
        return to_float(i, target, source, operands[0])
    return to_integer(i, target, source, operands[0])


def to_integer(i: Instruction, target: str, source: str, a: int) -> int:
    mask = (1 << width(target)) - 1
    if not is_float(source):
        value = number(a, source)
        return (clamp(value, target) if i.has("sat") else value) & mask
    value = soft.decode(a, source)
    if i.has("ftz") and source == "f32":
        value = soft.flush(value, source)
    if value.kind == "nan":
        return 1 << (width(target) - 1) if width(target) == 64 or source == "f64" else 0
    if value.kind == "inf":
        return clamp(-(1 << 70) if value.negative else 1 << 70, target) & mask
    mode = next(m for m in INTEGRAL if i.has(m))
    whole = soft.round_to_integral(value, mode)
    return clamp(int(whole.value), target) & mask


def to_float(i: Instruction, target: str, source: str, a: int) -> int:
    if not is_float(source):
        integer = number(a, source)
        bits = soft.encode(soft.from_fraction(Fraction(integer)), target, mode_of(i))
        return soft.encode(soft.saturate(soft.decode(bits, target)), target) if i.has("sat") else bits
    value = soft.decode(a, source)
    mode = next((m for m in INTEGRAL if i.has(m)), "")
    if value.kind == "nan" and not i.has("sat"):
        if source == target == "f32" and not mode and not i.has("ftz"):
            return a
        if source == "f64" and target != "f64":
            exponent_bits, mantissa_bits = soft.LAYOUT[target]
            payload = a >> (52 - mantissa_bits) & (1 << mantissa_bits) - 1 | 1 << (mantissa_bits - 1)
            return (a >> 63) << (width(target) - 1) | ((1 << exponent_bits) - 1) << mantissa_bits | payload
    if i.has("ftz") and source in ("f32", "bf16") and target != "f16":
        value = soft.flush(value, source)
    if mode:
        value = soft.round_to_integral(value, mode)
    if i.has("sat"):
        value = soft.saturate(value)
    if i.has("relu") and value.kind != "nan" and value.negative:
        value = Number("finite", False)
    if value.kind == "nan" and source == "bf16" and target == "f32" and not i.has("ftz"):
        return a << 16
    if i.has("ftz") and target == "f32" and source == "f64":
        value = soft.flush_unrounded(value, target, mode_of(i))
    bits = soft.encode(value, target, mode_of(i))
    if i.has("satfinite") and soft.decode(bits, target).kind == "inf":
        bits -= 1
    return bits


def to_tf32(i: Instruction, a: int) -> int:
    value = soft.decode(a, "f32")
    if i.has("rna"):
        bits = a + 0x1000 & 0xFFFFE000
        return bits - 0x2000 if i.has("satfinite") and bits & 0x7F800000 == 0x7F800000 else bits
    if value.kind == "nan":
        return 0x7FFFE000
    if i.has("relu") and value.negative:
        return 0
    if value.kind == "inf":
        bits = a
    else:
        mode = mode_of(i)
        exponent = max(soft.floor_log2(value.magnitude), -126) if value.magnitude else 0
        quantum = Fraction(2) ** (exponent - 10)
        whole = soft.round_integer(value.magnitude / quantum, mode, value.negative) * quantum
        bits = soft.encode(Number("finite", value.negative, whole), "f32")
    if i.has("satfinite") and bits & 0x7FFFFFFF == 0x7F800000:
        return bits & 1 << 31 | 0x7F7FE000
    return bits


def small_value(code: int, name: str) -> Fraction:
    bias, mantissa_bits, _ = SMALL[name]
    exponent, mantissa = code >> mantissa_bits, code & (1 << mantissa_bits) - 1
    if exponent == 0:
        return Fraction(mantissa) * Fraction(2) ** (1 - bias - mantissa_bits)
    return Fraction(mantissa + (1 << mantissa_bits)) * Fraction(2) ** (exponent - bias - mantissa_bits)


def to_small(value: Number, name: str, relu: bool) -> int:
    """By search: the code whose value is nearest, ties to the even code."""
    largest = SMALL[name][2]
    if value.kind == "nan":
        return 0x7F
    if relu and value.negative:
        return 0
    sign = 0x80 if value.negative else 0
    if value.kind == "inf" or value.magnitude >= small_value(largest, name):
        return sign | largest
    low, high = 0, largest
    while high - low > 1:
        middle = (low + high) // 2
        if small_value(middle, name) <= value.magnitude:
            low = middle
        else:
            high = middle
    below, above = value.magnitude - small_value(low, name), small_value(high, name) - value.magnitude
    if below < above or (below == above and low % 2 == 0):
        return sign | low
    return sign | high


def from_small(code: int, name: str, relu: bool) -> int:
    magnitude = code & 0x7F
    if name == "e4m3" and magnitude == 0x7F or name == "e5m2" and magnitude > 0x7C:
        return 0x7FFF
    if name == "e5m2" and magnitude == 0x7C:
        number_ = Number("inf", bool(code & 0x80))
    else:
        number_ = Number("finite", bool(code & 0x80), small_value(magnitude, name))
    if relu and number_.negative:
        return 0
    return soft.encode(number_, "f16")


def pack(i: Instruction, operands: tuple[int, ...]) -> int:
    name = next(m for m in i.modifiers if m in ("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"))
    bits = int(name[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if name[0] == "s" else (0, (1 << bits) - 1)
    a, b = (min(max(number(value, "s32"), low), high) & (1 << bits) - 1 for value in operands[:2])
    result = b | a << bits
    if len(operands) == 3:
        result |= operands[2] << 2 * bits & 0xFFFFFFFF
    return result
