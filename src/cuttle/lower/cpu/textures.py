"""Texture accesses on the CPU: the executor's service `texture` does them, for all lanes of a warp at once.

Words of operands and results stand in columns, one word for each lane, in stack memory of the region.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuttle.abi.kernel_abi import WARP_LANES as LANES
from cuttle.lower.emit import Value

if TYPE_CHECKING:
    from cuttle.lower.cpu.machine import WarpMachine

RESULTS = 4


def call_texture(machine: WarpMachine, form: int, words: Sequence[Value]) -> list[Value]:
    """The four words (i32 vectors) that an access of the form gives."""
    e = machine.emitter
    column = LANES * 4
    block = Value("ptr", machine.region.allocate(f"[{column * (len(words) + RESULTS)} x i8]"))

    def place(index: int) -> Value:
        return e.emit("ptr", 1, f"getelementptr i8, {block.typed}, i64 {index * column}")

    for index, word in enumerate(words):
        e.line(f"store {e.splat(word, LANES).typed}, {place(index).typed}, align 64")
    address = e.emit("i64", 1, f"ptrtoint {block.typed} to i64")
    lanes = e.cast("zext", machine.active_mask(), "i64")
    arguments = [address, lanes, e.const("i64", LANES), e.const("i64", form)]
    machine.region.scalar_service("texture", arguments)
    return [
        e.emit("i32", LANES, f"load <{LANES} x i32>, {place(len(words) + index).typed}, align 64")
        for index in range(RESULTS)
    ]
