"""What the op families share: type facts, canonical NaNs, flushing, saturation, packed halves.

Conventions of op functions: f16/f32/f64 operands are LLVM half/float/double, bf16 is i16 (its arithmetic is done in
wider formats), packed types (f16x2, bf16x2, u16x2, s16x2) are i32 with the first element in the low half.
"""

from __future__ import annotations

from collections.abc import Callable

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.ops.policy import policy
from cuttle.ptx.ir import TYPE_BITS

NAN_BITS = {"half": 0x7FFF, "float": 0x7FFFFFFF, "double": 0x7FF8000000000000}
ONE_BITS = {"half": 0x3C00, "float": 0x3F800000, "double": 0x3FF0000000000000}
INFINITY_BITS = {"half": 0x7C00, "float": 0x7F800000, "double": 0x7FF0000000000000}
EXPONENT_MASK = INFINITY_BITS
ROUNDINGS = ("rz", "rm", "rp")
FLOAT_TYPES = frozenset(("f16", "f32", "f64", "bf16", "f16x2", "bf16x2"))
PACKED_ELEMENT = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16"}


def is_signed(type_name: str) -> bool:
    return type_name.startswith("s")


def is_floating(type_name: str) -> bool:
    return type_name in FLOAT_TYPES


def type_bits(type_name: str) -> int:
    return TYPE_BITS[type_name]


def number(emitter: Emitter, element_type: str, value: int) -> Value:
    """The integer constant `value` in the type (shorthand of the emitter's `const`)."""
    return emitter.const(element_type, value)


def canonical(emitter: Emitter, value: Value) -> Value:
    """A float result with every NaN replaced by NVIDIA's canonical one, as its arithmetic units return it.

    Left alone for f64, whose units keep the payload, and when the policy forgoes it.
    """
    if value.type == "double" or not policy.exact_nan:
        return value
    return force_canonical(emitter, value)


def force_canonical(emitter: Emitter, value: Value) -> Value:
    """As `canonical`, whatever the policy and the type."""
    bits = f"i{value.bits}"
    unordered = emitter.fcmp("uno", value, value)
    nan = emitter.const(bits, NAN_BITS[value.type])
    # Select integers: LLVM may fold a select between a NaN constant and a NaN value of floating type.
    return emitter.bitcast(emitter.select(unordered, nan, emitter.bitcast(value, bits)), value.type)


# What NVIDIA GPUs make of an invalid f64 operation.
GENERATED_NAN = 0xFFF8_0000_0000_0000


def first_nan(emitter: Emitter, result: Value, *operands: Value) -> Value:
    """An f64 result that is the first operand that is a NaN, made quiet, where there is one."""
    if not policy.exact_nan:
        return result
    bits = emitter.bitcast(result, "i64")
    for operand in reversed(operands):
        quiet = emitter.or_(emitter.bitcast(operand, "i64"), emitter.const("i64", 1 << 51))
        bits = emitter.select(emitter.fcmp("uno", operand, operand), quiet, bits)
    return emitter.bitcast(bits, "double")


def second_nan(emitter: Emitter, result: Value, a: Value, b: Value) -> Value:
    """A sum or product of a and b: of two NaNs b's, as NVIDIA's f64 units give it (f32 and smaller: canonical anyway).

    x86 instructions give the first operand's, but LLVM swaps operands even for a shorter encoding.
    """
    one_nan_at_most = a.constant is not None or b.constant is not None or a.text == b.text
    if result.type != "double" or one_nan_at_most or policy.generate_nan:  # such targets see to it themselves
        return result
    return first_nan(emitter, result, b)


def flush(emitter: Emitter, value: Value) -> Value:
    """Subnormal numbers to zero of the same sign (`.ftz`), without touching NaNs."""
    integer = f"i{value.bits}"
    bits = emitter.bitcast(value, integer)
    exponent = emitter.and_(bits, emitter.const(integer, EXPONENT_MASK[value.type]))
    tiny = emitter.icmp("eq", exponent, emitter.const(integer, 0))
    zero = emitter.and_(bits, emitter.const(integer, 1 << (value.bits - 1)))
    return emitter.bitcast(emitter.select(tiny, zero, bits), value.type)


def flush_if(emitter: Emitter, wanted: bool, value: Value) -> Value:
    return flush(emitter, value) if wanted else value


# Two to the number of significant bits of a half or float, as each type (double: that of float).
_SCALE = {"half": (11 + 15) << 10, "float": (24 + 127) << 23, "double": (24 + 1023) << 52}


