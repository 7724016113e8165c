"""Warp operations under divergence, barriers of every kind, what lives across them, spin loops, atomics."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.cpu.kernels import WAYS, Array, Block, Way, check, entry, threads

U32 = np.uint32
SHAPES: list[Block] = [(32, 1, 1), (33, 1, 1), (100, 1, 1), (16, 16, 1), (5, 7, 3), (64, 2, 1)]
LAST = (*WAYS, Way("step generic", specialised=False, general=True, alone=False))


def numbers(block: Block) -> Array:
    return np.arange(threads(block), dtype=U32)


def empty(block: Block) -> Array:
    return np.zeros(threads(block), U32)


@pytest.mark.parametrize("block", SHAPES)
def test_warp_operations_with_partial_masks_in_both_branches(block: Block) -> None:
    text = entry("""
      and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 1; mad.lo.u32 %r2, %t, 17, 5; and.b32 %r3, %r2, 6;
      @%p1 bra ONE;
      activemask.b32 %r4; setp.gt.u32 %p2, %r3, 2;
      vote.sync.ballot.b32 %r5, %p2, %r4; vote.sync.any.pred %p3, %p2, %r4; vote.sync.all.pred %p4, %p2, %r4;
      redux.sync.max.u32 %r6, %r2, %r4; match.any.sync.b32 %r7, %r3, %r4; mov.u32 %r8, 3; bra JOIN;
    ONE: activemask.b32 %r4; shfl.sync.idx.b32 %r5, %r2, 5, 31, %r4; shfl.sync.bfly.b32 %r6|%p3, %r2, 4, 31, %r4;
      redux.sync.add.s32 %r7, %t, %r4; match.all.sync.b32 %r8|%p4, %r1, %r4;
    JOIN: selp.u32 %r9, 1, 0, %p3; selp.u32 %r10, 2, 0, %p4; mov.u32 %r11, %r4;
      mad.lo.u32 %r11, %r11, 31, %r5; mad.lo.u32 %r11, %r11, 31, %r6; mad.lo.u32 %r11, %r11, 31, %r7;
      mad.lo.u32 %r11, %r11, 31, %r8; mad.lo.u32 %r11, %r11, 31, %r9; mad.lo.u32 %r11, %r11, 31, %r10;
      st.global.u32 [%wide], %r11; ret;""")
    t = numbers(block)
    expected = np.zeros_like(t)
    for start in range(0, len(t), 32):
        warp = [int(v) for v in t[start : start + 32]]
        for branch in (False, True):
            lanes = [lane for lane, v in enumerate(warp) if (v & 3 == 1) == branch]
            if not lanes:
                continue
            mask = sum(1 << lane for lane in lanes)
            r2 = {lane: warp[lane] * 17 + 5 for lane in range(len(warp))}
            for lane in lanes:
                if branch:
                    r5 = r2.get(5, 0) if 5 in lanes else None
                    r6 = r2[lane ^ 4] if lane ^ 4 in lanes else None
                    p3, p4, r7, r8 = True, True, sum(warp[k] for k in lanes), mask
                    if r5 is None or r6 is None:
                        continue
                else:
                    r3 = {k: r2[k] & 6 for k in lanes}
                    r5 = sum(1 << k for k in lanes if r3[k] > 2)
                    p3, p4 = r5 != 0, r5 == mask
                    r6 = max(r2[k] for k in lanes)
                    r7, r8 = sum(1 << k for k in lanes if r3[k] == r3[lane]), 3
                value = mask
                for part in (r5, r6, r7, r8, int(p3), 2 * int(p4)):
                    value = value * 31 + part
                expected[start + lane] = value & 0xFFFFFFFF
    # Lanes that shuffled from a lane outside the mask have no defined value.
    for way in LAST:
        from tests.lower.cpu.kernels import run

        (out,), _ = run(text, block, [empty(block)], way)
        np.testing.assert_array_equal(np.where(expected == 0, 0, out), expected, err_msg=way.name)


@pytest.mark.parametrize("block", [(32, 1, 1), (40, 1, 1), (16, 16, 1), (64, 2, 1)])
def test_tiles_with_a_mask_each(block: Block) -> None:
    text = entry("""
      and.b32 %r1, %lane, 24; mov.u32 %r2, 255; shl.b32 %r2, %r2, %r1; and.b32 %r3, %t, 5; setp.eq.u32 %p1, %r3, 4;
      vote.sync.ballot.b32 %r4, %p1, %r2; redux.sync.or.b32 %r5, %r3, %r2; vote.sync.any.pred %p2, %p1, %r2;
      selp.u32 %r6, 64, 0, %p2; mad.lo.u32 %r7, %r4, 8, %r5; add.u32 %r7, %r7, %r6; st.global.u32 [%wide], %r7; ret;""")
    t = numbers(block)
    expected = []
    for thread in t:
        tile = [int(thread) // 8 * 8 + k for k in range(8)]
        ballot = sum(1 << v % 32 for v in tile if v & 5 == 4)
        expected.append(ballot * 8 + (tile[0] & 5 | tile[1] & 5 | tile[4] & 5 | tile[5] & 5) + (64 if ballot else 0))
    check(text, block, [empty(block)], [np.array(expected).astype(U32)], ways=LAST)


@pytest.mark.parametrize("block", SHAPES)
def test_values_of_all_types_and_shapes_live_across_barriers(block: Block) -> None:
    """Uniform, affine, segmented and vector values; predicates, 16, 32, 64 and 128 bits; in a loop and under divergence."""
    text = entry(
        """
      ld.param.u64 %d1, [src]; ld.global.u32 %r1, [%d1]; setp.gt.u32 %p1, %r1, 3; mul.lo.u32 %r2, %t, %t;
      setp.lt.u32 %p2, %r2, 300; cvt.u16.u32 %h1, %r2; cvt.u16.u32 %h2, %r1; mul.wide.u32 %d2, %y, 12; mul.wide.u32 %d3, %t, %r2;
      mul.lo.u32 %r3, %y, %y; mov.b128 %q1, {%d2, %d3}; mov.b128 %q2, {%d1, %d1}; add.u32 %r4, %x, 4; mov.u32 %r5, 0; mov.u32 %r6, 0;
      shl.b32 %r20, %t, 2; mov.u32 %r21, sh; add.u32 %r20, %r20, %r21;
    LOOP: st.shared.u32 [%r20], %r5; bar.sync 0;
      xor.b32 %r22, %t, 1; min.u32 %r22, %r22, LAST; shl.b32 %r22, %r22, 2; add.u32 %r22, %r22, %r21;
      ld.shared.u32 %r7, [%r22]; bar.sync 0;
      add.u32 %r5, %r5, %r7; add.u32 %r5, %r5, %r4; add.u32 %r5, %r5, %r3; add.u32 %r6, %r6, 1;
      @%p2 add.u32 %r5, %r5, 7; @%p1 add.u32 %r5, %r5, 9; setp.lt.u32 %p3, %r6, %r1; @%p3 bra LOOP;
      @%p2 bra SOME; bra DONE;
    SOME: add.u32 %r5, %r5, 1000; barrier.sync 1; mov.b128 {%d4, %d5}, %q1; cvt.u32.u64 %r8, %d5; add.u32 %r5, %r5, %r8;
      cvt.u32.u16 %r9, %h1; add.u32 %r5, %r5, %r9; bra DONE2;
    DONE: barrier.sync 1;
    DONE2: mov.b128 {%d6, %d7}, %q2; sub.u64 %d6, %d6, %d1; cvt.u32.u64 %r10, %d6; cvt.u32.u16 %r11, %h2; mov.b128 {%d4, %d5}, %q1;
      cvt.u32.u64 %r12, %d4; add.u32 %r5, %r5, %r10; add.u32 %r5, %r5, %r11; add.u32 %r5, %r5, %r12;
      st.global.u32 [%wide], %r5; ret;""".replace("LAST", str(threads(block) - 1)),
        ".param .u64 out, .param .u64 src",
        variables=f".shared .align 4 .b32 sh[{threads(block)}];",
    )
    t = numbers(block).astype(np.int64)
    x, y = t % block[0], t // block[0] % block[1]
    r5 = np.zeros_like(t)
    few = t * t < 300
    for _ in range(5):
        r5 = r5 + r5[np.minimum(t ^ 1, len(t) - 1)] + x + 4 + y * y + 7 * few + 9
    r5 = r5 + np.where(few, 1000 + t * t * t + t * t, 0) + 5 + 12 * y
    # Lanes of one warp at two barriers one after the other: each warp arrives twice; that is a matter of warps, so only
    # blocks whose warps all have both kinds or none are checked with it.
    mixed = [few[w : w + 32] for w in range(0, len(t), 32)]
    if len({(bool(m.any()), bool((~m).any())) for m in mixed}) > 1:
        text = text.replace("barrier.sync 1;", "")
    check(text, block, [empty(block), np.array([5], U32)], [r5.astype(U32)], ways=LAST)


@pytest.mark.parametrize("block", [(64, 1, 1), (128, 1, 1), (96, 1, 1), (100, 1, 1)])
def test_barrier_reductions(block: Block) -> None:
    text = entry("""
      and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 2; setp.lt.u32 %p2, %t, 1000; setp.eq.u32 %p3, %t, 70;
      barrier.red.popc.u32 %r2, 0, %p1; barrier.red.and.pred %p4, 0, %p2; barrier.red.or.pred %p5, 0, %p3;
      barrier.red.and.pred %p6, 0, !%p3; bar.red.popc.u32 %r3, 1, !%p1;
      selp.u32 %r4, 1, 0, %p4; selp.u32 %r5, 2, 0, %p5; selp.u32 %r6, 4, 0, %p6; mad.lo.u32 %r7, %r2, 1000, %r3;
      shl.b32 %r7, %r7, 3; add.u32 %r7, %r7, %r4; add.u32 %r7, %r7, %r5; add.u32 %r7, %r7, %r6; st.global.u32 [%wide], %r7; ret;""")
    t = numbers(block)
    ones, any3 = int((t & 3 == 2).sum()), bool((t == 70).any())
    value = (ones * 1000 + len(t) - ones) * 8 + 1 + 2 * any3 + 4 * (not any3)
    check(text, block, [empty(block)], [np.full(len(t), value, U32)], ways=LAST)


def test_guarded_barrier_reduction_keeps_the_register() -> None:
    block: Block = (64, 1, 1)
    text = entry("""
      mov.u32 %r2, 123; setp.lt.u32 %p1, %t, 32; setp.ne.u32 %p2, %t, 3;
      @%p1 barrier.red.popc.u32 %r2, 1, 32, %p2; st.global.u32 [%wide], %r2; ret;""")
    check(text, block, [empty(block)], [np.where(numbers(block) < 32, 31, 123).astype(U32)], ways=LAST)


def test_producers_and_consumers_with_named_barriers() -> None:
    """Two warps fill a buffer, two others take it; barriers 1 (full) and 2 (free) with counts and arrivals."""
    text = entry(
        """
      mov.u32 %r1, 0; mov.u32 %r2, 0; shl.b32 %r3, %t, 2; and.b32 %r3, %r3, 255; mov.u32 %r4, sh; add.u32 %r3, %r3, %r4;
      setp.ge.u32 %p1, %t, 64; @%p1 bra TAKE;
    FILL: setp.eq.u32 %p2, %r1, 0; @%p2 bra FIRST; barrier.sync 2, 128;
    FIRST: mad.lo.u32 %r5, %t, 3, %r1; st.shared.u32 [%r3], %r5; bar.arrive 1, 128;
      add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 6; @%p3 bra FILL; bra END;
    TAKE: barrier.sync 1, 128; ld.shared.u32 %r5, [%r3]; mad.lo.u32 %r2, %r2, 7, %r5;
      add.u32 %r1, %r1, 1; setp.lt.u32 %p4, %r1, 6; @!%p4 bra END; barrier.arrive 2, 128; bra TAKE;
    END: st.global.u32 [%wide], %r2; ret;""",
        variables=".shared .align 4 .b32 sh[64];",
    )
    block: Block = (128, 1, 1)
    t = numbers(block)
    total = np.zeros_like(t)
    for round_number in range(6):
        total = total * U32(7) + (t - U32(64)) * U32(3) + U32(round_number)
    check(text, block, [empty(block)], [np.where(t < 64, 0, total).astype(U32)], ways=LAST)


@pytest.mark.parametrize("block", [(32, 1, 1), (40, 1, 1), (96, 1, 1)])
def test_lock_taken_by_every_lane_in_turn(block: Block) -> None:
    """A spin lock around a critical section; what was voted and counted before and after it stays each lane's own."""
    text = entry(
        """
      ld.param.u64 %d1, [lock]; and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 1; mov.u32 %r9, 0;
    TRY: activemask.b32 %r10; vote.sync.ballot.b32 %r11, %p1, %r10; add.u32 %r9, %r9, 1;
      atom.acquire.gpu.global.cas.b32 %r2, [%d1], 0, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra TRY;
      ld.volatile.global.u32 %r3, [%d1+4]; mad.lo.u32 %r3, %r3, 1, %t; st.volatile.global.u32 [%d1+4], %r3;
      activemask.b32 %r12; popc.b32 %r13, %r12; ld.volatile.global.u32 %r4, [%d1+8]; add.u32 %r4, %r4, 1;
      st.volatile.global.u32 [%d1+8], %r4; membar.gl; atom.release.gpu.global.exch.b32 %r5, [%d1], 0;
      // this lane was active where it took its mask, and odd lanes only were counted
      shr.u32 %r14, %r10, %lane; and.b32 %r14, %r14, 1; and.b32 %r15, %r11, 0x55555555; and.b32 %r16, %r11, %r10;
      sub.u32 %r16, %r16, %r11; shr.u32 %r17, %r12, %lane; and.b32 %r17, %r17, 1;
      shr.u32 %r18, %r11, %lane; and.b32 %r18, %r18, 1; xor.b32 %r18, %r18, %r1;
      bar.sync 0; ld.volatile.global.u32 %r20, [%d1+4]; add.u32 %r20, %r20, %r13;
      mad.lo.u32 %r20, %r14, 10000, %r20; mad.lo.u32 %r20, %r17, 100000, %r20; add.u32 %r20, %r20, %r15; add.u32 %r20, %r20, %r16;
      add.u32 %r20, %r20, %r18; st.global.u32 [%wide], %r20; ret;""",
        ".param .u64 out, .param .u64 lock",
    )
    n = threads(block)
    total = n * (n - 1) // 2
    expected = np.full(n, total + 1 + 110000, U32)
    check(text, block, [empty(block), np.zeros(3, U32)], [expected, np.array([0, total, n], U32)], ways=LAST)


