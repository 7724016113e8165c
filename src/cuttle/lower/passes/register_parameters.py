"""`.reg` parameters and results of functions that are called for real: such calls pass everything in memory.

Inlined calls bind them to registers (`inline_calls.py`). Seen in Dr.Jit: `.func f(.reg .u32 index, .reg .u64 data)`.
"""

from __future__ import annotations

from dataclasses import replace

from cuttle.ptx.ir import (
    Address,
    Function,
    Instruction,
    Location,
    Operand,
    Parameter,
    Register,
    Statement,
    Symbol,
    parameter_registers,
)


def with_memory_parameters(function: Function) -> Function:
    """The function with loads of its `.reg` parameters in front and stores of its `.reg` results before every end."""
    loads = [each for parameter in function.parameters for each in _accesses("ld", parameter)]
    stores = [each for result in function.results for each in _accesses("st", result)]
    if function.statements is None or not (loads or stores):
        return function
    statements: list[Statement] = [*loads]
    for statement in function.statements:
        if isinstance(statement, Instruction) and statement.opcode == "ret":
            statements.extend(stores)
        statements.append(statement)
    statements.extend(stores)
    return replace(function, statements=statements)


def _accesses(opcode: str, parameter: Parameter) -> list[Instruction]:
    if parameter.space != "reg":
        return []
    registers = [Register(name) for name in parameter_registers(parameter)]
    size = parameter.size_bytes // len(registers)
    kind = f"b{8 * size}"
    result = []
    for index, register in enumerate(registers):
        place = Address(Symbol(parameter.name), index * size)
        operands: tuple[Operand, ...] = (register, place) if opcode == "ld" else (place, register)
        result.append(Instruction(opcode, ("param", kind), (kind,), operands, None, Location(0)))
    return result
