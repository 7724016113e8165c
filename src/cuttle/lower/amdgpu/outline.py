"""Large pieces of code that many instructions of a kernel share, as LLVM functions: tensor-core products.

Operands and results travel in registers. What stands in a kernel only once stays where it is: a call costs registers and scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cuttle.lower.emit import Value
from cuttle.lower.ops.dispatch import spell

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

Body = Callable[[Sequence[Value]], Sequence[Value]]


def is_shared(writer: FunctionWriter, name: str) -> bool:
    """Whether a kernel has more than one instruction of this spelling."""
    nodes = (node for block in writer.plan.graph.blocks for node in block.nodes)
    return sum(spell(node.instruction) == name for node in nodes) > 1


def call_outlined(writer: FunctionWriter, name: str, operands: Sequence[Value], body: Body) -> list[Value]:
    """The results of `body` on the operands (integers), by a call of the function `name`, which is written once."""
    e = writer.emitter
    symbol = f'@"cuttle.{name}"'
    if symbol not in writer.outlined:
        writer.outlined[symbol] = write_function(writer, symbol, operands, body)
    kinds = [result.type for result in writer.outlined[symbol]]
    returned = f"{{ {', '.join(kinds)} }}"
    whole = e.name()
    e.line(f"{whole} = call {returned} {symbol}({', '.join(operand.typed for operand in operands)})")
    return [e.emit(kind, 1, f"extractvalue {returned} {whole}, {index}") for index, kind in enumerate(kinds)]


def write_function(writer: FunctionWriter, symbol: str, operands: Sequence[Value], body: Body) -> list[Value]:
    """Writes the function; returns its results as a pattern of what a call gives."""
    outer = writer.emitter
    inner = writer.emitter = writer.machine.emitter = outer.another()
    inner.table_space = outer.table_space
    try:
        inputs = [Value(operand.type, f"%operand{index}") for index, operand in enumerate(operands)]
        results = list(body(inputs))
        returned = f"{{ {', '.join(result.type for result in results)} }}"
        whole = "poison"
        for index, result in enumerate(results):
            name = inner.name()
            inner.line(f"{name} = insertvalue {returned} {whole}, {result.typed}, {index}")
            whole = name
        inner.line(f"ret {returned} {whole}")
    finally:
        writer.emitter = writer.machine.emitter = outer
    outer.declarations.update(inner.declarations)
    outer.constants.update(inner.constants)
    head = f"define internal {returned} {symbol}({', '.join(value.typed for value in inputs)}) #1 {{"
    outer.declare(symbol, "\n".join([head, *inner.lines, "}"]))
    return results
