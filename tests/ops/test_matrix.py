"""mma, wmma, ldmatrix, stmatrix, movmatrix on one warp: against matrix products by the manual's layout tables, and bit by
bit against what tools/record_mma.py recorded on an H200 (sweep/recordings/golden_mma.xz).
"""

from __future__ import annotations

import ctypes
import re
import struct

import pytest
from lowering import lower, lower_plain
from matrix_golden import fragment_places, mismatches, recorded_places, replay
from warp_harness import run_warp

from cuttle.errors import PtxError
from cuttle.lower.ops.forms import Stream
from cuttle.lower.ops.matrix_forms import INTEGERS, kinds_after_shape, shape_of
from cuttle.sweep.golden import MATRIX_SECOND, MatrixRecord, matrix_records
from cuttle.sweep.matrix import all_forms, load_forms, recorded_of

LANES = range(32)
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "f32": 32, "s32": 32}


def encode(value: float, kind: str) -> int:
    """A small number in the element type."""
    if kind in ("f32", "tf32"):
        return int.from_bytes(struct.pack("<f", value), "little")
    if kind == "bf16":
        return int.from_bytes(struct.pack("<f", value), "little") >> 16
    if kind == "f16":
        return int.from_bytes(struct.pack("<e", value), "little")
    if kind == "f64":
        return int.from_bytes(struct.pack("<d", value), "little")
    return int(value) & (1 << BITS[kind]) - 1


def matrix(rows: int, columns: int, kind: str, seed: int) -> list[list[float]]:
    """Small integers, so that every format and every order of summation is exact."""
    stream = Stream(seed)
    spans = {"u8": (0, 255), "s8": (-128, 127), "u4": (0, 15), "s4": (-8, 7), "b1": (0, 1)}
    low, high = spans.get(kind, (-8, 8))
    return [[float(low + stream.next() % (high - low + 1)) for _ in range(columns)] for _ in range(rows)]


