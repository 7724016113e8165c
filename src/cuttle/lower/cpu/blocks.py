"""The blocks of a region in their two versions, the edges between them, and the masked scan (see `plan.py`)."""

from __future__ import annotations

from collections.abc import Iterable

from cuttle.lower.cpu.gates import Gates
from cuttle.lower.cpu.memory import Lanes
from cuttle.lower.cpu.nodes import NodeWriter
from cuttle.lower.cpu.plan import FULL, MASKED, KernelPlan, Stop
from cuttle.lower.cpu.region import STOP_NUMBERS, RegionEmitter
from cuttle.lower.cpu.shaped import operand_value
from cuttle.lower.emit import Value
from cuttle.lower.ops import dispatch
from cuttle.lower.ops.check_operands import translating
from cuttle.lower.passes.graph import Branch, Exit, Jump, Node, Switch
from cuttle.lower.passes.infer_shapes import flatten
from cuttle.lower.passes.loops import Loop
from cuttle.lower.passes.shape import LANES

BARRIER_KINDS = {
    "sync": "barrier_sync", "arrive": "barrier_arrive", "red.popc": "barrier_red_popc", "red.and": "barrier_red_and",
    "red.or": "barrier_red_or", "cluster.arrive": "cluster_arrive", "cluster.wait": "cluster_wait",
}  # fmt: skip
ILLEGAL_INSTRUCTION_FAULT = 7


