"""Value domains: what a sweep can run, as items with names that mean the same everywhere.

| domain | items | expected |
|---|---|---|
| golden | every pure form, 512 operands, three quarters of them special values | recorded on an H200 |
| second | the same with the second seed | recorded on an H200 |
| dense | runs of neighbouring operands of the approximate functions | recorded on an H200 |
| exhaustive | all operands of the forms with 16 or 32 operand bits | digests recorded on an H200 |
| cells, cells-second | loads, stores, atomics and reductions on memory cells | recorded on an H200 |
| matrix, matrix-second | every form of mma, mma.sp and wmma.mma | recorded on an H200 |
| reference | the approximate functions of f32, a million operands each | float64, with the bounds of the PTX ISA |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuttle.errors import SweepError
from cuttle.sweep import golden
from cuttle.sweep.exhaustive import DIGESTS
from cuttle.sweep.reference import FUNCTIONS

# Domain → its recording; the reference needs none.
FILES = {
    "golden": golden.PTX.name,
    "second": golden.PTX_SECOND.name,
    "dense": golden.DENSE.name,
    "exhaustive": DIGESTS.name,
    "cells": golden.CELLS.name,
    "cells-second": golden.CELLS_SECOND.name,
    "matrix": golden.MATRIX.name,
    "matrix-second": golden.MATRIX_SECOND.name,
}
DOMAINS = (*FILES, "reference")


@dataclass(frozen=True, slots=True)
class Item:
    """One form over one domain; `name` is the form's, for dense runs with the run behind it."""

    domain: str
    name: str


def dense_name(item: dict[str, object]) -> str:
    """`ex2.approx.f32 @0x3f800000+64*131072`: form, first operand, step, count."""
    return f"{item['form']} @{item['first']:#x}+{item['step']}*{item['count']}"


def items_of(domain: str, folder: Path = golden.FOLDER) -> list[Item]:
    """All items of a domain in the order of its recording; raises SweepError."""
    if domain == "reference":
        return [Item(domain, name) for name in FUNCTIONS]
    if domain not in FILES:
        raise SweepError("SWP-0102", f"there is no domain {domain}")
    path = folder / FILES[domain]
    if domain == "dense":
        return [Item(domain, dense_name(item)) for item in golden.load_dense(path)[0]["sweeps"]]
    header, _ = golden.load(path)
    names = [item["form"] for item in header["forms"]]
    if domain.startswith("matrix"):
        names = [name for name in names if not name.startswith("wmma.load")]
    return [Item(domain, name) for name in names]


def shard_of(text: str) -> tuple[int, int]:
    """`2/8` → (2, 8): the second of eight shards."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise SweepError("SWP-0104", f"{text} is no shard such as 1/4")
    return int(found[1]), int(found[2])


def chosen_items(
    domains: tuple[str, ...], pattern: str = "", shard: tuple[int, int] = (1, 1), folder: Path = golden.FOLDER
) -> Iterator[Item]:
    """The items of several domains whose names match a regular expression; of those, every nth."""
    try:
        matches = re.compile(pattern).search
    except re.error as error:
        raise SweepError("SWP-0104", f"{pattern} is no regular expression: {error}") from None
    number, shards = shard
    at = 0
    for domain in domains:
        for item in items_of(domain, folder):
            if matches(item.name):
                if at % shards == number - 1:
                    yield item
                at += 1
