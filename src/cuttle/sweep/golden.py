"""Reads what `tools/record_ptx.py` and `tools/record_mma.py` recorded on an NVIDIA GPU.

A recording is an xz file: one JSON line (device, seed, forms with counts and sizes), then the results, form after form.
Files may come from anywhere (`cuttle sweep --golden`), so sizes are checked before they are believed.
"""

from __future__ import annotations

import json
import lzma
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from cuttle.abi.ptx_isa import OPCODES
from cuttle.errors import SweepError
from cuttle.lower.ops.forms import Form
from cuttle.sweep.cells import OPCODES_OF_CELLS, result_bytes
from cuttle.sweep.forms import (
    PURE,
    SKIPPED,
    Operands,
    form_of,
    result_operands,
    source_operands,
    storage_bytes,
)

FOLDER = Path(__file__).parent / "recordings"
PTX, PTX_SECOND = FOLDER / "golden_ptx.xz", FOLDER / "second_ptx.xz"
MATRIX, MATRIX_SECOND = FOLDER / "golden_mma.xz", FOLDER / "second_mma.xz"
CELLS, CELLS_SECOND = FOLDER / "cells_ptx.xz", FOLDER / "second_cells.xz"
DENSE = FOLDER / "sweeps_ptx.xz"
_LIMIT = 1 << 30  # bytes unpacked
MOST_OPERANDS = 1 << 16
_KEYS = {"form": str, "count": int, "calls": int, "bytes": int, "first": int, "step": int}


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded form: operand columns and the GPU's result columns."""

    form: Form
    columns: list[list[int]]
    results: list[list[int]]


@dataclass(frozen=True, slots=True)
class MatrixRecord:
    """A recorded matrix kernel: its name, its calls, and the result registers of all calls, 32 lanes each."""

    name: str
    calls: int
    results: bytes
    seed: int = 1


def load(path: Path, table: str = "forms", needed: Sequence[str] = ()) -> tuple[dict[str, Any], bytes]:
    """The header and the results of a recording; raises SweepError (`SWP-0101`).

    The header lists what was recorded under `table`; each of its items has the keys `needed`.
    """

    def refuse(reason: str) -> SweepError:
        return SweepError("SWP-0101", f"{path}: {reason}")

    try:
        unpacker = lzma.LZMADecompressor(memlimit=1 << 30)
        data = unpacker.decompress(path.read_bytes(), _LIMIT)
    except OSError as error:
        raise refuse(error.strerror or str(error)) from None
    except lzma.LZMAError as error:
        raise refuse(f"not an xz file ({error})") from None
    if not unpacker.eof:
        raise refuse("cut off, or larger than 1 GiB")
    head, _, body = data.partition(b"\n")
    try:
        header = json.loads(head)
    except ValueError:
        raise refuse("the first line is not JSON") from None
    if not isinstance(header, dict) or not isinstance(header.get("seed", 1), int):
        raise refuse("the header is malformed")
    if not isinstance(operands := header.get("operands", 0), int) or not 0 <= operands <= MOST_OPERANDS:
        raise refuse(f"the header's operands are no number up to {MOST_OPERANDS:,}")
    items = header.get(table)
    if not isinstance(items, list):
        raise refuse(f"the header lists no {table}")
    total = 0
    for item in items:
        if (
            not isinstance(item, dict)
            or not isinstance(item.get("form"), str)
            or not item["form"].isprintable()  # names are shown on terminals
            or not isinstance(item.get("bytes"), int)
        ):
            raise refuse("the header lists a malformed form")
        if missing := [key for key in needed if key not in item]:
            raise refuse(f"{item['form']}: no {missing[0]}")
        for key, value in item.items():
            if not isinstance(value, _KEYS.get(key, object)) or (isinstance(value, int) and value < 0):
                raise refuse(f"{item['form']}: {key} is malformed")
        total += item["bytes"]
    if total != len(body):
        raise refuse(f"{len(body)} bytes of results, the header says {total}")
    return header, body


def recorded_form(path: Path, name: str, cells: bool = False) -> Form:
    """The form of a recorded name; raises SweepError (`SWP-0101`) if it is none.

    Recordings hold forms that compute registers from registers, or, for `cells`, those of `sweep/cells.py`.
    """
    try:
        form = form_of(name)
    except ValueError as error:
        raise SweepError("SWP-0101", f"{path}: {error}") from None
    row = OPCODES[form.instruction.opcode]
    fits = row.name in OPCODES_OF_CELLS if cells else row.family in PURE and row.name not in SKIPPED
    if not fits or not (form.sources or cells):
        raise SweepError("SWP-0101", f"{path}: {name} does not belong into this recording")
    return form


def split(raw: bytes, sizes: Sequence[int], count: int) -> list[list[int]]:
    """Result columns laid one after the other."""
    columns: list[list[int]] = []
    at = 0
    for size in sizes:
        columns.append([int.from_bytes(raw[at + k * size : at + (k + 1) * size], "little") for k in range(count)])
        at += size * count
    return columns


