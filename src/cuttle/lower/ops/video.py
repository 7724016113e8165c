"""Video opcodes: one operation on selected bytes or halves, and 2- or 4-way SIMD in a word (PTX ISA 9.0, 9.7.18)."""

from __future__ import annotations

import re
from collections.abc import Callable

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.element_types import is_signed
from cuttle.ptx.ir import Instruction, SelectedRegister

_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")


def _selector(instruction: Instruction, index: int) -> str:
    operand = instruction.operands[index]
    return operand.selector if isinstance(operand, SelectedRegister) else ""


def _negated(instruction: Instruction, index: int) -> bool:
    operand = instruction.operands[index]
    return isinstance(operand, SelectedRegister) and operand.negated


def _const(emitter: Emitter, value: int) -> Value:
    return emitter.const("i64", value)


def _extract(emitter: Emitter, value: Value, shift: int, bits: int, signed: bool) -> Value:
    """Bits shift .. shift + bits - 1 of an i64, extended to i64."""
    if not signed:
        return emitter.and_(emitter.lshr(value, _const(emitter, shift)), _const(emitter, (1 << bits) - 1))
    left = emitter.shl(value, _const(emitter, 64 - shift - bits))
    return emitter.ashr(left, _const(emitter, 64 - bits))


def _part(emitter: Emitter, value: Value, selector: str, signed: bool) -> Value:
    """A whole i32, or its byte (`b2`) or half (`h1`), as i64."""
    wide = emitter.cast("zext", value, "i64")
    bits = {"b": 8, "h": 16}.get(selector[:1], 32)
    index = int(selector[1:]) if selector else 0
    return _extract(emitter, wide, index * bits, bits, signed)


def _clamp(emitter: Emitter, value: Value, bits: int, signed: bool) -> Value:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    value = emitter.intrinsic("llvm.smin", [value, _const(emitter, high)])
    return emitter.intrinsic("llvm.smax", [value, _const(emitter, low)])


def _size(selector: str) -> int:
    return {"b": 8, "h": 16}.get(selector[:1], 32)


# -- scalar ----------------------------------------------------------------------------------------------------------
#
# No GPU since Maxwell has the scalar video instructions: ptxas expands them to 64-bit arithmetic, with these habits
# (read from its code for sm_90, confirmed on an H200):
# - the value stays 64 bits wide up to the secondary `.min`/`.max`, which compares in 64 bits; only vadd and vsub, and
#   vshl and vshr with `.sat`, cut it to 32 bits before (after saturation) and extend it by sign again;
# - `.sat` to u32 cuts below zero only, except in vshl, vshr and vmad; `.sat` to a byte or half turns negative values
#   into the largest one;
# - vshl and vshr saturate to 32 bits whatever the selector, and vshl sees 34 bits of its result;
# - a result that goes to the upper half (`d.h1`) is the upper half of the value;
# - vmad multiplies whole words as signed and its c is signed, whatever the types.


def _saturate(emitter: Emitter, value: Value, selector: str, signed: bool, shift: bool) -> Value:
    if selector and not shift:
        bits = _size(selector)
        most = (1 << (bits - 1 if signed else bits)) - 1
        return emitter.intrinsic("llvm.umin", [value, _const(emitter, most)])
    if signed or shift:
        return _clamp(emitter, value, 32, signed)
    return emitter.intrinsic("llvm.smax", [value, _const(emitter, 0)])


def _deliver(
    emitter: Emitter, instruction: Instruction, value: Value, c: Value | None, signed: bool, kind: str = ""
) -> Value:
    """Saturate, then merge into c at the destination's selector, or combine with c by the second operation."""
    selector = _selector(instruction, 0)
    if instruction.has("sat"):
        value = _saturate(emitter, value, selector, signed, kind == "shift")
    result = emitter.cast("trunc", value, "i32")
    if c is None:
        return result
    if selector:
        bits = _size(selector)
        place = int(selector[1:]) * bits
        mask = ((1 << bits) - 1) << place
        moved = result if selector == "h1" else emitter.shl(result, emitter.const("i32", place))
        kept = emitter.and_(c, emitter.const("i32", ~mask))
        return emitter.or_(emitter.and_(moved, emitter.const("i32", mask)), kept)
    if instruction.has("add"):
        return emitter.add(result, c)
    operation = "min" if instruction.has("min") else "max"
    wide = emitter.cast("sext" if signed else "zext", c, "i64")
    if kind == "sum" or (kind == "shift" and instruction.has("sat")):
        value = emitter.cast("sext", result, "i64")
    return emitter.cast("trunc", emitter.intrinsic(f"llvm.{'s' if signed else 'u'}{operation}", [value, wide]), "i32")


