"""cvt, cvt.pack, mov, cvta, isspacep (PTX ISA 9.0, 9.7.9)."""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.math import convert
from cuttle.lower.ops.element_types import (
    PACKED_ELEMENT,
    flush,
    flush_by,
    flush_if,
    force_canonical,
    is_floating,
    is_signed,
    pack,
    relu,
    saturate,
    scaled_up,
    type_bits,
    unpack,
    widen_bf16,
)
from cuttle.ptx.ir import Instruction, Vector


def _mode(instruction: Instruction) -> str:
    return next((mode for mode in ("rz", "rm", "rp", "rna") if instruction.has(mode)), "rn")


def cvt(machine: Machine, instruction: Instruction, a: Value, b: Value | None = None, c: Value | None = None) -> Value:
    """`cvt`: between all fundamental and alternate formats. 9.7.9.21."""
    emitter = machine.emitter
    if not instruction.types:
        machine.refuse("cvt without types")
    target, source = instruction.types[0], instruction.types[-1]
    if target == "tf32":
        return _to_tf32(emitter, instruction, a)
    if target in ("e4m3x2", "e5m2x2"):
        return _to_small(emitter, instruction, target[:-2], a, b)
    if source in ("e4m3x2", "e5m2x2"):
        return _from_small(emitter, instruction, source[:-2], target, a)
    if target in PACKED_ELEMENT and b is not None:
        high = _to_float(emitter, instruction, PACKED_ELEMENT[target], source, a)
        low = _to_float(emitter, instruction, PACKED_ELEMENT[target], source, b)
        return pack(emitter, low, high)
    if is_floating(target):
        return _to_float(emitter, instruction, target, source, a)
    return _to_integer(emitter, instruction, target, source, a)


def _to_integer(emitter: Emitter, instruction: Instruction, target: str, source: str, a: Value) -> Value:
    bits, signed = type_bits(target), is_signed(target)
    if not is_floating(source):
        if instruction.has("sat"):
            a = _clamp(emitter, a, is_signed(source), bits, signed)
        return emitter.resize(a, bits, signed=is_signed(source))
    if source == "f32":
        a = flush_if(emitter, instruction.has("ftz"), a)
    elif source == "f16":
        a = emitter.cast("fpext", a, "float")
    elif source == "bf16":
        a = widen_bf16(emitter, a)
    rounding = next((name for name in convert.INTEGRAL if instruction.has(name)), "rzi")
    whole = emitter.intrinsic(convert.INTEGRAL[rounding], [a])
    # A NaN is 0, but from f64 and to 64 bits the top bit alone.
    return convert.to_integer(emitter, whole, bits, signed, 1 << (bits - 1) if bits == 64 or source == "f64" else 0)


def _clamp(emitter: Emitter, a: Value, from_signed: bool, bits: int, to_signed: bool) -> Value:
    """An integer clamped to the range of another integer type, in its own width."""
    most = (1 << (bits - 1 if to_signed else bits)) - 1
    least = -(1 << (bits - 1)) if to_signed else 0
    if from_signed:
        if most < 1 << (a.bits - 1):
            a = emitter.intrinsic("llvm.smin", [a, emitter.const(a.type, most)])
        if -least < 1 << (a.bits - 1):
            a = emitter.intrinsic("llvm.smax", [a, emitter.const(a.type, least)])
        return a
    return emitter.intrinsic("llvm.umin", [a, emitter.const(a.type, most)]) if most < 1 << a.bits else a


