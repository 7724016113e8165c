"""Instructions made from a bare spelling: the material of sweeps, recorders and tests.

`synthesise("setp.lt.and.f32")` gives the typed IR of `setp.lt.and.f32 %d0|%d1, %s0, %s1, %s2;` with its text and
operand types, and `inputs` a reproducible table of operand values: every special value of the type against every
other, then pseudo-random ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuttle.lower.ops.dispatch import _codes, _type, row_of
from cuttle.ptx.ir import (
    TYPE_BITS,
    Address,
    Immediate,
    Instruction,
    Location,
    Operand,
    PredicatePair,
    Register,
    SelectedRegister,
    TextureOperand,
    Vector,
)
from cuttle.ptx.opcode_roots import split_opcode

# Coordinates that each texture geometry takes (padding included).
COORDINATES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4, "cube": 4, "acube": 4}
GRADIENTS = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "3d": 4, "cube": 4, "acube": 4}


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction form: its IR, its PTX text, and the register width and PTX type of each operand.

    Destinations are registers `%d0`, ...; sources `%s0`, ... (those with an immediate value are not among them).
    `carry_in`, `carry_out`: reads or writes CC.CF. Addresses are `[%a0]`, ... (not among the sources).
    """

    name: str
    instruction: Instruction
    text: str
    destinations: tuple[tuple[str, int], ...]
    sources: tuple[tuple[str, int], ...]
    carry_in: bool = False
    carry_out: bool = False


def register_width(type_name: str) -> int:
    """Bits of the narrowest register that can hold the type: 1 for predicates, at least 16 otherwise."""
    return 1 if type_name == "pred" else max(16, TYPE_BITS[type_name])


