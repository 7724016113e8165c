"""Whether instructions have the operands that the rows of their opcodes ask for.

Every later stage relies on it: passes look at the second operand of an `add` without asking whether there is one. Compilers
never break these rules, so the error is for PTX that was written, or damaged, by hand (`PTX-0207`).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.refused import refused_by
from cuttle.abi.ptx_isa.row import Opcode
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.errors import CuttleError, PtxError, Where
from cuttle.lower.ops.coverage import HINTED, HINTS, ORDERINGS, SAME_SPACE
from cuttle.lower.ops.dispatch import WIDE, Slot, _codes, signature, spell
from cuttle.ptx.ir import (
    TYPE_BITS,
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Negated,
    Operand,
    PredicatePair,
    Register,
    SelectedRegister,
    Sink,
    SpecialRegister,
    Symbol,
    TextureOperand,
    Vector,
)
from cuttle.ptx.printer import print_instruction

VECTORS = {"v2": 2, "v4": 4, "v8": 8}
PLAIN_VECTORS = frozenset(("ld", "ldu", "st", "atom", "red"))
"""Opcodes whose brace lists are as long as their vector modifier says."""
VALUE_LISTS = {"tex": 0, "tld4": 0, "suld": 0, "sust": 1, "sured": 1, "st.async": 1}
"""The same for their values, which are the operand of this number; without a modifier they take a list of one, too."""
COORDINATES = {
    "1d": (1, 2, 4), "2d": (2, 4), "3d": (4,), "a1d": (2, 4), "a2d": (4,), "cube": (4,), "acube": (4,), "2dms": (4,), "a2dms": (4,),
}  # fmt: skip
"""Lengths of a list of coordinates that ptxas 13.0 takes for each shape; what is beyond the shape's own is passed over."""
OFFSETS = {"1d": (1, 2, 4), "2d": (2, 4), "3d": (4,), "a1d": (1, 2, 4), "a2d": (2, 4)}
"""The same for a list of offsets; other shapes have none."""
GRADIENTS: dict[str, tuple[int, ...]] = {
    "1d": (1,),
    "2d": (2,),
    "3d": (4,),
    "a1d": (1,),
    "a2d": (2,),
    "cube": (4,),
    "acube": (4,),
}
"""The same for each of the two lists of `tex.grad`."""
WEAKER_FENCES = frozenset(("sync_restrict::shared::cta", "sync_restrict::shared::cluster", "async::generic"))
"""They restrict what a fence orders (PTX ISA 8.6); ours order everything."""
WORDS: dict[type, str] = {
    Register: "a register", SelectedRegister: "part of a register", SpecialRegister: "a special register",
    Immediate: "a number", Symbol: "a name", Address: "an address in brackets", Vector: "a brace list",
    Negated: "a negated predicate", Sink: "the sink `_`", PredicatePair: "a pair of registers",
    TextureOperand: "a texture operand",
}  # fmt: skip


def check_called(module: Module, function: Function) -> None:
    """Raises PtxError if an instruction of a function, or of one that it calls by name, breaks a rule of its operands."""
    pending, seen = [function], {function.name}
    while pending:
        one = pending.pop()
        check_function(one, module.functions)
        for statement in one.statements or ():
            if not isinstance(statement, Instruction) or statement.call is None:
                continue
            if isinstance(statement.call.callee, Symbol):
                name = statement.call.callee.name
                callee = module.functions.get(module.aliases.get(name, name))
                if callee is not None and callee.name not in seen:
                    seen.add(callee.name)
                    pending.append(callee)


def check_function(function: Function, functions: Container[str]) -> None:
    """Raises PtxError for the first instruction that breaks a rule. `functions` are the module's functions."""
    for statement in function.statements or ():
        if isinstance(statement, Instruction):
            check_instruction(statement, function.registers, functions, function.name)


def check_instruction(
    instruction: Instruction, registers: Mapping[str, str], functions: Container[str], kernel: str = ""
) -> None:
    """Number and kinds of operands, against the row. Opcodes without a row, and `call`, are not looked at here."""
    if instruction.opcode == "call":
        return
    where = Where(line=instruction.location.line, kernel=kernel, instruction=print_instruction(instruction))
    row = OPCODES.get(instruction.opcode)
    results = 1 if row is None or _codes(row, instruction)[0] else 0
    if any(isinstance(operand, PredicatePair) for operand in instruction.operands[results:]):
        raise PtxError(
            "PTX-0207", "found a pair of registers behind the results; expected one in the first place only", where
        )
    if row is None or row.status in ("todo", "refuse") or refused_by(instruction.opcode, instruction.modifiers):
        return  # if it is executed, it is refused by its own code
    strange = unknown_modifier(instruction, row)
    if strange:
        message = f"`{spell(instruction)}`: .{strange} is unknown here; expected {forms_of(row)}"
        raise PtxError("PTX-0304", message, where)
    reason = problem(instruction, row, registers, functions)
    if reason:
        raise PtxError("PTX-0207", f"{reason}; expected {forms_of(row)}", where)


