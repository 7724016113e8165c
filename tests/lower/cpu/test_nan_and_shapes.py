"""NVIDIA's canonical NaN through every path by which a value can be looked at; and shapes that once went wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.cpu.kernels import WAYS, Array, Block, check, entry, threads

U32 = np.uint32
NAN = 0x7FFFFFFF
OWN = 0xFF812345  # a NaN of the program's own, which moves must not change
FEW = (WAYS[0], WAYS[1], WAYS[2], WAYS[4], WAYS[5])

# Each puts the bits of a NaN made by arithmetic (%f1 = inf - inf, lazily) into %r1.
LOOKS = {
    "store": "mov.b32 %r1, %f1;",
    "register pair": "mov.b64 %d1, {%f1, %f1}; shr.u64 %d1, %d1, 32; cvt.u32.u64 %r1, %d1;",
    "bit operation": "mov.b32 %r2, %f1; and.b32 %r1, %r2, 0xFFFFFFFF;",
    "shuffle": "mov.b32 %r2, %f1; shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;",
    "shuffle of a float": "shfl.sync.idx.b32 %f2, %f1, 3, 31, -1; mov.b32 %r1, %f2;",
    "select": "setp.eq.u32 %p1, %t, %t; selp.f32 %f2, %f1, 0f00000000, %p1; mov.b32 %r1, %f2;",
    "guard": "setp.lt.u32 %p1, %t, 99999; mov.f32 %f2, 0f3F800000; @%p1 add.rn.f32 %f2, %f1, %f0; mov.b32 %r1, %f2;",
    "guard that fails": "setp.gt.u32 %p1, %t, 99999; @%p1 mov.f32 %f1, 0f3F800000; mov.b32 %r1, %f1;",
    "phi": "setp.gt.u32 %p1, %lane, 3; mov.f32 %f2, %f1; @%p1 bra A; add.rn.f32 %f2, %f1, %f1; A: mov.b32 %r1, %f2;",
    "loop": "mov.u32 %r3, 0; mov.f32 %f2, 0f00000000; L: fma.rn.f32 %f2, %f2, %f0, %f1; add.u32 %r3, %r3, 1; "
    "setp.lt.u32 %p1, %r3, 4; @%p1 bra L; mov.b32 %r1, %f2;",
    "divergent loop": "and.b32 %r3, %t, 3; mov.f32 %f2, 0f00000000; L: fma.rn.f32 %f2, %f2, %f0, %f1; "
    "setp.eq.u32 %p1, %r3, 0; sub.u32 %r3, %r3, 1; @!%p1 bra L; mov.b32 %r1, %f2;",
    "barrier": "bar.sync 0; mov.b32 %r1, %f1;",
    "barrier and phi": "setp.gt.u32 %p1, %t, 3; mov.f32 %f2, %f1; @%p1 bra A; mul.rn.f32 %f2, %f1, %f1; A: bar.sync 0; mov.b32 %r1, %f2;",
    "minimum": "min.f32 %f2, %f1, %f1; mov.b32 %r1, %f2;",
    "local memory": "st.local.f32 [arr], %f1; ld.local.u32 %r1, [arr];",
    "vector store": "st.local.v2.f32 [arr], {%f0, %f1}; ld.local.u32 %r1, [arr+4];",
    "match": "mov.b32 %r2, %f1; mov.u32 %r3, 0x7FFFFFFF; match.any.sync.b32 %r4, %r2, -1; xor.b32 %r1, %r2, 0;",
    "call": "{ .param .b32 i; .param .b32 r; st.param.f32 [i], %f1; call (r), same, (i); ld.param.b32 %r1, [r]; }",
    "conversion": "cvt.f64.f32 %g1, %f1; cvt.rn.f32.f64 %f2, %g1; mov.b32 %r1, %f2;",
    "division": "div.rn.f32 %f2, %f1, %f0; mov.b32 %r1, %f2;",
    "atomic": "mov.b32 %r5, 0; st.shared.b32 [sh], 0; bar.sync 0; atom.shared.exch.b32 %r2, [sh], %f1; ld.shared.b32 %r1, [sh];",
}  # fmt: skip


@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("name", LOOKS)
def test_nan_is_canonical_wherever_it_is_looked_at(name: str, uniform: bool) -> None:
    block: Block = (64, 1, 1)
    made = "mov.f32 %f1, 0f7F800000;" if uniform else "cvt.rn.f32.u32 %f1, %t; fma.rn.f32 %f1, %f1, %f0, 0f7F800000;"
    text = entry(
        f"ld.param.u64 %d9, [out]; mov.f32 %f0, 0f3F800000; {made} sub.rn.f32 %f1, %f1, 0f7F800000; mul.rn.f32 %f1, %f1, 0fBF800000;"
        f"{LOOKS[name]} st.global.u32 [%wide], %r1; ret;",
        variables=".local .align 8 .b32 arr[2]; .shared .align 4 .b32 sh;",
        before=".func (.param .b32 o) same (.param .b32 i) { .reg .b32 %r; ld.param.b32 %r, [i]; st.param.b32 [o], %r; ret; }",
    )
    check(text, block, [np.zeros(64, U32)], [np.full(64, NAN, U32)], ways=FEW)


# Paths on which a loaded NaN (%f1) meets arithmetic but is not touched by it where %p1 holds (even threads).
OWN_BITS = {
    "phi": "mov.f32 %f2, %f1; @%p1 bra A; add.rn.f32 %f2, %f0, %f0; A:",
    "phi of the other kind": "add.rn.f32 %f2, %f0, %f1; @!%p1 bra A; mov.f32 %f2, %f1; A:",
    "guard": "mov.f32 %f2, %f1; @!%p1 add.rn.f32 %f2, %f0, %f0;",
    "guarded move": "add.rn.f32 %f2, %f0, %f0; @%p1 mov.f32 %f2, %f1;",
    "guarded load": "add.rn.f32 %f2, %f0, %f0; @%p1 ld.global.f32 %f2, [%d1];",
    "loop that some skip": "selp.u32 %r3, 0, 2, %p1; mov.f32 %f2, %f1; L: setp.eq.u32 %p2, %r3, 0; @%p2 bra E; "
    "add.rn.f32 %f2, %f2, %f0; sub.u32 %r3, %r3, 1; bra L; E:",
    "barrier": "mov.f32 %f2, %f1; @%p1 bra A; add.rn.f32 %f2, %f0, %f1; A: bar.sync 0;",
    "select": "add.rn.f32 %f3, %f0, %f1; selp.f32 %f2, %f1, %f3, %p1;",
}  # fmt: skip


@pytest.mark.parametrize("name", OWN_BITS)
def test_moves_keep_the_bits_of_a_nan(name: str) -> None:
    block: Block = (48, 1, 1)
    text = entry(
        f"""ld.param.u64 %d1, [src]; ld.global.f32 %f1, [%d1]; and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 0; mov.f32 %f0, 0f3F800000;
        {OWN_BITS[name]} st.global.f32 [%wide], %f2; ret;""",
        ".param .u64 out, .param .u64 src",
    )
    arithmetic = 0x40000000 if "%f0, %f0" in OWN_BITS[name] else NAN
    expected = np.where(np.arange(48) % 2 == 0, OWN, arithmetic).astype(U32)
    check(text, block, [np.zeros(48, U32), np.array([OWN], U32)], [expected], ways=FEW)


def minus(t: Array, x: Array, y: Array) -> Array:
    return x * U32(0xFFFFFFFF)


SHAPE_RULES: dict[str, tuple[Block, str, object]] = {
    "constant shifted as a signed number": (
        (64, 1, 1), "mov.u32 %r1, 0xFFFFFFFF; shr.s32 %r2, %r1, 28; mul.lo.s32 %r3, %x, %r2;", minus),
    "immediate shifted": ((64, 1, 1), "shr.s32 %r2, 0xFFFFFFFF, 28; mul.lo.s32 %r3, %x, %r2;", minus),
    "least of constants": (
        (64, 1, 1), "mov.u32 %r1, 0xFFFFFFFF; min.s32 %r2, %r1, 5; mul.lo.s32 %r3, %x, %r2;", minus),
    "greatest of constants": ((64, 1, 1), "mov.s32 %r1, -1; max.u32 %r2, %r1, 5; mul.lo.s32 %r3, %x, %r2;", minus),
    "unsigned bound": (
        (64, 1, 1),
        ("mov.u32 %r1, %ctaid.x; sub.u32 %r1, %r1, 1; max.u32 %r1, %r1, 3; add.u32 %r2, %r1, %x; cvt.u64.u32 %d1, %r2; "
        "shr.u64 %d1, %d1, 4; cvt.u32.u64 %r3, %d1;"),
        lambda t, x, y: (x + U32(0xFFFFFFFF)) >> 4),
    "row times a special register": (
        (16, 16, 1), "mul.lo.u32 %r3, %y, %nctaid.x; mad.lo.u32 %r3, %y, %ntid.y, %r3;", lambda t, x, y: y * 17),
    "row times an unsigned -1": (
        (16, 16, 1), "mov.s32 %r2, -1; mul.wide.u32 %d1, %y, %r2; shr.u64 %d1, %d1, 16; cvt.u32.u64 %r3, %d1;",
        lambda t, x, y: (y.astype(np.uint64) * 0xFFFFFFFF >> 16)),
    "row times row": ((8, 8, 1), "add.u32 %r1, %y, 1; mad.lo.u32 %r3, %r1, %y, %y;", lambda t, x, y: (y + 1) * y + y),
    "16 bits": (
        (64, 1, 1), "cvt.u16.u32 %h1, %t; sub.u16 %h2, %h1, 3; mul.wide.u16 %r1, %h2, 3; mul.wide.s16 %r2, %h2, 3; add.u32 %r3, %r1, %r2;",
        lambda t, x, y: (t.astype(np.uint16) - np.uint16(3)) * U32(3)
        + ((t.astype(np.uint16) - np.uint16(3)).view(np.int16).astype(np.int32) * 3).view(U32)),
    "difference of lanes": ((64, 1, 1), "sub.u32 %r1, 31, %lane; sub.u32 %r2, %t, %r1; add.u32 %r3, %r2, %r2;",
                            lambda t, x, y: (t - (U32(31) - t % 32)) * U32(2)),
    "comparison of a counting value": (
        (64, 1, 1),
        ("sub.u32 %r1, %t, 5; setp.lt.s32 %p1, %r1, 20; setp.lt.u32 %p2, %r1, 20; setp.ge.u32 %p3, 40, %t; setp.gt.s32 %p4, -1, %t; "
        "selp.u32 %r3, 1, 0, %p1; @%p2 add.u32 %r3, %r3, 2; @%p3 add.u32 %r3, %r3, 4; @%p4 add.u32 %r3, %r3, 8;"),
        lambda t, x, y: (t.astype(np.int64) - 5 < 20) * 1 + ((t - U32(5)) < 20) * 2 + (t <= 40) * 4),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPE_RULES)
def test_shape_rules(name: str) -> None:
    block, body, expected = SHAPE_RULES[name]
    t = np.arange(threads(block), dtype=U32)
    with np.errstate(all="ignore"):
        wanted = expected(t, t % block[0], t // block[0])  # type: ignore[operator]
    check(entry(body + "st.global.u32 [%wide], %r3; ret;"), block, [np.zeros_like(t)], [wanted.astype(U32)], ways=FEW)
