"""Asynchronous copies, carried out at once: waiting for them is then nothing to do (PTX ISA 9.0, 9.7.9.25).

Those that signal an mbarrier bring their bytes to it as soon as they are copied. The mbarrier and the destination may be in
the shared memory of another block of the cluster.
"""

from __future__ import annotations

from typing import Any

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.element_types import type_bits
from cuttle.lower.ops.mbarrier import complete_bytes
from cuttle.lower.ops.memory import access_bytes, element_count, space_of
from cuttle.ptx.ir import TYPE_BITS, Immediate, Instruction

_MAXIMUM_CLUSTER = 16
_BULK_ALIGN = 16
_REDUCTIONS = frozenset(("add", "min", "max", "inc", "dec", "and", "or", "xor"))


def cp_async(
    machine: Machine, instruction: Instruction, destination: Any, source: Any, size: Any, *rest: Value
) -> None:
    """`cp.async`: 4, 8 or 16 bytes from global to shared; a source size below it fills with zeros. 9.7.9.25.3.1."""
    emitter = machine.emitter
    if not isinstance(size, Immediate) or size.bits not in (4, 8, 16):
        machine.refuse("cp.async needs a constant size of 4, 8 or 16")
        return
    words = size.bits // 4
    has_policy = instruction.has("L2::cache_hint")
    limit = rest[0] if len(rest) > (1 if has_policy else 0) else None
    machine.expect_aligned("shared", destination, size.bits)
    machine.expect_aligned("global", source, size.bits, where=_reads(emitter, limit))
    if limit is None or limit.constant == size.bits:
        values = machine.load("global", 32, words, source)
    elif limit.type == "i1":
        values = machine.load("global", 32, words, source, where=emitter.not_(limit))
    else:
        values = _load_partly(machine, emitter, source, size.bits, limit)
    machine.store("shared", 32, destination, values)


def _reads(emitter: Emitter, limit: Value | None) -> Value | None:
    """Whether `cp.async` reads anything: by a size of the source, or a predicate that says that it is ignored."""
    if limit is None:
        return None
    return emitter.not_(limit) if limit.type == "i1" else emitter.icmp("ne", limit, emitter.const("i32", 0))


