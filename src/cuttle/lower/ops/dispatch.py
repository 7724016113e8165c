"""From a PTX instruction to its op function: operand types, register views, application.

A caller (the CPU's SIMT layer, the AMDGPU lowering, a test) does three things with an instruction:

1. `slots = signature(instruction)`: every destination and source with its operand and type, brace lists, predicate
   pairs and texture operands flattened in order;
2. turn each source slot's operand into a `Value` of register bits (an opaque object for the types `A` and `X`);
3. `results = apply(machine, instruction, operands, widths)`: the values to write to the destination slots, as integers
   of the given register widths (predicates as i1).
"""

from __future__ import annotations

import importlib
import keyword
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.refused import Refused, refused_by
from cuttle.abi.ptx_isa.row import Opcode
from cuttle.errors import PtxError, Where
from cuttle.lower.emit import Emitter, Value, bits_of, is_float
from cuttle.lower.machine import Machine
from cuttle.ptx.ir import (
    TYPE_BITS,
    Immediate,
    Instruction,
    Operand,
    PredicatePair,
    SelectedRegister,
    TextureOperand,
    Vector,
)

OpFunction = Callable[..., Any]
WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64", "u64": "u128", "s64": "b128", "b32": "b64"}
LLVM_FLOAT = {"f16": "half", "f32": "float", "f64": "double"}
OPAQUE = ("A", "X")


@dataclass(frozen=True, slots=True)
class Slot:
    """One flattened operand: the IR operand and its PTX type (`s32`, `pred`), or `A` (address), `X` (raw), `U` (u32 or predicate)."""

    operand: Operand
    type: str


@dataclass(frozen=True, slots=True)
class Signature:
    """Flattened destinations and sources of one instruction; carry flags are the implicit register CC.CF (i1).

    With `reads_carry` the caller appends the carry (i1) to the source values; with `writes_carry` the last result,
    beyond the destinations, is the new carry.
    """

    destinations: tuple[Slot, ...]
    sources: tuple[Slot, ...]
    reads_carry: bool = False
    writes_carry: bool = False


def refusal(instruction: Instruction | str, reason: str, code: str = "PTX-0304") -> PtxError:
    """The error for valid PTX that is not translated: `PTX-0304`, or the code of its row in `abi/ptx_isa/refused.py`."""
    if isinstance(instruction, str):
        return PtxError(code, f"{instruction}: {reason}")
    spelling = spell(instruction)
    where = Where(line=instruction.location.line, instruction=spelling)
    return PtxError(code, f"{spelling}: {reason}", where)


@cache
def _refused(opcode: str, modifiers: tuple[str, ...]) -> Refused | None:
    return refused_by(opcode, modifiers)


def refuse_listed(instruction: Instruction) -> None:
    """Raises the error of the list of refused PTX if the instruction's spelling stands in it."""
    row = _refused(instruction.opcode, instruction.modifiers)
    if row is not None:
        raise refusal(instruction, f"not supported: {row.title}", row.code)


def spell(instruction: Instruction) -> str:
    """The instruction's name with its modifiers, as written."""
    return ".".join((instruction.opcode, *instruction.modifiers))


@cache
def row_of(opcode: str) -> Opcode:
    """The row of a root opcode; refuses an unknown one."""
    row = OPCODES.get(opcode)
    if row is None:
        raise refusal(opcode, "unknown opcode")
    return row


def function_name(opcode: str) -> str:
    """`bar.warp.sync` -> `bar_warp_sync`, `and` -> `and_`; `set` counts as a keyword, its builtin is used as a type."""
    name = opcode.replace("::", "_").replace(".", "_")
    return name + "_" if keyword.iskeyword(name) or name == "set" else name


@cache
def is_sync(instruction: Instruction) -> bool:
    """Whether lanes of the warp wait for each other at an operation across it: `shfl.sync`, `elect.sync`."""
    return instruction.has("sync") or instruction.opcode.endswith(".sync")


