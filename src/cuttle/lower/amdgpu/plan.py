"""What is decided about a function before its text is written: layout, address spaces, control-flow mode, crossing values."""

from __future__ import annotations

from dataclasses import dataclass, field

from cuttle.lower.amdgpu.find_parting import lanes_part
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.lower.cpu.layout import MemoryLayout
from cuttle.lower.passes.dominance import reverse_post_order
from cuttle.lower.passes.find_dirty_nans import find_dirty_nans
from cuttle.lower.passes.graph import Graph, Node, ValueRef, terminator_value
from cuttle.lower.passes.infer_spaces import infer_spaces
from cuttle.lower.passes.liveness import find_liveness, members
from cuttle.lower.passes.loops import find_loops
from cuttle.lower.passes.order_blocks import order_blocks
from cuttle.lower.passes.split_at_barriers import split_at_barriers
from cuttle.lower.passes.warp_operations import find_gates, split_at_warp_operations
from cuttle.ptx.ir import Immediate, Module, Symbol

# LDS words of our own, behind the static variables: one for `bar.red`, then arrivals and generation of 16 barriers.
REDUCTION_BYTES = 4
BARRIERS = 16
SOFTWARE_BARRIER_BYTES = 8 * BARRIERS
STACK_ALIGN = 16
STACK_OPCODES = ("alloca", "stacksave", "stackrestore")


def is_barrier(node: Node) -> bool:
    return node.opcode in ("bar", "barrier")


def uses_stack(graph: Graph) -> bool:
    return any(node.opcode in STACK_OPCODES for block in graph.blocks for node in block.nodes)


def needs_software_barriers(graph: Graph) -> bool:
    """Whether a barrier has another number than 0, a count, or waits for nobody: no wave32 target has these."""
    for block in graph.blocks:
        for node in block.nodes:
            if not is_barrier(node):
                continue
            number = node.operands[0]
            operands = len(node.operands) - (1 if node.instruction.has("red") else 0)
            if (
                operands > 1
                or node.instruction.has("arrive")
                or not (isinstance(number, Immediate) and number.bits == 0)
            ):
                return True
    return False


@dataclass(slots=True)
class FunctionPlan:
    """All decisions about one graph.

    `layout.shared` holds LDS offsets, `layout.local` offsets in this function's own scratch array of `local_bytes`. `formals` are the
    offsets of a real function's parameters and results in `formal_bytes` of its caller's scratch. `reduction_at` and `barriers_at` are LDS
    offsets of our own words (-1: not used). `scan`: written as a scan, because lanes may part for long; `gates` are the `.sync` operations its blocks begin with.
    `stack_at`: where in the scratch array the word stands that says how far `alloca` has come; its memory is behind it (-1: no `alloca`).
    """

    module: Module
    graph: Graph
    options: AmdgpuOptions
    is_entry: bool
    layout: MemoryLayout
    local_bytes: int
    function_handles: dict[str, int]
    formals: dict[str, int]
    formal_bytes: int = 0
    reduction_at: int = -1
    barriers_at: int = -1
    stack_at: int = -1
    scan: bool = field(init=False)
    gates: dict[int, Node] = field(init=False, default_factory=dict)
    order: list[int] = field(init=False)
    spaces: list[str] = field(init=False)
    places: dict[int, tuple[str, int]] = field(init=False)
    dirty_nans: set[int] = field(init=False)
    used: set[int] = field(init=False)
    crossing: set[int] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.graph
        if uses_stack(graph):
            self.stack_at = -(-self.local_bytes // STACK_ALIGN) * STACK_ALIGN
            self.local_bytes = self.stack_at + STACK_ALIGN + self.options.stack_bytes
        successors = [block.successors for block in graph.blocks]
        forest = find_loops(successors)
        self.scan = lanes_part(graph, forest, self.options, is_entry=self.is_entry)
        if self.scan:
            split_at_barriers(graph)
            split_at_warp_operations(graph)
            self.gates = find_gates(graph)
            successors = [block.successors for block in graph.blocks]
            self.order = order_blocks(successors, find_loops(successors))
        else:
            self.order = reverse_post_order(successors)
        self.spaces = infer_spaces(graph, self.symbol_space, is_entry=self.is_entry)
        self.places = self.find_places()
        self.dirty_nans = find_dirty_nans(graph) if self.options.exact_nan else set()
        self.find_used()
        liveness = find_liveness(graph)
        self.crossing = {phi.result for block in graph.blocks for phi in block.phis}
        for block in graph.blocks:
            self.crossing.update(members(liveness.live_in[block.index]))

    def find_used(self) -> None:
        self.used = {value for block in self.graph.blocks for phi in block.phis for value in phi.incoming.values()}
        for block in self.graph.blocks:
            for node in block.nodes:
                self.used.update(node.used_values())
            value = terminator_value(block.terminator)
            if value is not None:
                self.used.add(value)

    def symbol_space(self, name: str) -> str:
        """`shared`, `local`, `param`, `global` or `const`; empty for functions and unknown names."""
        if name in self.layout.local:
            return "local"
        if name in self.formals or any(p.name == name for p in self.graph.function.parameters):
            return "param"
        name = self.module.aliases.get(name, name)
        if name in self.layout.shared:
            return "shared"
        variable = self.module.variables.get(name)
        return variable.space if variable is not None and variable.space in ("global", "const") else ""

    def find_places(self) -> dict[int, tuple[str, int]]:
        """Values that are the address of a local variable plus a constant, in its window or generic: name and bytes."""
        places: dict[int, tuple[str, int]] = {}
        for index in self.order:
            for node in self.graph.blocks[index].nodes:
                if node.guard is not None or len(node.results) != 1 or node.results[0] is None:
                    continue
                place = self.place_of(node, places)
                if place is not None:
                    places[node.results[0]] = place
        return places

    def place_of(self, node: Node, places: dict[int, tuple[str, int]]) -> tuple[str, int] | None:
        first = node.operands[0] if node.operands else None
        known: tuple[str, int] | None = None
        if isinstance(first, Symbol) and self.symbol_space(first.name) == "local":
            known = first.name, first.offset
        elif isinstance(first, ValueRef):
            known = places.get(first.id)
        if known is None:
            return None
        if node.opcode == "mov" and len(node.operands) == 1:
            return known
        if node.opcode == "cvta" and any(modifier.startswith("local") for modifier in node.instruction.modifiers):
            return known
        if node.opcode == "add" and isinstance(node.operands[1], Immediate) and node.instruction.type[1:] == "64":
            bits = node.operands[1].bits
            return known[0], known[1] + (bits - (1 << 64) if bits >> 63 else bits)
        return None
