"""Functions in which lanes of a wave may be at different places for long: spin loops that they leave one by one.

LLVM keeps lanes that left a loop waiting until the last one leaves. Where the last one waits for them (a lock, a flag), that is for ever. So
each lane has a `pc`, the number of the block it is at; the blocks stand in one linear order, each entered by the lanes whose `pc` names it;
when the last one is through, the next round begins, until all lanes are done. A lane that fails to get a lock comes back to
it in the next round; in the meantime the one that has it goes ahead.

All branches of the scan itself depend on ballots: the same for all lanes, and convergent, so that LLVM does not thread a lane's jump
past them. Barriers stand at the start of blocks of their own (`split_at_barriers`), which are entered when every lane is at a barrier.
`.sync` operations of a warp begin blocks, too: *gates*, which lanes enter when all that the member mask names have come or are
done. If in a round no lane goes anywhere, those that stand at gates are forced through in the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuttle.lower.amdgpu.barriers import GROUP, ILLEGAL_FAULT
from cuttle.lower.amdgpu.plan import is_barrier
from cuttle.lower.emit import Value
from cuttle.lower.passes.graph import Exit, Node
from cuttle.lower.passes.warp_operations import member_mask
from cuttle.ptx.ir import Immediate

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

PC = "ptr addrspace(5) %pc"
RELEASED = "ptr addrspace(5) %released"
FORCED = "ptr addrspace(5) %forced"  # the gate that a lane may pass without the others, or -1
MOVED = "ptr addrspace(5) %moved"  # whether the lane has gone anywhere in this round


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
    keys = {place: barrier_key(plan.graph.blocks[plan.order[place]].nodes[0]) for place in barriers}
    if len(barriers) > 1:
        writer.allocas.append("  %released = alloca i1, align 1, addrspace(5)")
        writer.allocas.append(f"  store i1 false, {RELEASED}")
    if plan.gates:
        writer.allocas += ["  %forced = alloca i32, align 4, addrspace(5)", f"  store i32 -1, {FORCED}"]
        writer.allocas += ["  %moved = alloca i1, align 1, addrspace(5)", f"  store i1 false, {MOVED}"]
    writer.label("scan")
    for place, index in enumerate(plan.order):
        block = plan.graph.blocks[index]
        here = e.icmp("eq", read_pc(writer), e.const("i32", place))
        passing = elsewhere = e.const("i1", 0)
        if place in barriers:
            here, waiting, passing, elsewhere = at_barrier(writer, place, here, keys, done)
        else:
            if index in plan.gates:
                here = at_gate(writer, plan.gates[index], place, here, done)
            waiting = any_lane(writer, here)
        enter, body, after = (writer.fresh_label(stem) for stem in ("enter", "body", "next"))
        e.line(f"br {waiting.typed}, label %{enter}, label %{after}")
        writer.label(enter)
        e.line(f"br {here.typed}, label %{body}, label %{after}")
        writer.label(body)
        writer.local, writer.clean = {}, {}
        if plan.gates:
            e.line(f"store i1 true, {MOVED}")
            e.line(f"store i32 -1, {FORCED}")
        nodes = list(block.nodes)
        if place in barriers:
            write_barrier(writer, nodes.pop(0), passing, elsewhere)
        for node in nodes:
            writer.nodes.execute(node)
        if isinstance(block.terminator, Exit) and block.terminator.kind != "trap":
            if block.terminator.kind == "exit" and not plan.is_entry:
                writer.write_exit(block.terminator)
            go(writer, done, after)
        else:
            writer.write_ending(index, lambda successor, after=after: go(writer, position[successor], after))  # type: ignore[misc]
        writer.label(after)
    if plan.gates:
        end_round(writer)
    left = e.icmp("ne", read_pc(writer), e.const("i32", done))
    more = e.icmp("ne", writer.machine.ballot(left), e.const("i32", 0))
    finish = writer.fresh_label("finish")
    e.line(f"br {more.typed}, label %scan, label %{finish}")
    writer.label(finish)
    e.line("ret void")


def any_lane(writer: FunctionWriter, condition: Value) -> Value:
    return writer.emitter.icmp("ne", writer.machine.ballot(condition), writer.emitter.const("i32", 0))


def at_gate(writer: FunctionWriter, node: Node, place: int, here: Value, done: int) -> Value:
    """The lanes that pass a gate at its turn: nobody that they wait for is elsewhere, or they are forced, or take no part."""
    e = writer.emitter
    writer.local, writer.clean = {}, {}
    known = member_mask(writer.plan.graph, node)
    mask = e.const("i32", known) if isinstance(known, int) else writer.nodes.value(node.operands[-1], "b32")
    guard = writer.nodes.guard_value(node)
    taking = here if guard is None else e.and_(here, guard)
    left = writer.machine.ballot(e.icmp("ne", read_pc(writer), e.const("i32", done)))
    missing = e.and_(mask, e.and_(left, e.not_(writer.machine.ballot(taking))))
    passing = e.or_(
        e.icmp("eq", missing, e.const("i32", 0)),
        e.icmp("eq", e.emit("i32", 1, f"load i32, {FORCED}"), e.const("i32", place)),
    )
    if guard is not None:
        passing = e.or_(passing, e.not_(guard))
    writer.local, writer.clean = {}, {}
    return e.and_(here, passing)


def end_round(writer: FunctionWriter) -> None:
    """If no lane went anywhere, each may pass the gate where it stands."""
    e = writer.emitter
    moved = writer.machine.ballot(e.emit("i1", 1, f"load i1, {MOVED}"))
    force = e.icmp("eq", moved, e.const("i32", 0))
    before = e.emit("i32", 1, f"load i32, {FORCED}")
    e.line(f"store {e.select(force, read_pc(writer), before).typed}, {FORCED}")
    e.line(f"store i1 false, {MOVED}")


def barrier_key(node: Node) -> tuple[int, ...] | None:
    """Number and count of a barrier that only waits, if they are constants: lanes at two such places with equal keys arrive as one."""
    if node.guard is not None or node.instruction.has("red") or node.instruction.has("arrive"):
        return None
    if not all(isinstance(operand, Immediate) for operand in node.operands):
        return None
    return tuple(operand.bits for operand in node.operands if isinstance(operand, Immediate))


def at_barrier(
    writer: FunctionWriter, place: int, here: Value, keys: dict[int, tuple[int, ...] | None], done: int
) -> tuple[Value, Value, Value, Value]:
    """At a barrier's turn: the lanes that go ahead, whether there are any, whether they pass without the barrier, and whether it is wrong.

    A wave goes to a barrier when all its lanes are at barriers. Those that are at another place with the same key are *released*:
    they pass that place at its turn, for the wave has arrived for them.
    """
    e = writer.emitter
    none = e.const("i1", 0)
    if len(keys) == 1:
        together = all_at_barriers(writer, list(keys), done, none)
        return here, e.and_(any_lane(writer, here), together), none, none
    released = e.emit("i1", 1, f"load i1, {RELEASED}")
    together = all_at_barriers(writer, list(keys), done, released)
    passing_lanes = e.and_(here, released)
    passing = any_lane(writer, passing_lanes)
    arriving = e.and_(e.and_(any_lane(writer, here), together), e.not_(passing))
    pc = read_pc(writer)
    alike = none
    for other, key in keys.items():
        if other != place and key is not None and key == keys[place]:
            alike = e.or_(alike, e.icmp("eq", pc, e.const("i32", other)))
    others = e.and_(e.icmp("ne", pc, e.const("i32", done)), e.not_(here))
    elsewhere = any_lane(writer, e.and_(others, e.not_(alike)))
    # Lanes that arrive here as well are released where they are; those that pass here are released no longer.
    kept = e.and_(released, e.not_(e.and_(passing, here)))
    e.line(f"store {e.or_(kept, e.and_(arriving, alike)).typed}, {RELEASED}")
    return e.select(passing, passing_lanes, here), e.or_(arriving, passing), passing, elsewhere


def write_barrier(writer: FunctionWriter, node: Node, passing: Value, elsewhere: Value) -> None:
    """The barrier, unless the lanes pass; a fault if other lanes of the wave wait at barriers that are not the same.

    Hardware since Volta takes lanes at different reductions or arrivals for one if the numbers are equal. A wave would count once for each place
    here, which would be wrong.
    """
    e = writer.emitter

    def end() -> list[Value]:
        writer.machine.services.trap(ILLEGAL_FAULT, node.instruction.location.line)
        return []

    if passing.constant is not None:
        writer.nodes.execute(node)
        return
    # Lanes that pass see what others wrote before the barrier, too: LLVM must not carry values past it.
    e.line(f"fence {GROUP} release")
    skip, meet = writer.fresh_label("pass"), writer.fresh_label("meet")
    e.line(f"br {passing.typed}, label %{skip}, label %{meet}")
    writer.label(meet)
    writer.when(elsewhere, end, [])
    writer.nodes.execute(node)
    e.line(f"br label %{skip}")
    writer.label(skip)
    e.line(f"fence {GROUP} acquire")
    writer.local, writer.clean = {}, {}


def read_pc(writer: FunctionWriter) -> Value:
    return writer.emitter.emit("i32", 1, f"load i32, {PC}")


def go(writer: FunctionWriter, place: int, after: str) -> None:
    """The lane's next block; the scan goes on."""
    writer.emitter.line(f"store i32 {place}, {PC}")
    writer.emitter.line(f"br label %{after}")


def all_at_barriers(writer: FunctionWriter, barriers: list[int], done: int, released: Value) -> Value:
    """Whether every lane that is left waits at a barrier; one that is released can go on."""
    e = writer.emitter
    pc = read_pc(writer)
    able = e.icmp("ne", pc, e.const("i32", done))
    for place in barriers:
        able = e.and_(able, e.icmp("ne", pc, e.const("i32", place)))
    able = e.or_(able, released)
    return e.icmp("eq", writer.machine.ballot(able), e.const("i32", 0))
