"""From a decoded instruction to the closure that executes it: operand readers, function, writers, DPP and clamp around them."""

from __future__ import annotations

from typing import Any

import numpy as np

# The modules that register operations.
import cuttle.device.rdna.compare
import cuttle.device.rdna.cross_lane
import cuttle.device.rdna.matrix
import cuttle.device.rdna.memory_operations
import cuttle.device.rdna.packed
import cuttle.device.rdna.program_control
import cuttle.device.rdna.scalar_operations
import cuttle.device.rdna.vector_bytes
import cuttle.device.rdna.vector_convert
import cuttle.device.rdna.vector_float
import cuttle.device.rdna.vector_integer  # noqa: F401
from cuttle.device.rdna.decode import EXEC, LITERAL, VCC, VECTOR, Instruction
from cuttle.device.rdna.errors import IllegalInstruction
from cuttle.device.rdna.operands import (
    DppReader,
    Reader,
    Writer,
    destination_half,
    register_reader,
    scalar_reader,
    scalar_writer,
    vector_reader,
    vector_writer,
    width,
    with_modifiers,
)
from cuttle.device.rdna.semantics import OPERATIONS, Operation, Run
from cuttle.device.rdna.waves import View, unpack


def compile_instruction(instruction: Instruction, target: str) -> Run:
    """The closure of one instruction. Raises IllegalInstruction for what is not executed."""
    if instruction.parts:
        return _compile_dual(instruction, target)
    operation = OPERATIONS.get(instruction.mnemonic)
    if operation is None:
        raise IllegalInstruction(f"{instruction.mnemonic} is not executed by this emulator")
    if operation.kind == "vector":
        return _compile_vector(instruction, operation)
    if operation.kind == "scalar":
        return _compile_scalar(instruction, operation)
    if instruction.dpp:
        raise IllegalInstruction(f"{instruction.mnemonic} with DPP is not executed")
    run: Run = operation.function(instruction, target)
    return run


# -- scalar ------------------------------------------------------------------------------------------------------------


def _scalar_source(kind: str, instruction: Instruction, place: int) -> tuple[Reader, int]:
    """The reader of one source of a signature, and how many of the encoded sources it took."""
    if kind == "k":
        value = np.full(1, instruction.immediate, np.uint16).view(np.int16).astype(np.int32)
        return lambda w: value, 0
    if kind == "ku":
        unsigned = np.full(1, instruction.immediate, np.uint32)
        return lambda w: unsigned, 0
    if kind == "scc":
        return View.condition, 0
    if kind == "literal":
        return scalar_reader(LITERAL, "f32", instruction.literal), 0
    if kind[0] == "+":
        return scalar_reader(instruction.destination, kind[1:]), 0
    return scalar_reader(instruction.sources[place], kind, instruction.literal), 1


def _compile_scalar(instruction: Instruction, operation: Operation) -> Run:
    readers, place = [], 0
    for kind in operation.sources:
        reader, taken = _scalar_source(kind, instruction, place)
        readers.append(reader)
        place += taken
    function, mode, condition = operation.function, operation.mode, operation.condition
    write: Writer | None = scalar_writer(instruction.destination, operation.results[0]) if operation.results else None

    def run(w: View) -> None:
        operands = [read(w) for read in readers]
        result = function(w.mode, *operands) if mode else function(*operands)
        if condition == "returned":
            result, bit = result
        elif condition == "nonzero":
            bit = result != 0
        elif condition == "only":
            bit = result
        if write is not None:
            write(w, np.asarray(result))
        if condition:
            w.set_condition(bit)

    return run


# -- vector ------------------------------------------------------------------------------------------------------------


def _vector_source(kind: str, instruction: Instruction, place: int) -> tuple[Reader, int]:
    if kind == "vcc":
        return lambda w: unpack(w.scalar(VCC)), 0
    if kind[0] == "+":
        register = instruction.destination - VECTOR
        half = destination_half(instruction) if width(kind[1:]) == 16 else 0
        if instruction.encoding in ("VOP1", "VOP2"):
            return register_reader(register, kind[1:], 0, instruction), 0
        read = register_reader(register, kind[1:], half, instruction)
        # v_fmac in VOP3: the third modifiers belong to the accumulator.
        return with_modifiers(read, kind[1:], bool(instruction.abs >> 2 & 1), bool(instruction.neg >> 2 & 1)), 0
    return vector_reader(instruction, place, kind), 1


