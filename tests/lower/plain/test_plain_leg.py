"""What the plain leg does by rules of its own: waiting lanes, stacks, progress."""

from __future__ import annotations

import numpy as np
import pytest

from cuttle.lower.cpu.options import CompileOptions
from cuttle.lower.plain.program import plan_program
from tests.lower.cpu.kernels import Fault, Way, check, entry, parsed, run, run_or_fault

PLAIN = Way("plain", CompileOptions(plain=True, optimization=0))
ONLY = (PLAIN,)
WARP = (32, 1, 1)


def test_lanes_at_different_places_shuffle_together() -> None:
    """The halves of a warp execute different `shfl.sync` instructions, each half with its own mask."""
    body = """
  setp.lt.u32 %p1, %lane, 16;
  mul.lo.u32 %r1, %lane, 10;
  @%p1 bra low;
  shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff0000;
  bra done;
low:
  shfl.sync.bfly.b32 %r2, %r1, 2, 31, 0xffff;
done:
  st.global.u32 [%wide], %r2;
  ret;
"""
    lanes = np.arange(32, dtype=np.uint32)
    check(
        entry(body),
        WARP,
        [np.zeros(32, np.uint32)],
        [np.where(lanes < 16, lanes ^ 2, lanes ^ 1).astype(np.uint32) * 10],
        ways=ONLY,
    )


def test_lanes_wait_for_their_member_mask() -> None:
    """One lane comes late to a vote that all lanes take part in."""
    body = """
  mov.u32 %r1, 0;
  setp.ne.u32 %p1, %lane, 7;
  @%p1 bra ready;
late:
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p2, %r1, 50;
  @%p2 bra late;
ready:
  setp.eq.u32 %p3, %r1, 50;
  vote.sync.ballot.b32 %r2, %p3, 0xffffffff;
  st.global.u32 [%wide], %r2;
  ret;
"""
    check(entry(body), WARP, [np.zeros(32, np.uint32)], [np.full(32, 1 << 7, np.uint32)], ways=ONLY)


def test_exited_lanes_are_not_waited_for() -> None:
    body = """
  setp.gt.u32 %p1, %lane, 9;
  @%p1 exit;
  activemask.b32 %r1;
  vote.sync.ballot.b32 %r2, 1, 0xffffffff;
  st.global.u32 [%wide], %r2;
  ret;
"""
    expected = np.where(np.arange(32) < 10, 1023, 0).astype(np.uint32)
    check(entry(body), WARP, [np.zeros(32, np.uint32)], [expected], ways=ONLY)


def test_a_spin_lock_between_lanes() -> None:
    body = """
again:
  atom.global.cas.b32 %r1, [%out], 0, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra again;
  ld.global.u32 %r2, [%out+4];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%out+4], %r2;
  atom.global.exch.b32 %r3, [%out], 0;
  ret;
"""
    check(entry(body), (64, 1, 1), [np.zeros(2, np.uint32)], [np.array([0, 64], np.uint32)], ways=ONLY)


RECURSION = """
.func (.param .b32 result) sum(.param .b32 n)
{
  .reg .b32 %r<4>; .reg .pred %p; .reg .b32 %own;
  ld.param.u32 %own, [n];
  setp.eq.u32 %p, %own, 0;
  mov.u32 %r1, 0;
  @%p bra done;
  sub.u32 %r2, %own, 1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), sum, (a); ld.param.b32 %r3, [b]; }
  add.u32 %r1, %r3, %own;
done:
  st.param.b32 [result], %r1;
  ret;
}
"""
RECURSIVE = entry(
    """
  { .param .b32 a; .param .b32 b; mul.lo.u32 %r1, %lane, FACTOR; st.param.b32 [a], %r1; call (b), sum, (a);
    ld.param.b32 %r2, [b]; }
  st.global.u32 [%wide], %r2;
  ret;
""",
    before=RECURSION,
)


