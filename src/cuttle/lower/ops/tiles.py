"""The register layouts of warp matrix instructions and the product of two register tiles (PTX ISA 9.0, 9.7.14).

All dense shapes but Volta's m8n8k4 follow one rule. With E elements to a 32-bit register (one for f64 and tf32), lane
= 4 * group + t holds of A the rows `group + 8 * mh` and the k `t * E + i + 4 * E * kh`, of B the column `group` and the
same k, of the accumulator the rows `group + 8 * mh` and the columns `2 * t`, `2 * t + 1`. Registers of A count mh
fastest, those of B kh. A sparse A holds half as many k.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.math import directed
from cuttle.lower.ops import tensor
from cuttle.lower.ops.element_types import GENERATED_NAN, first_nan
from cuttle.lower.ops.matrix_forms import ELEMENT_BITS, INTEGERS, MatrixForm
from cuttle.lower.ops.policy import policy
from cuttle.lower.ops.tensor import Element

# What each output sums over: the elements of its row of A and its column of B, in the order of k.
Row = Sequence[Element]


def per_register(kind: str) -> int:
    """E: k elements that one register holds. A word of b1 counts as one element."""
    return 1 if kind in ("f64", "b1") else 32 // ELEMENT_BITS[kind]


def unpack_register(emitter: Emitter, register: Value, kind: str) -> list[Element]:
    """The elements of a register."""
    if kind == "f64":
        return [Element(emitter.bitcast(register, "double"))]
    if kind == "b1":
        return [Element(register)]
    if kind not in INTEGERS:
        return tensor.unpack_floats(emitter, register, kind)
    bits = ELEMENT_BITS[kind]
    return [
        Element(_integer_part(emitter, register, shift, bits, kind.startswith("s"))) for shift in range(0, 32, bits)
    ]


def _integer_part(emitter: Emitter, register: Value, shift: int, bits: int, signed: bool) -> Value:
    if signed:
        left = emitter.shl(register, emitter.const("i32", 32 - shift - bits))
        return emitter.ashr(left, emitter.const("i32", 32 - bits))
    moved = emitter.lshr(register, emitter.const("i32", shift)) if shift else register
    return emitter.and_(moved, emitter.const("i32", (1 << bits) - 1))


def _spread(machine: Machine, registers: Sequence[Value], sources: Sequence[Value], kind: str) -> list[list[Row]]:
    """Elements of each register (inner) in each source lane (outer)."""
    e = machine.emitter
    if kind in INTEGERS or kind == "f64":
        return [
            [unpack_register(e, machine.shuffle(register, lane), kind) for register in registers] for lane in sources
        ]
    # Floats cost more to take apart than to move.
    unpacked = [unpack_register(e, register, kind) for register in registers]
    return [
        [[element.map(partial(machine.shuffle, source_lane=lane)) for element in elements] for elements in unpacked]
        for lane in sources
    ]  # fmt: skip


def rows_of(machine: Machine, registers: Sequence[Value], row_halves: int, kind: str) -> list[list[Element]]:
    """A: for each row half the lane's row, k ascending."""
    e = machine.emitter
    row = e.and_(machine.lane_index(), e.const("i32", 28))
    parts = _spread(machine, registers, [e.or_(row, e.const("i32", t)) for t in range(4)], kind)
    return [
        [element for kh in range(len(registers) // row_halves) for t in range(4) for element in parts[t][kh * row_halves + mh]]
        for mh in range(row_halves)
    ]  # fmt: skip


def columns_of(machine: Machine, registers: Sequence[Value], kind: str) -> list[list[Element]]:
    """B: the lane's two columns, k ascending."""
    e = machine.emitter
    column = e.shl(e.and_(machine.lane_index(), e.const("i32", 3)), e.const("i32", 3))
    lanes = [e.or_(column, e.const("i32", 4 * n + t)) for n in range(2) for t in range(4)]
    parts = _spread(machine, registers, lanes, kind)
    return [
        [element for kh in range(len(registers)) for t in range(4) for element in parts[4 * n + t][kh]]
        for n in range(2)
    ]


# -- sums ------------------------------------------------------------------------------------------------------------


def integer_sum(emitter: Emitter, row: Row, column: Row, kind: str, bit_operation: str) -> Value:
    """The sum of products modulo 2**32; for b1 the population count of the words combined."""
    total: Value | None = None
    for x, y in zip(row, column, strict=True):
        if kind == "b1":
            term = emitter.intrinsic("llvm.ctpop", [emitter.binary(bit_operation, x.value, y.value)])
        else:
            term = emitter.mul(x.value, y.value)
        total = term if total is None else emitter.add(total, term)
    assert total is not None
    return total


def double_sum(emitter: Emitter, row: Row, column: Row, addend: Value, mode: str) -> Value:
    """f64: fused multiply-adds, k ascending, each rounded by `mode`; of several NaNs that of B wins, then the sum's."""
    for x, y in zip(row, column, strict=True):
        if mode == "rn":
            total = emitter.intrinsic("llvm.fma", [x.value, y.value, addend])
        else:
            total = directed.fma(emitter, x.value, y.value, addend, mode)
        if policy.generate_nan:
            generated = emitter.bitcast(emitter.const("i64", GENERATED_NAN), "double")
            total = emitter.select(emitter.fcmp("uno", total, total), generated, total)
            addend = first_nan(emitter, total, y.value, addend, x.value)
        else:
            addend = first_nan(emitter, total, y.value, addend)
    return addend


def float_sum(emitter: Emitter, form: MatrixForm, row: Row, column: Row, addend: Value) -> Value:
    """f16, bf16, tf32 and 8-bit floats on an accumulator (float or half), as the H200 splits the instruction up.

    8-bit floats are two f16 instructions, one for the even and one for the odd pairs of k, that start from zero; the
    accumulator is added at the end, rounded to nearest even. wmma of tf32 is two instructions of k = 4.
    """
    pairs = list(zip(row, column, strict=True))
    if policy.fast_math:
        total = emitter.cast("fpext", addend, "float") if addend.type == "half" else addend
        for x, y in pairs:
            total = emitter.intrinsic("llvm.fma", [x.value, y.value, total])
        return total
    halves = form.a_kind not in ("bf16", "tf32")
    small = form.a_kind in ("e4m3", "e5m2")
    if small:
        steps = [[pair for k, pair in enumerate(pairs) if k % 4 // 2 == half] for half in range(2)]
    elif form.a_kind == "tf32" and form.opcode == "wmma.mma":
        steps = [pairs[:4], pairs[4:]]
    else:
        steps = [pairs]
    total = emitter.const(addend.type, 0) if small else addend
    for step in steps:
        start = tensor.zero_element(emitter) if total.constant == 0 else tensor.accumulator(emitter, total)
        summed = tensor.add_products(emitter, step, start, addend.type, halves)
        total = tensor.to_float(emitter, summed, halves) if addend.type == "float" else tensor.to_half(emitter, summed)
    if not small:
        return total
    wide = [value if value.type == "float" else emitter.cast("fpext", value, "float") for value in (total, addend)]
    result = emitter.binary("fadd", wide[0], wide[1])
    return result if addend.type == "float" else emitter.cast("fptrunc", result, "half")
