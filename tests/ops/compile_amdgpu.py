"""Worker of test_compile_amdgpu: compiles op forms for an AMD GPU. LLVM's fatal errors end the process, so it is its own.

Called as `python compile_amdgpu.py TARGET PART PARTS`; prints the number of forms compiled, or the form that failed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.errors import CuttleError
from cuttle.lower.amdgpu.compile_object import compile_object
from cuttle.lower.amdgpu.function import FunctionWriter
from cuttle.lower.amdgpu.module_text import ModuleText
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.lower.amdgpu.plan import STACK_ALIGN, FunctionPlan
from cuttle.lower.cpu.layout import MemoryLayout
from cuttle.lower.emit import Value
from cuttle.lower.ops import dispatch, matrix_forms
from cuttle.lower.ops.forms import Form, synthesise
from cuttle.lower.passes.build_graph import build as build_graph
from cuttle.ptx.ir import Immediate
from cuttle.ptx.opcode_roots import split_opcode
from cuttle.ptx.parser import parse_module

# Families with thousands of forms that differ in one token: every nth will do.
SPARSE = {
    "set": 40,
    "setp": 9,
    "atom": 3,
    "red": 5,
    "cvt": 3,
    "slct": 3,
    "ld": 3,
    "st": 2,
    "suld": 9,
    "sust": 9,
    "sured": 14,
    "tex": 19,
    "tld4": 5,
    "vadd": 5,
    "vsub": 5,
    "vabsdiff": 5,
    "vmin": 5,
    "vmax": 5,
    "vshl": 5,
    "vshr": 5,
    "vset": 5,
}


def matrix_groups(spelling: str) -> dict[int, int]:
    """Registers of each operand's brace list of a matrix instruction."""
    if "matrix" in spelling:
        count = next((int(x[1]) for x in spelling.split(".") if x in ("x1", "x2", "x4")), 0)
        return {1 if spelling.startswith("st") else 0: count} if count else {}
    parts = split_opcode(spelling)
    assert parts is not None
    opcode, modifiers, _ = parts
    if opcode in ("wmma.load", "wmma.store"):
        kind = matrix_forms.kinds_after_shape(modifiers)[-1]
        count = matrix_forms.wmma_registers(modifiers[0], matrix_forms.shape_of(modifiers), kind)
        return {int(opcode == "wmma.store"): count}
    form = matrix_forms.form_of(opcode, modifiers)
    assert form is not None
    return matrix_forms.operand_registers(form)


# abi/ptx_isa/refused_on_amdgpu.py, TEXTURE_FORMS.
ON_CPU_ALONE = re.compile(r"^(tex|tld4)\b.*\.(level|grad|cube|acube)\b")


def chosen_forms() -> list[Form]:
    forms: list[Form] = []
    for row in OPCODES.values():
        if row.status in ("todo", "refuse") or row.family == "control":
            continue
        immediates = {3: 0xCA} if row.name == "lop3" else None
        spellings = [text for text in expand_all(row.syntax) if not ON_CPU_ALONE.search(text)]
        if row.family in ("matrix", "wmma"):
            forms.extend(synthesise(text, groups=matrix_groups(text)) for text in spellings[::10])
            continue
        forms.extend(synthesise(text, immediates) for text in spellings[:: SPARSE.get(row.name, 1)])
    return forms


EMPTY = parse_module(
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) { ret; }"
)


def empty_plan(target: str) -> FunctionPlan:
    """Of a kernel without code, with words for all kinds of barriers and with memory for `alloca`."""
    graph = build_graph(EMPTY, EMPTY.functions["k"])
    plan = FunctionPlan(EMPTY, graph, AmdgpuOptions(target), True, MemoryLayout(), 0, {}, {}, 0, 0, 8)
    plan.stack_at, plan.local_bytes = 0, STACK_ALIGN + 4096
    return plan


def build(form: Form, name: str, writer: FunctionWriter) -> str:
    """A kernel that loads the operands, executes the form and stores the results."""
    machine, emitter = writer.machine, writer.emitter
    writer.current_label = "start"
    machine.instruction = form.instruction
    parameters = []
    for at in (0, 8):
        place = emitter.emit("ptr", 1, f"getelementptr i8, ptr addrspace(4) %parameters, i64 {at}").text
        parameters.append(emitter.emit("ptr", 1, f"load ptr addrspace(1), ptr addrspace(4) {place}").text)
    offset = 0

    def operand(bits: int) -> Value:
        nonlocal offset
        storage = 8 if bits == 1 else bits
        pointer = emitter.name()
        emitter.line(f"{pointer} = getelementptr i8, ptr addrspace(1) {parameters[0]}, i64 {offset}")
        offset += 16
        value = emitter.emit(f"i{storage}", 1, f"load i{storage}, ptr addrspace(1) {pointer}, align 16")
        return emitter.cast("trunc", value, "i1") if bits == 1 else value

    slots = dispatch.signature(form.instruction)
    values: list[object] = []
    widths = iter([width for _, width in form.sources])
    for slot in slots.sources:
        if slot.type == "A":
            values.append(operand(64))
        elif slot.type == "X":
            values.append(slot.operand)
        elif isinstance(slot.operand, Immediate):
            values.append(dispatch.immediate(emitter, slot.operand, slot.type))
        else:
            values.append(operand(next(widths)))
    if slots.reads_carry:
        values.append(operand(1))
    results = dispatch.apply(machine, form.instruction, values, [w for _, w in form.destinations], slots)
    for index, value in enumerate(results):
        pointer = emitter.name()
        emitter.line(f"{pointer} = getelementptr i8, ptr addrspace(1) {parameters[1]}, i64 {16 * index}")
        stored = emitter.cast("zext", value, "i8") if value.type == "i1" else value
        emitter.line(f"store {stored.typed}, ptr addrspace(1) {pointer}, align 16")
    body = "\n".join([*writer.allocas, "  br label %start", "start:", *emitter.lines])
    arguments = (
        "ptr addrspace(4) byref([16 x i8]) align 16 %parameters, ptr addrspace(4) byref([64 x i8]) align 8 %record"
    )
    return f"define amdgpu_kernel void @{name}({arguments}) #0 {{\nentry:\n{body}\n  ret void\n}}"


def main() -> None:
    target_name, part, parts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    forms = chosen_forms()[part::parts]
    plan = empty_plan(target_name)
    done = 0
    for start in range(0, len(forms), 100):
        module = ModuleText(plan.options, 4096)
        for index, form in enumerate(forms[start : start + 100]):
            writer = FunctionWriter(plan)
            try:
                module.functions.append(build(form, f"k{start + index}", writer))
            except CuttleError as error:
                print(f"refused {form.name}: {error.message}")
                continue
            module.take(writer)
            done += 1
        assert len(compile_object(module.text(), target_name, 0).object) > 1000
    print(f"compiled {done}")


if __name__ == "__main__":
    main()
