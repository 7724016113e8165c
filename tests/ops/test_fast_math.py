"""CUTTLE_FAST_MATH: errors measured and within the bounds of PTX ISA 9.0, special values as in the exact functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import harness
import numpy as np
import pytest

from cuttle.lower.ops.forms import synthesise
from cuttle.lower.ops.policy import policy

SPECIAL = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 1, 0x80000001,
           0x00800000, 0x80800000, 0x43000000, 0xC2FC0000, 0xC3000000, 0xC3170000, 0xC3190000]  # fmt: skip


@pytest.fixture(autouse=True)
def fast_math() -> Iterator[None]:
    policy.fast_math = True
    yield
    policy.fast_math = False


def floats(bits: np.ndarray) -> np.ndarray:
    return bits.astype(np.uint32).view(np.float32)


def results(spelling: str, *columns: np.ndarray) -> np.ndarray:
    form = synthesise(spelling)
    answers = harness.run_forms([form], [[[int(v) for v in column] for column in columns]], 16)[0][0]
    return np.array(answers, np.uint64)


def inputs(low: float, high: float, count: int = 100_000) -> np.ndarray:
    """Floats (as bits) spread over the exponents between two positive numbers, or evenly."""
    random = np.random.default_rng(5)
    if low > 0:
        values = np.exp(random.uniform(np.log(low), np.log(high), count))
    else:
        values = random.uniform(low, high, count)
    return values.astype(np.float32).view(np.uint32)


def in_ulps(found: np.ndarray, exact: np.ndarray) -> float:
    """The largest distance in units of the last place of the exact values (normal ones)."""
    _, exponent = np.frexp(exact)
    return float(np.max(np.abs(found.astype(np.float64) - exact) / np.exp2(np.maximum(exponent, -125) - 24.0)))


# Spelling, function, range, PTX's bound in ulp, and what is measured, rounded up.
ULPS: tuple[tuple[str, Callable[[np.ndarray], np.ndarray], float, float, float, float], ...] = (
    ("rcp.approx.f32", lambda x: 1 / x, 1e-37, 1e37, 1.0, 0.51),
    ("rcp.approx.ftz.f32", lambda x: 1 / x, 1e-37, 1e37, 1.0, 0.51),
    ("sqrt.approx.f32", np.sqrt, 1e-37, 1e38, 1.0, 0.51),
    ("ex2.approx.ftz.f32", np.exp2, -125.9, 127.9, 2.0, 1.05),
    ("ex2.approx.f32", np.exp2, -125.9, 127.9, 2.0, 1.05),
)


@pytest.mark.parametrize("case", ULPS, ids=lambda case: case[0])
def test_ulps(case: tuple[str, Callable[[np.ndarray], np.ndarray], float, float, float, float]) -> None:
    spelling, function, low, high, bound, measured = case
    assert measured <= bound
    x = inputs(low, high)
    assert in_ulps(floats(results(spelling, x)), function(floats(x).astype(np.float64))) <= measured


def test_reciprocal_root() -> None:
    """A relative error of 2**-22.9; measured 1.44 ulp, 2**-23.0."""
    x = inputs(1e-37, 1e38)
    exact = 1 / np.sqrt(floats(x).astype(np.float64))
    assert np.max(np.abs(floats(results("rsqrt.approx.f32", x)) / exact - 1)) < 2.0**-22.9


@pytest.mark.parametrize("spelling", ["lg2.approx.f32", "lg2.approx.ftz.f32"])
def test_logarithm(spelling: str) -> None:
    """Absolutely within 2**-22 between 1/2 and 2, relatively elsewhere."""
    near = inputs(0.5, 2.0)
    exact = np.log2(floats(near).astype(np.float64))
    assert np.max(np.abs(floats(results(spelling, near)) - exact)) < 2.0**-22
    far = np.concatenate([inputs(1e-37, 0.5), inputs(2.0, 1e38)])
    exact = np.log2(floats(far).astype(np.float64))
    assert np.max(np.abs((floats(results(spelling, far)) - exact) / exact)) < 2.0**-22


@pytest.mark.parametrize("spelling", ["div.approx.f32", "div.full.f32"])
def test_quotient(spelling: str) -> None:
    a, b = inputs(1e-18, 1e18), inputs(1e-18, 1e18)[::-1]
    assert in_ulps(floats(results(spelling, a, b)), floats(a).astype(np.float64) / floats(b)) <= 0.51


def test_small_powers() -> None:
    """Results below the normal numbers: a few units of the least one, or zero with `.ftz`."""
    x = inputs(-149.5, -126.01)
    exact = np.exp2(floats(x).astype(np.float64))
    assert np.max(np.abs(floats(results("ex2.approx.f32", x)) - exact)) <= 2.0**-148
    assert not results("ex2.approx.ftz.f32", x).any()


@pytest.mark.parametrize("ftz", ["", ".ftz"])
@pytest.mark.parametrize("opcode", ["rcp", "sqrt", "rsqrt", "ex2", "lg2"])
def test_special_values(opcode: str, ftz: str) -> None:
    """Zeros, infinities and NaNs as in the exact functions; other numbers of the list up to 2 ulp away."""
    spelling = f"{opcode}.approx{ftz}.f32"
    column = np.array(SPECIAL, np.uint64)
    fast = results(spelling, column)
    policy.fast_math = False
    exact = results(spelling, column)
    for x, ours, theirs in zip(SPECIAL, fast.tolist(), exact.tolist(), strict=True):
        same = theirs & 0x7FFFFFFF in (0, 0x7F800000, 0x7FFFFFFF)
        assert ours == theirs if same else abs(ours - theirs) <= 4, (spelling, hex(x), hex(ours), hex(theirs))


@pytest.mark.parametrize("lanes", [1, 16])
def test_does_not_touch_exact_instructions(lanes: int) -> None:
    """The knob is about `.approx` and `.full` only."""
    x = inputs(1e-3, 1e3, 256)
    for spelling in ("rcp.rn.f32", "sqrt.rn.f32", "sin.approx.f32", "tanh.approx.f32"):
        form = synthesise(spelling)
        columns = [[[int(v) for v in x]]]
        fast = harness.run_forms([form], columns, lanes)
        policy.fast_math = False
        assert fast == harness.run_forms([form], columns, lanes)
        policy.fast_math = True
