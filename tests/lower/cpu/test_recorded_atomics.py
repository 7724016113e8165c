"""Floating-point atomics against what an H200 answered (`tools/record_atomics.py`)."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from tests.lower.cpu.kernels import WAYS, Way, run
from tools.record_atomics import columns, element_of, group, kernel, pairs

FILE = Path(__file__).parent / "recorded_atomics.xz"


def records() -> tuple[dict[str, bytes], dict[str, list[int]]]:
    """The new contents of memory by form, and the values of each type that were recorded."""
    head, _, body = lzma.decompress(FILE.read_bytes()).partition(b"\n")
    facts = json.loads(head)
    found, at = {}, 0
    for each in facts["forms"]:
        found[each["form"]] = body[at : at + each["bytes"]]
        at += each["bytes"]
    return found, facts["values"]


RECORDS, VALUES = records()
# The recorded kernel uses no result. There ptxas adds doubles in shared memory with the operands the other way round, which decides
# between two NaNs; the lowering knows one order for atom (`sweep/recordings`: with a result) and one for red.
del RECORDS["atom.shared.add.f64"]


@pytest.mark.parametrize("way", [WAYS[0], WAYS[4], WAYS[5]], ids=lambda way: way.name)
@pytest.mark.parametrize("form", RECORDS)
def test_as_recorded(form: str, way: Way) -> None:
    values = VALUES[element_of(form)]
    old, operands = (np.frombuffer(column, np.uint8) for column in columns(form, values))
    elements = len(pairs(form, values))
    count = elements // group(form)
    (result, _), _ = run(kernel(form), (128, 1, 1), [old, operands, count], way, grid=(-(-count // 128), 1, 1))
    kind = np.dtype(f"<u{len(old) // elements}")
    np.testing.assert_array_equal(result.view(kind), np.frombuffer(RECORDS[form], kind))
