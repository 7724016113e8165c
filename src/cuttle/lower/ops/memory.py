"""ld, st and their relatives; hints are accepted and ignored (PTX ISA 9.0, 9.7.9)."""

from __future__ import annotations

from typing import Any

from cuttle.lower.emit import Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.common import type_bits
from cuttle.ptx.ir import Instruction, Vector

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


def ld(machine: Machine, instruction: Instruction, address: Any, policy: Value | None = None) -> tuple[Value, ...]:
    """`ld`, with `.nc` as a hint that the data does not change. 9.7.9.8, 9.7.9.9."""
    space = space_of(instruction)
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
    return tuple(machine.load(space_of(instruction), bits, count, address, read_only=True))


def st(machine: Machine, instruction: Instruction, address: Any, *values: Value) -> None:
    """`st`. 9.7.9.11."""
    emitter = machine.emitter
    count = element_count(instruction, 1)
    elements = [emitter.as_bits(value) for value in values[:count]]
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
