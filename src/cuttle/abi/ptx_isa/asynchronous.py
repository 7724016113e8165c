"""Asynchronous copies, mbarriers, bulk and tensor transfers, cluster launch control (PTX ISA 9.0, 9.7.9.25 on, 9.7.13.16)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_COMPLETE = ".mbarrier::complete_tx::bytes"
_REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group[.L2::cache_hint]"
_SIZES = "[.L2::cache_hint][.L2::64B|.L2::128B|.L2::256B]"

ROWS: tuple[Opcode, ...] = (
    Opcode("cp.async", "asynchronous", ": A A X U? b64?", "write", syntax=(
        f"cp.async(.ca|.cg)(.shared|.shared::cta).global{_SIZES}",
    ), since=("7.0", "sm_80"), section="9.7.9.25.3.1"),
    Opcode("cp.async.commit_group", "asynchronous", ":", syntax=("cp.async.commit_group",), since=("7.0", "sm_80"),
           section="9.7.9.25.3.2"),
    Opcode("cp.async.wait_group", "asynchronous", ": X", syntax=("cp.async.wait_group",), since=("7.0", "sm_80"),
           section="9.7.9.25.3.3"),
    Opcode("cp.async.wait_all", "asynchronous", ":", syntax=("cp.async.wait_all",), since=("7.0", "sm_80"),
           section="9.7.9.25.3.3"),
    Opcode("cp.async.bulk.commit_group", "asynchronous", ":", syntax=("cp.async.bulk.commit_group",),
           since=("8.0", "sm_90"), section="9.7.9.25.6.1"),
    Opcode("cp.async.bulk.wait_group", "asynchronous", ": X", syntax=("cp.async.bulk.wait_group[.read]",),
           since=("8.0", "sm_90"), section="9.7.9.25.6.2"),
    Opcode("cp.async.bulk.prefetch", "asynchronous", ": A u32 b64?", syntax=("cp.async.bulk.prefetch.L2.global",),
           since=("8.0", "sm_90"), section="9.7.9.25.4.3"),
    Opcode("cp.async.bulk.prefetch.tensor", "asynchronous", ": X*", since=("8.0", "sm_90"), status="refuse", section="9.7.9.25.5.4"),
    Opcode("cp.async.bulk", "asynchronous", ": A A u32 A b64?", "write", forms=(
        ("bulk_group", ": A A u32 b64? u16?"), ("multicast::cluster", ": A A u32 A u16 b64?"),
    ), syntax=(
        f"cp.async.bulk(.shared::cluster|.shared::cta).global{_COMPLETE}[.L2::cache_hint]",
        f"cp.async.bulk.shared::cluster.global{_COMPLETE}.multicast::cluster[.L2::cache_hint]",
        f"cp.async.bulk.shared::cluster.shared::cta{_COMPLETE}", "cp.async.bulk.global.shared::cta.bulk_group[.L2::cache_hint]",
    ), since=("8.0", "sm_90"), section="9.7.9.25.4.1"),
    Opcode("cp.reduce.async.bulk", "asynchronous", ": A A u32 A", "write", forms=(("bulk_group", ": A A u32 b64?"),), syntax=(
        f"cp.reduce.async.bulk.shared::cluster.shared::cta{_COMPLETE}(.and|.or|.xor).b32",
        f"cp.reduce.async.bulk.shared::cluster.shared::cta{_COMPLETE}(.add|.inc|.dec|.min|.max).u32",
        f"cp.reduce.async.bulk.shared::cluster.shared::cta{_COMPLETE}(.add|.min|.max).s32",
        f"cp.reduce.async.bulk.shared::cluster.shared::cta{_COMPLETE}.add.u64",
        f"{_REDUCE}(.and|.or|.xor)(.b32|.b64)", f"{_REDUCE}(.inc|.dec).u32", f"{_REDUCE}.add(.u32|.s32|.u64|.f32|.f64)",
        f"{_REDUCE}.add.noftz(.f16|.bf16)", f"{_REDUCE}(.min|.max)(.u32|.s32|.u64|.s64|.f16|.bf16)",
    ), since=("8.0", "sm_90"), section="9.7.9.25.4.2"),
    *(
        Opcode(name, "asynchronous", ": X*", "write", since=("8.0", "sm_90"), status="refuse", section=section)
        for name, section in (
            ("cp.async.bulk.tensor", "9.7.9.25.5.2"), ("cp.reduce.async.bulk.tensor", "9.7.9.25.5.3"),
            ("tensormap.replace", "9.7.9.26"), ("tensormap.cp_fenceproxy", "9.7.13.17"),
        )
    ),
    *(
        Opcode(name, "asynchronous", ": X*", "write", since=("8.1", "sm_90"), status="refuse", section="9.7.9.25.4")
        for name in ("multimem.cp.async.bulk", "multimem.cp.reduce.async.bulk")
    ),
    *(
        Opcode(f"clusterlaunchcontrol.{name}", "asynchronous", ": X*", "write", since=("8.6", "sm_100"), status="refuse",
               section="9.7.13.18")
        for name in ("try_cancel", "query_cancel")
    ),
    Opcode("cp.async.mbarrier.arrive", "mbarrier", ": A", "write", syntax=(
        "cp.async.mbarrier.arrive[.noinc][.shared|.shared::cta].b64",
    ), since=("7.0", "sm_80"), section="9.7.13.16.18"),
    Opcode("mbarrier.init", "mbarrier", ": A u32", "write", syntax=("mbarrier.init[.shared|.shared::cta].b64",),
           since=("7.0", "sm_80"), section="9.7.13.16.9"),
    Opcode("mbarrier.inval", "mbarrier", ": A", "write", syntax=("mbarrier.inval[.shared|.shared::cta].b64",),
           since=("7.0", "sm_80"), section="9.7.13.16.10"),
    Opcode("mbarrier.expect_tx", "mbarrier", ": A u32", "write", syntax=(
        "mbarrier.expect_tx[.relaxed.cta|.relaxed.cluster][.shared::cta].b64",
    ), since=("8.0", "sm_90"), section="9.7.13.16.11"),
    Opcode("mbarrier.complete_tx", "mbarrier", ": A u32", "write", syntax=(
        "mbarrier.complete_tx[.relaxed.cta|.relaxed.cluster][.shared::cta].b64",
    ), since=("8.0", "sm_90"), section="9.7.13.16.12"),
    *(
        Opcode(f"mbarrier.{name}", "mbarrier", "b64: A u32?", "write", forms=(("expect_tx", "b64: A u32"),), syntax=(
            f"mbarrier.{name}[.release.cta|.release.cluster][.shared|.shared::cta].b64",
            f"mbarrier.{name}.noComplete[.shared].b64", f"mbarrier.{name}.expect_tx[.release.cta][.shared::cta].b64",
        ), since=("7.0", "sm_80"), section=section)
        for name, section in (("arrive", "9.7.13.16.13"), ("arrive_drop", "9.7.13.16.14"))
    ),
    *(
        Opcode(f"mbarrier.{name}", "mbarrier", f"P: A b64{hint}", "read", forms=(("parity", f"P: A u32{hint}"),), syntax=(
            f"mbarrier.{name}[.parity][.shared|.shared::cta].b64", f"mbarrier.{name}[.parity].acquire(.cta|.cluster).shared::cta.b64",
        ), since=since, section=section)
        for name, hint, since, section in (
            ("test_wait", "", ("7.0", "sm_80"), "9.7.13.16.15"), ("try_wait", " u32?", ("7.8", "sm_90"), "9.7.13.16.16"),
        )
    ),
    Opcode("mbarrier.pending_count", "mbarrier", "u32: b64", syntax=("mbarrier.pending_count.b64",), since=("7.0", "sm_80"),
           section="9.7.13.16.17"),
)  # fmt: skip