def test_lanes_wait_for_one_another_by_flags() -> None:
    """Lane t waits for lane t-1: lanes leave the spin loop one by one, with vote results that must not mix."""
    text = entry(
        """
      ld.param.u64 %d1, [flags]; add.u64 %d2, %d1, %wide; sub.u64 %d2, %d2, %out; setp.eq.u32 %p1, %t, 0; mov.u32 %r3, 0;
      @%p1 bra GO;
    WAIT: ld.volatile.global.u32 %r1, [%d2+-4]; setp.eq.u32 %p2, %r1, 0; @%p2 bra WAIT;
      add.u32 %r3, %r1, 3;
    GO: activemask.b32 %r4; setp.ge.u32 %p3, %t, 0; vote.sync.ballot.b32 %r5, %p3, %r4; add.u32 %r6, %r3, 1;
      st.volatile.global.u32 [%d2], %r6; sub.u32 %r7, %r5, %r4; shr.u32 %r8, %r4, %lane; and.b32 %r8, %r8, 1;
      bar.sync 0; mad.lo.u32 %r9, %r8, 1000, %r6; add.u32 %r9, %r9, %r7; st.global.u32 [%wide], %r9; ret;""",
        ".param .u64 out, .param .u64 flags",
    )
    block: Block = (70, 1, 1)
    flags = numbers(block) * 4 + 1
    check(text, block, [empty(block), np.zeros(70, U32)], [flags + U32(1000), flags], ways=LAST)