def _scalar(
    machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None,
    operation: Callable[[Emitter, Value, Value], Value], kind: str = ""
) -> Value:  # fmt: skip
    emitter = machine.emitter
    destination, a_type, b_type = instruction.types[:3]
    x = _part(emitter, a, _selector(instruction, 1), is_signed(a_type))
    y = _part(emitter, b, _selector(instruction, 2), is_signed(b_type))
    return _deliver(emitter, instruction, operation(emitter, x, y), c, is_signed(destination), kind)


def _add(emitter: Emitter, x: Value, y: Value) -> Value:
    return emitter.add(x, y)


def _sub(emitter: Emitter, x: Value, y: Value) -> Value:
    return emitter.sub(x, y)


def _absolute_difference(emitter: Emitter, x: Value, y: Value) -> Value:
    return emitter.intrinsic("llvm.abs", [emitter.sub(x, y), emitter.const("i1", 0)])


def _minimum(emitter: Emitter, x: Value, y: Value) -> Value:
    return emitter.intrinsic("llvm.smin", [x, y])


def _maximum(emitter: Emitter, x: Value, y: Value) -> Value:
    return emitter.intrinsic("llvm.smax", [x, y])


def _average(emitter: Emitter, x: Value, y: Value) -> Value:
    """Rounded away from zero."""
    total = emitter.add(x, y)
    up = emitter.cast("zext", emitter.icmp("sge", total, _const(emitter, 0)), "i64")
    return emitter.ashr(emitter.add(total, up), _const(emitter, 1))