def records(path: Path = PTX, pattern: str = "") -> Iterator[Record]:
    """The recorded forms whose names match a regular expression."""
    header, body = load(path)
    operands = Operands(header.get("seed", 1), header.get("operands", 0))
    at = 0
    for item in header["forms"]:
        raw = body[at : at + item["bytes"]]
        at += item["bytes"]
        if not re.search(pattern, item["form"]):
            continue
        form = recorded_form(path, item["form"])
        sizes = [storage_bytes(width) for _, width in result_operands(form)]
        count = operands.elements(form)
        if item.get("count") != count or sum(sizes) * count != len(raw):
            raise SweepError("SWP-0101", f"{path}: {item['form']}: recorded with another number of elements")
        yield Record(form, operands.columns(form), split(raw, sizes, count))


def matrix_records(path: Path = MATRIX, pattern: str = "") -> Iterator[MatrixRecord]:
    """The recorded matrix kernels whose names match a regular expression."""
    header, body = load(path, needed=("calls",))
    at = 0
    for item in header["forms"]:
        if re.search(pattern, item["form"]):
            yield MatrixRecord(item["form"], item["calls"], body[at : at + item["bytes"]], header.get("seed", 1))
        at += item["bytes"]


@dataclass(frozen=True, slots=True)
class CellRecord:
    """A recorded form of `sweep/cells.py`: result columns and final cells, as the kernel writes them."""

    form: Form
    results: bytes
    seed: int


def cell_records(path: Path = CELLS, pattern: str = "") -> Iterator[CellRecord]:
    """The recorded loads, stores, atomics and reductions whose names match a regular expression."""
    header, body = load(path)
    at = 0
    for item in header["forms"]:
        raw = body[at : at + item["bytes"]]
        at += item["bytes"]
        if re.search(pattern, item["form"]):
            form = recorded_form(path, item["form"], cells=True)
            if len(raw) != result_bytes(form):
                raise SweepError("SWP-0101", f"{path}: {item['form']}: recorded with another number of cells")
            yield CellRecord(form, raw, header.get("seed", 1))


def undo_differences(raw: bytes, size: int) -> list[int]:
    """The inverse of the recorder's second differences in byte planes."""
    count = len(raw) // size
    mask = (1 << 8 * size) - 1
    interleaved = bytearray(len(raw))
    for plane in range(size):
        interleaved[plane::size] = raw[plane * count : (plane + 1) * count]
    code = {1: "B", 2: "H", 4: "I", 8: "Q"}[size]
    changes = struct.unpack(f"<{count}{code}", interleaved)
    slopes = accumulate((change >> 1) ^ (mask if change & 1 else 0) for change in changes)
    return [value & mask for value in accumulate(slope & mask for slope in slopes)]


def load_dense(path: Path) -> tuple[dict[str, Any], bytes]:
    """`load` for a recording of dense runs, which its header lists as `sweeps`."""
    return load(path, "sweeps", ("first", "step", "count"))


def dense(path: Path = DENSE, pattern: str = "", sample: int = 1) -> Iterator[Record]:
    """The dense runs of unary functions, or every `sample`th element of them."""
    header, body = load_dense(path)
    at = 0
    for item in header["sweeps"]:
        raw = body[at : at + item["bytes"]]
        at += item["bytes"]
        if not re.search(pattern, item["form"]):
            continue
        form = recorded_form(path, item["form"])
        if len(source_operands(form)) != 1 or len(result_operands(form)) != 1:
            raise SweepError("SWP-0101", f"{path}: {item['form']} has more than an operand and a result")
        size = storage_bytes(form.destinations[0][1])
        if item["count"] * size != len(raw):
            raise SweepError("SWP-0101", f"{path}: {item['form']}: recorded with another number of elements")
        mask = (1 << form.sources[0][1]) - 1
        operands = [item["first"] + k * item["step"] & mask for k in range(item["count"])]
        yield Record(form, [operands[::sample]], [undo_differences(raw, size)[::sample]])


def mismatches(
    record: Record, answers: list[list[int]]
) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
    """(operands, ours, GPU's) wherever they differ."""
    found = []
    for row in range(len(record.results[0])):
        ours = tuple(column[row] for column in answers)
        theirs = tuple(column[row] for column in record.results)
        if ours != theirs:
            found.append((tuple(column[row] for column in record.columns), ours, theirs))
    return found


def distance(type_name: str, a: int, b: int) -> int:
    """Steps between two floats of a type (big if only one is NaN)."""
    bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}.get(type_name)
    if bits is None:
        return int(a != b)
    top = 1 << (bits - 1)

    def order(x: int) -> int:
        return -(x & top - 1) if x & top else x

    return abs(order(a) - order(b))
