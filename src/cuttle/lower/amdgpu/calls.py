"""Calls: services that CUDA's device library declares, and real device functions (recursive ones, targets of pointers).

A real function gets the launch record and a pointer to scratch of its caller with its parameters, then (16-byte aligned) its results. A
call through a pointer compares the handle with those of the functions that fit: LLVM sees direct calls only, so that it knows all register counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cuttle.abi.kernel_abi import DRIVER_FUNCTIONS
from cuttle.lower.cpu.calls import BAD_TARGET_FAULT, aligned_end, function_symbol
from cuttle.lower.emit import Value
from cuttle.lower.ops.called_formals import formals_of
from cuttle.lower.passes.graph import Node, SsaOperand, ValueRef
from cuttle.ptx.ir import Function, Immediate, Prototype, Symbol, matches_call

if TYPE_CHECKING:
    from cuttle.lower.amdgpu.nodes import NodeWriter


def emit_call(nodes: NodeWriter, node: Node) -> None:
    """A `call` node (guarded calls have become branches)."""
    assert node.call is not None
    writer = nodes.writer
    name = node.call.callee
    if name not in DRIVER_FUNCTIONS:
        emit_function_call(nodes, node)
        return
    e = nodes.emitter
    if name == "vprintf":
        text = e.resize(nodes.value(node.operands[0], "b64"), 64)
        wanted = any(value is not None for value in node.results)
        result: Value | None = emit_printf(nodes, node.operands[0], text, node.operands[1], want_result=wanted)
    else:
        service, bits = DRIVER_FUNCTIONS[name]
        arguments = [e.resize(nodes.value(operand, "b64"), 64) for operand in node.operands][:4]
        result = writer.machine.service(service, arguments, bits)
    for value in node.results:
        if value is not None and result is not None:
            writer.write(value, e.resize(result, nodes.plan.graph.values[value].bits))


def emit_printf(nodes: NodeWriter, form: SsaOperand, text: Value, operand: SsaOperand, *, want_result: bool) -> Value:
    """`vprintf`; its result is the number of arguments, -1 if the buffer is full (CUDA programming guide, "Formatted Output")."""
    e, services = nodes.emitter, nodes.machine.services
    place = nodes.plan.places.get(operand.id) if isinstance(operand, ValueRef) else None
    if place is not None and place[0] not in nodes.plan.graph.function.variables:
        place = None
    anywhere = place is None and not is_null(nodes, operand)
    known = constant_text(nodes, form)
    count = size = e.const("i32", 0)
    if known is not None:
        count, size = e.const("i32", argument_count(known)), e.const("i32", argument_bytes(known))
    elif anywhere or want_result:
        count, size = services.measure_arguments(text)
    if anywhere:
        fits = services.printf_from(text, e.resize(nodes.value(operand, "b64"), 64), size)
    else:
        fits = services.printf(text, place)
    return e.select(fits, count, e.const("i32", -1))


def argument_count(form: bytes) -> int:
    """How many arguments a printf format takes."""
    conversions = re.findall(rb"%%|%[^a-zA-Z%]*(?:h|l|hh|ll)?[a-zA-Z]", form)
    return sum(1 + conversion.count(b"*") for conversion in conversions if conversion != b"%%")


def argument_bytes(form: bytes) -> int:
    """Bytes of a format's arguments, naturally aligned, as `device_output.py` reads them."""
    size = 0
    for stars, length, letter in re.findall(rb"%([-+ #0*.\d]*)([hlLqjzt]*)(.)", form.replace(b"%%", b""), re.S):
        size += 4 * stars.count(b"*")
        if letter in b"eEfFgGaAps" or (letter in b"diuoxX" and length and b"h" not in length):
            size = -(-size // 8) * 8 + 8
        elif letter in b"diuoxXc":
            size += 4
    return size


def constant_text(nodes: NodeWriter, operand: SsaOperand) -> bytes | None:
    """The string that an operand is the address of, if it is one of the module's that nobody writes: a `$str`."""
    if isinstance(operand, ValueRef):
        definition = nodes.plan.graph.values[operand.id].definition
        if isinstance(definition, Node) and definition.opcode in ("mov", "cvta") and len(definition.operands) == 1:
            return constant_text(nodes, definition.operands[0])
        return None
    if not isinstance(operand, Symbol) or not operand.name.startswith("$str"):
        return None
    variable = nodes.plan.module.variables.get(operand.name)
    if variable is None or variable.initial is None or variable.relocations:
        return None
    return variable.initial[operand.offset :].partition(b"\0")[0]


def is_null(nodes: NodeWriter, operand: SsaOperand) -> bool:
    """Whether an operand is the constant 0, or a register that a move set to it."""
    if isinstance(operand, ValueRef):
        definition = nodes.plan.graph.values[operand.id].definition
        if not isinstance(definition, Node) or definition.opcode not in ("mov", "cvt") or definition.guard is not None:
            return False
        return len(definition.operands) == 1 and is_null(nodes, definition.operands[0])
    return isinstance(operand, Immediate) and operand.bits == 0


def emit_function_call(nodes: NodeWriter, node: Node) -> None:
    shape = node.call
    assert shape is not None
    writer, plan, e = nodes.writer, nodes.plan, nodes.emitter
    formals = formals_of(
        plan.module, plan.graph.function, node.instruction, shape.callee, shape.prototype, len(shape.arguments)
    )
    results_at = aligned_end(formals.parameters)
    frame = writer.allocate(f"[{max(results_at + aligned_end(formals.results), 16)} x i8]", 16)
    base = frame.rpartition(" ")[2]
    operands = list(node.operands[0 if shape.callee is not None else 1 :])
    for index, chunks in enumerate(shape.arguments):
        start = formals.parameters[index].offset
        buffer = shape.buffers[index] if index < len(shape.buffers) else None
        for chunk in chunks:
            operand = operands.pop(0)
            if buffer is not None:
                copy_bytes(nodes, (buffer, 0), (base, start), chunk.size)
                continue
            value = e.resize(nodes.value(operand, f"b{chunk.size * 8}"), chunk.size * 8)
            e.line(f"store {value.typed}, {writer.offset_pointer(base, start + chunk.offset)}, align {chunk.size}")
    if shape.callee is not None:
        call_function(nodes, plan.module.aliases.get(shape.callee, shape.callee), frame)
    else:
        call_indirectly(nodes, node, formals, frame)
    read_results(nodes, node, formals, base, results_at)


def call_function(nodes: NodeWriter, name: str, frame: str) -> None:
    nodes.emitter.line(f"call void @{function_symbol(name)}(ptr addrspace(4) %record, {frame})")


def call_indirectly(nodes: NodeWriter, node: Node, formals: Function | Prototype, frame: str) -> None:
    writer, e = nodes.writer, nodes.emitter
    handle = nodes.value(node.operands[0], "b64")
    candidates = [
        (number, name, writer.fresh_label("call"))
        for name, number in nodes.plan.function_handles.items()
        if matches_call(nodes.plan.module.functions.get(name), formals)
    ]
    bad, done = writer.fresh_label("no.function"), writer.fresh_label("called")
    cases = " ".join(f"i64 {number}, label %{label}" for number, _, label in candidates)
    e.line(f"switch {handle.typed}, label %{bad} [ {cases} ]")
    for _, name, label in candidates:
        writer.label(label)
        call_function(nodes, name, frame)
        e.line(f"br label %{done}")
    writer.label(bad)
    writer.machine.services.trap(BAD_TARGET_FAULT, node.instruction.location.line)
    e.line("unreachable")
    writer.label(done)


def read_results(nodes: NodeWriter, node: Node, formals: Function | Prototype, base: str, results_at: int) -> None:
    shape = node.call
    assert shape is not None
    writer, e = nodes.writer, nodes.emitter
    values = list(node.results)
    for index, chunks in enumerate(shape.results):
        if index >= len(formals.results):  # declared with a result, defined without: nobody may look at it
            for value in [values.pop(0) for _ in chunks]:
                if value is not None:
                    writer.write(value, e.const(f"i{nodes.plan.graph.values[value].bits}", 0))
            continue
        start = results_at + formals.results[index].offset
        buffer = shape.result_buffers[index] if index < len(shape.result_buffers) else None
        if buffer is not None:
            copy_bytes(nodes, (base, start), (buffer, 0), formals.results[index].size_bytes)
            continue
        for chunk in chunks:
            value = values.pop(0)
            if value is None:
                continue
            place = writer.offset_pointer(base, start + chunk.offset)
            loaded = e.emit(f"i{chunk.size * 8}", 1, f"load i{chunk.size * 8}, {place}, align {chunk.size}")
            writer.write(value, e.resize(loaded, nodes.plan.graph.values[value].bits))


def copy_bytes(nodes: NodeWriter, source: tuple[str, int], destination: tuple[str, int], size: int) -> None:
    """Copies within scratch; a place is a local variable's name or an LLVM pointer's, and an offset."""
    writer, e = nodes.writer, nodes.emitter

    def pointer(place: tuple[str, int], at: int) -> str:
        if place[0].startswith("%slot"):
            return writer.offset_pointer(place[0], place[1] + at)
        return writer.scratch_pointer(place[0], place[1] + at)

    done = 0
    while done < size:
        step = next(width for width in (8, 4, 2, 1) if width <= size - done)
        value = e.emit(f"i{8 * step}", 1, f"load i{8 * step}, {pointer(source, done)}, align 1")
        e.line(f"store {value.typed}, {pointer(destination, done)}, align 1")
        done += step
