"""Accesses to one address that no lane makes: they must not happen, nor touch the image."""

from __future__ import annotations

import numpy as np

from tests.lower.cpu.kernels import check, entry

U32 = np.uint32


def test_uniform_accesses_without_active_lanes() -> None:
    """Seen with Dr.Jit: `@%p st.global [pointer]` of a bounds check; the pointer may be anything while no lane stores."""
    text = entry(
        """
  ld.param.u64 %d1, [nothing];
  ld.global.u32 %r1, [%wide];
  mov.u32 %r2, 7;
  setp.ge.u32 %p1, %r1, 1000;
  @%p1 st.global.u32 [%d1], %r1;
  @%p1 ld.global.u32 %r2, [%d1];
  @%p1 ld.volatile.global.u32 %r2, [%d1];
  @%p1 red.global.add.u32 [%d1], 1;
  add.u32 %r1, %r1, %r2;
  st.global.u32 [%wide], %r1;
  ret;""",
        ".param .u64 out, .param .u64 nothing",
    )
    values = np.arange(64, dtype=U32)
    check(text, (64, 1, 1), [values, 0, 0], [values + 7])


def test_uniform_accesses_with_some_active_lanes() -> None:
    text = entry(
        """
  ld.param.u64 %d1, [place];
  ld.global.u32 %r1, [%wide];
  setp.eq.u32 %p1, %r1, 40;
  @%p1 st.global.u32 [%d1], %r1;
  ret;""",
        ".param .u64 out, .param .u64 place",
    )
    values = np.arange(64, dtype=U32)
    check(text, (64, 1, 1), [values, np.zeros(1, U32)], [values, np.array([40], U32)])
