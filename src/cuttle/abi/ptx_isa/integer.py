"""Integer opcodes that exist for integers only (PTX ISA 9.0, 9.7.1)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

ROWS: tuple[Opcode, ...] = (
    Opcode("mul24", "integer", "T: T T", syntax=("mul24(.lo|.hi)(.u32|.s32)",), section="9.7.1.5"),
    Opcode("mad24", "integer", "T: T T T", syntax=("mad24(.lo|.hi)(.u32|.s32)", "mad24.hi.sat.s32"), section="9.7.1.6"),
    Opcode("popc", "integer", "u32: T", syntax=("popc(.b32|.b64)",), since=("2.0", "sm_20"), section="9.7.1.14"),
    Opcode("clz", "integer", "u32: T", syntax=("clz(.b32|.b64)",), since=("2.0", "sm_20"), section="9.7.1.15"),
    Opcode(
        "bfind",
        "integer",
        "u32: T",
        syntax=("bfind[.shiftamt](.u32|.s32|.u64|.s64)",),
        since=("2.0", "sm_20"),
        section="9.7.1.16",
    ),
    Opcode("fns", "integer", "b32: b32 b32 s32", syntax=("fns.b32",), since=("6.0", "sm_30"), section="9.7.1.17"),
    Opcode("brev", "integer", "T: T", syntax=("brev(.b32|.b64)",), since=("2.0", "sm_20"), section="9.7.1.18"),
    Opcode(
        "bfe",
        "integer",
        "T: T u32 u32",
        syntax=("bfe(.u32|.s32|.u64|.s64)",),
        since=("2.0", "sm_20"),
        section="9.7.1.19",
    ),
    Opcode("bfi", "integer", "T: T T u32 u32", syntax=("bfi(.b32|.b64)",), since=("2.0", "sm_20"), section="9.7.1.20"),
    Opcode(
        "szext",
        "integer",
        "T: T u32",
        syntax=("szext(.clamp|.wrap)(.u32|.s32)",),
        since=("7.6", "sm_70"),
        section="9.7.1.21",
    ),
    Opcode(
        "bmsk",
        "integer",
        "b32: u32 u32",
        syntax=("bmsk(.clamp|.wrap).b32",),
        since=("7.6", "sm_70"),
        section="9.7.1.22",
    ),
    Opcode(
        "dp4a",
        "integer",
        "u32: D T u32",
        syntax=("dp4a(.u32|.s32)(.u32|.s32)",),
        since=("5.0", "sm_61"),
        section="9.7.1.23",
    ),
    Opcode(
        "dp2a",
        "integer",
        "u32: D T u32",
        syntax=("dp2a(.lo|.hi)(.u32|.s32)(.u32|.s32)",),
        since=("5.0", "sm_61"),
        section="9.7.1.24",
    ),
    Opcode(
        "clmad",
        "integer",
        "T: T T T",
        syntax=("clmad(.lo|.hi).u64",),
        since=("9.0", "sm_100"),
        section="9.7.1.25",
    ),
)
