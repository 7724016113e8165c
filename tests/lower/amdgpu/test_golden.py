"""Recorded forms on emulated GPUs: a fixed tenth here, everything with `python tests/lower/amdgpu/golden.py TARGET [--matrix]`."""

from __future__ import annotations

import pytest

from cuttle.sweep.golden import matrix_records
from tests.lower.amdgpu.golden import check, chosen, matrix_difference
from tests.lower.amdgpu.launcher import TARGETS

PARTS, MATRIX_PARTS = (
    20,
    40,
)  # each target takes another part of the forms: together a tenth, of matrix forms a twentieth


def problems(part: int, parts: int, target: str, *, of_matrices: bool) -> list[str]:
    """Differences, and refusals that stand in no list of refused PTX."""
    found = []
    for record in chosen("", part, parts, of_matrices=of_matrices):
        wrong, refusal = check(record, target, calls=2)
        if wrong or refusal and "PTX-05" not in refusal:
            found.append(wrong or refusal)
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("quarter", range(4))
def test_a_tenth_of_the_forms(target: str, quarter: int) -> None:
    part = 4 * (3 * TARGETS.index(target) + 2) + quarter
    assert not problems(part, 4 * PARTS, target, of_matrices=False)


@pytest.mark.parametrize("target", TARGETS)
def test_some_matrix_forms(target: str) -> None:
    assert not problems(17 * TARGETS.index(target) + 3, MATRIX_PARTS, target, of_matrices=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "name", ["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32"]
)
def test_products_that_stand_twice_in_a_kernel(name: str, target: str) -> None:
    """They are a function of their own then."""
    (record,) = matrix_records(pattern=f"^{name}$")
    assert matrix_difference(record, target, 3, twice=True) == ""
