"""Texture and surface opcodes (PTX ISA 9.0, 9.7.10 and 9.7.11)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_GEOMETRY = "(.1d|.2d|.3d|.a1d|.a2d)"
_RESULT = "(.v4(.u32|.s32|.f32|.f16)|.v2.f16x2)"
_CLAMP = "(.trap|.clamp|.zero)"

ROWS: tuple[Opcode, ...] = (
    # Behind the coordinates: a level, or two gradients; then texel offsets; then a value to compare with.
    Opcode("tex", "texture", "D: G b32? b32?", "read", (("level", "D: G T b32? b32?"), ("grad", "D: G T T b32? b32?")), syntax=(
        f"tex[.base|.level|.grad]{_GEOMETRY}{_RESULT}(.s32|.f32)", f"tex[.base|.level|.grad](.cube|.acube){_RESULT}.f32",
    ), inexact="`.grad` chooses a level within 2/256 of an H200's (1 to 9 % of lanes differ, most with cube maps); linear filtering in 3D of floats "
       "that lie 2^10 and more apart: the last bit differs in 1 of 1,500 places", section="9.7.10.3"),
    Opcode("tld4", "texture", "D: G b32? b32?", "read", syntax=("tld4(.r|.g|.b|.a)(.2d|.a2d|.cube|.acube).v4(.u32|.s32|.f32).f32",),
           since=("2.2", "sm_20"), section="9.7.10.4"),
    Opcode("txq", "texture", "b32: A", "read", (("level", "b32: A u32"),), syntax=(
        "txq(.width|.height|.depth|.array_size|.num_mipmap_levels|.channel_data_type|.channel_order|.normalized_coords).b32",
        "txq(.filter_mode|.addr_mode_0|.addr_mode_1|.addr_mode_2|.num_samples).b32", "txq.level(.width|.height|.depth).b32",
    ), since=("1.5", "sm_10"), section="9.7.10.5"),
    Opcode("istypep", "texture", "P: b64", "read", since=("4.0", "sm_30"), status="refuse", section="9.7.10.6"),
    Opcode("suld", "texture", "T: S", "read", syntax=(
        f"suld.b{_GEOMETRY}[.v2|.v4](.b8|.b16|.b32){_CLAMP}", f"suld.b{_GEOMETRY}[.v2].b64{_CLAMP}",
    ), since=("1.5", "sm_10"), section="9.7.11.1"),
    Opcode("sust", "texture", ": S T", "write", syntax=(
        f"sust.b{_GEOMETRY}[.v2|.v4](.b8|.b16|.b32){_CLAMP}", f"sust.b{_GEOMETRY}[.v2].b64{_CLAMP}", f"sust.p{_GEOMETRY}[.v2|.v4].b32{_CLAMP}",
    ), since=("1.5", "sm_10"), section="9.7.11.2"),
    Opcode("sured", "texture", ": S T", "write", syntax=(
        f"sured.b(.add|.min|.max)(.1d|.2d|.3d)(.u32|.s32|.u64){_CLAMP}", f"sured.b(.min|.max)(.1d|.2d|.3d).s64{_CLAMP}", f"sured.b(.and|.or)(.1d|.2d|.3d).b32{_CLAMP}",
        f"sured.p(.add|.min|.max|.and|.or)(.1d|.2d|.3d).b32{_CLAMP}",
    ), since=("2.0", "sm_20"), section="9.7.11.3"),
    Opcode("suq", "texture", "b32: A", "read", syntax=(
        "suq(.width|.height|.depth|.channel_data_type|.channel_order|.array_size).b32",
    ), since=("1.5", "sm_10"), section="9.7.11.4"),
)  # fmt: skip