def find(opcode: str) -> tuple[Opcode, OpFunction]:
    """The row and op function of a root opcode; refuses `todo` and `refuse` rows and the control family."""
    row = row_of(opcode)
    if row.status == "refuse":
        listed = refused_by(opcode, ())
        raise refusal(opcode, "not supported", listed.code if listed else "PTX-0304")
    if row.status == "todo":
        raise refusal(opcode, "not translated yet")
    if row.family == "control":
        raise refusal(opcode, "control flow has no op function")
    module = importlib.import_module(f"cuttle.lower.ops.{row.family}")
    function: OpFunction | None = getattr(module, function_name(opcode), None)
    if function is None:
        raise refusal(opcode, "no op function")
    return row, function


def load_functions() -> None:
    """Imports the op functions of all families at once: `find` does it family by family."""
    for family in sorted({row.family for row in OPCODES.values() if row.family != "control"}):
        importlib.import_module(f"cuttle.lower.ops.{family}")


# -- signatures ------------------------------------------------------------------------------------------------------


def signature(instruction: Instruction) -> Signature:
    """Destinations and sources of an instruction with their types, by the row's operand codes and forms."""
    refuse_listed(instruction)
    row = row_of(instruction.opcode)
    destination_codes, source_codes = _codes(row, instruction)
    operands = list(instruction.operands)
    destinations: list[Slot] = []
    index = 0
    for code in destination_codes:
        optional = code.endswith("?")
        if optional and destinations:
            continue  # the second half of a predicate pair, taken with the first
        if index >= len(operands):
            raise refusal(instruction, "too few operands")
        operand = operands[index]
        index += 1
        if isinstance(operand, PredicatePair):
            second = next((c for c in destination_codes if c.endswith("?")), "P?")
            if isinstance(operand.first, Vector):  # texels, and whether they were there
                _flatten(operand.first, code, instruction, destinations)
            else:
                destinations.append(Slot(operand.first, _type(code, instruction)))
            destinations.append(Slot(operand.second, _type(second[:-1], instruction)))
        else:
            _flatten(operand, code, instruction, destinations)
    sources: list[Slot] = []
    rest = operands[index:]
    mandatory = sum(not code.endswith(("?", "*")) for code in source_codes)
    spare = len(rest) - mandatory
    at = 0
    for code in source_codes:
        plain = code.rstrip("?*")
        if code.endswith("*"):
            while spare > 0:
                _flatten(rest[at], plain, instruction, sources)
                at, spare = at + 1, spare - 1
            continue
        if code.endswith("?"):
            if spare <= 0:
                continue
            spare -= 1
        if at >= len(rest):
            raise refusal(instruction, "too few operands")
        _flatten(rest[at], plain, instruction, sources)
        at += 1
    if at != len(rest):
        raise refusal(instruction, "too many operands")
    return Signature(tuple(destinations), tuple(sources), row.reads_carry, row.writes_carry and instruction.has("cc"))


def _codes(row: Opcode, instruction: Instruction) -> tuple[list[str], list[str]]:
    text = row.operands
    for key, operands in row.forms:
        if key.startswith("#"):
            fits = len(instruction.types) == int(key[1:])
        else:
            fits = all(part in instruction.modifiers for part in key.split("."))
        if fits:
            text = operands
            break
    left, _, right = text.partition(":")
    return left.split(), right.split()


def _type(code: str, instruction: Instruction) -> str:
    """The PTX type a code stands for in this instruction."""
    if code == "P":
        return "pred"
    if code in ("T", "G"):
        return instruction.type
    if code == "D":
        return instruction.types[0]
    if code == "W":
        return WIDE[instruction.type]
    return code


def _flatten(operand: Operand, code: str, instruction: Instruction, slots: list[Slot]) -> None:
    if isinstance(operand, TextureOperand):
        slots.append(Slot(operand.texture, "b64"))
        if operand.sampler is not None:
            slots.append(Slot(operand.sampler, "b64"))
        coordinate = "s32" if code == "S" else instruction.type
        slots.extend(Slot(element, coordinate) for element in operand.coordinates.elements)
        return
    if isinstance(operand, SelectedRegister):
        operand = operand.register  # the op function looks at the instruction's selector
    if code == "U" and isinstance(operand, Immediate):
        code = "u32"
    type_name = _type(code, instruction)
    if not isinstance(operand, Vector) or type_name == "X":
        slots.append(Slot(operand, type_name))
        return
    if instruction.opcode == "mov":
        # A brace list packs or unpacks: its elements are equal parts of the instruction type.
        type_name = f"b{TYPE_BITS[type_name] // len(operand.elements)}"
    slots.extend(Slot(element, type_name) for element in operand.elements)


