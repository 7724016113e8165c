"""Conversions and moves (PTX ISA 9.0, 9.7.9: mov, cvta, isspacep, cvt, cvt.pack)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_INTS = ".u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64"
_FLOATS = ".f16|.f32|.f64"
_RND = "(.rn|.rz|.rm|.rp)"

ROWS: tuple[Opcode, ...] = (
    Opcode(
        "cvt",
        "conversion",
        "D: T",
        forms=(
            ("rs.f16x2.f32", "D: T T b32"),
            ("rs.bf16x2.f32", "D: T T b32"),
            ("f16x2.f32", "D: T T"),
            ("bf16x2.f32", "D: T T"),
            ("e4m3x2.f32", "D: T T"),
            ("e5m2x2.f32", "D: T T"),
        ),
        syntax=(
            f"cvt({_INTS})({_INTS})",
            f"cvt.sat({_INTS})({_INTS})",
            f"cvt{_RND}[.sat](.f16|.f64)({_INTS})",
            f"cvt{_RND}[.ftz][.sat].f32({_INTS})",
            f"cvt(.rni|.rzi|.rmi|.rpi)({_INTS})({_FLOATS})",
            f"cvt(.rni|.rzi|.rmi|.rpi)[.ftz][.sat]({_INTS}).f32",
            f"cvt(.rni|.rzi|.rmi|.rpi)[.sat]({_INTS})(.f16|.f64)",
            "cvt[.ftz][.sat].f32.f32",
            "cvt(.rni|.rzi|.rmi|.rpi)[.ftz][.sat].f32.f32",
            "cvt[.rni|.rzi|.rmi|.rpi][.sat].f64.f64",
            "cvt[.rni|.rzi|.rmi|.rpi][.sat].f16.f16",
            "cvt[.ftz][.sat].f64.f32",
            "cvt(.rn|.rz|.rm|.rp)[.ftz][.sat].f32.f64",
            "cvt(.rn|.rz|.rm|.rp)[.ftz][.sat].f16.f32",
            "cvt(.rn|.rz|.rm|.rp)[.sat].f16.f64",
            "cvt[.ftz][.sat].f32.f16",
            "cvt[.sat].f64.f16",
            "cvt(.rn|.rz|.rm|.rp)(.bf16)(.f16|.f64|.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64)",
            "cvt(.rn|.rz)[.relu][.satfinite](.bf16|.f16|.bf16x2|.f16x2).f32",
            f"cvt{_RND}[.ftz].bf16.f32",
            "cvt(.rn|.rz|.rm|.rp).f16.bf16",
            "cvt[.rn|.rz|.rm|.rp][.ftz].f32.bf16",
            "cvt[.rn|.rz|.rm|.rp].f64.bf16",
            "cvt.f16.bf16",
            "cvt.bf16.f16",
            "cvt[.rni|.rzi|.rmi|.rpi].bf16.bf16",
            "cvt(.rni|.rzi|.rmi|.rpi)(.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64).bf16",
            "cvt.rna[.satfinite].tf32.f32",
            "cvt(.rn|.rz)[.relu].tf32.f32",
            "cvt.rn[.relu].satfinite(.e4m3x2|.e5m2x2)(.f32|.f16x2)",
            "cvt.rn[.relu].f16x2(.e4m3x2|.e5m2x2)",
        ),
        section="9.7.9.21",
    ),
    Opcode(
        "cvt.pack",
        "conversion",
        "b32: T T",
        forms=(("b32", "b32: s32 s32 b32"),),
        syntax=("cvt.pack.sat(.u16|.s16).s32", "cvt.pack.sat(.u8|.s8|.u4|.s4|.u2|.s2).s32.b32"),
        since=("6.5", "sm_72"),
        section="9.7.9.22",
    ),
    Opcode(
        "mov",
        "conversion",
        "T: T",
        syntax=("mov(.pred|.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64|.b128)",),
        section="9.7.9.1, 9.7.9.2",
    ),
    Opcode(
        "cvta",
        "conversion",
        "T: T",
        syntax=("cvta[.to](.const|.global|.local|.shared|.shared::cta|.shared::cluster|.param|.param::entry)(.u32|.u64)",),
        since=("2.0", "sm_20"),
        section="9.7.9.20",
    ),
    Opcode(
        "isspacep",
        "conversion",
        "P: b64",
        syntax=("isspacep(.const|.global|.local|.shared|.shared::cta|.shared::cluster|.param|.param::entry)",),
        since=("2.0", "sm_20"),
        section="9.7.9.19",
    ),
)
