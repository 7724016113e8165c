"""Operations that wait for lanes of their warp: which they are, whom they wait for, and blocks of their own for them.

`shfl.sync`, `bar.warp.sync` and their like execute once every lane of the member mask that has not exited has come to them.
Where the lanes of a warp come to each place together that needs nothing. Where lanes are passed by (at spin loops, at barriers
under divergence), those that come first must wait, as at a gate, and then stand at the beginning of a block.
"""

from __future__ import annotations

from collections.abc import Mapping

from cuttle.lower.ops.dispatch import is_sync, row_of
from cuttle.lower.passes.find_apart_barriers import ways_apart
from cuttle.lower.passes.graph import Graph, Node, SsaOperand, ValueRef
from cuttle.lower.passes.infer_divergence import Influence
from cuttle.lower.passes.split_at_barriers import split
from cuttle.ptx.ir import Immediate

EVERYONE = 0xFFFF_FFFF


def waits_for_lanes(node: Node) -> bool:
    """Whether the node is a `.sync` operation of a warp."""
    if node.call is not None or node.opcode in ("call", "trap", "brkpt"):
        return False
    return row_of(node.opcode).effects == "cross" and is_sync(node.instruction)


def member_mask(graph: Graph, node: Node) -> int | SsaOperand:
    """The lanes that the node waits for: their bits where these are known, else the operand that has them."""
    if node.instruction.has("aligned"):
        return EVERYONE
    operand = node.operands[-1]
    while isinstance(operand, ValueRef):
        definition = graph.values[operand.id].definition
        if not isinstance(definition, Node) or definition.opcode != "mov" or definition.guard is not None:
            break
        operand = definition.operands[0]
    if isinstance(operand, Immediate):
        return operand.bits & EVERYONE
    return node.operands[-1]


def split_at_warp_operations(graph: Graph) -> None:
    """Puts a `.sync` operation at the beginning of a block, unless its lanes met at one before it in the same block.

    A barrier always begins one: it may have met with lanes that stood at another barrier, and are elsewhere now.
    """
    for block in list(graph.blocks):
        places = []
        met: int | SsaOperand | None = None
        for index, node in enumerate(block.nodes):
            if not waits_for_lanes(node):
                continue
            mask = member_mask(graph, node)
            if met not in (EVERYONE, mask) or node.guard is not None or node.opcode == "bar.warp.sync":
                places.append(index)
                met = mask if node.guard is None else None
        for index in reversed(places):
            if index:
                split(graph, block, index)


def find_gates(graph: Graph) -> dict[int, Node]:
    """The `.sync` operations that blocks begin with."""
    return {block.index: block.nodes[0] for block in graph.blocks if block.nodes and waits_for_lanes(block.nodes[0])}


def warp_barriers_apart(graph: Graph, influences: Mapping[int, Influence], post_dominators: list[int]) -> bool:
    """Whether a divergent branch leads lanes of a warp to different `bar.warp.sync`: these wait for each other."""
    blocks = {block.index for block in graph.blocks if any(node.opcode == "bar.warp.sync" for node in block.nodes)}
    return len(blocks) > 1 and any(
        influence.blocks & blocks and ways_apart(graph, branch, blocks, post_dominators)
        for branch, influence in influences.items()
    )
