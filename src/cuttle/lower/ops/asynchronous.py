"""Asynchronous copies, carried out at once: waiting for them is then nothing to do (PTX ISA 9.0, 9.7.9.25)."""

from __future__ import annotations

from typing import Any

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.machine import Machine
from cuttle.ptx.ir import Immediate, Instruction


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
    if limit is None or limit.constant == size.bits:
        values = machine.load("global", 32, words, source)
    elif limit.type == "i1":
        values = machine.load("global", 32, words, source, where=emitter.not_(limit))
    else:
        values = _load_partly(machine, emitter, source, size.bits, limit)
    machine.store("shared", 32, destination, values)


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


def cp_async_bulk_prefetch_tensor(machine: Machine, instruction: Instruction, *operands: Any) -> None:
    """A hint. 9.7.9.25.5.4."""
