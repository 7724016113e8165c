"""Which state space a generic address must lie in.

Each value gets one of: `integer` (no generic address can have come from it), a space (`global`, `shared`, `local`: if it is a generic address,
then one of that space), or `generic` (could be any). Optimistic fixed point over the graph; `None` is "not reached yet".

The host cannot know addresses of a thread's shared or local memory, so an address among kernel parameters is one of global
memory; loaded from memory, it may be anything. A sum of addresses of two spaces is `generic`, of one space that space: an
address minus an address may have been added.
"""

from __future__ import annotations

from collections.abc import Callable

from cuttle.lower.passes.graph import (
    Graph,
    Node,
    SsaAddress,
    SsaOperand,
    SsaVector,
    ValueRef,
)
from cuttle.ptx.ir import Immediate, SpecialRegister, Symbol

INTEGER, GLOBAL, SHARED, LOCAL, GENERIC = "integer", "global", "shared", "local", "generic"
# Sums and choices: the operands' spaces go on to the result.
_CARRIES = frozenset(("add", "addc", "sub", "subc", "mov", "selp", "slct", "and", "or", "xor", "min", "max", "cvt"))
# A product is no address, a shifted address neither; only an addend can be one.
_PRODUCTS = frozenset(("mad", "madc", "fma"))
_NO_ADDRESS = frozenset("mul shl shr mul24 setp popc clz bfind neg not div rem sad abs".split())

SymbolSpace = Callable[[str], str]


def join(first: str | None, second: str | None) -> str | None:
    """The space of a value that may be either, or the sum of both."""
    if first is None or first == second:
        return second
    if second is None:
        return first
    if first == INTEGER:
        return second
    if second == INTEGER:
        return first
    return GENERIC


def infer_spaces(graph: Graph, symbol_space: SymbolSpace, *, is_entry: bool) -> list[str]:
    """The space of each value of the graph (by id). `symbol_space` gives that of a name (`""` if it is none of memory)."""
    spaces: list[str | None] = [None] * len(graph.values)
    for info in graph.values:
        if info.undefined or info.bits < 64:
            spaces[info.id] = INTEGER
    changed = True
    while changed:
        changed = False
        for block in graph.blocks:
            for phi in block.phis:
                found: str | None = None
                for value in phi.incoming.values():
                    found = join(found, spaces[value])
                changed |= _note(spaces, graph, phi.result, found)
            for node in block.nodes:
                if not any(result is not None and graph.values[result].bits >= 64 for result in node.results):
                    continue
                result_space = _result(node, spaces, symbol_space, is_entry)
                for index, result in enumerate(node.results):
                    if result is not None:
                        merge = node.merges[index] if index < len(node.merges) else None
                        merged = join(result_space, spaces[merge]) if merge is not None else result_space
                        changed |= _note(spaces, graph, result, merged)
    return [space or GENERIC for space in spaces]


def _note(spaces: list[str | None], graph: Graph, value: int, space: str | None) -> bool:
    if graph.values[value].bits < 64:
        space = INTEGER
    before = spaces[value]
    after = join(before, space)
    spaces[value] = after
    return after != before


def _operand(operand: SsaOperand, spaces: list[str | None], symbol_space: SymbolSpace) -> str | None:
    if isinstance(operand, ValueRef):
        return spaces[operand.id]
    if isinstance(operand, Immediate | SpecialRegister):
        return INTEGER
    if isinstance(operand, Symbol):
        # The address of a shared or local variable is an offset in its window until `cvta` makes it generic.
        return GLOBAL if symbol_space(operand.name) in ("global", "const") else INTEGER
    if isinstance(operand, SsaVector):
        return GENERIC  # put together from halves
    return GENERIC


def _result(node: Node, spaces: list[str | None], symbol_space: SymbolSpace, is_entry: bool) -> str | None:
    instruction = node.instruction
    opcode = node.opcode
    if opcode == "cvta":
        space = next((name for name in ("shared", "local", "const", "global", "param") if name in
                      {modifier.partition("::")[0] for modifier in instruction.modifiers}), "")  # fmt: skip
        if instruction.has("to"):
            return _operand(node.operands[0], spaces, symbol_space) if space in ("global", "const") else INTEGER
        return {"shared": SHARED, "local": LOCAL, "global": GLOBAL, "const": GLOBAL}.get(space, GENERIC)
    if opcode == "ld":
        address = node.operands[0]
        param = "param" in {modifier.partition("::")[0] for modifier in instruction.modifiers}
        of_kernel = isinstance(address, SsaAddress) and isinstance(address.base, Symbol)
        return GLOBAL if param and is_entry and of_kernel else GENERIC
    if opcode in _NO_ADDRESS:
        return INTEGER
    if opcode in _PRODUCTS:
        return _operand(node.operands[2], spaces, symbol_space)
    if opcode in _CARRIES:
        found: str | None = None
        for operand in node.operands:
            found = join(found, _operand(operand, spaces, symbol_space))
            if found is None:
                return None
        return found
    return GENERIC