def a_place(lane: int, register: int, element: int, kind: str, row_halves: int) -> tuple[int, int]:
    """Row and k of an element of A (9.7.14.5.1 to .13, one formula)."""
    side = 1 if kind == "f64" else 32 // BITS[kind]
    row = lane // 4 + 8 * (register % row_halves)
    return row, lane % 4 * side + element + 4 * side * (register // row_halves)


def fill(place: object, source: list[list[float]], kind: str, registers: int) -> list[list[int]]:
    """Lane values of each register."""
    side = 1 if kind == "f64" else 32 // BITS[kind]
    columns = []
    for register in range(registers):
        column = []
        for lane in LANES:
            word = 0
            for element in range(side):
                row, k = place(lane, register, element)  # type: ignore[operator]
                word |= encode(source[row][k], kind) << element * BITS[kind]
            column.append(word)
        columns.append(column)
    return columns


CASES = (
    "m16n8k8.row.col.f32.f16.f16.f32", "m16n8k16.row.col.f32.f16.f16.f32", "m16n8k16.row.col.f16.f16.f16.f16",
    "m16n8k8.row.col.f32.bf16.bf16.f32", "m16n8k16.row.col.f32.bf16.bf16.f32", "m16n8k4.row.col.f32.tf32.tf32.f32",
    "m16n8k8.row.col.f32.tf32.tf32.f32", "m8n8k4.row.col.f64.f64.f64.f64", "m16n8k16.row.col.f64.f64.f64.f64",
    "m8n8k16.row.col.s32.s8.u8.s32", "m16n8k16.row.col.s32.u8.s8.s32", "m16n8k32.row.col.s32.s8.s8.s32",
    "m8n8k32.row.col.s32.s4.u4.s32", "m16n8k64.row.col.s32.u4.s4.s32", "m16n8k256.row.col.s32.b1.b1.s32.and.popc",
    "m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
)  # fmt: skip


@pytest.mark.parametrize("form", CASES)
def test_mma(form: str) -> None:
    shape, _, _, d_kind, a_kind, b_kind, c_kind = form.split(".")[:7]
    m, n, k = (int(x) for x in re.findall(r"\d+", shape))
    a, b = matrix(m, k, a_kind, 1), matrix(k, n, b_kind, 2)
    c = matrix(m, n, "f16", 3)
    side = 1 if a_kind == "f64" else 32 // BITS[a_kind]
    row_halves, k_halves = m // 8, k // (4 * side)
    left = fill(lambda lane, r, e: a_place(lane, r, e, a_kind, row_halves), a, a_kind, row_halves * k_halves)
    transposed = [[b[row][column] for row in range(k)] for column in range(n)]
    right = fill(lambda lane, r, e: a_place(lane, r, e, b_kind, 1), transposed, b_kind, k_halves)

    def c_place(lane: int, register: int) -> tuple[int, int]:
        return lane // 4 + 8 * (register // 2), lane % 4 * 2 + register % 2

    flat = [[c[c_place(lane, r)[0]][c_place(lane, r)[1]] for lane in LANES] for r in range(2 * row_halves)]
    if c_kind == "f16":
        old = [
            [encode(x, "f16") | encode(y, "f16") << 16 for x, y in zip(flat[i], flat[i + 1], strict=True)]
            for i in range(0, len(flat), 2)
        ]
    else:
        old = [[encode(x, c_kind) for x in column] for column in flat]
    width = 64 if a_kind == "f64" else 32
    names = {"a": left, "b": right, "c": old}
    inputs = {f"%{role}{i}": column for role, columns in names.items() for i, column in enumerate(columns)}
    outputs = {f"%d{i}": width for i in range(len(old))}
    braces = ["{" + ", ".join(f"%{role}{i}" for i in range(count)) + "}"
              for role, count in (("d", len(old)), ("a", len(left)), ("b", len(right)), ("c", len(old)))]  # fmt: skip
    widths = {name: width for name in [*inputs, *outputs]}
    answers = run_warp(f"mma.sync.aligned.{form} {', '.join(braces)};", inputs, outputs, widths)

    def product(row: int, column: int) -> float:
        total = c[row][column]
        for i in range(k):
            if a_kind == "b1":
                x, y = int(a[row][i]), int(b[i][column])
                total += x & y if ".and." in form else x ^ y
            else:
                total += a[row][i] * b[i][column]
        return total

    for register in range(len(flat)):
        for lane in LANES:
            wanted = encode(product(*c_place(lane, register)), d_kind)
            if d_kind == "f16":
                got = answers[f"%d{register // 2}"][lane] >> 16 * (register % 2) & 0xFFFF
            else:
                got = answers[f"%d{register}"][lane]
            assert got == wanted, (register, lane)


def test_saturation() -> None:
    inputs = {"%a0": [0x7F7F7F7F] * 32, "%b0": [0x7F7F7F7F] * 32, "%c0": [0x7FFFFFF0] * 32, "%c1": [0] * 32}
    widths = dict.fromkeys([*inputs, "%d0", "%d1"], 32)
    text = "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32 {%d0, %d1}, {%a0}, {%b0}, {%c0, %c1};"
    answers = run_warp(text, inputs, {"%d0": 32, "%d1": 32}, widths)
    assert set(answers["%d0"]) == {0x7FFFFFFF} and set(answers["%d1"]) == {16 * 127 * 127}


# -- ldmatrix, stmatrix, movmatrix -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_and_stmatrix(count: int, trans: str) -> None:
    """Rows in scattered places; lanes without a row have address 0, which must not be touched."""
    memory = ctypes.create_string_buffer(32 * 24)
    halves = [(37 * i + 11) & 0xFFFF for i in range(32 * 12)]
    memory.raw = struct.pack(f"<{len(halves)}H", *halves)
    base = ctypes.addressof(memory)
    addresses = [base + (31 - lane) * 24 if lane < 8 * count else 0 for lane in LANES]
    names = [f"%r{i}" for i in range(count)]
    brace = "{" + ", ".join(names) + "}"
    widths = {"%p": 64, **dict.fromkeys(names, 32)}
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {brace}, [%p];"
    answers = run_warp(text, {"%p": addresses}, dict.fromkeys(names, 32), widths)

    def element(number: int, row: int, column: int) -> int:
        at = (addresses[8 * number + row] - base) // 2 + column
        return halves[at]

    for number, name in enumerate(names):
        for lane in LANES:
            pairs = [(lane // 4, lane % 4 * 2 + e) for e in (0, 1)]
            low, high = (element(number, *(pair[::-1] if trans else pair)) for pair in pairs)
            assert answers[name][lane] == low | high << 16
    target = ctypes.create_string_buffer(32 * 24)
    moved = [address - base + ctypes.addressof(target) if address else 0 for address in addresses]
    text = f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%p], {brace};"
    run_warp(text, {"%p": moved, **answers}, {}, widths)
    for lane in range(8 * count):
        at = addresses[lane] - base
        assert target.raw[at : at + 16] == memory.raw[at : at + 16]


def test_movmatrix() -> None:
    values = [lane * 2 | (lane * 2 + 1) << 16 for lane in LANES]  # element (r, c) is 8r + c
    widths = {"%a": 32, "%d": 32}
    answers = run_warp("movmatrix.sync.aligned.m8n8.trans.b16 %d, %a;", {"%a": values}, {"%d": 32}, widths)
    for lane in LANES:
        row, column = lane // 4, lane % 4 * 2
        assert answers["%d"][lane] == (8 * column + row) | (8 * (column + 1) + row) << 16


# -- wmma ------------------------------------------------------------------------------------------------------------

WMMA = (
    ("m16n16k16", "f16", "f32", "f32", 8, 8, 8), ("m32n8k16", "f16", "f16", "f16", 8, 8, 4),
    ("m8n32k16", "f16", "f32", "f16", 8, 8, 8), ("m16n16k16", "s8", "s32", "s32", 2, 2, 8),
    ("m16n16k16", "bf16", "f32", "f32", 4, 4, 8), ("m16n16k8", "tf32", "f32", "f32", 4, 4, 8),
    ("m8n8k4", "f64", "f64", "f64", 1, 1, 2), ("m8n32k16", "u8", "s32", "s32", 1, 4, 8),
)  # fmt: skip


def store_matrix(values: list[list[float]], kind: str, row_major: bool, stride: int) -> ctypes.Array[ctypes.c_char]:
    rows, columns = len(values), len(values[0])
    size = BITS[kind] // 8
    memory = ctypes.create_string_buffer(size * stride * max(rows, columns))
    for row in range(rows):
        for column in range(columns):
            at = (row * stride + column if row_major else column * stride + row) * size
            memory[at : at + size] = encode(values[row][column], kind).to_bytes(size, "little")
    return memory


@pytest.mark.parametrize(("shape", "kind", "d_kind", "c_kind", "a_count", "b_count", "d_count"), WMMA)
@pytest.mark.parametrize("layouts", ["row.col", "col.row"])
def test_wmma(
    shape: str, kind: str, d_kind: str, c_kind: str, a_count: int, b_count: int, d_count: int, layouts: str
) -> None:
    m, n, k = (int(x) for x in re.findall(r"\d+", shape))
    a, b, c = matrix(m, k, kind, 4), matrix(k, n, kind, 5), matrix(m, n, "f16", 6)
    a_layout, b_layout = layouts.split(".")
    width = 64 if kind == "f64" else 32
    c_count = d_count if c_kind == d_kind else {"f16": 4, "f32": 8}[c_kind]
    registers: dict[str, list[int]] = {}
    for role, values, layout, count in (
        ("a", a, a_layout, a_count),
        ("b", b, b_layout, b_count),
        ("c", c, a_layout, c_count),
    ):
        element = c_kind if role == "c" else kind
        memory = store_matrix(values, element, layout == "row", 48)
        names = [f"%{role}{i}" for i in range(count)]
        text = f"wmma.load.{role}.sync.aligned.{layout}.{shape}.{element} {{{', '.join(names)}}}, [%p], 48;"
        widths = {"%p": 64, **dict.fromkeys(names, width)}
        registers |= run_warp(text, {"%p": [ctypes.addressof(memory)] * 32}, dict.fromkeys(names, width), widths)
    kinds = f"{d_kind}.{c_kind}" if kind == "f16" else f"{d_kind}.{kind}.{kind}.{c_kind}"
    braces = ["{" + ", ".join(f"%{role}{i}" for i in range(count)) + "}"
              for role, count in (("d", d_count), ("a", a_count), ("b", b_count), ("c", c_count))]  # fmt: skip
    outputs = {f"%d{i}": width for i in range(d_count)}
    widths = dict.fromkeys([*registers, *outputs], width)
    text = f"wmma.mma.sync.aligned.{layouts}.{shape}.{kinds} {', '.join(braces)};"
    results = run_warp(text, registers, outputs, widths)
    memory = store_matrix([[0.0] * n for _ in range(m)], d_kind, b_layout == "row", 48)
    text = f"wmma.store.d.sync.aligned.{b_layout}.{shape}.{d_kind} [%p], {braces[0]}, 48;"
    run_warp(text, {"%p": [ctypes.addressof(memory)] * 32, **results}, {}, {"%p": 64, **widths})
    wanted = [[c[i][j] + sum(a[i][x] * b[x][j] for x in range(k)) for j in range(n)] for i in range(m)]
    assert memory.raw == store_matrix(wanted, d_kind, b_layout == "row", 48).raw


# -- against the H200 ------------------------------------------------------------------------------------------------


def chosen(pattern: str) -> list[MatrixRecord]:
    """Recorded forms: the plain ones of floats (of wmma every other), of integers, layouts, selectors, roundings a tenth.

    `python tests/ops/matrix_golden.py` compares all.
    """
    groups: dict[tuple[str, bool], list[MatrixRecord]] = {}
    for record in matrix_records(pattern=pattern):
        form = recorded_of(record.name).form
        plain = record.calls > 3 and form.a_kind not in (*INTEGERS, "e4m3", "e5m2")
        groups.setdefault((form.a_kind, plain), []).append(record)
    step = 2 if "wmma" in pattern else 1
    return [record for (_, plain), group in groups.items() for record in group[:: step if plain else 10]]


@pytest.mark.parametrize("pattern", [r"^mma\.sync", r"^mma\.sp\.", r"^mma\.sp::", r"^wmma\.mma"])
def test_bits_of_the_h200(pattern: str) -> None:
    some = chosen(pattern)
    assert len(some) > 5
    for record, ours in zip(some, replay(some), strict=True):
        assert mismatches(record, ours) == [], record.name


@pytest.mark.slow
def test_second_seed() -> None:
    """All forms with operands that were not looked at while Cuttle was written."""
    everything = [record for record in matrix_records(MATRIX_SECOND) if "load" not in record.name]
    for start in range(0, len(everything), 20):
        some = everything[start : start + 20]
        for record, ours in zip(some, replay(some), strict=True):
            assert mismatches(record, ours) == [], record.name


def test_every_form_is_recorded() -> None:
    assert {record.name for record in matrix_records()} == {*(item.name for item in all_forms()), *load_forms()}


def test_wmma_layout_of_the_h200() -> None:
    for record in matrix_records(pattern=r"^wmma\.load"):
        names = record.name.split(".")
        kind = kinds_after_shape(names)[-1]
        wanted = recorded_places(record)
        ours = fragment_places(names[2], shape_of(names), kind)
        if kind in ("s4", "u4", "b1"):  # our places name the first element of each register only
            wanted = [[lane[:1] for lane in register] for register in wanted]
            ours = [[lane[:1] for lane in register] for register in ours]
        assert [ours[index % len(ours)] for index in range(len(wanted))] == wanted, record.name


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32", "this form"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "this form"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "operand 1 of other than 2 registers"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.f32.f32.f32", "this form"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    widths = dict.fromkeys(("%d0", "%d1", "%d2", "%d3", "%a0", "%a1", "%a2", "%a3", "%b0", "%b1"), 32)
    operands = "{%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1}, {%d0, %d1, %d2, %d3};"
    with pytest.raises(PtxError, match=reason):
        run_warp(f"{text} {operands}", {name: [0] * 32 for name in widths}, {}, widths)


@pytest.mark.parametrize(
    ("text", "operand"),
    [
        ("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {LIST8}, [%p];", 0),
        ("wmma.load.b.sync.aligned.col.m16n16k16.shared.s8 {LIST2}, [%p], %s;", 0),
        ("wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {LIST8}, [%p], %s;", 0),
        ("wmma.store.d.sync.aligned.col.m16n16k16.shared.s32 [%p], {LIST8};", 1),
        ("wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%p], {LIST4}, %s;", 1),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {LIST4}, [%p];", 0),
        ("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {LIST1}, [%p];", 0),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%p], {LIST2};", 1),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {LIST4}, {LIST4}, {LIST2}, {LIST4};", 0),
    ],
)
def test_the_number_of_registers(text: str, operand: int) -> None:
    """Every leg takes the number that the fragment has, and no other: fewer would leave out a part, more would make one up."""
    head = "{ .reg .b64 %p; .reg .b32 %s; .reg .b32 %r<12>; mov.u64 %p, 64; mov.u32 %s, 16; "

    def written(change: int) -> str:
        parts = re.split(r"LIST(\d)", text)
        for index in range(1, len(parts), 2):
            count = int(parts[index]) + (change if index == 1 else 0)
            parts[index] = ", ".join(f"%r{number}" for number in range(count))
        return head + "".join(parts) + " }"

    for leg in (lower, lower_plain):
        assert "define" in leg(written(0))
        for change in (-1, 1):
            if "{}" in written(change):
                continue
            with pytest.raises(PtxError, match=f"operand {operand} of other than") as caught:
                leg(written(change))
            assert caught.value.code == "PTX-0207"


def test_sparsity_selector_out_of_range() -> None:
    names = ["%d0", "%d1", "%d2", "%d3", "%a0", "%a1", "%a2", "%a3", "%b0", "%b1", "%b2", "%b3", "%e"]
    operands = "{%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3}, {%b0, %b1, %b2, %b3}, {%d0, %d1, %d2, %d3}, %e, 2;"
    with pytest.raises(PtxError, match="selector 2"):
        text = f"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {operands}"
        run_warp(text, {name: [0] * 32 for name in names}, {}, dict.fromkeys(names, 32))
