"""Barriers of a block (PTX ISA 9.0, 9.7.13.1): the hardware's one barrier, or software ones in LDS (`docs/design/amdgpu.md`, section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuttle.lower.amdgpu.plan import BARRIERS
from cuttle.lower.amdgpu.special import block_threads, linear_thread
from cuttle.lower.emit import Value

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

GROUP = 'syncscope("workgroup")'
LDS_POINTER = "ptr addrspace(3)"
ILLEGAL_FAULT = 7


class Barriers:
    """Barriers of one kernel."""

    def __init__(self, writer: FunctionWriter) -> None:
        self.writer = writer
        self.emitter = writer.emitter

    def clear_words(self) -> None:
        """At the kernel's start: zeroes the LDS words that barriers use, before anybody comes to one."""
        plan = self.writer.plan
        e = self.emitter
        places = [plan.reduction_at] if plan.reduction_at >= 0 else []
        if plan.barriers_at >= 0:
            places += range(plan.barriers_at, plan.barriers_at + 8 * BARRIERS, 4)
        if not places:
            return

        def clear() -> list[Value]:
            for place in places:
                e.line(f"store i32 0, {self.word(e.const('i32', place))}, align 4")
            return []

        first = e.icmp("eq", linear_thread(self.writer), e.const("i32", 0))
        self.writer.when(first, clear, [])
        self.hardware()

    def barrier(self, kind: str, barrier: Value, threads: Value | None, predicate: Value | None) -> Value | None:
        if not kind.startswith("red"):
            self.wait(barrier, threads, arrive_only=kind == "arrive")
            return None
        assert predicate is not None
        return self.reduce(kind, barrier, threads, predicate)

    def wait(self, barrier: Value, threads: Value | None, *, arrive_only: bool = False) -> None:
        if self.writer.plan.barriers_at < 0:
            self.hardware()
        else:
            self.software(barrier, threads, arrive_only=arrive_only)

    def hardware(self) -> None:
        self.emitter.line(f"fence {GROUP} release")
        self.writer.call("void", "llvm.amdgcn.s.barrier")
        self.emitter.line(f"fence {GROUP} acquire")

    def word(self, place: Value) -> str:
        return f"{LDS_POINTER} {self.emitter.emit('ptr', 1, f'inttoptr {place.typed} to {LDS_POINTER}').text}"

    def add(self, pointer: str, amount: Value) -> Value:
        return self.emitter.emit("i32", 1, f"atomicrmw add {pointer}, {amount.typed} {GROUP} monotonic, align 4")

    def is_leader(self) -> Value:
        """The lowest active lane."""
        e = self.emitter
        active = self.writer.machine.active_mask()
        lowest = e.intrinsic("llvm.cttz", [active, e.const("i1", 0)])
        return e.icmp("eq", self.writer.machine.lane_index(), lowest)

    def software(self, barrier: Value, threads: Value | None, *, arrive_only: bool) -> None:
        """Counts the wave's 32 threads; the wave that brings the count to what is awaited starts the next generation."""
        e, writer = self.emitter, self.writer
        uniform = writer.call("i32", "llvm.amdgcn.readfirstlane.i32", barrier)
        number = e.and_(uniform, e.const("i32", BARRIERS - 1))
        place = e.add(e.shl(number, e.const("i32", 3)), e.const("i32", writer.plan.barriers_at))
        arrivals = self.word(place)
        generation = self.word(e.add(place, e.const("i32", 4)))
        whole = e.and_(e.add(block_threads(writer), e.const("i32", 31)), e.const("i32", -32))
        wanted = threads if threads is not None else whole
        if threads is not None:
            self.check_count(threads)
        e.line(f"fence {GROUP} release")
        before = e.emit("i32", 1, f"load atomic i32, {generation} {GROUP} monotonic, align 4")
        before = writer.call("i32", "llvm.amdgcn.readfirstlane.i32", before)

        def arrive() -> list[Value]:
            count = e.add(self.add(arrivals, e.const("i32", 32)), e.const("i32", 32))

            def finish() -> list[Value]:
                e.line(f"store atomic i32 0, {arrivals} {GROUP} monotonic, align 4")
                e.line(f"fence {GROUP} release")
                self.add(generation, e.const("i32", 1))
                return []

            writer.when(e.icmp("uge", count, wanted), finish, [])
            return []

        writer.when(self.is_leader(), arrive, [])
        if arrive_only:
            return
        again, done = writer.fresh_label("waiting"), writer.fresh_label("met")
        e.line(f"br label %{again}")
        writer.label(again)
        now = e.emit("i32", 1, f"load atomic i32, {generation} {GROUP} monotonic, align 4")
        now = writer.call("i32", "llvm.amdgcn.readfirstlane.i32", now)
        self.pause()
        e.line(f"br {e.icmp('eq', now, before).typed}, label %{again}, label %{done}")
        writer.label(done)
        e.line(f"fence {GROUP} acquire")

    def check_count(self, threads: Value) -> None:
        """A count that is no multiple of the warp size is an illegal instruction, as on hardware."""
        e = self.emitter

        def end() -> list[Value]:
            instruction = self.writer.machine.instruction
            self.writer.machine.services.trap(ILLEGAL_FAULT, instruction.location.line if instruction else 0)
            return []

        rest = e.and_(threads, e.const("i32", 31))
        self.writer.when(e.icmp("ne", rest, e.const("i32", 0)), end, [])

    def pause(self) -> None:
        self.emitter.declare("@llvm.amdgcn.s.sleep", "declare void @llvm.amdgcn.s.sleep(i32 immarg)")
        self.emitter.line("call void @llvm.amdgcn.s.sleep(i32 1)")

    def reduce(self, kind: str, barrier: Value, threads: Value | None, predicate: Value) -> Value:
        """Waves add their lanes to a word that is zero, meet, read it, meet, and take their lanes off again.

        A wave takes its lanes off before it comes to the next barrier, so that the word is zero again when somebody reads it next.
        """
        e, writer = self.emitter, self.writer
        counted = e.not_(predicate) if kind == "red.and" else predicate
        mine = e.intrinsic("llvm.ctpop", [writer.machine.ballot(counted)])
        word = self.word(e.const("i32", writer.plan.reduction_at))
        leader = self.is_leader()

        def change(amount: Value) -> None:
            def add() -> list[Value]:
                self.add(word, amount)
                return []

            writer.when(leader, add, [])

        change(mine)
        self.wait(barrier, threads)
        total = e.emit("i32", 1, f"load atomic i32, {word} {GROUP} monotonic, align 4")
        self.wait(barrier, threads)
        change(e.neg(mine))
        if kind == "red.popc":
            return total
        return e.icmp("eq" if kind == "red.and" else "ne", total, e.const("i32", 0))
