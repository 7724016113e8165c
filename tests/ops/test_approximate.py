"""The approximate functions against double precision: errors within the manual's bounds, special values right."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import harness
import pytest

from cuttle.lower.ops.forms import Stream, synthesise


def value_of(bits: int) -> float:
    result: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return result


def bits_of(value: float) -> int:
    result: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return result


def ulp_error(got: int, exact: float) -> float:
    """Distance in units of the last place of the exact value's float neighbours."""
    if math.isinf(exact) or math.isinf(value_of(got)):
        return 0.0 if value_of(got) == value_of(bits_of(exact)) else 1e9
    exponent = max(math.frexp(exact)[1], -125)
    return abs(value_of(got) - exact) / 2.0 ** (exponent - 24)


def rsqrt(x: float) -> float:
    return 1 / math.sqrt(x)


# Opcode, function, range of inputs, the manual's bound in ulp (or absolute if negative).
CASES: tuple[tuple[str, Callable[[float], float], float, float, float], ...] = (
    ("rcp.approx.f32", lambda x: 1 / x, 1e-35, 1e35, 1.0),
    ("rsqrt.approx.f32", rsqrt, 1e-35, 1e35, 2.0),
    ("sqrt.approx.f32", math.sqrt, 1e-35, 1e35, 2.0),
    ("ex2.approx.f32", lambda x: 2.0**x, -120.0, 120.0, 2.0),
    ("ex2.approx.ftz.f32", lambda x: 2.0**x, -1.0, 1.0, 2.0),
    ("lg2.approx.f32", math.log2, 2.0, 1e35, 4.0),
    ("lg2.approx.f32", math.log2, 0.5, 2.0, -(2.0**-22)),
    ("sin.approx.f32", math.sin, -math.pi, math.pi, -(2.0**-20)),
    ("cos.approx.f32", math.cos, -math.pi, math.pi, -(2.0**-20)),
    ("tanh.approx.f32", math.tanh, -9.0, 9.0, 2.0**13),
    ("tanh.approx.f32", math.tanh, -0.01, 0.01, 2.0**13),
)


@pytest.mark.parametrize(("spelling", "function", "low", "high", "bound"), CASES)
def test_accuracy(spelling: str, function: Callable[[float], float], low: float, high: float, bound: float) -> None:
    stream = Stream(7)
    column = []
    for _ in range(4096):
        share = stream.next() / 2**64
        value = math.exp(math.log(low) + share * math.log(high / low)) if low > 0 else low + share * (high - low)
        column.append(bits_of(value))
    form = synthesise(spelling)
    answers = harness.run_forms([form], [[column]], 8)[0][0]
    worst = 0.0
    for operand, got in zip(column, answers, strict=True):
        exact = function(value_of(operand))
        worst = max(worst, abs(value_of(got) - exact) if bound < 0 else ulp_error(got, exact))
    assert worst <= abs(bound)


NAN, INF, MINUS_INF, ZERO, MINUS_ZERO = 0x7FFFFFFF, 0x7F800000, 0xFF800000, 0, 0x80000000
SPECIALS = (
    ("rcp.approx.f32", {ZERO: INF, MINUS_ZERO: MINUS_INF, INF: ZERO, MINUS_INF: MINUS_ZERO, 0x7FC00000: NAN}),
    ("rsqrt.approx.f32", {ZERO: INF, MINUS_ZERO: MINUS_INF, INF: ZERO, MINUS_INF: NAN, 0xBF800000: NAN}),
    ("sqrt.approx.f32", {ZERO: ZERO, MINUS_ZERO: MINUS_ZERO, INF: INF, MINUS_INF: NAN, 0x807FFFFF: NAN}),
    ("sqrt.approx.ftz.f32", {0x807FFFFF: MINUS_ZERO, 1: ZERO}),
    ("ex2.approx.f32", {ZERO: 0x3F800000, MINUS_ZERO: 0x3F800000, INF: INF, MINUS_INF: ZERO, 0xFFC00000: NAN,
                        0x43800000: INF, 0xC3800000: ZERO, 0xC3150000: 1}),
    ("ex2.approx.ftz.f32", {0xC3150000: ZERO, 1: 0x3F800000}),
    ("lg2.approx.f32", {ZERO: MINUS_INF, MINUS_ZERO: MINUS_INF, INF: INF, MINUS_INF: NAN, 0xBF800000: NAN,
                        0x3F800000: ZERO, 1: 0xC3150000}),
    ("lg2.approx.ftz.f32", {1: MINUS_INF, 0x80000001: MINUS_INF}),
    ("sin.approx.f32", {ZERO: ZERO, MINUS_ZERO: MINUS_ZERO, INF: NAN, MINUS_INF: NAN}),
    ("cos.approx.f32", {ZERO: 0x3F800000, INF: NAN, MINUS_INF: NAN}),
    ("tanh.approx.f32", {ZERO: ZERO, MINUS_ZERO: MINUS_ZERO, INF: 0x3F800000, MINUS_INF: 0xBF800000, 0xFFC00000: NAN}),
)  # fmt: skip


@pytest.mark.parametrize(("spelling", "table"), SPECIALS)
def test_special_values(spelling: str, table: dict[int, int]) -> None:
    form = synthesise(spelling)
    for lanes in (1, 8):
        answers = harness.run_forms([form], [[list(table)]], lanes)[0][0]
        assert [hex(a) for a in answers] == [hex(w) for w in table.values()]


def test_division_by_large_numbers() -> None:
    """`div.approx` gives 0 beyond 2**126, NaN for an infinite dividend."""
    form = synthesise("div.approx.f32")
    table = [[0x40400000, 0x3F800000, INF], [0x3FC00000, 0x7F000001, 0x7F000001]]
    assert harness.run_forms([form], [table], 1)[0][0] == [0x40000000, 0, NAN]
    full = harness.run_forms([synthesise("div.full.f32")], [table], 1)[0][0]
    assert full[0] == 0x40000000 and full[1] != 0 and full[2] == INF
