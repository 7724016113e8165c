"""Logic, shift and permute opcodes (PTX ISA 9.0, 9.7.8 and 9.7.9.7)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

ROWS: tuple[Opcode, ...] = (
    *(
        Opcode(name, "logic", "T: T T", syntax=(f"{name}(.pred|.b16|.b32|.b64)",), section=section)
        for name, section in (("and", "9.7.8.1"), ("or", "9.7.8.2"), ("xor", "9.7.8.3"))
    ),
    Opcode("not", "logic", "T: T", syntax=("not(.pred|.b16|.b32|.b64)",), section="9.7.8.4"),
    Opcode("cnot", "logic", "T: T", syntax=("cnot(.b16|.b32|.b64)",), section="9.7.8.5"),
    Opcode(
        "lop3",
        "logic",
        "b32: b32 b32 b32 b32",
        forms=(("or", "b32 P?: b32 b32 b32 b32 P"), ("and", "b32 P?: b32 b32 b32 b32 P")),
        syntax=("lop3.b32", "lop3(.or|.and).b32"),
        since=("4.3", "sm_50"),
        section="9.7.8.6",
    ),
    Opcode(
        "shf",
        "logic",
        "b32: b32 b32 u32",
        syntax=("shf(.l|.r)(.clamp|.wrap).b32",),
        since=("3.1", "sm_32"),
        section="9.7.8.7",
    ),
    Opcode("shl", "logic", "T: T u32", syntax=("shl(.b16|.b32|.b64)",), section="9.7.8.8"),
    Opcode(
        "shr", "logic", "T: T u32", syntax=("shr(.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64)",), section="9.7.8.9"
    ),
    Opcode(
        "prmt",
        "logic",
        "b32: b32 b32 b32",
        syntax=("prmt.b32[.f4e|.b4e|.rc8|.ecl|.ecr|.rc16]",),
        since=("2.0", "sm_20"),
        section="9.7.9.7",
    ),
)
