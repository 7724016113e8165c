"""Which phis and blocks are touched by divergent branches.

A branch is divergent if its predicate may differ between the lanes of a warp. Its *influence* is every block that can
be reached from it before its immediate post-dominator: there, some lanes may be elsewhere, so these blocks need a masked
version. A phi is divergent if lanes can reach it from one divergent branch along different paths (sync dependence), or
if it stands at an exit of a loop that lanes leave at different times (temporal divergence; values used outside a loop
pass through such phis, see `build_ssa`).
"""

from __future__ import annotations

from dataclasses import dataclass

from cuttle.lower.passes.graph import Graph


@dataclass(frozen=True, slots=True)
class Influence:
    """`blocks`: reachable before the branch's post-dominator; `joins`: blocks whose phis become divergent."""

    blocks: frozenset[int]
    joins: frozenset[int]


def reachable(graph: Graph, start: int, end: int | None) -> set[int]:
    """Blocks that can be reached from `start` without passing `end`."""
    seen: set[int] = set()
    pending = [start]
    while pending:
        block = pending.pop()
        if block in seen or block == end:
            continue
        seen.add(block)
        pending.extend(graph.blocks[block].successors)
    return seen


def influence_of(graph: Graph, branch: int, post_dominator: int | None, loop_exits: dict[int, set[int]]) -> Influence:
    """The influence of a divergent terminator of block `branch`.

    `post_dominator` is its immediate post-dominator, None for the virtual exit. `loop_exits` maps a block to the exit
    blocks of every loop that contains it.
    """
    reach = [reachable(graph, successor, post_dominator) for successor in graph.blocks[branch].successors]
    blocks = frozenset().union(*reach) if reach else frozenset()
    counts: dict[int, int] = {}
    for seen in reach:
        for index in seen:
            counts[index] = counts.get(index, 0) + 1
    joins = {index for index, count in counts.items() if count > 1 and graph.blocks[index].phis}
    if post_dominator is not None:
        joins.add(post_dominator)
    # A loop is left at different times if a branch inside it is divergent and one way leads out of it.
    for exit_block in loop_exits.get(branch, set()):
        if exit_block in blocks or exit_block == post_dominator:
            joins.add(exit_block)
    return Influence(blocks, frozenset(joins))
