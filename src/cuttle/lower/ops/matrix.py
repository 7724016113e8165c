"""mma, ldmatrix, stmatrix, movmatrix (PTX ISA 9.0, 9.7.14.5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.common import as_half, force_canonical, pack, unpack
from cuttle.lower.ops.tiles import ELEMENT_BITS, INTEGERS, Product, multiply_tile, per_register
from cuttle.ptx.ir import Instruction, Vector

_EXTRAS = ("satfinite", "xor", "and", "popc", "sync", "aligned", "row", "col", "rn", "rz", "rm", "rp")


def shape_of(instruction: Instruction) -> tuple[int, int, int]:
    """(m, n, k) of the shape modifier."""
    for modifier in instruction.modifiers:
        found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", modifier)
        if found:
            return int(found[1]), int(found[2]), int(found[3])
    raise ValueError("no matrix shape")


def kinds_after_shape(instruction: Instruction) -> list[str]:
    """The type modifiers, which stand after the shape (4-bit and 1-bit ones included)."""
    names = list(instruction.modifiers)
    at = next(index for index, name in enumerate(names) if re.fullmatch(r"m\d+n\d+(k\d+)?", name))
    return [name for name in names[at + 1 :] if name not in _EXTRAS]


def unpack_accumulators(emitter: Emitter, registers: Sequence[Value], kind: str) -> list[Value]:
    """Accumulator registers as values to add to: f16 pairs widen to float."""
    if kind == "f64":
        return [emitter.bitcast(register, "double") for register in registers]
    if kind == "f32":
        return [emitter.bitcast(register, "float") for register in registers]
    if kind == "s32":
        return list(registers)
    values: list[Value] = []
    for register in registers:
        halves = (as_half(emitter, part) for part in unpack(emitter, register))
        values.extend(emitter.cast("fpext", half, "float") for half in halves)
    return values


def pack_accumulators(emitter: Emitter, values: Sequence[Value], kind: str) -> tuple[Value, ...]:
    """The inverse: results as registers of the destination kind."""
    if kind == "f64" or kind == "s32":
        return tuple(emitter.as_bits(value) for value in values)
    if kind == "f32":
        return tuple(emitter.as_bits(force_canonical(emitter, value)) for value in values)
    halves = [force_canonical(emitter, emitter.cast("fptrunc", value, "half")) for value in values]
    return tuple(pack(emitter, halves[index], halves[index + 1]) for index in range(0, len(halves), 2))


def split_registers(instruction: Instruction, operands: Sequence[Value]) -> list[list[Value]]:
    """The flattened source values grouped by operand."""
    groups: list[list[Value]] = []
    at = 0
    for operand in instruction.operands[1:]:
        count = len(operand.elements) if isinstance(operand, Vector) else 1
        groups.append(list(operands[at : at + count]))
        at += count
    return groups


def product_of(machine: Machine, instruction: Instruction, a_kind: str, b_kind: str) -> Product:
    for kind in (a_kind, b_kind):
        if kind not in ELEMENT_BITS:
            machine.refuse(f"matrix elements of type {kind}")
    return Product(a_kind, b_kind, "and" if instruction.has("and") else "xor")


def add_integers(emitter: Emitter, instruction: Instruction, sums: Sequence[Value], c: Sequence[Value]) -> list[Value]:
    """Integer products onto the accumulators, which saturate with `.satfinite`."""
    if instruction.has("satfinite"):
        return [emitter.intrinsic("llvm.sadd.sat", [x, y]) for x, y in zip(c, sums, strict=True)]
    return [emitter.add(x, y) for x, y in zip(c, sums, strict=True)]


def mma(machine: Machine, instruction: Instruction, *operands: Value) -> tuple[Value, ...]:
    """`mma.sync`: D = A * B + C on a warp's registers.

    Integers and f64 are exact. Floating accumulation is fused in f32 with k ascending; tensor cores add several
    products at once and truncate, so the last bits may differ. 9.7.14.5.14.
    """
    e = machine.emitter
    m, n, k = shape_of(instruction)
    kinds = kinds_after_shape(instruction)
    if (m, n, k) == (8, 8, 4) and "f64" not in kinds:
        machine.refuse("mma.m8n8k4 of Volta")
    if len(kinds) != 4 or any("::" in name for name in instruction.modifiers):
        machine.refuse("this form of mma")
    d_kind, a_kind, b_kind, c_kind = kinds
    product = product_of(machine, instruction, a_kind, b_kind)
    a, b, c = split_registers(instruction, operands)
    elements = 32 * per_register(a_kind) if a_kind == "b1" else per_register(a_kind)
    if len(b) != k // (4 * elements) or len(a) != len(b) * (m // 8) or n != 8:
        machine.refuse("this shape of mma")
    accumulators = unpack_accumulators(e, c, c_kind)
    if a_kind in INTEGERS:
        sums = multiply_tile(machine, product, a, b, [e.const("i32", 0)] * len(accumulators))
        return tuple(add_integers(e, instruction, sums, accumulators))
    return pack_accumulators(e, multiply_tile(machine, product, a, b, accumulators), d_kind)


# -- moving 8x8 matrices ---------------------------------------------------------------------------------------------


def _const(emitter: Emitter, value: int) -> Value:
    return emitter.const("i32", value)


def _pick(emitter: Emitter, choices: Sequence[Value], index: Value) -> Value:
    """choices[index] (a power of two of them)."""
    current = list(choices)
    bit = 1
    while len(current) > 1:
        odd = emitter.icmp("ne", emitter.and_(index, _const(emitter, bit)), _const(emitter, 0))
        current = [emitter.select(odd, current[i + 1], current[i]) for i in range(0, len(current), 2)]
        bit *= 2
    return current[0]


def _matrix_count(machine: Machine, instruction: Instruction) -> int:
    if not instruction.has("m8n8") or not instruction.has("b16"):
        machine.refuse("matrices other than 8x8 of b16")
    return next(count for name, count in (("x4", 4), ("x2", 2), ("x1", 1)) if instruction.has(name))


def ldmatrix(machine: Machine, instruction: Instruction, address: Any) -> tuple[Value, ...]:
    """`ldmatrix`: lane 8m + r points at row r of matrix m; each lane gets two elements of each. 9.7.14.5.15."""
    e = machine.emitter
    count = _matrix_count(machine, instruction)
    lane = machine.lane_index()
    where = None if count == 4 else e.icmp("ult", lane, _const(e, 8 * count))
    words = (
        machine.load("shared", 32, 4, address) if where is None else machine.load("shared", 32, 4, address, where=where)
    )
    group, t = e.lshr(lane, _const(e, 2)), e.and_(lane, _const(e, 3))
    results: list[Value] = []
    for matrix in range(count):
        if not instruction.has("trans"):
            source = e.or_(group, _const(e, 8 * matrix))
            results.append(_pick(e, [machine.shuffle(word, source) for word in words], t))
            continue
        halves: list[Value] = []
        for element in range(2):
            source = e.or_(e.shl(t, _const(e, 1)), _const(e, 8 * matrix + element))
            word = _pick(e, [machine.shuffle(word, source) for word in words], e.lshr(group, _const(e, 1)))
            halves.append(_half(e, word, group))
        results.append(pack(e, halves[0], halves[1]))
    return tuple(results)


def _half(emitter: Emitter, word: Value, index: Value) -> Value:
    """The low or high half of a word, by the index's last bit, as i16."""
    shift = emitter.shl(emitter.and_(index, _const(emitter, 1)), _const(emitter, 4))
    return emitter.cast("trunc", emitter.lshr(word, shift), "i16")


