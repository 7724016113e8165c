"""Small PTX kernels for the tests of the AMDGPU lowering, by name."""

from __future__ import annotations

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"

VECTOR_ADD = (
    HEADER
    + """
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
    .reg .pred %p; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<11>;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r2, [n];
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p, %r1, %r2; @%p bra END;
    mul.wide.s32 %rd5, %r1, 4; add.s64 %rd6, %rd1, %rd5; add.s64 %rd8, %rd2, %rd5; add.s64 %rd10, %rd3, %rd5;
    ld.global.f32 %f1, [%rd8]; ld.f32 %f2, [%rd6]; add.f32 %f3, %f2, %f1; st.global.f32 [%rd10], %f3;
END: ret;
}
"""
)

# A loop whose body ends with a barrier behind loads of shared memory.
SHARED_SUM = (
    HEADER
    + """
.visible .entry shared_sum(.param .u64 in, .param .u64 out, .param .u32 rounds) {
    .shared .align 4 .b8 tile[256];
    .reg .pred %p; .reg .b32 %r<12>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [rounds];
    mov.u32 %r2, %tid.x; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
    mov.u32 %r3, tile; shl.b32 %r4, %r2, 2; add.u32 %r5, %r3, %r4; xor.b32 %r6, %r4, 252; add.u32 %r6, %r3, %r6;
    mov.u32 %r7, 0; mov.u32 %r8, 0;
LOOP:
    ld.global.u32 %r9, [%rd1]; st.shared.u32 [%r5], %r9; bar.sync 0;
    ld.shared.u32 %r10, [%r6]; add.u32 %r7, %r7, %r10; bar.sync 0;
    add.u32 %r8, %r8, 1; add.s64 %rd1, %rd1, 256; setp.lt.u32 %p, %r8, %r1; @%p bra LOOP;
    st.global.u32 [%rd2], %r7; ret;
}
"""
)

# A table in constant memory of the code object (`sin.approx`), a call of a recursive function.
CALLS_AND_TABLES = (
    HEADER
    + """
.func (.param .u32 result) down(.param .u32 n) {
    .reg .pred %p; .reg .b32 %r<4>;
    ld.param.u32 %r1, [n]; mov.u32 %r2, 0; setp.eq.u32 %p, %r1, 0; @%p bra END;
    sub.u32 %r3, %r1, 1;
    { .param .u32 a; .param .u32 b; st.param.u32 [a], %r3; call (b), down, (a); ld.param.u32 %r2, [b]; }
    add.u32 %r2, %r2, %r1;
END: st.param.u32 [result], %r2; ret;
}
.visible .entry calls(.param .u64 out) {
    .reg .f32 %f<3>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2;
    { .param .u32 a; .param .u32 b; st.param.u32 [a], %r1; call (b), down, (a); ld.param.u32 %r2, [b]; }
    cvt.rn.f32.u32 %f1, %r1; sin.approx.ftz.f32 %f2, %f1; st.global.u32 [%rd3], %r2; st.global.f32 [%rd3+4], %f2; ret;
}
"""
)

# A lock that lanes of a warp take from one another.
SPIN_LOCK = (
    HEADER
    + """
.visible .entry spin_lock(.param .u64 lock, .param .u64 count) {
    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [lock]; ld.param.u64 %rd2, [count];
LOOP: atom.global.cas.b32 %r1, [%rd1], 0, 1; setp.ne.u32 %p, %r1, 0; @%p bra LOOP;
    ld.volatile.global.u32 %r2, [%rd2]; add.u32 %r2, %r2, 1; st.volatile.global.u32 [%rd2], %r2;
    membar.gl; atom.global.exch.b32 %r3, [%rd1], 0; ret;
}
"""
)

KERNELS = {
    "vector_add": VECTOR_ADD,
    "shared_sum": SHARED_SUM,
    "calls": CALLS_AND_TABLES,
    "spin_lock": SPIN_LOCK,
}


def straight_kernel(count: int) -> str:
    """A kernel of `count` instructions, as compilers write them: addresses and a guard, a load, arithmetic of all kinds, a store, the end."""
    head = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry straight(.param .u64 data, .param .u32 n) {\n"
        ".reg .pred %p<2>; .reg .b32 %r<16>; .reg .f32 %f<16>; .reg .b64 %d<4>;\n"
    )
    first = [
        "ld.param.u64 %d1, [data]", "ld.param.u32 %r9, [n]", "mov.u32 %r1, %ctaid.x", "mov.u32 %r2, %ntid.x", "mov.u32 %r3, %tid.x",
        "mad.lo.s32 %r4, %r1, %r2, %r3", "setp.ge.u32 %p1, %r4, %r9", "@%p1 bra DONE", "mul.wide.u32 %d2, %r4, 4", "add.s64 %d3, %d1, %d2",
        "ld.global.u32 %r5, [%d3]", "cvt.rn.f32.u32 %f1, %r5",
    ]  # fmt: skip
    turns = [
        "fma.rn.f32 %f2, %f1, %f1, 0f3F000000", "xor.b32 %r5, %r5, %r4", "add.f32 %f3, %f2, %f1", "shl.b32 %r6, %r5, 3", "mul.f32 %f1, %f3, 0f3F7FF000",
        "add.s32 %r5, %r6, %r5", "max.f32 %f1, %f1, %f2", "setp.lt.f32 %p1, %f1, %f3", "selp.b32 %r5, %r5, %r4, %p1", "mad.lo.s32 %r5, %r5, 13, %r6",
    ]  # fmt: skip
    last = ["cvt.rzi.u32.f32 %r7, %f1", "add.s32 %r7, %r7, %r5", "st.global.u32 [%d3], %r7", "DONE: ret"]
    middle = [turns[index % len(turns)] for index in range(count - len(first) - len(last))]
    return head + "".join(f"{line};\n" for line in [*first, *middle, *last]) + "}\n"
