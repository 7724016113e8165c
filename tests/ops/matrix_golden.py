"""Replays what `tools/record_mma.py` recorded on an H200 through our op functions.

python tests/ops/matrix_golden.py [FILE] [REGULAR-EXPRESSION]    # prints mismatches per form
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import harness
from warp_harness import parse
from warp_machine import LANES, WarpMachine

from cuttle.lower.emit import Emitter, Value
from cuttle.lower.ops import dispatch
from cuttle.lower.ops.matrix_forms import ELEMENT_BITS
from cuttle.lower.ops.wmma import Fragment
from cuttle.ptx.ir import Immediate, Register
from cuttle.sweep.golden import MATRIX, MatrixRecord, matrix_records
from cuttle.sweep.matrix import Recorded, inputs_of, load_shape, modes_of, recorded_of


class FastWarp(WarpMachine):
    """Shuffles from constant lanes as one instruction."""

    def shuffle(self, value: Value, source_lane: Value) -> Value:
        lanes = self.emitter.vector_elements(source_lane)
        if value.lanes == 1 or lanes is None:
            return super().shuffle(value, source_lane)
        pattern = ", ".join(f"i32 {lane % LANES}" for lane in lanes)
        return self.emitter.emit(
            value.type, LANES, f"shufflevector {value.typed}, {value.llvm_type} poison, <{LANES} x i32> <{pattern}>"
        )


def instruction_text(item: Recorded) -> tuple[str, dict[str, str], list[str]]:
    """The instruction with registers, their PTX types, and the names of the source registers in order."""
    kind = f"b{item.width}"
    groups = item.groups()
    names = [[f"%{prefix}{i}" for i in range(groups[index])] for index, prefix in enumerate("dabc")]
    types = {name: kind for group in names for name in group}
    sources = [name for group in names[1:] for name in group]
    tail = ""
    if item.form.sparse:
        types["%e"] = "b32"
        sources.append("%e")
        tail = f", %e, {item.selector}"
    braces = ", ".join("{" + ", ".join(group) + "}" for group in names)
    return f"{item.spelling} {braces}{tail};", types, sources


def add_function(module: harness.Module, item: Recorded, name: str) -> None:
    """`void name(in, out, i64 calls)`: registers of each call, 32 lanes each, one after the other."""
    text, types, sources = instruction_text(item)
    instruction = parse(text, types)
    emitter = Emitter()
    machine = FastWarp(emitter, emitter.const("i32", -1))
    emitter.line("br label %loop")
    emitter.lines.append("loop:")
    emitter.line("%i = phi i64 [ 0, %entry ], [ %next, %loop ]")

    def place(base: str, stride: int, offset: int) -> str:
        start, address = emitter.name(), emitter.name()
        emitter.line(f"{start} = mul i64 %i, {stride}")
        emitter.line(f"{address} = getelementptr i8, ptr {base}, i64 {start}")
        result = emitter.name()
        emitter.line(f"{result} = getelementptr i8, ptr {address}, i64 {offset}")
        return result

    sizes = [LANES * (4 if source == "%e" else item.width // 8) for source in sources]
    values: dict[str, Value] = {}
    for index, (source, size) in enumerate(zip(sources, sizes, strict=True)):
        bits = size * 8 // LANES
        address = place("%in", sum(sizes), sum(sizes[:index]))
        values[source] = emitter.emit(f"i{bits}", LANES, f"load <{LANES} x i{bits}>, ptr {address}, align 4")
    slots = dispatch.signature(instruction)
    operands: list[object] = []
    for slot in slots.sources:
        if slot.type == "X" or isinstance(slot.operand, Immediate):
            operands.append(slot.operand)
        else:
            assert isinstance(slot.operand, Register)
            operands.append(values[slot.operand.name])
    results = dispatch.apply(machine, instruction, operands, None, slots)  # type: ignore[arg-type]
    for index, value in enumerate(results):
        address = place("%out", item.result_bytes, index * LANES * value.bits // 8)
        emitter.line(f"store {emitter.splat(value, LANES).typed}, ptr {address}, align 4")
    emitter.line("%next = add i64 %i, 1")
    emitter.line("%more = icmp ult i64 %next, %n")
    emitter.line("br i1 %more, label %loop, label %done")
    emitter.lines.append("done:")
    emitter.line("ret void")
    body = "\n".join(emitter.lines)
    module.functions.append(f"define void @{name}(ptr %in, ptr %out, i64 %n) {{\nentry:\n{body}\n}}")
    module.declarations.update(emitter.declarations)
    module.constants.update(emitter.constants)


def fragment_places(role: str, shape: tuple[int, int, int], kind: str) -> list[list[list[tuple[int, int]]]]:
    """(row, column) of each element of each lane of each register of a wmma fragment, by our layout."""
    emitter = Emitter()
    machine = FastWarp(emitter, emitter.const("i32", -1))
    found: list[list[list[tuple[int, int]]]] = []
    for register in Fragment(machine, role, shape, kind).registers():  # type: ignore[arg-type]
        pairs = [[value.elements or (value.constant or 0,) * LANES for value in place] for place in register]
        found.append([[(row[lane], column[lane]) for row, column in pairs] for lane in range(LANES)])
    return found


def fragments(item: Recorded, matrices: bytes) -> bytes:
    """The recorder's matrices in memory as the registers wmma.load makes of them."""
    form, groups = item.form, item.groups()
    layouts = [name for name in item.spelling.split(".") if name in ("row", "col")] + ["row"]
    result: list[bytes] = []
    at = 0
    for index, (role, kind) in enumerate((("a", form.a_kind), ("b", form.b_kind), ("c", form.c_kind))):
        rows, columns = {"a": (form.m, form.k), "b": (form.k, form.n)}.get(role, (form.m, form.n))
        bits = ELEMENT_BITS[kind]
        size = rows * columns * bits // 8
        number = int.from_bytes(matrices[at : at + size], "little")
        at += size
        mask = (1 << bits) - 1
        flat = [number >> bits * i & mask for i in range(rows * columns)] if bits < 8 else [
            int.from_bytes(matrices[at - size + i * bits // 8 :][: bits // 8], "little") for i in range(rows * columns)
        ]  # fmt: skip
        registers: list[bytes] = []
        for register in fragment_places(role, (form.m, form.n, form.k), kind):
            words = []
            for lane in register:
                word = 0
                for element, (row, column) in enumerate(lane):
                    where = row * columns + column if layouts[index] == "row" else column * rows + row
                    word |= flat[where] << bits * element
                if bits < 8:
                    # The fragment names a register's first element; the others follow it in memory.
                    row, column = lane[0]
                    where = row * columns + column if layouts[index] == "row" else column * rows + row
                    word = number >> bits * where & 0xFFFFFFFF
                words.append(word.to_bytes(item.width // 8, "little"))
            registers.append(b"".join(words))
        result.extend(registers[i % len(registers)] for i in range(groups[index + 1]))
    return b"".join(result)


def replay(chosen: Sequence[MatrixRecord], optimise: int = 1) -> list[bytes]:
    """Our results, as `MatrixRecord.results`."""
    module = harness.Module()
    items = [recorded_of(record.name) for record in chosen]
    for index, item in enumerate(items):
        add_function(module, item, f"f{index}")
    compiled = harness.Compiled(module, optimise)
    answers: list[bytes] = []
    for index, (record, item) in enumerate(zip(chosen, items, strict=True)):
        calls = [inputs_of(item, call, record.seed) for call in range(record.calls)]
        if item.form.opcode == "wmma.mma":
            calls = [fragments(item, call) for call in calls]
        output = ctypes.create_string_buffer(len(record.results))
        address = compiled.engine.get_function_address(f"f{index}")
        function = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)(address)
        function(b"".join(calls), ctypes.addressof(output), record.calls)
        answers.append(output.raw)
    return answers


def recorded_places(record: MatrixRecord) -> list[list[list[tuple[int, int]]]]:
    """(row, column) of each element of each lane of each register of a recorded wmma.load."""
    _, _, _, leading, kind, count = load_shape(record.name)
    bits, size = ELEMENT_BITS[kind], 8 if kind == "f64" else 4
    elements = size * 8 // bits
    digit = min(bits, 16)
    found: list[list[list[tuple[int, int]]]] = []
    for register in range(count):
        lanes: list[list[tuple[int, int]]] = []
        for lane in range(LANES):
            indices = [0] * elements
            for call in range(record.calls):
                at = ((call * count + register) * LANES + lane) * size
                word = int.from_bytes(record.results[at : at + size], "little")
                for element in range(elements):
                    indices[element] |= (word >> bits * element & (1 << digit) - 1) << bits * call
            pairs = [divmod(index, leading) for index in indices]
            lanes.append(pairs if ".row." in record.name else [(row, column) for column, row in pairs])
        found.append(lanes)
    return found


def mismatches(record: MatrixRecord, ours: bytes) -> list[tuple[int, str, int, int]]:
    """(call, mode, ours, GPU's) of the registers that differ."""
    if ours == record.results:
        return []
    item = recorded_of(record.name)
    size = item.width // 8
    found: list[tuple[int, str, int, int]] = []
    for at in range(0, len(ours), size):
        if ours[at : at + size] != record.results[at : at + size]:
            call = at // item.result_bytes
            mode = modes_of(item)[call % len(modes_of(item))]
            pair = [int.from_bytes(raw[at : at + size], "little") for raw in (ours, record.results)]
            found.append((call, mode, pair[0], pair[1]))
    return found


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else MATRIX
    chosen = [
        record for record in matrix_records(path, sys.argv[2] if len(sys.argv) > 2 else "") if "load" not in record.name
    ]
    bad = 0
    for start in range(0, len(chosen), 20):
        part = chosen[start : start + 20]
        for record, ours in zip(part, replay(part), strict=True):
            found = mismatches(record, ours)
            if found:
                bad += 1
                print(f"{record.name}: {len(found)} registers of {record.calls} calls differ")
                for call, mode, mine, theirs in found[:3]:
                    print(f"    call {call} ({mode}): ours {mine:#x}, GPU {theirs:#x}")
    print(f"{len(chosen)} forms, {bad} with differences")


if __name__ == "__main__":
    main()