ATOMICS = [
    ("add", "u32"), ("add", "u64"), ("min", "u32"), ("min", "s32"), ("max", "u32"), ("max", "s32"), ("min", "s64"), ("max", "u64"),
    ("and", "b32"), ("or", "b32"), ("xor", "b32"), ("and", "b64"), ("xor", "b64"), ("add", "f32"), ("add", "f64"), ("inc", "u32"),
    ("dec", "u32"), ("exch", "b32"), ("cas", "b32"), ("cas", "b64"),
]  # fmt: skip


@pytest.mark.parametrize("spread", ["same", "some", "own"])
@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_atomics(space: str, spread: str) -> None:
    """All operations, with and without a result, by all or some lanes, on one place, on five, and on one for each."""
    block: Block = (72, 1, 1)
    n = 72
    places = {"same": 1, "some": 5, "own": n}[spread]
    index = {"same": "mov.u32 %r1, 0;", "some": "rem.u32 %r1, %t, 5;", "own": "mov.u32 %r1, %t;"}[spread]
    size = 8 * n * len(ATOMICS)
    lines = [
        index,
        "mul.lo.u32 %r3, %t, 37; xor.b32 %r3, %r3, 0x2a; cvt.u64.u32 %d3, %r3; cvt.rn.f32.u32 %f3, %t; cvt.f64.f32 %g3, %f3;",
    ]
    lines.append("and.b32 %r4, %t, 3; setp.ne.u32 %p1, %r4, 2; mov.u32 %r5, 0;")
    if space == "global":
        base, where = "mov.u64 %d1, %out;", ".global"
    else:
        base, where = (
            "mov.u64 %d1, sh;" + (" cvta.shared.u64 %d1, %d1;" if space == "generic" else ""),
            {"shared": ".shared"}.get(space, ""),
        )
        # Copy in first.
        lines.append(
            "mov.u32 %r20, %t;\nIN: mul.wide.u32 %d20, %r20, 8; add.u64 %d21, %out, %d20; ld.global.u64 %d22, [%d21];"
        )
        lines.append("mov.u64 %d23, sh; add.u64 %d23, %d23, %d20; st.shared.u64 [%d23], %d22;")
        lines.append(f"add.u32 %r20, %r20, {n}; setp.lt.u32 %p9, %r20, {size // 8}; @%p9 bra IN; bar.sync 0;")
    lines.append(base + "mul.wide.u32 %d2, %r1, 8; add.u64 %d1, %d1, %d2;")
    start = np.full((len(ATOMICS), n), 100, np.uint64)
    expected = start.copy()
    t = np.arange(n)
    values = (t * 37) ^ 0x2A
    for number, (name, kind) in enumerate(ATOMICS):
        wide = kind.endswith("64")
        operand = {"f32": "%f3", "f64": "%g3"}.get(kind, "%d3" if wide else "%r3")
        more = f"{'%d3' if wide else '%r3'}, {'%d3' if wide else '%r3'}" if name == "cas" else operand
        result = {"f32": "%f4", "f64": "%g4"}.get(kind, "%d4" if wide else "%r6")
        offset = 8 * n * number
        guard = "@%p1 " if number % 2 else ""
        here = t[(t & 3) != 2] if number % 2 else t
        if name == "cas":
            more = "%d5, %d3" if wide else "%r5, %r3"
            lines.append(f"mov.u{kind[1:]} {'%d5' if wide else '%r5'}, 100;")
        if name in ("exch", "cas") or number % 3 == 0:
            lines.append(f"{guard}atom{where}.{name}.{kind} {result}, [%d1+{offset}], {more};")
        else:
            lines.append(f"{guard}red{where}.{name}.{kind} [%d1+{offset}], {more};")
        for thread in here:
            place = int(thread) % places if spread == "some" else (0 if spread == "same" else int(thread))
            old, new = int(expected[number, place]), int(values[thread])
            if kind == "f32":
                old_f = np.array([old], np.uint32).view(np.float32)[0]
                if space != "shared" and abs(old_f) < 2.0**-126:
                    old_f = np.float32(0)  # outside of shared memory, subnormals are flushed
                outcome = int(np.array([old_f + np.float32(thread)], np.float32).view(np.uint32)[0])
            elif kind == "f64":
                outcome = int((np.array([old], np.uint64).view(np.float64) + float(thread)).view(np.uint64)[0])
            else:
                outcome = {
                    "add": old + new, "min": min(old, new), "max": max(old, new), "and": old & new, "or": old | new,
                    "xor": old ^ new, "inc": 0 if old >= new else old + 1, "dec": new if old == 0 or old > new else old - 1,
                    "exch": new, "cas": new if old == 100 else old,
                }[name]  # fmt: skip
            expected[number, place] = outcome
    if space != "global":
        lines.append("bar.sync 0; mov.u32 %r20, %t;\nOUT: mul.wide.u32 %d20, %r20, 8; add.u64 %d21, %out, %d20;")
        lines.append(
            "mov.u64 %d23, sh; add.u64 %d23, %d23, %d20; ld.shared.u64 %d22, [%d23]; st.global.u64 [%d21], %d22;"
        )
        lines.append(f"add.u32 %r20, %r20, {n}; setp.lt.u32 %p9, %r20, {size // 8}; @%p9 bra OUT;")
    text = entry("\n".join(lines) + "ret;", variables="" if space == "global" else f".shared .align 8 .b8 sh[{size}];")
    check(text, block, [start.reshape(-1)], [expected.reshape(-1)], ways=LAST)


