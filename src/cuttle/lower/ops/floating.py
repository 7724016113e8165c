"""Roots, reciprocals, transcendental approximations, copysign, testp (PTX ISA 9.0, 9.7.3, 9.7.4)."""

from __future__ import annotations

from collections.abc import Callable

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.math import approximate, convert, directed, fast, mufu
from cuttle.lower.ops.arithmetic import rounding
from cuttle.lower.ops.element_types import (
    as_half,
    by_halves,
    canonical,
    flush,
    flush_by,
    flush_if,
    force_canonical,
    scaled_up,
    widen,
)
from cuttle.lower.ops.policy import policy
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
    return canonical(emitter, flush_if(emitter, ftz, function(flush_if(emitter, ftz, a))))


Approximation = Callable[[Emitter, Value, bool], Value]


def _approximate(
    emitter: Emitter, instruction: Instruction, a: Value, exact: Approximation, faster: Approximation
) -> Value:
    """An f32 `.approx` instruction; the unit itself flushes as `.ftz` asks and gives the canonical NaN."""
    ftz = instruction.has("ftz")
    if policy.fast_math:
        return canonical(emitter, faster(emitter, a, ftz))
    result = exact(emitter, a, ftz)
    return result if ftz else canonical(emitter, result)


def rcp(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`rcp`: correctly rounded, or `.approx` as the multi-function unit gives it. 9.7.3.13, 9.7.3.14."""
    emitter = machine.emitter
    if instruction.has("approx"):
        if a.type == "double":
            return approximate.reciprocal_high(emitter, a)
        return _approximate(emitter, instruction, a, approximate.reciprocal, fast.reciprocal)
    mode = rounding(instruction)
    one = emitter.const(a.type, 0x3F800000 if a.type == "float" else 0x3FF << 52)
    if mode == "rn":
        return _with_flush(emitter, instruction, a, lambda x: emitter.binary("fdiv", one, x))
    result = _with_flush(emitter, instruction, a, lambda x: directed.div(emitter, one, x, mode))
    if not instruction.has("ftz") or a.type != "float":
        return result
    return flush_by(emitter, result, directed.div(emitter, scaled_up(emitter, one), flush(emitter, a), mode))


def sqrt(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`sqrt`: exact in all roundings, or `.approx`. 9.7.3.15."""
    emitter = machine.emitter
    if instruction.has("approx"):
        return _approximate(emitter, instruction, a, approximate.root, fast.root)
    mode = rounding(instruction)
    if mode == "rn":
        return _with_flush(emitter, instruction, a, lambda x: emitter.intrinsic("llvm.sqrt", [x]))
    return _with_flush(emitter, instruction, a, lambda x: directed.sqrt(emitter, x, mode))


def rsqrt(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`rsqrt.approx`; `.ftz.f64` sees and gives high words only. 9.7.3.16, 9.7.3.17."""
    emitter = machine.emitter
    if a.type == "double":
        ftz = instruction.has("ftz")
        return (approximate.reciprocal_root_high if ftz else approximate.reciprocal_root_double)(emitter, a)
    return _approximate(emitter, instruction, a, approximate.reciprocal_root, fast.reciprocal_root)


def sin(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`sin.approx`; `.ftz` makes no difference, the reduction to turns loses subnormals anyway. 9.7.3.18."""
    return mufu.sine(machine.emitter, a, 0)


def cos(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`cos.approx`, as `sin`. 9.7.3.19."""
    return mufu.sine(machine.emitter, a, 1)


def lg2(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`lg2.approx`. 9.7.3.20."""
    return _approximate(machine.emitter, instruction, a, approximate.log2, fast.log2)


def _on_halves(emitter: Emitter, instruction: Instruction, a: Value, function: Callable[[Value], Value]) -> Value:
    """A function of the unit on f16, bf16 or their packed forms: the f32 result cut off, not rounded."""
    type_name = instruction.type

    def on_half(bits: Value) -> Value:
        result = function(widen(emitter, as_half(emitter, emitter.as_bits(bits))))
        beyond = emitter.fcmp("oge", result, emitter.const("float", 0x47800000))  # 2**16 is infinity in f16
        result = emitter.select(beyond, emitter.const("float", 0x7F800000), result)
        return force_canonical(emitter, convert.float_to_half(emitter, result, "rz"))

    def on_bf16(bits: Value) -> Value:
        return convert.float_to_bf16(emitter, function(widen(emitter, bits)), "rz")

    one = on_bf16 if type_name.startswith("bf16") else on_half
    return by_halves(emitter, one, a) if type_name.endswith("x2") else one(a)


def ex2(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`ex2.approx`. 9.7.3.21, 9.7.4.10."""
    emitter = machine.emitter
    if instruction.type == "f32":
        return _approximate(emitter, instruction, a, approximate.exp2, fast.exp2)
    return _on_halves(emitter, instruction, a, lambda x: mufu.exponential(emitter, x))


def tanh(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`tanh.approx`. 9.7.3.22, 9.7.4.9."""
    emitter = machine.emitter
    if instruction.type == "f32":
        return mufu.tangent(emitter, a)
    return _on_halves(emitter, instruction, a, lambda x: mufu.tangent(emitter, x))
