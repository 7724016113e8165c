"""Calls of the plain leg: arguments are copied into the callee's activation, results out of it."""

from __future__ import annotations

from cuttle.abi.kernel_abi import DRIVER_FUNCTIONS
from cuttle.lower.emit import Value
from cuttle.lower.ops import dispatch
from cuttle.lower.ops.called_formals import formals_of
from cuttle.lower.plain.lane_machine import LaneMachine
from cuttle.lower.plain.lane_record import BASE_AT, EXITED, PC_AT, STATUS_AT
from cuttle.lower.plain.program import FORMALS_AT, STACK_END_AT, Step, end_of
from cuttle.ptx.ir import (
    TYPE_BITS,
    Function,
    Immediate,
    Operand,
    Parameter,
    Prototype,
    Register,
    Symbol,
    matches_call,
    parameter_registers,
)

STACK_FAULT, BAD_TARGET_FAULT = 5, 7


def formals_of_step(machine: LaneMachine, step: Step) -> Function | Prototype:
    """What a call's arguments and results are laid out by."""
    target = step.instruction.call
    assert target is not None
    callee = target.callee.name if isinstance(target.callee, Symbol) else None
    caller = machine.activation.function
    return formals_of(machine.program.module, caller, step.instruction, callee, target.prototype, len(target.arguments))


def driver_function(step: Step, machine: LaneMachine) -> str | None:
    """The name of the host service that a call means, if it is one."""
    target = step.instruction.call
    if target is None or not isinstance(target.callee, Symbol):
        return None
    name = machine.program.resolve(target.callee.name)
    return name if name in DRIVER_FUNCTIONS else None


def write_call(machine: LaneMachine, step: Step) -> None:
    """Everything up to the callee's first step; for a host service, all of it."""
    e, target = machine.emitter, step.instruction.call
    assert target is not None
    name = driver_function(step, machine)
    if name is not None:
        service, bits = DRIVER_FUNCTIONS[name]
        arguments = [scalar_argument(machine, operand) for operand in target.arguments][:4]
        result = machine.service(service, arguments, bits)
        if result is not None and target.results:
            put_result(machine, target.results[0], result)
        return
    formals = formals_of_step(machine, step)
    new_base = end_of_stack(machine)
    callee = machine.offset(Value("ptr", "%mine"), new_base)
    # The largest activation that may follow must fit.
    largest = max(each.bytes for each in machine.program.activations.values())
    fits = e.icmp("ule", new_base, e.const("i64", max(machine.program.local_bytes - largest, 0)))
    room, full = machine.label("room"), machine.label("overflow")
    e.line(f"br {fits.typed}, label %{room}, label %{full}")
    machine.mark(full)
    machine.service("trap", [e.const("i64", STACK_FAULT), e.const("i64", step.instruction.location.line)])
    e.line("unreachable")
    machine.mark(room)
    for operand, parameter in zip(target.arguments, formals.parameters, strict=True):
        put_argument(machine, operand, parameter, machine.offset(callee, FORMALS_AT + parameter.offset))
    e.line(f"store i32 {step.number + 1}, {callee.typed}")
    e.line(f"store i32 %base.short, {machine.offset(callee, 4).typed}")
    machine.set_word(BASE_AT, e.cast("trunc", new_base, "i32"))
    if isinstance(target.callee, Symbol):
        enter(machine, machine.program.resolve(target.callee.name), callee)
        return
    enter_by_handle(machine, step, formals, callee)


def end_of_stack(machine: LaneMachine) -> Value:
    """Where the next activation begins in the lane's local memory (i64)."""
    e, align = machine.emitter, machine.activation.align
    return e.and_(e.add(machine.stack_pointer(), e.const("i64", align - 1)), e.const("i64", -align))


def enter_by_handle(machine: LaneMachine, step: Step, formals: Function | Prototype, callee: Value) -> None:
    e, target = machine.emitter, step.instruction.call
    assert target is not None and isinstance(target.callee, Register)
    handle = e.resize(machine.read_register(target.callee.name), 64)
    done, bad = machine.label("entered"), machine.label("nothing")
    candidates = [
        (number, name, machine.label("enter"))
        for name, number in machine.program.handles.items()
        if name in machine.program.activations and matches_call(machine.program.module.functions[name], formals)
    ]
    cases = " ".join(f"i64 {number}, label %{label}" for number, _, label in candidates)
    e.line(f"switch {handle.typed}, label %{bad} [ {cases} ]")
    for _, name, label in candidates:
        machine.mark(label)
        enter(machine, name, callee)
        e.line(f"br label %{done}")
    machine.mark(bad)
    machine.service("trap", [e.const("i64", BAD_TARGET_FAULT), e.const("i64", step.instruction.location.line)])
    e.line("unreachable")
    machine.mark(done)


