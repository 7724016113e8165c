"""A kernel and the functions it may call as one numbered list of steps, and where their variables lie.

Each lane has an *activation* per function it is in, in its own local memory, one behind the other:

    0    u32 step to return to, u32 where the caller's activation begins
    8    u64 where the lane's stack ends: behind the activation, and behind what `alloca` has taken
    16   parameters at their offsets (none of the kernel's: those are the launch's), 16-byte aligned the results
    ...  `.local` and `.param` variables
    ...  registers, 16 bytes each
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cuttle.abi.kernel_abi import DRIVER_FUNCTIONS, FUNCTION_HANDLE_BASE
from cuttle.errors import PtxError
from cuttle.lower.ops.check_operands import check_called, check_function
from cuttle.ptx.address_taken import address_taken
from cuttle.ptx.ir import (
    Address,
    Function,
    Instruction,
    LabelMark,
    Location,
    Module,
    Operand,
    Parameter,
    Statement,
    Symbol,
    TextureOperand,
    Variable,
    Vector,
)
from cuttle.ptx.undefined import refuse_undefined

FORMALS_AT = 16
REGISTER_BYTES = 16
CARRY = "%cc"  # CC.CF, kept like a register of type pred
DYNAMIC_ALIGN = 16
STACK_END_AT = 8
# Registers lie on the stack: calls and `alloca` get so many times what the program's limit on a thread's stack says.
STACK_FACTOR = 4
TRAP = Instruction("trap", (), (), (), None, Location(0))
STACK_OPCODES = ("alloca", "stacksave", "stackrestore")


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def end_of(parameters: Sequence[Parameter]) -> int:
    """Where formal parameters end, 16-byte aligned."""
    return round_up(max((each.offset + each.size_bytes for each in parameters), default=0), 16)


@dataclass(slots=True)
class Activation:
    """Where things of one function lie in its activation; `bytes` is a multiple of `align`."""

    function: Function
    formals: dict[str, int]
    variables: dict[str, int]
    registers: dict[str, int]
    registers_at: int
    bytes: int
    align: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `kind` is `instruction`, `return_of` (what remains of a call when the callee has returned) or `end`."""

    number: int
    function: str
    kind: str
    instruction: Instruction


@dataclass(slots=True)
class Program:
    """Everything that is known before code is written. All offsets in bytes.

    `shared` are offsets in shared memory; unsized `extern` arrays begin at `dynamic_offset`. `symbols` are the module's
    global and const variables in the order of `cuttle_launch.symbols`. `labels` map (function, label) to step numbers.
    `local` are module-scope `.local` variables, at offsets in each lane's local memory. `named` are the kernel and the functions
    that calls by name lead to; only pointers lead to the others.
    """

    module: Module
    kernel: str
    named: frozenset[str] = frozenset()
    steps: list[Step] = field(default_factory=list)
    labels: dict[tuple[str, str], int] = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)
    activations: dict[str, Activation] = field(default_factory=dict)
    handles: dict[str, int] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    local: dict[str, int] = field(default_factory=dict)
    symbols: list[str] = field(default_factory=list)
    static_shared_bytes: int = 0
    dynamic_offset: int = 0
    uses_dynamic_shared: bool = False
    local_bytes: int = 0

    def resolve(self, name: str) -> str:
        return self.module.aliases.get(name, name)


def plan_program(module: Module, kernel: str, stack_bytes: int) -> Program:
    """Numbers the steps and lays out the memory; `stack_bytes` is the limit on a thread's stack. Raises PtxError if the
    module has no such kernel."""
    function = module.functions.get(module.aliases.get(kernel, kernel))
    if function is None or not function.is_entry or function.statements is None:
        raise PtxError("PTX-0301", f"there is no kernel {kernel} in the module")
    check_called(module, function)
    program = Program(module, function.name)
    program.handles = {name: FUNCTION_HANDLE_BASE | index for index, name in enumerate(address_taken(module))}
    program.named = frozenset(called_by_name(program, function))
    names = reachable(program, function)
    for name in names:
        number_steps(program, module.functions[name])
    lay_out_shared(program, names)
    lay_out_local(program, names, stack_bytes)
    return program


def reachable(program: Program, kernel: Function) -> list[str]:
    """The kernel and every function with a body that it may call, kernel first."""
    module = program.module
    found: dict[str, None] = {}
    pending = [kernel.name]
    while pending:
        name = pending.pop(0)
        function = module.functions.get(name)
        if name in found or function is None or function.statements is None:
            continue
        if name in DRIVER_FUNCTIONS and not function.is_entry:
            continue
        found[name] = None
        for statement in function.statements:
            if isinstance(statement, Instruction) and statement.call is not None:
                callee = statement.call.callee
                if isinstance(callee, Symbol):
                    pending.append(program.resolve(callee.name))
                else:
                    pending.extend(program.handles)
    return list(found)


def called_by_name(program: Program, kernel: Function) -> set[str]:
    """The kernel and every function that it may come to by calls that name their callee."""
    found: set[str] = set()
    pending = [kernel.name]
    while pending:
        name = pending.pop()
        function = program.module.functions.get(name)
        if name in found or function is None:
            continue
        found.add(name)
        for statement in function.statements or ():
            if isinstance(statement, Instruction) and statement.call is not None:
                callee = statement.call.callee
                if isinstance(callee, Symbol):
                    pending.append(program.resolve(callee.name))
    return found


