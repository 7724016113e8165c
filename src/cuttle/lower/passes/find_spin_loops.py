"""Loops that wait for somebody else: they need yields, and lanes that leave them must be able to go ahead.

A loop spins if the predicate of one of its exits depends, within the loop, on memory that others may write while it runs: a
volatile, relaxed or acquire load, or an atomic. A compare-and-swap whose expected value changes from round to round (the
usual retry loop around `atomicCAS`) makes progress by itself and does not count.
"""

from __future__ import annotations

from cuttle.lower.passes.graph import Graph, Node, Phi, operand_values, terminator_value
from cuttle.lower.passes.loops import Loop, LoopForest

STRONG = frozenset(("volatile", "relaxed", "acquire", "cv", "acq_rel", "mmio"))


def find_spin_loops(graph: Graph, forest: LoopForest) -> set[int]:
    """Indices (in `forest.loops`) of the innermost loops that spin."""
    return {loop.index for loop in forest.loops if spins(graph, loop)}


def spins(graph: Graph, loop: Loop) -> bool:
    pending = []
    for inside, _ in loop.exits:
        value = terminator_value(graph.blocks[inside].terminator)
        if value is not None:
            pending.append(value)
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        info = graph.values[value]
        if value in seen or info.block not in loop.blocks or info.definition is None:
            continue
        seen.add(value)
        if isinstance(info.definition, Phi):
            pending.extend(info.definition.incoming.values())
            continue
        if waits_on(graph, loop, info.definition):
            return True
        pending.extend(info.definition.used_values())
    return False


def waits_on(graph: Graph, loop: Loop, node: Node) -> bool:
    """Whether the node reads what others may change and is not a retrying compare-and-swap."""
    if node.opcode in ("ld", "mbarrier.try_wait", "mbarrier.test_wait"):
        return node.opcode != "ld" or bool(STRONG & set(node.instruction.modifiers))
    if node.opcode != "atom":
        return False
    if "cas" not in node.instruction.modifiers:
        return True
    return not any(varies(graph, loop, value, set()) for value in operand_values(node.operands[1]))


def varies(graph: Graph, loop: Loop, value: int, seen: set[int]) -> bool:
    """Whether a value may change from round to round of the loop."""
    info = graph.values[value]
    if info.block not in loop.blocks or info.definition is None or value in seen:
        return False
    seen.add(value)
    if isinstance(info.definition, Phi):
        return True
    if info.definition.opcode in ("ld", "atom", "shfl"):
        return True
    return any(varies(graph, loop, used, seen) for used in info.definition.used_values())
