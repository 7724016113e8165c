"""Roots, reciprocals, transcendental approximations, copysign, testp (PTX ISA 9.0, 9.7.3, 9.7.4)."""

from __future__ import annotations

from collections.abc import Callable

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.math import approximate, directed
from cuttle.lower.ops.arithmetic import rounding
from cuttle.lower.ops.common import (
    as_half,
    by_halves,
    canonical,
    flush,
    flush_if,
    force_canonical,
    narrow_bf16,
    widen,
)
from cuttle.ptx.ir import Instruction


def testp(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`testp`: a property of a number. 9.7.3.1."""
    emitter = machine.emitter
    kind = f"i{a.bits}"
    bits = emitter.bitcast(a, kind)
    infinity = {32: 0x7F800000, 64: 0x7FF << 52}[a.bits]
    magnitude = emitter.and_(bits, emitter.const(kind, (1 << (a.bits - 1)) - 1))
    top, zero = emitter.const(kind, infinity), emitter.const(kind, 0)
    least_normal = emitter.const(kind, infinity & -infinity)
    subnormal = emitter.and_(emitter.icmp("ult", magnitude, least_normal), emitter.icmp("ne", magnitude, zero))
    if instruction.has("finite"):
        return emitter.icmp("ult", magnitude, top)
    if instruction.has("infinite"):
        return emitter.icmp("eq", magnitude, top)
    if instruction.has("number"):
        return emitter.icmp("ule", magnitude, top)
    if instruction.has("notanumber"):
        return emitter.icmp("ugt", magnitude, top)
    if instruction.has("normal"):
        # Everything finite that is not subnormal: zero counts as normal.
        return emitter.and_(emitter.not_(subnormal), emitter.icmp("ult", magnitude, top))
    return subnormal


def copysign(machine: Machine, instruction: Instruction, a: Value, b: Value) -> Value:
    """`copysign`: the sign of a on the magnitude of b. 9.7.3.2."""
    emitter = machine.emitter
    kind = f"i{a.bits}"
    sign = emitter.const(kind, 1 << (a.bits - 1))
    magnitude = emitter.and_(emitter.bitcast(b, kind), emitter.not_(sign))
    return emitter.bitcast(emitter.or_(emitter.and_(emitter.bitcast(a, kind), sign), magnitude), a.type)


def _with_flush(emitter: Emitter, instruction: Instruction, a: Value, function: Callable[[Value], Value]) -> Value:
    """The function between input and output flushing, with canonical NaNs."""
    ftz = instruction.has("ftz") and a.type == "float"
    result = flush_if(emitter, ftz, function(flush_if(emitter, ftz, a)))
    return force_canonical(emitter, result) if a.type == "float" else canonical(emitter, result)


def _gross_double(emitter: Emitter, a: Value, function: Callable[[Emitter, Value], Value]) -> Value:
    """`.approx.ftz.f64`: the high word of the result; the low word is 0, subnormals are flushed."""
    exact = function(emitter, flush(emitter, a))
    bits = emitter.and_(emitter.bitcast(flush(emitter, exact), "i64"), emitter.const("i64", 0xFFFFFFFF00000000))
    nan = emitter.fcmp("uno", a, a)
    bits = emitter.select(nan, emitter.const("i64", 0x7FF8000000000000), bits)
    return emitter.bitcast(bits, "double")


def rcp(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`rcp`: `.rn` and directed exact; `.approx` correctly rounded; `.approx.ftz.f64` gross. 9.7.3.13, 9.7.3.14."""
    emitter = machine.emitter
    if instruction.has("approx") and a.type == "double":
        return _gross_double(emitter, a, approximate.reciprocal)
    mode = rounding(instruction)
    if mode == "rn":
        return _with_flush(emitter, instruction, a, lambda x: approximate.reciprocal(emitter, x))
    one = emitter.const(a.type, 0x3F800000 if a.type == "float" else 0x3FF << 52)
    return _with_flush(emitter, instruction, a, lambda x: directed.div(emitter, one, x, mode))


def sqrt(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`sqrt`: exact in all roundings, `.approx` correctly rounded. 9.7.3.15."""
    emitter = machine.emitter
    mode = rounding(instruction)
    if mode == "rn":
        return _with_flush(emitter, instruction, a, lambda x: emitter.intrinsic("llvm.sqrt", [x]))
    return _with_flush(emitter, instruction, a, lambda x: directed.sqrt(emitter, x, mode))


def rsqrt(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`rsqrt.approx`; `.ftz.f64` gross. 9.7.3.16, 9.7.3.17."""
    emitter = machine.emitter
    if a.type == "double" and instruction.has("ftz"):
        return _gross_double(emitter, a, approximate.reciprocal_root)
    return _with_flush(emitter, instruction, a, lambda x: approximate.reciprocal_root(emitter, x))


def sin(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`sin.approx`. 9.7.3.18."""
    emitter = machine.emitter
    return _with_flush(emitter, instruction, a, lambda x: approximate.sine(emitter, x, 0))


def cos(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`cos.approx`. 9.7.3.19."""
    emitter = machine.emitter
    return _with_flush(emitter, instruction, a, lambda x: approximate.sine(emitter, x, 1))


def lg2(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`lg2.approx`. 9.7.3.20."""
    emitter = machine.emitter
    return _with_flush(emitter, instruction, a, lambda x: approximate.log2(emitter, x))


def _through_float(emitter: Emitter, instruction: Instruction, a: Value, function: Callable[[Value], Value]) -> Value:
    """A float function on f32, f16, bf16 or their packed forms."""
    type_name = instruction.type
    if type_name == "f32":
        return _with_flush(emitter, instruction, a, function)

    def on_half(bits: Value) -> Value:
        result = function(widen(emitter, as_half(emitter, emitter.as_bits(bits))))
        return force_canonical(emitter, emitter.cast("fptrunc", result, "half"))

    def on_bf16(bits: Value) -> Value:
        value = flush_if(emitter, instruction.has("ftz"), widen(emitter, bits))
        return narrow_bf16(emitter, flush_if(emitter, instruction.has("ftz"), function(value)))

    one = on_bf16 if type_name.startswith("bf16") else on_half
    return by_halves(emitter, one, a) if type_name.endswith("x2") else one(a)


def ex2(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`ex2.approx`. 9.7.3.21, 9.7.4.10."""
    emitter = machine.emitter
    return _through_float(emitter, instruction, a, lambda x: approximate.exp2(emitter, x))


def tanh(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`tanh.approx`. 9.7.3.22, 9.7.4.9."""
    emitter = machine.emitter
    return _through_float(emitter, instruction, a, lambda x: approximate.tanh(emitter, x))
