"""Functions in which lanes of a wave may be at different places for long: spin loops that they leave one by one.

LLVM keeps lanes that left a loop waiting until the last one leaves. Where the last one waits for them (a lock, a flag), that is for ever. So
each lane has a `pc`, the number of the block it is at; the blocks stand in one linear order, each entered by the lanes whose `pc` names it;
when the last one is through, the next round begins, until all lanes are done. A lane that fails to get a lock comes back to
it in the next round; in the meantime the one that has it goes ahead.

All branches of the scan itself depend on ballots: the same for all lanes, and convergent, so that LLVM does not thread a lane's jump
past them. Barriers stand at the start of blocks of their own (`split_at_barriers`), which are entered when every lane is at a barrier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuttle.lower.amdgpu.barriers import ILLEGAL_FAULT
from cuttle.lower.amdgpu.plan import is_barrier
from cuttle.lower.emit import Value
from cuttle.lower.passes.graph import Exit

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

PC = "ptr addrspace(5) %pc"


def write_scan(writer: FunctionWriter) -> None:
    """The blocks of a function as a scan. Its entry branches to the label `scan`."""
    e = writer.emitter
    plan = writer.plan
    done = len(plan.order)
    position = {block: index for index, block in enumerate(plan.order)}
    writer.allocas.append("  %pc = alloca i32, align 4, addrspace(5)")
    writer.allocas.append(f"  store i32 {position[0]}, {PC}")
    barriers = [
        position[block.index] for block in plan.graph.blocks if block.nodes and is_barrier(block.nodes[0])
    ]  # fmt: skip
    writer.label("scan")
    for place, index in enumerate(plan.order):
        block = plan.graph.blocks[index]
        here = e.icmp("eq", read_pc(writer), e.const("i32", place))
        waiting = e.icmp("ne", writer.machine.ballot(here), e.const("i32", 0))
        elsewhere = e.const("i1", 0)
        if place in barriers:
            waiting = e.and_(waiting, all_at_barriers(writer, barriers, done))
            alive = e.icmp("ne", read_pc(writer), e.const("i32", done))
            elsewhere = e.icmp("ne", writer.machine.ballot(e.and_(alive, e.not_(here))), e.const("i32", 0))
        enter, body, after = (writer.fresh_label(stem) for stem in ("enter", "body", "next"))
        e.line(f"br {waiting.typed}, label %{enter}, label %{after}")
        writer.label(enter)
        e.line(f"br {here.typed}, label %{body}, label %{after}")
        writer.label(body)
        writer.local, writer.clean = {}, {}
        if place in barriers and plan.is_entry:
            refuse_parted(writer, elsewhere, block.nodes[0].instruction.location.line)
        for node in block.nodes:
            writer.nodes.execute(node)
        if isinstance(block.terminator, Exit) and block.terminator.kind != "trap":
            if block.terminator.kind == "exit" and not plan.is_entry:
                writer.write_exit(block.terminator)
            go(writer, done, after)
        else:
            writer.write_ending(index, lambda successor, after=after: go(writer, position[successor], after))  # type: ignore[misc]
        writer.label(after)
    left = e.icmp("ne", read_pc(writer), e.const("i32", done))
    more = e.icmp("ne", writer.machine.ballot(left), e.const("i32", 0))
    finish = writer.fresh_label("finish")
    e.line(f"br {more.typed}, label %scan, label %{finish}")
    writer.label(finish)
    e.line("ret void")


def refuse_parted(writer: FunctionWriter, elsewhere: Value, line: int) -> None:
    """A fault if lanes of the wave wait at different barriers of the program at once.

    Hardware since Volta takes them for one arrival if the barriers' numbers are equal, and for an error if not. A wave would count once for
    each place here, which would be wrong.
    """

    def end() -> list[Value]:
        writer.machine.services.trap(ILLEGAL_FAULT, line)
        return []

    writer.when(elsewhere, end, [])


def read_pc(writer: FunctionWriter) -> Value:
    return writer.emitter.emit("i32", 1, f"load i32, {PC}")


def go(writer: FunctionWriter, place: int, after: str) -> None:
    """The lane's next block; the scan goes on."""
    writer.emitter.line(f"store i32 {place}, {PC}")
    writer.emitter.line(f"br label %{after}")


def all_at_barriers(writer: FunctionWriter, barriers: list[int], done: int) -> Value:
    """Whether every lane that is left is at a barrier."""
    e = writer.emitter
    pc = read_pc(writer)
    able = e.icmp("ne", pc, e.const("i32", done))
    for place in barriers:
        able = e.and_(able, e.icmp("ne", pc, e.const("i32", place)))
    return e.icmp("eq", writer.machine.ballot(able), e.const("i32", 0))
