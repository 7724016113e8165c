"""What addresses are multiples of, so that hardly an access needs a look at its address while it runs.

Most addresses are a pointer from the kernel's parameters plus an index times the size of an element. Whether such an access is
misaligned is decided by the parameter alone, before the kernel starts. So the analysis gives each value two things: a power
of two, and the places in the kernel's parameters that must be multiples of it for the value to be one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cuttle.lower.passes.graph import Graph, Node, Phi, SsaAddress, SsaOperand, SsaVector, ValueRef
from cuttle.ptx.ir import TYPE_BITS, Immediate, Symbol

MOST_ZEROS = 5
"""Nothing is aligned to more than 32 bytes."""

MOST_PLACES = 8
"""A sum of more parameters counts as unknown."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """The value is a multiple of 2**zeros if the kernel's parameters at the byte offsets `places` are; the same holds for
    every smaller power."""

    zeros: int
    places: frozenset[int] = frozenset()


UNKNOWN = Alignment(0)
ZERO = Alignment(MOST_ZEROS)


def of_constant(value: int) -> Alignment:
    low = value & -value
    return ZERO if not low else Alignment(min(low.bit_length() - 1, MOST_ZEROS))


def both(a: Alignment, b: Alignment) -> Alignment:
    """Of a sum, a choice, a bit of either."""
    places = a.places | b.places
    zeros = min(a.zeros, b.zeros)
    return Alignment(zeros, places) if zeros and len(places) <= MOST_PLACES else UNKNOWN


def proved(a: Alignment) -> int:
    """Zeros that hold whatever the parameters are."""
    return 0 if a.places else a.zeros


def product(a: Alignment, b: Alignment) -> Alignment:
    return Alignment(min(proved(a) + proved(b), MOST_ZEROS))


class AlignmentAnalysis:
    """An optimistic fixed point: values start as multiples of everything and lose what a definition does not keep."""

    def __init__(self, graph: Graph, symbol: Callable[[Symbol], int], *, is_entry: bool) -> None:
        self.graph = graph
        self.symbol = symbol
        self.is_entry = is_entry
        self.parameters = {parameter.name: parameter.offset for parameter in graph.function.parameters}
        self.known: list[Alignment | None] = [None] * len(graph.values)

    def run(self) -> None:
        for value in self.graph.values:
            if value.undefined:
                self.known[value.id] = ZERO
        changed = True
        while changed:
            changed = False
            for block in self.graph.blocks:
                for phi in block.phis:
                    changed |= self.update(phi.result, self.phi(phi))
                for node in block.nodes:
                    changed |= self.visit(node)

    def update(self, value: int, new: Alignment | None) -> bool:
        """Only ever downwards, so that the fixed point is reached."""
        old = self.known[value]
        if new is None or old == UNKNOWN:
            return False
        joined = new if old is None else both(old, new)
        self.known[value] = joined
        return joined != old

    def phi(self, phi: Phi) -> Alignment | None:
        result: Alignment | None = None
        for value in phi.incoming.values():
            incoming = self.known[value]
            if incoming is not None:
                result = incoming if result is None else both(result, incoming)
        return result

    def address(self, address: SsaAddress) -> Alignment:
        """Of a memory operand, when `run` is over."""
        base = ZERO if address.base is None else self.operand(address.base) or UNKNOWN
        return both(base, of_constant(address.offset))

    def operand(self, operand: SsaOperand) -> Alignment | None:
        """None: not reached yet."""
        if isinstance(operand, ValueRef):
            return self.known[operand.id]
        if isinstance(operand, Immediate):
            return UNKNOWN if operand.float_bits else of_constant(operand.bits)
        if isinstance(operand, Symbol):
            return both(Alignment(min(self.symbol(operand), MOST_ZEROS)), of_constant(operand.offset))
        if isinstance(operand, SsaVector):
            return self.operand(operand.elements[0])  # `mov` packs: the first element is the low part
        return UNKNOWN

    def visit(self, node: Node) -> bool:
        if not any(result is not None for result in node.results):
            return False
        if node.opcode == "ld" and self.is_entry and "param" in node.instruction.modifiers:
            return self.visit_parameter(node)
        changed = False
        alignment = self.first_result(node)
        for index, result in enumerate(node.results):
            if result is None:
                continue
            found = alignment if index == 0 else UNKNOWN
            merge = node.merges[index] if index < len(node.merges) else None
            if node.guard is not None and merge is not None and found is not None:
                kept = self.known[merge]
                found = found if kept is None else both(found, kept)
            changed |= self.update(result, found)
        return changed

    def visit_parameter(self, node: Node) -> bool:
        """Loads of the kernel's parameters: the places that everything else is traced back to."""
        address = node.operands[0]
        changed = False
        size = TYPE_BITS.get(node.instruction.type, 0) // 8
        for index, result in enumerate(node.results):
            if result is None:
                continue
            found = UNKNOWN
            if isinstance(address, SsaAddress) and isinstance(address.base, Symbol) and node.guard is None:
                at = self.parameters.get(address.base.name)
                if at is not None and size in (4, 8):
                    place = at + address.base.offset + address.offset + index * size
                    found = Alignment(MOST_ZEROS, frozenset((place,)))
            changed |= self.update(result, found)
        return changed

    def first_result(self, node: Node) -> Alignment | None:
        rule = RULES.get(node.opcode)
        instruction = node.instruction
        if (
            rule is None
            or instruction.type.startswith(("f", "bf", "e", "tf"))
            or instruction.has("hi")
            or instruction.has("sat")
        ):
            return UNKNOWN
        if node.opcode == "cvt" and any(kind not in INTEGER_TYPES for kind in instruction.types):
            return UNKNOWN
        sources: list[Alignment] = []
        for operand in node.operands[: rule[0]]:
            known = self.operand(operand)
            if known is None:
                return None
            sources.append(known)
        if len(sources) < rule[0]:
            return UNKNOWN
        if node.opcode == "shl":
            amount = node.operands[1]
            return Alignment(
                min(proved(sources[0]) + (amount.bits if isinstance(amount, Immediate) else 0), MOST_ZEROS)
            )
        return rule[1](sources)


INTEGER_TYPES = frozenset(f"{kind}{bits}" for kind in "usb" for bits in (16, 32, 64))


def _same(sources: list[Alignment]) -> Alignment:
    return sources[0]


def _both(sources: list[Alignment]) -> Alignment:
    return both(sources[0], sources[1])


def _product(sources: list[Alignment]) -> Alignment:
    return product(sources[0], sources[1])


def _and(sources: list[Alignment]) -> Alignment:
    a, b = sources
    if proved(a) or proved(b):
        return Alignment(max(proved(a), proved(b)))
    return a if a.zeros > b.zeros else b


def _mad(sources: list[Alignment]) -> Alignment:
    return both(product(sources[0], sources[1]), sources[2])


# Opcode → number of sources that count, and what follows from them for the (first) result.
RULES: dict[str, tuple[int, Callable[[list[Alignment]], Alignment]]] = {
    "mov": (1, _same), "cvta": (1, _same), "cvt": (1, _same), "neg": (1, _same), "mapa": (1, _same),
    "add": (2, _both), "sub": (2, _both), "or": (2, _both), "xor": (2, _both), "min": (2, _both), "max": (2, _both),
    "selp": (2, _both), "and": (2, _and), "mul": (2, _product), "mad": (3, _mad), "shl": (2, _same), "shfl": (1, _same),
}  # fmt: skip
