"""Barriers, fences and scheduling hints (PTX ISA 9.0, 9.7.13.1 to 9.7.13.4, 9.7.19)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_RED = (("red.popc", "u32: u32 u32? P"), ("red.and", "P: u32 u32? P"), ("red.or", "P: u32 u32? P"))

ROWS: tuple[Opcode, ...] = (
    Opcode("bar", "barrier", ": u32 u32?", "control", forms=_RED, syntax=(
        "bar[.cta](.sync|.arrive)", "bar[.cta].red.popc.u32", "bar[.cta].red(.and|.or).pred",
    ), section="9.7.13.1"),
    Opcode("barrier", "barrier", ": u32 u32?", "control", forms=_RED, syntax=(
        "barrier[.cta](.sync|.arrive)[.aligned]", "barrier[.cta].red.popc[.aligned].u32",
        "barrier[.cta].red(.and|.or)[.aligned].pred",
    ), since=("6.0", "sm_30"), section="9.7.13.1"),
    Opcode("bar.warp.sync", "barrier", ": b32", "cross", syntax=("bar.warp.sync",), since=("6.0", "sm_30"),
           section="9.7.13.2"),
    Opcode("barrier.cluster", "barrier", ":", "control", syntax=(
        "barrier.cluster.arrive[.release|.relaxed][.aligned]", "barrier.cluster.wait[.acquire][.aligned]",
    ), since=("7.8", "sm_90"), section="9.7.13.3"),
    Opcode("membar", "barrier", ":", "write", syntax=(
        "membar(.cta|.gl|.sys)", "membar.proxy(.alias|.async|.async.global|.async.shared::cta|.async.shared::cluster)",
    ), section="9.7.13.4"),
    Opcode("fence", "barrier", ": A? X?", "write", syntax=(
        "fence[.sc|.acq_rel|.acquire|.release](.cta|.cluster|.gpu|.sys)", "fence(.acquire|.release).sync_restrict(.shared::cluster|.shared::cta).cluster",
        "fence.proxy(.alias|.async|.async.global|.async.shared::cta|.async.shared::cluster)",
        "fence.proxy.tensormap::generic(.acquire|.release)(.cta|.cluster|.gpu|.sys)", "fence.mbarrier_init.release.cluster",
    ), since=("6.0", "sm_70"), section="9.7.13.4"),
    Opcode("griddepcontrol", "barrier", ":", syntax=("griddepcontrol(.launch_dependents|.wait)",), since=("7.8", "sm_90"),
           section="9.7.13.13"),
    Opcode("nanosleep", "barrier", ": u32", "service", syntax=("nanosleep.u32",), since=("6.3", "sm_70"),
           section="9.7.19.2"),
    Opcode("pmevent", "barrier", ": X", syntax=("pmevent[.mask]",), since=("1.4", "sm_10"), section="9.7.19.3"),
    Opcode("setmaxnreg", "barrier", ": X", syntax=("setmaxnreg(.inc|.dec).sync.aligned.u32",), since=("8.0", "sm_90"),
           section="9.7.19.5"),
)  # fmt: skip