def forms_of(row: Opcode) -> str:
    """The forms of an opcode in a few words."""
    operands = " ".join(row.operands.replace(":", "").split()) or "no operands"
    forms = " or ".join(row.syntax[:2]) + (" ..." if len(row.syntax) > 2 else "")
    return f"`{forms}` with operands {operands}" if row.syntax else f"operands {operands}"


def knows_spelling(instruction: Instruction) -> bool:
    """Whether the instruction's modifiers are among those of its row's forms."""
    row = OPCODES.get(instruction.opcode)
    return row is not None and spell(instruction) in set(expand_all(row.syntax))


@contextmanager
def translating(instruction: Instruction) -> Iterator[None]:
    """While an op function works on an instruction: what it trips over becomes an error that names the instruction.

    Op functions rely on the modifiers of the row's forms. An instruction that has others is broken; where the form is known,
    the fault is ours, and the error says so.
    """
    try:
        yield
    except (CuttleError, MemoryError, RecursionError):
        raise
    except Exception as error:
        where = Where(line=instruction.location.line, instruction=print_instruction(instruction))
        row = OPCODES.get(instruction.opcode)
        if row is not None and row.syntax and not knows_spelling(instruction):
            message = f"`{spell(instruction)}` is no form of {row.name}; expected {forms_of(row)}"
            raise PtxError("PTX-0207", message, where) from error
        raise PtxError("PTX-0391", f"the translator failed: {type(error).__name__}: {error}", where) from error


def problem(instruction: Instruction, row: Opcode, registers: Mapping[str, str], functions: Container[str]) -> str:
    """What is wrong, or nothing."""
    reason = type_problem(instruction, row) or vector_problem(instruction)
    if reason:
        return reason
    try:
        slots = signature(instruction)
    except PtxError as error:
        return error.message
    for slot in slots.destinations:
        reason = destination_problem(slot, registers)
        if reason:
            return reason
    for slot in slots.sources:
        reason = source_problem(slot, registers, functions)
        if reason:
            return reason
    return ""


@cache
def words_of(opcode: str) -> frozenset[str]:
    """All modifiers that occur in the forms of an opcode."""
    parts = (re.findall(r"[\w:]+", pattern.removeprefix(opcode)) for pattern in OPCODES[opcode].syntax)
    return frozenset(word for words in parts for word in words)


@cache
def vocabulary(row: Opcode) -> frozenset[str]:
    """What an opcode's modifiers can be. Beside memory, an ordering or a hint that the forms leave out changes nothing."""
    words = words_of(row.name)
    if row.name.partition(".")[0] == "fence":
        words |= WEAKER_FENCES
    return words | HINTS | ORDERINGS | SAME_SPACE.keys() | {"shared", "unified"} if row.family in HINTED else words


def unknown_modifier(instruction: Instruction, row: Opcode) -> str:
    """A modifier that nobody looks at would be a silent wrong answer."""
    if not row.syntax:
        return ""
    known = vocabulary(row)
    return next((part for part in instruction.modifiers if part not in known), "")


def type_problem(instruction: Instruction, row: Opcode) -> str:
    """The types, and the texture operand, that the operand codes refer to are there."""
    for codes in _codes(row, instruction):
        for code in codes:
            plain = code.rstrip("?*")
            if plain in ("T", "D", "W", "G") and not instruction.types:
                return f"`{spell(instruction)}` names no type"
            if plain in ("G", "S") and not any(isinstance(each, TextureOperand) for each in instruction.operands):
                return f"`{spell(instruction)}` without a texture operand in brackets"
            if plain == "W" and instruction.type not in WIDE:
                return f"there is no type twice as wide as .{instruction.type}"
    return ""


def vector_problem(instruction: Instruction) -> str:
    """Brace lists are not empty, as long as `.v2`, `.v4` or `.v8` says, and not nested."""
    wanted = next((VECTORS[part] for part in instruction.modifiers if part in VECTORS), 0)
    lists = [operand for operand in instruction.operands if isinstance(operand, Vector)]
    for operand in lists:
        if not operand.elements or any(isinstance(element, Vector) for element in operand.elements):
            return "a brace list holds nothing, or another list"
        if instruction.opcode == "mov" and instruction.type and TYPE_BITS[instruction.type] % len(operand.elements):
            return f".{instruction.type} has no {len(operand.elements)} equal parts"
        if instruction.opcode in PLAIN_VECTORS and len(operand.elements) != wanted:
            return f"a brace list of {len(operand.elements)} where {wanted or 'no list'} is expected"
    if wanted and not lists and instruction.opcode in PLAIN_VECTORS:
        return f"no brace list where one of {wanted} is expected"
    return texture_problem(instruction, wanted) if instruction.opcode in VALUE_LISTS else ""


