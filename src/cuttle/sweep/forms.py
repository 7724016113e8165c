"""The forms that sweeps run and recorders record: every form of every pure opcode, and its operand columns by seed.

"Pure" opcodes compute registers from registers. A form has a name from which it can be made again (`form_of`), so that
recordings need to hold nothing but names and results.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.errors import CuttleError
from cuttle.lower.ops.forms import Form, inputs, synthesise

PURE = ("arithmetic", "integer", "floating", "logic", "comparison", "conversion", "video")
SKIPPED = ("cvta", "isspacep")
COUNT = 512
FEW = 128  # for opcodes with hundreds of near-identical forms

# Video forms with byte and half selectors of d, a, b, c.
SELECTED = (
    ("vadd.s32.s32.s32", ",b1,h1"), ("vadd.u32.u32.s32.sat", ",h0,b3"), ("vsub.s32.u32.u32.sat", "b2,b0,b1,"),
    ("vabsdiff.u32.s32.u32", "h1,h1,b2,"), ("vmin.s32.s32.u32.sat", "b0,b3,h0,"), ("vmax.u32.u32.s32", ",h1,h0"),
    ("vshl.u32.u32.u32.clamp", ",h1,b0"), ("vshr.s32.s32.u32.wrap", "h0,h1,b1,"), ("vmad.s32.s32.u32", ",b2,h1,"),
    ("vmad.s32.s32.s32.sat.shr7", ",h0,h1,"), ("vset.s32.u32.lt", "b3,b1,h0,"), ("vadd.s32.s32.s32.add", ",b1,b2,"),
    ("vadd2.s32.s32.s32.sat", "h1,h02,h31,"), ("vadd2.s32.s32.u32.add", "h0,,h20,"), ("vsub2.u32.u32.u32", "h10,h12,h30,"),
    ("vadd4.u32.u32.u32.sat", "b20,b7310,,"), ("vabsdiff4.s32.s32.s32.add", "b310,,b6420,"), ("vset4.u32.u32.gt", "b1,b0123,b4567,"),
)  # fmt: skip


def all_forms() -> list[Form]:
    """Every form of the pure opcodes that have a syntax, with typical immediates and the brace lists of `mov`."""
    forms: list[Form] = []
    for row in OPCODES.values():
        if row.family not in PURE or row.name in SKIPPED:
            continue
        for spelling in expand_all(row.syntax):
            if row.name == "lop3":
                tables = (0x00, 0xFF, 0x96, 0xE8, 0xCA, 0x80, 0xFE, 0x1D)
                forms.extend(synthesise(spelling, {3: table}) for table in tables)
                continue
            forms.append(synthesise(spelling))
            if row.name in ("shl", "shr"):
                forms.extend(synthesise(spelling, {1: amount}) for amount in (5, 200))
            if row.name == "prmt":
                forms.extend(synthesise(spelling, {2: value}) for value in (0x0765, 0x9CBA, 0x5410))
    moves = (("mov.b32", 2), ("mov.b64", 2), ("mov.b64", 4), ("mov.b32", -2), ("mov.b64", -2), ("mov.b64", -4))
    forms.extend(synthesise(spelling, brace=brace) for spelling, brace in moves)
    forms.extend(synthesise(spelling, selectors=tuple(text.split(","))) for spelling, text in SELECTED)
    return forms


# Registers in the brace lists of `mov`: packed, or unpacked if negative.
BRACES = {f"{{{count}}}": count for count in (2, 4, -2, -4)}


def form_of(name: str) -> Form:
    """The form a recorded name stands for: `shl.b32 #1:0x5`, `mov.b64 {-2}`. Raises ValueError for any other text."""
    try:
        form = _form_of(name)
    except (ValueError, LookupError, StopIteration, CuttleError) as error:
        raise ValueError(f"{name} is no form: {error}") from None
    if form.name != name:
        raise ValueError(f"{name} is not how {form.name} is written")
    return form


def _form_of(name: str) -> Form:
    spelling, _, rest = name.partition(" ")
    immediates: dict[int, int] = {}
    brace = 0
    selectors: tuple[str, ...] = ()
    for part in rest.split():
        if part.startswith("#"):
            for item in part[1:].split(","):
                index, value = item.split(":")
                immediates[int(index)] = int(value, 16)
        elif part.startswith("{"):
            brace = BRACES[part]
        elif part.startswith("~"):
            selectors = tuple(part[1:].split(","))
    return synthesise(spelling, immediates, brace=brace, selectors=selectors)


def count_of(form: Form) -> int:
    """Elements recorded per form."""
    few = form.instruction.opcode in ("set", "slct") or form.instruction.opcode.startswith("v")
    return FEW if few else COUNT


def source_operands(form: Form) -> list[tuple[str, int]]:
    """Type and register width of each input column: the sources and the carry."""
    return [*form.sources, *([("pred", 1)] if form.carry_in else [])]


def result_operands(form: Form) -> list[tuple[str, int]]:
    """Type and register width of each result column: the destinations and the carry."""
    return [*form.destinations, *([("pred", 1)] if form.carry_out else [])]


def storage_bytes(width: int) -> int:
    """Bytes of one element of a column; predicates travel as bytes."""
    return 1 if width == 1 else width // 8


@dataclass(slots=True)
class Operands:
    """The operand columns of forms under one seed; forms with the same operand types share them.

    Seed 1 is the one that was looked at while Cuttle was written: three quarters are special values against special
    values. Other seeds begin elsewhere among the specials, and hold many more values that are none. With a `count`, all forms get
    that many operands, which are others again.
    """

    seed: int
    count: int = 0
    cache: dict[tuple[str, ...], list[list[int]]] = field(default_factory=dict)

    def columns(self, form: Form) -> list[list[int]]:
        """One column for each of `source_operands(form)`, `elements(form)` elements each."""
        types = tuple(name for name, _ in source_operands(form))
        if types not in self.cache:
            start = zlib.crc32(",".join(types).encode())
            count = self.count or COUNT
            if self.seed == 1:
                self.cache[types] = inputs(types, count, start)
            else:
                start = zlib.crc32(f"{self.seed}:{start}".encode())
                self.cache[types] = inputs(types, count, start, share=0.25, first=start)
        return [column[: self.elements(form)] for column in self.cache[types]]

    def elements(self, form: Form) -> int:
        """Operands that a form has."""
        return self.count or count_of(form)
