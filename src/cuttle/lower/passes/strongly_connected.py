"""Strongly connected components: of blocks (loops) and of functions (recursion)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def strongly_connected(
    nodes: Iterable[Node], allowed: Iterable[Node], successors: Callable[[Node], Iterable[Node]]
) -> list[list[Node]]:
    """Components of the subgraph induced by `allowed` (Tarjan), searched from `nodes` in order; trivial ones included."""
    inside = set(allowed)
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    on_stack: set[Node] = set()
    path: list[Node] = []
    result: list[list[Node]] = []
    for root in nodes:
        if root in number or root not in inside:
            continue
        number[root] = low[root] = len(number)
        path.append(root)
        on_stack.add(root)
        work = [(root, iter(successors(root)))]
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in inside:
                    continue
                if target not in number:
                    number[target] = low[target] = len(number)
                    path.append(target)
                    on_stack.add(target)
                    work.append((target, iter(successors(target))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], number[target])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == number[node]:
                    component = []
                    while True:
                        member = path.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    result.append(component)
    return result
