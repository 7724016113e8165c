"""mma, mma.sp, ldmatrix, stmatrix, movmatrix (PTX ISA 9.0, 9.7.14.5, 9.7.14.6).

The bits of every form are those of an H200 (tools/record_mma.py, sweep/recordings/golden_mma.xz).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops import fast_matrix, volta
from cuttle.lower.ops.coverage import stands_in_rows
from cuttle.lower.ops.dispatch import spell
from cuttle.lower.ops.element_types import as_half, force_canonical, pack, unpack
from cuttle.lower.ops.matrix_forms import ELEMENT_BITS, INTEGERS, MatrixForm, form_of, operand_registers, selectors
from cuttle.lower.ops.memory import space_of
from cuttle.lower.ops.policy import policy
from cuttle.lower.ops.tensor import Element
from cuttle.lower.ops.tiles import Row, columns_of, double_sum, float_sum, integer_sum, rows_of
from cuttle.ptx.ir import Immediate, Instruction, Vector


def unpack_accumulators(emitter: Emitter, registers: Sequence[Value], kind: str) -> list[Value]:
    """Accumulator registers as values of their type, two to a register for f16."""
    if kind == "f64":
        return [emitter.bitcast(register, "double") for register in registers]
    if kind == "f32":
        return [emitter.bitcast(register, "float") for register in registers]
    if kind == "s32":
        return list(registers)
    return [as_half(emitter, part) for register in registers for part in unpack(emitter, register)]


def pack_accumulators(emitter: Emitter, values: Sequence[Value], kind: str) -> tuple[Value, ...]:
    """The inverse: results (floats may be wider than the kind) as registers of the destination kind."""
    if kind != "f16":
        values = [force_canonical(emitter, value) if kind == "f32" else value for value in values]
        return tuple(emitter.as_bits(value) for value in values)
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


def checked_form(machine: Machine, instruction: Instruction) -> MatrixForm:
    """The instruction's form; refuses what is not one of the row's."""
    form = form_of(instruction.opcode, instruction.modifiers)
    if form is None or not stands_in_rows(spell(instruction)):
        machine.refuse("this form of matrix multiplication, which sm_90 does not have", "PTX-0512")
    assert form is not None
    for index, count in operand_registers(form).items():
        require_registers(machine, instruction, index, count)
    return form


def require_registers(machine: Machine, instruction: Instruction, index: int, count: int) -> None:
    """Refuses an operand of more or fewer registers than its part of a matrix takes: something would be left out."""
    operand = instruction.operands[index]
    if count != (len(operand.elements) if isinstance(operand, Vector) else 1):
        machine.refuse(f"operand {index} of other than {count} register{'s' if count > 1 else ''}", "PTX-0207")


def tile_sums(
    emitter: Emitter, instruction: Instruction, form: MatrixForm, rows: Sequence[Row],
    column: Callable[[int, int], Row], accumulators: Sequence[Value],
) -> list[Value]:  # fmt: skip
    """The accumulators (row half slowest, two columns each) plus the products; `column(mh, n)` goes with row half mh."""
    results: list[Value] = []
    for index, addend in enumerate(accumulators):
        row, other = rows[index // 2], column(index // 2, index % 2)
        if form.a_kind in INTEGERS:
            operation = "and" if instruction.has("and") else "xor"
            total = integer_sum(emitter, row, other, form.a_kind, operation)
            saturate = instruction.has("satfinite")
            results.append(
                emitter.intrinsic("llvm.sadd.sat", [addend, total]) if saturate else emitter.add(addend, total)
            )
        elif form.a_kind == "f64":
            mode = next((name for name in ("rz", "rm", "rp") if instruction.has(name)), "rn")
            results.append(double_sum(emitter, row, other, addend, mode))
        else:
            # With an f32 on either side the instruction accumulates in f32, and narrows at the end.
            if addend.type == "half" and form.d_kind == "f32":
                addend = emitter.cast("fpext", addend, "float")
            results.append(float_sum(emitter, form, row, other, addend))
    return results


def mma(machine: Machine, instruction: Instruction, *operands: Value) -> tuple[Value, ...]:
    """`mma.sync`: D = A * B + C on a warp's registers, with a tensor core's accumulation. 9.7.14.5.14."""
    e = machine.emitter
    form = checked_form(machine, instruction)
    a, b, c = split_registers(instruction, operands)[:3]
    if form.volta:
        return pack_accumulators(e, volta.multiply(machine, instruction, form, a, b, c), form.d_kind)

    def multiply(registers: Sequence[Value]) -> Sequence[Value]:
        inner = machine.emitter
        left, right = registers[: len(a)], registers[len(a) : len(a) + len(b)]
        accumulators = unpack_accumulators(inner, registers[len(a) + len(b) :], form.c_kind)
        if policy.fast_math and form.a_kind not in INTEGERS and form.a_kind == form.b_kind != "f64":
            results = fast_matrix.products(machine, form.a_kind, left, right, accumulators, form.m // 8)
        else:
            rows, columns = rows_of(machine, left, form.m // 8, form.a_kind), columns_of(machine, right, form.b_kind)
            results = tile_sums(inner, instruction, form, rows, lambda _, n: columns[n], accumulators)
        return pack_accumulators(inner, results, form.d_kind)

    return tuple(machine.outline(spell(instruction), [*a, *b, *c], multiply))


# -- sparse ----------------------------------------------------------------------------------------------------------


def _codes(machine: Machine, form: MatrixForm, metadata: Value, selector: int) -> list[Callable[[int, int], Value]]:
    """For each row half: bit `b` of the code of stored group `g` (i1 values), as a function of (g, b).

    A quad's lanes, of which the selector chooses some when a register of each would be more than there is to say, hold
    the codes of its two rows, k ascending. With elements of 16 bits and more a lane's low half-word belongs to row
    `group`, the high one to row `group + 8`; with smaller elements even lanes belong to the first, odd ones to the
    second. 9.7.14.6.2.
    """
    e = machine.emitter
    code_bits = 4 if form.a_kind == "tf32" else 2
    count = 4 // selectors(form)
    quad = e.and_(machine.lane_index(), e.const("i32", 28))
    words = [machine.shuffle(metadata, e.or_(quad, e.const("i32", selector * count + t))) for t in range(count)]
    small = ELEMENT_BITS[form.a_kind] < 16

    def of(mh: int) -> Callable[[int, int], Value]:
        def bit(group: int, number: int) -> Value:
            if small:
                word, place = words[2 * (group // 16) + mh], 2 * (group % 16) + number
            else:
                per_lane = 16 // code_bits
                word, place = words[group // per_lane], 16 * mh + code_bits * (group % per_lane) + number
            return e.icmp("ne", e.and_(word, e.const("i32", 1 << place)), e.const("i32", 0))

        return bit

    return [of(mh) for mh in range(2)]


def _choose(emitter: Emitter, condition: Value, a: Element, b: Element) -> Element:
    exponent = None
    if a.exponent is not None and b.exponent is not None:
        exponent = emitter.select(condition, a.exponent, b.exponent)
    return Element(emitter.select(condition, a.value, b.value), exponent)


def _selected(emitter: Emitter, form: MatrixForm, bit: Callable[[int, int], Value], column: Row) -> list[Element]:
    """The elements of B that meet the stored elements of a row of A, in order."""
    chosen: list[Element] = []
    if form.a_kind == "tf32":
        # 1:2; code 1110 stands for the second of a pair, 0100 for the first.
        for j in range(form.stored_k):
            chosen.append(_choose(emitter, bit(j, 3), column[2 * j + 1], column[2 * j]))
        return chosen
    width = 2 if form.a_kind in ("s4", "u4") else 1  # elements that go together
    for group in range(form.stored_k // width):
        low, high = bit(group, 0), bit(group, 1)
        first = 4 * width * (group // 2)
        for i in range(width):
            options = [column[first + width * index + i] for index in range(4)]
            upper = _choose(emitter, low, options[3], options[2])
            chosen.append(_choose(emitter, high, upper, _choose(emitter, low, options[1], options[0])))
    return chosen


def mma_sp(machine: Machine, instruction: Instruction, *operands: Any) -> tuple[Value, ...]:
    """`mma.sp`: A holds two of four elements of each row (tf32: one of two), named by the metadata. 9.7.14.6."""
    e = machine.emitter
    form = checked_form(machine, instruction)
    *registers, selector = operands
    if not isinstance(selector, Immediate):
        machine.refuse("a sparsity selector that is no constant")
    if selector.bits >= selectors(form):
        machine.refuse(f"sparsity selector {selector.bits}")
    a, b, c, metadata = split_registers(instruction, registers)[:4]
    rows, columns = rows_of(machine, a, form.m // 8, form.a_kind), columns_of(machine, b, form.b_kind)
    codes = _codes(machine, form, metadata[0], selector.bits)
    chosen = {(mh, n): _selected(e, form, codes[mh], columns[n]) for mh in range(2) for n in range(2)}
    accumulators = unpack_accumulators(e, c, form.c_kind)
    results = tile_sums(e, instruction, form, rows, lambda mh, n: chosen[mh, n], accumulators)
    return pack_accumulators(e, results, form.d_kind)


def mma_sp_ordered_metadata(machine: Machine, instruction: Instruction, *operands: Any) -> tuple[Value, ...]:
    """`mma.sp::ordered_metadata`: the same with the promise that the indices ascend. 9.7.14.6."""
    return mma_sp(machine, instruction, *operands)


# -- moving 8x8 matrices ---------------------------------------------------------------------------------------------


def _const(emitter: Emitter, value: int) -> Value:
    return emitter.const("i32", value)


_ROW_BYTES = 16  # of an 8x8 matrix of b16 in memory


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
    count = next(count for name, count in (("x4", 4), ("x2", 2), ("x1", 1)) if instruction.has(name))
    require_registers(machine, instruction, 0 if instruction.opcode == "ldmatrix" else 1, count)
    return count


def ldmatrix(machine: Machine, instruction: Instruction, address: Any) -> tuple[Value, ...]:
    """`ldmatrix`: lane 8m + r points at row r of matrix m; each lane gets two elements of each. 9.7.14.5.15."""
    e = machine.emitter
    count, space = _matrix_count(machine, instruction), space_of(instruction)
    lane = machine.lane_index()
    where = None if count == 4 else e.icmp("ult", lane, _const(e, 8 * count))
    machine.expect_aligned(space, address, _ROW_BYTES, where=where)
    words = machine.load(space, 32, 4, address) if where is None else machine.load(space, 32, 4, address, where=where)
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
    count, space = _matrix_count(machine, instruction), space_of(instruction)
    lane = machine.lane_index()
    if instruction.has("trans"):
        registers = tuple(_transposed(machine, register) for register in registers)
    row = e.shl(e.and_(lane, _const(e, 7)), _const(e, 2))
    matrix = e.lshr(lane, _const(e, 3))
    words: list[Value] = []
    for t in range(4):
        moved = [machine.shuffle(register, e.or_(row, _const(e, t))) for register in registers]
        words.append(_pick(e, moved, matrix))
    where = None if count == 4 else e.icmp("ult", lane, _const(e, 8 * count))
    machine.expect_aligned(space, address, _ROW_BYTES, where=where)
    if where is None:
        machine.store(space, 32, address, words)
    else:
        machine.store(space, 32, address, words, where=where)
