"""Loops that wait for somebody else: they need yields, and lanes that leave them must be able to go ahead.

A loop spins if it reads memory that others may write while it runs: by a volatile, relaxed or acquire load, by an atomic, or
by a plain load of one and the same place with a fence or a pause in the loop; and if

* the predicate of one of its exits depends on what it read, within the loop, or
* no exit counts: what was read may then decide by way of branches (`if (flag) done = true`) or of local memory (code for
  debuggers keeps every variable there).

A compare-and-swap that expects what was last read there (the usual retry loop around `atomicCAS`) makes progress by itself and
does not count. One that expects something else, always the same or made of what was read (a lock without its owner's bit), waits.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuttle.lower.passes.graph import (
    Graph,
    Node,
    Phi,
    SsaAddress,
    SsaOperand,
    ValueRef,
    operand_values,
    terminator_value,
)
from cuttle.lower.passes.loops import Loop, LoopForest

STRONG = frozenset(("volatile", "relaxed", "acquire", "cv", "acq_rel", "mmio"))
PAUSES = ("fence", "membar", "nanosleep")
OWN_SPACES = ("local", "param", "const")


def find_spin_loops(graph: Graph, forest: LoopForest) -> set[int]:
    """Indices (in `forest.loops`) of the innermost loops that spin."""
    used = {value for block in graph.blocks for phi in block.phis for value in phi.incoming.values()}
    used.update(value for block in graph.blocks for node in block.nodes for value in node.used_values())
    used.update(value for block in graph.blocks if (value := terminator_value(block.terminator)) is not None)
    return {loop.index for loop in forest.loops if LoopReads(graph, forest, loop).spins(used)}


@dataclass(slots=True)
class LoopReads:
    """What one loop reads, and what its exits depend on."""

    graph: Graph
    forest: LoopForest
    loop: Loop

    def spins(self, used: set[int]) -> bool:
        nodes = self.own_nodes()
        pauses = any(node.opcode in PAUSES for node in nodes)
        if self.exit_waits(pauses=pauses):
            return True
        if self.counts():
            return False
        return any(
            used.intersection(r for r in node.results if r is not None) and self.waits_on(node, pauses=pauses)
            for node in nodes
        )

    def own_nodes(self) -> list[Node]:
        """Nodes of the loop that are in none of its inner loops."""
        return [
            node
            for block in self.loop.blocks
            if self.forest.innermost[block] == self.loop.index
            for node in self.graph.blocks[block].nodes
        ]

    def exit_values(self) -> list[int]:
        """The predicates of the exits."""
        values = (terminator_value(self.graph.blocks[inside].terminator) for inside, _ in self.loop.exits)
        return [value for value in values if value is not None]

    def exit_waits(self, *, pauses: bool) -> bool:
        """Whether an exit depends on what was read, within the loop."""
        pending = self.exit_values()
        seen: set[int] = set()
        while pending:
            value = pending.pop()
            info = self.graph.values[value]
            if value in seen or info.block not in self.loop.blocks or info.definition is None:
                continue
            seen.add(value)
            if isinstance(info.definition, Phi):
                pending.extend(info.definition.incoming.values())
                continue
            if self.waits_on(info.definition, pauses=pauses):
                return True
            pending.extend(info.definition.used_values())
        return False

    def waits_on(self, node: Node, *, pauses: bool) -> bool:
        """Whether the node reads what others may change and is not a retrying compare-and-swap."""
        if node.opcode in ("mbarrier.try_wait", "mbarrier.test_wait"):
            return True
        if node.opcode == "ld":
            if STRONG & set(node.instruction.modifiers):
                return True
            own = any(node.instruction.has(space) for space in OWN_SPACES)
            return (
                pauses and not own and not any(self.varies(value, set()) for value in operand_values(node.operands[0]))
            )
        if node.opcode != "atom":
            return False
        if "cas" not in node.instruction.modifiers:
            return True
        expected = list(operand_values(node.operands[1]))
        return not any(self.varies(value, set()) for value in expected) or not all(map(self.is_as_read, expected))

    def is_as_read(self, value: int) -> bool:
        """Whether a value is, in every round but the first, what an instruction has read, unchanged."""
        pending, seen = [value], {value}
        while pending:
            info = self.graph.values[pending.pop()]
            if info.block not in self.loop.blocks or info.definition is None:
                continue
            definition = info.definition
            if isinstance(definition, Phi):
                sources = list(definition.incoming.values())
            elif definition.opcode in ("mov", "cvt"):
                sources = list(definition.used_values())
            elif definition.opcode in ("ld", "atom", "shfl"):
                continue
            else:
                return False
            pending.extend(source for source in sources if source not in seen)
            seen.update(sources)
        return True

    def varies(self, value: int, seen: set[int]) -> bool:
        """Whether a value may change from round to round."""
        info = self.graph.values[value]
        if info.block not in self.loop.blocks or info.definition is None or value in seen:
            return False
        seen.add(value)
        if isinstance(info.definition, Phi):
            return True
        if info.definition.opcode in ("ld", "atom", "shfl"):
            return True
        return any(self.varies(used, seen) for used in info.definition.used_values())

    # -- loops that count ----------------------------------------------------------------------------------------------

    def counts(self) -> bool:
        """Whether an exit compares what goes up or down in steps with what stays."""
        for value in self.exit_values():
            definition = self.graph.values[value].definition
            if not isinstance(definition, Node) or definition.opcode != "setp" or definition.guard is not None:
                continue
            first, second = definition.operands[:2]
            for counter, bound in ((first, second), (second, first)):
                if self.stays(bound) and self.goes_in_steps(counter):
                    return True
        return False

    def stays(self, operand: SsaOperand) -> bool:
        return not isinstance(operand, SsaAddress) and not any(
            self.varies(value, set()) for value in operand_values(operand)
        )

    def goes_in_steps(self, operand: SsaOperand) -> bool:
        """Whether this is a phi of the loop, or a sum with it, that gets such a sum from every round."""
        phi = self.without_steps(operand)
        if phi is None:
            return False
        inside = [value for source, value in phi.incoming.items() if source in self.loop.blocks]
        return all(self.without_steps(ValueRef(value)) is phi and value != phi.result for value in inside)

    def without_steps(self, operand: SsaOperand) -> Phi | None:
        """The phi of the loop's header that the operand is a sum of, with what stays."""
        while isinstance(operand, ValueRef):
            info = self.graph.values[operand.id]
            if info.block not in self.loop.blocks or info.definition is None:
                return None
            definition = info.definition
            if isinstance(definition, Phi):
                return definition if info.block == self.loop.header else None
            if definition.opcode not in ("add", "sub", "shl", "shr") or definition.guard is not None:
                return None
            parts = [part for part in definition.operands if not self.stays(part)]
            if len(parts) != 1:
                return None
            operand = parts[0]
        return None
