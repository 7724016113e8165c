"""Inline direct calls, and turn the `.param` variables that carry arguments into registers.

Every direct call to a function with a body is inlined, unless the function is recursive (part of a cycle in the call
graph), the shapes of call and function differ, or the caller would outgrow `MAX_STATEMENTS`. What remains as `call`:
indirect calls, calls of recursive functions and of functions without a body (vprintf, __assertfail, malloc, free).

Names of inlined functions' registers and labels get the suffix `::<n>`; `.local` and `.shared` variables become
`function::name`, the same for all copies: shared variables are one per block anyway, and two copies of a function that
does not recurse never live at the same time.

A call's argument and result variables, and the formal parameters of the inlined function, become one variable per
call. Where all its accesses are whole `ld.param`/`st.param` cells (any two accesses equal or disjoint), each cell turns
into a register `name[offset]`, and the accesses into moves and conversions, which cost nothing in SSA. All other such
variables (address taken, mixed sizes) become `.local` variables.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cuttle.lower.passes.graph import CallShape, Chunk
from cuttle.ptx.ir import (
    TYPE_BITS,
    Address,
    CallTarget,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    LabelMark,
    Location,
    Module,
    Negated,
    Operand,
    Parameter,
    PredicatePair,
    Register,
    SelectedRegister,
    Sink,
    Statement,
    Symbol,
    TextureOperand,
    Variable,
    Vector,
)

MAX_STATEMENTS = 60_000
NEVER_INLINED = frozenset({"vprintf", "__assertfail", "malloc", "free"})


@dataclass(slots=True)
class Inlined:
    """`function` is a copy of the caller with calls inlined (or the caller itself if it makes none).

    `shapes` maps the position of each remaining `call` in `function.statements` to its shape; its operands stand, in
    the shape's order, in the instruction's `call.arguments` (values only: registers, immediates, symbols) and
    `call.results` (registers or sinks). `needed` are the functions with a body that are still called directly or whose
    address is taken here.
    """

    function: Function
    shapes: dict[int, CallShape] = field(default_factory=dict)
    needed: tuple[str, ...] = ()


def inline_calls(module: Module, function: Function) -> Inlined:
    """Inline what can be inlined into `function`; the module and the function are left as they were."""
    return _Inliner(module).run(function)


def recursive_functions(module: Module) -> frozenset[str]:
    """Names of the functions that can reach themselves by direct calls."""
    calls = {name: tuple(_callees(module, f)) for name, f in module.functions.items()}
    return frozenset(_in_cycles(calls, calls))


def _callees(module: Module, function: Function) -> dict[str, None]:
    """Functions with a body that `function` calls directly, in order."""
    found: dict[str, None] = {}
    for statement in function.statements or ():
        if type(statement) is Instruction and statement.call is not None:
            callee = statement.call.callee
            if isinstance(callee, Symbol):
                name = module.aliases.get(callee.name, callee.name)
                target = module.functions.get(name)
                if target is not None and target.statements is not None:
                    found[name] = None
    return found


def _in_cycles(roots: Iterable[str], calls: dict[str, tuple[str, ...]]) -> set[str]:
    """Members of cycles among the functions reachable from `roots` (Tarjan, iterative)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    result: set[str] = set()
    for root in roots:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        work = [(root, iter(calls[root]))]
        while work:
            name, targets = work[-1]
            for target in targets:
                if target not in number:
                    number[target] = low[target] = len(number)
                    path.append(target)
                    on_path.add(target)
                    work.append((target, iter(calls[target])))
                    break
                if target in on_path:
                    low[name] = min(low[name], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    component = set()
                    while True:
                        member = path.pop()
                        on_path.discard(member)
                        component.add(member)
                        if member == name:
                            break
                    if len(component) > 1 or name in calls[name]:
                        result |= component
    return result


class _Inliner:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.flat: dict[str, Inlined] = {}
        self.recursive: set[str] = set()
        self.copies = 0

    def run(self, function: Function) -> Inlined:
        if not any(type(s) is Instruction and s.call is not None for s in function.statements or ()):
            return Inlined(function, {}, self._needed(function))
        calls: dict[str, tuple[str, ...]] = {}
        order: list[str] = []
        pending = [function.name]
        while pending:
            name = pending.pop()
            if name not in calls:
                body = function if name == function.name else self.module.functions[name]
                calls[name] = tuple(_callees(self.module, body))
                pending.extend(calls[name])
        self.recursive = _in_cycles([function.name], calls)
        done: set[str] = set()
        work = [(function.name, False)]
        while work:  # callees first
            name, ready = work.pop()
            if ready:
                order.append(name)
            elif name not in done:
                done.add(name)
                work.append((name, True))
                work.extend((callee, False) for callee in calls[name] if callee not in self.recursive)
        for name in order:
            self.flat[name] = self._flatten(function if name == function.name else self.module.functions[name])
        result = self.flat[function.name]
        result.needed = self._needed(result.function)
        return result

    def _needed(self, function: Function) -> tuple[str, ...]:
        module = self.module
        found: dict[str, None] = {}
        for statement in function.statements or ():
            if type(statement) is not Instruction:
                continue
            operands = statement.operands
            call = statement.call
            if call is not None:
                operands = (*operands, *call.arguments, call.callee)
            for operand in operands:
                if type(operand) is Symbol:
                    name = module.aliases.get(operand.name, operand.name)
                    target = module.functions.get(name)
                    if target is not None and target.statements is not None and name not in function.variables:
                        found[name] = None
        return tuple(found)

    # -- one function ---------------------------------------------------------------------------------------------

    def _flatten(self, function: Function) -> Inlined:
        """Inline the flattened callees into a copy of `function`, then forward its `.param` variables."""
        result = replace(
            function,
            registers=dict(function.registers),
            variables=dict(function.variables),
            prototypes=dict(function.prototypes),
            branch_targets=dict(function.branch_targets),
            call_targets=dict(function.call_targets),
            statements=[],
        )
        out = result.statements
        assert out is not None
        shapes: dict[int, CallShape] = {}
        budget = MAX_STATEMENTS - len(function.statements or ())
        for statement in function.statements or ():
            if type(statement) is not Instruction or statement.call is None:
                out.append(statement)
                continue
            call = statement.call
            callee = self._inlinable(call, budget)
            skip = None
            if statement.guard is not None:
                self.copies += 1
                skip = f"call::{self.copies}"
                guard = Guard(statement.guard.register, not statement.guard.negated)
                uniform = ("uni",) if statement.has("uni") else ()
                out.append(Instruction("bra", uniform, (), (Label(skip),), guard, statement.location))
                statement = replace(statement, guard=None)
            if callee is None:
                out.append(statement)
            else:
                budget -= len(callee.function.statements or ())
                self._splice(result, callee, call, statement.location, out, shapes)
            if skip is not None:
                out.append(LabelMark(skip))
        _Forwarder(self.module, result, shapes).run()
        return Inlined(result, shapes)

    def _inlinable(self, call: CallTarget, budget: int) -> Inlined | None:
        if not isinstance(call.callee, Symbol):
            return None
        name = self.module.aliases.get(call.callee.name, call.callee.name)
        if name in self.recursive or name in NEVER_INLINED:
            return None
        flat = self.flat.get(name)
        if flat is None or len(flat.function.statements or ()) > budget:
            return None
        if len(call.arguments) != len(flat.function.parameters) or len(call.results) > len(flat.function.results):
            return None
        return flat

    def _splice(
        self,
        caller: Function,
        flat: Inlined,
        call: CallTarget,
        location: Location,
        out: list[Statement],
        shapes: dict[int, CallShape],
    ) -> None:
        """Append a renamed copy of a flattened callee."""
        callee = flat.function
        self.copies += 1
        suffix = f"::{self.copies}"
        names: dict[str, str] = {}
        for name, variable in callee.variables.items():
            new = name if "::" in name else f"{callee.name}::{name}"
            names[name] = new
            caller.variables[new] = replace(variable, name=new)
        before: list[Statement] = []
        after: list[Statement] = []
        actuals = [*call.results, *(Sink() for _ in range(len(callee.results) - len(call.results)))]
        for formal, actual in zip(callee.results, actuals, strict=True):
            self._bind(caller, formal, actual, suffix, location, names, after, False)
        for formal, actual in zip(callee.parameters, call.arguments, strict=True):
            self._bind(caller, formal, actual, suffix, location, names, before, True)
        clone = _Cloner(suffix, names)
        for name, type_name in callee.registers.items():
            caller.registers[clone.register(name).name] = type_name
        for name, prototype in callee.prototypes.items():
            caller.prototypes[name + suffix] = prototype
        for name, targets in callee.branch_targets.items():
            caller.branch_targets[name + suffix] = tuple(target + suffix for target in targets)
        for name, targets in callee.call_targets.items():
            caller.call_targets[name + suffix] = targets
        out.extend(before)
        end = f"return{suffix}"
        statements = callee.statements or []
        jumped = False
        for position, statement in enumerate(statements):
            if type(statement) is LabelMark:
                out.append(LabelMark(statement.name + suffix))
            elif type(statement) is Instruction:
                if statement.opcode == "ret":
                    if position == len(statements) - 1 and statement.guard is None:
                        continue
                    jumped = True
                    guard = clone.guard(statement.guard)
                    out.append(Instruction("bra", statement.modifiers, (), (Label(end),), guard, statement.location))
                    continue
                shape = flat.shapes.get(position)
                if shape is not None:
                    shapes[len(out)] = clone.shape(shape)
                out.append(clone.instruction(statement))
        if jumped:
            out.append(LabelMark(end))
        out.extend(after)

    def _bind(
        self,
        caller: Function,
        formal: Parameter,
        actual: Operand,
        suffix: str,
        location: Location,
        names: dict[str, str],
        moves: list[Statement],
        into: bool,
    ) -> None:
        """Make a formal parameter of an inlined function name the variable (or register) of the call."""
        kind = "b" + str(8 * formal.size_bytes)
        if isinstance(actual, Symbol) and actual.name in caller.variables and actual.offset == 0:
            variable = actual.name
            if formal.space != "reg":
                names[formal.name] = variable
                return
            inside = Register(formal.name + suffix)
            access = (inside, Address(Symbol(variable))) if into else (Address(Symbol(variable)), inside)
            moves.append(Instruction("ld" if into else "st", ("param", kind), (kind,), access, None, location))
            return
        if formal.space != "reg":
            variable = f"{formal.name}{suffix}"
            names[formal.name] = variable
            caller.variables[variable] = Variable(variable, "param", formal.type, formal.size_bytes, formal.align)
            if isinstance(actual, Sink):
                return
            place = Address(Symbol(variable))
            access2 = (place, actual) if into else (actual, place)
            moves.append(Instruction("st" if into else "ld", ("param", kind), (kind,), access2, None, location))
            return
        if isinstance(actual, Sink):
            return
        inside = Register(formal.name + suffix)
        pair: tuple[Operand, Operand] = (inside, actual) if into else (actual, inside)
        if formal.type == "pred":
            kind = "pred"
        moves.append(Instruction("mov", (kind,), (kind,), pair, None, location))


class _Cloner:
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


Cell = tuple[int, int]


class _Forwarder:
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
