"""One SSA node as LLVM text: operands, the op function, guards, results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cuttle.lower.amdgpu.calls import emit_call
from cuttle.lower.amdgpu.special import special_value
from cuttle.lower.emit import Value
from cuttle.lower.ops import dispatch
from cuttle.lower.ops.element_types import GENERATED_NAN
from cuttle.lower.ops.policy import policy
from cuttle.lower.passes.find_dirty_nans import carries_on, is_lazy
from cuttle.lower.passes.graph import Node, SsaAddress, SsaNegated, SsaOperand, SsaSelected, ValueRef
from cuttle.lower.passes.infer_shapes import flatten
from cuttle.ptx.ir import TYPE_BITS, Immediate, SpecialRegister, Symbol

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.function import FunctionWriter

CANONICAL_NAN = 0x7FFFFFFF
TRAP_FAULT = 3
QUIET_BIT = 1 << 51
# Opcodes whose f64 forms leave an invalid operation's NaN to the hardware.
GENERATING = frozenset(("add", "sub", "mul", "mad", "fma", "sqrt"))


class NodeWriter:
    """Writes the nodes of a function."""

    def __init__(self, writer: FunctionWriter) -> None:
        self.writer = writer
        self.emitter = writer.emitter
        self.machine = writer.machine
        self.plan = writer.plan
        self.any_nan = False

    # -- operands ----------------------------------------------------------------------------------------------------

    def value(self, operand: SsaOperand, type_name: str) -> Value:
        """A source operand as register bits of the type."""
        e = self.emitter
        if isinstance(operand, ValueRef):
            return self.writer.read(operand.id) if self.any_nan else self.canonical(operand.id)
        if isinstance(operand, Immediate):
            return dispatch.immediate(e, operand, type_name)
        if isinstance(operand, SsaNegated):
            return e.not_(self.writer.read(operand.ref.id))
        if isinstance(operand, SsaSelected):
            return self.canonical(operand.ref.id)
        if isinstance(operand, SpecialRegister):
            try:
                return special_value(self.writer, operand.name)
            except KeyError:
                self.machine.refuse(f"special register {operand.name} is not supported")
        if isinstance(operand, Symbol):
            return self.writer.symbol(operand)
        self.machine.refuse(f"operand {operand!r} is not supported here")

    def canonical(self, value: int) -> Value:
        """The value with NVIDIA's NaN in place of any other (`find_dirty_nans`)."""
        bits = self.writer.read(value)
        if value not in self.plan.dirty_nans:
            return bits
        known = self.writer.clean.get(value)
        if known is None:
            e = self.emitter
            number = e.bitcast(bits, "float")
            known = e.select(e.fcmp("uno", number, number), e.const("i32", CANONICAL_NAN), bits)
            self.writer.clean[value] = known
        return known

    def incoming(self, value: int, result: int) -> Value:
        """The value as a phi or a guarded `result` takes it in."""
        return self.writer.read(value) if result in self.plan.dirty_nans else self.canonical(value)

    def guard_value(self, node: Node) -> Value | None:
        if node.guard is None:
            return None
        value = self.writer.read(node.guard.id)
        return self.emitter.not_(value) if node.guard_negated else value

    # -- nodes -------------------------------------------------------------------------------------------------------

    def execute(self, node: Node) -> None:
        instruction = node.instruction
        self.machine.instruction = instruction
        guard = self.guard_value(node)
        if node.opcode in ("trap", "brkpt"):
            self.trap(guard, instruction.location.line)
            return
        if node.opcode == "call":
            emit_call(self, node)
            return
        row, _ = dispatch.find(instruction.opcode)
        self.any_nan = carries_on(node)
        lazy = is_lazy(node) and node.results[0] in self.plan.dirty_nans
        policy.exact_nan = self.plan.options.exact_nan and not lazy
        self.machine.result_unused = all(result is None or result not in self.plan.used for result in node.results)
        wanted = [result for result in node.results if result is not None]
        merges = self.merges(node)
        if guard is None or row.effects == "pure":
            values = self.apply(node)
            if guard is not None:
                values = [
                    new if old is None else self.emitter.select(guard, new, old)
                    for new, old in zip(values, merges, strict=True)
                ]
        else:
            kept = [
                old if old is not None else self.emitter.const(f"i{self.plan.graph.values[result].bits}", 0)
                for old, result in zip(merges, wanted, strict=True)
            ]
            values = self.writer.when(guard, lambda: self.apply(node), kept)
        self.any_nan = False
        for result, value in zip(wanted, values, strict=True):
            self.writer.write(result, value)

    def merges(self, node: Node) -> list[Value | None]:
        """For each wanted result, what lanes without the guard keep."""
        kept: list[Value | None] = []
        for index, result in enumerate(node.results):
            if result is None:
                continue
            merge = node.merges[index] if index < len(node.merges) else None
            kept.append(self.incoming(merge, result) if node.guard is not None and merge is not None else None)
        return kept

    def apply(self, node: Node) -> list[Value]:
        """The op function's results for the destinations that are wanted."""
        slots = dispatch.signature(node.instruction)
        operands = flatten(node.operands)
        values = [
            self.argument(operand, slots.sources[index] if index < len(slots.sources) else None)
            for index, operand in enumerate(operands)
        ]
        widths = []
        for index, slot in enumerate(slots.destinations):
            value = node.results[index] if index < len(node.results) else None
            widths.append(self.plan.graph.values[value].bits if value is not None else TYPE_BITS.get(slot.type, 32))
        results = dispatch.apply(self.machine, node.instruction, values, widths, slots)
        if node.opcode in GENERATING and node.instruction.type == "f64" and self.plan.options.exact_nan:
            results = (self.exact_nan(results[0], values), *results[1:])
        return [results[index] for index, result in enumerate(node.results) if result is not None]

    def exact_nan(self, result: Value, operands: list[Any]) -> Value:
        """An f64 result whose NaN is the one NVIDIA's hardware gives: that of an operand, made quiet, or a negative one.

        LLVM may swap operands, and AMD's hardware gives a positive NaN; so nothing is left to either.
        """
        e = self.emitter
        number = e.bitcast(result, "double")
        result = e.select(e.fcmp("uno", number, number), e.const("i64", GENERATED_NAN), result)
        a, b, *rest = [*operands, None]
        for operand in (a, *rest, b):  # the last one wins: b before c before a
            if operand is None:
                continue
            bits = e.as_bits(operand)
            number = e.bitcast(bits, "double")
            quiet = e.or_(bits, e.const("i64", QUIET_BIT))
            result = e.select(e.fcmp("uno", number, number), quiet, result)
        return result

    def argument(self, operand: SsaOperand, slot: dispatch.Slot | None) -> Any:
        if slot is None:  # the carry
            return self.value(operand, "pred")
        if slot.type == "X":
            return slot.operand
        if slot.type == "A" or isinstance(operand, SsaAddress):
            return operand
        return self.value(operand, slot.type)

    def trap(self, guard: Value | None, line: int) -> None:
        def end() -> list[Value]:
            self.machine.services.trap(TRAP_FAULT, line)
            return []

        if guard is None:
            end()
        else:
            self.writer.when(guard, end, [])
