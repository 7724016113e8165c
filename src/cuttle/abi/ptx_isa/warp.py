"""Cross-lane opcodes (PTX ISA 9.0, 9.7.9.5, 9.7.9.6, 9.7.13.8 to 9.7.13.15)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

ROWS: tuple[Opcode, ...] = (
    Opcode("shfl", "warp", "b32 P?: b32 u32 b32 b32?", "cross", syntax=("shfl[.sync](.up|.down|.bfly|.idx).b32",),
           since=("3.0", "sm_30"), section="9.7.9.5, 9.7.9.6"),
    Opcode("vote", "warp", "P: P b32?", "cross", forms=(("ballot", "b32: P b32?"),), syntax=(
        "vote[.sync](.all|.any|.uni).pred", "vote[.sync].ballot.b32",
    ), since=("1.2", "sm_12"), section="9.7.13.8, 9.7.13.9"),
    Opcode("match", "warp", "b32 P?: T b32", "cross", forms=(("any", "b32: T b32"),), syntax=("match(.any|.all).sync(.b32|.b64)",),
           since=("6.0", "sm_70"), section="9.7.13.10"),
    Opcode("activemask", "warp", "b32:", "cross", syntax=("activemask.b32",), since=("6.2", "sm_30"),
           section="9.7.13.11"),
    Opcode("redux.sync", "warp", "T: T b32", "cross", syntax=(
        "redux.sync(.add|.min|.max)(.u32|.s32)", "redux.sync(.and|.or|.xor).b32", "redux.sync(.min|.max)[.abs][.NaN].f32",
    ), since=("7.0", "sm_80"), section="9.7.13.12"),
    Opcode("elect.sync", "warp", "b32 P?: b32", "cross", syntax=("elect.sync",), since=("8.0", "sm_90"),
           section="9.7.13.14"),
)  # fmt: skip