def synthesise(
    spelling: str,
    immediates: dict[int, int] | None = None,
    pair: bool = True,
    brace: int = 0,
    selectors: tuple[str, ...] = (),
    groups: dict[int, int] | None = None,
) -> Form:
    """The form of a spelling.

    `immediates` replaces sources (by index) with integer literals. `pair`: use the second predicate destination where
    there is one. `brace`: +n packs n sources, -n unpacks into n destinations (`mov`). `selectors`: byte and half
    selectors of the operands of a video instruction, destination first (empty strings for none); optional operands
    appear as far as the selectors reach. `groups`: number of registers in the brace list of an operand (0 is the
    first one).
    """
    parts = split_opcode(spelling)
    if parts is None:
        raise ValueError(f"unknown opcode: {spelling}")
    opcode, modifiers, types = parts
    shell = Instruction(opcode, modifiers, types, (), None, Location(0))
    row = row_of(opcode)
    destination_codes, source_codes = _codes(row, shell)
    immediates = immediates or {}
    operands: list[Operand] = []
    texts: list[str] = []
    destinations: list[tuple[str, int]] = []
    sources: list[tuple[str, int]] = []
    wanted = [code.rstrip("?*") for code in destination_codes if pair or not code.endswith("?")]
    for code in wanted:
        type_name = _type(code, shell)
        for part in [type_name] if brace >= 0 else [f"b{TYPE_BITS[type_name] // -brace}"] * -brace:
            destinations.append((part, register_width(part)))
    groups = groups or {}
    vector = next((int(part[1:]) for part in modifiers if part in ("v2", "v4", "v8")), 0)
    if vector or (destinations and 0 in groups):
        destinations *= vector or groups[0]
    registers = [Register(f"%d{index}") for index in range(len(destinations))]
    if brace < 0 or (registers and (vector or 0 in groups)):
        operands.append(Vector(tuple(registers)))
        texts.append("{" + ", ".join(r.name for r in registers) + "}")
    elif len(registers) == 2:
        operands.append(PredicatePair(registers[0], registers[1]))
        texts.append("|".join(r.name for r in registers))
    elif registers:
        operands.append(registers[0])
        texts.append(registers[0].name)
    addresses = 0
    for code in source_codes:
        if code.endswith(("?", "*")) and len(operands) >= len(selectors):
            continue
        code = code.rstrip("?*")
        type_name = _type(code, shell)
        if code == "A":
            operands.append(Address(Register(f"%a{addresses}")))
            texts.append(f"[%a{addresses}]")
            addresses += 1
            continue
        if code in ("G", "S"):
            count = next(n for geometry, n in COORDINATES.items() if geometry in modifiers)
            coordinate = "s32" if code == "S" else shell.type
            first = len(sources)
            sources.extend([("b64", 64), *[(coordinate, register_width(coordinate))] * count])
            parts_ = tuple(Register(f"%s{first + 1 + element}") for element in range(count))
            operands.append(TextureOperand(Register(f"%s{first}"), None, Vector(parts_)))
            texts.append(f"[%s{first}, {{{', '.join(r.name for r in parts_)}}}]")
            continue
        if code == "X":
            literal = 0 if opcode.startswith("mma.sp") else 16  # a sparsity selector, or a size
            operands.append(Immediate(literal))
            texts.append(str(literal))
            continue
        index = len(operands) - (1 if registers else 0)
        if index in immediates:
            operands.append(Immediate(immediates[index]))
            texts.append(str(immediates[index]))
            continue
        grouped = groups.get(len(operands), 0)
        if "grad" in modifiers:
            grouped = next(count for geometry, count in GRADIENTS.items() if geometry in modifiers)
        braced = brace > 0 or grouped > 0 or (vector > 0 and code == "T" and "level" not in modifiers)
        count = brace or grouped or vector if braced else 1
        part = f"b{TYPE_BITS[type_name] // brace}" if brace > 0 else type_name
        names = [Register(f"%s{len(sources) + element}") for element in range(count)]
        sources.extend([(part, register_width(part))] * count)
        operands.append(Vector(tuple(names)) if braced else names[0])
        texts.append("{" + ", ".join(r.name for r in names) + "}" if braced else names[0].name)
    for index, selector in enumerate(selectors):
        register = operands[index]
        if selector and isinstance(register, Register):
            operands[index] = SelectedRegister(register, selector)
            texts[index] += "." + selector
    instruction = Instruction(opcode, modifiers, types, tuple(operands), None, Location(0))
    text = f"{spelling} {', '.join(texts)};" if texts else f"{spelling};"
    name = spelling
    if immediates:
        name += " #" + ",".join(f"{index}:{value:#x}" for index, value in sorted(immediates.items()))
    if brace:
        name += f" {{{brace}}}"
    if selectors:
        name += " ~" + ",".join(selectors)
    if not pair and any(code.endswith("?") for code in destination_codes):
        name += " single"
    return Form(
        name,
        instruction,
        text,
        tuple(destinations),
        tuple(sources),
        row.reads_carry,
        row.writes_carry and "cc" in modifiers,
    )


# -- operand values --------------------------------------------------------------------------------------------------

_F32 = (
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001,
    0x00000001, 0x807FFFFF, 0x00800000, 0x80800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0x3FC00000, 0x40490FDB,
    0x4F000000, 0x33800000, 0x3F7FFFFF, 0x7E800000,
)  # fmt: skip
_F64 = (
    0, 1 << 63, 0x3FF << 52, 0xBFF << 52, 0x7FF << 52, 0xFFF << 52, 0x7FF8000000000000, 0xFFF8000000012345,
    0x7FF0000000000001, 1, (1 << 63) | ((1 << 52) - 1), 1 << 52, (1 << 63) | (1 << 52) | 1, 0x7FEFFFFFFFFFFFFF,
    0xFFEFFFFFFFFFFFFF, 0x3FE << 52, 0x3FF8000000000000, 0x400921FB54442D18, 0x41E0000000000000, 0x43E0000000000000,
    0x3FEFFFFFFFFFFFFF, 0x36A0000000000000,
)  # fmt: skip
_F16 = (
    0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0xFE12, 0x7C01, 0x0001, 0x83FF, 0x0400, 0x8401, 0x7BFF,
    0xFBFF, 0x3800, 0x3E00, 0x4248, 0x3555, 0x3BFF, 0x7FF7, 0xFFF7,
)  # fmt: skip
_BF16 = (
    0x0000, 0x8000, 0x3F80, 0xBF80, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0x0001, 0x807F, 0x0080, 0x8081, 0x7F7F,
    0xFF7F, 0x3F00, 0x3FC0, 0x4049, 0x3EAB, 0x3F7F, 0x7FF7, 0xFFF7,
)  # fmt: skip


