"""Kernels without code: bodies that some libraries compile for targets they do not support.

Such a body prints a message and traps (or only traps). Running it would look like a crash of Cuttle; whoever loads a
kernel asks `stub_reason` and can refuse with PTX-0305 instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cuttle.ptx.ir import Function, Instruction, Label, LabelMark, Statement, Symbol, Variable

_MAX_STATEMENTS = 96
_HARMLESS = frozenset("mov cvta add sub mul mad shl and or cvt ld st bra ret exit trap brkpt call setp selp".split())
_HARMLESS_SPACES = frozenset({"param", "local", "const"})
_PRINTING = frozenset({"vprintf", "__assertfail"})


def stub_reason(function: Function, variables: Mapping[str, Variable] | None = None) -> str | None:
    """Why `function` is a stub, with the message it would print if `variables` hold it; None if it is none."""
    statements = function.statements
    if not function.is_entry or statements is None or len(statements) > _MAX_STATEMENTS:
        return None
    if not _traps_for_all(statements):
        return None
    prints = False
    messages: list[str] = []
    for statement in statements:
        if not isinstance(statement, Instruction):
            continue
        opcode = statement.opcode
        if opcode not in _HARMLESS:
            return None
        if opcode in ("ld", "st") and not any(m.split("::")[0] in _HARMLESS_SPACES for m in statement.modifiers):
            return None
        if statement.call is not None:
            if not isinstance(statement.call.callee, Symbol) or statement.call.callee.name not in _PRINTING:
                return None
            prints = True
        for operand in statement.operands:
            if isinstance(operand, Symbol) and variables is not None:
                variable = variables.get(operand.name)
                if variable is not None and variable.initial:
                    messages.append(variable.initial.rstrip(b"\0\n").decode("utf-8", "replace"))
    reason = "its body only prints a message and traps" if prints else "its body only traps"
    return f"{reason}: {messages[0]!r}" if messages else reason


def _traps_for_all(statements: Sequence[Statement]) -> bool:
    """Whether no thread gets past some `trap`: a kernel that traps in a case only is a program that checks something."""
    labels = {statement.name: place for place, statement in enumerate(statements) if isinstance(statement, LabelMark)}
    furthest = -1  # statement that a thread may reach by a branch or end before
    for place, statement in enumerate(statements):
        if not isinstance(statement, Instruction):
            continue
        if statement.opcode in ("trap", "brkpt") and statement.guard is None and furthest <= place:
            return True
        if statement.opcode in ("ret", "exit"):
            furthest = len(statements)
        for operand in statement.operands if statement.opcode == "bra" else ():
            if isinstance(operand, Label):
                furthest = max(furthest, labels.get(operand.name, len(statements)))
    return False
