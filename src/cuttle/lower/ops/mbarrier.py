"""mbarrier objects (PTX ISA 9.0, 9.7.13.16).

The object is a 64-bit word of our own layout, changed by additions only: bits 0-20 the arrivals still awaited, 21-41 the
arrivals of the next phase, 42 the phase, 43-63 the bytes of transactions still awaited (signed). Whoever brings both
counts to zero adds once more: the next phase's arrivals, and the flip of the phase bit. The lanes of one instruction
may complete several phases (32 arrivals where two are awaited): all of them count down first, below zero, and each lane
sees from how far below how many phases ended before its own arrival.
"""

from __future__ import annotations

from typing import Any

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.math.division import divide
from cuttle.lower.ops.memory import space_of
from cuttle.ptx.ir import Instruction

_SIZE = 8
_FIELD = (1 << 21) - 1
_EXPECTED, _PHASE, _BYTES = 21, 42, 43


def _const(emitter: Emitter, value: int) -> Value:
    return emitter.const("i64", value)


def _scope(instruction: Instruction) -> str:
    return "cluster" if instruction.has("cluster") else "cta"


def _change(machine: Machine, instruction: Instruction, address: Any, change: Value) -> Value:
    """Add to the word of an instruction on an mbarrier; its old state."""
    return _change_at(machine, space_of(instruction), _scope(instruction), address, change)


def _change_at(
    machine: Machine, space: str, scope: str, address: Any, change: Value, where: Value | None = None
) -> Value:
    """Add to the word, complete the phase if that brought both counts to zero; the old word."""
    e = machine.emitter
    machine.expect_aligned(space, address, _SIZE, where=where)

    def add(amount: Value) -> Value:
        old = machine.atomic(
            "add", "u64", space, address, [amount], want_result=True, ordering="acq_rel", scope=scope, where=where
        )
        assert old is not None
        return old

    old = add(change)
    before, after = _Fields(e, old), _Fields(e, e.add(old, change))
    zero, one = e.const("i32", 0), e.const("i32", 1)
    # Phases that ended before this lane's arrival.
    reached = e.and_(e.icmp("sle", before.pending, zero), before.no_bytes)
    earlier = e.select(reached, e.add(before.phases_below(), one), zero)
    # This lane ends one if it brings the count down to a multiple of the arrivals of a phase.
    ended = after.phases_below()
    exact = e.icmp("eq", e.add(after.pending, e.mul(ended, after.expected)), zero)
    complete = e.and_(e.and_(e.icmp("sle", after.pending, zero), after.no_bytes), exact)
    odd = e.icmp("ne", e.and_(e.xor(after.phase, ended), one), zero)
    flip = e.select(odd, _const(e, -(1 << _PHASE)), _const(e, 1 << _PHASE))
    add(e.select(complete, e.add(e.cast("zext", after.expected, "i64"), flip), _const(e, 0)))
    state = e.add(old, e.cast("zext", e.mul(earlier, before.expected), "i64"))
    return e.xor(state, e.shl(e.cast("zext", e.and_(earlier, one), "i64"), _const(e, _PHASE)))


class _Fields:
    """The word's parts as i32, where the awaited arrivals may have gone below zero and borrowed from the rest."""

    def __init__(self, emitter: Emitter, word: Value) -> None:
        self.emitter = e = emitter
        above = e.const("i32", 31 - 20)
        self.pending = e.ashr(e.shl(e.cast("trunc", word, "i32"), above), above)
        rest = e.sub(word, e.cast("sext", self.pending, "i64"))
        field = e.and_(e.lshr(rest, _const(e, _EXPECTED)), _const(e, _FIELD))
        self.expected = e.cast("trunc", field, "i32")
        self.phase = e.cast("trunc", e.and_(e.lshr(rest, _const(e, _PHASE)), _const(e, 1)), "i32")
        self.no_bytes = e.icmp("eq", e.lshr(rest, _const(e, _BYTES)), _const(e, 0))

    def phases_below(self) -> Value:
        """How many whole phases of arrivals the count lies below zero."""
        e = self.emitter
        below = e.intrinsic("llvm.smax", [e.neg(self.pending), e.const("i32", 0)])
        return divide(e, below, e.intrinsic("llvm.umax", [self.expected, e.const("i32", 1)]), signed=False)


def mbarrier_init(machine: Machine, instruction: Instruction, address: Any, count: Value) -> None:
    """`mbarrier.init`: phase 0, `count` arrivals in every phase. 9.7.13.16.9."""
    e = machine.emitter
    wide = e.cast("zext", count, "i64")
    machine.expect_aligned(space_of(instruction), address, _SIZE)
    machine.store(space_of(instruction), 64, address, [e.or_(wide, e.shl(wide, _const(e, _EXPECTED)))])


