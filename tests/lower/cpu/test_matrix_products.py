"""`mma` as the CPU device writes it, a function of the image, exact and with CUTTLE_FAST_MATH."""

from __future__ import annotations

import numpy as np
import pytest

from cuttle.lower.cpu.options import CompileOptions
from tests.lower.cpu.kernels import Way, check, entry, run

WAYS = (
    Way("exact"),
    Way("fast math", CompileOptions(fast_math=True)),
    Way("plain", CompileOptions(plain=True, optimization=0)),
)


def kernel(kind: str) -> str:
    """out[4 registers][32 lanes] = A B + C twice over: once with C of zero, then on that sum."""
    loads = " ".join(f"ld.global.b32 %r{n + 1}, [%wide+{128 * (n + 4)}];" for n in range(6))
    first = "{%f1, %f2, %f3, %f4}"
    factors = "{%r1, %r2, %r3, %r4}, {%r5, %r6}"
    opcode = f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32"
    stores = " ".join(f"st.global.f32 [%wide+{128 * n}], %f{n + 1};" for n in range(4))
    zero = "mov.f32 %f9, 0f00000000;"
    return entry(f"""{loads} {zero} {opcode} {first}, {factors}, {{%f9, %f9, %f9, %f9}};
      {opcode} {first}, {factors}, {first}; {stores} ret;""")


def fragments(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Registers of A (16x16) and B (16x8), 16-bit patterns, as words: four of A, two of B, 32 lanes each."""
    group, t = np.arange(32) // 4, np.arange(32) % 4
    words = []
    for register in range(4):
        row, k = group + 8 * (register % 2), 2 * t + 8 * (register // 2)
        words.append(a[row, k] | a[row, k + 1].astype(np.uint32) << 16)
    for register in range(2):
        k = 2 * t + 8 * register
        words.append(b[k, group] | b[k + 1, group].astype(np.uint32) << 16)
    return np.array(words, np.uint32)


def spread(c: np.ndarray) -> np.ndarray:
    """A 16x8 matrix as the accumulators' registers."""
    group, t = np.arange(32) // 4, np.arange(32) % 4
    return np.array([c[group + 8 * (n // 2), 2 * t + n % 2] for n in range(4)], np.float32)


def patterns(values: np.ndarray, kind: str) -> np.ndarray:
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_whole_numbers(kind: str) -> None:
    """Sums that every way of adding gives exactly; three warps."""
    random = np.random.default_rng(3)
    a, b = random.integers(-8, 9, (16, 16)), random.integers(-8, 9, (16, 8))
    memory = np.zeros((10, 32), np.uint32)
    memory[4:] = fragments(patterns(a, kind), patterns(b, kind))
    expected = memory.copy()
    expected[:4] = spread(2 * (a @ b)).view(np.uint32)
    check(kernel(kind), (32, 1, 1), [memory], [expected], ways=WAYS)


def test_fast_sums_are_single_precision() -> None:
    random = np.random.default_rng(4)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((16, 16), (16, 8)))
    memory = np.zeros((10, 32), np.uint32)
    memory[4:] = fragments(a.view(np.uint16), b.view(np.uint16))
    exact = spread(2 * (a.astype(np.float64) @ b))
    scale = spread(2 * (np.abs(a.astype(np.float64)) @ np.abs(b)))
    found = {way.name: run(kernel("f16"), (32, 1, 1), [memory], way)[0][0][:4].view(np.float32) for way in WAYS}
    assert np.max(np.abs(found["fast math"] - exact) / scale) < 32 * 2.0**-24
    np.testing.assert_array_equal(found["exact"], found["plain"])