class BlockWriter:
    """Writes all code of one region into its emitter."""

    def __init__(self, region: RegionEmitter) -> None:
        self.region = region
        self.emitter = region.emitter
        self.plan: KernelPlan = region.plan
        self.graph = region.plan.graph
        self.nodes = NodeWriter(region)
        self.gates = Gates(region, self.nodes)
        self.full_blocks: set[int] = set()
        self.scan_blocks: set[int] = set()
        self.scan_index: dict[int, int] = {}
        self.meeting = region.plan.meeting_blocks()

    # -- what is reachable -------------------------------------------------------------------------------------------

    def ends_at(self, block: int, first: int) -> bool:
        """Whether a piece that begins at node `first` of the block stops before the block's end."""
        return any(self.plan.is_stop(node) for node in self.graph.blocks[block].nodes[first:])

    def find_reachable(self) -> None:
        plan = self.plan
        pending: list[tuple[str, int, int]] = []
        for start in self.region.starts:
            pending.extend(self.first_pieces(start))
        seen: set[tuple[str, int, int]] = set()
        while pending:
            piece = pending.pop()
            if piece in seen:
                continue
            seen.add(piece)
            version, block, first = piece
            if first == 0:
                (self.full_blocks if version == FULL else self.scan_blocks).add(block)
            if version == MASKED and plan.has_full and first == 0 and (block in plan.joins or block not in plan.masked):
                pending.append((FULL, block, 0))
            if (version == MASKED and block not in plan.masked) or self.ends_at(block, first):
                continue
            divergent = plan.divergent(block)
            for successor in self.graph.blocks[block].successors:
                if version == FULL:
                    if self.spin_edge(block, successor) is None or divergent:
                        pending.append((FULL, successor, 0))
                    if divergent:
                        pending.append((MASKED, successor, 0))
                else:
                    pending.append((MASKED, successor, 0))

    def first_pieces(self, start: Stop | None) -> list[tuple[str, int, int]]:
        """Pieces (version, block, first node) a start leads to directly."""
        plan = self.plan
        if start is None:
            full = [(FULL, 0, 0)] if plan.has_full else []
            return [*full, *([(MASKED, 0, 0)] if plan.options.partial_warps or not plan.has_full else [])]
        if start.meets:
            return [(MASKED, block, 0) for block in plan.masked]
        first = (start.version, start.block, 0 if start.loop >= 0 else start.node + 1)
        waiting = plan.pending_at(start) if start.version == MASKED else set()
        return [first, *((MASKED, block, 0) for block in waiting)]

    def spin_edge(self, source: int, target: int) -> Loop | None:
        """The spin loop whose back edge this is."""
        for loop in self.plan.forest.chain(source):
            if loop.header == target and loop.index in self.plan.spin_loops:
                return loop
        return None

    # -- everything --------------------------------------------------------------------------------------------------

    def write(self) -> None:
        self.find_reachable()
        self.number_scan()
        starts = self.region.starts
        if len(starts) > 1:
            known = [start for start in starts if start is not None]
            cases = " ".join(f"i32 {start.identifier}, label %resume{start.identifier}" for start in known)
            self.emitter.line(f"switch i32 %resume, label %begin [ {cases} ]")
            self.region.label("begin")
        for start in starts:
            if start is not None and len(starts) > 1:
                self.region.label(f"resume{start.identifier}")
            self.region.forget()
            self.write_start(start)
        for block in self.plan.order:
            if block in self.full_blocks:
                self.write_full(block)
        if self.scan_blocks:
            self.write_scan()

    def write_start(self, start: Stop | None) -> None:
        e, region, plan = self.emitter, self.region, self.plan
        if start is None and plan.stack_word >= 0:
            region.machine.lanes = Lanes() if plan.is_entry else self.lanes_of(Value("i32", "%mask"))
            region.machine.memory.store(
                "i64", region.machine.stack_word(), [e.const("i64", plan.own_local_bytes)], region.machine.lanes, ""
            )
        if start is None and not plan.is_entry:
            region.add_waiting(0, Value("i32", "%mask"))
            e.line(f"br label %{self.scan_label(self.scan_index[0])}")
            return
        if start is None:
            if not plan.options.partial_warps and plan.has_full:
                e.line("br label %F0")
                return
            left = e.sub(region.block_threads(), e.mul(region.warp, e.const("i32", LANES)))
            some = e.sub(e.shl(e.const("i32", 1), e.and_(left, e.const("i32", LANES - 1))), e.const("i32", 1))
            bits = e.select(e.icmp("uge", left, e.const("i32", LANES)), e.const("i32", -1), some)
            partial = region.fresh_label("partial")
            if plan.has_full:
                whole = e.icmp("eq", bits, e.const("i32", -1))
                e.line(f"br {whole.typed}, label %F0, label %{partial}")
                region.label(partial)
            region.add_waiting(0, bits)
            self.gates.begin(bits)
            e.line(f"br label %{self.scan_label(self.scan_index[0])}")
            return
        region.restore(start)
        self.nodes.current = Lanes()
        self.nodes.recomputing = True
        for value in plan.recomputed_at(start):
            self.nodes.execute(plan.recomputable.node(value), blend=False)
        self.nodes.recomputing = False
        if start.meets:
            self.resume_meeting()
            return
        if start.loop >= 0:
            e.line(f"br label %F{start.block}" if start.version == FULL else f"br label %{self.scan_label(0)}")
            return
        if start.version == FULL:
            self.nodes.current = Lanes()
            self.write_resumed(start)
            return
        self.enter_masked(start.block)
        self.write_resumed(start)

    def write_resumed(self, start: Stop) -> None:
        """The rest of the block behind the stop, with the stop's result."""
        region = self.region
        node = self.graph.blocks[start.block].nodes[start.node]
        if any(result is not None for result in node.results):
            slot = region.warp_slot()
            region.machine.barrier_result = region.load_warp(slot, "value")
            region.machine.lanes = self.nodes.current
            self.nodes.apply(node, blend=start.version == MASKED and self.plan.blends, guard=None)
            region.machine.barrier_result = None
        self.write_nodes(start.version, start.block, start.node + 1)

    def resume_meeting(self) -> None:
        """All lanes go on behind the barriers they stood at, each with its barrier's result."""
        region = self.region
        for block in sorted(self.meeting & self.plan.masked):
            node = self.graph.blocks[block].nodes[0]
            if all(result is None for result in node.results):
                continue
            behind = self.graph.blocks[block].successors[0]
            bits = self.emitter.emit("i32", 1, f"load i32, ptr {region.mask_slot(behind)}")
            self.nodes.current = region.machine.lanes = self.lanes_of(bits)
            region.machine.barrier_result = region.load_warp(region.warp_slot(), "value")
            self.nodes.apply(node, blend=True, guard=None)
            region.machine.barrier_result = None
        self.emitter.line(f"br label %{self.scan_label(0)}")

    # -- pieces ------------------------------------------------------------------------------------------------------

    def write_full(self, block: int) -> None:
        self.region.label(f"F{block}")
        self.region.forget()
        self.nodes.current = Lanes()
        self.write_nodes(FULL, block, 0)

    def write_nodes(self, version: str, block: int, first: int) -> None:
        """Nodes from `first` on and the terminator; ends early at a stop."""
        body = self.graph.blocks[block]
        blend = version == MASKED and self.plan.blends
        for index in range(first, len(body.nodes)):
            node = body.nodes[index]
            if self.plan.is_stop(node):
                if not self.plan.is_entry:
                    self.region.machine.instruction = node.instruction
                    self.region.machine.refuse("a barrier in a recursive or indirectly called function")
                self.write_stop(version, block, index, node)
                return
            self.nodes.execute(node, blend=blend)
        if version == FULL:
            self.leave_full(block)
        else:
            self.leave_masked(block)

    def write_stop(self, version: str, block: int, index: int, node: Node) -> None:
        """A barrier: the piece ends here."""
        with translating(node.instruction):
            kind, barrier, threads, value = self.barrier_request(node)
        self.region.stop(self.plan.stop_at(version, block, index), BARRIER_KINDS[kind], barrier, threads, value)

    def barrier_request(self, node: Node) -> tuple[str, Value, Value | None, Value | None]:
        """What a barrier asks for, for the lanes that are here: kind, number, threads, lanes whose predicate holds."""
        machine = self.region.machine
        machine.instruction = node.instruction
        machine.lanes = self.nodes.current
        slots = dispatch.signature(node.instruction)
        operands = flatten(node.operands)
        values = [self.nodes.argument(o, self.nodes.slot_type(slots, i)) for i, o in enumerate(operands)]
        dispatch.apply(machine, node.instruction, values, self.nodes.widths(node, slots), slots)
        kind, barrier, threads, value = machine.take_barrier_request()
        return kind, self.scalar(barrier), self.scalar(threads) if threads is not None else None, value

    def scalar(self, value: Value) -> Value:
        """A barrier operand: the first active lane's."""
        if value.lanes == 1:
            return value
        e = self.emitter
        bits = self.region.current_bits()
        lane = e.intrinsic("llvm.cttz", [bits, e.const("i1", 0)])
        return e.emit(value.type, 1, f"extractelement {value.typed}, {e.and_(lane, e.const('i32', 31)).typed}")

    # -- edges -------------------------------------------------------------------------------------------------------

    def pass_values(self, source: int, target: int, lanes: Lanes) -> None:
        """Stores what the phis of `target` get from `source`, for the given lanes."""
        e, region = self.emitter, self.region
        incoming = []
        for phi in self.graph.blocks[target].phis:
            value = phi.incoming[source]
            incoming.append(
                (phi.result, region.conform(self.nodes.incoming(value, phi.result), self.plan.shape(phi.result)))
            )
        for result, shaped in incoming:
            slots = region.parts(result)
            vector = shaped.vector
            if vector is not None and lanes.vector is not None and target not in self.plan.entered_together:
                old = region.load_slot(result, *slots[0])
                vector = e.select(lanes.vector, vector, old)
            elements = (vector,) if vector is not None else shaped.bases
            for (name, _, _), element in zip(slots, elements, strict=True):
                region.store_slot(result, name, element)

    def go_full(self, source: int, target: int) -> None:
        """The edge when all lanes take it, in the full version."""
        self.pass_values(source, target, Lanes())
        spin = self.spin_edge(source, target)
        if spin is not None:
            self.region.forget()
            stop = self.plan.stop_at(FULL, target, -1, spin.index)
            self.region.stop(stop, "yield", self.emitter.const("i32", 0), None, None)
            return
        self.emitter.line(f"br label %F{target}")

    def lanes_of(self, bits: Value) -> Lanes:
        return Lanes(bits, self.emitter.emit("i1", LANES, f"bitcast {bits.typed} to <{LANES} x i1>"))

    def leave_full(self, block: int) -> None:
        e, region = self.emitter, self.region
        terminator = self.graph.blocks[block].terminator
        if isinstance(terminator, Exit):
            if terminator.kind == "trap":
                self.nodes.any_active_trap(0)
            region.finish_warp()
        elif isinstance(terminator, Jump):
            self.go_full(block, terminator.target)
        elif isinstance(terminator, Branch):
            condition = operand_value(e, region.read(terminator.predicate.id))
            taken, otherwise = terminator.taken, terminator.otherwise
            if terminator.negated:
                taken, otherwise = otherwise, taken
            if condition.lanes == 1:
                self.two_way(block, condition, taken, otherwise)
                return
            bits = e.emit("i32", 1, f"bitcast {condition.typed} to i32")
            mixed, alike = region.fresh_label("mixed"), region.fresh_label("alike")
            none, all_of_them = e.icmp("eq", bits, e.const("i32", 0)), e.icmp("eq", bits, e.const("i32", -1))
            e.line(f"br {e.or_(none, all_of_them).typed}, label %{alike}, label %{mixed}")
            known = region.remember()
            region.label(mixed)
            self.split(block, [(taken, bits), (otherwise, e.not_(bits))])
            region.recall(known)
            region.label(alike)
            self.two_way(block, all_of_them, taken, otherwise)
        else:
            assert isinstance(terminator, Switch)
            self.leave_switch(block, terminator, None)

    def two_way(self, block: int, condition: Value, taken: int, otherwise: int) -> None:
        e, region = self.emitter, self.region
        first, second = region.fresh_label("taken"), region.fresh_label("otherwise")
        e.line(f"br {condition.typed}, label %{first}, label %{second}")
        known = region.remember()
        region.label(first)
        self.go_full(block, taken)
        region.recall(known)
        region.label(second)
        self.go_full(block, otherwise)

    def split(self, block: int, ways: list[tuple[int, Value]]) -> None:
        """Lanes go different ways: they wait at their targets, and the scan begins at the first of these."""
        for target, bits in ways:
            if self.graph.blocks[target].phis:
                self.pass_values(block, target, self.lanes_of(bits))
            self.region.add_waiting(target, bits)
        self.gates.begin(self.emitter.const("i32", -1))
        first = min(self.scan_index[target] for target, _ in ways)
        self.emitter.line(f"br label %{self.scan_label(first)}")

    def leave_switch(self, block: int, terminator: Switch, bits: Value | None) -> None:
        """`brx.idx` in either version (`bits` None: all lanes)."""
        e, region = self.emitter, self.region
        index = operand_value(e, region.read(terminator.index.id))
        if bits is None and index.lanes == 1:
            labels = {target: region.fresh_label("case") for target in dict.fromkeys(terminator.targets)}
            cases = " ".join(
                f"{index.type} {number}, label %{labels[target]}" for number, target in enumerate(terminator.targets)
            )
            e.line(f"switch {index.typed}, label %{labels[terminator.targets[-1]]} [ {cases} ]")
            known = region.remember()
            for target, label in labels.items():
                region.recall(known)
                region.label(label)
                self.go_full(block, target)
            return
        vector = e.splat(index, LANES)
        ways: dict[int, Value] = {}
        for number, target in enumerate(terminator.targets):
            here = e.icmp("eq", vector, e.const(vector.type, number))
            lanes = e.emit("i32", 1, f"bitcast {e.splat(here, LANES).typed} to i32")
            ways[target] = e.or_(ways[target], lanes) if target in ways else lanes
        if bits is not None:
            ways = {target: e.and_(lanes, bits) for target, lanes in ways.items()}
            self.wait_at(block, list(ways.items()))
        else:
            self.split(block, list(ways.items()))

    # -- the scan ----------------------------------------------------------------------------------------------------

    def number_scan(self) -> None:
        self.items: list[int | Loop] = []
        for block in self.plan.order:
            if block in self.scan_blocks:
                self.scan_index[block] = len(self.items)
                if block not in self.meeting:  # lanes wait there for the others, see `write_meeting`
                    self.items.append(block)
            for loop in self.plan.loops_ending_at(block):
                if any(target in self.scan_blocks for target in self.plan.retreat_targets(loop)):
                    self.items.append(loop)

    def write_scan(self) -> None:
        e, region, plan = self.emitter, self.region, self.plan
        for index, item in enumerate(self.items):
            region.label(f"S{index}")
            following = self.scan_label(index + 1)
            if isinstance(item, Loop):
                self.write_loop_end(item, following)
                continue
            waiting = e.emit("i32", 1, f"load i32, ptr {region.mask_slot(item)}")
            some = e.icmp("ne", waiting, e.const("i32", 0))
            e.line(f"br {some.typed}, label %M{item}, label %{following}")
            region.label(f"M{item}")
            region.forget()
            if item not in plan.masked:
                e.line(f"store i32 0, ptr {region.mask_slot(item)}")
                e.line(f"br label %F{item}")
                continue
            bits = self.gates.enter(item, following) if item in plan.gates else self.enter_masked(item)
            if plan.has_full and item in plan.joins:
                everyone = e.icmp("eq", bits, e.const("i32", -1))
                stay = region.fresh_label("masked")
                e.line(f"br {everyone.typed}, label %F{item}, label %{stay}")
                region.label(stay)
            self.write_nodes(MASKED, item, 0)
        region.label("S.end")
        if plan.lanes_part:
            # Lanes that were passed by, at spin loops, are still there.
            waiting = self.any_waiting(self.scan_blocks - self.meeting)
            onward = region.fresh_label("idle")
            moving = self.gates.moving(waiting)
            e.line(f"br {e.icmp('ne', moving, e.const('i32', 0)).typed}, label %{self.scan_label(0)}, label %{onward}")
            region.label(onward)
            self.gates.force(waiting, self.scan_label(0))
            if self.scan_blocks & self.meeting:
                self.write_meeting()
        region.finish_warp()

    def scan_label(self, index: int) -> str:
        """The label of the scan's item with this number, or of its end."""
        return f"S{index}" if index < len(self.items) else "S.end"

    def write_meeting(self) -> None:
        """No lane can go on but those that wait at barriers: the warp arrives, once for all of them.

        They may stand at different places of the program, but not at barriers with different numbers: hardware calls
        that an illegal instruction.
        """
        e, region = self.emitter, self.region
        names = ("kind", "number", "threads", "value", "active")
        slots = {name: region.allocate("i32") for name in names}
        everyone = self.any_waiting(self.scan_blocks & self.meeting)
        meet, nobody = region.fresh_label("meet"), region.fresh_label("nobody")
        e.line(f"br {e.icmp('ne', everyone, e.const('i32', 0)).typed}, label %{meet}, label %{nobody}")
        region.label(meet)
        for name in names:
            e.line(f"store i32 0, ptr {slots[name]}")
        for block in sorted(self.scan_blocks & self.meeting):
            waiting = e.emit("i32", 1, f"load i32, ptr {region.mask_slot(block)}")
            here, following = region.fresh_label("arrive"), region.fresh_label("arrived")
            e.line(f"br {e.icmp('ne', waiting, e.const('i32', 0)).typed}, label %{here}, label %{following}")
            region.label(here)
            region.forget()
            bits = self.enter_masked(block)
            node = self.graph.blocks[block].nodes[0]
            self.join_meeting(slots, node, bits)
            region.add_waiting(self.graph.blocks[block].successors[0], bits)
            e.line(f"br label %{following}")
            region.label(following)
        loaded = {name: e.emit("i32", 1, f"load i32, ptr {slots[name]}") for name in names}
        region.forget()
        region.machine.lanes = self.lanes_of(loaded["active"])
        region.stop(
            self.plan.meeting_stop(), loaded["kind"], loaded["number"], loaded["threads"], loaded["value"]
        )  # fmt: skip
        region.label(nobody)

    def join_meeting(self, slots: dict[str, str], node: Node, bits: Value) -> None:
        """Adds the lanes at one barrier to the warp's arrival."""
        e, region = self.emitter, self.region
        kind, number, threads, value = self.barrier_request(node)
        before = {name: e.emit("i32", 1, f"load i32, ptr {slot}") for name, slot in slots.items()}
        code = e.const("i32", STOP_NUMBERS[BARRIER_KINDS[kind]])
        first = e.icmp("eq", before["active"], e.const("i32", 0))
        alike = e.and_(e.icmp("eq", before["number"], number), e.icmp("eq", before["kind"], code))
        fine, illegal = region.fresh_label("alike"), region.fresh_label("illegal")
        e.line(f"br {e.or_(first, alike).typed}, label %{fine}, label %{illegal}, !prof !10")
        region.label(illegal)
        region.trap(ILLEGAL_INSTRUCTION_FAULT, node.instruction.location.line)
        region.label(fine)
        new = {
            "kind": code, "number": number, "threads": threads if threads is not None else e.const("i32", 0),
            "value": e.or_(before["value"], value) if value is not None else before["value"],
            "active": e.or_(before["active"], bits),
        }  # fmt: skip
        for name, slot in slots.items():
            e.line(f"store {new[name].typed}, ptr {slot}")

    def any_waiting(self, blocks: Iterable[int]) -> Value:
        """Lanes that wait at any of the blocks."""
        e = self.emitter
        lanes: Value = e.const("i32", 0)
        for block in sorted(blocks):
            lanes = e.or_(lanes, e.emit("i32", 1, f"load i32, ptr {self.region.mask_slot(block)}"))
        return lanes

    def enter_masked(self, block: int) -> Value:
        """Takes the lanes that wait at a block."""
        e, region = self.emitter, self.region
        slot = region.mask_slot(block)
        bits = e.emit("i32", 1, f"load i32, ptr {slot}")
        e.line(f"store i32 0, ptr {slot}")
        self.nodes.current = self.lanes_of(bits)
        region.machine.lanes = self.nodes.current
        return bits

    def write_loop_end(self, loop: Loop, following: str) -> None:
        """Back to the loop's start if lanes wait there; a spin loop lets lanes that have left it go first."""
        e, region, plan = self.emitter, self.region, self.plan
        spins = loop.index in plan.spin_loops
        lanes_part = spins and plan.lanes_part
        end = max(plan.position[block] for block in loop.blocks)
        if lanes_part:
            later = self.any_waiting(
                block for block in self.scan_blocks if plan.position[block] > end and block not in self.meeting
            )
            later = self.gates.moving(later)
            if later.constant is None:
                nobody = region.fresh_label("spin")
                e.line(f"br {e.icmp('ne', later, e.const('i32', 0)).typed}, label %{following}, label %{nobody}")
                region.label(nobody)
        for target in plan.retreat_targets(loop):
            if target not in self.scan_blocks:
                continue
            waiting = e.emit("i32", 1, f"load i32, ptr {region.mask_slot(target)}")
            some = e.icmp("ne", self.gates.moving(waiting) if target in plan.gates else waiting, e.const("i32", 0))
            onward = region.fresh_label("onward")
            if spins and target == loop.header and target in plan.masked and plan.is_entry:
                pause = region.fresh_label("yield")
                e.line(f"br {some.typed}, label %{pause}, label %{onward}")
                region.label(pause)
                region.forget()
                stop = plan.stop_at(MASKED, target, -1, loop.index)
                region.stop(stop, "yield", e.const("i32", 0), None, None)
            else:
                e.line(f"br {some.typed}, label %{self.scan_label(self.scan_index[target])}, label %{onward}")
            region.label(onward)
        e.line(f"br label %{following}")

    def leave_masked(self, block: int) -> None:
        e, region = self.emitter, self.region
        bits = self.nodes.current.bits
        assert bits is not None
        terminator = self.graph.blocks[block].terminator
        if isinstance(terminator, Exit):
            if terminator.kind == "trap":
                self.nodes.any_active_trap(0)
            if terminator.kind == "exit" and not self.plan.is_entry:
                region.machine.refuse("exit in a recursive or indirectly called function")
            self.gates.leave(bits)
            e.line(f"br label %{self.after(block)}")
        elif isinstance(terminator, Jump):
            self.wait_at(block, [(terminator.target, bits)])
        elif isinstance(terminator, Branch):
            condition = operand_value(e, region.read(terminator.predicate.id))
            if condition.lanes == 1:
                chosen = e.select(condition, e.const("i32", -1), e.const("i32", 0))
            else:
                chosen = e.emit("i32", 1, f"bitcast {condition.typed} to i32")
            if terminator.negated:
                chosen = e.not_(chosen)
            taken, otherwise = e.and_(bits, chosen), e.and_(bits, e.not_(chosen))
            self.wait_at(block, [(terminator.taken, taken), (terminator.otherwise, otherwise)])
        else:
            assert isinstance(terminator, Switch)
            self.leave_switch(block, terminator, bits)

    def wait_at(self, block: int, ways: list[tuple[int, Value]]) -> None:
        for target, bits in ways:
            if self.graph.blocks[target].phis:
                self.pass_values(block, target, self.lanes_of(bits))
            self.region.add_waiting(target, bits)
        self.emitter.line(f"br label %{self.after(block)}")

    def after(self, block: int) -> str:
        """The scan's next item behind a block; a resumed piece goes on behind its block."""
        index = self.scan_index.get(block)
        if index is None:
            raise AssertionError("a masked block outside the scan")
        return self.scan_label(index + 1)
