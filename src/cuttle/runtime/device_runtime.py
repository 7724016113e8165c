"""Functions of CUDA's device runtime library that Cuttle has itself, as PTX: the grid barrier of cooperative groups.

Links of `-rdc` programs and of Numba's kernels name them. NVIDIA's own library is left out of every link (`modules.py`): it
consists of calls into the driver.
"""

from __future__ import annotations

from collections.abc import Sequence

# A cooperative launch gets a zeroed workspace of 1 KiB at %envreg1:%envreg2, which serves as the handle. Its first words belong
# to the barrier that nvcc compiles into kernels; this one counts arrivals in the last 8 bytes: a block waits until all of its
# turn have come.
COOPERATIVE_GROUPS = b"""
.version 6.0
.target sm_60
.address_size 64
.visible .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u32 %r1, [scope];
    setp.eq.u32 %p1, %r1, 1;
    mov.u32 %r2, %envreg2;
    mov.u32 %r3, %envreg1;
    mov.b64 %rd1, {%r2, %r3};
    selp.b64 %rd1, %rd1, 0, %p1;
    st.param.b64 [result], %rd1;
    ret;
}
.visible .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .pred %p<5>;
    .reg .b32 %r<12>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [handle];
    mov.u32 %r1, 999;
    setp.eq.u64 %p1, %rd1, 0;
    @%p1 bra finish;
    barrier.sync 0;
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %tid.y;
    mov.u32 %r4, %tid.z;
    or.b32 %r2, %r2, %r3;
    or.b32 %r2, %r2, %r4;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra together;
    mov.u32 %r5, %nctaid.x;
    mov.u32 %r6, %nctaid.y;
    mov.u32 %r7, %nctaid.z;
    mul.wide.u32 %rd2, %r5, %r6;
    cvt.u64.u32 %rd3, %r7;
    mul.lo.u64 %rd2, %rd2, %rd3;
    membar.gl;
    atom.global.add.u64 %rd4, [%rd1+1016], 1;
    div.u64 %rd5, %rd4, %rd2;
    add.u64 %rd5, %rd5, 1;
    mul.lo.u64 %rd5, %rd5, %rd2;
again:
    ld.volatile.global.u64 %rd6, [%rd1+1016];
    setp.lt.u64 %p3, %rd6, %rd5;
    @%p3 bra again;
    membar.gl;
together:
    barrier.sync 0;
    mov.u32 %r1, 0;
finish:
    st.param.b32 [result], %r1;
    ret;
}
"""


def provided_texts(texts: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """What a link of these texts needs besides them."""
    if any(b"cudaCGGetIntrinsicHandle" in text or b"cudaCGSynchronize" in text for _, text in texts):
        return [("Cuttle's device runtime", COOPERATIVE_GROUPS)]
    return []
