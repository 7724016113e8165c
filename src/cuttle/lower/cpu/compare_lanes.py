"""`tid < bound` as a scalar: which lanes of `base + lane` lie below a uniform bound, without a vector compare."""

from __future__ import annotations

from cuttle.lower.cpu.shaped import Shaped
from cuttle.lower.emit import Emitter, Value
from cuttle.lower.passes.shape import LANES, Shape
from cuttle.ptx.ir import Instruction

FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
TYPES = frozenset(("s32", "u32", "s64", "u64"))


def comparison(instruction: Instruction) -> str | None:
    """The ordering that a plain integer `setp` compares by."""
    if instruction.opcode != "setp" or instruction.type not in TYPES or len(instruction.modifiers) != 2:
        return None
    return instruction.modifiers[0] if instruction.modifiers[0] in FLIPPED else None


def counts_up(shape: Shape, type_name: str) -> bool:
    """Whether the lanes are base, base + 1, ... and none of them wraps around."""
    total = shape.total()
    if shape.kind != "uniform" or total is None or (type_name.startswith("u") and total[0] < 0):
        return False
    first = shape.offsets[0]
    return all(offset == first + lane for lane, offset in enumerate(shape.offsets))


def lanes_below(e: Emitter, order: str, type_name: str, counting: Shaped, bound: Value) -> Value:
    """The mask (i32) of the lanes for which `counting order bound` holds."""
    signed = type_name.startswith("s")
    base = e.resize(counting.bases[0], 64, signed)
    limit = e.resize(bound, 64, signed)
    if type_name == "u64":
        # A bound beyond the signed range is above every lane.
        limit = e.intrinsic("llvm.umin", [limit, e.const("i64", (1 << 62))])
    elif type_name == "s64":
        limit = e.intrinsic("llvm.smax", [limit, e.const("i64", -(1 << 62))])
        limit = e.intrinsic("llvm.smin", [limit, e.const("i64", 1 << 62)])
    distance = e.sub(e.sub(limit, base), e.const("i64", counting.offsets[0]))
    if order in ("le", "gt"):
        distance = e.add(distance, e.const("i64", 1))
    count = e.intrinsic("llvm.smax", [e.intrinsic("llvm.smin", [distance, e.const("i64", LANES)]), e.const("i64", 0)])
    below = e.cast("trunc", e.sub(e.shl(e.const("i64", 1), count), e.const("i64", 1)), "i32")
    return below if order in ("lt", "le") else e.not_(below)
