"""Runs every form of an opcode and compares it with the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import harness
import softfloat as soft

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.lower.ops.forms import Form, inputs, synthesise
from cuttle.ptx.ir import Immediate

Expect = Callable[..., int | tuple[int, ...] | None]


def forms_of(opcode: str) -> list[Form]:
    """Every form of the row's syntax, with the usual immediates."""
    spellings = list(expand_all(OPCODES[opcode].syntax))
    if opcode == "lop3":
        tables = (0x00, 0xFF, 0x96, 0xE8, 0xCA, 0x80, 0xFE, 0x1D, 0x69, 0xF0, 0xCC, 0xAA, 0x55, 0x6A, 0x3C, 0xD2)
        return [synthesise(text, {3: table}) for text in spellings for table in tables]
    if opcode == "prmt":
        constants = (0x3210, 0x7654, 0x4321, 0x5432, 0x6543, 0x0765, 0x2107, 0x1032, 0x9CBA, 0xF7E0, 0x5410, 0x7632)
        fixed = [synthesise("prmt.b32", {2: value}) for value in constants]
        return [*(synthesise(text) for text in spellings), *fixed]
    if opcode in ("shl", "shr"):
        return [synthesise(t, im) for t in spellings for im in (None, {1: 0}, {1: 5}, {1: 15}, {1: 31}, {1: 200})]
    return [synthesise(text) for text in spellings]


def same(type_name: str, got: int, wanted: int) -> bool:
    """Equal bits; any NaN will do for f64, whose payload rules are hardware's."""
    if got == wanted:
        return True
    if type_name == "f64":
        return soft.decode(got, "f64").kind == "nan" and soft.decode(wanted, "f64").kind == "nan"
    return False


def with_immediates(form: Form, operands: tuple[int, ...]) -> tuple[int, ...]:
    """All source operands in order, literals among them."""
    queue = list(operands)
    sources = form.instruction.operands[1:]
    if not any(isinstance(operand, Immediate) for operand in sources):
        return operands
    return tuple(operand.bits if isinstance(operand, Immediate) else queue.pop(0) for operand in sources)


def check(forms: Iterable[Form], expect: Expect, lanes: int, count: int, seed: int = 1, optimise: int = 1) -> list[str]:
    """Mismatches, at most three per form."""
    chosen = list(forms)
    tables = [
        inputs([t for t, _ in form.sources] + (["pred"] if form.carry_in else []), count, seed) for form in chosen
    ]
    results = harness.run_forms(chosen, tables, lanes, optimise)
    problems: list[str] = []
    for form, table, columns in zip(chosen, tables, results, strict=True):
        bad = 0
        types = [t for t, _ in form.destinations] + (["pred"] if form.carry_out else [])
        widths = [w for _, w in form.destinations] + ([1] if form.carry_out else [])
        for row in range(count):
            operands = tuple(column[row] for column in table)
            carry = operands[-1] if form.carry_in else 0
            plain = with_immediates(form, operands[:-1] if form.carry_in else operands)
            wanted = expect(form, plain, carry)
            if wanted is None:
                continue
            answers = wanted[: len(types)] if isinstance(wanted, tuple) else (wanted,)
            for type_name, bits, column, answer in zip(types, widths, columns, answers, strict=True):
                if type_name in ("s8", "u8"):
                    answer = (answer - 256 if type_name == "s8" and answer & 128 else answer) & ((1 << bits) - 1)
                if not same(type_name, column[row], answer):
                    bad += 1
                    if bad <= 3:
                        values = ", ".join(f"{o:#x}" for o in operands)
                        problems.append(f"{form.text} ({values}): got {column[row]:#x}, wanted {answer:#x}")
    return problems
