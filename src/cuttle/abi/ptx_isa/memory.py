"""Data movement between registers and memory (PTX ISA 9.0, 9.7.9, 9.7.17)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_TYPES = "(.b8|.u8|.s8|.b16|.u16|.s16|.b32|.u32|.s32|.b64|.u64|.s64|.f32|.f64|.b128)"
_VECTOR = "(.v2|.v4)(.b8|.u8|.s8|.b16|.u16|.s16|.b32|.u32|.s32|.f32)"
_PRIORITY = "(.L2::evict_last|.L2::evict_normal|.L2::evict_first|.L2::evict_unchanged)"
_SPACES = "[.const|.global|.local|.param|.shared]"

ROWS: tuple[Opcode, ...] = (
    Opcode("ld", "memory", "T: A b64?", "read", syntax=(
        f"ld{_SPACES}{_TYPES}", f"ld{_SPACES}{_VECTOR}", f"ld{_SPACES}.v2(.b64|.u64|.s64|.f64)",
        "ld.volatile[.global|.shared|.local](.u32|.u64|.f32)", "ld(.relaxed|.acquire)(.cta|.gpu|.sys)[.global|.shared](.u32|.u64|.b128)",
        "ld.mmio.relaxed.sys.global.u32", "ld.global.nc(.u32|.v4.f32|.f64)", "ld.global(.v8.b32|.v4.b64)",
    ), section="9.7.9.8, 9.7.9.9"),
    Opcode("ldu", "memory", "T: A", "read", syntax=(
        f"ldu[.global]{_TYPES}", f"ldu[.global]{_VECTOR}", "ldu[.global].v2(.b64|.u64|.s64|.f64)",
    ), section="9.7.9.10"),
    Opcode("st", "memory", ": A T b64?", "write", syntax=(
        f"st[.global|.local|.param|.shared]{_TYPES}", f"st[.global|.local|.param|.shared]{_VECTOR}",
        "st[.global|.local|.param|.shared].v2(.b64|.u64|.s64|.f64)", "st.volatile[.global|.shared|.local](.u32|.u64|.f32)",
        "st(.relaxed|.release)(.cta|.gpu|.sys)[.global|.shared](.u32|.u64|.b128)", "st.mmio.relaxed.sys.global.u32",
        "st.global(.v8.b32|.v4.b64)",
    ), section="9.7.9.11"),
    Opcode("st.async", "asynchronous", ": A T A", "write", syntax=(
        "st.async[.weak][.shared::cluster].mbarrier::complete_tx::bytes[.v2|.v4](.b32|.u32|.s32|.f32)",
        "st.async[.weak][.shared::cluster].mbarrier::complete_tx::bytes[.v2](.b64|.u64|.s64|.f64)",
    ), since=("8.1", "sm_90"), section="9.7.9.12"),
    Opcode("st.bulk", "asynchronous", ": A u64 X", "write", syntax=("st.bulk[.weak][.shared::cta]",), since=("8.6", "sm_100"),
           section="9.7.9.13"),
    Opcode("multimem.ld_reduce", "memory", "T: A", "read", since=("8.1", "sm_90"), status="refuse", section="9.7.9.14"),
    Opcode("multimem.st", "memory", ": A T", "write", since=("8.1", "sm_90"), status="refuse", section="9.7.9.14"),
    Opcode("multimem.red", "memory", ": A T", "write", since=("8.1", "sm_90"), status="refuse", section="9.7.9.14"),
    Opcode("prefetch", "memory", ": A", syntax=(
        "prefetch[.global|.local](.L1|.L2)", "prefetch[.global](.L2::evict_last|.L2::evict_normal)",
        "prefetch[.const|.param].tensormap",
    ), since=("2.0", "sm_20"), section="9.7.9.15"),
    Opcode("prefetchu", "memory", ": A", syntax=("prefetchu.L1",), since=("2.0", "sm_20"), section="9.7.9.15"),
    Opcode("applypriority", "memory", ": A X", syntax=("applypriority[.global].L2::evict_normal",),
           since=("7.4", "sm_80"), section="9.7.9.16"),
    Opcode("discard", "memory", ": A X", syntax=("discard[.global].L2",), since=("7.4", "sm_80"), section="9.7.9.17"),
    Opcode("createpolicy", "memory", "b64: f32?", forms=(("range", "b64: A u32 u32"), ("cvt", "b64: b64")), syntax=(
        f"createpolicy(.fractional|.range|.range.global){_PRIORITY}[.L2::evict_first|.L2::evict_unchanged].b64",
        "createpolicy.cvt.L2.b64",
    ), since=("7.4", "sm_80"), section="9.7.9.18"),
    Opcode("mapa", "memory", "T: T u32", syntax=("mapa[.shared::cluster](.u32|.u64)",), since=("7.8", "sm_90"),
           section="9.7.9.23"),
    Opcode("getctarank", "memory", "u32: T", syntax=("getctarank[.shared::cluster](.u32|.u64)",), since=("7.8", "sm_90"),
           section="9.7.9.24"),
    Opcode("stacksave", "memory", "T:", "read", syntax=("stacksave(.u32|.u64)",), since=("7.3", "sm_52"),
           section="9.7.17.1"),
    Opcode("stackrestore", "memory", ": T", "write", syntax=("stackrestore(.u32|.u64)",), since=("7.3", "sm_52"),
           section="9.7.17.2"),
    Opcode("alloca", "memory", "T: T X?", "write", syntax=("alloca(.u32|.u64)",), since=("7.3", "sm_52"),
           section="9.7.17.3"),
)  # fmt: skip
