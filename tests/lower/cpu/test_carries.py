"""CC.CF where additions and subtractions share it: an adder's carry, so that a subtraction sets it if it does *not* borrow."""

from __future__ import annotations

import numpy as np

from tests.lower.cpu.kernels import check, entry

U32 = np.uint32


def test_the_flag_of_one_kind_is_read_by_the_other() -> None:
    """nvcc's division of 128-bit integers looks so whether a remainder is negative; `add.cc 0, 0; subc 0, 0` is -1 on a GPU
    (stackoverflow.com/questions/66403252)."""
    text = entry("""
      ld.global.u32 %r1, [%wide]; add.u32 %r2, %t, 8; cvt.u64.u32 %d1, %r1; cvt.u64.u32 %d2, %r2;
      sub.cc.u32 %r3, %r1, %r2; addc.u32 %r4, 0, 0;
      add.cc.u32 %r3, %r1, -1; subc.u32 %r5, 100, 0;
      sub.cc.u32 %r3, %r1, %r2; subc.cc.u32 %r3, 0, 0; addc.u32 %r6, 0, 0;
      sub.cc.u64 %d3, %d1, %d2; madc.lo.u32 %r7, 3, 5, 0;
      mad.lo.cc.u32 %r3, %r1, 0x10000, 0x80000000; subc.u32 %r8, 50, 0;
      mad.lo.u32 %r4, %r4, 10, %r6; mad.lo.u32 %r5, %r5, 100, %r7; mad.lo.u32 %r4, %r4, 1000, %r5; mad.lo.u32 %r4, %r4, 100, %r8;
      st.global.u32 [%wide], %r4; ret;""")
    values = np.array(
        [*range(0, 60, 4), 0, 0xFFFFFFFF, 0x8000, 0xFFFF, 0x7FFF, 8, 9, 31, 32, 7, 1, 2, 3, 4, 5, 6, 40], U32
    )
    a, b = values.astype(np.int64), np.arange(8, 40, dtype=np.int64)
    greater = (a >= b).astype(np.int64)
    not_zero = (a != 0).astype(np.int64)
    product = ((a << 16) & 0xFFFFFFFF) + 0x80000000 >= 1 << 32
    r5, r8 = 99 + not_zero, np.where(product, 50, 49)
    expected = (((greater * 10 + greater) * 1000 + r5 * 100 + 15 + greater) * 100 + r8) & 0xFFFFFFFF
    check(text, (32, 1, 1), [values], [expected.astype(U32)])
