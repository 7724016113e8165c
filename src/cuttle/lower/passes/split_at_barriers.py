"""Puts every barrier at the start of a block of its own.

Where lanes of a warp may be at different places for long (spin loops), those that reach a barrier wait *at its block*
until no other lane of the warp can go on; only then does the warp arrive.
"""

from __future__ import annotations

from cuttle.lower.passes.graph import Block, Graph, Jump

BARRIERS = ("bar", "barrier")


def split_at_barriers(graph: Graph) -> None:
    """Splits blocks in place; the graph's invariants hold afterwards."""
    for block in list(graph.blocks):
        index = len(block.nodes) - 1
        while index > 0:
            if block.nodes[index].opcode in BARRIERS:
                split(graph, block, index)
            index -= 1
        if block.index == 0 and block.nodes and block.nodes[0].opcode in BARRIERS:
            split(graph, block, 0)


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
