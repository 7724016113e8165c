"""The product of two register tiles in ordinary f32 arithmetic, for `policy.fast_math` (layouts: `tiles.py`).

Each product and sum is rounded to nearest (an `fma`), which keeps to PTX's "at least single precision" for f32 sums and is
more than what it asks for f16 sums. The k come in the order that keeps sums and factors in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuttle.lower.emit import Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops import tensor


def products(
    machine: Machine, kind: str, a: Sequence[Value], b: Sequence[Value], sums: Sequence[Value], row_halves: int
) -> list[Value]:
    """`sums` (float or half, row half slowest, two columns each) plus A B, as floats."""
    e = machine.emitter
    lane = machine.lane_index()
    row = e.and_(lane, e.const("i32", 28))
    column = e.shl(e.and_(lane, e.const("i32", 3)), e.const("i32", 3))
    totals = [e.cast("fpext", total, "float") if total.type == "half" else total for total in sums]
    left = [tensor.plain_floats(e, register, kind) for register in a]
    right = [tensor.plain_floats(e, register, kind) for register in b]
    for k, elements in enumerate(right):
        for index, element in enumerate(elements):
            for t in range(4):
                rows = [
                    machine.shuffle(left[k * row_halves + half][index].value, e.or_(row, e.const("i32", t)))
                    for half in range(row_halves)
                ]
                for n in range(2):
                    factor = machine.shuffle(element.value, e.or_(column, e.const("i32", 4 * n + t)))
                    for half in range(row_halves):
                        at = 2 * half + n
                        totals[at] = e.intrinsic("llvm.fma", [rows[half], factor, totals[at]])
    return totals