def statements_of(program: Program, function: Function) -> Sequence[Statement]:
    """A function's statements. One that breaks the rules of its operands traps: only a pointer may lead there."""
    if function.name not in program.named:
        try:
            check_function(function, program.module.functions)
        except PtxError:
            return [TRAP]
    return function.statements or ()


def number_steps(program: Program, function: Function) -> None:
    name = function.name
    program.entries[name] = len(program.steps)

    def add(kind: str, instruction: Instruction) -> None:
        program.steps.append(Step(len(program.steps), name, kind, instruction))

    for statement in statements_of(program, function):
        if isinstance(statement, LabelMark):
            program.labels[name, statement.name] = len(program.steps)
            continue
        add("instruction", statement)
        if statement.call is not None:
            add("return_of", statement)
    add("end", Instruction("ret", (), (), (), None, Location(function.line)))


def used_names(function: Function) -> Iterator[str]:
    """Names of variables and functions that a function's operands mention."""

    def of(operand: Operand | None) -> Iterator[str]:
        if isinstance(operand, Symbol):
            yield operand.name
        elif isinstance(operand, Address):
            if isinstance(operand.base, Symbol):
                yield operand.base.name
        elif isinstance(operand, Vector):
            for element in operand.elements:
                yield from of(element)
        elif isinstance(operand, TextureOperand):
            yield from of(operand.texture)
            yield from of(operand.sampler)
            yield from of(operand.coordinates)

    for statement in function.statements or ():
        if isinstance(statement, Instruction):
            for operand in statement.operands:
                yield from of(operand)
            if statement.call is not None:
                for operand in statement.call.arguments:
                    yield from of(operand)


def variable_of(program: Program, function: Function, name: str) -> Variable | None:
    """The variable that a name means in a function."""
    return function.variables.get(name) or program.module.variables.get(program.resolve(name))


def lay_out_shared(program: Program, names: Sequence[str]) -> None:
    """Places of shared variables, the largest alignment first, and the numbers of global ones."""
    shared: dict[str, Variable] = {}
    dynamic: dict[str, Variable] = {}
    for function in (program.module.functions[name] for name in names):
        for name in used_names(function):
            variable = variable_of(program, function, name)
            if variable is None:
                continue
            if variable.space == "shared":
                (dynamic if variable.size_bytes == 0 else shared)[variable.name] = variable
            elif variable.space in ("global", "const") and variable.name not in program.symbols:
                refuse_undefined(variable)
                program.symbols.append(variable.name)
    at = 0
    for variable in sorted(shared.values(), key=lambda each: -each.align):
        at = round_up(at, max(variable.align, 1))
        program.shared[variable.name] = at
        at += variable.size_bytes
    program.static_shared_bytes = at
    program.dynamic_offset = round_up(at, max([DYNAMIC_ALIGN, *(each.align for each in dynamic.values())]))
    program.uses_dynamic_shared = bool(dynamic)
    program.shared.update(dict.fromkeys(dynamic, program.dynamic_offset))


def lay_out_local(program: Program, names: Sequence[str], stack_bytes: int) -> None:
    """Activations. Their sizes are multiples of the largest alignment, so every one of them begins aligned."""
    functions = [program.module.functions[name] for name in names]
    outer = {
        name: variable
        for function in functions
        for name in used_names(function)
        if name not in function.variables
        and (variable := program.module.variables.get(program.resolve(name))) is not None
        and variable.space == "local"
    }
    own = [each for function in functions for each in function.variables.values() if each.space in ("local", "param")]
    align = max([16, *(each.align for each in own), *(each.align for each in outer.values())])
    for function in functions:
        program.activations[function.name] = activation_of(function, align)
    at = program.activations[program.kernel].bytes
    for name, variable in outer.items():
        at = round_up(at, max(variable.align, 1))
        program.local[name] = at
        at += variable.size_bytes
    kernel = program.activations[program.kernel]
    kernel.bytes = round_up(at, align)
    grows = any(each.kind == "return_of" or each.instruction.opcode in STACK_OPCODES for each in program.steps)
    program.local_bytes = kernel.bytes + (round_up(STACK_FACTOR * stack_bytes, align) if grows else 0)


def activation_of(function: Function, align: int) -> Activation:
    formals: dict[str, int] = {}
    at = FORMALS_AT
    if not function.is_entry:
        formals = {parameter.name: FORMALS_AT + parameter.offset for parameter in function.parameters}
        results_at = FORMALS_AT + end_of(function.parameters)
        formals.update({result.name: results_at + result.offset for result in function.results})
        at = results_at + end_of(function.results)
    variables: dict[str, int] = {}
    for variable in function.variables.values():
        if variable.space in ("local", "param"):
            at = round_up(at, max(variable.align, 1))
            variables[variable.name] = at
            at += variable.size_bytes
    registers_at = round_up(at, REGISTER_BYTES)
    registers = {name: registers_at + index * REGISTER_BYTES for index, name in enumerate([*function.registers, CARRY])}
    end = registers_at + REGISTER_BYTES * len(registers)
    return Activation(function, formals, variables, registers, registers_at, round_up(end, align), align)
