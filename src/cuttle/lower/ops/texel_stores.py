"""Formatted stores to surfaces (`sust.p`): 32-bit values become what the surface's texels are made of.

As recorded on an H200 (`tests/ops/test_texture.py`): integers are taken as signed or unsigned ones by the surface's format
and saturated to its width, halves are floats cut towards zero, 32-bit components take the bits; missing components become 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuttle.abi.texture import KIND_FLOAT, KIND_SIGNED
from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.texels import CHANNELS, Descriptor


def store_texel(machine: Machine, surface: Descriptor, place: Value, sink: Value, values: Sequence[Value]) -> None:
    """Stores the components that the surface has (i32 values) at the address of a texel; what it does not have to `sink`."""
    e = machine.emitter
    size, channels, kind = surface.get("component_bytes"), surface.get("channels"), surface.get("kind")
    is_float = e.icmp("eq", kind, e.const("i32", KIND_FLOAT))
    is_signed = e.icmp("eq", kind, e.const("i32", KIND_SIGNED))
    zero = e.const("i32", 0)
    for channel in range(CHANNELS):
        value = values[channel] if channel < len(values) else zero
        present = e.icmp("ugt", channels, e.const("i32", channel))
        offset = e.cast("zext", e.mul(size, e.const("i32", channel)), "i64")
        at = e.add(place, offset)
        for width in (8, 16, 32):
            part = value
            if width < 32:
                part = saturated(e, value, width, is_signed)
            if width == 16:
                part = e.select(is_float, half_towards_zero(e, value), part)
            fits = e.and_(present, e.icmp("eq", size, e.const("i32", width // 8)))
            machine.store("generic", width, e.select(fits, at, sink), [e.resize(part, width)])


def saturated(emitter: Emitter, value: Value, width: int, is_signed: Value) -> Value:
    """A number brought into the range of `width` bits."""
    e = emitter
    most = e.const("i32", (1 << width - 1) - 1)
    least = e.const("i32", -(1 << width - 1))
    signed = e.intrinsic("llvm.smax", [e.intrinsic("llvm.smin", [value, most]), least])
    unsigned = e.intrinsic("llvm.umin", [value, e.const("i32", (1 << width) - 1)])
    return e.select(is_signed, signed, unsigned)


def half_towards_zero(emitter: Emitter, value: Value) -> Value:
    """The bits of a half (in an i32) for those of a float: cut, the largest one beyond it, NaNs with the top of their payload."""
    e = emitter

    def const(number: int) -> Value:
        return e.const("i32", number)

    sign = e.and_(e.lshr(value, const(16)), const(0x8000))
    magnitude = e.and_(value, const(0x7FFFFFFF))
    normal = e.lshr(e.sub(magnitude, const(112 << 23)), const(13))
    # 2^24 times a number below 2^-14 is less than 2^10.
    small = e.select(e.icmp("ult", magnitude, const(0x38800000)), magnitude, const(0))
    steps = e.cast("fptoui", e.binary("fmul", e.bitcast(small, "float"), e.const("float", 0x4B800000)), "i32")
    result = e.select(e.icmp("ult", magnitude, const(0x38800000)), steps, normal)
    result = e.select(e.icmp("uge", magnitude, const(0x477FE000)), const(0x7BFF), result)
    special = e.or_(const(0x7C00), e.and_(e.lshr(magnitude, const(13)), const(0x3FF)))
    result = e.select(e.icmp("uge", magnitude, const(0x7F800000)), special, result)
    return e.or_(sign, result)
