"""Grids of every dimension, blocks finished one by one by the executor, dynamic shared memory, module variables."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.cpu.kernels import WAYS, Block, check, entry

U32 = np.uint32


@pytest.mark.parametrize("grid", [(5, 1, 1), (3, 2, 2), (1, 4, 3), (2, 1, 5)])
@pytest.mark.parametrize("uneven", [False, True])
def test_grid_indices(grid: Block, uneven: bool) -> None:
    """With `uneven`, warps of some blocks stop at different places, so `blocks` gives these up and begins again behind."""
    block: Block = (64, 1, 1)
    meeting = """
      and.b32 %r20, %r1, 1; setp.ne.u32 %p1, %r20, 0; setp.gt.u32 %p2, %t, 31; and.pred %p3, %p1, %p2; @%p3 bra OTHER;
      barrier.sync 0; bra MET; OTHER: barrier.sync 0; MET: """
    text = entry(f"""
      mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
      {meeting if uneven else ""}
      mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1; mad.lo.u32 %r7, %r6, 64, %t; mul.wide.u32 %d1, %r7, 4;
      add.u64 %d1, %d1, %out; shl.b32 %r8, %r3, 8; or.b32 %r8, %r8, %r2; shl.b32 %r8, %r8, 8; or.b32 %r8, %r8, %r1;
      mad.lo.u32 %r8, %r8, 64, %t; st.global.u32 [%d1], %r8; ret;""")
    z, y, x, t = np.meshgrid(*(np.arange(n, dtype=U32) for n in (grid[2], grid[1], grid[0], 64)), indexing="ij")
    expected = ((z << 16 | y << 8 | x) * U32(64) + t).reshape(-1)
    check(text, block, [np.zeros_like(expected)], [expected], grid=grid)


def test_static_and_dynamic_shared_memory_and_module_variables() -> None:
    block: Block = (48, 1, 1)
    text = entry(
        """
      mov.u32 %r1, fixed; mov.u32 %r2, dyn; shl.b32 %r3, %t, 2; add.u32 %r4, %r1, %r3; add.u32 %r5, %r2, %r3;
      st.shared.u32 [%r4], %t; mov.u64 %d1, table; add.u64 %d2, %d1, %wide; sub.u64 %d2, %d2, %out; ld.const.u32 %r6, [%d2];
      st.shared.u32 [%r5], %r6; bar.sync 0; xor.b32 %r7, %r3, 4; add.u32 %r4, %r1, %r7; add.u32 %r5, %r2, %r7;
      ld.shared.u32 %r8, [%r4]; ld.shared.u32 %r9, [%r5]; cvta.shared.u64 %d3, fixed; ld.u32 %r10, [%d3+8];
      ld.shared.u32 %r11, [dyn+12]; mad.lo.u32 %r8, %r8, 1000, %r9; mad.lo.u32 %r10, %r10, 7, %r11; add.u32 %r8, %r8, %r10;
      atom.global.add.u32 %r12, [counter], 2; ld.global.u32 %r13, [counter+4]; add.u32 %r8, %r8, %r13;
      st.global.u32 [%wide], %r8; ret;""",
        variables=".shared .align 4 .b32 fixed[48];",
        before=".const .align 4 .b32 table[48]; .global .align 4 .b32 counter[2]; .extern .shared .align 16 .b8 dyn[];",
    )
    t = np.arange(48, dtype=U32)
    table = t * U32(11) + U32(3)
    other = t ^ 1
    expected = other * 1000 + table[other] + 2 * 7 + table[3] + 5
    check(
        text, block, [np.zeros(48, U32)], [expected.astype(U32), table, np.array([96, 5], U32)],
        symbols=[table, np.array([0, 5], U32)], dynamic_shared=48 * 4, ways=WAYS,
    )  # fmt: skip


def test_early_returns_and_barriers() -> None:
    """Threads that have returned are not waited for, whole warps of them and parts of warps."""
    block: Block = (160, 1, 1)
    text = entry(
        """
      st.global.u32 [%wide], 7; setp.ge.u32 %p1, %t, 100; @%p1 ret; shl.b32 %r1, %t, 2; mov.u32 %r2, sh; add.u32 %r1, %r1, %r2;
      st.shared.u32 [%r1], %t; bar.sync 0; and.b32 %r3, %t, 7; setp.eq.u32 %p2, %r3, 3; @%p2 exit;
      sub.u32 %r4, 99, %t; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r2; ld.shared.u32 %r5, [%r4]; bar.sync 0;
      st.shared.u32 [%r1], %r5; bar.sync 0; ld.shared.u32 %r6, [%r1]; st.global.u32 [%wide], %r6; ret;""",
        variables=".shared .align 4 .b32 sh[100];",
    )
    t = np.arange(160)
    expected = np.where((t >= 100) | (t % 8 == 3), 7, 99 - t).astype(U32)
    check(text, block, [np.zeros(160, U32)], [expected])
