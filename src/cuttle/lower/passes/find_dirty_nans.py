"""Values that may hold a NaN other than NVIDIA's canonical one, because making it canonical has been put off.

NVIDIA's f32 units answer every NaN as 0x7fffffff. Arithmetic treats all NaNs alike, so a result's NaN need not be made
canonical until something looks at its bits: a store, an integer instruction, a shuffle. Long chains of arithmetic (the sums
of a matrix product) then pay nothing. `carries_on` says which instructions neither look nor care.
"""

from __future__ import annotations

from cuttle.lower.passes.graph import Graph, Node, Phi

# Instructions whose f32 results are left as the CPU gives them.
LAZY = frozenset(("add", "sub", "mul", "mad", "fma", "min", "max"))
# Instructions to whose f32 operands any NaN is the same.
INDIFFERENT = LAZY | {"div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "setp", "set"}


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
    """Ids of the values that must be made canonical before their bits are looked at."""
    dirty: set[int] = set()
    users: dict[int, list[Phi | Node]] = {}
    for block in graph.blocks:
        for phi in block.phis:
            for value in phi.incoming.values():
                users.setdefault(value, []).append(phi)
        for node in block.nodes:
            for merge in node.merges:
                if merge is not None:
                    users.setdefault(merge, []).append(node)
            if is_lazy(node):
                dirty.update(result for result in node.results if result is not None)
    pending = list(dirty)
    while pending:
        for user in users.get(pending.pop(), ()):
            if isinstance(user, Phi):
                results = [user.result]
            else:
                results = [result for result in user.results if result is not None]
            for result in results:
                if result not in dirty:
                    dirty.add(result)
                    pending.append(result)
    return dirty