def _to_float(emitter: Emitter, instruction: Instruction, target: str, source: str, a: Value) -> Value:
    """To f16, f32, f64 or bf16 from anything."""
    mode = _mode(instruction)
    integral = next((name for name in convert.INTEGRAL if instruction.has(name)), "")
    if not is_floating(source):
        return _integer_to_float(emitter, instruction, target, is_signed(source), mode, a)
    if source == "f32" and target == "f32" and not (integral or instruction.has("ftz") or instruction.has("sat")):
        return a  # a move
    if source == "f32" and instruction.has("ftz") and target != "f16":  # beyond f32, `.ftz` to f16 changes nothing
        a = flush(emitter, a)
        a = force_canonical(emitter, a) if target == "f64" else a
    if source == "bf16":
        a = widen_bf16(emitter, a)
        if instruction.has("ftz"):
            a = force_canonical(emitter, flush(emitter, a))
    elif source == "f16" and (target != "f16" or integral):
        a = emitter.cast("fpext", a, "float")
    if integral:
        a = emitter.intrinsic(convert.INTEGRAL[integral], [a])
    a = saturate(emitter, a) if instruction.has("sat") else a
    if instruction.has("relu"):
        a = relu(emitter, a)
    result = _change_format(emitter, target, mode, a)
    if instruction.has("satfinite"):
        result = _finite(emitter, target, result)
    if target == "f32" and source == "f64" and instruction.has("ftz"):
        result = flush_by(emitter, result, _change_format(emitter, target, mode, scaled_up(emitter, a)))
    if target == "bf16" or source == "f64" or (source == "bf16" and target == "f32"):
        return result
    return force_canonical(emitter, result) if target != "f64" else result


def _finite(emitter: Emitter, target: str, value: Value) -> Value:
    """`.satfinite` on f16 or bf16: the largest finite number instead of infinity."""
    infinity = {"f16": 0x7C00, "bf16": 0x7F80}[target]
    bits = emitter.as_bits(value)
    magnitude = emitter.and_(bits, emitter.const("i16", 0x7FFF))
    infinite = emitter.icmp("eq", magnitude, emitter.const("i16", infinity))
    # The bit pattern one below infinity's is the largest finite number.
    finite = emitter.select(infinite, emitter.sub(bits, emitter.const("i16", 1)), bits)
    return emitter.bitcast(finite, value.type)


def _change_format(emitter: Emitter, target: str, mode: str, a: Value) -> Value:
    """A half, float or double to the target format, rounded once."""
    if target == "bf16":
        return (
            convert.double_to(emitter, a, target, mode)
            if a.type == "double"
            else convert.float_to_bf16(emitter, a, mode)
        )
    if target == "f64":
        return emitter.cast("fpext", a, "double")
    if a.type == "double":
        return convert.double_to(emitter, a, target, mode)
    if target == "f16" and a.type == "float":
        return convert.float_to_half(emitter, a, mode)
    return emitter.cast("fpext", a, "float") if target == "f32" else a


def _integer_to_float(
    emitter: Emitter, instruction: Instruction, target: str, signed: bool, mode: str, a: Value
) -> Value:
    if target == "f64":
        result = convert.integer_to_double(emitter, a, signed, mode)
    elif target == "f32" and (mode == "rn" or a.bits <= 16):
        result = emitter.cast("sitofp" if signed else "uitofp", a, "float")
    else:
        wide = convert.integer_to_double_odd(emitter, a, signed)
        result = convert.double_to(emitter, wide, target, mode)
    return saturate(emitter, result) if instruction.has("sat") and target != "bf16" else result


def _to_tf32(emitter: Emitter, instruction: Instruction, a: Value) -> Value:
    mode = _mode(instruction)
    if instruction.has("relu"):
        a = relu(emitter, a)
    result = convert.float_to_tf32(emitter, a, mode)
    if instruction.has("satfinite"):
        # The largest finite tf32 number instead of infinity.
        sign = emitter.and_(result, emitter.const("i32", 1 << 31))
        magnitude = emitter.and_(result, emitter.const("i32", 0x7FFFFFFF))
        if mode == "rna":  # one step down from whatever has the highest exponent, NaNs too
            top = emitter.icmp("uge", magnitude, emitter.const("i32", 0x7F800000))
            return emitter.select(top, emitter.sub(result, emitter.const("i32", 0x2000)), result)
        infinite = emitter.icmp("eq", magnitude, emitter.const("i32", 0x7F800000))
        result = emitter.select(infinite, emitter.or_(sign, emitter.const("i32", 0x7F7FE000)), result)
    return result


