"""What an H200 answered, against emulated AMD GPUs: whole kernels from PTX text to executed machine code.

python tests/lower/amdgpu/golden.py TARGET [REGULAR-EXPRESSION] [--matrix] [--part K/N]    # prints a line per difference
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[3]), str(Path(__file__).parents[3] / "src")]

from cuttle.abi.ptx_isa import OPCODES
from cuttle.errors import CuttleError
from cuttle.sweep import kernels, matrix
from cuttle.sweep.forms import result_operands, source_operands, storage_bytes
from cuttle.sweep.golden import MatrixRecord, Record, distance, matrix_records, mismatches, records, split
from tests.lower.amdgpu.launcher import Gpu

BLOCK = 128


def bound(record: Record) -> int:
    """The ulp that the opcode's row allows, 0 for exact ones."""
    status = OPCODES[record.form.instruction.opcode].status
    return int(status[4:-1]) if status.startswith("ulp(") else 0


def answers(record: Record, target: str) -> list[list[int]]:
    """The result columns that the emulated GPU gives."""
    form, count = record.form, len(record.results[0])
    gpu = Gpu(kernels.HEADER.format(target="sm_90") + kernels.kernel(form, "k"), target)
    widths = [storage_bytes(width) for _, width in source_operands(form)]
    raw = b"".join(v.to_bytes(w, "little") for column, w in zip(record.columns, widths, strict=True) for v in column)
    sizes = [storage_bytes(width) for _, width in result_operands(form)]
    out = np.zeros(sum(sizes) * count, np.uint8)
    source, result = gpu.put(raw), gpu.put(out)
    gpu.launch("k", (-(-count // BLOCK), 1, 1), (BLOCK, 1, 1), [source, result, count, 0, 0])
    return split(gpu.get(result, out).tobytes(), sizes, count)


def difference(record: Record, target: str) -> str:
    """What differs, in one line; empty if nothing does. Raises CuttleError for a refused form."""
    limit = bound(record)
    kinds = [kind for kind, _ in record.form.destinations]
    for operands, ours, theirs in mismatches(record, answers(record, target)):
        if limit == 0 or max(distance(k, a, b) for k, a, b in zip(kinds, ours, theirs, strict=False)) > limit:
            return f"{record.form.name} {[hex(o) for o in operands]}: {[hex(x) for x in ours]}, H200 {[hex(x) for x in theirs]}"
    return ""


def matrix_difference(record: MatrixRecord, target: str, calls: int, *, twice: bool = False) -> str:
    """The same for a matrix instruction, for the first calls of the recording; `twice`: executed twice, the second result counts."""
    size = len(record.results) // record.calls
    calls = min(calls, record.calls)
    if record.name.startswith("wmma.load"):
        text = matrix.load_kernel(record.name, "k")
        inputs = [matrix.plane(record.name, number) for number in range(calls)]
    else:
        item = matrix.recorded_of(record.name)
        text = matrix.kernel(item, "k")
        if twice:
            text = "\n".join(
                f"{line}\n{line}" if line.startswith(item.spelling) else line for line in text.splitlines()
            )
        inputs = [matrix.inputs_of(item, call, record.seed) for call in range(calls)]
    gpu = Gpu(kernels.HEADER.format(target="sm_90a") + text, target)
    out = np.zeros(calls * size, np.uint8)
    source, result = gpu.put(b"".join(inputs)), gpu.put(out)
    gpu.launch("k", (calls, 1, 1), (32, 1, 1), [source, result, calls])
    ours, theirs = gpu.get(result, out).tobytes(), record.results[: len(out)]
    if ours == theirs:
        return ""
    at = next(index for index, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b) // 4 * 4
    return f"{record.name}: call {at // size}: {ours[at : at + 4].hex()}, H200 {theirs[at : at + 4].hex()}"


def chosen(pattern: str, part: int, parts: int, *, of_matrices: bool) -> Iterator[Record | MatrixRecord]:
    source: Iterator[Record | MatrixRecord] = (
        matrix_records(pattern=pattern) if of_matrices else records(pattern=pattern)
    )  # fmt: skip
    for index, record in enumerate(source):
        if index % parts == part:
            yield record


def check(record: Record | MatrixRecord, target: str, calls: int = 3) -> tuple[str, str]:
    """(difference, refusal) of a record, both empty if all is well."""
    try:
        if isinstance(record, MatrixRecord):
            return matrix_difference(record, target, calls), ""
        return difference(record, target), ""
    except CuttleError as error:
        return "", f"{record.name if isinstance(record, MatrixRecord) else record.form.name}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target")
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--matrix", action="store_true")
    parser.add_argument("--part", default="0/1")
    options = parser.parse_args()
    part, parts = (int(number) for number in options.part.split("/"))
    good = bad = refused = 0
    start = time.monotonic()
    for record in chosen(options.pattern, part, parts, of_matrices=options.matrix):
        wrong, refusal = check(record, options.target)
        good, bad, refused = good + (not wrong and not refusal), bad + bool(wrong), refused + bool(refusal)
        if wrong or refusal:
            print("differs" if wrong else "refused", wrong or refusal, flush=True)
    print(f"{options.target}: {good} forms equal, {bad} differ, {refused} refused, {time.monotonic() - start:.0f} s")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
