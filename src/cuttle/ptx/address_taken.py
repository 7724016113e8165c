"""Functions whose address is taken: the possible targets of indirect calls."""

from __future__ import annotations

from collections.abc import Iterator

from cuttle.ptx.ir import Instruction, Module, Operand, Symbol, Vector


def address_taken(module: Module) -> list[str]:
    """Sorted names of functions whose address occurs in an initialiser or as an operand outside a call's callee."""
    names: set[str] = set()
    for variable in module.variables.values():
        names.update(relocation.symbol for relocation in variable.relocations)
    for function in module.functions.values():
        for variable in function.variables.values():
            names.update(relocation.symbol for relocation in variable.relocations)
        for statement in function.statements or ():
            if isinstance(statement, Instruction):
                names.update(symbol_names(statement.operands))
                if statement.call is not None:
                    names.update(symbol_names(statement.call.arguments))
    resolved = {module.aliases.get(name, name) for name in names}
    return sorted(name for name in resolved if name in module.functions)


def symbol_names(operands: tuple[Operand, ...]) -> Iterator[str]:
    """Names that stand as operands themselves, not inside an address."""
    for operand in operands:
        if isinstance(operand, Symbol):
            yield operand.name
        elif isinstance(operand, Vector):
            yield from symbol_names(operand.elements)
