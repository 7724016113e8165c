"""Which values serve for nothing but addresses of memory accesses, through sums and products."""

from __future__ import annotations

from cuttle.lower.passes.graph import Graph, Node, SsaAddress, operand_values, terminator_value

# Opcodes that make an address from an index: what comes out is looked at in the operand's place.
PASSING_ON = frozenset({"add", "sub", "mad", "mul", "shl", "mov", "cvta"})


def find_address_only(graph: Graph) -> set[int]:
    """Ids of the values that only bases of addresses are made of; values that nobody uses are among them.

    The greatest fixed point: a value drops out when something looks at its bits (a comparison, a store of the value, a
    branch), or when what is made from it drops out.
    """
    seen: set[int] = set()
    made_from: dict[int, list[int]] = {}
    for block in graph.blocks:
        for node in block.nodes:
            note_node(node, seen, made_from)
        for phi in block.phis:
            made_from.setdefault(phi.result, []).extend(phi.incoming.values())
        value = terminator_value(block.terminator)
        if value is not None:
            seen.add(value)
    pending = list(seen)
    while pending:
        for source in made_from.get(pending.pop(), ()):
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return {value.id for value in graph.values if value.id not in seen}


def note_node(node: Node, seen: set[int], made_from: dict[int, list[int]]) -> None:
    """Adds what a node looks at to `seen`, and what its result is made of to `made_from`."""
    passes_on = node.opcode in PASSING_ON and len(node.results) == 1
    result = node.results[0] if passes_on else None
    for operand in node.operands:
        if isinstance(operand, SsaAddress):
            continue
        if passes_on:
            if result is not None:
                made_from.setdefault(result, []).extend(operand_values(operand))
        else:
            seen.update(operand_values(operand))
    for index, merge in enumerate(node.merges):
        into = node.results[index]
        if merge is not None and into is not None:
            made_from.setdefault(into, []).append(merge)
    if node.guard is not None:
        seen.add(node.guard.id)
