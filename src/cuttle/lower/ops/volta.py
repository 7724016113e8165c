"""mma.m8n8k4 on f16: four independent 8x8x4 products of quad pairs (PTX ISA 9.0, 9.7.14.5.1).

Made for Volta. On later GPUs it is plain f32 arithmetic (seen in an H200's machine code and results), in an order that
depends on the type of D.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.element_types import as_half
from cuttle.lower.ops.matrix_forms import MatrixForm
from cuttle.ptx.ir import Instruction


def _const(emitter: Emitter, value: int) -> Value:
    return emitter.const("i32", value)


def _element(machine: Machine, registers: Sequence[Value], lane: Value, index: Value) -> Value:
    """Half number `index` (i32) of another lane's registers (a power of two of them), as float."""
    e = machine.emitter
    words = [machine.shuffle(register, lane) for register in registers]
    bit = 2
    while len(words) > 1:
        odd = e.icmp("ne", e.and_(index, _const(e, bit)), _const(e, 0))
        words = [e.select(odd, words[i + 1], words[i]) for i in range(0, len(words), 2)]
        bit *= 2
    shift = e.shl(e.and_(index, _const(e, 1)), _const(e, 4))
    half = as_half(e, e.cast("trunc", e.lshr(words[0], shift), "i16"))
    return e.cast("fpext", half, "float")


def multiply(
    machine: Machine, instruction: Instruction, form: MatrixForm, a: Sequence[Value], b: Sequence[Value],
    c: Sequence[Value],
) -> list[Value]:  # fmt: skip
    """The results as floats, by the layout of D."""
    e = machine.emitter
    a_layout, b_layout = [name for name in instruction.modifiers if name in ("row", "col")]
    lane = machine.lane_index()
    quad, upper = e.and_(lane, _const(e, 12)), e.lshr(e.and_(lane, _const(e, 16)), _const(e, 2))

    def home(number: Value) -> Value:
        """The first lane of the four that hold rows or columns `number & ~3` onward."""
        return e.or_(quad, e.shl(e.and_(number, _const(e, 4)), _const(e, 2)))

    def factor(registers: Sequence[Value], number: Value, k: int, along_k: bool) -> Value:
        """Element (row or column `number`, k): a lane's four run along k or across it."""
        inner = e.and_(number, _const(e, 3))
        if along_k:
            return _element(machine, registers, e.or_(home(number), inner), _const(e, k))
        return _element(machine, registers, e.or_(home(number), _const(e, k)), inner)

    results: list[Value] = []
    for i in range(8):
        if form.d_kind == "f16":
            row, column = e.or_(e.and_(lane, _const(e, 3)), upper), _const(e, i)
        else:
            row = e.or_(e.or_(e.and_(lane, _const(e, 1)), _const(e, i & 2)), upper)
            column = e.or_(e.and_(lane, _const(e, 2)), _const(e, i & 5))
        if form.c_kind == "f32":
            addend = e.bitcast(c[i], "float")
        else:
            addend = _element(machine, c, e.or_(home(row), e.and_(row, _const(e, 3))), column)
        pairs = [(factor(a, row, k, a_layout == "row"), factor(b, column, k, b_layout == "col")) for k in range(4)]
        results.append(_sum_in_pairs(e, pairs, addend) if form.d_kind == "f16" else _sum_in_turn(e, pairs, addend))
    return results


def _sum_in_turn(emitter: Emitter, pairs: Sequence[tuple[Value, Value]], addend: Value) -> Value:
    """Products one after the other from +0 on, then the addend."""
    total = emitter.const("float", 0)
    for x, y in pairs:
        total = emitter.intrinsic("llvm.fma", [x, y, total])
    return emitter.binary("fadd", total, addend)


def _sum_in_pairs(emitter: Emitter, pairs: Sequence[tuple[Value, Value]], addend: Value) -> Value:
    """The addend, plus the first two products, plus the other two."""
    for at in (0, 2):
        first = emitter.binary("fmul", *pairs[at])
        addend = emitter.binary("fadd", addend, emitter.intrinsic("llvm.fma", [*pairs[at + 1], first]))
    return addend