def enter(machine: LaneMachine, name: str, callee: Value) -> None:
    """The lane stands at the first step of a function: registers are 0, but for those that are parameters."""
    e, activation = machine.emitter, machine.program.activations[name]
    clear(machine, machine.offset(callee, activation.registers_at), activation.bytes - activation.registers_at)
    base = e.sub(machine.number_of(callee), machine.number_of(Value("ptr", "%mine")))
    end = e.add(base, e.const("i64", activation.bytes))
    e.line(f"store {end.typed}, {machine.offset(callee, STACK_END_AT).typed}")
    for parameter in activation.function.parameters:
        if parameter.space != "reg":
            continue
        names = parameter_registers(parameter)
        size = parameter.size_bytes // len(names)
        for index, register in enumerate(names):
            if register in activation.registers:
                bits = TYPE_BITS[activation.function.registers[register]]
                value = machine.read(callee, f"i{8 * size}", FORMALS_AT + parameter.offset + index * size)
                content = e.resize(e.resize(value, bits), max(bits, 8))
                place = machine.offset(callee, activation.registers[register])
                e.line(f"store {content.typed}, {place.typed}, align 1")
    machine.set_word(PC_AT, e.const("i32", machine.program.entries[name]))


def clear(machine: LaneMachine, place: Value, size: int) -> None:
    e = machine.emitter
    e.declare("@llvm.memset.p0.i64", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    e.line(f"call void @llvm.memset.p0.i64({place.typed}, i8 0, i64 {size}, i1 false)")


def write_return(machine: LaneMachine) -> None:
    """`ret`: the end of a kernel's lane, or back to the caller."""
    e, activation = machine.emitter, machine.activation
    function = activation.function
    if function.is_entry:
        machine.set_word(STATUS_AT, e.const("i32", EXITED))
        return
    for result in function.results:
        if result.space != "reg":
            continue
        names = parameter_registers(result)
        size = result.size_bytes // len(names)
        for index, register in enumerate(names):
            if register in activation.registers:
                value = e.resize(machine.read_register(register), 8 * size)
                place = machine.offset(Value("ptr", "%me"), activation.formals[result.name] + index * size)
                e.line(f"store {value.typed}, {place.typed}, align 1")
    machine.set_word(PC_AT, machine.read(Value("ptr", "%me"), "i32", 0))
    machine.set_word(BASE_AT, machine.read(Value("ptr", "%me"), "i32", 4))


def write_return_of_call(machine: LaneMachine, step: Step) -> None:
    """Takes the results out of the activation that has just ended."""
    target = step.instruction.call
    assert target is not None
    if driver_function(step, machine) is not None:
        return
    e, formals = machine.emitter, formals_of_step(machine, step)
    callee = machine.offset(Value("ptr", "%mine"), end_of_stack(machine))
    results_at = FORMALS_AT + end_of(formals.parameters)
    # A call may name a result that the function does not have: nobody may look at it.
    for operand, result in zip(target.results, formals.results, strict=False):
        place = machine.offset(callee, results_at + result.offset)
        if isinstance(operand, Symbol):
            copy(machine, own_variable(machine, operand), place, result.size_bytes)
        elif isinstance(operand, Register):
            value = machine.read(place, f"i{8 * result.size_bytes}")
            machine.write_register(operand.name, e.resize(value, machine.register_bits(operand.name)))


def own_variable(machine: LaneMachine, symbol: Symbol) -> Value:
    """The place of a `.param` or `.local` variable of the running function."""
    place = machine.symbol(symbol, Value("i64", "%base"))
    return machine.pointer(place.space or "local", place)


def put_argument(machine: LaneMachine, operand: Operand, parameter: Parameter, place: Value) -> None:
    e = machine.emitter
    bits = 8 * parameter.size_bytes
    if isinstance(operand, Symbol):
        variable = machine.activation.function.variables.get(operand.name)
        if operand.name in machine.activation.formals or (variable is not None and variable.space == "param"):
            copy(machine, place, own_variable(machine, operand), parameter.size_bytes)
            return
        value = machine.symbol(operand, Value("i64", "%base")).value
    elif isinstance(operand, Register):
        value = machine.read_register(operand.name)
    elif isinstance(operand, Immediate):
        value = dispatch.immediate(e, operand, parameter.type if TYPE_BITS.get(parameter.type) == bits else f"b{bits}")
    else:
        machine.refuse(f"argument {operand!r}")
        raise AssertionError
    e.line(f"store {e.resize(value, bits).typed}, {place.typed}, align 1")


def scalar_argument(machine: LaneMachine, operand: Operand) -> Value:
    """An argument of a host service."""
    e = machine.emitter
    if isinstance(operand, Symbol):
        variable = machine.activation.function.variables.get(operand.name)
        if variable is not None and variable.space == "param":
            bits = min(8 * variable.size_bytes, 64)
            return e.resize(machine.read(own_variable(machine, operand), f"i{bits}"), 64)
        return machine.symbol(operand, Value("i64", "%base")).value
    if isinstance(operand, Register):
        return e.resize(machine.read_register(operand.name), 64)
    if isinstance(operand, Immediate):
        return e.const("i64", operand.bits)
    machine.refuse(f"argument {operand!r}")
    raise AssertionError


def put_result(machine: LaneMachine, operand: Operand, value: Value) -> None:
    if isinstance(operand, Symbol):
        machine.emitter.line(f"store {value.typed}, {own_variable(machine, operand).typed}, align 1")
    elif isinstance(operand, Register):
        bits = machine.register_bits(operand.name)
        machine.write_register(operand.name, machine.emitter.resize(value, bits))


def copy(machine: LaneMachine, destination: Value, source: Value, size: int) -> None:
    e = machine.emitter
    e.declare("@llvm.memmove.p0.p0.i64", "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
    e.line(f"call void @llvm.memmove.p0.p0.i64({destination.typed}, {source.typed}, i64 {size}, i1 false)")
