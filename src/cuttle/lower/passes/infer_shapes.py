"""Shape analysis: a `Shape` for every SSA value, and the divergent branches that follow from the shapes.

An optimistic fixed point: everything starts unknown, shapes only ever lose precision, and each branch whose predicate turns
out to differ between lanes makes the phis it influences vectors (`infer_divergence`). Bounds are widened after a few rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cuttle.lower.passes import shape as shapes
from cuttle.lower.passes.affine_rules import AFFINE, narrow_bounds, needs_wrap_check, rule_operands
from cuttle.lower.passes.dominance import post_dominators
from cuttle.lower.passes.find_address_only import find_address_only
from cuttle.lower.passes.graph import (
    Graph,
    Node,
    Phi,
    SsaAddress,
    SsaNegated,
    SsaOperand,
    SsaSelected,
    SsaTexture,
    SsaVector,
    ValueRef,
    terminator_value,
)
from cuttle.lower.passes.infer_divergence import Influence, influence_of
from cuttle.lower.passes.loops import LoopForest
from cuttle.lower.passes.shape import UNIFORM, VECTOR, Shape
from cuttle.ptx.ir import Immediate, SpecialRegister, Symbol

WIDEN_AFTER = 4

# Special registers that are another number whenever they are read.
CLOCKS = ("%clock", "%globaltimer", "%pm")
# Opcodes whose result is the same for all lanes whatever their operands are.
UNIFORM_RESULT = frozenset({"activemask"})
# Each lane has a result of its own, whatever the operands: it depends on other lanes, or on their order at one word.
LANE_RESULT = frozenset({
    "shfl", "match", "elect.sync", "call", "atom", "multimem.ld_reduce", "tex", "tld4", "suld", "ldmatrix", "movmatrix",
    "mma", "mma.sp", "mma.sp::ordered_metadata", "wmma.load", "wmma.mma", "wmma.store",
    "alloca", "stacksave", "mbarrier.arrive", "mbarrier.arrive_drop", "mbarrier.test_wait", "mbarrier.try_wait",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Facts:
    """What the analysis must know of the target: shapes of special registers and symbols, lanes a segment, the
    distance of two lanes' local memory in bytes (0 if unknown), and whether parameters are a kernel's (one for all) or a
    device function's (in each lane's local memory)."""

    special: Callable[[str], Shape]
    symbol: Callable[[Symbol], Shape]
    segment: int
    local_stride: int
    is_entry: bool = True


@dataclass(slots=True)
class ShapeResult:
    """`shapes[id]`; `influences` of the divergent branches by block; `divergent_joins`: blocks whose phis blend."""

    shapes: list[Shape]
    influences: dict[int, Influence]
    divergent_joins: set[int]


def flatten(operands: tuple[SsaOperand, ...]) -> list[SsaOperand]:
    """Operands with brace lists and texture operands opened, in the order of the op's signature."""
    result: list[SsaOperand] = []
    for operand in operands:
        if isinstance(operand, SsaVector):
            result.extend(flatten(operand.elements))
        elif isinstance(operand, SsaTexture):
            result.append(operand.texture)
            if operand.sampler is not None:
                result.append(operand.sampler)
            result.extend(operand.coordinates.elements)
        else:
            result.append(operand)
    return result


