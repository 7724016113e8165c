"""Copies and reductions of many bytes, one active lane after the other: asynchronous bulk operations, carried out at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuttle.lower.cpu.atomics import scalar_atomic
from cuttle.lower.cpu.lane_loop import for_each_lane
from cuttle.lower.cpu.memory import Address, Lanes
from cuttle.lower.emit import Value
from cuttle.ptx.ir import TYPE_BITS

if TYPE_CHECKING:
    from cuttle.lower.cpu.machine import WarpMachine

COPY = "@llvm.memcpy.p0.p0.i64"
FILL = "@llvm.memset.p0.i64"


def copy_lanes(machine: WarpMachine, destination: Address, source: Address, size: Value, lanes: Lanes) -> None:
    """`size` bytes (i32) of each of the lanes."""
    e, memory = machine.emitter, machine.memory
    e.declare(COPY, f"declare void {COPY}(ptr, ptr, i64, i1)")

    def one(lane: Value, scalars: list[Value]) -> None:
        to, origin, count = scalars
        e.line(f"call void {COPY}({to.typed}, {origin.typed}, {e.cast('zext', count, 'i64').typed}, i1 false)")

    machine.compiler_fence()
    inputs = [memory.pointers(destination), memory.pointers(source), size]
    for_each_lane(
        e, lanes, inputs, None, one, unroll=False, label=machine.region.fresh_label, allocate=machine.region.allocate
    )
    machine.compiler_fence()


def zero_lanes(machine: WarpMachine, address: Address, size: Value) -> None:
    """`size` zero bytes (i64) of each active lane."""
    e = machine.emitter
    e.declare(FILL, f"declare void {FILL}(ptr, i8, i64, i1)")

    def one(lane: Value, scalars: list[Value]) -> None:
        e.line(f"call void {FILL}({scalars[0].typed}, i8 0, {scalars[1].typed}, i1 false)")

    machine.compiler_fence()
    for_each_lane(
        e, machine.lanes, [machine.memory.pointers(address), size], None, one, unroll=False,
        label=machine.region.fresh_label, allocate=machine.region.allocate,
    )  # fmt: skip
    machine.compiler_fence()


def reduce_lanes(
    machine: WarpMachine, operation: str, type_name: str, destination: Address, source: Address, size: Value, *,
    plain: bool
) -> None:  # fmt: skip
    """`size` bytes (i32) of elements of each active lane, one atomic each; `plain` where no other thread sees the memory."""
    e, region = machine.emitter, machine.region
    step = TYPE_BITS[type_name] // 8

    def one(lane: Value, scalars: list[Value]) -> None:
        to, origin, count = scalars
        slot = region.allocate("i64")
        e.line(f"store i64 0, ptr {slot}")
        head, work, done = (region.fresh_label(stem) for stem in ("elements", "element", "elements.done"))
        e.line(f"br label %{head}")
        region.label(head)
        at = e.emit("i64", 1, f"load i64, ptr {slot}")
        more = e.icmp("ult", at, e.cast("zext", count, "i64"))
        e.line(f"br {more.typed}, label %{work}, label %{done}")
        region.label(work)
        place = e.emit("ptr", 1, f"getelementptr i8, {to.typed}, {at.typed}")
        there = e.emit("ptr", 1, f"getelementptr i8, {origin.typed}, {at.typed}")
        value = e.emit(f"i{8 * step}", 1, f"load i{8 * step}, {there.typed}, align {step}")
        scalar_atomic(
            e, operation, type_name, place, [value], plain=plain, ordering="relaxed", label=region.fresh_label,
            allocate=region.allocate,
        )  # fmt: skip
        e.line(f"store {e.add(at, e.const('i64', step)).typed}, ptr {slot}")
        e.line(f"br label %{head}")
        region.label(done)

    machine.compiler_fence()
    inputs = [machine.memory.pointers(destination), machine.memory.pointers(source), size]
    for_each_lane(e, machine.lanes, inputs, None, one, unroll=False, label=region.fresh_label, allocate=region.allocate)
    machine.compiler_fence()
