"""All warps of a block in lockstep: one piece of straight code for the whole block where its warps go the same way.

Next to the regions (`region.py`), which run warp after warp from barrier to barrier, a kernel may get a function

    i32 @lockstep(ptr block)

that executes each instruction for all warps of the block before the next one. Barriers then cost nothing and values stay in
registers across them; what is the same in all warps (`find_block_uniform.py`) is computed once: in a matrix product a row of
B is loaded once for the whole tile. The warps' numbers are constants, so many predicates are known here:

* a predicate that is the same in all warps is a real branch;
* where each warp's lanes are known at compile time (`tid < 16`), the blocks up to the join are written for these lanes, one
  after the other (the warps that are not there cost nothing);
* any other branch needs all lanes of all warps to agree. If they do not, the block starts again warp by warp, in the
  regions; so nothing that has an effect may come before such a branch.

Kernels that do not fit (`worthwhile_warps`, `check_gain`) keep their regions alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cuttle.abi.kernel_abi import STEP_DONE
from cuttle.lower.cpu.memory import Lanes
from cuttle.lower.cpu.nodes import NodeWriter
from cuttle.lower.cpu.plan import KernelPlan
from cuttle.lower.cpu.region import RegionEmitter
from cuttle.lower.cpu.shaped import Shaped, operand_value
from cuttle.lower.emit import Value
from cuttle.lower.ops import dispatch
from cuttle.lower.passes.dominance import post_dominators
from cuttle.lower.passes.find_block_uniform import BlockUniform
from cuttle.lower.passes.graph import Branch, Exit, Jump, Node, SsaAddress, Switch
from cuttle.lower.passes.infer_shapes import flatten
from cuttle.lower.passes.shape import LANES

MOST_WARPS = 8
MOST_NODES = 2400  # nodes times warps: bounds what LLVM has to compile
MOST_REGISTERS = 26  # of 64 bytes, for vectors that live from one block into another
MOST_PASSING = 48  # the same within a block, where LLVM may go on warp by warp
EVERYONE = (1 << LANES) - 1
FETCH_AHEAD = 8192  # bytes; from 4 to 16 KiB it makes little difference
ALWAYS = False  # tests: whether it pays or not


class NotInLockstep(Exception):
    """This kernel cannot be written in lockstep, or would not gain."""


class WarpsPart(Exception):
    """At the branch of block `block` warps are known to go different ways."""

    def __init__(self, block: int) -> None:
        self.block = block


@dataclass(slots=True)
class WarpState:
    """What is known of one warp's values while code is written."""

    number: int
    local: dict[int, Shaped] = field(default_factory=dict)
    clean: dict[int, Shaped] = field(default_factory=dict)
    constants: dict[int, Shaped] = field(default_factory=dict)


def write_lockstep(plan: KernelPlan) -> RegionEmitter | None:
    """The region of `@lockstep`, or None for kernels that do not fit."""
    warps = worthwhile_warps(plan)
    if warps < 2:
        return None
    counts = replace(plan.counts)
    parting: set[int] = set()
    try:
        while True:
            region = RegionEmitter(plan, [None])
            try:
                LockstepWriter(region, warps, parting).write()
                return region
            except WarpsPart as branch:
                parting.add(branch.block)
    except NotInLockstep:
        return None
    finally:
        # The same accesses as in the regions: the report counts them once.
        plan.counts.plain, plan.counts.gathers = counts.plain, counts.gathers
        plan.counts.scatters, plan.counts.scalar = counts.scatters, counts.scalar


def worthwhile_warps(plan: KernelPlan) -> int:
    """Warps of the block if lockstep is possible as far as can be said beforehand and promises something, else 0."""
    options, graph = plan.options, plan.graph
    threads = options.block_threads
    if not plan.has_full or threads is None or options.partial_warps or not options.affine:
        return 0
    if options.optimization < 2 and not ALWAYS:
        return 0
    if plan.spin_loops or plan.gates or plan.forest.irreducible:
        return 0
    warps = threads // LANES
    nodes = [node for block in graph.blocks for node in block.nodes]
    if warps > MOST_WARPS or len(nodes) * warps > MOST_NODES or any(node.opcode == "call" for node in nodes):
        return 0
    if any(isinstance(block.terminator, Switch) for block in graph.blocks):
        return 0
    return warps


