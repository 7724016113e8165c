"""Large pieces of code that many instructions share, as functions of the image: a tensor-core product is some hundred
instructions, and a kernel may hold dozens of them. Operands and results travel in a block of memory on the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cuttle.lower.emit import Value
from cuttle.lower.passes.shape import LANES

if TYPE_CHECKING:
    from cuttle.lower.cpu.machine import WarpMachine

Body = Callable[[Sequence[Value]], Sequence[Value]]


def call_outlined(machine: WarpMachine, name: str, operands: Sequence[Value], body: Body) -> list[Value]:
    """The results of `body` on the operands (integers), by a call of the function `name`, which is written once."""
    e = machine.emitter
    operands = [e.splat(operand, LANES) for operand in operands]
    symbol = f"@cuttle.{name}"
    if symbol not in machine.outlined:
        machine.outlined[symbol] = _write(machine, symbol, operands, body)
    results = machine.outlined[symbol]
    bytes_of = [LANES * value.bits // 8 for value in (*operands, *results)]
    block = Value("ptr", machine.region.allocate(f"[{sum(bytes_of)} x i8]"))
    for index, operand in enumerate(operands):
        place = e.emit("ptr", 1, f"getelementptr i8, {block.typed}, i64 {sum(bytes_of[:index])}")
        e.line(f"store {operand.typed}, {place.typed}, align 64")
    e.line(f"call void {symbol}({block.typed})")
    loaded = []
    for index, result in enumerate(results):
        place = e.emit("ptr", 1, f"getelementptr i8, {block.typed}, i64 {sum(bytes_of[: len(operands) + index])}")
        loaded.append(e.emit(result.type, LANES, f"load {result.llvm_type}, {place.typed}, align 64"))
    return loaded


def _write(machine: WarpMachine, symbol: str, operands: Sequence[Value], body: Body) -> list[Value]:
    """Writes the function; returns its results as a pattern of what a call gives."""
    outer = machine.emitter
    inner = machine.emitter = outer.another()
    try:
        offset = 0

        def place(value: Value) -> str:
            nonlocal offset
            pointer = inner.emit("ptr", 1, f"getelementptr i8, ptr %block, i64 {offset}")
            offset += LANES * value.bits // 8
            return pointer.typed

        inputs = []
        for operand in operands:
            at = place(operand)
            inputs.append(inner.emit(operand.type, LANES, f"load {operand.llvm_type}, {at}, align 64"))
        results = [inner.splat(result, LANES) for result in body(inputs)]
        for result in results:
            inner.line(f"store {result.typed}, {place(result)}, align 64")
    finally:
        machine.emitter = outer
    outer.declarations.update(inner.declarations)
    outer.constants.update(inner.constants)
    lines = [f"define internal void {symbol}(ptr noalias %block) noinline #0 {{", *inner.lines, "  ret void", "}"]
    outer.declare(symbol, "\n".join(lines))
    return results
