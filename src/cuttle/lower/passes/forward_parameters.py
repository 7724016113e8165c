"""Turns the `.param` variables that carry arguments and results of calls into registers.

Where all accesses of such a variable are whole `ld.param`/`st.param` cells (any two accesses equal or disjoint), each cell turns
into a register `name[offset]`, and the accesses into moves and conversions, which cost nothing in SSA. All other such variables
(address taken, mixed sizes) become `.local` variables.
"""

from __future__ import annotations

from dataclasses import replace

from cuttle.lower.passes.graph import CallShape, Chunk
from cuttle.ptx.ir import (
    TYPE_BITS,
    Address,
    CallTarget,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Parameter,
    Register,
    Sink,
    Statement,
    Symbol,
    Variable,
    Vector,
)

Cell = tuple[int, int]


class Forwarder:
    """Turns a function's own `.param` variables into registers, or into `.local` variables."""

    def __init__(self, module: Module, function: Function, shapes: dict[int, CallShape]) -> None:
        self.module = module
        self.function = function
        self.shapes = shapes
        self.cells: dict[str, dict[Cell, Register]] = {}

    def run(self) -> None:
        function = self.function
        statements = function.statements or []
        candidates = {name for name, variable in function.variables.items() if variable.space == "param"}
        if candidates or any(type(s) is Instruction and s.call is not None for s in statements):
            self._find_cells(statements, candidates)
            self._rewrite(statements)

    def _find_cells(self, statements: list[Statement], candidates: set[str]) -> None:
        found: dict[str, set[Cell]] = {name: set() for name in candidates}
        bad: set[str] = set()
        for position, statement in enumerate(statements):
            if type(statement) is not Instruction:
                continue
            if statement.call is not None:
                if position in self.shapes:
                    continue
                for actual, formal in self._formals(statement.call):
                    if isinstance(actual, Symbol) and actual.name in found and formal is not None:
                        size = min(formal.size_bytes, function_bytes(self.function.variables[actual.name]))
                        if size in (1, 2, 4, 8, 16) and formal.size_bytes == TYPE_BITS.get(formal.type, 0) // 8:
                            found[actual.name].add((0, size))
                continue
            cells = _param_cells(statement)
            for operand in statement.operands:
                if isinstance(operand, Symbol):
                    bad.add(operand.name)
                elif isinstance(operand, Vector):
                    bad.update(element.name for element in operand.elements if isinstance(element, Symbol))
                elif isinstance(operand, Address) and isinstance(operand.base, Symbol) and operand.base.name in found:
                    if cells is None:
                        bad.add(operand.base.name)
                    else:
                        found[operand.base.name].update(cells)
        for name, accessed in found.items():
            variable = self.function.variables[name]
            limit = function_bytes(variable)
            end = 0
            fine = name not in bad
            for offset, size in sorted(accessed):
                if offset < end or offset + size > limit:
                    fine = False
                end = offset + size
            if not fine:
                self.function.variables[name] = replace(variable, space="local")
                continue
            del self.function.variables[name]
            cells_of = self.cells[name] = {}
            for offset, size in sorted(accessed):
                register = Register(f"{name}[{offset}]" if "::" in name else f"{self.function.name}::{name}[{offset}]")
                cells_of[offset, size] = register
                self.function.registers[register.name] = f"b{max(16, 8 * size)}"

    def _formals(self, call: CallTarget) -> list[tuple[Operand, Parameter | None]]:
        """The actual arguments and results with the formal parameters they meet (None if unknown)."""
        results: tuple[Parameter, ...] = ()
        parameters: tuple[Parameter, ...] = ()
        if isinstance(call.callee, Symbol):
            target = self.module.functions.get(self.module.aliases.get(call.callee.name, call.callee.name))
            if target is not None:
                results, parameters = target.results, target.parameters
        else:
            prototype = self.function.prototypes.get(call.prototype or "")
            if prototype is not None:
                results, parameters = prototype.results, prototype.parameters
            else:
                for name in self.function.call_targets.get(call.prototype or "", ())[:1]:
                    target = self.module.functions.get(name)
                    if target is not None:
                        results, parameters = target.results, target.parameters
        pairs: list[tuple[Operand, Parameter | None]] = []
        for actuals, formals in ((call.results, results), (call.arguments, parameters)):
            for position, actual in enumerate(actuals):
                pairs.append((actual, formals[position] if position < len(formals) else None))
        return pairs

    def _rewrite(self, statements: list[Statement]) -> None:
        out: list[Statement] = []
        shapes: dict[int, CallShape] = {}
        for position, statement in enumerate(statements):
            if type(statement) is not Instruction:
                out.append(statement)
                continue
            if statement.call is not None:
                shape = self.shapes.get(position)
                if shape is None:
                    statement, shape = self._call(statement)
                shapes[len(out)] = shape
                out.append(statement)
                continue
            name = _param_name(statement)
            if name is None:
                out.append(statement)
            elif name in self.cells:
                self._access(statement, self.cells[name], out)
            elif name in self.function.variables:
                modifiers = tuple("local" if m.startswith("param") else m for m in statement.modifiers)
                out.append(replace(statement, modifiers=modifiers))
            else:
                out.append(statement)
        self.function.statements = out
        self.shapes.clear()
        self.shapes.update(shapes)

    def _access(self, statement: Instruction, cells: dict[Cell, Register], out: list[Statement]) -> None:
        """An `ld.param` or `st.param` of cells as moves."""
        store = statement.opcode == "st"
        value = statement.operands[1] if store else statement.operands[0]
        elements = value.elements if isinstance(value, Vector) else (value,)
        kind = statement.type
        copies: list[tuple[Operand, Operand, str, int]] = []
        for cell, element in zip(_param_cells(statement) or (), elements, strict=True):
            if isinstance(element, Sink):
                continue
            register = cells[cell]
            bits = TYPE_BITS[kind]
            if isinstance(element, Register):
                bits = TYPE_BITS[self.function.registers.get(element.name, kind)]
            pair: tuple[Operand, Operand] = (register, element) if store else (element, register)
            copies.append((*pair, kind, bits))
        for target, source, kind, bits in copies:
            out.append(_copy(target, source, kind, bits, store, statement))

    def _call(self, statement: Instruction) -> tuple[Instruction, CallShape]:
        call = statement.call
        assert call is not None
        formals = self._formals(call)
        values: list[Operand] = []
        chunks: list[tuple[Chunk, ...]] = []
        buffers: list[str | None] = []
        results: list[Operand] = []
        result_chunks: list[tuple[Chunk, ...]] = []
        result_buffers: list[str | None] = []
        for position, (actual, formal) in enumerate(formals):
            returned = position < len(call.results)
            operands = results if returned else values
            buffer = None
            if isinstance(actual, Symbol) and actual.name in self.cells:
                cells = self.cells[actual.name]
                operands.extend(cells.values())
                shape = tuple(Chunk(offset, size) for offset, size in cells)
            elif isinstance(actual, Symbol) and actual.name in self.function.variables:
                buffer = actual.name
                size = function_bytes(self.function.variables[buffer])
                shape = () if returned else (Chunk(0, size),)
                if not returned:
                    operands.append(actual)
            else:
                size = formal.size_bytes if formal is not None else self._bytes(actual)
                operands.append(actual)
                shape = (Chunk(0, size),)
            (result_chunks if returned else chunks).append(shape)
            (result_buffers if returned else buffers).append(buffer)
        callee = None
        if isinstance(call.callee, Symbol):
            callee = self.module.aliases.get(call.callee.name, call.callee.name)
        shape_of = CallShape(
            callee, tuple(chunks), tuple(result_chunks), tuple(buffers), tuple(result_buffers), call.prototype
        )
        target = CallTarget(call.callee, tuple(results), tuple(values), call.prototype)
        return replace(statement, call=target), shape_of

    def _bytes(self, operand: Operand) -> int:
        if isinstance(operand, Register):
            return TYPE_BITS[self.function.registers.get(operand.name, "b32")] // 8
        return 8 if isinstance(operand, Symbol) else 4


