"""The root of every PTX instruction (PTX ISA 9.x, chapter 9).

The rule: an instruction's root is the *longest dotted prefix* of its spelling that stands in `ROOTS`; everything after
it is modifiers. So `cp.async.bulk.tensor.2d.global...` has root `cp.async.bulk.tensor`, `bar.warp.sync` has root
`bar.warp.sync`, but `bar.sync` has root `bar` and modifier `sync`, because the manual describes `bar.sync`,
`bar.red` and `bar.arrive` as forms of one instruction. `add.cc` and `mad.hi.cc` are `add` and `mad` with modifier
`cc`; `ld.global.nc` is `ld` with modifiers `global`, `nc`; `shfl.sync`, `vote.sync` and `match.any.sync` keep the root
`shfl`, `vote`, `match` with `sync` among the modifiers (the old forms without `.sync` only lack it).
"""

from __future__ import annotations

from cuttle.ptx.ir import TYPE_BITS

ROOTS: frozenset[str] = frozenset(
    """
    abs activemask add addc alloca and applypriority atom
    bar bar.warp.sync barrier barrier.cluster bfe bfi bfind bmsk bra brev brkpt brx.idx
    call clmad clusterlaunchcontrol.query_cancel clusterlaunchcontrol.try_cancel clz cnot copysign cos
    cp.async cp.async.bulk cp.async.bulk.commit_group cp.async.bulk.prefetch cp.async.bulk.prefetch.tensor
    cp.async.bulk.tensor cp.async.bulk.wait_group cp.async.commit_group cp.async.mbarrier.arrive cp.async.wait_all
    cp.async.wait_group cp.reduce.async.bulk cp.reduce.async.bulk.tensor createpolicy cvt cvt.pack cvta
    discard div dp2a dp4a elect.sync ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep
    ld ldmatrix ldu lg2 lop3
    mad mad24 madc mapa match max mbarrier.arrive mbarrier.arrive_drop mbarrier.complete_tx mbarrier.expect_tx
    mbarrier.init mbarrier.inval mbarrier.pending_count mbarrier.test_wait mbarrier.try_wait membar min
    mma mma.sp mma.sp::ordered_metadata mov movmatrix mul mul24 multimem.cp.async.bulk multimem.cp.reduce.async.bulk
    multimem.ld_reduce multimem.red multimem.st nanosleep neg not or
    pmevent popc prefetch prefetchu prmt rcp red red.async redux.sync rem ret rsqrt
    sad selp set setmaxnreg setp shf shfl shl shr sin slct sqrt st st.async st.bulk stackrestore stacksave stmatrix
    sub subc suld suq sured sust szext
    tanh tcgen05.alloc tcgen05.commit tcgen05.cp tcgen05.dealloc tcgen05.fence::after_thread_sync
    tcgen05.fence::before_thread_sync tcgen05.ld tcgen05.ld.red tcgen05.mma
    tcgen05.mma.sp tcgen05.mma.ws tcgen05.mma.ws.sp tcgen05.relinquish_alloc_permit tcgen05.shift tcgen05.st
    tcgen05.wait::ld tcgen05.wait::st tensormap.cp_fenceproxy tensormap.replace testp tex tld4 trap txq
    vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote
    vset vset2 vset4 vshl vshr vsub vsub2 vsub4
    wgmma.commit_group wgmma.fence wgmma.mma_async wgmma.mma_async.sp wgmma.wait_group
    wmma.load wmma.mma wmma.store xor
    """.split()
)


def split_opcode(spelling: str) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """`cvt.rn.f32.s32` -> (`cvt`, (`rn`, `f32`, `s32`), (`f32`, `s32`)); None if no root fits.

    Returns root, modifiers, and those of the modifiers that are types.
    """
    parts = spelling.split(".")
    for length in range(min(len(parts), 5), 0, -1):
        root = ".".join(parts[:length])
        if root in ROOTS:
            modifiers = tuple(parts[length:])
            return root, modifiers, tuple(part for part in modifiers if part in TYPE_BITS)
    return None
