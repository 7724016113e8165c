"""Compiles op functions with MCJIT and runs them on tables of operand values.

`run_forms(forms, columns, lanes)` builds one LLVM function per form that maps arrays of operands to arrays of results,
`lanes` elements at a time, and returns the results as lists of integers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.ops import dispatch
from cuttle.lower.ops.forms import Form
from cuttle.ptx.ir import Immediate

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


class PureMachine:
    """A machine for ops that touch nothing but their operands."""

    def __init__(self, emitter: Emitter | None = None) -> None:
        self.emitter = emitter or Emitter()

    def refuse(self, reason: str, code: str = "PTX-0304") -> None:
        raise dispatch.refusal("test", reason, code)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a pure op asked the machine for {name}")


@dataclass(slots=True)
class Module:
    """LLVM text of many test functions."""

    functions: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)

    def text(self) -> str:
        return "\n".join([*self.constants.values(), *self.declarations.values(), *self.functions])


def storage_bits(width: int) -> int:
    """Predicates travel as bytes."""
    return 8 if width == 1 else width


def add_function(
    module: Module,
    form: Form,
    name: str,
    lanes: int,
    uniform: frozenset[int] = frozenset(),
    machine: Any = None,
) -> None:
    """`void name(inputs..., carry_in?, outputs..., carry_out?, i64 count)`; operands in `uniform` are scalars.

    For subtractions the carries of the columns are borrows, as in the recordings: CC.CF is the opposite.
    """
    machine = machine or PureMachine()
    emitter = machine.emitter
    sources = [*form.sources, *([("pred", 1)] if form.carry_in else [])]
    destinations = [*form.destinations, *([("pred", 1)] if form.carry_out else [])]
    parameters = [f"ptr %in{i}" for i in range(len(sources))] + [f"ptr %out{i}" for i in range(len(destinations))]
    emitter.line("br label %loop")
    emitter.lines.append("loop:")
    emitter.line("%i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    values: list[Value] = []
    for index, (_, width) in enumerate(sources):
        bits = storage_bits(width)
        one = index in uniform
        element = f"i{bits}" if lanes == 1 or one else f"<{lanes} x i{bits}>"
        address = emitter.name()
        emitter.line(f"{address} = getelementptr i{bits}, ptr %in{index}, i64 %i")
        value = emitter.emit(
            f"i{bits}", 1 if one else lanes, f"load {element}, ptr {address}, align {max(bits // 8, 1)}"
        )
        values.append(emitter.cast("trunc", value, "i1") if width == 1 else value)
    slots = dispatch.signature(form.instruction)
    operands: list[Value] = []
    queue = list(values)
    for slot in slots.sources:
        if isinstance(slot.operand, Immediate):
            operands.append(dispatch.immediate(emitter, slot.operand, slot.type))
        else:
            operands.append(queue.pop(0))
    borrows = form.instruction.opcode.startswith("sub")
    operands.extend(emitter.not_(carry) if borrows else carry for carry in queue)
    results = list(dispatch.apply(machine, form.instruction, operands, [w for _, w in form.destinations], slots))
    if form.carry_out and borrows:
        results[-1] = emitter.not_(results[-1])
    for index, (value, (_, width)) in enumerate(zip(results, destinations, strict=True)):
        bits = storage_bits(width)
        stored = emitter.splat(value, lanes)
        if width == 1:
            stored = emitter.cast("zext", stored, "i8")
        assert stored.type == f"i{bits}", (form.name, stored.type, bits)
        address = emitter.name()
        emitter.line(f"{address} = getelementptr i{bits}, ptr %out{index}, i64 %i")
        emitter.line(f"store {stored.typed}, ptr {address}, align {max(bits // 8, 1)}")
    emitter.line(f"%next = add i64 %i, {lanes}")
    emitter.line("%more = icmp ult i64 %next, %n")
    emitter.line("br i1 %more, label %loop, label %done")
    emitter.lines.append("done:")
    emitter.line("ret void")
    body = "\n".join(emitter.lines)
    module.functions.append(f"define void @{name}({', '.join([*parameters, 'i64 %n'])}) {{\nentry:\n{body}\n}}")
    module.declarations.update(emitter.declarations)
    module.constants.update(emitter.constants)


class Compiled:
    """A compiled module; keeps the engine alive."""

    def __init__(self, module: Module, optimise: int = 1) -> None:
        parsed = llvm.parse_assembly(module.text())
        parsed.verify()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=optimise, jit=True
        )
        if optimise > 1:
            options = llvm.create_pipeline_tuning_options(speed_level=2)
            options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(parsed, builder)
        self.engine = llvm.create_mcjit_compiler(parsed, machine)
        self.engine.finalize_object()

    def run(self, form: Form, name: str, columns: Sequence[Sequence[int]]) -> list[list[int]]:
        """Call one function; `columns` are the operands (carry in last); returns the result columns."""
        count = len(columns[0])
        sources = [*form.sources, *([("pred", 1)] if form.carry_in else [])]
        destinations = [*form.destinations, *([("pred", 1)] if form.carry_out else [])]
        buffers = [
            b"".join(value.to_bytes(storage_bits(width) // 8, "little") for value in column)
            for column, (_, width) in zip(columns, sources, strict=True)
        ]
        outputs = [ctypes.create_string_buffer(count * storage_bits(width) // 8) for _, width in destinations]
        address = self.engine.get_function_address(name)
        kinds = [ctypes.c_char_p] * len(buffers) + [ctypes.c_void_p] * len(outputs) + [ctypes.c_int64]
        function = ctypes.CFUNCTYPE(None, *kinds)(address)
        function(*buffers, *[ctypes.addressof(output) for output in outputs], count)
        results: list[list[int]] = []
        for output, (_, width) in zip(outputs, destinations, strict=True):
            size = storage_bits(width) // 8
            raw = output.raw
            results.append([int.from_bytes(raw[at : at + size], "little") for at in range(0, count * size, size)])
        return results


def run_forms(
    forms: Sequence[Form],
    columns: Sequence[Sequence[Sequence[int]]],
    lanes: int,
    optimise: int = 1,
    emitter: Callable[[], Emitter] = Emitter,
) -> list[list[list[int]]]:
    """Results of each form on its columns (padded here to a multiple of the lanes)."""
    module = Module()
    for index, form in enumerate(forms):
        add_function(module, form, f"f{index}", lanes, machine=PureMachine(emitter()))
    compiled = Compiled(module, optimise)
    answers = []
    for index, (form, table) in enumerate(zip(forms, columns, strict=True)):
        count = len(table[0])
        padded = [[*column, *([column[-1]] * (-count % lanes))] for column in table]
        answers.append([column[:count] for column in compiled.run(form, f"f{index}", padded)])
    return answers
