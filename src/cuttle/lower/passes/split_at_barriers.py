"""Puts every barrier into a block of its own.

Where lanes of a warp may be at different places for long (spin loops, barriers under divergence), those that reach a barrier
wait *at its block* until no other lane of the warp can go on; only then does the warp arrive, once for all its lanes.
"""

from __future__ import annotations

from cuttle.lower.passes.graph import BARRIERS, Block, Graph, Jump


def split_at_barriers(graph: Graph) -> None:
    """Splits blocks in place; the graph's invariants hold afterwards. A barrier's block jumps to what comes behind it."""
    for block in list(graph.blocks):
        for index in range(len(block.nodes) - 1, -1, -1):
            if block.nodes[index].opcode in BARRIERS:
                split(graph, block, index + 1)
                split(graph, block, index)


def split(graph: Graph, block: Block, index: int) -> None:
    """Moves nodes from `index` on, and the terminator, to a new block behind `block`."""
    new = Block(len(graph.blocks), f"{block.label}.barrier{len(graph.blocks)}")
    new.nodes = block.nodes[index:]
    new.terminator = block.terminator
    new.successors = block.successors
    new.predecessors = [block.index]
    block.nodes = block.nodes[:index]
    block.terminator = Jump(new.index)
    block.successors = [new.index]
    graph.blocks.append(new)
    for node in new.nodes:
        for result in node.results:
            if result is not None:
                graph.values[result].block = new.index
    for successor in new.successors:
        target = graph.blocks[successor]
        target.predecessors = [new.index if p == block.index else p for p in target.predecessors]
        for phi in target.phis:
            if block.index in phi.incoming:
                phi.incoming[new.index] = phi.incoming.pop(block.index)
