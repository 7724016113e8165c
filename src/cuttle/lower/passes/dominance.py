"""Dominators and post-dominators (Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm, 2001).

All functions work on successor lists, so that they serve the control-flow graph before and after SSA; node 0 is the
entry and every node is reachable from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Successors = Sequence[Sequence[int]]


@dataclass(slots=True)
class Dominators:
    """`idom[b]` is the immediate dominator (-1 for the root); `order` the nodes in reverse post order from the root.

    In a post-dominator tree the root is the virtual exit, node `len(successors)`; edges are reversed.
    """

    root: int
    idom: list[int]
    order: list[int]
    children: list[list[int]]
    first: list[int]
    last: list[int]

    def dominates(self, a: int, b: int) -> bool:
        """Whether a dominates b (every node dominates itself); constant time."""
        return self.first[a] <= self.first[b] and self.last[b] <= self.last[a]

    def common(self, a: int, b: int) -> int:
        """The nearest common dominator."""
        while not self.dominates(a, b):
            a = self.idom[a]
        return a

    def preorder(self) -> list[int]:
        """The tree in preorder."""
        result: list[int] = []
        stack = [self.root]
        while stack:
            node = stack.pop()
            result.append(node)
            stack.extend(reversed(self.children[node]))
        return result


def predecessors_of(successors: Successors) -> list[list[int]]:
    """Predecessor lists, without duplicates."""
    result: list[list[int]] = [[] for _ in successors]
    for source, targets in enumerate(successors):
        for target in dict.fromkeys(targets):
            result[target].append(source)
    return result


def reverse_post_order(successors: Successors, root: int = 0) -> list[int]:
    """Nodes reachable from `root`; a node comes before its successors but for back edges."""
    seen = [False] * len(successors)
    seen[root] = True
    post: list[int] = []
    stack = [(root, iter(reversed(successors[root])))]
    while stack:
        node, targets = stack[-1]
        for target in targets:
            if not seen[target]:
                seen[target] = True
                stack.append((target, iter(reversed(successors[target]))))
                break
        else:
            post.append(node)
            stack.pop()
    post.reverse()
    return post


def dominators(successors: Successors, root: int = 0) -> Dominators:
    """The dominator tree of a graph."""
    count = len(successors)
    order = reverse_post_order(successors, root)
    number = [-1] * count
    for position, node in enumerate(order):
        number[node] = position
    predecessors = predecessors_of(successors)
    idom = [-1] * count
    idom[root] = root
    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            new = -1
            for predecessor in predecessors[node]:
                if idom[predecessor] < 0:
                    continue
                if new < 0:
                    new = predecessor
                    continue
                other = predecessor
                while new != other:
                    while number[new] > number[other]:
                        new = idom[new]
                    while number[other] > number[new]:
                        other = idom[other]
            if idom[node] != new:
                idom[node] = new
                changed = True
    idom[root] = -1
    children: list[list[int]] = [[] for _ in range(count)]
    for node in order[1:]:
        children[idom[node]].append(node)
    first, last = _number(children, root, count)
    return Dominators(root, idom, order, children, first, last)


def _number(children: list[list[int]], root: int, count: int) -> tuple[list[int], list[int]]:
    first, last = [0] * count, [-1] * count
    clock = 0
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            last[node] = clock
        else:
            clock += 1
            first[node] = clock
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(children[node]))
    return first, last


def post_dominators(successors: Successors) -> Dominators:
    """The post-dominator tree; its root is the virtual exit `len(successors)`.

    Nodes without successors lead to the virtual exit, and so does one node of every endless loop (the one that comes
    last in reverse post order), so that every node has a post-dominator.
    """
    count = len(successors)
    reverse: list[list[int]] = [*predecessors_of(successors), []]
    exits = [node for node in range(count) if not successors[node]]
    seen = [False] * count

    def reach(start: int) -> None:
        stack = [start]
        seen[start] = True
        while stack:
            for source in reverse[stack.pop()]:
                if not seen[source]:
                    seen[source] = True
                    stack.append(source)

    for node in exits:
        if not seen[node]:
            reach(node)
    if not all(seen):
        for node in reversed(reverse_post_order(successors)):
            if not seen[node]:
                exits.append(node)
                reach(node)
    reverse[count] = exits
    return dominators(reverse, count)


def dominance_frontiers(successors: Successors, tree: Dominators) -> list[list[int]]:
    """Per node: the join nodes where its dominance ends."""
    frontiers: list[set[int]] = [set() for _ in successors]
    for node, sources in enumerate(predecessors_of(successors)):
        if len(sources) < 2 and node != tree.root:
            continue
        for source in sources:
            runner = source
            while runner != tree.idom[node] and runner >= 0:
                frontiers[runner].add(node)
                runner = tree.idom[runner]
    return [sorted(frontier) for frontier in frontiers]
