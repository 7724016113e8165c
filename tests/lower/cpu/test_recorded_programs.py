"""Generated programs against what an H200 answered (`tools/record_generated.py`), in every way they can be compiled."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.cpu.kernels import QUICK_WAYS, WAYS, Way, run_or_fault
from tests.lower.cpu.random_recorded import RecordedKernel, make_recorded, recorded

DEVICE, PROGRAMS = recorded()
# 483: vshl with .sat and a second minimum, which two seeds of single instructions had not shown to be wrong.
QUICK = [*sorted(PROGRAMS)[:100], 483]


def compare(number: int, ways: tuple[Way, ...]) -> None:
    kernel, digests = PROGRAMS[number]
    for way in ways:
        _, out, counters = run_or_fault(kernel.text, kernel.block, kernel.arrays(), way, grid=(kernel.blocks, 1, 1))
        found = kernel.digests(out, counters)
        wrong = [slot for slot in range(len(digests)) if found[slot] != digests[slot]]
        assert not wrong, f"program {number}, {way.name}: slots {wrong} are not as on the {DEVICE}\n{kernel.text}"


@pytest.mark.parametrize("number", QUICK)
def test_as_recorded(number: int) -> None:
    compare(number, QUICK_WAYS)


@pytest.mark.slow
@pytest.mark.parametrize("number", sorted(PROGRAMS))
def test_all_as_recorded_in_every_way(number: int) -> None:
    compare(number, (*QUICK_WAYS, *WAYS))


def test_the_record_is_large_and_varied() -> None:
    assert len(PROGRAMS) >= 400
    kernels = [kernel for kernel, _ in PROGRAMS.values()]
    assert {kernel.block for kernel in kernels} >= {(1, 1, 1), (33, 1, 1), (16, 16, 1), (256, 1, 1)}
    assert any(kernel.blocks >= 40 for kernel in kernels)
    text = "\n".join(kernel.text for kernel in kernels)
    for word in (
        "shfl.sync",
        "match.any.sync",
        "brx.idx",
        "bar.sync",
        "call (pc), %a0",
        "atom.shared",
        "ret;",
        "madc.",
    ):
        assert word in text


def test_a_wrong_result_is_noticed() -> None:
    kernel, digests = next(iter(PROGRAMS.values()))
    _, out, counters = kernel.arrays()
    assert kernel.digests(out, counters) != digests


def test_the_generator_still_makes_programs_that_compile() -> None:
    for number in (3, 5):
        kernel = make_recorded(number)
        assert isinstance(kernel, RecordedKernel)
        first, second = (
            run_or_fault(kernel.text, kernel.block, kernel.arrays(), way, grid=(kernel.blocks, 1, 1))
            for way in (QUICK_WAYS[0], QUICK_WAYS[2])
        )
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a, b)