# -- values ----------------------------------------------------------------------------------------------------------


def value_type(type_name: str) -> str:
    """The LLVM type in which an op function sees an operand of a PTX type.

    f16, f32, f64 are floats, `pred` is i1, everything else (bf16, packed and alternate formats too) an integer.
    """
    if type_name == "pred":
        return "i1"
    return LLVM_FLOAT.get(type_name) or f"i{TYPE_BITS[type_name]}"


def view(emitter: Emitter, value: Value, type_name: str) -> Value:
    """Register bits (or a predicate) as an operand of the PTX type: the low bits, as float where it is one."""
    if type_name == "U":  # a predicate or a u32
        type_name = "pred" if value.type == "i1" else "u32"
    wanted = value_type(type_name)
    if value.type == wanted:
        return value
    bits = emitter.resize(emitter.as_bits(value), bits_of(wanted))
    return emitter.bitcast(bits, wanted) if is_float(wanted) else bits


def register_bits(emitter: Emitter, value: Value, type_name: str, bits: int) -> Value:
    """A result of the PTX type as the integer a register of `bits` holds: sN extended by sign, others by zero."""
    if bits == 1 or type_name == "pred":
        return value
    return emitter.resize(emitter.as_bits(value), bits, signed=type_name.startswith("s"))


def immediate(emitter: Emitter, operand: Immediate, type_name: str) -> Value:
    """A literal operand as register bits of the type's width."""
    if type_name == "pred":
        return emitter.const("i1", int(operand.bits != 0))
    bits = TYPE_BITS[type_name]
    pattern = operand.bits
    if operand.float_bits == 64 and bits == 32:
        pattern = _narrow_double(pattern)
    elif operand.float_bits == 32 and type_name == "f64":
        pattern = struct.unpack("<Q", struct.pack("<d", struct.unpack("<f", struct.pack("<I", pattern))[0]))[0]
    elif operand.float_bits == 0 and type_name in ("f32", "f64"):
        # ptxas takes an integer literal in a floating-point operand as that number.
        signed = pattern - (1 << 64) if pattern >> 63 else pattern
        code = "<f" if bits == 32 else "<d"
        pattern = int.from_bytes(struct.pack(code, float(signed)), "little")
    return emitter.const(f"i{bits}", pattern)


def _narrow_double(bits: int) -> int:
    value: float = struct.unpack("<d", struct.pack("<Q", bits))[0]
    try:
        narrow: int = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        narrow = 0xFF800000 if value < 0 else 0x7F800000
    return narrow


def call(machine: Machine, instruction: Instruction, operands: Sequence[Any], slots: Signature) -> tuple[Value, ...]:
    """The op function's results for operands given as register bits, still in their destination types."""
    _, function = find(instruction.opcode)
    emitter = machine.emitter
    arguments = [
        operand if slot.type in OPAQUE else view(emitter, operand, slot.type)
        for slot, operand in zip(slots.sources, operands, strict=False)
    ]
    arguments.extend(operands[len(slots.sources) :])  # the carry
    result = function(machine, instruction, *arguments)
    if result is None:
        return ()
    return result if isinstance(result, tuple) else (result,)


def apply(
    machine: Machine,
    instruction: Instruction,
    operands: Sequence[Any],
    widths: Sequence[int] | None = None,
    slots: Signature | None = None,
) -> tuple[Value, ...]:
    """Emit one instruction: operands in the order of `signature(...).sources`, plus the carry if it is read.

    Returns the destination values as integers of `widths` bits (default: the type's own width; 1 for predicates),
    followed by the new carry if it is written.
    """
    slots = slots or signature(instruction)
    results = call(machine, instruction, operands, slots)
    emitter = machine.emitter
    converted: list[Value] = []
    for index, slot in enumerate(slots.destinations):
        bits = widths[index] if widths is not None else TYPE_BITS[slot.type]
        converted.append(register_bits(emitter, results[index], slot.type, bits))
    if slots.writes_carry:
        converted.append(results[-1])
    return tuple(converted)
