"""wmma.load, wmma.mma, wmma.store (PTX ISA 9.0, 9.7.14.4).

The manual leaves the fragments' layout open; this is the H200's (tools/record_mma.py). A fragment is made of the
register tiles of `tiles.py`: A of 16-row (or one 8-row) blocks, B and the accumulators of 8-column blocks; registers
beyond the elements repeat the first ones. m8n32k16 is the transposed problem, whose A is B's transpose.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.coverage import stands_in_rows
from cuttle.lower.ops.dispatch import spell
from cuttle.lower.ops.matrix import (
    checked_form,
    pack_accumulators,
    require_registers,
    split_registers,
    tile_sums,
    unpack_accumulators,
)
from cuttle.lower.ops.matrix_forms import ELEMENT_BITS, kinds_after_shape, shape_of, wmma_registers
from cuttle.lower.ops.memory import space_of
from cuttle.lower.ops.tensor import Element
from cuttle.lower.ops.tiles import columns_of, rows_of
from cuttle.ptx.ir import Instruction, Vector


class Fragment:
    """Where each register element of a fragment lies in its matrix: (row, column) as functions of the lane."""

    def __init__(self, machine: Machine, role: str, shape: tuple[int, int, int], kind: str) -> None:
        self.machine = machine
        self.role = role
        self.m, self.n, self.k = shape
        self.transposed = shape[:2] == (8, 32)
        if self.transposed:
            self.m, self.n, self.role = self.n, self.m, {"a": "b", "b": "a"}.get(role, role)
        self.kind = kind
        e = machine.emitter
        lane = machine.lane_index()
        self.group = e.lshr(lane, e.const("i32", 2))
        self.t = e.and_(lane, e.const("i32", 3))
        self.bits = bits = ELEMENT_BITS[kind]
        # Elements side by side in a register: k of A and B, the two columns of an f16 accumulator.
        self.side = (1 if kind == "f64" else 32 // bits) if role in "ab" else (2 if kind == "f16" else 1)

    def registers(self) -> list[list[tuple[Value, Value]]]:
        """For each register the (row, column) of its elements."""
        places = {"a": self._left, "b": self._right}.get(self.role, self._accumulators)()
        if self.transposed:
            return [[(column, row) for row, column in register] for register in places]
        return places

    def _row(self, block: int) -> Value:
        e = self.machine.emitter
        return e.add(self.group, e.const("i32", 8 * block)) if block else self.group

    def _along(self, half: int) -> list[Value]:
        """The k of a register's elements."""
        e = self.machine.emitter
        first = e.mul(self.t, e.const("i32", self.side))
        return [e.add(first, e.const("i32", 4 * self.side * half + index)) for index in range(self.side)]

    def _left(self) -> list[list[tuple[Value, Value]]]:
        halves = self.k // (4 * self.side)
        tiles = [range(2 * i, 2 * i + 2) for i in range(self.m // 16)] or [range(1)]
        return [
            [(self._row(block), k) for k in self._along(half)]
            for tile in tiles
            for half in range(halves)
            for block in tile
        ]

    def _right(self) -> list[list[tuple[Value, Value]]]:
        halves = self.k // (4 * self.side)
        return [
            [(k, self._row(block)) for k in self._along(half)] for block in range(self.n // 8) for half in range(halves)
        ]

    def _accumulators(self) -> list[list[tuple[Value, Value]]]:
        e = self.machine.emitter
        twice = e.shl(self.t, e.const("i32", 1))
        places = []
        for tile in [range(2 * i, 2 * i + 2) for i in range(self.m // 16)] or [range(1)]:
            for block in range(self.n // 8):
                for row in tile:
                    for column in range(2):
                        places.append((self._row(row), e.add(twice, e.const("i32", 8 * block + column))))
        return [places[i : i + self.side] for i in range(0, len(places), self.side)]


def _column(columns: list[list[Element]], _: int, n: int) -> list[Element]:
    """The column for `tile_sums`: the same for both row halves."""
    return columns[n]


def _offset(emitter: Emitter, place: tuple[Value, Value], stride: Value, row_major: bool, bits: int) -> Value:
    """Byte offset (i64) of an element; sub-byte elements by their first byte."""
    row, column = place if row_major else (place[1], place[0])
    wide = emitter.cast("zext", row, "i64")
    index = emitter.add(emitter.mul(wide, stride), emitter.cast("zext", column, "i64"))
    if bits >= 8:
        return emitter.mul(index, emitter.const("i64", bits // 8))
    return emitter.lshr(index, emitter.const("i64", (8 // bits).bit_length() - 1))


def _memory_form(machine: Machine, instruction: Instruction, stride: Value | None) -> tuple[Fragment, Value, bool]:
    """(fragment, stride in elements as i64, row major) of a load or store."""
    e = machine.emitter
    if not stands_in_rows(spell(instruction)):
        machine.refuse("this form of matrix access, which sm_90 does not have", "PTX-0512")
    role = next(name for name in ("a", "b", "c", "d") if instruction.has(name))
    shape = shape_of(instruction.modifiers)
    kind = kinds_after_shape(instruction.modifiers)[-1]
    require_registers(machine, instruction, 1 if role == "d" else 0, wmma_registers(role, shape, kind))
    row_major = instruction.has("row")
    if stride is None:
        m, n, k = shape
        rows, columns = {"a": (m, k), "b": (k, n)}.get(role, (m, n))
        stride = e.const("i32", columns if row_major else rows)
    return Fragment(machine, role, shape, kind), e.cast("zext", stride, "i64"), row_major


def wmma_load(
    machine: Machine, instruction: Instruction, address: Any, stride: Value | None = None
) -> tuple[Value, ...]:
    """`wmma.load`: a fragment from a matrix in memory. 9.7.14.4.3."""
    e = machine.emitter
    fragment, stride, row_major = _memory_form(machine, instruction, stride)
    accumulator = fragment.role not in "ab"
    bits = fragment.bits
    space = space_of(instruction)
    # A register's elements are adjacent in memory along k: rows of A, columns of B.
    adjacent = (accumulator or fragment.role == "a") == (row_major != fragment.transposed)
    registers: list[Value] = []
    _expect_aligned(machine, space, address, stride, fragment, adjacent)
    for places in fragment.registers():
        if adjacent or len(places) == 1:
            width = 64 if fragment.kind == "f64" else 32
            place = machine.advance(address, _offset(e, places[0], stride, row_major, bits))
            registers.append(_load_word(machine, space, place, width))
            continue
        if bits < 8:
            machine.refuse("sub-byte matrices across their major dimension")
        word: Value | None = None
        for index, element in enumerate(places):
            place = machine.advance(address, _offset(e, element, stride, row_major, bits))
            part = e.cast("zext", machine.load(space, bits, 1, place)[0], "i32")
            part = e.shl(part, e.const("i32", bits * index)) if index else part
            word = part if word is None else e.or_(word, part)
        assert word is not None
        registers.append(word)
    destination = instruction.operands[0]
    wanted = len(destination.elements) if isinstance(destination, Vector) else 1
    return tuple(registers[index % len(registers)] for index in range(wanted))


def _expect_aligned(
    machine: Machine, space: str, address: Any, stride: Value, fragment: Fragment, adjacent: bool
) -> None:
    """What an H200 asks of the address: operands in shared memory are fetched as `ldmatrix` does, others by register, f32
    accumulators two at a time. All rows begin as the first one does, or the distance of two rows is at fault."""
    e = machine.emitter
    if space == "shared" and fragment.role in "ab" and fragment.bits in (8, 16) and fragment.m >= 16:
        size = 16
    elif not adjacent:
        size = fragment.bits // 8
    else:
        size = 8 if fragment.kind in ("f32", "s32", "f64") else 4
    machine.expect_aligned(space, address, size)
    if size > 1 and fragment.bits >= 8:
        bytes_apart = e.mul(stride, e.const("i64", fragment.bits // 8))
        machine.expect_aligned(space, machine.advance(address, bytes_apart), size)


def _load_word(machine: Machine, space: str, place: Any, bits: int) -> Value:
    return machine.load(space, bits, 1, place)[0]


def wmma_store(machine: Machine, instruction: Instruction, address: Any, *operands: Value) -> None:
    """`wmma.store.d`: an accumulator to memory. 9.7.14.4.4."""
    e = machine.emitter
    source = instruction.operands[1]
    count = len(source.elements) if isinstance(source, Vector) else 1
    stride_operand = operands[count] if len(operands) > count else None
    fragment, stride, row_major = _memory_form(machine, instruction, stride_operand)
    bits = fragment.bits
    _expect_aligned(machine, space_of(instruction), address, stride, fragment, row_major != fragment.transposed)
    for register, places in zip(operands[:count], fragment.registers(), strict=True):
        for index, element in enumerate(places):
            part = e.as_bits(register)
            if len(places) == 2:
                part = e.cast("trunc", e.lshr(part, e.const("i32", 16 * index)) if index else part, "i16")
            place = machine.advance(address, _offset(e, element, stride, row_major, bits))
            machine.store(space_of(instruction), bits, place, [part])


def wmma_mma(machine: Machine, instruction: Instruction, *operands: Value) -> tuple[Value, ...]:
    """`wmma.mma`: D = A * B + C on fragments, tile by tile, with the accumulation of `mma`. 9.7.14.4.5."""
    e = machine.emitter
    form = checked_form(machine, instruction)
    a, b, c = split_registers(instruction, operands)
    m, n = form.m, form.n
    if (m, n) == (8, 32):
        a, b, m, n = b, a, n, m
    row_halves = 2 if m >= 16 else 1
    tiles, blocks = m // (8 * row_halves), n // 8
    # f16 fragments repeat themselves.
    per_element = 1 if form.a_kind == "f64" else 32 // ELEMENT_BITS[form.a_kind]
    halves = form.k // (4 * per_element)
    accumulators = unpack_accumulators(e, c, form.c_kind)
    results: list[Value] = []
    rights = [columns_of(machine, b[i * halves : (i + 1) * halves], form.b_kind) for i in range(blocks)]
    size = row_halves * halves
    for tile in range(tiles):
        rows = rows_of(machine, a[tile * size : (tile + 1) * size], row_halves, form.a_kind)
        for columns in rights:
            old = accumulators[len(results) : len(results) + 2 * row_halves]
            results.extend(tile_sums(e, instruction, form, rows, partial(_column, columns), old))
    return pack_accumulators(e, results, form.d_kind)