def _load_partly(machine: Machine, emitter: Emitter, source: Any, size: int, limit: Value) -> list[Value]:
    """The first `limit` bytes, zeros after. Whole copies and empty ones (the usual ones) take one load."""
    whole = emitter.icmp("uge", limit, emitter.const("i32", size))
    words = machine.load("global", 32, size // 4, source, where=whole)
    if limit.constant == 0:
        return words
    for index in range(size - 1):
        inside = emitter.icmp("ugt", limit, emitter.const("i32", index))
        partly = emitter.and_(emitter.not_(whole), inside)
        place = machine.advance(source, index) if index else source
        byte = machine.load("global", 8, 1, place, where=partly)[0]
        wide = emitter.shl(emitter.resize(byte, 32), emitter.const("i32", 8 * (index % 4)))
        words[index // 4] = emitter.or_(words[index // 4], wide)
    return words


def cp_async_commit_group(machine: Machine, instruction: Instruction) -> None:
    """Nothing is pending. 9.7.9.25.3.2."""


def cp_async_wait_group(machine: Machine, instruction: Instruction, count: Any) -> None:
    """Nothing is pending. 9.7.9.25.3.3."""


def cp_async_wait_all(machine: Machine, instruction: Instruction) -> None:
    """Nothing is pending. 9.7.9.25.3.3."""


def cp_async_bulk_commit_group(machine: Machine, instruction: Instruction) -> None:
    """Nothing is pending. 9.7.9.25.6.1."""


def cp_async_bulk_wait_group(machine: Machine, instruction: Instruction, count: Any) -> None:
    """Nothing is pending. 9.7.9.25.6.2."""


def cp_async_bulk_prefetch(machine: Machine, instruction: Instruction, *operands: Any) -> None:
    """A hint. 9.7.9.25.4.3."""


def _spaces(instruction: Instruction) -> tuple[str, str]:
    """The state spaces of destination and source, in the order they are written."""
    spaces = [name.partition("::")[0] for name in instruction.modifiers]
    first, second = (name for name in spaces if name in ("global", "shared"))
    return first, second


def cp_async_bulk(
    machine: Machine, instruction: Instruction, destination: Any, source: Any, size: Value, *rest: Any
) -> None:
    """`cp.async.bulk`: bytes between global memory and the cluster's shared memory. 9.7.9.25.4.1."""
    if instruction.has("cp_mask") or instruction.has("ignore_oob"):
        machine.refuse("byte masks of bulk copies (sm_100)")
        return
    to, origin = _spaces(instruction)
    e = machine.emitter
    machine.expect_aligned(to, destination, _BULK_ALIGN)
    machine.expect_aligned(origin, source, _BULK_ALIGN)
    if instruction.has("bulk_group"):
        machine.copy_bytes(to, destination, origin, source, size)
        return
    barrier = rest[0]
    if not instruction.has("multicast::cluster"):
        machine.copy_bytes(to, destination, origin, source, size)
        complete_bytes(machine, "shared", barrier, size)
        return
    # To the same place in several blocks of the cluster, and each one's mbarrier learns of it.
    ranks = e.resize(rest[1], 32)
    place, signal = machine.address_value("shared", destination), machine.address_value("shared", barrier)
    for rank in range(_MAXIMUM_CLUSTER):
        wanted = e.icmp("ne", e.and_(ranks, e.const("i32", 1 << rank)), e.const("i32", 0))
        number = e.const("i32", rank)
        there = machine.map_to_rank(place, number, generic=False)
        machine.copy_bytes("shared", there, origin, source, size, where=wanted)
        complete_bytes(machine, "shared", machine.map_to_rank(signal, number, generic=False), size, where=wanted)


def cp_reduce_async_bulk(
    machine: Machine, instruction: Instruction, destination: Any, source: Any, size: Value, *rest: Any
) -> None:
    """`cp.reduce.async.bulk`: elements combined with those of the destination, each atomically. 9.7.9.25.4.2.

    Sums of f32 keep subnormal numbers: an H200 does, though the manual speaks of flushing.
    """
    to, origin = _spaces(instruction)
    operation = next(name for name in instruction.modifiers if name in _REDUCTIONS)
    machine.expect_aligned(to, destination, _BULK_ALIGN)
    machine.expect_aligned(origin, source, _BULK_ALIGN)
    machine.reduce_bytes(operation, instruction.type, to, destination, origin, source, size)
    if not instruction.has("bulk_group"):
        complete_bytes(machine, "shared", rest[0], size)


def st_async(machine: Machine, instruction: Instruction, address: Any, *rest: Any) -> None:
    """`st.async`: a store into the cluster's shared memory that an mbarrier learns of. 9.7.9.12."""
    e = machine.emitter
    count, bits = element_count(instruction, 1), type_bits(instruction.type)
    if "global" in instruction.modifiers or not instruction.has("mbarrier::complete_tx::bytes"):
        machine.refuse("st.async without an mbarrier (sm_100)")
        return
    machine.expect_aligned("shared", address, access_bytes(instruction, 1))
    machine.store("shared", bits, address, [e.as_bits(value) for value in rest[:count]])
    complete_bytes(machine, "shared", rest[count], e.const("i32", count * bits // 8))


def red_async(machine: Machine, instruction: Instruction, address: Any, value: Value, barrier: Any) -> None:
    """`red.async`: an atomic in the cluster's shared memory that an mbarrier learns of. 9.7.13.7."""
    e = machine.emitter
    operation = next(name for name in instruction.modifiers if name in _REDUCTIONS)
    if not instruction.has("mbarrier::complete_tx::bytes"):
        machine.refuse("red.async without an mbarrier (sm_100)")
        return
    machine.expect_aligned("shared", address, access_bytes(instruction, 1))
    machine.atomic(
        operation, instruction.type, "shared", address, [e.as_bits(value)], want_result=False, ordering="relaxed",
        scope="cluster"
    )  # fmt: skip
    complete_bytes(machine, "shared", barrier, e.const("i32", TYPE_BITS[instruction.type] // 8))


def st_bulk(machine: Machine, instruction: Instruction, address: Any, size: Value, initial: Any) -> None:
    """`st.bulk`: zeros in shared memory. 9.7.9.13. From the manual: newer than the recorded hardware."""
    if not isinstance(initial, Immediate) or initial.bits != 0:
        machine.refuse("st.bulk stores zeros only")
        return
    machine.zero_bytes(space_of(instruction), address, size)
