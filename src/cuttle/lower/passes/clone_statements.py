"""Copies of an inlined function's statements: their registers and labels get a suffix, their variables new names."""

from __future__ import annotations

from dataclasses import replace

from cuttle.lower.passes.graph import CallShape
from cuttle.ptx.ir import (
    Address,
    CallTarget,
    Guard,
    Instruction,
    Label,
    Negated,
    Operand,
    PredicatePair,
    Register,
    SelectedRegister,
    Sink,
    Symbol,
    TextureOperand,
    Vector,
)


class Cloner:
    """Copies instructions with registers and labels suffixed, and variables renamed."""

    def __init__(self, suffix: str, names: dict[str, str]) -> None:
        self.suffix = suffix
        self.names = names
        self.memo: dict[Operand, Operand] = {}
        self.registers: dict[str, Register] = {}

    def register(self, name: str) -> Register:
        found = self.registers.get(name)
        if found is None:
            found = self.registers[name] = Register(name + self.suffix)
        return found

    def guard(self, guard: Guard | None) -> Guard | None:
        return None if guard is None else Guard(self.register(guard.register.name), guard.negated)

    def operand(self, operand: Operand) -> Operand:
        if type(operand) is Register:
            return self.register(operand.name)
        found = self.memo.get(operand)
        if found is None:
            found = self.memo[operand] = self._copy(operand)
        return found

    def _copy(self, operand: Operand) -> Operand:
        if isinstance(operand, Symbol):
            return Symbol(self.names.get(operand.name, operand.name), operand.offset)
        if isinstance(operand, Address):
            base = operand.base
            return operand if base is None else Address(self._base(base), operand.offset)
        if isinstance(operand, Vector):
            return Vector(tuple(self.operand(element) for element in operand.elements))
        if isinstance(operand, Label):
            return Label(operand.name + self.suffix)
        if isinstance(operand, Negated):
            return Negated(self.register(operand.register.name))
        if isinstance(operand, SelectedRegister):
            return SelectedRegister(self.register(operand.register.name), operand.selector, operand.negated)
        if isinstance(operand, PredicatePair):
            first = operand.first
            if isinstance(first, Vector):
                return PredicatePair(Vector(tuple(self.operand(e) for e in first.elements)), self._half(operand.second))
            return PredicatePair(self._half(first), self._half(operand.second))
        if isinstance(operand, TextureOperand):
            sampler = None if operand.sampler is None else self._base(operand.sampler)
            coordinates = Vector(tuple(self.operand(element) for element in operand.coordinates.elements))
            return TextureOperand(self._base(operand.texture), sampler, coordinates)
        return operand

    def _base(self, base: Register | Symbol) -> Register | Symbol:
        if isinstance(base, Register):
            return self.register(base.name)
        return Symbol(self.names.get(base.name, base.name), base.offset)

    def _half(self, half: Register | Sink) -> Register | Sink:
        return self.register(half.name) if isinstance(half, Register) else half

    def shape(self, shape: CallShape) -> CallShape:
        return replace(
            shape,
            buffers=tuple(self.names.get(n, n) if n is not None else None for n in shape.buffers),
            result_buffers=tuple(self.names.get(n, n) if n is not None else None for n in shape.result_buffers),
            prototype=None if shape.prototype is None else shape.prototype + self.suffix,
        )

    def instruction(self, old: Instruction) -> Instruction:
        operand = self.operand
        call = old.call
        if call is not None:
            callee = self.register(call.callee.name) if isinstance(call.callee, Register) else call.callee
            call = CallTarget(
                callee,
                tuple(operand(result) for result in call.results),
                tuple(operand(argument) for argument in call.arguments),
                None if call.prototype is None else call.prototype + self.suffix,
            )
        modifiers = old.modifiers
        if old.opcode in ("ld", "st") and "param" in modifiers:
            place = old.operands[0 if old.opcode == "st" else -1]
            if isinstance(place, Address) and not isinstance(place.base, Symbol):
                # A formal parameter whose address was taken lives in local memory (PTX ISA, mov).
                modifiers = tuple("local" if m.startswith("param") else m for m in modifiers)
        return Instruction(
            old.opcode,
            modifiers,
            old.types,
            tuple([operand(o) for o in old.operands]),
            self.guard(old.guard),
            old.location,
            call,
        )
