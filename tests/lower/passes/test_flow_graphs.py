"""Dominance, loops and block order on random graphs, against definitions."""

from __future__ import annotations

import random

import pytest

from cuttle.lower.passes.dominance import dominators, post_dominators, predecessors_of, reverse_post_order
from cuttle.lower.passes.loops import find_loops
from cuttle.lower.passes.order_blocks import order_blocks


def random_graph(rng: random.Random) -> list[list[int]]:
    count = rng.randrange(1, 14)
    edges = [
        [rng.randrange(1, count) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))] if count > 1 else []
        for _ in range(count)
    ]
    kept = sorted(reverse_post_order(edges))
    number = {old: new for new, old in enumerate(kept)}
    return [[number[target] for target in dict.fromkeys(edges[old])] for old in kept]


def reachable(edges: list[list[int]], start: int, without: int) -> set[int]:
    seen: set[int] = set()
    work = [start] if start != without else []
    while work:
        node = work.pop()
        if node not in seen:
            seen.add(node)
            work.extend(target for target in edges[node] if target != without)
    return seen


@pytest.mark.parametrize("part", range(4))
def test_random_graphs(part: int) -> None:
    for seed in range(part * 250, part * 250 + 250):
        edges = random_graph(random.Random(seed))
        nodes = range(len(edges))
        tree = dominators(edges)
        for a in nodes:
            lost = set(nodes) - reachable(edges, 0, a)
            assert {b for b in nodes if tree.dominates(a, b)} == lost | {a}
        post = post_dominators(edges)
        ends = [node for node in nodes if not edges[node]]
        backwards = predecessors_of(edges)
        if ends and all(reachable(edges, node, -1) & set(ends) for node in nodes):
            full = [*backwards, ends]
            for a in nodes:
                lost = set(nodes) - reachable(full, len(edges), a)
                assert {b for b in nodes if post.dominates(a, b)} == lost | {a}
        assert sum(1 for parent in post.idom if parent < 0) == 1

        forest = find_loops(edges)
        for loop in forest.loops:
            inside = [[t for t in targets if t in loop.blocks] for targets in edges]
            for block in loop.blocks:
                assert block in set().union(*(reachable(inside, t, -1) for t in inside[block]), set())
                assert loop.blocks <= reachable(inside, block, -1) | {block}
            entries = {t for n in nodes for t in edges[n] if n not in loop.blocks and t in loop.blocks}
            assert set(loop.entries) == entries | ({0} & loop.blocks)
            if not loop.irreducible:
                assert all(tree.dominates(loop.header, block) for block in loop.blocks)

        order = order_blocks(edges, forest)
        assert sorted(order) == list(nodes) and order[0] == 0
        place = {block: position for position, block in enumerate(order)}
        for loop in forest.loops:
            places = sorted(place[block] for block in loop.blocks)
            assert places == list(range(places[0], places[0] + len(places)))
            assert order[places[0]] == loop.header
        for source in nodes:
            for target in edges[source]:
                if place[target] <= place[source]:
                    chain = forest.chain(source)
                    assert any(target == loop.header or (loop.irreducible and target in loop.blocks) for loop in chain)


def test_irreducible_component() -> None:
    forest = find_loops([[1, 2], [2, 3], [1], []])
    (loop,) = forest.irreducible
    assert loop.blocks == {1, 2} and set(loop.entries) == {1, 2} and loop.exits == ((1, 3),)


def test_nested_loops() -> None:
    forest = find_loops([[1], [2], [3], [2, 4], [1, 5], []])
    outer, inner = forest.loops
    assert (outer.header, sorted(outer.blocks), inner.header, sorted(inner.blocks)) == (1, [1, 2, 3, 4], 2, [2, 3])
    assert inner.parent == outer.index and forest.depth(3) == 2 and forest.depth(5) == 0
    assert inner.exits == ((3, 4),) and inner.latches == (3,)


def test_endless_loop_has_post_dominators() -> None:
    post = post_dominators([[1], [2], [1]])
    assert post.root == 3 and post.idom[2] == 3 and post.idom[1] == 2 and post.idom[0] == 1
