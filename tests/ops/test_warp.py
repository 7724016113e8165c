"""Cross-lane instructions on a warp of 32 lanes, under full and partial masks, against models of the manual's text."""

from __future__ import annotations

import pytest
from warp_harness import run_warp

from cuttle.lower.ops.forms import Stream

LANES = range(32)
MASKS = (0xFFFFFFFF, 0x0000FFFF, 0xF0F0A5A1)


def random_words(seed: int, limit: int = 1 << 32) -> list[int]:
    stream = Stream(seed)
    return [stream.next() % limit for _ in LANES]


def shuffle_model(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The source lane and p, by the pseudo-code of 9.7.9.6."""
    bval, cval, segmask = b & 31, c & 31, c >> 8 & 31
    limit = lane & segmask | cval & ~segmask & 31
    least = lane & segmask
    match mode:
        case "up":
            j = lane - bval
            valid = j >= limit
        case "down":
            j = lane + bval
            valid = j <= limit
        case "bfly":
            j = lane ^ bval
            valid = j <= limit
        case _:
            j = least | bval & ~segmask & 31
            valid = j <= limit
    return (j if valid else lane), valid


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("c", [0x1F, 0x00, 0x1807, 0x101F, 0x1C03, 0x0A15])
def test_shfl(mode: str, c: int) -> None:
    values, b = random_words(1), random_words(c, 64)
    answers = run_warp(
        f"shfl.sync.{mode}.b32 %d|%p, %a, %b, {c}, 0xffffffff;",
        {"%a": values, "%b": b}, {"%d": 32, "%p": 1}, {"%a": 32, "%b": 32, "%d": 32, "%p": 1},
    )  # fmt: skip
    for lane in LANES:
        source, valid = shuffle_model(mode, lane, b[lane], c)
        assert answers["%d"][lane] == values[source], lane
        assert answers["%p"][lane] == valid, lane


def test_shfl_with_lane_clamps() -> None:
    """c may differ from lane to lane; the old form without `.sync` and without p."""
    values, c = random_words(2), random_words(3, 1 << 13)
    answers = run_warp(
        "shfl.down.b32 %d, %a, 3, %c;", {"%a": values, "%c": c}, {"%d": 32}, {"%a": 32, "%c": 32, "%d": 32}
    )
    assert answers["%d"] == [values[shuffle_model("down", lane, 3, c[lane])[0]] for lane in LANES]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("flags", [0, 0xFFFFFFFF, 0xF0F0A5A1, 0x00010000])
def test_vote(mask: int, flags: int) -> None:
    predicate = [flags >> lane & 1 for lane in LANES]
    widths = {"%q": 1, "%p": 1, "%d": 32}
    taking_part = [predicate[lane] for lane in LANES if mask >> lane & 1]
    wanted = {"all": all(taking_part), "any": any(taking_part), "uni": len(set(taking_part)) == 1}
    for mode, value in wanted.items():
        answers = run_warp(f"vote.sync.{mode}.pred %p, %q, {mask};", {"%q": predicate}, {"%p": 1}, widths, mask)
        assert all(answers["%p"][lane] == value for lane in LANES if mask >> lane & 1), mode
    answers = run_warp(f"vote.sync.ballot.b32 %d, %q, {mask};", {"%q": predicate}, {"%d": 32}, widths, mask)
    assert answers["%d"] == [flags & mask] * 32


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bits", [32, 64])
def test_match(mask: int, bits: int) -> None:
    values = [value << (bits - 8) for value in random_words(bits, 4)]
    widths = {"%a": bits, "%d": 32, "%p": 1}
    answers = run_warp(f"match.any.sync.b{bits} %d, %a, {mask};", {"%a": values}, {"%d": 32}, widths, mask)
    for lane in LANES:
        if mask >> lane & 1:
            same = sum(1 << other for other in LANES if mask >> other & 1 and values[other] == values[lane])
            assert answers["%d"][lane] == same
    for column, agreed in ((values, False), ([values[0]] * 32, True)):
        text = f"match.all.sync.b{bits} %d|%p, %a, {mask};"
        answers = run_warp(text, {"%a": column}, {"%d": 32, "%p": 1}, widths, mask)
        for lane in LANES:
            if mask >> lane & 1:
                assert (answers["%d"][lane], answers["%p"][lane]) == ((mask, 1) if agreed else (0, 0))


@pytest.mark.parametrize("mask", MASKS)
def test_redux_and_elect(mask: int) -> None:
    values = random_words(9)
    chosen = [values[lane] for lane in LANES if mask >> lane & 1]
    signed = [value - (value >> 31 << 32) for value in chosen]
    both, either, odd = 0xFFFFFFFF, 0, 0
    for value in chosen:
        both, either, odd = both & value, either | value, odd ^ value
    wanted = {"add.u32": sum(chosen), "add.s32": sum(signed), "min.u32": min(chosen), "max.u32": max(chosen),
              "min.s32": min(signed), "max.s32": max(signed), "and.b32": both, "or.b32": either, "xor.b32": odd}  # fmt: skip
    widths = {"%a": 32, "%d": 32, "%p": 1}
    for operation, value in wanted.items():
        answers = run_warp(f"redux.sync.{operation} %d, %a, {mask};", {"%a": values}, {"%d": 32}, widths, mask)
        assert answers["%d"] == [value & 0xFFFFFFFF] * 32, operation
    leader = (mask & -mask).bit_length() - 1
    answers = run_warp(f"elect.sync %d|%p, {mask};", {}, {"%d": 32, "%p": 1}, widths, mask)
    assert answers["%d"] == [leader] * 32
    assert answers["%p"] == [int(lane == leader) for lane in LANES]
    assert run_warp("activemask.b32 %d;", {}, {"%d": 32}, widths, mask)["%d"] == [mask] * 32
