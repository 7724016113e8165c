"""atom and red (PTX ISA 9.0, 9.7.13.5, 9.7.13.6)."""

from __future__ import annotations

from typing import Any

from cuttle.lower.emit import Value
from cuttle.lower.machine import Machine
from cuttle.lower.ops.element_types import type_bits
from cuttle.lower.ops.memory import access_bytes, space_of
from cuttle.ptx.ir import Instruction, Sink, Vector

_OPERATIONS = frozenset("add min max and or xor exch cas inc dec".split())
_ORDERINGS = ("relaxed", "acquire", "release", "acq_rel")
_SCOPES = ("cta", "cluster", "gpu", "sys")


def _float_add(instruction: Instruction) -> str:
    """The kind of addition of a float atomic, as recorded: memory and shared memory add in different units."""
    shared = space_of(instruction) == "shared"
    if instruction.type == "f32" and not shared:
        return "add_ftz"
    if instruction.type == "f64":
        return "add_old_nan" if shared else "add_signaling"
    return "add"


def _atomic(
    machine: Machine, instruction: Instruction, address: Any, operands: tuple[Value, ...], want_result: bool
) -> Value | None:
    emitter = machine.emitter
    operation = next(modifier for modifier in instruction.modifiers if modifier in _OPERATIONS)
    if operation == "add":
        operation = _float_add(instruction)
    ordering = next((name for name in _ORDERINGS if instruction.has(name)), "relaxed")
    scope = next((name for name in _SCOPES if instruction.has(name)), "gpu")
    return machine.atomic(
        operation,
        instruction.type,
        space_of(instruction),
        address,
        [emitter.as_bits(value) for value in operands],
        want_result=want_result,
        ordering=ordering,
        scope=scope,
    )


def _elements(
    machine: Machine, instruction: Instruction, address: Any, values: tuple[Value, ...], want_result: bool
) -> tuple[Value, ...]:
    """A vector form: one atomic per element, as the manual promises no more."""
    size = type_bits(instruction.type) // 8
    results: list[Value] = []
    for index, value in enumerate(values):
        place = machine.advance(address, index * size) if index else address
        result = _atomic(machine, instruction, place, (value,), want_result)
        if result is not None:
            results.append(result)
    return tuple(results)


def atom(machine: Machine, instruction: Instruction, address: Any, *operands: Value) -> tuple[Value, ...] | None:
    """`atom`: the old value, where a destination wants it. 9.7.13.5."""
    destination, source = instruction.operands[0], instruction.operands[2]
    want_result = not isinstance(destination, Sink)
    machine.expect_aligned(space_of(instruction), address, access_bytes(instruction, 2))
    if isinstance(source, Vector):
        return _elements(machine, instruction, address, operands[: len(source.elements)], want_result)
    count = 2 if instruction.has("cas") else 1
    old = _atomic(machine, instruction, address, operands[:count], want_result)
    if old is None:
        return (machine.emitter.const(f"i{type_bits(instruction.type)}", 0),)
    return (old,)


def red(machine: Machine, instruction: Instruction, address: Any, *operands: Value) -> None:
    """`red`: an atomic without result. 9.7.13.6."""
    source = instruction.operands[1]
    machine.expect_aligned(space_of(instruction), address, access_bytes(instruction, 1))
    if isinstance(source, Vector):
        _elements(machine, instruction, address, operands[: len(source.elements)], want_result=False)
    else:
        _atomic(machine, instruction, address, operands[:1], want_result=False)