def function_bytes(variable: Variable) -> int:
    """Size of a variable in bytes, at least that of one element."""
    return max(variable.size_bytes, TYPE_BITS.get(variable.type, 8) // 8)


def _param_name(instruction: Instruction) -> str | None:
    """The variable that an `ld` or `st` with a symbolic address accesses."""
    if instruction.opcode not in ("ld", "st"):
        return None
    place = instruction.operands[0 if instruction.opcode == "st" else -1]
    if isinstance(place, Address) and isinstance(place.base, Symbol):
        return place.base.name
    return None


def _param_cells(instruction: Instruction) -> list[Cell] | None:
    """The byte cells that an `ld.param`/`st.param` accesses; None for any other instruction."""
    if _param_name(instruction) is None or not any(m.startswith("param") for m in instruction.modifiers):
        return None
    store = instruction.opcode == "st"
    place = instruction.operands[0 if store else -1]
    value = instruction.operands[1 if store else 0]
    assert isinstance(place, Address) and isinstance(place.base, Symbol)
    size = TYPE_BITS.get(instruction.type, 0) // 8
    if size == 0:
        return None
    start = place.offset + place.base.offset
    count = len(value.elements) if isinstance(value, Vector) else 1
    return [(start + size * index, size) for index in range(count)]


def _copy(target: Operand, source: Operand, kind: str, bits: int, store: bool, old: Instruction) -> Instruction:
    """Move between a register of `bits` bits and a cell of type `kind`, as `st.param`/`ld.param` would.

    A store truncates, a load extends: by sign for `s` types, else with zeros (PTX ISA, ld). Byte cells are registers of
    16 bits whose upper half is ignored.
    """
    width = TYPE_BITS[kind]
    if width == bits or (width == 8 and bits == 16 and store) or isinstance(source, Immediate):
        move = kind if width > 8 else "b16"
        return Instruction("mov", (move,), (move,), (target, source), old.guard, old.location)
    if store:
        types = (f"u{max(width, 16)}", f"u{bits}")
    else:
        sign = "s" if kind[0] == "s" else "u"
        types = (f"{sign}{bits}", f"{sign}{width}")
    return Instruction("cvt", types, types, (target, source), old.guard, old.location)
