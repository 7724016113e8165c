"""Recorded forms give on the CPU what an NVIDIA H200 gave, bit for bit (or within their rows' ulp).

The default run takes a sample; everything: `pytest -m slow tests/ops/test_golden.py` or `python tests/ops/golden.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import golden
import pytest

from cuttle.lower.cpu.avx512_emitter import Avx512Emitter
from cuttle.lower.cpu.compile_object import CodeOptions, has_avx512, has_avx512_bytes
from cuttle.lower.emit import Emitter
from cuttle.sweep.golden import PTX_SECOND, Record, dense, distance, mismatches, records

FAMILIES = ("add|sub", "mul|mad|fma", "div|rem|sad", "abs|neg", "min|max", "setp", "set[.]", "selp|slct", "cvt", "mov",
            "rcp|sqrt|rsqrt|sin|cos|lg2|ex2|tanh", "lop3|and|or|xor|not|cnot|shl|shr|shf|prmt",
            "popc|clz|bfind|fns|brev|bfe|bfi|szext|bmsk|dp4a|dp2a|testp|copysign|addc|subc|v[a-z]")  # fmt: skip


def differing(chosen: list[Record], emitter: Callable[[], Emitter] = Emitter) -> list[str]:
    """A line for each record that differs by more than its row admits."""
    problems: list[str] = []
    for record, answers in zip(chosen, golden.run(chosen, emitter), strict=True):
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


def with_bytes() -> Emitter:
    return Avx512Emitter(bytes_too=has_avx512_bytes(CodeOptions()))


needs_avx512 = pytest.mark.skipif(not has_avx512(CodeOptions()), reason="this CPU has no AVX-512")


@needs_avx512
def test_sampled_sweeps_with_avx512() -> None:
    """Tables in registers, as kernels on such a CPU have them."""
    assert not differing(list(dense(sample=61)), Avx512Emitter)
    assert not differing(list(dense(sample=47)), with_bytes)


@pytest.mark.slow
def test_sweeps() -> None:
    assert not differing(list(dense()))


@pytest.mark.slow
@needs_avx512
def test_sweeps_with_avx512() -> None:
    assert not differing(list(dense()), with_bytes)
