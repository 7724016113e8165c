"""Checks on IR that hold for any PTX: names resolve, guards are predicates.

The parser already refuses text that breaks these rules; the validator is for IR that was made or changed by code
(linker, tests). Operand kinds per opcode are the business of the rows in `abi/ptx_isa`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from cuttle.errors import PtxError, Where
from cuttle.ptx.ir import (
    Address,
    Function,
    Instruction,
    Label,
    LabelMark,
    Module,
    Negated,
    Operand,
    PredicatePair,
    Register,
    SelectedRegister,
    SpecialRegister,
    Symbol,
    TextureOperand,
    Vector,
)
from cuttle.ptx.printer import print_instruction
from cuttle.ptx.special_registers import SPECIAL_REGISTERS


def validate_module(module: Module) -> list[PtxError]:
    """All violations in a module; empty if it is sound."""
    known = {*module.functions, *module.variables, *module.aliases}
    errors = []
    for variable in module.variables.values():
        for relocation in variable.relocations:
            if relocation.symbol not in known:
                message = f"the initialiser of `{variable.name}` names `{relocation.symbol}`, which is not defined"
                errors.append(PtxError("PTX-0203", message))
    for alias, target in module.aliases.items():
        if target not in module.functions:
            errors.append(PtxError("PTX-0203", f"the alias `{alias}` names the unknown function `{target}`"))
    for function in module.functions.values():
        errors.extend(validate_function(function, known))
    return errors


def validate_function(function: Function, module_names: Container[str] = ()) -> list[PtxError]:
    """All violations in one function. `module_names` are the functions, variables and aliases it may name."""
    return list(_Checker(function, module_names).violations())


class _Checker:
    def __init__(self, function: Function, module_names: Container[str]) -> None:
        self.function = function
        self.module_names = module_names
        self.local = {*function.variables, *(p.name for p in (*function.parameters, *function.results))}
        self.labels = {s.name for s in function.statements or () if isinstance(s, LabelMark)}

    def violations(self) -> Iterator[PtxError]:
        function = self.function
        for name, targets in function.branch_targets.items():
            for target in targets:
                if target not in self.labels:
                    yield PtxError(
                        "PTX-0202", f"`{name}` lists the undefined label `{target}`", Where(kernel=function.name)
                    )
        for name, targets in function.call_targets.items():
            for target in targets:
                if target not in self.module_names:
                    yield PtxError(
                        "PTX-0203", f"`{name}` lists the undefined function `{target}`", Where(kernel=function.name)
                    )
        for statement in function.statements or ():
            if isinstance(statement, Instruction):
                yield from self._instruction(statement)

    def _error(self, code: str, instruction: Instruction, message: str) -> PtxError:
        where = Where("", instruction.location.line, 0, self.function.name, print_instruction(instruction))
        return PtxError(code, message, where)

    def _instruction(self, instruction: Instruction) -> Iterator[PtxError]:
        function = self.function
        guard = instruction.guard
        if guard is not None and function.registers.get(guard.register.name) != "pred":
            yield self._error("PTX-0205", instruction, f"{guard.register.name} after @ is no predicate register")
        operands = instruction.operands
        call = instruction.call
        if (instruction.opcode == "call") != (call is not None):
            yield self._error("PTX-0207", instruction, "`call` and only `call` has call parts")
        if call is not None:
            operands = (call.callee, *call.results, *call.arguments)
            if isinstance(call.callee, Register) and call.prototype is None:
                yield self._error("PTX-0207", instruction, "an indirect call needs a prototype")
            if call.prototype and call.prototype not in function.prototypes | function.call_targets:
                yield self._error("PTX-0202", instruction, f"prototype `{call.prototype}` is not defined")
        for operand in operands:
            yield from self._operand(instruction, operand)

    def _operand(self, instruction: Instruction, operand: Operand) -> Iterator[PtxError]:
        match operand:
            case Register(name) | SelectedRegister(Register(name)) | Negated(Register(name)):
                if name not in self.function.registers:
                    yield self._error("PTX-0201", instruction, f"register {name} is not declared")
            case SpecialRegister(name):
                if name not in SPECIAL_REGISTERS:
                    yield self._error("PTX-0201", instruction, f"{name} is no special register")
            case Symbol(name):
                if name not in self.local and name not in self.module_names:
                    yield self._error("PTX-0203", instruction, f"`{name}` is not defined")
            case Address(base) if base is not None:
                yield from self._operand(instruction, base)
            case Vector(elements):
                for element in elements:
                    yield from self._operand(instruction, element)
            case PredicatePair(first, second):
                yield from self._operand(instruction, first)
                yield from self._operand(instruction, second)
            case TextureOperand(texture, sampler, coordinates):
                for part in (texture, sampler, coordinates):
                    if part is not None:
                        yield from self._operand(instruction, part)
            case Label(name):
                lists = self.function.branch_targets if instruction.opcode == "brx.idx" else self.labels
                if name not in lists:
                    yield self._error("PTX-0202", instruction, f"label `{name}` is not defined")
            case _:
                pass
