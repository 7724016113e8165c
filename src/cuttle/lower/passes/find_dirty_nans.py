"""Values that may hold a NaN other than NVIDIA's canonical one, because making it canonical has been put off.

NVIDIA's f32 units answer every NaN as 0x7fffffff. Arithmetic treats all NaNs alike, so a result's NaN need not be made
canonical until something looks at its bits: a store, an integer instruction, a shuffle. Long chains of arithmetic (the sums
of a matrix product) then pay nothing. `carries_on` says which instructions neither look nor care.
"""

from __future__ import annotations

from cuttle.lower.passes.graph import Graph, Node
from cuttle.ptx.ir import Immediate

# Instructions whose f32 results are left as the CPU gives them.
LAZY = frozenset(("add", "sub", "mul", "mad", "fma", "min", "max", "div", "rcp", "sqrt", "rsqrt"))
# Instructions to whose f32 operands any NaN is the same.
INDIFFERENT = LAZY | {"sin", "cos", "lg2", "ex2", "tanh", "setp", "set"}

# Instructions whose f32 results are numbers or the canonical NaN.
ARITHMETIC = LAZY | {"sin", "cos", "lg2", "ex2", "tanh"}


def carries_on(node: Node) -> bool:
    """Whether the node's operands may hold any NaN."""
    instruction = node.instruction
    if node.opcode == "cvt":
        to_type, from_type = instruction.types[0], instruction.types[-1]
        return len(instruction.types) == 2 and from_type == "f32" and to_type[0] in "us"
    return node.opcode in INDIFFERENT and instruction.type == "f32" and not instruction.has("xorsign")


def is_lazy(node: Node) -> bool:
    """Whether the node's result is left uncanonical."""
    instruction = node.instruction
    return (
        node.opcode in LAZY
        and instruction.types == ("f32",)
        and not instruction.has("sat")
        and not instruction.has("xorsign")
    )


def find_dirty_nans(graph: Graph) -> set[int]:
    """Ids of the values that are lazy: they must be made canonical before their bits are looked at.

    A phi (or a guarded result) is lazy only if nothing that comes into it is a bit pattern of the program's own, such as a
    loaded NaN, which must be kept; elsewhere lazy values are made canonical on their way into it. A lazy instruction whose
    result is not among these ids has to give the canonical NaN at once.
    """
    own_bits = find_own_bits(graph)
    dirty: set[int] = set()
    users: dict[int, list[int]] = {}
    for block in graph.blocks:
        for phi in block.phis:
            if phi.result not in own_bits:
                for value in phi.incoming.values():
                    users.setdefault(value, []).append(phi.result)
        for node in block.nodes:
            for index, result in enumerate(node.results):
                if result is None or result in own_bits:
                    continue
                merge = node.merges[index] if index < len(node.merges) else None
                if merge is not None:
                    users.setdefault(merge, []).append(result)
                if is_lazy(node):
                    dirty.add(result)
    pending = list(dirty)
    while pending:
        for result in users.get(pending.pop(), ()):
            if result not in dirty:
                dirty.add(result)
                pending.append(result)
    return dirty


def find_own_bits(graph: Graph) -> set[int]:
    """Ids of the values that may be a NaN with a pattern of the program's own: not the result of f32 arithmetic."""
    own: set[int] = set()
    users: dict[int, list[int]] = {}
    for block in graph.blocks:
        for phi in block.phis:
            for value in phi.incoming.values():
                users.setdefault(value, []).append(phi.result)
        for node in block.nodes:
            arithmetic = is_arithmetic(node)
            for index, result in enumerate(node.results):
                if result is None:
                    continue
                merge = node.merges[index] if index < len(node.merges) else None
                if merge is not None:
                    users.setdefault(merge, []).append(result)
                if not arithmetic:
                    own.add(result)
    pending = list(own)
    while pending:
        for result in users.get(pending.pop(), ()):
            if result not in own:
                own.add(result)
                pending.append(result)
    return own


def is_arithmetic(node: Node) -> bool:
    """Whether the node's result is a number or the canonical NaN."""
    if node.opcode == "mov":
        source = node.operands[0] if len(node.operands) == 1 else None
        return isinstance(source, Immediate) and source.bits & 0x7FFFFFFF <= 0x7F800000
    if node.opcode == "cvt":
        return node.instruction.types[0] == "f32" and node.instruction.types[-1][0] in "us"
    return is_lazy(node) or node.opcode in ARITHMETIC and node.instruction.types == ("f32",)
