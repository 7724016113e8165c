"""Instructions with four sources on values that all lanes share."""

from __future__ import annotations

import numpy as np

from tests.lower.cpu.kernels import check, entry

U32 = np.uint32


def test_multiply_with_carry_in_and_out() -> None:
    """Seen in Numba's sine: the carry is a fourth source, and the check for wrapped lanes knew three."""
    text = entry(
        """
  ld.param.u32 %r1, [a];
  mad.lo.cc.u32 %r2, %r1, %r1, %r1;
  madc.hi.cc.u32 %r3, %r1, %r1, %r1;
  madc.hi.u32 %r4, %r1, 3, 5;
  add.u32 %r5, %r2, %r3; add.u32 %r5, %r5, %r4;
  st.global.u32 [%wide], %r5;
  ret;""",
        ".param .u64 out, .param .u32 a",
    )
    a = 0xFFFF_FFF1
    low = (a * a & 0xFFFF_FFFF) + a
    high = (a * a >> 32) + a + (low >> 32)
    total = low + high + (a * 3 >> 32) + 5 + (high >> 32)
    check(text, (64, 1, 1), [np.zeros(64, U32), a], [np.full(64, total & 0xFFFF_FFFF, U32)])
