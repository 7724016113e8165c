"""The loop nest forest, irreducible regions included.

A loop is a strongly connected component; with its header's incoming edges removed, the components inside are its inner
loops. A component with one entry is a natural loop; one with several entries is *irreducible*: it stands in the forest
as one loop without inner loops, and its `header` is merely its first entry in reverse post order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cuttle.lower.passes.dominance import Successors, predecessors_of, reverse_post_order
from cuttle.lower.passes.strongly_connected import strongly_connected


@dataclass(slots=True)
class Loop:
    """`blocks` includes the blocks of inner loops. `entries` are the blocks entered from outside: one if reducible.

    `latches` are the sources of edges from inside to the header. `exits` are the edges (inside, outside) that leave.
    `parent` is an index into `LoopForest.loops` or -1; outer loops come before their inner loops in that list.
    """

    index: int
    header: int
    blocks: frozenset[int]
    parent: int
    depth: int
    entries: tuple[int, ...]
    latches: tuple[int, ...] = ()
    exits: tuple[tuple[int, int], ...] = ()
    children: list[int] = field(default_factory=list)

    @property
    def irreducible(self) -> bool:
        return len(self.entries) > 1


@dataclass(slots=True)
class LoopForest:
    """`innermost[block]` is the index of the innermost loop that holds the block, or -1."""

    loops: list[Loop]
    innermost: list[int]

    def depth(self, block: int) -> int:
        """How many loops hold the block."""
        loop = self.innermost[block]
        return 0 if loop < 0 else self.loops[loop].depth

    def chain(self, block: int) -> list[Loop]:
        """The loops that hold the block, innermost first."""
        result = []
        loop = self.innermost[block]
        while loop >= 0:
            result.append(self.loops[loop])
            loop = self.loops[loop].parent
        return result

    @property
    def roots(self) -> list[int]:
        return [loop.index for loop in self.loops if loop.parent < 0]

    @property
    def irreducible(self) -> list[Loop]:
        """The irreducible components."""
        return [loop for loop in self.loops if loop.irreducible]


def find_loops(successors: Successors) -> LoopForest:
    """The loop nest forest of a graph whose nodes are all reachable from node 0."""
    predecessors = predecessors_of(successors)
    order = reverse_post_order(successors)
    position = {node: place for place, node in enumerate(order)}
    forest = LoopForest([], [-1] * len(successors))
    work: list[tuple[int, list[int], int]] = [(-1, order, -1)]
    while work:
        parent, nodes, removed = work.pop(0)
        allowed = [node for node in nodes if node != removed]
        components = strongly_connected(allowed, allowed, successors.__getitem__)
        found: list[tuple[int, list[int]]] = []
        for component in components:
            if len(component) > 1 or component[0] in successors[component[0]]:
                component.sort(key=position.__getitem__)
                found.append((position[component[0]], component))
        for _, component in sorted(found):
            members = frozenset(component)
            entries = tuple(
                node for node in component if node == 0 or any(source not in members for source in predecessors[node])
            )
            header = entries[0]
            loop = Loop(
                index=len(forest.loops),
                header=header,
                blocks=members,
                parent=parent,
                depth=1 if parent < 0 else forest.loops[parent].depth + 1,
                entries=entries,
                latches=tuple(source for source in predecessors[header] if source in members),
                exits=tuple(
                    (node, target)
                    for node in component
                    for target in dict.fromkeys(successors[node])
                    if target not in members
                ),
            )
            forest.loops.append(loop)
            if parent >= 0:
                forest.loops[parent].children.append(loop.index)
            for node in component:
                forest.innermost[node] = loop.index
            if not loop.irreducible:
                work.append((loop.index, component, header))
    return forest