def texture_problem(instruction: Instruction, wanted: int) -> str:
    """Lists of values and of coordinates are as long as the modifiers say: what is missing would be made up."""
    at = VALUE_LISTS[instruction.opcode]
    values = instruction.operands[at] if at < len(instruction.operands) else None
    if isinstance(values, PredicatePair):  # texels, and whether they were there
        values = values.first
    if isinstance(values, Vector) and len(values.elements) != max(wanted, 1):
        return f"a brace list of {len(values.elements)} where {max(wanted, 1)} is expected"
    if wanted and isinstance(values, Register):
        return f"no brace list where one of {wanted} is expected"
    shape = next((name for name in instruction.modifiers if name in COORDINATES), "")
    place = next((n for n, each in enumerate(instruction.operands) if isinstance(each, TextureOperand)), -1)
    if not shape or place < 0:
        return ""
    texture = instruction.operands[place]
    assert isinstance(texture, TextureOperand)
    behind = list(instruction.operands[place + 1 :])
    lists: list[tuple[str, dict[str, tuple[int, ...]], Vector]] = [("coordinates", COORDINATES, texture.coordinates)]
    if instruction.has("grad"):
        for gradient in behind[:2]:
            if not isinstance(gradient, Vector):
                return f"no brace list where the gradients of .{shape} are expected"
            lists.append(("gradients", GRADIENTS, gradient))
        behind = behind[2:]
    if (
        instruction.opcode == "tex"
        and shape == "3d"
        and any(not isinstance(operand, Vector) for operand in behind[instruction.has("level") :])
    ):
        return "no brace list where the offsets of .3d are expected"
    if instruction.opcode in ("tex", "tld4"):
        lists += [("offsets", OFFSETS, operand) for operand in behind if isinstance(operand, Vector)]
    for name, lengths, operand in lists:
        taken = lengths.get(shape, ())
        if len(operand.elements) not in taken:
            return f"a list of {len(operand.elements)} {name} where .{shape} expects {taken[0] if taken else 'none'}"
    return ""


def describe(operand: Operand) -> str:
    return WORDS.get(type(operand), "something else")


def destination_problem(slot: Slot, registers: Mapping[str, str]) -> str:
    operand = slot.operand
    if slot.type == "X" or isinstance(operand, Sink):
        return ""
    if isinstance(operand, Vector):  # texels beside a residency predicate
        reasons = (destination_problem(Slot(element, slot.type), registers) for element in operand.elements)
        return next(filter(None, reasons), "")
    if not isinstance(operand, Register):
        return f"found {describe(operand)} where the result's register is expected"
    return register_problem(operand, slot.type, registers)


def source_problem(slot: Slot, registers: Mapping[str, str], functions: Container[str]) -> str:
    operand, kind = slot.operand, slot.type
    if kind == "X":
        return ""
    if kind == "A":
        return address_problem(operand, registers, functions)
    if not kind:  # coordinates of an instruction without a type: nothing is known of them
        return ""
    if kind not in TYPE_BITS and kind not in ("U", "pred"):
        return f"found {describe(operand)} where a texture operand is expected"
    match operand:
        case Register():
            return register_problem(operand, kind, registers)
        case Negated(register):
            if kind not in ("pred", "U") or registers.get(register.name) != "pred":
                return f"`!{register.name}` where no predicate is expected"
        case Immediate():
            return ""
        case SpecialRegister():
            return ""
        case Symbol():
            if kind == "pred":
                return f"found {describe(operand)} where a predicate is expected"
        case _:
            return f"found {describe(operand)} where a value of type .{kind} is expected"
    return ""


def register_problem(register: Register, kind: str, registers: Mapping[str, str]) -> str:
    """A predicate where one is expected and nowhere else; no narrower than the type."""
    own = registers.get(register.name, "")
    if kind == "U":
        return ""
    if (own == "pred") != (kind == "pred"):
        return f"{register.name} is of type .{own} where .{kind} is expected"
    if TYPE_BITS.get(own, 0) < TYPE_BITS.get(kind, 0):
        return f"{register.name} is of type .{own}, which is narrower than .{kind}"
    return ""


def address_problem(operand: Operand, registers: Mapping[str, str], functions: Container[str]) -> str:
    if not isinstance(operand, Address):
        return f"found {describe(operand)} where an address in brackets is expected"
    base = operand.base
    if isinstance(base, Register) and TYPE_BITS.get(registers.get(base.name, ""), 0) not in (32, 64):
        return f"{base.name} of type .{registers.get(base.name, '')} cannot hold an address"
    if isinstance(base, Symbol) and base.name in functions:
        return f"`{base.name}` is a function, not memory"
    return ""
