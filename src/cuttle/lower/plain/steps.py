"""One step as LLVM functions: what a lane does, or what lanes do together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cuttle.abi import wire_layout as wire
from cuttle.abi.kernel_abi import STOPS
from cuttle.errors import PtxError, Where
from cuttle.lower.emit import Value
from cuttle.lower.ops import dispatch
from cuttle.lower.ops.check_operands import translating
from cuttle.lower.plain.calls import write_call, write_return, write_return_of_call
from cuttle.lower.plain.lane_machine import LaneMachine
from cuttle.lower.plain.lane_record import (
    AT_BARRIER,
    BASE_AT,
    EXITED,
    KIND_AT,
    NEED_AT,
    NUMBER_AT,
    PC_AT,
    PREDICATE_AT,
    READY,
    STATUS_AT,
    THREADS_AT,
    WAITING,
)
from cuttle.lower.plain.places import LANES
from cuttle.lower.plain.program import CARRY, Program, Step
from cuttle.lower.plain.warp_machine import WarpMachine
from cuttle.ptx.ir import (
    TYPE_BITS,
    Address,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Register,
    SelectedRegister,
    Sink,
    SpecialRegister,
    Symbol,
    Vector,
)

# How the scheduler treats a step.
BY_LANE, ACROSS, BARRIER = range(3)
TRAP_FAULT = 3
STOP_NUMBERS = {name: number for number, name in STOPS}
NOT_TAKING_PART = -1

Machine = LaneMachine | WarpMachine


@dataclass(slots=True)
class StepCode:
    """The functions of one step. `order`: lanes run in groups of so many, each from its highest lane down; 0 is upward."""

    kind: int
    order: int = 0
    functions: list[str] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)


def write_step(program: Program, step: Step) -> StepCode:
    """The code of a step. Raises PtxError for what cannot be translated."""
    instruction = step.instruction
    try:
        with translating(instruction):
            if step.kind == "instruction" and is_across(instruction):
                return write_across(program, step)
            return write_by_lane(program, step)
    except PtxError as error:
        where = error.where
        if where is not None and (where.line or where.instruction):
            raise
        place = Where(line=instruction.location.line, instruction=dispatch.spell(instruction))
        raise PtxError(error.code, error.message, place, hint=error.hint) from error


def is_across(instruction: Instruction) -> bool:
    """Whether lanes execute the instruction together."""
    return dispatch.row_of(instruction.opcode).effects == "cross"


# -- one lane --------------------------------------------------------------------------------------------------------


def lane_function(name: str, machine: LaneMachine) -> str:
    lines = [
        f"define internal void @{name}(ptr %block, i32 %warp, i32 %lane, ptr %state) noinline #0 {{",
        "entry:",
        f"  %first = mul i32 %warp, {LANES}",
        "  %thread = add i32 %first, %lane",
        f"  %local.at = getelementptr i8, ptr %block, i64 {wire.KERNEL_BLOCK_LOCAL_AT}",
        "  %local = load ptr, ptr %local.at",
        "  %thread.wide = zext i32 %thread to i64",
        f"  %far = mul i64 %thread.wide, {machine.program.local_bytes}",
        "  %mine = getelementptr i8, ptr %local, i64 %far",
        f"  %base.at = getelementptr i8, ptr %state, i64 {BASE_AT}",
        "  %base.short = load i32, ptr %base.at",
        "  %base = zext i32 %base.short to i64",
        "  %me = getelementptr i8, ptr %mine, i64 %base",
        *machine.allocas,
        "  br label %body",
        "body:",
        *machine.emitter.lines,
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def write_by_lane(program: Program, step: Step) -> StepCode:
    instruction = step.instruction
    machine = LaneMachine(program, program.activations[step.function])
    machine.instruction = instruction
    if instruction.opcode == "call" and step.kind == "instruction":
        # A lane that passes the call by has no results to take.
        machine.set_word(PC_AT, machine.emitter.const("i32", step.number + 2))
    done = machine.label("skipped")
    if instruction.guard is not None and step.kind == "instruction":
        here = machine.label("taken")
        machine.emitter.line(f"br {guard_of(machine, instruction).typed}, label %{here}, label %{done}")
        machine.mark(here)
    write_lane_body(program, step, machine)
    machine.emitter.line(f"br label %{done}")
    machine.mark(done)
    code = StepCode(BY_LANE, store_order(instruction), [lane_function(f"step{step.number}", machine)], [machine])
    if machine.barrier_request is not None:
        code.kind = BARRIER
        behind = LaneMachine(program, program.activations[step.function])
        behind.instruction = instruction
        warps = behind.block_word(wire.KERNEL_BLOCK_WARPS_AT, "ptr")
        far = behind.emitter.mul(
            behind.emitter.cast("zext", Value("i32", "%warp"), "i64"),
            behind.emitter.const("i64", wire.KERNEL_WARP_SIZE),
        )
        behind.barrier_result = behind.read(behind.offset(warps, far), "i32", wire.KERNEL_WARP_VALUE_AT)
        apply(behind, instruction)
        code.functions.append(lane_function(f"behind{step.number}", behind))
        code.machines.append(behind)
    return code


def guard_of(machine: Machine, instruction: Instruction) -> Value:
    assert instruction.guard is not None
    value = machine.read_register(instruction.guard.register.name)
    return machine.emitter.not_(value) if instruction.guard.negated else value


def write_lane_body(program: Program, step: Step, machine: LaneMachine) -> None:
    e, instruction = machine.emitter, step.instruction
    opcode = instruction.opcode
    if step.kind == "return_of":
        write_return_of_call(machine, step)
    elif opcode == "call":
        write_call(machine, step)
    elif opcode == "ret":
        write_return(machine)
    elif opcode == "exit":
        machine.set_word(STATUS_AT, e.const("i32", EXITED))
    elif opcode in ("trap", "brkpt"):
        machine.service("trap", [e.const("i64", TRAP_FAULT), e.const("i64", instruction.location.line)])
    elif opcode == "bra":
        machine.set_word(PC_AT, e.const("i32", target_of(program, step, instruction.operands[-1])))
    elif opcode == "brx.idx":
        write_indexed_branch(program, step, machine)
    else:
        apply(machine, instruction)
        if machine.barrier_request is not None:
            write_arrival(machine)


def target_of(program: Program, step: Step, operand: Operand | str) -> int:
    """The number of the step at a label."""
    name = operand.name if isinstance(operand, Label) else operand
    number = program.labels.get((step.function, str(name)))
    if number is None:
        raise PtxError("PTX-0202", f"label `{name}` is not defined")
    return number


def write_indexed_branch(program: Program, step: Step, machine: LaneMachine) -> None:
    e = machine.emitter
    index, targets = step.instruction.operands
    assert isinstance(targets, Label)
    names = program.module.functions[step.function].branch_targets.get(targets.name, ())
    if not names:
        raise PtxError("PTX-0202", f"`{targets.name}` lists no branch targets")
    chosen = argument(machine, index, "u32")
    result = e.const("i32", target_of(program, step, names[-1]))
    for number, name in enumerate(names[:-1]):
        here = e.icmp("eq", chosen, e.const("i32", number))
        result = e.select(here, e.const("i32", target_of(program, step, name)), result)
    machine.set_word(PC_AT, result)


def write_arrival(machine: LaneMachine) -> None:
    """The lane's record says which barrier it is at."""
    e = machine.emitter
    assert machine.barrier_request is not None
    kind, number, threads, predicate = machine.barrier_request
    name = kind.replace(".", "_")
    stop = STOP_NUMBERS[name if name in STOP_NUMBERS else f"barrier_{name}"]
    machine.set_word(KIND_AT, e.const("i32", stop))
    machine.set_word(NUMBER_AT, number)
    machine.set_word(THREADS_AT, threads if threads is not None else e.const("i32", 0))
    holds = e.const("i32", 0) if predicate is None else e.cast("zext", predicate, "i32")
    machine.set_word(PREDICATE_AT, holds)
    machine.set_word(STATUS_AT, e.const("i32", AT_BARRIER))


