"""Recorded forms give on the CPU what an NVIDIA H200 gave, bit for bit (or within their rows' ulp).

The default run takes a sample; everything: `pytest -m slow tests/ops/test_golden.py` or `python tests/ops/golden.py`.
"""

from __future__ import annotations

import golden
import pytest

from cuttle.sweep.golden import PTX_SECOND, Record, dense, distance, mismatches, records

FAMILIES = ("add|sub", "mul|mad|fma", "div|rem|sad", "abs|neg", "min|max", "setp", "set[.]", "selp|slct", "cvt", "mov",
            "rcp|sqrt|rsqrt|sin|cos|lg2|ex2|tanh", "lop3|and|or|xor|not|cnot|shl|shr|shf|prmt",
            "popc|clz|bfind|fns|brev|bfe|bfi|szext|bmsk|dp4a|dp2a|testp|copysign|addc|subc|v[a-z]")  # fmt: skip


def differing(chosen: list[Record]) -> list[str]:
    """A line for each record that differs by more than its row admits."""
    problems: list[str] = []
    for record, answers in zip(chosen, golden.run(chosen), strict=True):
        limit = golden.bound(record.form)
        for operands, ours, theirs in mismatches(record, answers):
            kinds = [kind for kind, _ in record.form.destinations]
            far = max(distance(kind, a, b) for kind, a, b in zip(kinds, ours, theirs, strict=False))
            if far > limit:
                problems.append(f"{record.form.name} {[hex(o) for o in operands]}: {ours[0]:#x}, GPU {theirs[0]:#x}")
                break
    return problems


def recorded(names: str) -> list[Record]:
    return [record for record in records(pattern=f"^({names})") if golden.supported(record)]


@pytest.mark.parametrize("names", FAMILIES)
def test_matches_the_gpu(names: str) -> None:
    """All forms of small families, every eighth form of those with hundreds that differ in one modifier."""
    chosen = recorded(names)
    assert chosen
    problems = differing(chosen[::8] if len(chosen) > 250 else chosen)
    assert not problems, f"{len(problems)} forms differ:\n" + "\n".join(problems[:20])


@pytest.mark.parametrize("offset", range(2))
def test_second_seed(offset: int) -> None:
    """A fourteenth of the forms with operands that were not looked at while Cuttle was written."""
    chosen = [record for record in records(PTX_SECOND) if golden.supported(record)]
    assert len(chosen) > 6000
    problems = differing(chosen[offset::28])
    assert not problems, f"{len(problems)} forms differ:\n" + "\n".join(problems[:20])


@pytest.mark.slow
def test_all_forms_of_the_second_seed() -> None:
    problems = differing([record for record in records(PTX_SECOND) if golden.supported(record)])
    assert not problems, f"{len(problems)} forms differ:\n" + "\n".join(problems[:20])


@pytest.mark.slow
@pytest.mark.parametrize("names", FAMILIES)
def test_all_forms_match_the_gpu(names: str) -> None:
    problems = differing(recorded(names))
    assert not problems, f"{len(problems)} forms differ:\n" + "\n".join(problems[:20])


def test_sampled_sweeps() -> None:
    """Every 61st operand of the dense sweeps of approximate functions."""
    chosen = list(dense(sample=61))
    assert len(chosen) > 100
    assert not differing(chosen)


@pytest.mark.slow
def test_sweeps() -> None:
    assert not differing(list(dense()))
