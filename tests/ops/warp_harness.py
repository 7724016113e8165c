"""Runs one warp instruction, parsed from PTX text, on 32 lanes of register values."""

from __future__ import annotations

import ctypes
import re

import harness
from warp_machine import LANES, WarpMachine

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.ops import dispatch
from cuttle.ptx.ir import Address, Immediate, Instruction, Register, Sink
from cuttle.ptx.parser import parse_module


def _plain(name: str) -> str:
    return re.sub(r"\W", "", name)


def parse(text: str, registers: dict[str, str]) -> Instruction:
    """The instruction `text`; `registers` maps names to PTX types."""
    declared = "\n".join(f".reg .{kind} {name};" for name, kind in registers.items())
    module = parse_module(
        f".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n{declared}\n{text}\nret;\n}}\n"
    )
    function = module.functions["k"]
    assert function.statements is not None
    statement = function.statements[0]
    assert isinstance(statement, Instruction)
    return statement


def run_warp(
    text: str, inputs: dict[str, list[int]], outputs: dict[str, int], widths: dict[str, int], mask: int = 0xFFFFFFFF
) -> dict[str, list[int]]:
    """Execute under `mask`. `inputs`: register name to 32 lane values; `widths`: bits of every register (1 = pred).

    Addresses are 64-bit input registers with host addresses. Returns the output registers' lane values.
    """
    kinds = {name: "pred" if bits == 1 else f"b{bits}" for name, bits in widths.items()}
    instruction = parse(text, kinds)
    emitter = Emitter()
    machine = WarpMachine(emitter, Value("i32", "%mask", 1))
    values: dict[str, Value] = {}
    for name in inputs:
        bits = harness.storage_bits(widths[name])
        pointer = "%in_" + _plain(name)
        loaded = emitter.emit(f"i{bits}", LANES, f"load <{LANES} x i{bits}>, ptr {pointer}, align 8")
        values[name] = emitter.cast("trunc", loaded, "i1") if widths[name] == 1 else loaded
    slots = dispatch.signature(instruction)
    operands: list[object] = []
    for slot in slots.sources:
        operand = slot.operand
        if slot.type == "X":
            operands.append(operand)
        elif isinstance(operand, Address):
            assert isinstance(operand.base, Register)
            operands.append(machine.advance(values[operand.base.name], operand.offset))
        elif isinstance(operand, Immediate):
            operands.append(dispatch.immediate(emitter, operand, slot.type))
        else:
            assert isinstance(operand, Register)
            operands.append(values[operand.name])
    registers = [slot.operand.name if isinstance(slot.operand, Register) else "" for slot in slots.destinations]
    bits_of = [widths[name] if name else 32 for name in registers]
    results = dispatch.apply(machine, instruction, operands, bits_of, slots)  # type: ignore[arg-type]
    for slot, name, value in zip(slots.destinations, registers, results, strict=True):
        if isinstance(slot.operand, Sink):
            continue
        stored = emitter.splat(value, LANES)
        stored = emitter.cast("zext", stored, "i8") if stored.type == "i1" else stored
        emitter.line(f"store {stored.typed}, ptr %out_{_plain(name)}, align 8")
    module = harness.Module(declarations=emitter.declarations, constants=emitter.constants)
    names = [f"ptr %in_{_plain(n)}" for n in inputs]
    names += [f"ptr %out_{_plain(n)}" for n in outputs]
    body = "\n".join(emitter.lines)
    module.functions.append(f"define void @warp({', '.join([*names, 'i32 %mask'])}) {{\nentry:\n{body}\n  ret void\n}}")
    compiled = harness.Compiled(module)
    buffers = [
        b"".join(v.to_bytes(harness.storage_bits(widths[n]) // 8, "little") for v in column)
        for n, column in inputs.items()
    ]
    targets = [ctypes.create_string_buffer(LANES * harness.storage_bits(widths[n]) // 8) for n in outputs]
    address = compiled.engine.get_function_address("warp")
    kinds_of = [ctypes.c_char_p] * len(buffers) + [ctypes.c_void_p] * len(targets) + [ctypes.c_uint32]
    ctypes.CFUNCTYPE(None, *kinds_of)(address)(*buffers, *[ctypes.addressof(t) for t in targets], mask)
    answers: dict[str, list[int]] = {}
    for name, target in zip(outputs, targets, strict=True):
        size = harness.storage_bits(widths[name]) // 8
        answers[name] = [int.from_bytes(target.raw[k * size : (k + 1) * size], "little") for k in range(LANES)]
    return answers