def _integer_specials(bits: int) -> tuple[int, ...]:
    top = 1 << (bits - 1)
    mask = (1 << bits) - 1
    small = (0, 1, 2, 3, 5, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 65, 100, 255)
    edges = (mask, mask - 1, top, top - 1, top + 1, 0x12345678 & mask, 0x8080 & mask, 0xA5A5A5A5A5A5A5A5 & mask)
    return tuple(value & mask for value in (*small, *edges))


def specials(type_name: str) -> tuple[int, ...]:
    """The values of a type at which something changes."""
    match type_name:
        case "pred":
            return (0, 1)
        case "f32" | "tf32":
            return _F32
        case "f64":
            return _F64
        case "f16":
            return _F16
        case "bf16":
            return _BF16
        case "f16x2":
            return tuple(low | _F16[(7 * index + 3) % len(_F16)] << 16 for index, low in enumerate(_F16))
        case "bf16x2":
            return tuple(low | _BF16[(7 * index + 3) % len(_BF16)] << 16 for index, low in enumerate(_BF16))
    return _integer_specials(TYPE_BITS[type_name])


class Stream:
    """A 64-bit xorshift generator: the same numbers everywhere, without NumPy."""

    def __init__(self, seed: int) -> None:
        self.state = (seed * 0x9E3779B97F4A7C15 + 0x1234567) % (1 << 64) or 1

    def next(self) -> int:
        state = self.state
        state ^= state << 13 & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 7
        state ^= state << 17 & 0xFFFFFFFFFFFFFFFF
        self.state = state
        return state


# (exponent bits, mantissa bits) of the float formats.
_LAYOUT = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "tf32": (8, 23), "f64": (11, 52)}


def random_value(stream: Stream, type_name: str) -> int:
    """Any bit pattern, or for float types half the time a number of middling size."""
    if type_name.endswith("x2") and type_name[:-2] in _LAYOUT:
        return random_value(stream, type_name[:-2]) | random_value(stream, type_name[:-2]) << 16
    bits = TYPE_BITS[type_name]
    value = stream.next()
    if bits > 64:
        value |= stream.next() << 64
    value &= (1 << bits) - 1
    if type_name in _LAYOUT:
        if stream.next() & 1:
            exponent_bits, mantissa_bits = _LAYOUT[type_name]
            middle = (1 << (exponent_bits - 1)) - 1
            span = min(1 << (exponent_bits - 2), 32)
            exponent = middle - span // 2 + (value >> mantissa_bits) % span
            value = value & ~(((1 << exponent_bits) - 1) << mantissa_bits) | exponent << mantissa_bits
    elif stream.next() & 1:
        # Integers of every size: as many random low bits as a random number says.
        value &= (1 << (stream.next() % (bits + 1))) - 1
    return value


def inputs(types: Sequence[str], count: int, seed: int, share: float = 0.75, first: int = 0) -> list[list[int]]:
    """`count` values for each operand type: specials against specials first (at most `share` of them), then random.

    `first` says at which of the combinations of specials to begin.
    """
    stream = Stream(seed)
    tables = [specials(type_name) for type_name in types]
    columns: list[list[int]] = [[] for _ in types]
    room = int(count * share)
    total = 1
    for table in tables:
        total *= len(table)
    step = 1 if total <= room else total // room | 1
    index = first % total
    for _ in range(min(room, total)):
        rest = index
        for column, table in zip(columns, tables, strict=True):
            rest, place = divmod(rest, len(table))
            column.append(table[place])
        index = (index + step) % total
    while columns and len(columns[0]) < count:
        for column, table, type_name in zip(columns, tables, types, strict=True):
            use_special = stream.next() % 5 == 0
            value = table[stream.next() % len(table)] if use_special else random_value(stream, type_name)
            column.append(value)
    return columns
