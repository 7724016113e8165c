"""Whether lanes of one warp may stand at different barriers at the same time.

Hardware since Volta lets a warp arrive at a barrier when all its lanes that have not exited have come to one: a barrier with
the same number, wherever in the program it stands (recorded on an H200, `selftest/files/barrier`). Where the lanes of a warp are
all at one place, or the others have nothing but their end before them, the warp can stop there and then.
"""

from __future__ import annotations

from collections.abc import Mapping

from cuttle.lower.passes.graph import BARRIERS, Graph
from cuttle.lower.passes.infer_divergence import Influence, reachable


def barrier_blocks(graph: Graph) -> set[int]:
    """Blocks with a barrier."""
    return {block.index for block in graph.blocks if any(node.opcode in BARRIERS for node in block.nodes)}


def barriers_apart(graph: Graph, influences: Mapping[int, Influence], post_dominators: list[int]) -> bool:
    """`influences` are those of the divergent branches; `post_dominators` are immediate ones, -1 or beyond for none.

    A divergent branch keeps lanes apart at a barrier if one way leads to a barrier before all ways meet, and another
    way leads to a barrier as well, before or behind that place.
    """
    barriers = barrier_blocks(graph)
    for branch, influence in influences.items():
        if not influence.blocks & barriers:
            continue
        post = post_dominators[branch]
        if 0 <= post < len(graph.blocks):
            if reachable(graph, post, None) & barriers:
                return True
        if ways_apart(graph, branch, barriers, post_dominators):
            return True
    return False


def ways_apart(graph: Graph, branch: int, places: set[int], post_dominators: list[int]) -> bool:
    """Whether more than one way out of a branch leads to one of the places before all ways meet."""
    post = post_dominators[branch]
    end = post if 0 <= post < len(graph.blocks) else -1
    return sum(bool(reachable(graph, way, end) & places) for way in graph.blocks[branch].successors) > 1
