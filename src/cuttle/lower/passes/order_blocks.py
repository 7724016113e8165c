"""A linear order of the blocks: topological but for back edges, loops contiguous, dominance regions contiguous.

Partial linearisation (Moll and Hack, PLDI 2018) needs all three: each block after its forward predecessors, each loop's
blocks in one run that begins with the header, and, within a loop with its inner loops contracted, each block's
dominated blocks in one run behind it.
"""

from __future__ import annotations

from cuttle.lower.passes.dominance import Successors, dominators, reverse_post_order
from cuttle.lower.passes.loops import LoopForest


def order_blocks(successors: Successors, forest: LoopForest) -> list[int]:
    """All blocks in linear order, block 0 first. Irreducible components are runs in reverse post order."""
    position = [0] * len(successors)
    for place, block in enumerate(reverse_post_order(successors)):
        position[block] = place
    inside: dict[int, list[int]] = {-1: []}
    for loop in forest.loops:
        inside[loop.index] = []
    for block in sorted(range(len(successors)), key=position.__getitem__):
        inside[forest.innermost[block]].append(block)
    orders: dict[int, list[int]] = {}
    for loop in reversed(forest.loops):
        if loop.irreducible:
            orders[loop.index] = inside[loop.index]
        else:
            orders[loop.index] = _order_region(successors, forest, loop.index, loop.header, inside, orders)
    return _order_region(successors, forest, -1, 0, inside, orders)


def _order_region(
    successors: Successors,
    forest: LoopForest,
    region: int,
    header: int,
    inside: dict[int, list[int]],
    orders: dict[int, list[int]],
) -> list[int]:
    """Order of one loop (or of the function, region -1) whose inner loops are ordered already."""
    children = forest.loops[region].children if region >= 0 else forest.roots
    if not children and len(inside[region]) == 1:
        return inside[region]
    # Nodes of the contracted graph: the region's own blocks and its inner loops.
    items: list[list[int]] = [[block] for block in inside[region]] + [orders[child] for child in children]
    item_of = {block: item for item, blocks in enumerate(items) for block in blocks}
    start = item_of[header]
    edges: list[list[int]] = []
    for item, blocks in enumerate(items):
        targets: dict[int, None] = {}
        for block in blocks:
            for target in successors[block]:
                other = item_of.get(target, item)
                if other != item and other != start:
                    targets[other] = None
        edges.append(list(targets))
    tree = dominators(edges, start)  # children of a node are in reverse post order, which is topological here
    return [block for item in tree.preorder() for block in items[item]]
