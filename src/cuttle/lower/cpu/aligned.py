"""The check that an access is aligned, where that is not known beforehand (`passes/find_alignment.py`).

What follows from the kernel's parameters costs nothing here: the image says which of them must be multiples of what, and a
launch with others gets an image that checks those accesses, too (`CompileOptions.check_alignment`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuttle.lower.cpu.memory import Lanes
from cuttle.lower.cpu.shaped import Shaped, materialise
from cuttle.lower.emit import Value
from cuttle.lower.passes.graph import SsaAddress
from cuttle.lower.passes.shape import LANES

if TYPE_CHECKING:
    from cuttle.lower.cpu.machine import WarpMachine

MISALIGNED_FAULT = 2  # abi/wire.py FAULTS


def expect_aligned(machine: WarpMachine, space: str, address: Any, size: int, where: Value | None) -> None:
    """See `lower/machine.py`."""
    if size <= 1 or is_known(machine, address, size):
        return
    before, machine.lanes = machine.lanes, machine.restricted(where)
    lanes = machine.lanes_for_access()
    machine.lanes = before
    shaped = machine.resolve(space, address).shaped
    wrong = wrong_lanes(machine, shaped, size, lanes)
    if wrong is None:
        return
    e, region = machine.emitter, machine.region
    fine, misaligned = region.fresh_label("aligned"), region.fresh_label("misaligned")
    e.line(f"br {e.icmp('eq', wrong, e.const('i32', 0)).typed}, label %{fine}, label %{misaligned}, !prof !10")
    region.label(misaligned)
    lane = e.and_(e.intrinsic("llvm.cttz", [wrong, e.const("i1", 0)]), e.const("i32", LANES - 1))
    lane_address = e.emit("i64", 1, f"extractelement {materialise(e, shaped).typed}, {lane.typed}")
    assert machine.instruction is not None
    region.trap(MISALIGNED_FAULT, machine.instruction.location.line, lane, [lane_address, e.const("i64", size)])
    region.label(fine)


def is_known(machine: WarpMachine, address: Any, size: int) -> bool:
    """Whether the address is a multiple of the size, if the parameters are what the image then asks of them."""
    if not isinstance(address, SsaAddress):
        return False
    plan = machine.region.plan
    alignment = plan.alignments.address(address)
    if 1 << alignment.zeros < size or (alignment.places and plan.options.check_alignment):
        return False
    for place in alignment.places:
        plan.aligned_places[place] = max(plan.aligned_places.get(place, 1), size)
    return True


def wrong_lanes(machine: WarpMachine, shaped: Shaped, size: int, lanes: Lanes) -> Value | None:
    """The active lanes (bits, i32) whose address is no multiple of the size; None if it is clear that there are none.

    Where a base stands for many lanes that are all right or all wrong, it is looked at once.
    """
    e = machine.emitter
    active = lanes.bits if lanes.bits is not None else e.const("i32", -1)
    mask = size - 1
    if shaped.vector is None:
        per_base = LANES // len(shaped.bases)
        starts = range(0, LANES, per_base)
        alike = all(
            (offset - shaped.offsets[first]) & mask == 0
            for first in starts
            for offset in shaped.offsets[first : first + per_base]
        )
        if alike:
            wrong: Value | None = None
            for base, first in zip(shaped.bases, starts, strict=True):
                low = e.and_(e.add(base, e.const("i64", shaped.offsets[first] & mask)), e.const("i64", mask))
                if low.constant == 0:
                    continue
                members = e.const("i32", ((1 << per_base) - 1) << first)
                found = e.select(e.icmp("ne", low, e.const("i64", 0)), e.and_(active, members), e.const("i32", 0))
                wrong = found if wrong is None else e.or_(wrong, found)
            return wrong
    vector = materialise(e, shaped)
    low = e.and_(vector, e.const("i64", mask))
    if low.elements is not None and not any(low.elements):
        return None
    bits = machine.bits(e.icmp("ne", low, e.const("i64", 0)))
    return e.and_(bits, active)