@pytest.mark.parametrize("block", [(32, 1, 1), (48, 1, 1), (64, 1, 1)])
@pytest.mark.parametrize("style", ["nested", "flag", "fenced"])
def test_locks_taken_again_and_again(block: Block, style: str) -> None:
    """A lock taken three times by each thread: a loop around the spin loop, or the critical section inside of it."""
    critical = "ld.volatile.global.u32 %r3, [%d1+4]; mad.lo.u32 %r3, %r3, 1, %t; st.volatile.global.u32 [%d1+4], %r3;"
    body = {
        "nested": f"""
    AGAIN: mov.u32 %r2, 1;
    TRY: atom.global.cas.b32 %r2, [%d1], 0, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra TRY;
      {critical} atom.global.exch.b32 %r5, [%d1], 0; add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 3; @%p3 bra AGAIN;""",
        "flag": f"""
    AGAIN: mov.u32 %r7, 0;
    TRY: atom.global.cas.b32 %r2, [%d1], 0, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra NEXT;
      {critical} mov.u32 %r7, 1; atom.global.exch.b32 %r5, [%d1], 0;
    NEXT: setp.eq.u32 %p4, %r7, 0; @%p4 bra TRY; add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 3; @%p3 bra AGAIN;""",
        "fenced": f"""
    AGAIN: setp.gt.u32 %p5, %t, 1000;
    TRY: ld.acquire.gpu.global.u32 %r2, [%d1]; setp.ne.u32 %p2, %r2, 0; @%p2 bra TRY;
      atom.global.cas.b32 %r2, [%d1], 0, 1; setp.ne.u32 %p2, %r2, 0; @%p2 bra TRY;
      {critical} fence.acq_rel.gpu; st.release.gpu.global.u32 [%d1], 0; add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 3;
      @%p3 bra AGAIN; @%p5 add.u32 %r9, %r9, 5;""",
    }[style]
    text = entry(
        f"ld.param.u64 %d1, [lock]; mov.u32 %r9, 0; activemask.b32 %r30; {body} bar.sync 0; ld.volatile.global.u32 %r20, [%d1+4];"
        "add.u32 %r20, %r20, %r9; st.global.u32 [%wide], %r20; ret;",
        ".param .u64 out, .param .u64 lock",
    )
    total = 3 * threads(block) * (threads(block) - 1) // 2
    expected = np.full(threads(block), total + 3, U32)
    check(text, block, [empty(block), np.zeros(2, U32)], [expected, np.array([0, total], U32)], ways=LAST)