def scaled_up(emitter: Emitter, value: Value) -> Value:
    """The value times a power of two that lifts results at the edge of the subnormals well above it."""
    return emitter.binary("fmul", value, emitter.const(value.type, _SCALE[value.type]))


def flush_by(emitter: Emitter, value: Value, scaled: Value) -> Value:
    """Flush where `scaled`, the same result times the scale, lies below the least normal number times the scale.

    NVIDIA rounds as if exponents had no lower end and flushes what is then too small; so a result that rounds to the
    least normal number only because its last bit is lost is flushed (as x86 does with MXCSR.FTZ).
    """
    least = {"half": 12 << 10, "float": 25 << 23}[value.type]
    tiny = emitter.fcmp("olt", emitter.intrinsic("llvm.fabs", [scaled]), emitter.const(value.type, least))
    bits = emitter.bitcast(value, f"i{value.bits}")
    zero = emitter.and_(bits, emitter.const(bits.type, 1 << (value.bits - 1)))
    return emitter.bitcast(emitter.select(tiny, zero, bits), value.type)


def saturate(emitter: Emitter, value: Value) -> Value:
    """`.sat`: clamp to [0, 1], NaN and -0 to +0."""
    zero = emitter.const(value.type, 0)
    one = emitter.const(value.type, ONE_BITS[value.type])
    low = emitter.select(emitter.fcmp("ogt", value, zero), value, zero)
    return emitter.select(emitter.fcmp("olt", low, one), low, one)


def relu(emitter: Emitter, value: Value) -> Value:
    """`.relu`: negative results to +0; NaN stays, canonical."""
    zero = emitter.const(value.type, 0)
    return emitter.select(emitter.fcmp("ult", value, zero), _nan_or_zero(emitter, value), _drop_sign(emitter, value))


def _nan_or_zero(emitter: Emitter, value: Value) -> Value:
    nan = emitter.const(value.type, NAN_BITS[value.type])
    return emitter.select(emitter.fcmp("uno", value, value), nan, emitter.const(value.type, 0))


def _drop_sign(emitter: Emitter, value: Value) -> Value:
    """-0 to +0 among values that are not negative otherwise."""
    return emitter.intrinsic("llvm.fabs", [value])


# -- packed halves ---------------------------------------------------------------------------------------------------


def unpack(emitter: Emitter, value: Value) -> tuple[Value, Value]:
    """The two 16-bit halves of an i32, low first, as i16."""
    low = emitter.cast("trunc", value, "i16")
    high = emitter.cast("trunc", emitter.lshr(value, emitter.const("i32", 16)), "i16")
    return low, high


def pack(emitter: Emitter, low: Value, high: Value) -> Value:
    """Two 16-bit values (any 16-bit type) as one i32."""
    low32 = emitter.cast("zext", emitter.as_bits(low), "i32")
    high32 = emitter.cast("zext", emitter.as_bits(high), "i32")
    return emitter.or_(low32, emitter.shl(high32, emitter.const("i32", 16)))


def by_halves(emitter: Emitter, operation: Callable[..., Value], *operands: Value) -> Value:
    """Apply a 16-bit operation to both halves of packed operands."""
    pairs = [unpack(emitter, operand) for operand in operands]
    return pack(emitter, operation(*(pair[0] for pair in pairs)), operation(*(pair[1] for pair in pairs)))


def as_half(emitter: Emitter, bits: Value) -> Value:
    return emitter.bitcast(bits, "half")


def widen_bf16(emitter: Emitter, bits: Value) -> Value:
    """bf16 (i16) to float: the same number."""
    wide = emitter.cast("zext", bits, "i32")
    return emitter.bitcast(emitter.shl(wide, emitter.const("i32", 16)), "float")


def narrow_bf16(emitter: Emitter, value: Value) -> Value:
    """float to bf16 (i16), to nearest even; NaN becomes 0x7fff."""
    bits = emitter.bitcast(value, "i32")
    odd = emitter.and_(emitter.lshr(bits, emitter.const("i32", 16)), emitter.const("i32", 1))
    rounded = emitter.add(emitter.add(bits, odd), emitter.const("i32", 0x7FFF))
    top = emitter.lshr(rounded, emitter.const("i32", 16))
    nan = emitter.fcmp("uno", value, value)
    return emitter.cast("trunc", emitter.select(nan, emitter.const("i32", 0x7FFF), top), "i16")


def widen(emitter: Emitter, value: Value) -> Value:
    """A half, or bf16 as i16, as float."""
    return emitter.cast("fpext", value, "float") if value.type == "half" else widen_bf16(emitter, value)