def store_order(instruction: Instruction) -> int:
    """Lanes per group of a store: hardware stores 128 bytes at a time, and within a group the lowest lane wins."""
    if instruction.opcode != "st":
        return 0
    values = instruction.operands[-1]
    count = len(values.elements) if isinstance(values, Vector) else 1
    return max(8, min(LANES, 1024 // (max(TYPE_BITS[instruction.type], 8) * count)))


# -- lanes together --------------------------------------------------------------------------------------------------


def write_across(program: Program, step: Step) -> StepCode:
    """Two functions: which lanes a lane waits for (-1: it takes no part), and the operation."""
    instruction = step.instruction
    asking = LaneMachine(program, program.activations[step.function])
    asking.instruction = instruction
    e = asking.emitter
    dispatch.signature(instruction)  # what is refused has no member mask to look at
    if not dispatch.is_sync(instruction):
        needed = e.const("i64", 0)
    elif instruction.has("aligned"):
        needed = e.const("i64", 0xFFFF_FFFF)
    else:
        needed = e.resize(argument(asking, instruction.operands[-1], "b32"), 64)
    if instruction.guard is not None:
        needed = e.select(guard_of(asking, instruction), needed, e.const("i64", NOT_TAKING_PART))
    set_need = asking.offset(Value("ptr", "%state"), NEED_AT)
    taking_part = e.icmp("ne", needed, e.const("i64", NOT_TAKING_PART))
    e.line(f"store {e.cast('trunc', needed, 'i32').typed}, {set_need.typed}")
    status = e.select(taking_part, e.const("i32", WAITING), e.const("i32", READY))
    asking.set_word(STATUS_AT, status)

    machine = WarpMachine(program, program.activations[step.function])
    machine.instruction = instruction
    apply(machine, instruction)
    together = "\n".join(
        [
            f"define internal void @across{step.number}(ptr %block, i32 %warp, i32 %lanes, ptr %states) noinline #0 {{",
            *machine.emitter.lines,
            "  ret void",
            "}",
        ]
    )
    functions = [lane_function(f"step{step.number}", asking), together]
    return StepCode(ACROSS, 0, functions, [asking, machine])


# -- operands --------------------------------------------------------------------------------------------------------


def apply(machine: Machine, instruction: Instruction) -> None:
    """Operands from registers, the op function, results to registers."""
    slots = dispatch.signature(instruction)
    dispatch.find(instruction.opcode)
    values: list[Any] = [
        slot.operand if slot.type == "X" else argument(machine, slot.operand, slot.type) for slot in slots.sources
    ]
    if slots.reads_carry:
        values.append(machine.read_register(CARRY))
    targets: list[str | None] = []
    for slot in slots.destinations:
        operand = slot.operand.register if isinstance(slot.operand, SelectedRegister) else slot.operand
        if not isinstance(operand, (Register, Sink)):
            raise dispatch.refusal(instruction, "a destination that is no register")
        targets.append(operand.name if isinstance(operand, Register) else None)
    widths = [
        machine.register_bits(name) if name is not None else TYPE_BITS.get(slot.type, 32)
        for name, slot in zip(targets, slots.destinations, strict=True)
    ]
    results = dispatch.apply(machine, instruction, values, widths, slots)
    if slots.writes_carry:
        targets.append(CARRY)
    for name, result in zip(targets, results, strict=False):
        if name is not None:
            machine.write_register(name, result)


def argument(machine: Machine, operand: Operand, type_name: str) -> Any:
    """A source operand as register bits, or as a place for addresses."""
    e = machine.emitter
    if isinstance(operand, Address):
        register = machine.read_register(operand.base.name) if isinstance(operand.base, Register) else None
        return machine.place(operand, base_of(machine), register)
    if isinstance(operand, SelectedRegister):
        operand = operand.register
    if isinstance(operand, Register):
        return machine.read_register(operand.name)
    if isinstance(operand, Negated):
        return e.not_(machine.read_register(operand.register.name))
    if isinstance(operand, Immediate):
        return dispatch.immediate(e, operand, "u32" if type_name == "U" else type_name)
    if isinstance(operand, SpecialRegister):
        return machine.special_register(operand.name)
    if isinstance(operand, Symbol):
        return machine.symbol(operand, base_of(machine)).value
    machine.refuse(f"operand {operand!r} is not supported here")
    raise AssertionError


def base_of(machine: Machine) -> Value:
    return machine.bases() if isinstance(machine, WarpMachine) else Value("i64", "%base")
