"""Calls: the host services that CUDA's device library is declared with, and real device functions.

Most functions are inlined before. Real ones remain for recursion and for calls through pointers. Their convention:

    void function(block, warp, lanes, i64 local)

runs the function for the given lanes of a warp. Parameters, results and variables lie in each lane's local memory from byte
`local` on: first the parameters at their offsets, then (16-byte aligned) the results, then the variables. The caller's
own local memory ends where the callee's begins; the callee checks that there is enough left (a stack overflow fault).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuttle.abi.kernel_abi import DRIVER_FUNCTIONS
from cuttle.lower.cpu.shaped import Shaped, materialise, of_value, operand_value, uniform
from cuttle.lower.emit import Value
from cuttle.lower.ops.called_formals import formals_of
from cuttle.lower.passes.graph import Node, SsaOperand
from cuttle.lower.passes.shape import LANES
from cuttle.ptx.ir import Function, Parameter, Prototype, Symbol, matches_call

if TYPE_CHECKING:
    from cuttle.lower.cpu.nodes import NodeWriter

BAD_TARGET_FAULT = 7


def function_symbol(name: str) -> str:
    """The LLVM name of a device function."""
    return '"f.' + name.replace("\\", "\\5C").replace('"', "\\22") + '"'


def aligned_end(parameters: Sequence[Parameter]) -> int:
    end = max((parameter.offset + parameter.size_bytes for parameter in parameters), default=0)
    return -(-end // 16) * 16


def formal_offsets(function: Function) -> tuple[dict[str, int], int]:
    """Offsets of a function's parameters and results in its local memory, and their total size."""
    offsets = {parameter.name: parameter.offset for parameter in function.parameters}
    start = aligned_end(function.parameters)
    offsets.update({result.name: start + result.offset for result in function.results})
    return offsets, start + aligned_end(function.results)


def emit_call(writer: NodeWriter, node: Node) -> None:
    """A `call` node."""
    assert node.call is not None
    name = node.call.callee
    if name in DRIVER_FUNCTIONS:
        service, bits = DRIVER_FUNCTIONS[name]
        arguments = [argument(writer, operand) for operand in node.operands][:4]
        result = writer.machine.service(service, arguments, bits)
        for value in node.results:
            if value is not None and result is not None:
                writer.region.write(value, of_value(result), blend=writer.plan.blends)
        return
    emit_function_call(writer, node)


def argument(writer: NodeWriter, operand: SsaOperand) -> Value:
    """An argument of a service as a 64-bit value."""
    e = writer.emitter
    value = operand_value(e, writer.shaped(operand, "b64"))
    return e.resize(value, 64)


def emit_function_call(writer: NodeWriter, node: Node) -> None:
    shape = node.call
    assert shape is not None
    plan = writer.plan
    formals = formals_of(
        plan.module, plan.graph.function, node.instruction, shape.callee, shape.prototype, len(shape.arguments)
    )
    top = end_of_stack(writer)
    first = 0 if shape.callee is not None else 1
    operands = list(node.operands[first:])
    for index, chunks in enumerate(shape.arguments):
        base = formals.parameters[index].offset
        buffer = shape.buffers[index] if index < len(shape.buffers) else None
        for chunk in chunks:
            operand = operands.pop(0)
            if buffer is not None:
                copy_bytes(writer, writer.region.symbol(Symbol(buffer))[0], local_at(writer, top, base), chunk.size)
                continue
            value = operand_value(writer.emitter, writer.shaped(operand, f"b{chunk.size * 8}"))
            value = writer.emitter.resize(value, chunk.size * 8)
            writer.machine.store("local", chunk.size * 8, local_at(writer, top, base + chunk.offset), [value])
    if shape.callee is not None:
        call_lanes(writer, shape.callee, writer.region.current_bits(), top)
    else:
        call_indirectly(writer, node, formals, top)
    read_results(writer, node, formals, top, aligned_end(formals.parameters))


def read_results(writer: NodeWriter, node: Node, formals: Function | Prototype, top: Value, start: int) -> None:
    shape = node.call
    assert shape is not None
    values = list(node.results)
    for index, chunks in enumerate(shape.results):
        if index >= len(formals.results):  # declared with a result, defined without: nobody may look at it
            for value in [values.pop(0) for _ in chunks]:
                if value is not None:
                    nothing = writer.emitter.const(f"i{writer.plan.graph.values[value].bits}", 0)
                    writer.region.write(value, of_value(nothing), blend=writer.plan.blends)
            continue
        base = start + formals.results[index].offset
        buffer = shape.result_buffers[index] if index < len(shape.result_buffers) else None
        if buffer is not None:
            size = formals.results[index].size_bytes
            copy_bytes(writer, local_at(writer, top, base), writer.region.symbol(Symbol(buffer))[0], size)
            continue
        for chunk in chunks:
            value = values.pop(0)
            if value is None:
                continue
            (loaded,) = writer.machine.load("local", chunk.size * 8, 1, local_at(writer, top, base + chunk.offset))
            bits = writer.plan.graph.values[value].bits
            writer.region.write(value, of_value(writer.emitter.resize(loaded, bits)), blend=writer.plan.blends)


