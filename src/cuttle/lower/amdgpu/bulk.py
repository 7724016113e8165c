"""Bulk copies, reductions and stores (PTX ISA 9.0, 9.7.9.25.4, 9.7.9.13): loops of each lane, done when the instruction is done.

PTX asks for sizes and addresses that are multiples of 16 (copies, reductions) or 8 (stores).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cuttle.lower.emit import Value
from cuttle.ptx.ir import TYPE_BITS

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

COPY_STEP, ZERO_STEP = 16, 8


def each_step(writer: FunctionWriter, size: Value, step: int, body: Callable[[Value], None]) -> None:
    """Runs `body` with the offsets (i64) 0, step, ... below a size (i64)."""
    e = writer.emitter
    place = writer.allocate("i64")
    e.line(f"store i64 0, {place}")
    head, inside, done = (writer.fresh_label(stem) for stem in ("bulk", "step", "copied"))
    e.line(f"br label %{head}")
    writer.label(head)
    offset = e.emit("i64", 1, f"load i64, {place}")
    e.line(f"br {e.icmp('ult', offset, size).typed}, label %{inside}, label %{done}")
    writer.label(inside)
    known = dict(writer.local), dict(writer.clean)
    body(offset)
    writer.local, writer.clean = known
    e.line(f"store {e.add(offset, e.const('i64', step)).typed}, {place}")
    e.line(f"br label %{head}")
    writer.label(done)


def copy_bytes(writer: FunctionWriter, to: str, destination: Any, origin: str, source: Any, size: Value) -> None:
    machine = writer.machine

    def step(offset: Value) -> None:
        values = machine.load(origin, 64, COPY_STEP // 8, machine.advance(source, offset))
        machine.store(to, 64, machine.advance(destination, offset), values)

    each_step(writer, writer.emitter.resize(size, 64), COPY_STEP, step)


def reduce_bytes(
    writer: FunctionWriter,
    operation: str,
    type_name: str,
    to: str,
    destination: Any,
    origin: str,
    source: Any,
    size: Value,
) -> None:
    """An atomic for each element."""
    machine = writer.machine
    bits = TYPE_BITS[type_name]

    def step(offset: Value) -> None:
        (value,) = machine.load(origin, bits, 1, machine.advance(source, offset))
        machine.atomic(
            operation, type_name, to, machine.advance(destination, offset), [value], want_result=False,
            ordering="relaxed", scope="cta" if to == "shared" else "gpu",
        )  # fmt: skip

    each_step(writer, writer.emitter.resize(size, 64), bits // 8, step)


def zero_bytes(writer: FunctionWriter, space: str, address: Any, size: Value) -> None:
    machine = writer.machine
    zero = writer.emitter.const("i64", 0)
    each_step(
        writer, size, ZERO_STEP, lambda offset: machine.store(space, 64, machine.advance(address, offset), [zero])
    )  # fmt: skip
