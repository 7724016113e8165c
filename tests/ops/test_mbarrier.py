"""mbarrier objects: arrivals of the lanes of one instruction count one after the other, over several phases."""

from __future__ import annotations

import ctypes

import pytest
from warp_harness import run_warp

LANES = 32
WIDTHS = {"%a": 64, "%d": 64, "%n": 32, "%p": 1, "%q": 32}


class Barrier:
    """The object in memory beside a model of it: phase and arrivals still awaited."""

    def __init__(self, count: int) -> None:
        self.word = ctypes.c_uint64()
        self.count, self.phase, self.awaited = count, 0, count
        self.run(f"mbarrier.init.shared.b64 [%a], {count};", {}, 1)

    def run(self, text: str, outputs: dict[str, int], mask: int, **inputs: list[int]) -> dict[str, list[int]]:
        operands = {"%a": [ctypes.addressof(self.word)] * LANES, **{f"%{k}": v for k, v in inputs.items()}}
        return run_warp(text, operands, outputs, WIDTHS, mask)

    def expect(self, amounts: list[int]) -> list[tuple[int, int]]:
        """(phase, arrivals awaited) before each arrival."""
        seen = []
        for amount in amounts:
            seen.append((self.phase, self.awaited))
            self.awaited -= amount
            if self.awaited == 0:
                self.phase, self.awaited = self.phase ^ 1, self.count
        return seen

    def is_over(self, parity: int) -> bool:
        text = f"mbarrier.test_wait.parity.shared.b64 %p, [%a], {parity};"
        return bool(self.run(text, {"%p": 1}, 1)["%p"][0])


@pytest.mark.parametrize(
    ("count", "mask"),
    [(1, 0xFFFFFFFF), (2, 0xF0F0A5A1), (3, 0xFFFFFFFF), (16, 0xFFFFFFFF), (32, 0xFFFFFFFF), (33, 0xFFFF)],
)
def test_arrivals(count: int, mask: int) -> None:
    barrier = Barrier(count)
    lanes = [lane for lane in range(LANES) if mask >> lane & 1]
    for _ in range(2):
        states = barrier.run("mbarrier.arrive.shared.b64 %d, [%a];", {"%d": 64}, mask)["%d"]
        pending = run_warp("mbarrier.pending_count.b64 %q, %d;", {"%d": states}, {"%q": 32}, WIDTHS)["%q"]
        expected = barrier.expect([1] * len(lanes))
        assert [(states[lane] >> 42 & 1, pending[lane]) for lane in lanes] == expected
        assert barrier.is_over(barrier.phase ^ 1)
        assert not barrier.is_over(barrier.phase)


def test_transactions_delay_the_phase() -> None:
    barrier = Barrier(1)
    barrier.run("mbarrier.arrive.expect_tx.shared::cta.b64 %d, [%a], 64;", {"%d": 64}, 1)
    assert not barrier.is_over(0)
    barrier.run("mbarrier.complete_tx.shared::cta.b64 [%a], 16;", {}, 0b111)
    assert not barrier.is_over(0)
    barrier.run("mbarrier.complete_tx.shared::cta.b64 [%a], 16;", {}, 1)
    assert barrier.is_over(0)
    assert not barrier.is_over(1)


def test_arrivals_with_counts() -> None:
    barrier = Barrier(6)
    amounts = [3, 3, 2, 4, 6, 1, 5, 6] * 4
    states = barrier.run("mbarrier.arrive.shared.b64 %d, [%a], %n;", {"%d": 64}, 0xFFFFFFFF, n=amounts)["%d"]
    assert [state >> 42 & 1 for state in states] == [phase for phase, _ in barrier.expect(amounts)]
    assert barrier.is_over(barrier.phase ^ 1)


def test_dropped_arrivals_are_not_awaited_again() -> None:
    barrier = Barrier(4)
    barrier.run("mbarrier.arrive_drop.shared.b64 %d, [%a];", {"%d": 64}, 0b11)
    barrier.run("mbarrier.arrive.shared.b64 %d, [%a];", {"%d": 64}, 0b11)
    assert barrier.is_over(0)
    barrier.run("mbarrier.arrive.shared.b64 %d, [%a];", {"%d": 64}, 0b11)
    assert barrier.is_over(1)
