"""Values that are the same in all warps of a block, lane by lane, when its warps run in lockstep.

`%ctaid`, parameters, `%tid.x` of a block 16 wide, everything computed from such values, and what is loaded from an
address of this kind: between two warps' weak loads of one instruction nothing is stored. A phi is one of them if what comes
into it is and all warps come the same way, as they do in lockstep but for branches where they are known to part.
"""

from __future__ import annotations

from collections.abc import Iterable

from cuttle.lower.cpu.options import CompileOptions
from cuttle.lower.cpu.special import thread_index
from cuttle.lower.ops import dispatch
from cuttle.lower.passes.dominance import post_dominators
from cuttle.lower.passes.graph import Graph, Node, SsaAddress
from cuttle.lower.passes.infer_shapes import flatten
from cuttle.ptx.ir import SpecialRegister, Symbol

AXES = {"%tid.x": 0, "%tid.y": 1, "%tid.z": 2}
# The same in all warps; of the others nothing is known.
SAME = ("%ctaid", "%nctaid", "%ntid", "%laneid", "%lanemask", "%gridid", "%dynamic_smem", "%total_smem", "WARP_SZ")
STRONG = frozenset(("volatile", "relaxed", "acquire", "mmio"))
# Give each thread an address of its own memory.
OWN_MEMORY = frozenset(("alloca", "stacksave"))


class BlockUniform:
    """`values`: the ids. `local`: names of variables that each thread has for itself. `parting`: blocks at whose
    branches warps go different ways."""

    def __init__(self, graph: Graph, options: CompileOptions, local: set[str], parting: Iterable[int]) -> None:
        self.graph = graph
        self.options = options
        self.local = local
        self.values = {
            result
            for block in graph.blocks
            for node in block.nodes
            if self.may_hold(node)
            for result in node.results
            if result is not None
        }
        post = post_dominators([block.successors for block in graph.blocks]).idom
        apart = set().union(*(self._reached_apart(block, post[block]) for block in parting))
        self.values.update(phi.result for block in graph.blocks if block.index not in apart for phi in block.phis)
        self._narrow()

    def holds(self, node: Node) -> bool:
        """Whether executing the node once serves all warps."""
        results = [result for result in node.results if result is not None]
        return bool(results) and all(result in self.values for result in results)

    def may_hold(self, node: Node) -> bool:
        """Whether the node gives the same for the same operands, and its own operands allow it."""
        if node.opcode in ("call", "bar", "barrier", "activemask", "trap", "brkpt") or node.opcode in OWN_MEMORY:
            return False
        if node.instruction.has("local"):
            return False
        row, _ = dispatch.find(node.instruction.opcode)
        if row.effects == "read":
            if node.opcode not in ("ld", "ldu") or any(node.instruction.has(name) for name in STRONG):
                return False
        elif row.effects != "pure":
            return False
        return all(self.same_operand(operand) for operand in flatten(node.operands))

    def same_operand(self, operand: object) -> bool:
        """False for operands other than values that differ between warps."""
        if isinstance(operand, SpecialRegister):
            axis = AXES.get(operand.name)
            if axis is not None:
                return thread_index(self.options, axis)[1] == "zero"
            return operand.name.startswith(SAME)
        if isinstance(operand, SsaAddress):
            return not isinstance(operand.base, Symbol) or operand.base.name not in self.local
        if isinstance(operand, Symbol):
            return operand.name not in self.local
        return True

    def _narrow(self) -> None:
        """Takes away what depends on other values, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for block in self.graph.blocks:
                for phi in block.phis:
                    if phi.result in self.values and not all(map(self._has, phi.incoming.values())):
                        self.values.discard(phi.result)
                        changed = True
                for node in block.nodes:
                    if self.holds(node) and not self._operands_hold(node):
                        self.values.difference_update(result for result in node.results if result is not None)
                        changed = True

    def _has(self, value: int) -> bool:
        return value in self.values or self.graph.values[value].undefined

    def _operands_hold(self, node: Node) -> bool:
        guard = [] if node.guard is None else [node.guard.id]
        merges = [merge for merge in node.merges if merge is not None]
        return all(self._has(value) for value in (*node.used_values(), *guard, *merges))

    def _reached_apart(self, block: int, join: int) -> set[int]:
        """Blocks from a branch up to and including its join."""
        found: set[int] = set()
        pending = list(self.graph.blocks[block].successors)
        while pending:
            index = pending.pop()
            if index not in found:
                found.add(index)
                pending.extend(self.graph.blocks[index].successors if index != join else ())
        return found
