"""Lanes of one warp that wait for each other: at spin loops within loops, and at `.sync` operations while others still spin."""

from __future__ import annotations

import numpy as np
import pytest

from cuttle.lower.cpu.compile_kernel import plan_kernel
from cuttle.lower.cpu.options import CompileOptions, Target
from cuttle.ptx.parser import parse_module
from tests.lower.cpu.kernels import HEADER, Array, Block, check, entry
from tests.lower.cpu.test_warps_and_barriers import LAST

U32 = np.uint32
WARP: Block = (32, 1, 1)
TWO: Block = (64, 1, 1)


def zeros(count: int = 64) -> Array:
    return np.zeros(count, U32)


@pytest.mark.parametrize("producers", [1, 0])
def test_half_warps_hand_over_in_loops(producers: int) -> None:
    """Producers and consumers among the lanes of a warp, each with a spin loop inside a loop of rounds."""
    text = entry(f"""
      .shared .align 4 .b32 turn; .shared .align 4 .b32 tile[16];
      setp.ne.u32 %p1, %t, 0; @%p1 bra READY; st.shared.u32 [turn], 0;
    READY: bar.warp.sync -1; mov.u32 %r1, 0; mov.u32 %r2, tile; shr.u32 %r3, %t, 1; shl.b32 %r4, %r3, 2; add.u32 %r4, %r2, %r4;
      sub.u32 %r5, 15, %r3; shl.b32 %r5, %r5, 2; add.u32 %r5, %r2, %r5; mov.u32 %r10, 0;
      and.b32 %r6, %t, 1; setp.eq.u32 %p2, %r6, {producers}; @!%p2 bra CONSUME;
    PRODUCE: mul.lo.u32 %r7, %r1, 32;
    P: ld.volatile.shared.u32 %r8, [turn]; setp.ne.u32 %p3, %r8, %r7; @%p3 bra P;
      bar.warp.sync {0xAAAAAAAA if producers else 0x55555555};
      mad.lo.u32 %r9, %r1, 100, %t; st.shared.u32 [%r4], %r9; atom.shared.add.u32 %r9, [turn], 1;
      add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 5; @%p4 bra PRODUCE; bra END;
    CONSUME: mad.lo.u32 %r7, %r1, 32, 16;
    C: ld.volatile.shared.u32 %r8, [turn]; setp.ne.u32 %p3, %r8, %r7; @%p3 bra C;
      bar.warp.sync {0x55555555 if producers else 0xAAAAAAAA};
      ld.volatile.shared.u32 %r9, [%r5]; mad.lo.u32 %r10, %r10, 7, %r9; atom.shared.add.u32 %r9, [turn], 1;
      add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 5; @%p4 bra CONSUME;
    END: st.global.u32 [%wide], %r10; ret;""")
    expected = zeros(32)
    for lane in range(1 - producers, 32, 2):
        for turn in range(5):
            expected[lane] = expected[lane] * U32(7) + U32(turn * 100 + 2 * (15 - lane // 2) + producers)
    check(text, WARP, [zeros(32)], [expected], ways=LAST)


def test_a_warp_waits_for_the_lane_that_waits_for_another_warp() -> None:
    """Lane 0 of the first warp spins on what the second warp sets last; the others must not pass `.sync` without it."""
    text = entry(
        """
      ld.param.u64 %d1, [data]; mul.wide.u32 %d2, %lane, 4; add.u64 %d2, %d1, %d2; mov.u32 %r1, 5;
      setp.ge.u32 %p1, %t, 32; @%p1 bra SET;
      setp.ne.u32 %p2, %t, 0; @%p2 bra ALL;
    WAIT: ld.volatile.global.u32 %r1, [%d1+128]; setp.eq.u32 %p3, %r1, 0; @%p3 bra WAIT;
    ALL: bar.warp.sync -1; ld.volatile.global.u32 %r2, [%d2];
      shfl.sync.idx.b32 %r3, %r1, 0, 31, -1; redux.sync.add.u32 %r4, %r1, -1; setp.gt.u32 %p4, %r1, 5;
      vote.sync.ballot.b32 %r5, %p4, 0xffffffff;
      mad.lo.u32 %r2, %r2, 3, %r3; mad.lo.u32 %r2, %r2, 3, %r4; mad.lo.u32 %r2, %r2, 3, %r5; st.global.u32 [%wide], %r2; ret;
    SET: add.u32 %r2, %t, 1000; st.global.u32 [%d2], %r2; bar.warp.sync -1; setp.ne.u32 %p2, %t, 32; @%p2 bra DONE;
      st.volatile.global.u32 [%d1+128], 77;
    DONE: ret;""",
        ".param .u64 out, .param .u64 data",
    )
    lanes = np.arange(32, dtype=U32)
    expected = zeros()
    expected[:32] = (((lanes + U32(1032)) * U32(3) + U32(77)) * U32(3) + U32(77 + 31 * 5)) * U32(3) + U32(1)
    check(text, TWO, [expected * U32(0), zeros(33)], [expected, None], ways=LAST)


def test_a_shuffle_alone_waits_too() -> None:
    """No barrier of the warp before it; lane 5 waits for lane 9 of its own warp."""
    text = entry("""
      .shared .align 4 .b32 flag;
      setp.ne.u32 %p1, %t, 0; @%p1 bra READY; st.shared.u32 [flag], 0;
    READY: bar.warp.sync -1; mov.u32 %r1, %t; setp.eq.u32 %p2, %t, 5; @%p2 bra WAIT;
      setp.ne.u32 %p3, %t, 9; @%p3 bra JOIN; st.volatile.shared.u32 [flag], 100; bra JOIN;
    WAIT: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p4, %r1, 0; @%p4 bra WAIT;
    JOIN: shfl.sync.idx.b32 %r2, %r1, 5, 31, -1; add.u32 %r2, %r2, %r1; st.global.u32 [%wide], %r2; ret;""")
    expected = np.arange(100, 132, dtype=U32)
    expected[5] = 200
    check(text, WARP, [zeros(32)], [expected], ways=LAST)


def test_tiles_with_masks_of_their_own_wait_for_their_lanes_only() -> None:
    """Tiles of 8; each one's first lane waits for the tile before: with one mask for all, nobody would get on."""
    text = entry("""
      .shared .align 4 .b32 flags[4]; mov.u32 %r20, flags;
      setp.ge.u32 %p1, %t, 4; @%p1 bra READY; shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %r20; st.shared.u32 [%r1], 0;
    READY: bar.warp.sync -1; shr.u32 %r2, %t, 3; shl.b32 %r3, %r2, 2; add.u32 %r3, %r3, %r20;
      and.b32 %r4, %t, 24; mov.u32 %r5, 255; shl.b32 %r5, %r5, %r4; mov.u32 %r6, 1; and.b32 %r7, %t, 7;
      setp.ne.u32 %p2, %r7, 0; setp.eq.or.u32 %p2, %r2, 3, %p2; @%p2 bra GO;
    WAIT: ld.volatile.shared.u32 %r6, [%r3+4]; setp.eq.u32 %p3, %r6, 0; @%p3 bra WAIT;
    GO: shfl.sync.idx.b32 %r8, %r6, 0, 0x181f, %r5; add.u32 %r8, %r8, 3; redux.sync.min.u32 %r9, %r7, %r5;
      setp.ne.u32 %p4, %r7, 0; @%p4 bra END; st.volatile.shared.u32 [%r3], %r8;
    END: add.u32 %r8, %r8, %r9; st.global.u32 [%wide], %r8; ret;""")
    expected = np.repeat(np.array([13, 10, 7, 4], U32), 8)
    check(text, WARP, [zeros(32)], [expected], ways=LAST)


def test_exited_lanes_and_guards_hold_nobody_up() -> None:
    """Lanes 0 to 7 exit while others spin; the shuffle names all 32, its guard leaves lanes from 24 on out."""
    text = entry("""
      .shared .align 4 .b32 flag;
      setp.ne.u32 %p1, %t, 0; @%p1 bra READY; st.shared.u32 [flag], 0;
    READY: bar.warp.sync -1; mov.u32 %r1, %t; mov.u32 %r2, 7; setp.eq.u32 %p2, %t, 10; @%p2 bra WAIT;
      setp.ge.u32 %p3, %t, 8; @%p3 bra JOIN; setp.ne.u32 %p4, %t, 3; @%p4 bra GONE; st.volatile.shared.u32 [flag], 500;
    GONE: exit;
    WAIT: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p5, %r1, 0; @%p5 bra WAIT;
    JOIN: setp.lt.u32 %p6, %t, 24; @%p6 shfl.sync.idx.b32 %r2, %r1, 10, 31, 0x00ffffff; add.u32 %r2, %r2, %r1;
      st.global.u32 [%wide], %r2; ret;""")
    expected = np.arange(32, dtype=U32) + U32(500)
    expected[:8], expected[10] = 0, 1000
    expected[24:] = np.arange(24, 32, dtype=U32) + U32(7)
    check(text, WARP, [zeros(32)], [expected], ways=LAST)


@pytest.mark.parametrize("branch", ["", "!"])
def test_those_who_wait_for_lanes_that_exit_go_on_together(branch: str) -> None:
    """In a loop of one half some lanes exit; the other half waits for what the rest writes behind the loop."""
    text = entry(f"""
      .shared .align 4 .b32 tile[32]; mov.u32 %r20, tile; shl.b32 %r21, %t, 2; add.u32 %r21, %r21, %r20;
      xor.b32 %r22, %t, 16; shl.b32 %r22, %r22, 2; add.u32 %r22, %r22, %r20;
      st.shared.u32 [%r21], 0; bar.warp.sync -1; mov.u32 %r1, 0; mov.u32 %r2, 0;
      setp.ge.u32 %p5, %t, 16; @{branch}%p5 bra OTHER;
    LOOP: add.u32 %r1, %r1, 1; setp.ge.u32 %p6, %t, 0; vote.sync.ballot.b32 %r4, %p6, {0xFFFF0000 if branch else 0xFFFF};
      popc.b32 %r4, %r4; mad.lo.u32 %r2, %r2, 100, %r4; and.b32 %r6, %t, 15; setp.lt.u32 %p7, %r6, 4;
      setp.eq.and.u32 %p7, %r1, 1, %p7; @%p7 exit; setp.lt.u32 %p8, %r1, 3; @%p8 bra LOOP;
      st.shared.u32 [%r21], %r2; bar.warp.sync -1; bra END;
    OTHER: bar.warp.sync -1; ld.shared.u32 %r2, [%r22];
    END: st.global.u32 [%wide], %r2; ret;""")
    expected = np.full(32, 161212, U32)
    expected[:4] = expected[16:20] = 0
    check(text, WARP, [zeros(32)], [expected], ways=LAST)


def test_barriers_of_a_warp_in_both_branches_meet() -> None:
    """`bar.warp.sync` at two places is one barrier: each half reads what the other wrote before its own."""
    text = entry("""
      .shared .align 4 .b32 tile[64]; mov.u32 %r20, tile; shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %r20;
      xor.b32 %r2, %t, 16; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %r20; and.b32 %r3, %t, 16;
      setp.eq.u32 %p1, %r3, 0; mov.u32 %r9, 0; @%p1 bra ONE;
      add.u32 %r4, %t, 100; st.shared.u32 [%r1], %r4; bar.warp.sync -1; ld.shared.u32 %r5, [%r2];
      bar.warp.sync -1; add.u32 %r6, %r5, 1; st.shared.u32 [%r1], %r6; bar.warp.sync -1; ld.shared.u32 %r7, [%r2]; bra JOIN;
    ONE: add.u32 %r4, %t, 200; st.shared.u32 [%r1], %r4; bar.warp.sync -1; ld.shared.u32 %r5, [%r2];
      bar.warp.sync -1; add.u32 %r6, %r5, 2; st.shared.u32 [%r1], %r6; bar.warp.sync -1; ld.shared.u32 %r7, [%r2];
    JOIN: mad.lo.u32 %r7, %r7, 1000, %r5; st.global.u32 [%wide], %r7; ret;""")
    t = np.arange(64, dtype=U32)
    low = (t & 16) == 0
    first = np.where(low, (t ^ 16) + 100, (t ^ 16) + 200)
    second = np.where(low, (t + 200) + 1, (t + 100) + 2)
    check(text, TWO, [zeros()], [(second * 1000 + first).astype(U32)], ways=LAST)


def test_a_called_function_with_a_shuffle_waits() -> None:
    """A recursive function is called for real: its shuffle, too, waits for the lane that spins."""
    before = """
.func (.reg .b32 result) deep(.reg .b32 left, .reg .b32 value)
{
  .reg .pred %p<4>; .reg .b32 %r<8>;
  setp.eq.u32 %p1, left, 0; @%p1 bra END;
  sub.u32 %r1, left, 1; add.u32 %r2, value, 1; call (%r3), deep, (%r1, %r2); mov.u32 result, %r3; ret;
END: shfl.sync.idx.b32 result, value, 5, 31, -1; ret;
}
"""
    text = entry(
        """
      .shared .align 4 .b32 flag;
      setp.ne.u32 %p1, %t, 0; @%p1 bra READY; st.shared.u32 [flag], 0;
    READY: bar.warp.sync -1; mov.u32 %r1, %t; setp.eq.u32 %p2, %t, 5; @%p2 bra WAIT;
      setp.ne.u32 %p3, %t, 9; @%p3 bra JOIN; st.volatile.shared.u32 [flag], 100; bra JOIN;
    WAIT: ld.volatile.shared.u32 %r1, [flag]; setp.eq.u32 %p4, %r1, 0; @%p4 bra WAIT;
    JOIN: mov.u32 %r5, 3; call (%r2), deep, (%r5, %r1); add.u32 %r2, %r2, %r1; st.global.u32 [%wide], %r2; ret;""",
        before=before,
    )
    expected = np.arange(103, 135, dtype=U32)
    expected[5] = 203
    check(text, WARP, [zeros(32)], [expected], ways=LAST)


FLAG_FIRST = """
      .shared .align 4 .b32 flag; .local .align 4 .b32 kept; setp.ne.u32 %p1, %t, 0; @%p1 bra READY; st.shared.u32 [flag], 0;
    READY: bar.sync 0; mov.u32 %r1, 0; mov.u32 %r2, 0; setp.ge.u32 %p2, %t, 32; @%p2 bra SET;"""
FLAG_LAST = """
    SET: mov.u32 %r5, 8; setp.ne.u32 %p2, %t, 40; @%p2 bra END; st.volatile.shared.u32 [flag], 8;
    END: st.global.u32 [%wide], %r5; ret;"""
WAITS = {
    "branch": """
    LOOP: setp.ne.u32 %p3, %r1, 0; @%p3 bra END; ld.volatile.shared.u32 %r5, [flag]; setp.eq.u32 %p4, %r5, 0; @%p4 bra NEXT;
      mov.u32 %r1, 1;
    NEXT: add.u32 %r2, %r2, 1; bra LOOP;""",
    "state": """
      STATES: .branchtargets FIRST, SECOND, END;
    LOOP: brx.idx %r1, STATES;
    FIRST: ld.volatile.shared.u32 %r5, [flag]; setp.eq.u32 %p4, %r5, 0; @%p4 bra LOOP; mov.u32 %r1, 1; bra LOOP;
    SECOND: mov.u32 %r1, 2; bra LOOP;""",
    "local memory": """
    LOOP: ld.volatile.shared.u32 %r5, [flag]; st.local.u32 [kept], %r5; ld.local.u32 %r6, [kept]; setp.eq.u32 %p4, %r6, 0;
      @%p4 bra LOOP; bra END;""",
    "fence": """
    LOOP: fence.acq_rel.cta; ld.shared.u32 %r5, [flag]; setp.eq.u32 %p4, %r5, 0; @%p4 bra LOOP; bra END;""",
    "pause": """
    LOOP: nanosleep.u32 100; ld.shared.u32 %r5, [flag]; setp.eq.u32 %p4, %r5, 0; @%p4 bra LOOP; bra END;""",
    "one lane's": """
      setp.ne.u32 %p5, %t, 3; @%p5 bra END;
    LOOP: setp.ne.u32 %p3, %r1, 0; @%p3 bra END; ld.volatile.shared.u32 %r5, [flag]; setp.eq.u32 %p4, %r5, 0; @%p4 bra NEXT;
      mov.u32 %r1, 1;
    NEXT: add.u32 %r2, %r2, 1; bra LOOP;""",
    "swap": """
      mov.u32 %r7, 8;
    LOOP: atom.shared.cas.b32 %r5, [flag], %r7, 8; setp.eq.u32 %p4, %r5, 8; @%p4 bra END; or.b32 %r7, %r5, 8; bra LOOP;""",
}  # fmt: skip


@pytest.mark.parametrize("how", WAITS)
def test_waits_of_all_kinds_let_the_other_warp_go(how: str) -> None:
    """The first warp waits for a lane of the second: by a branch, a state, a variable in memory, a plain load with a fence."""
    text = entry(FLAG_FIRST + WAITS[how] + FLAG_LAST)
    expected = np.full(64, 8, U32)
    if how == "one lane's":
        text = text.replace("setp.ne.u32 %p5, %t, 3;", "mov.u32 %r5, 8; setp.ne.u32 %p5, %t, 3;")
    check(text, TWO, [zeros()], [expected], ways=LAST)


RETRIES = {
    "add": "ld.global.u32 %r1, [%out]; AGAIN: mov.u32 %r2, %r1; add.u32 %r3, %r2, 3; "
    "atom.global.cas.b32 %r1, [%out], %r2, %r3; setp.ne.u32 %p1, %r1, %r2; @%p1 bra AGAIN;",
    "count": "mov.u32 %r1, 0; AGAIN: atom.global.add.u32 %r2, [%out], 1; add.u32 %r1, %r1, 1; "
    "setp.lt.u32 %p1, %r1, 3; @%p1 bra AGAIN; st.global.u32 [%wide+4], %r2;",
    "halves": "mov.u32 %r1, 4; AGAIN: atom.global.add.u32 %r2, [%out], 1; shr.u32 %r1, %r1, 1; "
    "setp.ne.u32 %p1, %r1, 0; @%p1 bra AGAIN; st.global.u32 [%wide+4], %r2;",
}  # fmt: skip


@pytest.mark.parametrize("how", RETRIES)
def test_loops_that_make_progress_do_not_wait(how: str) -> None:
    """They would be much slower: every value masked, a yield each round."""
    module = parse_module(HEADER + entry(RETRIES[how] + " ret;"))
    plan = plan_kernel(module, "k", CompileOptions(block_shape=(64, 1, 1)), Target(True)).kernel
    assert not plan.spin_loops and not plan.lanes_part