def test_recursion_to_a_different_depth_in_each_lane() -> None:
    lanes = np.arange(32, dtype=np.uint32)
    check(RECURSIVE.replace("FACTOR", "1"), WARP, [np.zeros(32, np.uint32)], [lanes * (lanes + 1) // 2], ways=ONLY)


def test_a_stack_that_is_too_small() -> None:
    with pytest.raises(Fault, match="5"):
        run_or_fault(RECURSIVE.replace("FACTOR", "100"), WARP, [np.zeros(32, np.uint32)], PLAIN)


def test_a_guarded_call_leaves_the_other_lanes_alone() -> None:
    body = """
  setp.gt.u32 %p1, %lane, 20;
  mov.u32 %r2, 77;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %lane; @%p1 call (b), sum, (a); @%p1 ld.param.b32 %r2, [b]; }
  st.global.u32 [%wide], %r2;
  ret;
"""
    lanes = np.arange(32, dtype=np.uint32)
    expected = np.where(lanes > 20, lanes * (lanes + 1) // 2, 77).astype(np.uint32)
    check(entry(body, before=RECURSION), WARP, [np.zeros(32, np.uint32)], [expected], ways=ONLY)


def test_barriers_in_a_function_that_is_called() -> None:
    """Lanes of a warp stand at two calls of a function with a barrier: the warp arrives once."""
    before = """
.func meet(.param .b32 value)
{
  .reg .b32 %r<4>;
  ld.param.u32 %r1, [value];
  setp_placeholder
  bar.sync 0;
  ret;
}
""".replace("  setp_placeholder\n", "")
    body = """
  .shared .b32 box[64];
  mov.u32 %r5, box; mul.lo.u32 %r6, %t, 4; add.u32 %r5, %r5, %r6;
  st.shared.u32 [%r5], %t;
  and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0;
  @%p1 bra even;
  { .param .b32 a; st.param.b32 [a], %t; call meet, (a); }
  bra done;
even:
  { .param .b32 a; st.param.b32 [a], %lane; call meet, (a); }
done:
  mov.u32 %r7, 63; sub.u32 %r7, %r7, %t; mul.lo.u32 %r7, %r7, 4; mov.u32 %r8, box; add.u32 %r7, %r7, %r8;
  ld.shared.u32 %r9, [%r7];
  st.global.u32 [%wide], %r9;
  ret;
"""
    expected = np.arange(63, -1, -1, dtype=np.uint32)
    check(entry(body, before=before), (64, 1, 1), [np.zeros(64, np.uint32)], [expected], ways=ONLY)


def test_lanes_that_call_meet_the_others_again() -> None:
    """Functions stand behind the kernel in the list of steps; lanes that passed the call by must not run ahead."""
    body = """
  setp.gt.u32 %p1, %lane, 20;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], 3; @%p1 call (b), sum, (a); }
  activemask.b32 %r1;
  st.global.u32 [%wide], %r1;
  ret;
"""
    everyone = np.full(32, 0xFFFFFFFF, np.uint32)
    check(entry(body, before=RECURSION), WARP, [np.zeros(32, np.uint32)], [everyone], ways=ONLY)


def test_a_handle_that_is_no_function() -> None:
    body = """
  mov.u64 %d1, 12345;
  proto: .callprototype _ ();
  call %d1, (), proto;
  ret;
"""
    with pytest.raises(Fault, match="7"):
        run_or_fault(entry(body), WARP, [np.zeros(32, np.uint32)], PLAIN)


@pytest.mark.parametrize("instruction", ["wgmma.fence.sync.aligned;", "add.s32 %v, %v;"])
def test_a_pointer_to_a_function_that_is_not_translated(instruction: str) -> None:
    """It hinders nobody until a lane calls it."""
    body = """
  mov.u64 %d1, strange;
  proto: .callprototype _ ();
  setp.eq.u32 %p1, %lane, LANE;
  @%p1 call %d1, (), proto;
  st.global.u32 [%wide], %lane;
  ret;
"""
    before = f".func strange() {{ .reg .b32 %v; {instruction} ret; }}"
    nothing, lanes = [np.zeros(32, np.uint32)], np.arange(32, dtype=np.uint32)
    check(entry(body.replace("LANE", "32"), before=before), WARP, nothing, [lanes], ways=ONLY)
    with pytest.raises(Fault, match="3"):
        run_or_fault(entry(body.replace("LANE", "31"), before=before), WARP, nothing, PLAIN)


def test_every_instruction_is_a_step_and_calls_have_two() -> None:
    program = plan_program(parsed(RECURSIVE.replace("FACTOR", "1")), "k", 16384)
    assert [step.number for step in program.steps] == list(range(len(program.steps)))
    returns = [step for step in program.steps if step.kind == "return_of"]
    assert len(returns) == 2 and all(program.steps[step.number - 1].instruction.opcode == "call" for step in returns)


def test_registers_of_a_launch_begin_with_zero() -> None:
    body = """
  st.global.u32 [%wide], %r40;
  mov.u32 %r40, %t;
  ret;
"""
    for _ in range(2):
        arrays, _ = run(entry(body), WARP, [np.full(32, 9, np.uint32)], PLAIN, grid=(3, 1, 1))
        np.testing.assert_array_equal(arrays[0], np.zeros(32, np.uint32))