def local_at(writer: NodeWriter, top: Value, offset: int) -> Shaped:
    e = writer.emitter
    return uniform(e.add(top, e.const("i64", offset)) if offset else top)


def end_of_stack(writer: NodeWriter) -> Value:
    """Where a callee's local memory begins: behind the caller's, and behind what any lane has of `alloca`."""
    e, plan, machine = writer.emitter, writer.plan, writer.machine
    if plan.stack_word < 0:
        return e.const("i64", -(-plan.own_local_bytes // 16) * 16)
    pointers = e.splat(machine.stack_pointer(), LANES)
    if machine.lanes.vector is not None:
        pointers = e.select(machine.lanes.vector, pointers, e.const("i64", plan.own_local_bytes))
    name = f"@llvm.vector.reduce.umax.v{LANES}i64"
    e.declare(name, f"declare i64 {name}({pointers.llvm_type})")
    highest = e.emit("i64", 1, f"call i64 {name}({pointers.typed})")
    return e.and_(e.add(highest, e.const("i64", 15)), e.const("i64", -16))


def copy_bytes(writer: NodeWriter, source: Shaped, destination: Shaped, size: int) -> None:
    """Copies within each lane's local memory."""
    e = writer.emitter
    done = 0
    while done < size:
        step = next(width for width in (8, 4, 2, 1) if width <= size - done)
        place = [uniform(e.add(shaped.bases[0], e.const("i64", done))) for shaped in (source, destination)]
        values = writer.machine.load("local", step * 8, 1, place[0])
        writer.machine.store("local", step * 8, place[1], values)
        done += step


def call_lanes(writer: NodeWriter, name: str, bits: Value, top: Value) -> None:
    e = writer.emitter
    local = top if writer.plan.is_entry else e.add(Value("i64", "%local"), top)
    region = writer.region
    e.line(
        f"call void @{function_symbol(name)}({region.block.typed}, {region.warp.typed}, {bits.typed}, {local.typed})"
    )


def call_indirectly(writer: NodeWriter, node: Node, formals: Function | Prototype, top: Value) -> None:
    """One call per distinct target among the lanes."""
    e, region = writer.emitter, writer.region
    handles = materialise(e, writer.shaped(node.operands[0], "b64"))
    if handles.bits != 64:
        region.machine.refuse("a call through a function pointer of 32 bits (.address_size 32)")
    left = region.allocate("i32")
    e.line(f"store {region.current_bits().typed}, ptr {left}")
    head, work, done = region.fresh_label("targets"), region.fresh_label("target"), region.fresh_label("targets.done")
    e.line(f"br label %{head}")
    region.label(head)
    remaining = e.emit("i32", 1, f"load i32, ptr {left}")
    e.line(f"br {e.icmp('ne', remaining, e.const('i32', 0)).typed}, label %{work}, label %{done}")
    region.label(work)
    lane = e.intrinsic("llvm.cttz", [remaining, e.const("i1", 1)])
    handle = e.emit("i64", 1, f"extractelement {handles.typed}, {lane.typed}")
    alike = e.icmp("eq", handles, e.splat(handle, LANES))
    same = e.and_(e.emit("i32", 1, f"bitcast {alike.typed} to i32"), remaining)
    e.line(f"store {e.and_(remaining, e.not_(same)).typed}, ptr {left}")
    candidates = [
        (number, name)
        for name, number in writer.plan.function_handles.items()
        if matches_call(writer.plan.module.functions.get(name), formals)
    ]
    bad = region.fresh_label("no.function")
    labels = [(number, name, region.fresh_label("call")) for number, name in candidates]
    cases = " ".join(f"i64 {number}, label %{label}" for number, _, label in labels)
    e.line(f"switch {handle.typed}, label %{bad} [ {cases} ]")
    for _, name, label in labels:
        region.label(label)
        call_lanes(writer, name, same, top)
        e.line(f"br label %{head}")
    region.label(bad)
    region.trap(BAD_TARGET_FAULT, node.instruction.location.line)
    region.label(done)
