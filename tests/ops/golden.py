"""Reads what `tools/record_ptx.py` recorded on an NVIDIA GPU and compares our op functions with it.

python tests/ops/golden.py [FILE] [REGULAR-EXPRESSION]    # prints mismatches per form
"""

from __future__ import annotations

import json
import lzma
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import harness

from cuttle.abi.ptx_isa import OPCODES
from cuttle.errors import PtxError
from cuttle.lower.ops import dispatch
from cuttle.lower.ops.forms import Form, inputs, synthesise

FILE = Path(__file__).parents[1] / "ptx" / "golden_ptx.xz"
SWEEPS = FILE.with_name("sweeps_ptx.xz")
COUNT = 512


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded form: operand columns and the GPU's result columns."""

    form: Form
    columns: list[list[int]]
    results: list[list[int]]


def form_of(name: str) -> Form:
    """The form a recorded name stands for: `shl.b32 #1:0x5`, `mov.b64 {-2}`."""
    spelling, _, rest = name.partition(" ")
    immediates: dict[int, int] = {}
    brace = 0
    selectors: tuple[str, ...] = ()
    for part in rest.split():
        if part.startswith("#"):
            for item in part[1:].split(","):
                index, value = item.split(":")
                immediates[int(index)] = int(value, 16)
        elif part.startswith("{"):
            brace = int(part[1:-1])
        elif part.startswith("~"):
            selectors = tuple(part[1:].split(","))
    return synthesise(spelling, immediates, brace=brace, selectors=selectors)


def operand_types(form: Form) -> list[str]:
    return [name for name, _ in form.sources] + (["pred"] if form.carry_in else [])


def load(path: Path) -> tuple[dict[str, Any], bytes]:
    data = lzma.decompress(path.read_bytes())
    head, _, body = data.partition(b"\n")
    return json.loads(head), body


def split(raw: bytes, sizes: list[int], count: int) -> list[list[int]]:
    """Result columns laid one after the other."""
    columns: list[list[int]] = []
    at = 0
    for size in sizes:
        columns.append([int.from_bytes(raw[at + k * size : at + (k + 1) * size], "little") for k in range(count)])
        at += size * count
    return columns


def records(path: Path = FILE, pattern: str = "") -> Iterator[Record]:
    header, body = load(path)
    cache: dict[tuple[str, ...], list[list[int]]] = {}
    at = 0
    for item in header["forms"]:
        raw = body[at : at + item["bytes"]]
        at += item["bytes"]
        if not re.search(pattern, item["form"]):
            continue
        form = form_of(item["form"])
        types = tuple(operand_types(form))
        if types not in cache:
            cache[types] = inputs(types, COUNT, zlib.crc32(",".join(types).encode()))
        count = item["count"]
        sizes = [max(w // 8, 1) for _, w in form.destinations] + ([1] if form.carry_out else [])
        yield Record(form, [column[:count] for column in cache[types]], split(raw, sizes, count))


def undo_differences(raw: bytes, size: int) -> list[int]:
    """The inverse of the recorder's second differences in byte planes."""
    count = len(raw) // size
    mask = (1 << 8 * size) - 1
    interleaved = bytearray(len(raw))
    for plane in range(size):
        interleaved[plane::size] = raw[plane * count : (plane + 1) * count]
    changes = memoryview(interleaved).cast({1: "B", 2: "H", 4: "I", 8: "Q"}[size])
    slopes = accumulate((change >> 1) ^ (mask if change & 1 else 0) for change in changes)
    return [value & mask for value in accumulate(slope & mask for slope in slopes)]


def sweeps(path: Path = SWEEPS, pattern: str = "", sample: int = 1) -> Iterator[Record]:
    """The dense sweeps of unary functions, or every `sample`th element of them."""
    header, body = load(path)
    at = 0
    for item in header["sweeps"]:
        raw = body[at : at + item["bytes"]]
        at += item["bytes"]
        if not re.search(pattern, item["form"]):
            continue
        form = form_of(item["form"])
        size = item["bytes"] // item["count"]
        mask = (1 << form.sources[0][1]) - 1
        operands = [item["first"] + k * item["step"] & mask for k in range(item["count"])]
        yield Record(form, [operands[::sample]], [undo_differences(raw, size)[::sample]])


def run(chosen: list[Record], lanes: int = 16) -> list[list[list[int]]]:
    return harness.run_forms([r.form for r in chosen], [r.columns for r in chosen], lanes)


def bound(form: Form) -> int:
    """The ulp the opcode's row allows: 0 if its status is `exact`."""
    found = re.fullmatch(r"ulp\((\d+)\)", OPCODES[form.instruction.opcode].status)
    return int(found[1]) if found else 0


def distance(type_name: str, a: int, b: int) -> int:
    """Steps between two floats of a type (big if only one is NaN)."""
    bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}.get(type_name)
    if bits is None:
        return int(a != b)
    top = 1 << (bits - 1)

    def order(x: int) -> int:
        return -(x & top - 1) if x & top else x

    return abs(order(a) - order(b))


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


def supported(record: Record) -> bool:
    try:
        dispatch.find(record.form.instruction.opcode)
        harness.add_function(harness.Module(), record.form, "probe", 8)
    except PtxError:
        return False
    return True


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    source = sweeps if "sweep" in path.name else records
    chosen = [record for record in source(path, pattern) if supported(record)]
    bad = 0
    for start in range(0, len(chosen), 200):
        part = chosen[start : start + 200]
        for record, answers in zip(part, run(part), strict=True):
            found = mismatches(record, answers)
            if not found:
                continue
            bad += 1
            kind = record.form.destinations[0][0]
            far = max(distance(kind, ours[0], theirs[0]) for _, ours, theirs in found)
            print(f"{record.form.name}: {len(found)} of {len(record.results[0])} differ, by up to {far}")
            for operands, ours, theirs in found[:4]:
                left, right = " ".join(map(hex, ours)), " ".join(map(hex, theirs))
                print(f"    ({', '.join(map(hex, operands))}): ours {left}, GPU {right}")
    print(f"{len(chosen)} forms, {bad} with differences")


if __name__ == "__main__":
    main()
