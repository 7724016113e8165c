"""What is decided about a kernel before its code is written: order, masked blocks, stops, frames.

Every block has up to two versions. The *full* version (F) runs with all 32 lanes and keeps the program's own branches. The
*masked* version (M) runs with any lanes, in a fixed linear order of blocks in which each block's mask says who waits to
execute it ("scan"): a divergent branch in F enters the scan, and when all lanes meet again, F goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cuttle.lower.cpu.layout import LOCAL_ALIGN, MemoryLayout
from cuttle.lower.cpu.memory import AccessCounts
from cuttle.lower.cpu.options import CompileOptions, Target
from cuttle.lower.cpu.special import special_shape
from cuttle.lower.fault_sites import may_fault
from cuttle.lower.passes import shape as shapes
from cuttle.lower.passes.dominance import post_dominators
from cuttle.lower.passes.find_alignment import AlignmentAnalysis
from cuttle.lower.passes.find_apart_barriers import barrier_blocks, barriers_apart
from cuttle.lower.passes.find_dirty_nans import find_dirty_nans
from cuttle.lower.passes.find_recomputable import Recomputable
from cuttle.lower.passes.find_spin_loops import find_spin_loops
from cuttle.lower.passes.graph import BARRIERS, Branch, Graph, Node, Switch, terminator_value
from cuttle.lower.passes.infer_shapes import Facts, ShapeResult, infer_shapes
from cuttle.lower.passes.liveness import Liveness, find_liveness, members
from cuttle.lower.passes.loops import Loop, LoopForest, find_loops
from cuttle.lower.passes.order_blocks import order_blocks
from cuttle.lower.passes.shape import LANES, UNIFORM, Shape
from cuttle.lower.passes.split_at_barriers import split_at_barriers
from cuttle.lower.passes.warp_operations import find_gates, split_at_warp_operations, warp_barriers_apart
from cuttle.ptx.ir import Module, Symbol

FULL, MASKED = "F", "M"
UNIFIED_FROM = 6000
UNIFIED_FROM_PARTED = 200
PHI_BUDGET = 12_000
GATE_STATE = ("alive", "released")
"""What a warp with gates (see `gates.py`) keeps at its stops: lanes that have not exited; lanes whose wait is over."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A place where a warp leaves the code: behind node `node` of a block, or at the end of spin loop `loop`.

    `version` is the block's version; `identifier` the resume point. With `meets`, all lanes of the warp stand at barriers,
    perhaps different ones (`KernelPlan.meeting_blocks`); `block` and `node` then mean nothing.
    """

    identifier: int
    version: str
    block: int
    node: int
    loop: int = -1
    meets: bool = False


@dataclass(slots=True)
class KernelPlan:
    """All decisions about one graph; see the module docstring.

    `layout_local_bytes` is the distance of two lanes' local memory, `own_local_bytes` what this graph uses of it (callees
    begin there). `formals` are the offsets of a device function's parameters and results in local memory.
    `stack_word` is the place in local memory where a lane notes the end of its stack, -1 without `alloca`.
    `cluster_addresses`: the kernel looks at clusters, so addresses in shared memory carry the block's rank, as on hardware.
    `aligned_places`: offsets in the parameters → what the number there must be a multiple of, as code is written that counts on it.
    """

    module: Module
    graph: Graph
    options: CompileOptions
    target: Target
    is_entry: bool
    layout: MemoryLayout
    layout_local_bytes: int
    function_handles: dict[str, int]
    formals: dict[str, int]
    own_local_bytes: int
    cluster_addresses: bool = False
    stack_word: int = -1
    forest: LoopForest = field(init=False)
    order: list[int] = field(init=False)
    position: dict[int, int] = field(init=False)
    shapes: ShapeResult = field(init=False)
    liveness: Liveness = field(init=False)
    spin_loops: set[int] = field(init=False)
    lanes_part: bool = field(init=False, default=False)
    gates: dict[int, Node] = field(init=False, default_factory=dict)
    masked: set[int] = field(init=False)
    has_full: bool = field(init=False)
    joins: set[int] = field(init=False)
    dirty_nans: set[int] = field(init=False)
    used: set[int] = field(init=False)
    recomputable: Recomputable = field(init=False)
    entered_together: set[int] = field(init=False)
    stops: list[Stop] = field(init=False)
    crossing: set[int] = field(init=False)
    kept_in_memory: set[int] = field(init=False)
    frame: dict[int, int] = field(init=False)
    mask_frame: dict[int, int] = field(init=False)
    gate_frame: dict[str, int] = field(init=False, default_factory=dict)
    frame_bytes: int = 0
    counts: AccessCounts = field(default_factory=AccessCounts)
    lockstep: bool = False
    alignments: AlignmentAnalysis = field(init=False)
    aligned_places: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.graph
        successors = [block.successors for block in graph.blocks]
        self.forest = find_loops(successors)
        self.spin_loops = find_spin_loops(graph, self.forest)
        has_barriers = bool(barrier_blocks(graph))
        warp_barriers = sum(node.opcode == "bar.warp.sync" for block in graph.blocks for node in block.nodes)
        if self.spin_loops or has_barriers or warp_barriers > 1:
            self.infer(timeless=False)
            self.lanes_part = any(self.lanes_leave_apart(loop) for loop in self.spin_loops)
            if not self.lanes_part:
                post = list(post_dominators(successors).idom)
                if has_barriers:
                    apart = barriers_apart(graph, self.shapes.influences, post)
                    self.lanes_part = apart or bool(self.forest.irreducible)
                self.lanes_part = self.lanes_part or warp_barriers_apart(graph, self.shapes.influences, post)
            if self.lanes_part and self.is_entry:
                split_at_barriers(graph)
                split_at_warp_operations(graph)
                self.gates = find_gates(graph)
                successors = [block.successors for block in graph.blocks]
                self.forest = find_loops(successors)
                self.spin_loops = find_spin_loops(graph, self.forest)
        self.order = order_blocks(successors, self.forest)
        self.position = {block: index for index, block in enumerate(self.order)}
        self.infer(timeless=self.lanes_part)
        self.alignments = AlignmentAnalysis(graph, self.symbol_zeros, is_entry=self.is_entry)
        self.alignments.run()
        self.liveness = find_liveness(graph)
        self.has_full = self.is_entry and (self.options.block_threads is None or self.options.block_threads >= LANES)
        self.used = {value for block in graph.blocks for phi in block.phis for value in phi.incoming.values()}
        self.used.update(value for block in graph.blocks for node in block.nodes for value in node.used_values())
        self.used.update(value for block in graph.blocks if (value := terminator_value(block.terminator)) is not None)
        self.recomputable = Recomputable(graph, self.shapes.shapes)
        self.dirty_nans = find_dirty_nans(graph) if self.options.exact_nan else set()
        self.find_masked()
        self.find_entered_together()
        self.find_stops()
        self.find_crossing()
        self.find_kept_in_memory()
        self.lay_out_frame()

    def infer(self, *, timeless: bool) -> None:
        """Shapes; `timeless` if lanes of a warp may be at different places for long."""
        facts = Facts(
            lambda name: special_shape(self.options, name),
            self.symbol_shape,
            self.options.segment,
            self.layout_local_bytes,
            self.is_entry,
        )
        enabled = self.options.affine
        self.shapes = infer_shapes(self.graph, self.forest, facts, enabled=enabled, timeless=timeless)

    def lanes_leave_apart(self, loop: int) -> bool:
        """Whether lanes may leave a spin loop one by one; then those that have left must be able to go ahead."""
        return any(inside in self.shapes.influences for inside, _ in self.forest.loops[loop].exits)

    # -- facts -------------------------------------------------------------------------------------------------------

    def symbol_shape(self, symbol: Symbol) -> Shape:
        name = symbol.name
        if name in self.layout.shared:
            return UNIFORM if self.cluster_addresses else shapes.constant(self.layout.shared[name] + symbol.offset)
        if name in self.layout.local:
            return shapes.constant(self.layout.local[name] + symbol.offset)
        return UNIFORM

    def symbol_zeros(self, symbol: Symbol) -> int:
        """Zeros at the end of a variable's address, without the symbol's offset."""
        name = symbol.name
        if name in self.layout.shared:
            return shapes.trailing_zeros(self.layout.shared[name])
        if name in self.layout.local:
            return min(shapes.trailing_zeros(self.layout.local[name]), LOCAL_ALIGN.bit_length() - 1)
        if name in self.layout.symbols:
            return shapes.trailing_zeros(self.module.variables[name].align)
        for parameter in self.graph.function.parameters:
            if parameter.name == name and self.is_entry:
                return shapes.trailing_zeros(parameter.offset)
        return 0

    def shape(self, value: int) -> Shape:
        return self.shapes.shapes[value]

    @property
    def segments(self) -> int:
        return LANES // self.options.segment

    @property
    def blends(self) -> bool:
        """Whether masked definitions must keep the values of lanes that are elsewhere in time."""
        return self.lanes_part or bool(self.forest.irreducible)

    # -- decisions ---------------------------------------------------------------------------------------------------

    def find_masked(self) -> None:
        count = len(self.graph.blocks)
        influences = self.shapes.influences.values()
        if self.options.partial_warps or not self.has_full or not self.is_entry or self.lanes_part:
            # Lanes that part at a spin loop go on beyond the place where all lanes would meet again.
            self.masked = set(range(count))
        else:
            self.masked = set().union(*(influence.blocks for influence in influences)) if influences else set()
        post = post_dominators([block.successors for block in self.graph.blocks])
        self.joins = {post.idom[block] for block in self.shapes.influences if 0 <= post.idom[block] < count}
        self.joins |= {loop.header for loop in self.forest.loops}
        self.joins |= {self.graph.blocks[block].successors[0] for block in self.meeting_blocks()}

    def find_entered_together(self) -> None:
        """Loop headers whose phis need no blending: lanes enter the loop, and begin each round, all at once.

        Lanes that have left the loop, or were never in it, do not look at these phis (they look at those of exits).
        """
        self.entered_together = set()
        if self.blends:
            return
        for loop in self.forest.loops:
            header = self.graph.blocks[loop.header]
            if not loop.irreducible and len(loop.latches) == 1 and len(header.predecessors) == 2:
                self.entered_together.add(loop.header)

    def is_stop(self, node: Node) -> bool:
        return node.opcode in BARRIERS

    def find_stops(self) -> None:
        self.stops = []
        if not self.is_entry:
            return

        def add(version: str, block: int, node: int, loop: int = -1, *, meets: bool = False) -> None:
            self.stops.append(Stop(len(self.stops) + 1, version, block, node, loop, meets))

        meeting = self.meeting_blocks()
        for block in self.graph.blocks:
            versions = [FULL] if self.has_full else []
            if block.index in self.masked and block.index not in meeting:
                versions.append(MASKED)
            for index, node in enumerate(block.nodes):
                if self.is_stop(node):
                    for version in versions:
                        add(version, block.index, index)
        for number in sorted(self.spin_loops):
            header = self.forest.loops[number].header
            if self.has_full:
                add(FULL, header, -1, number)
            if header in self.masked:
                add(MASKED, header, -1, number)
        if meeting:
            add(MASKED, -1, -1, meets=True)

    def meeting_stop(self) -> Stop:
        """The stop of warps whose lanes all stand at barriers."""
        return next(stop for stop in self.stops if stop.meets)

    def meeting_blocks(self) -> set[int]:
        """Blocks that are a barrier at which lanes wait for the others of their warp, where these may be elsewhere."""
        if not self.lanes_part or not self.is_entry:
            return set()
        return barrier_blocks(self.graph)

    def stop_at(self, version: str, block: int, node: int, loop: int = -1) -> Stop:
        for stop in self.stops:
            if (stop.version, stop.block, stop.node, stop.loop) == (version, block, node, loop) and not stop.meets:
                return stop
        raise KeyError((version, block, node, loop))

    def line_of(self, stop: Stop) -> int:
        """PTX line of the instruction at which a warp waits there: the barrier, or what a waiting loop looks at; 0 where lanes
        stand at different ones."""
        if stop.meets:
            return 0
        if stop.loop < 0:
            return self.graph.blocks[stop.block].nodes[stop.node].instruction.location.line
        inside = [
            node
            for block in self.order
            if block in self.forest.loops[stop.loop].blocks
            for node in self.graph.blocks[block].nodes
        ]
        looks = [node for node in inside if may_fault(node.instruction)]
        return next((node.instruction.location.line for node in [*looks, *inside]), 0)

    def pending_at(self, stop: Stop) -> set[int]:
        """Blocks at which other lanes of the warp may wait while some are at a masked stop."""
        if self.blends:
            return self.masked
        pending = {stop.block}
        for influence in self.shapes.influences.values():
            if stop.block in influence.blocks:
                pending |= influence.blocks | influence.joins
        return pending

    def live_at(self, stop: Stop) -> int:
        """Values (as bits) that must survive a stop."""
        if stop.meets:
            live = 0
        elif stop.loop >= 0:
            live = self.liveness.live_in[stop.block]
        else:
            live = self.liveness.live_after(stop.block, stop.node)
        if stop.version == MASKED:
            for block in self.pending_at(stop) - ({stop.block} if stop.loop < 0 else set()):
                live |= self.liveness.live_in[block]
        return live

    def saved_at(self, stop: Stop) -> list[int]:
        """What goes through the frame at a stop."""
        live = members(self.live_at(stop))
        return [value for value in live if not self.is_entry or self.recomputable.chain(value) is None]

    def recomputed_at(self, stop: Stop) -> list[int]:
        """What is computed again behind a stop, operands first."""
        chains: dict[int, None] = {}
        for value in members(self.live_at(stop)):
            chain = self.recomputable.chain(value)
            if chain is not None:
                chains.update(dict.fromkeys(chain))
        return list(chains)

    def find_crossing(self) -> None:
        """Values that need a place of their own because they live beyond the piece of code that defines them."""
        self.crossing = set()
        for block in self.graph.blocks:
            self.crossing.update(phi.result for phi in block.phis)
            self.crossing.update(members(self.liveness.live_in[block.index]))
        for stop in self.stops:
            self.crossing.update(members(self.live_at(stop)))
        if self.blends:
            for block in self.graph.blocks:
                for node in block.nodes:
                    self.crossing.update(merge for merge in node.merges if merge is not None)

    def find_kept_in_memory(self) -> None:
        """Values that stay in their stack slots, so that compiling a large kernel takes a time in proportion.

        The scan can be entered at nearly every block, so what a masked block reads has, in registers, a phi in every
        block before it, whether its value matters there or not. Past `PHI_BUDGET` phis values get none: those first that
        are not used in loops, of these the longest-living.
        """
        self.kept_in_memory = set()
        phis: dict[int, int] = {}
        depth: dict[int, int] = {}
        for place, index in enumerate(self.order):
            chain = self.forest.chain(index)
            masked = index in self.masked
            end = place
            if masked and chain:
                end = max(place, *(self.position[inside] for inside in chain[-1].blocks))
            for value in members(self.liveness.live_in[index]):
                before = phis.get(value, 0)
                phis[value] = max(before, 2 * (end + 1)) if masked else before + 1
                depth[value] = max(depth.get(value, 0), len(chain))
        total = sum(phis.values())
        for value in sorted(phis, key=lambda value: (depth[value], -phis[value], value)):
            if total <= PHI_BUDGET:
                break
            self.kept_in_memory.add(value)
            total -= phis[value]

    def value_bytes(self, value: int) -> int:
        bits = self.graph.values[value].bits
        shape = self.shape(value)
        if shape.is_vector:
            return 4 if bits == 1 else LANES * bits // 8
        each = max(bits, 8) // 8
        return each * (self.segments if shape.kind == "segmented" else 1)

    def lay_out_frame(self) -> None:
        self.frame, self.mask_frame = {}, {}
        offset = 0
        wanted: set[int] = set()
        for stop in self.stops:
            wanted.update(self.saved_at(stop))
        for value in sorted(wanted, key=lambda value: (-self.value_bytes(value), value)):
            size = self.value_bytes(value)
            align = min(64, size)
            offset = -(-offset // align) * align
            self.frame[value] = offset
            offset += size
        if any(stop.version == MASKED for stop in self.stops):
            offset = -(-offset // 4) * 4
            waiting: set[int] = set()
            for stop in self.stops:
                if stop.version == MASKED:
                    waiting |= self.pending_at(stop)
            for block in sorted(waiting):
                self.mask_frame[block] = offset
                offset += 4
            for name in GATE_STATE if self.gates else ():
                self.gate_frame[name] = offset
                offset += 4
        self.frame_bytes = -(-offset // 64) * 64

    @property
    def unified(self) -> bool:
        """One function with all resume points instead of one for each: for kernels that would grow too large.

        Where lanes part, a resume point leads nearly everywhere: one function each would repeat the whole kernel, masked.
        """
        nodes = sum(len(block.nodes) for block in self.graph.blocks)
        return len(self.stops) * nodes > (UNIFIED_FROM_PARTED if self.lanes_part else UNIFIED_FROM)

    # -- the scan ----------------------------------------------------------------------------------------------------

    def loops_ending_at(self, block: int) -> list[Loop]:
        """Loops whose last block in linear order this is, innermost first."""
        ending = []
        for loop in self.forest.chain(block):
            if max(self.position[inside] for inside in loop.blocks) == self.position[block]:
                ending.append(loop)
        return ending

    def retreat_targets(self, loop: Loop) -> list[int]:
        """Blocks that the loop's own edges lead back to, in linear order.

        Not those of its inner loops: lanes that wait at an inner spin loop are passed by for the sake of lanes behind the
        outer one, and the outer loop's end must not send them back before these had their turn.
        """
        targets = set()
        for inside in loop.blocks:
            for successor in self.graph.blocks[inside].successors:
                if successor in loop.blocks and self.position[successor] <= self.position[inside]:
                    inner = (self.forest.loops[child].blocks for child in loop.children)
                    if not any(inside in blocks and successor in blocks for blocks in inner):
                        targets.add(successor)
        return sorted(targets, key=lambda block: self.position[block])

    def divergent(self, block: int) -> bool:
        """Whether the block's terminator may send lanes different ways."""
        terminator = self.graph.blocks[block].terminator
        if not isinstance(terminator, (Branch, Switch)):
            return False
        value = terminator_value(terminator)
        return value is not None and not self.shape(value).is_uniform
