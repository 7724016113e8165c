"""Gates: `.sync` operations of a warp in kernels whose lanes part, where lanes wait for those that the operation names.

Lanes pass a gate when all lanes of the member mask have exited or wait here, or wait at another gate with the same mask (a
`bar.warp.sync` in each branch). While they cannot, they are *stuck*: the scan goes on without them, and others
are no longer passed by for their sake. If nobody else can move, all that are stuck are let through with whom they are;
hardware would hang. The plain leg (`plain/scheduler.py`) has the same rules.

State of a warp: `alive` lanes have not exited; `released` lanes may pass their gate; `stuck` lanes were seen waiting in vain,
for the lanes in `needs`.
"""

from __future__ import annotations

from cuttle.lower.cpu.memory import Lanes
from cuttle.lower.cpu.nodes import NodeWriter
from cuttle.lower.cpu.region import RegionEmitter
from cuttle.lower.emit import Value
from cuttle.lower.passes.shape import LANES
from cuttle.lower.passes.warp_operations import member_mask

NEEDS = f"<{LANES} x i32>"


class Gates:
    """Writes the gates of one region. Without gates in the kernel nothing is written."""

    def __init__(self, region: RegionEmitter, nodes: NodeWriter) -> None:
        self.region = region
        self.emitter = region.emitter
        self.nodes = nodes
        self.any = bool(region.plan.gates)

    def load(self, name: str) -> Value:
        return self.emitter.emit("i32", 1, f"load i32, ptr {self.region.gate_slot(name)}")

    def store(self, name: str, bits: Value) -> None:
        self.emitter.line(f"store {bits.typed}, ptr {self.region.gate_slot(name)}")

    def lanes(self, bits: Value) -> Value:
        return self.emitter.emit("i1", LANES, f"bitcast {bits.typed} to <{LANES} x i1>")

    def bits(self, lanes: Value) -> Value:
        return self.emitter.emit("i32", 1, f"bitcast {self.emitter.splat(lanes, LANES).typed} to i32")

    # -- what others tell -----------------------------------------------------------------------------------------

    def begin(self, lanes: Value) -> None:
        """The scan begins with these lanes, all that have not exited."""
        if self.any:
            self.store("alive", lanes)
            self.store("stuck", self.emitter.const("i32", 0))
            self.store("released", self.emitter.const("i32", 0))

    def leave(self, lanes: Value) -> None:
        """Lanes exit: those that waited for them have to look again."""
        if self.any:
            self.store("alive", self.emitter.and_(self.load("alive"), self.emitter.not_(lanes)))
            self.store("stuck", self.emitter.const("i32", 0))

    def moving(self, waiting: Value) -> Value:
        """Those of the waiting lanes that are not stuck."""
        if not self.any or waiting.constant is not None:
            return waiting
        return self.emitter.and_(waiting, self.emitter.not_(self.load("stuck")))

    def force(self, waiting: Value, again: str) -> None:
        """Nobody moves: lets those through that are stuck, if there are any."""
        if not self.any or waiting.constant is not None:
            return
        e = self.emitter
        forced, nobody = self.region.fresh_label("forced"), self.region.fresh_label("unstuck")
        e.line(f"br {e.icmp('ne', waiting, e.const('i32', 0)).typed}, label %{forced}, label %{nobody}")
        self.region.label(forced)
        self.store("released", waiting)
        self.store("stuck", e.const("i32", 0))
        e.line(f"br label %{again}")
        self.region.label(nobody)

    # -- the gate -------------------------------------------------------------------------------------------------

    def enter(self, block: int, following: str) -> Value:
        """Takes those of the lanes that wait at a gate's block that may pass; goes on at `following` if there is none."""
        e, region = self.emitter, self.region
        slot = region.mask_slot(block)
        waiting = e.emit("i32", 1, f"load i32, ptr {slot}")
        ready = self.ready(block, waiting)
        e.line(f"store {e.and_(waiting, e.not_(ready)).typed}, ptr {slot}")
        self.store("released", e.and_(self.load("released"), e.not_(ready)))
        passing = region.fresh_label("passing")
        e.line(f"br {e.icmp('ne', ready, e.const('i32', 0)).typed}, label %{passing}, label %{following}")
        region.label(passing)
        region.forget()
        self.nodes.current = region.machine.lanes = Lanes(ready, self.lanes(ready))
        return ready

    def ready(self, block: int, waiting: Value) -> Value:
        """The lanes that may pass; the others are noted as stuck."""
        e = self.emitter
        node = self.region.plan.gates[block]
        known = member_mask(self.region.plan.graph, node)
        mask = e.const("i32", known) if isinstance(known, int) else self.nodes.member_mask(node)
        needs = self.region.gate_slot("needs", NEEDS)
        stuck, released = self.load("stuck"), self.load("released")
        guard = self.nodes.guard_value(node)
        taking = waiting if guard is None else e.and_(waiting, self.bits(guard))
        before = e.emit("i32", LANES, f"load {NEEDS}, ptr {needs}")
        arrived = e.or_(taking, e.not_(self.load("alive")))
        if mask.lanes == 1:
            alike = e.and_(self.bits(e.icmp("eq", before, e.splat(mask, LANES))), e.and_(stuck, e.not_(waiting)))
            missing = e.and_(mask, e.not_(e.or_(arrived, alike)))
            complete = e.icmp("eq", missing, e.const("i32", 0))
            ready = e.select(complete, taking, e.const("i32", 0))
            # Those at another gate may go as well.
            freed = e.select(complete, alike, e.const("i32", 0))
            released = e.or_(released, freed)
            stuck = e.and_(stuck, e.not_(freed))
            self.store("released", released)
        else:
            missing = e.and_(mask, e.splat(e.not_(arrived), LANES))
            ready = e.and_(taking, self.bits(e.icmp("eq", missing, e.splat(e.const("i32", 0), LANES))))
        ready = e.or_(ready, e.and_(waiting, released))
        if guard is not None:
            ready = e.or_(ready, e.and_(waiting, e.not_(self.bits(guard))))
        left = e.and_(waiting, e.not_(ready))
        self.store("stuck", e.or_(e.and_(stuck, e.not_(waiting)), left))
        now = e.select(self.lanes(left), e.splat(mask, LANES), before)
        e.line(f"store {now.typed}, ptr {needs}")
        return ready