class ShapeAnalysis:
    """The fixed point over one graph."""

    def __init__(self, graph: Graph, forest: LoopForest, facts: Facts, *, enabled: bool, timeless: bool) -> None:
        self.timeless = timeless
        self.graph = graph
        self.facts = facts
        self.enabled = enabled
        self.known: list[Shape | None] = [None] * len(graph.values)
        self.influences: dict[int, Influence] = {}
        self.divergent_joins: set[int] = set()
        self.rounds: dict[int, int] = {}
        self.loop_exits: dict[int, set[int]] = {}
        for block in range(len(graph.blocks)):
            exits = {outside for loop in forest.chain(block) for _, outside in loop.exits}
            if exits:
                self.loop_exits[block] = exits
        self.irreducible = {block for loop in forest.irreducible for block in loop.blocks}
        successors = [block.successors for block in graph.blocks]
        self.post_dominators = post_dominators(successors)
        self.address_only = find_address_only(graph) if enabled else set()

    def run(self) -> ShapeResult:
        graph = self.graph
        for value in graph.values:
            if value.undefined:
                self.known[value.id] = UNIFORM
            elif not self.enabled or value.block in self.irreducible:
                self.known[value.id] = VECTOR
        changed = True
        while changed:
            changed = False
            for block in graph.blocks:
                for phi in block.phis:
                    changed |= self.update(phi.result, self.phi_shape(block.index, phi))
                for node in block.nodes:
                    changed |= self.visit(node)
                changed |= self.visit_terminator(block.index)
        final = [shape if shape is not None else VECTOR for shape in self.known]
        return ShapeResult(final, self.influences, self.divergent_joins)

    def update(self, value: int, new: Shape) -> bool:
        old = self.known[value]
        if old is None:
            self.known[value] = self.fit(value, new)
            return True
        if old.is_vector or old == new:
            return False
        joined = shapes.join(old, self.fit(value, new))
        if joined == old:
            return False
        self.rounds[value] = self.rounds.get(value, 0) + 1
        if self.rounds[value] > WIDEN_AFTER and not joined.is_vector:
            joined = shapes.make(joined.kind, joined.offsets, 0 if self.rounds[value] > 40 else joined.zeros)
            if joined == old:
                return False
        self.known[value] = joined
        return True

    def fit(self, value: int, shape: Shape) -> Shape:
        """Predicates and 128-bit values have no offsets and no segments; bounds are those of a signed number."""
        bits = self.graph.values[value].bits
        if bits in (1, 128) and not shape.is_uniform:
            return VECTOR
        return narrow_bounds(shape, bits)

    def phi_shape(self, block: int, phi: Phi) -> Shape:
        if block in self.divergent_joins or self.timeless:
            return VECTOR
        result: Shape | None = None
        for value in phi.incoming.values():
            incoming = self.known[value]
            if incoming is None or self.graph.values[value].undefined:
                continue
            result = incoming if result is None else shapes.join(result, incoming)
        return result if result is not None else UNIFORM

    def operand(self, operand: SsaOperand) -> Shape | None:
        if isinstance(operand, ValueRef):
            return self.known[operand.id]
        if isinstance(operand, Immediate):
            value = operand.bits
            if operand.float_bits:
                return UNIFORM
            return shapes.constant(value - (1 << 64) if value >> 63 else value)
        if isinstance(operand, SsaNegated | SsaSelected):
            return self.known[operand.ref.id]
        if isinstance(operand, SpecialRegister):
            return self.facts.special(operand.name)
        if isinstance(operand, Symbol):
            return self.facts.symbol(operand)
        if isinstance(operand, SsaAddress):
            return self.address(operand)
        return UNIFORM

    def address(self, operand: SsaAddress) -> Shape | None:
        if operand.base is None:
            return UNIFORM
        base = self.operand(operand.base)
        if base is None or base.is_vector:
            return base
        bounds = (
            None if base.low is None or base.high is None else (base.low + operand.offset, base.high + operand.offset)
        )
        return shapes.make(base.kind, base.offsets, min(base.zeros, shapes.trailing_zeros(operand.offset)), bounds)

    def visit(self, node: Node) -> bool:
        if not any(result is not None for result in node.results):
            return False
        sources: list[Shape] = []
        for operand in flatten(node.operands):
            known = self.operand(operand)
            if known is None:
                return False
            sources.append(known)
        guard: Shape | None = None
        if node.guard is not None:
            guard = self.known[node.guard.id]
            if guard is None:
                return False
        changed = False
        for index, result in enumerate(node.results):
            if result is None:
                continue
            new = self.result_shape(node, index, sources)
            if guard is not None and index < len(node.merges):
                merge = node.merges[index]
                if merge is not None:
                    old = self.known[merge]
                    if old is None:
                        continue
                    new = shapes.join(new, old) if guard.is_uniform else VECTOR
            changed |= self.update(result, new)
        return changed

    def result_shape(self, node: Node, index: int, sources: list[Shape]) -> Shape:
        opcode = node.opcode
        instruction = node.instruction
        if self.timeless and opcode in (*UNIFORM_RESULT, "vote", "redux.sync", "bar", "barrier"):
            # Other lanes execute it another time, with another result, while these lanes still use theirs.
            return VECTOR
        if self.timeless and any(isinstance(o, SpecialRegister) and o.name.startswith(CLOCKS) for o in node.operands):
            return VECTOR
        if opcode in UNIFORM_RESULT:
            return UNIFORM
        if opcode in ("vote", "redux.sync"):
            # The same for all lanes of the member mask; tiles of a warp may come with a mask each.
            return UNIFORM if len(sources) == 1 or sources[-1].is_uniform else VECTOR
        if opcode == "barrier" or opcode == "bar":
            return UNIFORM
        if opcode in LANE_RESULT:
            return VECTOR
        if opcode in ("ld", "ldu"):
            return self.load_shape(node, sources[0])
        if opcode == "cvta":
            return self.convert_address_shape(node, sources[0])
        rule = AFFINE.get(opcode)
        if rule is not None and index == 0 and len(node.results) == 1 and not instruction.has("sat"):
            types = instruction.types
            if (
                not any(name.startswith(("f", "bf")) or name.endswith(("x2", "x4")) for name in types)
                or opcode == "mov"
            ):
                ranged = rule(rule_operands(instruction, sources, self.facts.segment))
                if ranged is not None:
                    if self.may_wrap(node, sources):
                        return VECTOR
                    return ranged
        if all(source.is_uniform for source in sources):
            return UNIFORM
        if instruction.type in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2") or opcode not in AFFINE:
            return VECTOR
        if all(source.flat for source in sources) and len(node.results) == 1:
            return Shape("segmented")
        return VECTOR

    def may_wrap(self, node: Node, sources: list[Shape]) -> bool:
        """Whether a source is extended by sign whose lanes may have wrapped, and the result is not just an address.

        An address may keep its shape: a lane that wrapped would access memory gigabytes away, and a check at run time
        makes that a fault (docs/design/cpu_simt.md, section 2).
        """
        if node.results[0] in self.address_only:
            return False
        return any(needs_wrap_check(node.instruction, sources, index) for index in range(len(sources)))

    def convert_address_shape(self, node: Node, source: Shape) -> Shape:
        if source.is_vector:
            return VECTOR
        if node.instruction.has("local"):
            if not self.facts.local_stride:
                return VECTOR
            sign = -1 if node.instruction.has("to") else 1
            offsets = tuple(c + sign * lane * self.facts.local_stride for lane, c in enumerate(source.offsets))
            return shapes.make(source.kind, offsets)
        return shapes.make(source.kind, source.offsets)

    def load_shape(self, node: Node, address: Shape) -> Shape:
        instruction = node.instruction
        if (
            "volatile" in instruction.modifiers
            or "acquire" in instruction.modifiers
            or "relaxed" in instruction.modifiers
        ):
            return VECTOR
        if instruction.has("local") or (self.timeless and not instruction.has("param")):
            return VECTOR
        if instruction.has("param") and not self.facts.is_entry:
            return VECTOR
        if address.is_uniform:
            return UNIFORM
        if address.kind == "segmented" and len(node.results) == 1:
            if shapes.segment_constant(address.offsets, self.facts.segment):
                return Shape("segmented")
        if address.kind == "uniform" and self.facts.segment < shapes.LANES and len(node.results) == 1:
            if shapes.segment_constant(address.offsets, self.facts.segment):
                return Shape("segmented")
        return VECTOR

    def visit_terminator(self, block: int) -> bool:
        if block in self.influences:
            return False
        value = terminator_value(self.graph.blocks[block].terminator)
        if value is None:
            return False
        shape = self.known[value]
        if shape is None or shape.is_uniform:
            return False
        post = self.post_dominators.idom[block]
        post_block = post if 0 <= post < len(self.graph.blocks) else None
        influence = influence_of(self.graph, block, post_block, self.loop_exits)
        self.influences[block] = influence
        self.divergent_joins |= influence.joins
        for join in influence.joins:
            for phi in self.graph.blocks[join].phis:
                self.known[phi.result] = VECTOR
        return True


def infer_shapes(
    graph: Graph, forest: LoopForest, facts: Facts, *, enabled: bool = True, timeless: bool = False
) -> ShapeResult:
    """Shapes and divergence of a graph; with `enabled` false every value is a vector.

    `timeless`: lanes may execute a block at different times (spin loops), so only what never changes keeps a shape.
    """
    return ShapeAnalysis(graph, forest, facts, enabled=enabled, timeless=timeless).run()
