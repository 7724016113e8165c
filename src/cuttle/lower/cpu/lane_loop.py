"""Doing something once per active lane: unrolled for a full warp, a loop over the mask's bits otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuttle.lower.cpu.memory import Lanes
from cuttle.lower.emit import Emitter, Value
from cuttle.lower.passes.shape import LANES

LaneBody = Callable[[Value, list[Value]], Value | None]


def for_each_lane(
    emitter: Emitter,
    lanes: Lanes,
    inputs: Sequence[Value],
    result_type: str | None,
    body: LaneBody,
    *,
    unroll: bool,
    label: Callable[[str], str],
    allocate: Callable[[str], str],
) -> Value | None:
    """Calls `body(lane, scalars of the inputs)` for the active lanes in ascending order.

    `body` emits the code of one lane and returns its result. Returns the vector of results (zero for inactive
    lanes) if `result_type` is given. `label` makes a fresh label, `allocate` a stack slot in the entry block.
    """
    e = emitter
    if lanes.full and unroll:
        vector = e.poison(result_type, LANES) if result_type else None
        for index in range(LANES):
            scalars = [e.extract(value, index) for value in inputs]
            result = body(e.const("i32", index), scalars)
            if vector is not None and result is not None:
                vector = e.insert(vector, index, result)
        return vector
    # Inputs go to the stack once: a variable extractelement would spill them again in each round.
    slots: list[tuple[Value, str | None]] = []
    for value in inputs:
        if value.lanes == 1:
            slots.append((value, None))
            continue
        stored = "i8" if value.type == "i1" else value.type
        if value.type == "i1":
            value = e.cast("zext", value, "i8")
        slot = allocate(f"[{LANES} x {stored}]")
        e.line(f"store {value.typed}, ptr {slot}, align 64")
        slots.append((value, slot))
    result_slot = None
    if result_type:
        result_slot = allocate(f"[{LANES} x {result_type}]")
        e.line(f"store <{LANES} x {result_type}> zeroinitializer, ptr {result_slot}, align 64")
    pending = allocate("i32")
    bits = lanes.bits if lanes.bits is not None else e.const("i32", -1)
    e.line(f"store {bits.typed}, ptr {pending}")
    head, work, done = label("lanes"), label("lane"), label("lanes.done")
    e.line(f"br label %{head}")
    e.lines.append(f"{head}:")
    left = e.emit("i32", 1, f"load i32, ptr {pending}")
    more = e.icmp("ne", left, e.const("i32", 0))
    e.line(f"br {more.typed}, label %{work}, label %{done}")
    e.lines.append(f"{work}:")
    lane = e.intrinsic("llvm.cttz", [left, e.const("i1", 1)])
    rest = e.and_(left, e.sub(left, e.const("i32", 1)))
    e.line(f"store {rest.typed}, ptr {pending}")
    scalars = []
    for original, (value, place_of_all) in zip(inputs, slots, strict=True):
        if place_of_all is None:
            scalars.append(value)
            continue
        place = e.emit("ptr", 1, f"getelementptr {value.type}, ptr {place_of_all}, {lane.typed}")
        scalar = e.emit(value.type, 1, f"load {value.type}, {place.typed}")
        scalars.append(e.cast("trunc", scalar, "i1") if original.type == "i1" else scalar)
    result = body(lane, scalars)
    if result_slot is not None and result is not None:
        place = e.emit("ptr", 1, f"getelementptr {result.type}, ptr {result_slot}, {lane.typed}")
        e.line(f"store {result.typed}, {place.typed}")
    e.line(f"br label %{head}")
    e.lines.append(f"{done}:")
    if result_slot is None or result_type is None:
        return None
    return e.emit(result_type, LANES, f"load <{LANES} x {result_type}>, ptr {result_slot}, align 64")
