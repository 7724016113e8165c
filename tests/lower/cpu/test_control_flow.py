"""Branches, loops, switches and calls that send lanes of a warp different ways."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.cpu.kernels import WAYS, Array, Block, check, entry, run, threads

U32 = np.uint32
SHAPES: list[Block] = [(1, 1, 1), (32, 1, 1), (33, 1, 1), (100, 1, 1), (16, 16, 1), (5, 7, 3), (8, 8, 4), (64, 2, 1)]


def numbers(block: Block) -> Array:
    return np.arange(threads(block), dtype=U32)


def empty(block: Block) -> Array:
    return np.zeros(threads(block), U32)


def irreducible(thread: int) -> int:
    count, r, at = thread & 7, thread, "A" if thread & 1 else "B"
    while True:
        if at == "A":
            r = (r * 3 + 1) & 0xFFFFFFFF
            if count == 0:
                return r
            count -= 1
            at = "A" if r & 2 else "B"
        else:
            r ^= 0x55
            at = "A"
            if not r & 4:
                r = (r + 5) & 0xFFFFFFFF


@pytest.mark.parametrize("block", SHAPES)
def test_irreducible_flow(block: Block) -> None:
    text = entry("""
      and.b32 %r1, %t, 7; mov.u32 %r2, %t; and.b32 %r3, %t, 1; setp.ne.u32 %p1, %r3, 0; @!%p1 bra B;
    A: mad.lo.u32 %r2, %r2, 3, 1; setp.eq.u32 %p2, %r1, 0; @%p2 bra E; sub.u32 %r1, %r1, 1;
      and.b32 %r4, %r2, 2; setp.ne.u32 %p3, %r4, 0; @%p3 bra A;
    B: xor.b32 %r2, %r2, 0x55; and.b32 %r5, %r2, 4; setp.ne.u32 %p4, %r5, 0; @%p4 bra A; add.u32 %r2, %r2, 5; bra A;
    E: st.global.u32 [%wide], %r2; ret;""")
    check(text, block, [empty(block)], [np.array([irreducible(int(t)) for t in numbers(block)], U32)])


def switched(thread: int) -> int:
    case, r = min(thread & 7, 4), thread
    if case in (0, 3):
        return r + 100
    if case == 1:
        r *= 3
    if case != 4:
        r += 7
    return r ^ 0xFF if case == 4 or r > 50 else r


@pytest.mark.parametrize("block", SHAPES)
def test_switch_with_shared_and_falling_cases(block: Block) -> None:
    text = entry("""
      and.b32 %r1, %t, 7; min.u32 %r1, %r1, 4; mov.u32 %r2, %t;
    tab: .branchtargets C0, C1, C2, C0, C3;
      brx.idx %r1, tab;
    C0: add.u32 %r2, %r2, 100; bra E;
    C1: mul.lo.u32 %r2, %r2, 3;
    C2: add.u32 %r2, %r2, 7; setp.gt.u32 %p1, %r2, 50; @%p1 bra C3; bra E;
    C3: xor.b32 %r2, %r2, 0xff;
    E: st.global.u32 [%wide], %r2; ret;""")
    check(text, block, [empty(block)], [np.array([switched(int(t)) for t in numbers(block)], U32)])


@pytest.mark.parametrize("block", SHAPES)
def test_uniform_switch_and_branches_among_divergent_ones(block: Block) -> None:
    text = entry(
        """
      mov.u32 %r1, %ctaid.x; mov.u32 %r2, 0; and.b32 %r3, %t, 1; setp.eq.u32 %p1, %r3, 0;
    L: add.u32 %r2, %r2, 1;
      @%p1 bra ODD;
      brx.idx %r1, tab;
    tab: .branchtargets C0, C1, C2;
    C0: add.u32 %r2, %r2, 10; bra J;
    C1: add.u32 %r2, %r2, 20;
    C2: add.u32 %r2, %r2, 30; bra J;
    ODD: setp.gt.u32 %p2, %r1, 0; @%p2 bra J; add.u32 %r2, %r2, 1000;
    J: add.u32 %r4, %r2, %r1; setp.lt.u32 %p3, %r4, 90; @%p3 bra L;
      mad.lo.u32 %r5, %r1, NT, %t; mul.wide.u32 %d1, %r5, 4; add.s64 %d1, %d1, %out;
      st.global.u32 [%d1], %r2; ret;""".replace("NT", str(threads(block)))
    )

    def one(cta: int, thread: int) -> int:
        r = 0
        while True:
            r += 1
            if thread % 2:
                r += (10, 50, 30)[cta]
            elif cta == 0:
                r += 1000
            if r + cta >= 90:
                return r

    expected = np.array([one(c, int(t)) for c in range(3) for t in numbers(block)], U32)
    check(text, block, [np.zeros_like(expected)], [expected], grid=(3, 1, 1))


@pytest.mark.parametrize("block", SHAPES)
def test_nested_loops_left_in_three_ways(block: Block) -> None:
    """Inner loops left by break, by the end, and right out of both loops; some threads return inside."""
    text = entry("""
      st.global.u32 [%wide], 999; mov.u32 %r1, 0; mov.u32 %r2, 0; and.b32 %r9, %t, 15;
    OUTER: setp.ge.u32 %p1, %r1, 6; @%p1 bra END; mov.u32 %r3, 0;
    INNER: add.u32 %r2, %r2, %r3; add.u32 %r4, %r3, %r1;
      setp.eq.u32 %p2, %r4, %r9; @%p2 bra BREAK;
      setp.gt.u32 %p3, %r2, 60; @%p3 bra OUT;
      add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 5; @%p4 bra INNER;
      add.u32 %r2, %r2, 1;
    BREAK: mad.lo.u32 %r5, %r1, 16, %r3; setp.eq.u32 %p5, %r5, %t; @%p5 ret;
      add.u32 %r1, %r1, 1; bra OUTER;
    OUT: mad.lo.u32 %r2, %r1, 1000, %r2; add.u32 %r2, %r2, %r3;
    END: st.global.u32 [%wide], %r2; ret;""")

    def one(thread: int) -> int:
        r2 = 0
        for r1 in range(6):
            r3 = 0
            while True:
                r2 += r3
                if r3 + r1 == thread & 15:
                    break
                if r2 > 60:
                    return r1 * 1000 + r2 + r3
                r3 += 1
                if r3 >= 5:
                    r2 += 1
                    break
            if r1 * 16 + r3 == thread:
                return 999
        return r2

    check(text, block, [empty(block)], [np.array([one(int(t)) for t in numbers(block)], U32)])


@pytest.mark.parametrize("block", SHAPES)
def test_neighbours_with_signed_and_unsigned_indices(block: Block) -> None:
    n = threads(block)
    source = np.arange(1000, 1000 + n + 2, dtype=U32)
    text = entry(
        """
      ld.param.u64 %d1, [src]; mov.u32 %r1, 7; setp.ge.u32 %p1, %t, 1;
      sub.u32 %r2, %t, 1; mul.wide.u32 %d2, %r2, 4; add.s64 %d2, %d1, %d2; @%p1 ld.global.u32 %r1, [%d2];
      mov.u32 %r3, 9; add.s32 %r4, %t, -1; mul.wide.s32 %d3, %r4, 4; add.s64 %d3, %d1, %d3;
      @%p1 ld.global.u32 %r3, [%d3];
      @!%p1 st.global.u32 [%wide], 77; add.u32 %r5, %r1, %r3;
      add.u32 %r6, %x, 1; mul.wide.s32 %d4, %r6, 4; add.s64 %d4, %d4, %d1; ld.global.u32 %r7, [%d4];
      add.u32 %r5, %r5, %r7; @%p1 st.global.u32 [%wide], %r5; ret;""",
        ".param .u64 out, .param .u64 src",
    )
    t = numbers(block)
    expected = np.where(t >= 1, (t + U32(999)) * U32(2) + t % U32(block[0]) + U32(1001), U32(77)).astype(U32)
    check(text, block, [empty(block), source], [expected])


def test_guards_on_every_kind_of_instruction() -> None:
    """A register keeps its value where the guard is false; memory and services are left alone."""
    block: Block = (48, 1, 1)
    t = numbers(block)
    odd = (t & 1).astype(bool)
    text = entry(
        """
      ld.param.u64 %d1, [src]; and.b32 %r1, %t, 1; setp.ne.u32 %p1, %r1, 0; add.u64 %d2, %d1, %wide; sub.u64 %d2, %d2, %out;
      mov.u32 %r2, 11; mov.u32 %r3, 12; mov.u32 %r4, 13; mov.u32 %r5, 14; mov.u32 %r6, 15; mov.u32 %r7, 16;
      setp.eq.u32 %p2, %t, 5; mov.f32 %f1, 0f3F800000; mov.u64 %d5, 17; mov.u32 %r20, 1; mov.u32 %r21, 2;
      @%p1 mad.lo.u32 %r2, %t, 3, 1;
      @!%p1 ld.global.u32 %r3, [%d2];
      @%p1 atom.global.add.u32 %r4, [%d2], 100;
      @%p1 shfl.sync.idx.b32 %r5, %t, 1, 31, -1;
      @!%p1 selp.u32 %r6, 1, 2, %p1;
      @%p1 cvt.rn.f32.u32 %f1, %t;
      @%p1 setp.gt.u32 %p2, %t, 20;
      @!%p1 mul.wide.u32 %d5, %t, %t;
      @%p1 vote.sync.ballot.b32 %r7, %p1, -1;
      @%p1 ld.global.v2.u32 {%r20, %r21}, [%d1];
      @!%p1 red.global.add.u32 [%d1+192], 1;
      @%p1 st.global.u32 [%d2+200], %t;
      cvt.rzi.u32.f32 %r8, %f1; cvt.u32.u64 %r9, %d5; selp.u32 %r10, 64, 0, %p2;
      add.u32 %r11, %r2, %r3; add.u32 %r11, %r11, %r4; add.u32 %r11, %r11, %r5; add.u32 %r11, %r11, %r6;
      add.u32 %r11, %r11, %r7; add.u32 %r11, %r11, %r8; add.u32 %r11, %r11, %r9; add.u32 %r11, %r11, %r10;
      add.u32 %r11, %r11, %r20; add.u32 %r11, %r11, %r21;
      st.global.u32 [%wide], %r11; ret;""",
        ".param .u64 out, .param .u64 src",
    )
    source = np.arange(500, 600, dtype=U32)
    first = np.where(odd, t * 3 + 1, 11) + np.where(odd, 12, t + 500) + np.where(odd, t + 500, 13)
    second = (
        np.where(odd, t // 32 * 32 + 1, 14)
        + np.where(odd, 15, 2)
        + np.where(odd, np.where(t < 32, 0xAAAAAAAA, 0xAAAA), 16)
    )
    third = np.where(odd, t, 1) + np.where(odd, 17, t * t) + np.where(np.where(odd, t > 20, t == 5), 64, 0)
    # %r20 and %r21: the first pair of the array; its second element may have been added to by then.
    pair = np.where(odd, 500 + 601, 3)
    after = source.copy()
    after[:48][odd] += 100
    after[48] += 24
    after[50:98][odd] = t[odd]
    check(text, block, [empty(block), source], [(first + second + third + pair).astype(U32), after])


def test_recursion_and_indirect_calls() -> None:
    before = """
    .func (.param .b32 o) fib (.param .b32 n)
    { .reg .b32 %n, %a, %b, %m; .reg .pred %p; ld.param.u32 %n, [n];
      setp.lt.u32 %p, %n, 2; @%p bra D;
      sub.u32 %m, %n, 1; { .param .b32 i; .param .b32 r; st.param.b32 [i], %m; call (r), fib, (i); ld.param.b32 %a, [r]; }
      sub.u32 %m, %n, 2; { .param .b32 i; .param .b32 r; st.param.b32 [i], %m; call (r), fib, (i); ld.param.b32 %b, [r]; }
      add.u32 %n, %a, %b;
    D: st.param.b32 [o], %n; ret; }
    .func (.param .b32 o) twice (.param .b32 n)
    { .reg .b32 %n; ld.param.u32 %n, [n]; shl.b32 %n, %n, 1; st.param.b32 [o], %n; ret; }
    .func (.param .b32 o) square (.param .b32 n)
    { .reg .b32 %n; .local .b32 a[4]; .reg .b64 %l; ld.param.u32 %n, [n]; mov.u64 %l, a; st.local.u32 [%l+4], %n;
      mul.lo.u32 %n, %n, %n; st.local.u32 [%l], %n; ld.local.u32 %n, [a]; st.param.b32 [o], %n; ret; }
    """
    text = entry(
        """
      mov.u64 %d1, twice; mov.u64 %d2, square; mov.u64 %d3, fib;
      rem.u32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 1; setp.eq.u32 %p2, %r1, 2; selp.b64 %d1, %d2, %d1, %p1; selp.b64 %d1, %d3, %d1, %p2;
      and.b32 %r2, %t, 15; setp.eq.u32 %p3, %t, 7; mov.u32 %r3, 4242; @%p3 bra SKIP;
      { .param .b32 i; .param .b32 r; st.param.b32 [i], %r2;
      proto: .callprototype (.param .b32 _) _ (.param .b32 _);
      call (r), %d1, (i), proto; ld.param.b32 %r3, [r]; }
      setp.gt.u32 %p4, %t, 20; @!%p4 bra SKIP;
      { .param .b32 i; .param .b32 r; st.param.b32 [i], %r1; call (r), fib, (i); ld.param.b32 %r4, [r]; }
      mad.lo.u32 %r3, %r4, 10000, %r3;
    SKIP: st.global.u32 [%wide], %r3; ret;""",
        before=before,
    )

    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def one(t: int) -> int:
        if t == 7:
            return 4242
        n = t & 15
        return (2 * n, n * n, fib(n))[t % 3] + (fib(t % 3) * 10000 if t > 20 else 0)

    for block in ((32, 1, 1), (50, 1, 1)):
        check(text, block, [empty(block)], [np.array([one(t) for t in range(threads(block))], U32)])


def test_services_are_called_for_the_right_threads() -> None:
    before = """
    .extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
    .extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);
    """
    text = entry(
        """
      mov.u32 %r1, 5; and.b32 %r2, %t, 7; setp.ne.u32 %p1, %r2, 3; @%p1 bra SKIP;
      { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], 4660; cvt.u64.u32 %d1, %t; st.param.b64 [a], %d1;
      call (r), vprintf, (f, a); ld.param.b32 %r1, [r]; }
    SKIP: st.global.u32 [%wide], %r1; ret;""",
        before=before,
    )
    block: Block = (40, 1, 1)
    here = numbers(block) % 8 == 3
    for way in WAYS:
        (out,), calls = run(text, block, [empty(block)], way)
        np.testing.assert_array_equal(out, np.where(here, 0, 5))
        assert [(name, thread, a[:2]) for name, thread, a in calls] == [
            ("vprintf", int(t), (4660, int(t))) for t in np.nonzero(here)[0]
        ]


@pytest.mark.parametrize("block", [(32, 1, 1), (48, 1, 1), (256, 1, 1)])
def test_arrivals_at_a_barrier_object_and_waiting_for_it(block: Block) -> None:
    """All threads arrive at one word, wait for the phase, and read what another warp wrote; twice."""
    text = entry("""
      .shared .align 8 .b64 object; .shared .align 4 .b32 tile[256];
      mov.u32 %r9, %ntid.x; setp.ne.u32 %p1, %x, 0; @%p1 bra ready; mbarrier.init.shared.b64 [object], %r9;
    ready:
      bar.sync 0; mov.u32 %r1, tile; shl.b32 %r2, %x, 2; add.u32 %r2, %r1, %r2;
      add.u32 %r3, %x, 1; setp.eq.u32 %p1, %r3, %r9; selp.b32 %r3, 0, %r3, %p1; shl.b32 %r3, %r3, 2; add.u32 %r3, %r1, %r3;
      mul.lo.u32 %r4, %x, 3; st.shared.u32 [%r2], %r4; mbarrier.arrive.shared.b64 %d1, [object];
    first: mbarrier.test_wait.shared.b64 %p2, [object], %d1; @!%p2 bra first;
      ld.shared.u32 %r5, [%r3]; mbarrier.arrive.shared.b64 %d2, [object];
    second: mbarrier.test_wait.shared.b64 %p3, [object], %d2; @!%p3 bra second;
      add.u32 %r5, %r5, 1000; st.shared.u32 [%r2], %r5; mbarrier.arrive.shared.b64 %d1, [object];
    third: mbarrier.test_wait.shared.b64 %p2, [object], %d1; @!%p2 bra third;
      ld.shared.u32 %r6, [%r3]; st.global.u32 [%wide], %r6; ret;""")
    t = numbers(block)
    expected = np.roll(t, -2) * np.uint32(3) + np.uint32(1000)
    check(text, block, [np.zeros_like(t)], [expected.astype(np.uint32)])
