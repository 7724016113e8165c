"""Video instructions that take a byte or half of a register: values that are the same for all lanes, that count up, and others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.cpu.kernels import Array, check, entry

U32 = np.uint32
I64 = np.int64


def part(values: Array, selector: str, *, signed: bool) -> Array:
    bits = 16 if selector[0] == "h" else 8
    shifted = (values.astype(I64) >> (bits * int(selector[1]))) & ((1 << bits) - 1)
    return np.where(shifted >> (bits - 1), shifted - (1 << bits), shifted) if signed else shifted


@pytest.mark.parametrize("second", ["b1", "h0"])
@pytest.mark.parametrize("first", ["b0", "b2", "h1"])
def test_selected_parts_of_values_of_all_shapes(first: str, second: str) -> None:
    """`%r1` is the same everywhere, `%r2` counts up, `%r3` was loaded."""
    text = entry(f"""
      mov.u32 %r1, 0x81f3a57c; add.u32 %r2, %t, 0x7ff0; ld.global.u32 %r3, [%wide];
      vadd.s32.s32.u32 %r4, %r1.{first}, %r2.{second};
      vsub.s32.s32.s32 %r5, %r3.{first}, %r1.{second};
      vmad.s32.s32.s32 %r6, %r2.{first}, -%r3.{second}, %r4;
      vmax.s32.s32.s32.add %r7, %r1.{first}, %r1.{second}, %r2;
      mad.lo.u32 %r4, %r4, 31, %r5; mad.lo.u32 %r4, %r4, 31, %r6; mad.lo.u32 %r4, %r4, 31, %r7; st.global.u32 [%wide], %r4; ret;""")
    values = (np.arange(64, dtype=np.uint64) * 2654435761 % (1 << 32)).astype(U32)
    same, counting = np.full(64, 0x81F3A57C, U32), np.arange(0x7FF0, 0x7FF0 + 64, dtype=U32)
    r4 = part(same, first, signed=True) + part(counting, second, signed=False)
    r5 = part(values, first, signed=True) - part(same, second, signed=True)
    r6 = part(counting, first, signed=True) * -part(values, second, signed=True) + r4
    r7 = np.maximum(part(same, first, signed=True), part(same, second, signed=True)) + counting.astype(I64)
    expected = (((r4 * 31 + r5) * 31 + r6) * 31 + r7) & 0xFFFFFFFF
    check(text, (64, 1, 1), [values], [expected.astype(U32)])