def _vector_readers(instruction: Instruction, operation: Operation) -> list[Reader]:
    readers, place = [], 0
    for kind in operation.sources:
        reader, taken = _vector_source(kind, instruction, place)
        readers.append(reader)
        place += taken
    if place != len(instruction.sources):
        raise AssertionError(f"{instruction.mnemonic}: {len(instruction.sources)} sources encoded, {place} used")
    return readers


def _vector_writers(instruction: Instruction, operation: Operation) -> list[Writer]:
    writers: list[Writer] = []
    for index, kind in enumerate(operation.results):
        if kind == "m" and (index or len(operation.results) == 1):
            writers.append(scalar_writer(instruction.scalar_destination, "m"))
        else:
            writers.append(vector_writer(instruction, kind))
    return writers


def _compile_vector(instruction: Instruction, operation: Operation) -> Run:
    function = operation.function
    kinds = operation.results
    if instruction.clamp and kinds[0] != "m" and kinds[0][0] != "f":
        if operation.saturating is None:
            raise IllegalInstruction(f"{instruction.mnemonic} with clamp is not executed")
        function = operation.saturating
    if instruction.omod and kinds[0][0] != "f":
        raise IllegalInstruction(f"{instruction.mnemonic} with omod")
    readers = _vector_readers(instruction, operation)
    writers = _vector_writers(instruction, operation)
    dpp: DppReader | None = None
    if instruction.dpp:
        kind = operation.sources[0]
        plain = Instruction(instruction.encoding, sources=instruction.sources, op_sel=instruction.op_sel)
        dpp = DppReader(instruction.dpp, vector_reader(plain, 0, kind))
        readers[0] = with_modifiers(dpp, kind, bool(instruction.abs & 1), bool(instruction.neg & 1))
    run = _plain_run(function, operation.mode, readers, writers)
    return run if dpp is None else _with_dpp(run, dpp, instruction.scalar_destination == EXEC)


def _plain_run(function: Any, mode: bool, readers: list[Reader], writers: list[Writer]) -> Run:
    if len(writers) == 2:
        first, second = writers

        def run_two(w: View) -> None:
            operands = [read(w) for read in readers]
            value, mask = function(w.mode, *operands) if mode else function(*operands)
            first(w, value)
            second(w, mask)

        return run_two
    (write,) = writers
    if mode:
        return lambda w: write(w, function(w.mode, *[read(w) for read in readers]))
    if len(readers) == 1:
        (one,) = readers
        return lambda w: write(w, function(one(w)))
    if len(readers) == 2:
        left, right = readers
        return lambda w: write(w, function(left(w), right(w)))
    return lambda w: write(w, function(*[read(w) for read in readers]))


def _with_dpp(run: Run, dpp: DppReader, writes_exec: bool) -> Run:
    """Lanes that cannot read their source through DPP, or that the row and bank masks name, keep their destination."""

    def masked(w: View) -> None:
        dpp.prepare(w)
        before = w.mask
        allowed = dpp.allowed if before is None else dpp.allowed & before
        w.mask = None if allowed.all() else allowed
        run(w)
        if writes_exec:
            w.refresh()
        else:
            w.mask = before

    return masked


# -- two in one --------------------------------------------------------------------------------------------------------


def _compile_dual(instruction: Instruction, target: str) -> Run:
    """VOPD: both parts read before either writes."""
    first, second = (_dual_part(part, target) for part in instruction.parts)

    def run(w: View) -> None:
        write_first, write_second = first(w), second(w)
        write_first()
        write_second()

    return run


def _dual_part(part: Instruction, target: str) -> Any:
    operation = OPERATIONS.get(part.mnemonic)
    if operation is None:
        raise IllegalInstruction(f"{part.mnemonic} is not executed by this emulator")
    if operation.kind != "vector":
        raise IllegalInstruction(f"{part.mnemonic} is not executed in a pair")
    readers, (write,) = _vector_readers(part, operation), _vector_writers(part, operation)

    def compute(w: View) -> Any:
        operands = [read(w) for read in readers]
        value = operation.function(w.mode, *operands) if operation.mode else operation.function(*operands)
        # The other part may write a register that `value` is a view of.
        value = value.copy() if operation.function.__name__ == "move" else value
        return lambda: write(w, value)

    return compute