class LockstepWriter:
    """Writes the function's body into the region's emitter."""

    def __init__(self, region: RegionEmitter, warps: int, parting: set[int]) -> None:
        self.region = region
        self.emitter = region.emitter
        self.plan = region.plan
        self.graph = region.plan.graph
        self.nodes = NodeWriter(region)
        self.warps = [WarpState(number) for number in range(warps)]
        self.uniform = BlockUniform(self.graph, self.plan.options, set(self.plan.layout.local), parting)
        self.joins = post_dominators([block.successors for block in self.graph.blocks]).idom
        self.touched = self.find_touched()
        self.reached = {0}
        self.retries = False
        self.in_loop = False
        region.shared_values = self.uniform.values
        region.keeps_constants = True

    # -- whether it pays ---------------------------------------------------------------------------------------------

    def check_gain(self) -> None:
        """Lockstep pays if it saves barriers, or loads in loops; not if values would be pushed out of registers."""
        in_loops = [block for block in self.graph.blocks if self.plan.forest.chain(block.index)]
        shared_load = any(
            node.opcode == "ld" and self.uniform.holds(node) and self.vector_bytes(node.results)
            for block in in_loops
            for node in block.nodes
        )
        if not self.plan.stops and not shared_load:
            raise NotInLockstep
        for block in self.graph.blocks:
            live = self.plan.liveness
            passing = (live.live_after(block.index, index) for index in range(len(block.nodes)))
            if self.registers(live.live_in[block.index]) > MOST_REGISTERS or any(
                self.registers(point) > MOST_PASSING for point in passing
            ):
                raise NotInLockstep

    def vector_bytes(self, values: Sequence[int | None]) -> int:
        """Bytes of the values that are vectors (predicates have registers of their own)."""
        found = (v for v in values if v is not None and self.plan.shape(v).is_vector)
        return sum(LANES * bits // 8 for v in found if (bits := self.graph.values[v].bits) > 1)

    def registers(self, live: int) -> int:
        """Vector registers that the live values take."""
        total = 0
        value = 0
        while live:
            step = (live & -live).bit_length() - 1
            live >>= step + 1
            value += step
            total += self.vector_bytes([value]) * (1 if value in self.uniform.values else len(self.warps))
            value += 1
        return total // 64

    def find_touched(self) -> set[int]:
        """Blocks at whose end something with an effect may have happened."""
        touched = {block.index for block in self.graph.blocks if any(map(self.has_effect, block.nodes))}
        pending = list(touched)
        while pending:
            for successor in self.graph.blocks[pending.pop()].successors:
                if successor not in touched:
                    touched.add(successor)
                    pending.append(successor)
        return touched

    def has_effect(self, node: Node) -> bool:
        if self.plan.is_stop(node):
            return False
        if node.opcode in ("trap", "brkpt", "call"):
            return True
        row, _ = dispatch.find(node.instruction.opcode)
        return row.effects not in ("pure", "read")

    # -- warps -------------------------------------------------------------------------------------------------------

    def take(self, warp: WarpState) -> None:
        """Turns the region to a warp; `leave` keeps what it learnt."""
        region = self.region
        region.local, region.clean, region.constants = warp.local, warp.clean, warp.constants
        region.warp = Value("i32", str(warp.number), 1, warp.number)
        region.copy = f".w{warp.number}"

    def leave(self, warp: WarpState) -> None:
        warp.local, warp.clean = self.region.local, self.region.clean

    def forget(self) -> None:
        for warp in self.warps:
            warp.local, warp.clean = {}, {}

    def execute(self, node: Node, lanes: Sequence[int]) -> None:
        """The node for each warp with its lanes (bits)."""
        everyone = all(bits == EVERYONE for bits in lanes)
        if everyone and self.uniform.holds(node):
            first = self.warps[0]
            self.execute_one(first, node, EVERYONE)
            for result in node.results:
                if result is None:
                    continue
                for warp in self.warps[1:]:
                    warp.clean.pop(result, None)
                    warp.local[result] = first.local[result]
                    if result in first.constants:
                        warp.constants[result] = first.constants[result]
            return
        for warp, bits in zip(self.warps, lanes, strict=True):
            if bits:
                self.execute_one(warp, node, bits)

    def execute_one(self, warp: WarpState, node: Node, bits: int) -> None:
        self.take(warp)
        self.nodes.current = self.known_lanes(bits)
        self.fetch_ahead(node)
        self.nodes.execute(node, blend=False)
        self.leave(warp)

    def fetch_ahead(self, node: Node) -> None:
        """Asks for what a block some blocks later will load, where a warp's elements are neighbours outside loops.

        Grids mostly go through memory block after block; caches see that too late where each block makes a few accesses.
        A prefetch changes nothing, whatever the address.
        """
        if node.opcode != "ld" or "global" not in node.instruction.modifiers or self.in_loop:
            return
        value = node.results[0] if len(node.results) == 1 else None
        address = node.operands[0]
        if value is None or not self.plan.shape(value).is_vector or not isinstance(address, SsaAddress):
            return
        size = self.graph.values[value].bits // 8
        resolved = self.region.machine.resolve("global", address)
        shaped = resolved.shaped
        if shaped.vector is not None or len(shaped.bases) != 1:
            return
        if any(offset != shaped.offsets[0] + lane * size for lane, offset in enumerate(shaped.offsets)):
            return
        e = self.emitter
        memory = self.region.machine.memory
        e.declare("@llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for line in range(0, LANES * size, 64):
            pointer = memory.pointer(resolved, shaped.bases[0], shaped.offsets[0] + FETCH_AHEAD + line)
            e.line(f"call void @llvm.prefetch.p0({pointer.typed}, i32 0, i32 3, i32 1)")

    def known_lanes(self, bits: int) -> Lanes:
        if bits == EVERYONE:
            return Lanes()
        e = self.emitter
        vector = e.vector_constant("i1", [bits >> lane & 1 for lane in range(LANES)])
        return Lanes(e.const("i32", bits), vector)

    def known_bits(self, shaped: Shaped) -> int | None:
        """The lanes for which a predicate holds, if that is known here."""
        if shaped.vector is not None:
            elements = shaped.vector.elements
            return None if elements is None else sum(bit << lane for lane, bit in enumerate(elements))
        constant = shaped.bases[0].constant
        return None if constant is None or len(shaped.bases) > 1 else EVERYONE * constant

    def pass_values(self, source: int, target: int, lanes: Sequence[int]) -> None:
        """What the phis of `target` get from `source`, in the lanes given for each warp."""
        e, region = self.emitter, self.region
        stores: list[tuple[str, Value]] = []
        for warp, bits in zip(self.warps, lanes, strict=True):
            if not bits:
                continue
            self.take(warp)
            active = self.known_lanes(bits)
            for phi in self.graph.blocks[target].phis:
                value = phi.incoming[source]
                shared = phi.result in self.uniform.values
                if self.graph.values[value].undefined or (shared and warp.number):
                    continue
                shaped = region.conform(self.nodes.incoming(value, phi.result), self.plan.shape(phi.result))
                slots = region.parts(phi.result)
                elements: tuple[Value, ...] = shaped.bases
                if shaped.vector is not None:
                    vector = shaped.vector
                    if active.vector is not None:
                        old = e.emit(vector.type, LANES, f"load {vector.llvm_type}, ptr {slots[0][0]}, align 64")
                        vector = e.select(active.vector, vector, old)
                    elements = (vector,)
                stores.extend((name, element) for (name, _, _), element in zip(slots, elements, strict=True))
            self.leave(warp)
        for name, element in stores:
            e.line(f"store {element.typed}, ptr {name}, align 64")

    # -- blocks ------------------------------------------------------------------------------------------------------

    def write(self) -> None:
        if not ALWAYS:
            self.check_gain()
        everyone = [EVERYONE] * len(self.warps)
        for block in self.plan.order:
            if block not in self.reached:
                continue
            self.region.label(f"G{block}")
            self.in_loop = bool(self.plan.forest.chain(block))
            self.forget()
            for node in self.graph.blocks[block].nodes:
                if self.plan.is_stop(node):
                    self.pass_barrier(node)
                else:
                    self.execute(node, everyone)
            self.leave_block(block)
        if self.retries:
            self.region.label("retry")
            again = self.emitter.emit("i32", 1, f"call i32 @region0(ptr %block, i32 0, i32 {len(self.warps)}, i32 0)")
            self.emitter.line(f"ret {again.typed}")

    def pass_barrier(self, node: Node) -> None:
        """All warps are here: nothing to do, if it is a barrier of the whole block."""
        machine = self.region.machine
        if node.guard is not None or node.results:
            raise NotInLockstep
        self.take(self.warps[0])
        machine.instruction, machine.lanes = node.instruction, Lanes()
        slots = dispatch.signature(node.instruction)
        values = [self.nodes.argument(o, self.nodes.slot_type(slots, i)) for i, o in enumerate(flatten(node.operands))]
        dispatch.apply(machine, node.instruction, values, self.nodes.widths(node, slots), slots)
        kind, barrier, threads, _ = machine.take_barrier_request()
        self.leave(self.warps[0])
        whole = threads is None or threads.constant == self.plan.options.block_threads
        if kind != "sync" or not whole or barrier.constant is None:
            raise NotInLockstep

    def leave_block(self, block: int) -> None:
        terminator = self.graph.blocks[block].terminator
        if isinstance(terminator, Exit):
            if terminator.kind == "trap":
                raise NotInLockstep
            self.finish()
        elif isinstance(terminator, Jump):
            self.go(block, terminator.target)
        else:
            assert isinstance(terminator, Branch)
            self.leave_branch(block, terminator)

    def finish(self) -> None:
        self.emitter.line(f"ret i32 {STEP_DONE - (1 << 32)}")

    def go(self, source: int, target: int) -> None:
        self.pass_values(source, target, [EVERYONE] * len(self.warps))
        self.reached.add(target)
        if self.plan.position[target] <= self.plan.position[source] and target not in self.reached:
            raise NotInLockstep
        self.emitter.line(f"br label %G{target}")

    def predicates(self, branch: Branch) -> list[Shaped]:
        found = []
        for warp in self.warps:
            self.take(warp)
            found.append(self.region.read(branch.predicate.id))
            self.leave(warp)
        return found

    def leave_branch(self, block: int, branch: Branch) -> None:
        e = self.emitter
        taken, otherwise = branch.taken, branch.otherwise
        if branch.negated:
            taken, otherwise = otherwise, taken
        shaped = self.predicates(branch)
        known = [self.known_bits(each) for each in shaped]
        if all(bits == EVERYONE for bits in known) or all(bits == 0 for bits in known):
            self.go(block, taken if known[0] else otherwise)
        elif None not in known:
            self.write_known_ways(block)
        elif branch.predicate.id in self.uniform.values and shaped[0].is_uniform:
            self.two_ways(block, shaped[0].bases[0], taken, otherwise)
        elif block in self.touched:
            raise NotInLockstep
        else:
            self.retries = True
            words = [e.emit("i32", 1, f"bitcast {e.splat(operand_value(e, s), LANES).typed} to i32") for s in shaped]
            both, either = words[0], words[0]
            for word in words[1:]:
                both, either = e.and_(both, word), e.or_(either, word)
            every = e.icmp("eq", both, e.const("i32", -1))
            alike = self.region.fresh_label("alike")
            agreed = e.or_(every, e.icmp("eq", either, e.const("i32", 0)))
            e.line(f"br {agreed.typed}, label %{alike}, label %retry")
            self.region.label(alike)
            self.two_ways(block, every, taken, otherwise)

    def two_ways(self, block: int, condition: Value, taken: int, otherwise: int) -> None:
        first, second = self.region.fresh_label("taken"), self.region.fresh_label("otherwise")
        self.emitter.line(f"br {condition.typed}, label %{first}, label %{second}")
        known = [(dict(warp.local), dict(warp.clean)) for warp in self.warps]
        self.region.label(first)
        self.go(block, taken)
        for warp, (local, clean) in zip(self.warps, known, strict=True):
            warp.local, warp.clean = local, clean
        self.region.label(second)
        self.go(block, otherwise)

    # -- lanes known at compile time ---------------------------------------------------------------------------------

    def between(self, block: int, join: int) -> list[int]:
        """The blocks on the ways from a branch to its join, in order; none may be in a loop of their own."""
        position = self.plan.position
        found: set[int] = set()
        pending = [(block, target) for target in self.graph.blocks[block].successors]
        while pending:
            source, target = pending.pop()
            if target == join:
                continue
            if position[target] <= position[source]:
                raise NotInLockstep
            if target not in found:
                found.add(target)
                pending.extend((target, successor) for successor in self.graph.blocks[target].successors)
        return sorted(found, key=lambda index: position[index])

    def write_known_ways(self, block: int) -> None:
        """The blocks up to the join, each for the lanes that come there."""
        count = len(self.graph.blocks)
        join = self.joins[block]
        inside = self.between(block, join)
        met = [*inside, join] if 0 <= join < count else inside
        if any(phi.result in self.uniform.values for index in met for phi in self.graph.blocks[index].phis):
            raise WarpsPart(block)
        waiting = {index: [0] * len(self.warps) for index in [*inside, join]}
        self.leave_known(block, [EVERYONE] * len(self.warps), waiting)
        for index in inside:
            lanes = waiting[index]
            if not any(lanes):
                continue
            for node in self.graph.blocks[index].nodes:
                if self.plan.is_stop(node):
                    raise NotInLockstep
                self.execute(node, lanes)
            self.leave_known(index, lanes, waiting)
        if not 0 <= join < count:
            self.finish()
            return
        if self.plan.position[join] <= self.plan.position[block]:
            raise NotInLockstep
        self.reached.add(join)
        self.emitter.line(f"br label %G{join}")

    def leave_known(self, block: int, lanes: list[int], waiting: dict[int, list[int]]) -> None:
        """Sends the lanes on to where they go from a block."""
        terminator = self.graph.blocks[block].terminator
        ways: list[tuple[int, list[int]]] = []
        if isinstance(terminator, Jump):
            ways.append((terminator.target, lanes))
        elif isinstance(terminator, Branch):
            known = [
                self.known_bits(shaped) if bits else 0
                for shaped, bits in zip(self.predicates(terminator), lanes, strict=True)
            ]
            chosen = [EVERYONE if bits is None else bits for bits in known]
            if None in known:
                raise NotInLockstep
            if terminator.negated:
                chosen = [bits ^ EVERYONE for bits in chosen]
            ways.append((terminator.taken, [a & b for a, b in zip(lanes, chosen, strict=True)]))
            ways.append((terminator.otherwise, [a & ~b for a, b in zip(lanes, chosen, strict=True)]))
        elif not isinstance(terminator, Exit) or terminator.kind == "trap":
            raise NotInLockstep
        for target, going in ways:
            self.pass_values(block, target, going)
            waiting[target] = [a | b for a, b in zip(waiting[target], going, strict=True)]
