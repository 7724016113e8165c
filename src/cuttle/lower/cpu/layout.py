"""Where a kernel's variables lie: offsets of shared and local ones, and the module symbols it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cuttle.errors import PtxError
from cuttle.lower.passes.graph import Graph, SsaAddress, SsaOperand, SsaTexture, SsaVector
from cuttle.ptx.ir import TYPE_BITS, Module, Symbol, Variable
from cuttle.ptx.undefined import refuse_undefined

LOCAL_ALIGN = 16
DYNAMIC_ALIGN = 16
MOST_SHARED_BYTES = 227 << 10  # what a block of any GPU up to sm_90 can have; ptxas takes 48 KiB of variables at most
MOST_LOCAL_BYTES = 512 << 10  # of a thread (CUDA programming guide, technical specifications)


@dataclass(slots=True)
class MemoryLayout:
    """All sizes and offsets in bytes.

    `shared`: offsets in the block's shared memory, by name; unsized `extern` arrays (dynamic shared memory) all begin
    at `dynamic_offset`, which is `static_shared_bytes` rounded up to their alignment. `local`: offsets in the thread's
    part of local memory, which has `local_bytes`, a multiple of 16. `symbols`: names of the module's global and const
    variables in the order of first use: their addresses stand in `cuttle_launch.symbols` in that order. `functions`:
    names of functions whose address the kernel takes. `parameters`: names of parameters used by address.
    """

    shared: dict[str, int] = field(default_factory=dict)
    static_shared_bytes: int = 0
    dynamic_offset: int = 0
    uses_dynamic_shared: bool = False
    local: dict[str, int] = field(default_factory=dict)
    local_bytes: int = 0
    local_align: int = LOCAL_ALIGN
    symbols: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    def symbol_index(self, name: str) -> int:
        """Position in `cuttle_launch.symbols`."""
        try:
            return self.symbols.index(name)
        except ValueError:
            # A .param variable outside of a call that would give it a meaning, for instance.
            raise PtxError("PTX-0203", f"`{name}` has no memory here") from None


def lay_out(module: Module, *graphs: Graph) -> MemoryLayout:
    """The layout for a kernel's graph and those of the real functions it may call (kernel first).

    Shared variables of all graphs share one space; local variables of each graph get places of their own, so
    recursive functions must add `local_bytes` per activation themselves (lay them out alone for that).
    """
    result = MemoryLayout()
    dynamic: list[Variable] = []
    local: list[Variable] = []
    shared: list[Variable] = []
    seen: set[str] = set()
    for graph in graphs:
        variables = graph.function.variables
        parameters = {p.name for p in (*graph.function.parameters, *graph.function.results)}
        for name in _used_symbols(graph):
            variable = variables.get(name)
            if variable is None:
                if name in parameters:
                    if name not in result.parameters:
                        result.parameters.append(name)
                    continue
                name = module.aliases.get(name, name)
                variable = module.variables.get(name)
            if name in seen:
                continue
            seen.add(name)
            if variable is None:
                if name in module.functions:
                    result.functions.append(name)
            elif variable.space == "shared":
                unsized = variable.size_bytes == 0
                (dynamic if unsized else shared).append(variable)
            elif variable.space == "local":
                local.append(variable)
            elif variable.space in ("global", "const"):
                refuse_undefined(variable)
                result.symbols.append(name)
    # Largest alignment first: no holes but at the end.
    shared.sort(key=lambda variable: -variable.align)
    local.sort(key=lambda variable: -variable.align)
    result.shared, result.static_shared_bytes = _assign(shared)
    align = max([DYNAMIC_ALIGN, *(variable.align for variable in dynamic)])
    result.dynamic_offset = -(-result.static_shared_bytes // align) * align
    result.uses_dynamic_shared = bool(dynamic)
    for variable in dynamic:
        result.shared[variable.name] = result.dynamic_offset
    result.local, end = _assign(local)
    result.local_align = max([LOCAL_ALIGN, *(variable.align for variable in local)])
    result.local_bytes = -(-end // result.local_align) * result.local_align
    for what, size, most in (
        ("shared variables", result.static_shared_bytes, MOST_SHARED_BYTES),
        ("local variables", result.local_bytes, MOST_LOCAL_BYTES),
    ):
        if size > most:
            raise PtxError("PTX-0301", f"the kernel has {size} bytes of {what}, more than the {most} that a GPU has")
    return result


def _assign(variables: list[Variable]) -> tuple[dict[str, int], int]:
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables:
        align = max(variable.align, 1)
        place = -(-end // align) * align
        offsets[variable.name] = place
        end = place + max(variable.size_bytes, TYPE_BITS.get(variable.type, 8) // 8)
    return offsets, end


def _used_symbols(graph: Graph) -> Iterator[str]:
    for block in graph.blocks:
        for node in block.nodes:
            for operand in node.operands:
                yield from _symbols(operand)
            if node.call is not None:
                for name in (*node.call.buffers, *node.call.result_buffers):
                    if name is not None:
                        yield name


def _symbols(operand: SsaOperand) -> Iterator[str]:
    if isinstance(operand, Symbol):
        yield operand.name
    elif isinstance(operand, SsaAddress):
        if isinstance(operand.base, Symbol):
            yield operand.base.name
    elif isinstance(operand, SsaVector):
        for element in operand.elements:
            yield from _symbols(element)
    elif isinstance(operand, SsaTexture):
        for part in (operand.texture, operand.sampler):
            if isinstance(part, Symbol):
                yield part.name
        yield from _symbols(operand.coordinates)
