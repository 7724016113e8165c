"""Atomic read-modify-write opcodes (PTX ISA 9.0, 9.7.13)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_SCOPE = "[.relaxed|.acquire|.release|.acq_rel][.cta|.gpu|.sys][.global|.shared]"
_ASYNC = "red.async.relaxed.cluster[.shared::cluster].mbarrier::complete_tx::bytes"
_COMMON = (
    "{op}" + _SCOPE + "(.and|.or|.xor)(.b32|.b64)",
    "{op}[.global|.shared].add(.u32|.s32|.u64|.f32|.f64)",
    "{op}[.global|.shared](.min|.max)(.u32|.s32|.u64|.s64)",
    "{op}[.global|.shared](.inc|.dec).u32",
    "{op}[.global|.shared].add.noftz(.f16|.f16x2|.bf16|.bf16x2)",
    "{op}[.global].add(.v2.f32|.v4.f32)",
    "{op}[.global](.add|.min|.max).noftz(.v2|.v4|.v8)(.f16|.bf16)",
    "{op}[.global](.add|.min|.max).noftz(.v2|.v4)(.f16x2|.bf16x2)",
)

ROWS: tuple[Opcode, ...] = (
    Opcode(
        "atom",
        "atomics",
        "T: A T b64?",
        "write",
        forms=(("cas", "T: A T T b64?"),),
        syntax=(
            *(text.replace("{op}", "atom") for text in _COMMON),
            "atom[.global|.shared].exch(.b32|.b64|.b128)",
            "atom[.global|.shared].cas(.b16|.b32|.b64|.b128)",
        ),
        since=("1.1", "sm_11"),
        section="9.7.13.5",
    ),
    Opcode(
        "red",
        "atomics",
        ": A T b64?",
        "write",
        syntax=tuple(text.replace("{op}", "red") for text in _COMMON),
        since=("1.2", "sm_11"),
        section="9.7.13.6",
    ),
    Opcode(
        "red.async",
        "asynchronous",
        ": A T A",
        "write",
        syntax=(
            f"{_ASYNC}(.inc|.dec).u32",
            f"{_ASYNC}(.add|.min|.max)(.u32|.s32)",
            f"{_ASYNC}(.and|.or|.xor).b32",
            f"{_ASYNC}.add.u64",
        ),
        since=("8.1", "sm_90"),
        section="9.7.13.7",
    ),
)