@pytest.mark.parametrize("block", [(64, 1, 1), (96, 1, 1), (70, 1, 1)])
def test_one_thread_waits_for_another_warp(block: Block) -> None:
    """Thread 0 spins on a flag that the last warp sets; barriers before and behind; values of all shapes stay."""
    text = entry("""
      ld.param.u64 %d1, [flag]; mul.lo.u32 %r1, %t, %t; add.u32 %r2, %x, 3; setp.ne.u32 %p1, %t, 0; setp.gt.u32 %p5, %r1, 100;
      bar.sync 0; @%p1 bra OTHERS;
    SPIN: ld.volatile.global.u32 %r3, [%d1]; setp.eq.u32 %p2, %r3, 0; @%p2 bra SPIN; st.volatile.global.u32 [%d1+4], %r3; bra MEET;
    OTHERS: setp.ne.u32 %p3, %t, NT; @%p3 bra MEET; st.volatile.global.u32 [%d1], 42;
    MEET: bar.sync 0; ld.volatile.global.u32 %r4, [%d1+4]; add.u32 %r4, %r4, %r1; add.u32 %r4, %r4, %r2; @%p5 add.u32 %r4, %r4, 1000;
      st.global.u32 [%wide], %r4; ret;""".replace("NT", str(threads(block) - 1)), ".param .u64 out, .param .u64 flag")  # fmt: skip
    t = numbers(block)
    expected = t * t + t + 3 + 42 + np.where(t * t > 100, 1000, 0)
    check(text, block, [empty(block), np.zeros(2, U32)], [expected.astype(U32), np.array([42, 42], U32)], ways=LAST)