def vadd(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vadd`. 9.7.18.1.1."""
    return _scalar(machine, instruction, a, b, c, _add, kind="sum")


def vsub(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vsub`. 9.7.18.1.1."""
    return _scalar(machine, instruction, a, b, c, _sub, kind="sum")


def vabsdiff(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vabsdiff`. 9.7.18.1.1."""
    return _scalar(machine, instruction, a, b, c, _absolute_difference)


def vmin(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vmin`. 9.7.18.1.1."""
    return _scalar(machine, instruction, a, b, c, _minimum)


def vmax(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vmax`. 9.7.18.1.1."""
    return _scalar(machine, instruction, a, b, c, _maximum)


def _shift_amount(emitter: Emitter, instruction: Instruction, amount: Value) -> Value:
    if instruction.has("wrap"):
        return emitter.and_(amount, _const(emitter, 31))
    return emitter.intrinsic("llvm.umin", [amount, _const(emitter, 32)])


def _shift_left(emitter: Emitter, instruction: Instruction, value: Value, amount: Value) -> Value:
    shifted = emitter.shl(value, _shift_amount(emitter, instruction, amount))
    return _extract(emitter, shifted, 0, 34, True) if instruction.has("sat") else shifted


def vshl(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vshl`: amounts clamp at 32 or wrap. 9.7.18.1.2."""
    return _scalar(machine, instruction, a, b, c, lambda e, x, y: _shift_left(e, instruction, x, y), kind="shift")


def vshr(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vshr`: amounts clamp at 32 or wrap. 9.7.18.1.2."""

    def right(emitter: Emitter, value: Value, amount: Value) -> Value:
        return emitter.ashr(value, _shift_amount(emitter, instruction, amount))

    return _scalar(machine, instruction, a, b, c, right, kind="shift")


def vmad(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value) -> Value:
    """`vmad`: a * b + c, each negatable, `.po` adds 1, `.shr7`/`.shr15` scale, `.sat`. 9.7.18.1.3."""
    emitter = machine.emitter
    a_type, b_type = instruction.types[1:3]
    x, y = (
        _part(emitter, value, selector, is_signed(kind) or not selector)
        for value, selector, kind in ((a, _selector(instruction, 1), a_type), (b, _selector(instruction, 2), b_type))
    )
    negative_product = _negated(instruction, 1) != _negated(instruction, 2)
    negative_c = _negated(instruction, 3)
    signed = is_signed(a_type) or is_signed(b_type) or negative_product or negative_c
    product = emitter.mul(x, y)
    if negative_product:
        product = emitter.neg(product)
    addend = emitter.cast("sext", c, "i64")
    total = emitter.add(product, emitter.neg(addend) if negative_c else addend)
    if instruction.has("po"):
        total = emitter.add(total, _const(emitter, 1))
    shift = 7 if instruction.has("shr7") else 15 if instruction.has("shr15") else 0
    if shift:
        total = emitter.binary("ashr" if signed else "lshr", total, _const(emitter, shift))
    if instruction.has("sat"):
        total = _clamp(emitter, total, 32, signed)
    return emitter.cast("trunc", total, "i32")


def _compare(instruction: Instruction, emitter: Emitter, x: Value, y: Value) -> Value:
    operator = next(name for name in instruction.modifiers if name in _COMPARE)
    predicate = operator if operator in ("eq", "ne") else "s" + operator
    return emitter.cast("zext", emitter.icmp(predicate, x, y), "i64")


def vset(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vset`: 1 or 0. 9.7.18.1.4."""
    emitter = machine.emitter
    a_type, b_type = instruction.types[:2]
    x = _part(emitter, a, _selector(instruction, 1), is_signed(a_type))
    y = _part(emitter, b, _selector(instruction, 2), is_signed(b_type))
    # Hardware: the second minimum or maximum is signed if a is.
    return _deliver(emitter, instruction, _compare(instruction, emitter, x, y), c, is_signed(a_type))


# -- SIMD ------------------------------------------------------------------------------------------------------------


def _picks(selector: str, ways: int, first: int) -> list[int]:
    """Element numbers for elements 0, 1, ...: the selector lists them from the highest down."""
    if not selector:
        return list(range(first, first + ways))
    digits = [int(digit) for digit in re.sub("[^0-9]", "", selector)]
    return digits[::-1]


def _simd(
    machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None, ways: int,
    operation: Callable[[Emitter, Value, Value], Value], types: tuple[str, ...]
) -> Value:  # fmt: skip
    """Element-wise on 2 halves or 4 bytes picked from b:a; unmasked elements come from c; `.add` sums onto c."""
    emitter = machine.emitter
    bits = 32 // ways
    destination, a_type, b_type = types
    low, high = emitter.cast("zext", a, "i64"), emitter.cast("zext", b, "i64")
    pool = emitter.or_(low, emitter.shl(high, _const(emitter, 32)))
    a_picks = _picks(_selector(instruction, 1), ways, 0)
    b_picks = _picks(_selector(instruction, 2), ways, ways)
    mask_digits = _picks(_selector(instruction, 0), ways, 0)
    total = c if c is not None else emitter.const("i32", 0)
    sums = instruction.has("add")
    for element in range(ways):
        if element not in mask_digits:
            continue
        x = _extract(emitter, pool, a_picks[element] * bits, bits, is_signed(a_type))
        y = _extract(emitter, pool, b_picks[element] * bits, bits, is_signed(b_type))
        value = operation(emitter, x, y)
        if instruction.has("sat"):
            value = _clamp(emitter, value, bits, is_signed(destination))
        word = emitter.cast("trunc", value, "i32")
        if sums:
            total = emitter.add(total, word)
            continue
        field = emitter.const("i32", ((1 << bits) - 1) << element * bits)
        moved = emitter.and_(emitter.shl(word, emitter.const("i32", element * bits)), field)
        total = emitter.or_(moved, emitter.and_(total, emitter.not_(field)))
    return total


def vadd2(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vadd2`. 9.7.18.2.1."""
    return _simd(machine, instruction, a, b, c, 2, _add, instruction.types)


def vsub2(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vsub2`. 9.7.18.2.1."""
    return _simd(machine, instruction, a, b, c, 2, _sub, instruction.types)


def vavrg2(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vavrg2`. 9.7.18.2.1."""
    return _simd(machine, instruction, a, b, c, 2, _average, instruction.types)


def vabsdiff2(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vabsdiff2`. 9.7.18.2.1."""
    return _simd(machine, instruction, a, b, c, 2, _absolute_difference, instruction.types)


def vmin2(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vmin2`. 9.7.18.2.1."""
    return _simd(machine, instruction, a, b, c, 2, _minimum, instruction.types)


def vmax2(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vmax2`. 9.7.18.2.1."""
    return _simd(machine, instruction, a, b, c, 2, _maximum, instruction.types)


def vset2(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vset2`. 9.7.18.2.1."""
    types = ("u32", *instruction.types[:2])
    return _simd(machine, instruction, a, b, c, 2, lambda e, x, y: _compare(instruction, e, x, y), types)


def vadd4(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vadd4`. 9.7.18.2.2."""
    return _simd(machine, instruction, a, b, c, 4, _add, instruction.types)


def vsub4(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vsub4`. 9.7.18.2.2."""
    return _simd(machine, instruction, a, b, c, 4, _sub, instruction.types)


def vavrg4(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vavrg4`. 9.7.18.2.2."""
    return _simd(machine, instruction, a, b, c, 4, _average, instruction.types)


def vabsdiff4(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vabsdiff4`. 9.7.18.2.2."""
    return _simd(machine, instruction, a, b, c, 4, _absolute_difference, instruction.types)


def vmin4(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vmin4`. 9.7.18.2.2."""
    return _simd(machine, instruction, a, b, c, 4, _minimum, instruction.types)


def vmax4(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vmax4`. 9.7.18.2.2."""
    return _simd(machine, instruction, a, b, c, 4, _maximum, instruction.types)


def vset4(machine: Machine, instruction: Instruction, a: Value, b: Value, c: Value | None = None) -> Value:
    """`vset4`. 9.7.18.2.2."""
    types = ("u32", *instruction.types[:2])
    return _simd(machine, instruction, a, b, c, 4, lambda e, x, y: _compare(instruction, e, x, y), types)