def _to_small(emitter: Emitter, instruction: Instruction, name: str, a: Value, b: Value | None) -> Value:
    """Two numbers to e4m3x2 or e5m2x2: from f32, a is the high one; from f16x2, halves keep their places."""
    if b is None:
        low, high = (emitter.cast("fpext", emitter.bitcast(part, "half"), "float") for part in unpack(emitter, a))
    else:
        low, high = b, a
    if instruction.has("relu"):
        low, high = relu(emitter, low), relu(emitter, high)
    low, high = (emitter.cast("zext", convert.float_to_small(emitter, x, name), "i16") for x in (low, high))
    return emitter.or_(low, emitter.shl(high, emitter.const("i16", 8)))


def _from_small(emitter: Emitter, instruction: Instruction, name: str, target: str, a: Value) -> Value:
    """e4m3x2 or e5m2x2 to f16x2."""
    low = emitter.cast("trunc", a, "i8")
    high = emitter.cast("trunc", emitter.lshr(a, emitter.const("i16", 8)), "i8")
    parts = [convert.small_to_half(emitter, part, name) for part in (low, high)]
    if instruction.has("relu"):
        parts = [relu(emitter, part) for part in parts]
    return pack(emitter, parts[0], parts[1])


_PACK_BITS = {"u16": 16, "s16": 16, "u8": 8, "s8": 8, "u4": 4, "s4": 4, "u2": 2, "s2": 2}


def cvt_pack(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`cvt.pack`: a and b saturated into the low bits (b lowest), the rest shifted in from c. 9.7.9.22."""
    emitter = machine.emitter
    name = next(modifier for modifier in instruction.modifiers if modifier in _PACK_BITS)
    bits = _PACK_BITS[name]
    mask = emitter.const("i32", (1 << bits) - 1)
    low, high = (emitter.and_(_clamp(emitter, value, True, bits, is_signed(name)), mask) for value in (b, a))
    result = emitter.or_(low, emitter.shl(high, emitter.const("i32", bits)))
    if c is None:
        return result
    return emitter.or_(result, emitter.shl(c, emitter.const("i32", 2 * bits)))


def mov(machine: Machine, instruction: Instruction, *sources: Value) -> Value | tuple[Value, ...]:
    """`mov`: a copy, or packing and unpacking of a brace list, first element in the low bits. 9.7.9.1, 9.7.9.2."""
    emitter = machine.emitter
    destination = instruction.operands[0]
    if isinstance(destination, Vector):
        source = sources[0]
        if len(sources) > 1:
            return sources
        count = len(destination.elements)
        bits = source.bits // count
        source = emitter.as_bits(source)
        return tuple(
            emitter.resize(emitter.lshr(source, emitter.const(source.type, index * bits)) if index else source, bits)
            for index in range(count)
        )
    if len(sources) == 1:
        return sources[0]
    total = type_bits(instruction.type)
    result: Value | None = None
    for index, part in enumerate(sources):
        wide = emitter.resize(part, total)
        if index:
            wide = emitter.shl(wide, emitter.const(wide.type, index * part.bits))
        result = wide if result is None else emitter.or_(result, wide)
    assert result is not None
    return result


def _space(instruction: Instruction) -> str:
    """The state space among the modifiers, without its sub-space (`shared::cta` is `shared`)."""
    for modifier in instruction.modifiers:
        space = modifier.partition("::")[0]
        if space in ("const", "global", "local", "shared", "param"):
            return space
    raise ValueError("no state space")


def cvta(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`cvta`: from a state space to generic addressing, or back with `.to`. 9.7.9.20."""
    emitter = machine.emitter
    converted = machine.convert_address(
        _space(instruction), emitter.resize(a, 64), to_generic=not instruction.has("to")
    )
    return emitter.resize(converted, a.bits)


def isspacep(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`isspacep`: whether a generic address lies in a state space. 9.7.9.19."""
    space = "cluster" if instruction.has("shared::cluster") else _space(instruction)
    return machine.is_space(space, a)
