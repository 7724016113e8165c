"""Values that are cheaper to compute again behind a barrier than to keep for each warp.

`%tid`, `%ctaid`, kernel parameters and short chains of integer arithmetic on them give the same at any time; as scalars they
cost a few instructions, most of which LLVM hoists out of the loop over warps. The rest of what lives across a barrier goes
through the warp's frame.
"""

from __future__ import annotations

from cuttle.lower.passes.graph import Graph, Node, SsaAddress
from cuttle.lower.passes.shape import Shape
from cuttle.ptx.ir import SpecialRegister, Symbol

CHEAP = frozenset(("mov", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "cvt", "cvta", "neg"))
CHANGING = ("%clock", "%globaltimer", "%pm", "%smid", "%warpid")
LONGEST = 12


class Recomputable:
    """Answers for the values of one graph, given their shapes."""

    def __init__(self, graph: Graph, shapes: list[Shape]) -> None:
        self.graph = graph
        self.shapes = shapes
        self.known: dict[int, tuple[int, ...] | None] = {}

    def chain(self, value: int) -> tuple[int, ...] | None:
        """The values to compute, operands before users, the value itself last; None if it cannot be done again."""
        if value not in self.known:
            self.known[value] = None  # for cycles, which have none
            self.known[value] = self._find(value)
        return self.known[value]

    def node(self, value: int) -> Node:
        definition = self.graph.values[value].definition
        assert isinstance(definition, Node)
        return definition

    def _find(self, value: int) -> tuple[int, ...] | None:
        info = self.graph.values[value]
        node = info.definition
        if not isinstance(node, Node) or self.shapes[value].is_vector or info.bits not in (32, 64):
            return None
        if node.guard is not None or len(node.results) != 1 or not self._is_timeless(node):
            return None
        if any(isinstance(o, SpecialRegister) and o.name.startswith(CHANGING) for o in node.operands):
            return None
        chain: dict[int, None] = {}
        for used in node.used_values():
            below = self.chain(used)
            if below is None:
                return None
            chain.update(dict.fromkeys(below))
        chain[value] = None
        return tuple(chain) if len(chain) <= LONGEST else None

    def _is_timeless(self, node: Node) -> bool:
        if node.opcode == "ld":
            address = node.operands[0]
            by_name = isinstance(address, SsaAddress) and isinstance(address.base, Symbol)
            return by_name and node.instruction.has("param")
        floating = any(name.startswith(("f", "bf")) for name in node.instruction.types)
        return node.opcode in CHEAP and not node.instruction.has("cc") and not (floating and node.opcode != "mov")
