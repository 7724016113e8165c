"""Inlines direct calls.

Every direct call to a function with a body is inlined, unless the function is recursive (part of a cycle in the call
graph), the shapes of call and function differ, or the caller would outgrow `MAX_STATEMENTS`. What remains as `call`:
indirect calls, calls of recursive functions and of functions without a body (vprintf, __assertfail, malloc, free).

Names of inlined functions' registers and labels get the suffix `::<n>`; `.local` and `.shared` variables become
`function::name`, the same for all copies: shared variables are one per block anyway, and two copies of a function that
does not recurse never live at the same time.

A call's argument and result variables, and the formal parameters of the inlined function, become one variable per
call, which `forward_parameters.py` turns into registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cuttle.lower.passes.call_graph import callees, in_cycles
from cuttle.lower.passes.clone_statements import Cloner
from cuttle.lower.passes.forward_parameters import Forwarder
from cuttle.lower.passes.graph import CallShape
from cuttle.ptx.ir import (
    Address,
    CallTarget,
    Function,
    Guard,
    Instruction,
    Label,
    LabelMark,
    Location,
    Module,
    Operand,
    Parameter,
    Register,
    Sink,
    Statement,
    Symbol,
    Variable,
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
                calls[name] = tuple(callees(self.module, body))
                pending.extend(calls[name])
        self.recursive = in_cycles([function.name], calls)
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
        Forwarder(self.module, result, shapes).run()
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
        clone = Cloner(suffix, names)
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
