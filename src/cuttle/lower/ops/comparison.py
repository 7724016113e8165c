"""Comparison and selection (PTX ISA 9.0, 9.7.6, 9.7.7)."""

from __future__ import annotations

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.dispatch import value_type
from cuttle.lower.ops.element_types import (
    ONE_BITS,
    PACKED_ELEMENT,
    as_half,
    flush_if,
    is_floating,
    is_signed,
    pack,
    unpack,
    widen_bf16,
)
from cuttle.ptx.ir import Instruction, PredicatePair

_FLOAT = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno",
}  # fmt: skip
_UNSIGNED = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
_BOOLEAN = ("and", "or", "xor")


def _operator(instruction: Instruction) -> str:
    """The comparison operator: the first modifier that is one."""
    for modifier in instruction.modifiers:
        if modifier in _FLOAT or modifier in _UNSIGNED:
            return modifier
    raise ValueError("a comparison without an operator")


def compare(emitter: Emitter, instruction: Instruction, a: Value, b: Value) -> Value:
    """The comparison of the instruction on operands of its (unpacked) type: i1."""
    type_name = PACKED_ELEMENT.get(instruction.type, instruction.type)
    operator = _operator(instruction)
    if is_floating(type_name):
        if type_name == "bf16":
            a, b = widen_bf16(emitter, a), widen_bf16(emitter, b)
        a, b = (flush_if(emitter, instruction.has("ftz"), value) for value in (a, b))
        return emitter.fcmp(_FLOAT[operator], a, b)
    if operator in ("eq", "ne"):
        return emitter.icmp(operator, a, b)
    if operator in _UNSIGNED:
        return emitter.icmp(_UNSIGNED[operator], a, b)
    return emitter.icmp(("s" if is_signed(type_name) else "u") + operator, a, b)


def _combine(emitter: Emitter, instruction: Instruction, value: Value, third: Value | None) -> Value:
    if third is None:
        return value
    operation = next(name for name in _BOOLEAN if instruction.has(name))
    return emitter.binary(operation, value, third)


def _halves(emitter: Emitter, instruction: Instruction, a: Value, b: Value) -> tuple[Value, Value]:
    """The comparisons of the low and of the high halves."""
    pairs = [unpack(emitter, value) for value in (a, b)]
    if instruction.type == "f16x2":
        pairs = [(as_half(emitter, low), as_half(emitter, high)) for low, high in pairs]
    low = compare(emitter, instruction, pairs[0][0], pairs[1][0])
    return low, compare(emitter, instruction, pairs[0][1], pairs[1][1])


def setp(
    machine: Machine, instruction: Instruction, a: Value, b: Value, third: Value | None = None
) -> Value | tuple[Value, Value]:
    """`setp`: p, and q with the opposite outcome; for packed types p and q are the two halves'. 9.7.6.2, 9.7.7.2."""
    emitter = machine.emitter
    if instruction.type in PACKED_ELEMENT:
        low, high = _halves(emitter, instruction, a, b)
        return _combine(emitter, instruction, low, third), _combine(emitter, instruction, high, third)
    result = compare(emitter, instruction, a, b)
    first = _combine(emitter, instruction, result, third)
    if not isinstance(instruction.operands[0], PredicatePair):
        return first
    return first, _combine(emitter, instruction, emitter.not_(result), third)


def set_(machine: Machine, instruction: Instruction, a: Value, b: Value, third: Value | None = None) -> Value:
    """`set`: 1.0 or all ones for true, 0 for false, in the destination type. 9.7.6.1, 9.7.7.1."""
    emitter = machine.emitter
    destination = instruction.types[0]
    if instruction.type in PACKED_ELEMENT:
        low, high = (_combine(emitter, instruction, value, third) for value in _halves(emitter, instruction, a, b))
        true = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(destination, 0xFFFF)
        ones, zero = emitter.const("i16", true), emitter.const("i16", 0)
        return pack(emitter, emitter.select(low, ones, zero), emitter.select(high, ones, zero))
    result = _combine(emitter, instruction, compare(emitter, instruction, a, b), third)
    kind = value_type(destination)
    if destination == "bf16":
        true_bits = 0x3F80
    else:
        true_bits = ONE_BITS.get(kind, -1)
    return emitter.select(result, emitter.const(kind, true_bits), emitter.const(kind, 0))


def selp(machine: Machine, instruction: Instruction, a: Value, b: Value, predicate: Value) -> Value:
    """`selp`: a where the predicate is true, else b. 9.7.6.3."""
    return machine.emitter.select(predicate, a, b)


def slct(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    """`slct`: a where c >= 0 (-0 included), else b (NaN included). 9.7.6.4."""
    emitter = machine.emitter
    if instruction.type == "f32":
        c = flush_if(emitter, instruction.has("ftz"), c)
        return emitter.select(emitter.fcmp("oge", c, emitter.const("float", 0)), a, b)
    return emitter.select(emitter.icmp("sge", c, emitter.const("i32", 0)), a, b)