def _transposed(machine: Machine, register: Value) -> Value:
    """The register of the transposed 8x8 matrix."""
    e = machine.emitter
    lane = machine.lane_index()
    group, t = e.lshr(lane, _const(e, 2)), e.and_(lane, _const(e, 3))
    halves: list[Value] = []
    for element in range(2):
        row = e.or_(e.shl(t, _const(e, 1)), _const(e, element))
        source = e.or_(e.shl(row, _const(e, 2)), e.lshr(group, _const(e, 1)))
        halves.append(_half(e, machine.shuffle(register, source), group))
    return pack(e, halves[0], halves[1])


def movmatrix(machine: Machine, instruction: Instruction, a: Value) -> Value:
    """`movmatrix.trans`: an 8x8 matrix of b16 transposed in registers. 9.7.14.5.17."""
    return _transposed(machine, a)


def stmatrix(machine: Machine, instruction: Instruction, address: Any, *registers: Value) -> None:
    """`stmatrix`: lane 8m + r points at row r of matrix m. 9.7.14.5.16."""
    e = machine.emitter
    count = _matrix_count(machine, instruction)
    lane = machine.lane_index()
    if instruction.has("trans"):
        registers = tuple(_transposed(machine, register) for register in registers)
    row = e.shl(e.and_(lane, _const(e, 7)), _const(e, 2))
    matrix = e.lshr(lane, _const(e, 3))
    words: list[Value] = []
    for t in range(4):
        moved = [machine.shuffle(register, e.or_(row, _const(e, t))) for register in registers]
        words.append(_pick(e, moved, matrix))
    if count == 4:
        machine.store("shared", 32, address, words)
    else:
        machine.store("shared", 32, address, words, where=e.icmp("ult", lane, _const(e, 8 * count)))
