"""Renaming of module-scope symbols in IR, as linking needs it. Inputs are not changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cuttle.ptx.ir import (
    Address,
    CallTarget,
    Function,
    Instruction,
    Operand,
    Register,
    Relocation,
    Statement,
    Symbol,
    TextureOperand,
    Variable,
    Vector,
)


def rename_variable(variable: Variable, names: Mapping[str, str]) -> Variable:
    """The variable under its new name, with the new names in its relocations."""
    if variable.name not in names and not any(r.symbol in names for r in variable.relocations):
        return variable
    relocations = tuple(
        Relocation(r.offset, r.size, names.get(r.symbol, r.symbol), r.addend, r.generic, r.mask)
        for r in variable.relocations
    )
    return replace(variable, name=names.get(variable.name, variable.name), relocations=relocations)


def rename_function(function: Function, names: Mapping[str, str]) -> Function:
    """The function under its new name, with the new names wherever it uses them.

    Names that the function itself declares (parameters, variables of its body) hide those of the module.
    """
    hidden = {*function.variables, *(p.name for p in (*function.parameters, *function.results))}
    visible = {old: new for old, new in names.items() if old not in hidden}
    if not visible and function.name not in names:
        return function
    statements: list[Statement] | None = None
    if function.statements is not None:
        statements = [
            _instruction(statement, visible) if isinstance(statement, Instruction) else statement
            for statement in function.statements
        ]
    call_targets = {
        label: tuple(visible.get(target, target) for target in targets)
        for label, targets in function.call_targets.items()
    }
    variables = {name: rename_variable(variable, visible) for name, variable in function.variables.items()}
    return replace(
        function, name=names.get(function.name, function.name), statements=statements, call_targets=call_targets,
        variables=variables,
    )  # fmt: skip


def _instruction(instruction: Instruction, names: Mapping[str, str]) -> Instruction:
    operands = tuple(_operand(operand, names) for operand in instruction.operands)
    call = instruction.call
    if call is not None:
        callee = call.callee
        if isinstance(callee, Symbol):
            callee = Symbol(names.get(callee.name, callee.name), callee.offset)
        call = CallTarget(
            callee,
            tuple(_operand(operand, names) for operand in call.results),
            tuple(_operand(operand, names) for operand in call.arguments),
            call.prototype,
        )
    if operands == instruction.operands and call == instruction.call:
        return instruction
    return replace(instruction, operands=operands, call=call)


def _operand(operand: Operand, names: Mapping[str, str]) -> Operand:
    match operand:
        case Symbol(name, offset):
            return Symbol(names[name], offset) if name in names else operand
        case Address(Symbol(name, inner), offset):
            return Address(Symbol(names[name], inner), offset) if name in names else operand
        case Vector(elements):
            return Vector(tuple(_operand(element, names) for element in elements))
        case TextureOperand(texture, sampler, coordinates):
            return TextureOperand(_handle(texture, names), _handle(sampler, names) if sampler else None, coordinates)
        case _:
            return operand


def _handle(handle: Register | Symbol, names: Mapping[str, str]) -> Register | Symbol:
    if isinstance(handle, Symbol) and handle.name in names:
        return Symbol(names[handle.name], handle.offset)
    return handle
