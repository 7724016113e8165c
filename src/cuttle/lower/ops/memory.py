"""ld, st and their relatives; hints are accepted and ignored (PTX ISA 9.0, 9.7.9)."""

from __future__ import annotations

from typing import Any

from cuttle.lower.emit import Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.element_types import type_bits
from cuttle.ptx.ir import Immediate, Instruction, Vector

MAXIMUM_STACK_ALIGN = 4096  # local memory of a warp begins on a page
_SPACES = ("global", "shared", "local", "const", "param")


def space_of(instruction: Instruction) -> str:
    """The state space among the modifiers (`shared::cluster` counts as `shared`); `generic` if there is none."""
    for modifier in instruction.modifiers:
        space = modifier.partition("::")[0]
        if space in _SPACES:
            return space
    return "generic"


def ordering_of(instruction: Instruction) -> str:
    """`weak`, `volatile`, `relaxed`, `acquire` or `release`; `.mmio` is at least relaxed."""
    for ordering in ("volatile", "relaxed", "acquire", "release"):
        if instruction.has(ordering):
            return ordering
    return "weak"


def element_count(instruction: Instruction, index: int) -> int:
    """Number of elements that the operand at `index` moves."""
    operand = instruction.operands[index]
    return len(operand.elements) if isinstance(operand, Vector) else 1


def access_bytes(instruction: Instruction, index: int) -> int:
    """What the address of an access must be a multiple of; the operand at `index` has the elements that are moved.

    An access as a whole is aligned, but constants are fetched by element, at most 8 bytes at a time (as an H200 does).
    """
    size = type_bits(instruction.type) // 8
    return min(size, 8) if space_of(instruction) == "const" else size * element_count(instruction, index)


def ld(machine: Machine, instruction: Instruction, address: Any, policy: Value | None = None) -> tuple[Value, ...]:
    """`ld`, with `.nc` as a hint that the data does not change. 9.7.9.8, 9.7.9.9."""
    space = space_of(instruction)
    machine.expect_aligned(space, address, access_bytes(instruction, 0))
    values = machine.load(
        space,
        type_bits(instruction.type),
        element_count(instruction, 0),
        address,
        ordering=ordering_of(instruction),
        read_only=instruction.has("nc") or space in ("const", "param"),
    )
    return tuple(values)


def ldu(machine: Machine, instruction: Instruction, address: Any) -> tuple[Value, ...]:
    """`ldu`: a load from an address that is the same in all lanes. 9.7.9.10."""
    bits, count = type_bits(instruction.type), element_count(instruction, 0)
    machine.expect_aligned(space_of(instruction), address, access_bytes(instruction, 0))
    return tuple(machine.load(space_of(instruction), bits, count, address, read_only=True))


def st(machine: Machine, instruction: Instruction, address: Any, *values: Value) -> None:
    """`st`. 9.7.9.11."""
    emitter = machine.emitter
    count = element_count(instruction, 1)
    elements = [emitter.as_bits(value) for value in values[:count]]
    machine.expect_aligned(space_of(instruction), address, access_bytes(instruction, 1))
    machine.store(
        space_of(instruction), type_bits(instruction.type), address, elements, ordering=ordering_of(instruction)
    )


def prefetch(machine: Machine, instruction: Instruction, address: Any) -> None:
    """`prefetch`: a hint. 9.7.9.15."""


def prefetchu(machine: Machine, instruction: Instruction, address: Any) -> None:
    """`prefetchu`: a hint. 9.7.9.15."""


def applypriority(machine: Machine, instruction: Instruction, address: Any, size: Any) -> None:
    """`applypriority`: a hint. 9.7.9.16."""


def discard(machine: Machine, instruction: Instruction, address: Any, size: Any) -> None:
    """`discard`: the data may keep its value. 9.7.9.17."""


def createpolicy(machine: Machine, instruction: Instruction, *operands: Any) -> Value:
    """`createpolicy`: an opaque number, which no access looks at. 9.7.9.18."""
    return machine.emitter.const("i64", 0)


def mapa(machine: Machine, instruction: Instruction, address: Value, rank: Value) -> Value:
    """`mapa`: where another block of the cluster has a shared variable. 9.7.9.23."""
    mapped = machine.map_to_rank(address, rank, generic=space_of(instruction) == "generic")
    return machine.emitter.resize(mapped, type_bits(instruction.type))


def getctarank(machine: Machine, instruction: Instruction, address: Value) -> Value:
    """`getctarank`: which block of the cluster has an address. 9.7.9.24."""
    return machine.rank_of(address, generic=space_of(instruction) == "generic")


def alloca(machine: Machine, instruction: Instruction, size: Value, align: Any = None) -> Value:
    """`alloca`: `size` bytes of the function's stack frame, as a local address, aligned to 8 bytes or more. 9.7.17.3."""
    e = machine.emitter
    bytes_align = max(align.bits if isinstance(align, Immediate) else 0, 8)
    if bytes_align > MAXIMUM_STACK_ALIGN or bytes_align & (bytes_align - 1):
        machine.refuse(f"alloca aligned to {bytes_align} bytes")
    start = e.add(machine.stack_pointer(), e.const("i64", bytes_align - 1))
    start = e.and_(start, e.const("i64", -bytes_align & (1 << 64) - 1))
    machine.move_stack(e.add(start, e.resize(size, 64)))
    return e.resize(start, type_bits(instruction.type))


def stacksave(machine: Machine, instruction: Instruction) -> Value:
    """`stacksave`: where the stack ends now. 9.7.17.1."""
    return machine.emitter.resize(machine.stack_pointer(), type_bits(instruction.type))


def stackrestore(machine: Machine, instruction: Instruction, pointer: Value) -> None:
    """`stackrestore`: back to where `stacksave` found the end of the stack. 9.7.17.2."""
    machine.move_stack(machine.emitter.resize(pointer, 64))
