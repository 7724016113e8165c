"""Loads, stores, atomics and reductions as forms of their own: each thread has a memory cell of 32 bytes.

A kernel puts the cell's first contents where the instruction's state space says (global memory, or a place in shared memory),
executes the one instruction on it, and keeps the results and what the cell then holds. Ordering and scope change nothing for
a cell that nobody else knows, so one form stands for all of them.
"""

from __future__ import annotations

import zlib

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.refused import refused_by
from cuttle.abi.ptx_isa.syntax import expand_all
from cuttle.lower.ops.coverage import HINTS, ORDERINGS
from cuttle.lower.ops.forms import Form, inputs, synthesise
from cuttle.ptx.ir import TYPE_BITS
from cuttle.ptx.opcode_roots import split_opcode
from cuttle.sweep.forms import storage_bytes

OPCODES_OF_CELLS = ("ld", "ldu", "st", "atom", "red")
SPACES = ("global", "shared")
CELL_BYTES = 32
COUNT = 128


def cell_forms() -> list[Form]:
    """Every form of the opcodes on generic, global and shared addresses, without hints, ordering and scope."""
    forms: list[Form] = []
    for opcode in OPCODES_OF_CELLS:
        for spelling in expand_all(OPCODES[opcode].syntax):
            parts = split_opcode(spelling)
            assert parts is not None
            modifiers = parts[1]
            if refused_by(opcode, modifiers) or any(name in HINTS | ORDERINGS for name in modifiers):
                continue
            if any(name in modifiers for name in ("const", "local", "param")):
                continue
            forms.append(synthesise(spelling))
    return forms


def space_of(form: Form) -> str:
    """`global`, `shared`, or empty for a generic address (of global memory)."""
    return next((space for space in SPACES if form.instruction.has(space)), "")


def element_type(form: Form) -> str:
    """The type of what lies in the cell."""
    return form.instruction.type


def columns_of(form: Form, seed: int) -> tuple[list[list[int]], list[bytes]]:
    """The source columns, and the first contents of each thread's cell."""
    kind = element_type(form)
    size = TYPE_BITS[kind] // 8
    held = min(CELL_BYTES // size, 8)
    types = [name for name, _ in form.sources] + [kind] * held
    # Forms with the same types share their values, which keeps the recording small.
    start = zlib.crc32(f"{seed}:{','.join(types)}".encode())
    columns = inputs(types, COUNT, start, share=0.5, first=start)
    count = len(form.sources)
    cells = [
        b"".join(value.to_bytes(size, "little") for value in row).ljust(CELL_BYTES, b"\xa5")
        for row in zip(*columns[count:], strict=True)
    ]
    return columns[:count], cells


def packed_inputs(form: Form, seed: int) -> bytes:
    """What the kernel reads: the source columns one after the other, then the cells."""
    columns, cells = columns_of(form, seed)
    sizes = [storage_bytes(width) for _, width in form.sources]
    parts = [value.to_bytes(size, "little") for column, size in zip(columns, sizes, strict=True) for value in column]
    return b"".join(parts).ljust(-(-sum(map(len, parts)) // 32) * 32, b"\0") + b"".join(cells)


def result_bytes(form: Form) -> int:
    """Bytes per thread that the kernel writes: the results, then the cell (its offset is a multiple of 32)."""
    return COUNT * CELL_BYTES + _result_area(form)


def _result_area(form: Form) -> int:
    return -(-COUNT * sum(storage_bytes(width) for _, width in form.destinations) // 32) * 32


def cell_kernel(form: Form, name: str) -> str:
    """A kernel `name(in, out)` of 128 threads: result columns at `out`, then the cells."""
    lines = [
        f".visible .entry {name}(.param .u64 pin, .param .u64 pout)",
        "{",
        f".shared .align 32 .b8 cells[{128 * CELL_BYTES}];",
        ".reg .b16 %h<4>;",
        ".reg .b32 %me, %size, %block, %thread;",
        ".reg .b64 %in, %out, %index, %at, %a0, %cell, %part<4>;",
    ]
    for prefix, items in (("s", form.sources), ("d", form.destinations)):
        for index, (_, width) in enumerate(items):
            lines.append(f".reg .b{width} %{prefix}{index};")
    lines += [
        "ld.param.u64 %in, [pin];", "ld.param.u64 %out, [pout];",
        "mov.u32 %thread, %tid.x;", "mov.u32 %size, %ntid.x;", "mov.u32 %block, %ctaid.x;",
        "mad.lo.u32 %me, %block, %size, %thread;", "cvt.u64.u32 %index, %me;",
    ]  # fmt: skip
    offset = 0
    for index, (_, width) in enumerate(form.sources):
        size = storage_bytes(width)
        lines += [f"mad.lo.u64 %at, %index, {size}, %in;", f"ld.global.b{width} %s{index}, [%at+{offset}];"]
        offset += size * COUNT
    offset = -(-offset // 32) * 32
    lines += [f"mad.lo.u64 %at, %index, {CELL_BYTES}, %in;", f"mad.lo.u64 %cell, %index, {CELL_BYTES}, %out;"]
    lines.append(f"add.u64 %cell, %cell, {_result_area(form)};")
    shared = space_of(form) == "shared"
    if shared:
        lines += ["mov.u64 %a0, cells;", f"mad.wide.u32 %a0, %thread, {CELL_BYTES}, %a0;"]
    else:
        lines.append("mov.u64 %a0, %cell;")
    place = "shared" if shared else "global"
    for part in range(4):
        lines += [f"ld.global.b64 %part0, [%at+{offset + 8 * part}];", f"st.{place}.b64 [%a0+{8 * part}], %part0;"]
    lines.append(form.text)
    if shared:
        for part in range(4):
            lines += [f"ld.shared.b64 %part0, [%a0+{8 * part}];", f"st.global.b64 [%cell+{8 * part}], %part0;"]
    offset = 0
    for index, (_, width) in enumerate(form.destinations):
        size = storage_bytes(width)
        lines += [f"mad.lo.u64 %at, %index, {size}, %out;", f"st.global.b{width} [%at+{offset}], %d{index};"]
        offset += size * COUNT
    return "\n".join([*lines, "ret;", "}"])
