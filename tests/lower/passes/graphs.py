"""Helpers: PTX text to graphs, and a checker of the invariants that `graph.py` promises."""

from __future__ import annotations

from cuttle.lower.passes.build_graph import build
from cuttle.lower.passes.dominance import dominators, predecessors_of
from cuttle.lower.passes.graph import Graph, Node, terminator_targets, terminator_value
from cuttle.lower.passes.loops import find_loops
from cuttle.ptx.ir import Module
from cuttle.ptx.parser import parse_module

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def module_of(text: str) -> Module:
    return parse_module(text if text.lstrip().startswith((".version", "//")) else HEADER + text)


def graph_of(text: str, name: str = "k") -> Graph:
    module = module_of(text)
    graph = build(module, module.functions[name])
    check(graph)
    return graph


def check(graph: Graph) -> None:
    """Raise AssertionError unless the graph keeps every invariant."""
    blocks = graph.blocks
    successors = [block.successors for block in blocks]
    predecessors = predecessors_of(successors)
    assert not predecessors[0]
    tree = dominators(successors)
    assert len(tree.order) == len(blocks)
    forest = find_loops(successors)
    place: dict[int, tuple[int, int]] = {}
    for index, block in enumerate(blocks):
        assert block.index == index
        assert block.successors == list(terminator_targets(block.terminator))
        assert len(set(block.successors)) == len(block.successors)
        assert block.predecessors == predecessors[index]
        for phi in block.phis:
            assert phi.result not in place
            place[phi.result] = (index, -1)
            assert sorted(phi.incoming) == sorted(block.predecessors)
        for position, node in enumerate(block.nodes):
            assert len(node.merges) == len(node.results)
            for result in node.results:
                if result is not None:
                    assert result not in place
                    place[result] = (index, position)
    for value, info in enumerate(graph.values):
        assert info.id == value
        assert (value in place) != info.undefined
        if value in place:
            assert info.block == place[value][0]
            position = place[value][1]
            owner = info.definition
            if position >= 0:
                assert owner is blocks[info.block].nodes[position]
            else:
                assert owner in blocks[info.block].phis

    def used(value: int, block: int, position: int) -> None:
        if graph.values[value].undefined:
            return
        home, at = place[value]
        if home == block:
            assert at < position, f"value {value} used before its definition in block {block}"
        else:
            assert tree.dominates(home, block), f"value {value} of block {home} used in block {block}"
        for loop in forest.chain(home):
            assert block in loop.blocks, f"value {value} leaves a loop without a phi"

    for index, block in enumerate(blocks):
        for phi in block.phis:
            for source, value in phi.incoming.items():
                used(value, source, 1 << 30)
        for position, node in enumerate(block.nodes):
            assert isinstance(node, Node)
            for value in node.used_values():
                used(value, index, position)
        read = terminator_value(block.terminator)
        if read is not None:
            used(read, index, 1 << 30)
    for loop in forest.loops:
        for _, outside in loop.exits:
            assert len(predecessors[outside]) == 1
        if not loop.irreducible:
            for source in predecessors[loop.header]:
                assert len(successors[source]) == 1
            assert sum(source not in loop.blocks for source in predecessors[loop.header]) == 1
