"""The row type of a PTX opcode."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Opcode:
    """One root opcode of the PTX ISA.

    `operands` says what an op function gets and returns, destinations before the colon: `"T: T T"`. Codes:
    `T` the instruction type (last type modifier), `D` the first type modifier (`cvt`, `set`), `W` twice T's width
    (`mul.wide`), `P` predicate, a PTX type name (`u32`, `b32`, `b64`), `A` an address (opaque to the op), `X` a raw IR
    operand, `U` a u32 or a predicate, whichever the operand is, `G` a texture operand (handle and sampler as b64, coordinates as T), `S` a surface operand (handle as
    b64, coordinates as s32); trailing `?` marks an optional operand and trailing `*` any number. A brace list under any
    code stands for its elements, each of that code's type.

    `forms` overrides `operands` for instructions that carry the given modifiers (joined with dots; `#2` means two
    type modifiers); the first that fits holds.

    `reads_carry`: the op gets CC.CF (i1) as its last operand. `writes_carry`: with modifier `cc` it returns the new
    CC.CF as its last result.

    `family` names the module `lower/ops/<family>.py` that holds the op function. `effects`: `pure`, `read`, `write`,
    `cross` (needs other lanes), `control`, `service`. `status`: `exact`, `ulp(n)`, `refuse`, `todo`; `inexact` names the cases of
    an exact row that are not, with the measured size of the error. `since` is (PTX
    ISA version, minimum sm). `syntax` gives the forms as the manual's section prints their structure, in our own compact
    notation, which `syntax.expand` turns into every spelling: `[.x|.y]` optional, `(.x|.y)` one of.
    """

    name: str
    family: str
    operands: str
    effects: str = "pure"
    forms: tuple[tuple[str, str], ...] = ()
    syntax: tuple[str, ...] = ()
    since: tuple[str, str] = ("1.0", "sm_10")
    status: str = "exact"
    inexact: str = ""
    section: str = ""
    reads_carry: bool = False
    writes_carry: bool = False