def mbarrier_inval(machine: Machine, instruction: Instruction, address: Any) -> None:
    """`mbarrier.inval`: the memory is free for other uses. 9.7.13.16.10."""
    machine.expect_aligned(space_of(instruction), address, _SIZE)


def _bytes(emitter: Emitter, count: Value) -> Value:
    return emitter.shl(emitter.cast("zext", count, "i64"), _const(emitter, _BYTES))


def mbarrier_expect_tx(machine: Machine, instruction: Instruction, address: Any, count: Value) -> None:
    """`mbarrier.expect_tx`: more bytes to await. 9.7.13.16.11."""
    machine.expect_aligned(space_of(instruction), address, _SIZE)
    machine.atomic(
        "add", "u64", space_of(instruction), address, [_bytes(machine.emitter, count)], want_result=False,
        ordering="relaxed", scope=_scope(instruction)
    )  # fmt: skip


def mbarrier_complete_tx(machine: Machine, instruction: Instruction, address: Any, count: Value) -> None:
    """`mbarrier.complete_tx`: bytes have arrived. 9.7.13.16.12."""
    e = machine.emitter
    _change(machine, instruction, address, e.neg(_bytes(e, count)))


def complete_bytes(machine: Machine, space: str, address: Any, count: Value, *, where: Value | None = None) -> None:
    """Bytes that an asynchronous operation has brought, of each active lane, or of those for which `where` holds."""
    e = machine.emitter
    _change_at(machine, space, "cluster", address, e.neg(_bytes(e, count)), where)


def mbarrier_arrive(machine: Machine, instruction: Instruction, address: Any, count: Value | None = None) -> Value:
    """`mbarrier.arrive`: one or `count` arrivals; `.expect_tx` awaits `count` bytes first. 9.7.13.16.13."""
    e = machine.emitter
    if instruction.has("expect_tx"):
        assert count is not None
        return _change(machine, instruction, address, e.sub(_bytes(e, count), _const(e, 1)))
    arrivals = _const(e, 1) if count is None else e.cast("zext", count, "i64")
    return _change(machine, instruction, address, e.neg(arrivals))


def mbarrier_arrive_drop(machine: Machine, instruction: Instruction, address: Any, count: Value | None = None) -> Value:
    """`mbarrier.arrive_drop`: arrivals that later phases do not await either. 9.7.13.16.14."""
    e = machine.emitter
    if instruction.has("expect_tx"):
        assert count is not None
        change = e.sub(_bytes(e, count), _const(e, 1 | 1 << _EXPECTED))
        return _change(machine, instruction, address, change)
    arrivals = _const(e, 1) if count is None else e.cast("zext", count, "i64")
    both = e.add(arrivals, e.shl(arrivals, _const(e, _EXPECTED)))
    return _change(machine, instruction, address, e.neg(both))


def mbarrier_test_wait(machine: Machine, instruction: Instruction, address: Any, state: Value, *hint: Value) -> Value:
    """`mbarrier.test_wait`: whether the phase of `state` (or with `.parity` of that parity) is over. 9.7.13.16.15."""
    e = machine.emitter
    machine.expect_aligned(space_of(instruction), address, _SIZE)
    word = machine.load(space_of(instruction), 64, 1, address, ordering="acquire")[0]
    phase = e.and_(e.lshr(word, _const(e, _PHASE)), _const(e, 1))
    shift = 0 if instruction.has("parity") else _PHASE
    wide = e.resize(state, 64)
    asked = e.and_(e.lshr(wide, _const(e, shift)) if shift else wide, _const(e, 1))
    return e.icmp("ne", phase, asked)


def mbarrier_try_wait(machine: Machine, instruction: Instruction, address: Any, state: Value, *hint: Value) -> Value:
    """`mbarrier.try_wait`: as `test_wait`; suspending meanwhile is left to the caller's loop. 9.7.13.16.16."""
    return mbarrier_test_wait(machine, instruction, address, state)


def mbarrier_pending_count(machine: Machine, instruction: Instruction, state: Value) -> Value:
    """`mbarrier.pending_count`: the arrivals awaited when `state` was taken. 9.7.13.16.17."""
    e = machine.emitter
    return e.cast("trunc", e.and_(state, _const(e, _FIELD)), "i32")


def cp_async_mbarrier_arrive(machine: Machine, instruction: Instruction, address: Any) -> None:
    """`cp.async.mbarrier.arrive`: copies are complete already. With `.noinc` it is an arrival, else it adds and
    removes one. 9.7.13.16.18."""
    if instruction.has("noinc"):
        _change(machine, instruction, address, _const(machine.emitter, -1))
