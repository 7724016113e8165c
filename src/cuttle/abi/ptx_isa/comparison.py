"""Comparison and selection opcodes (PTX ISA 9.0, 9.7.6 and 9.7.7)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_SIGNED = "(.eq|.ne|.lt|.le|.gt|.ge)"
_UNSIGNED = "(.eq|.ne|.lt|.le|.gt|.ge|.lo|.ls|.hi|.hs)"
_CMP = "(.eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan)"
_BOOL = "[.and|.or|.xor]"
_RESULT = "(.u32|.s32|.f16|.bf16|.f32)"

# f16 and bf16 results of other types, and the boolean operators with every type, stand in no table of the manual; ptxas takes them.
_SET = (
    f"set(.eq|.ne){_BOOL}{_RESULT}(.b16|.b32|.b64)",
    f"set{_SIGNED}{_BOOL}{_RESULT}(.s16|.s32|.s64)",
    f"set{_UNSIGNED}{_BOOL}{_RESULT}(.u16|.u32|.u64)",
    f"set{_CMP}{_BOOL}[.ftz](.u32|.s32|.f16|.f32).f32",
    f"set{_CMP}{_BOOL}.bf16.f32",
    f"set{_CMP}{_BOOL}{_RESULT}.f64",
    f"set{_CMP}{_BOOL}[.ftz](.f16|.u16|.s16|.u32|.s32).f16",
    f"set{_CMP}{_BOOL}.bf16.f16",
    f"set{_CMP}{_BOOL}(.bf16|.u16|.s16|.u32|.s32).bf16",
    f"set{_CMP}{_BOOL}[.ftz](.f16x2|.u32|.s32).f16x2",
    f"set{_CMP}{_BOOL}(.bf16x2|.u32|.s32).bf16x2",
)

ROWS: tuple[Opcode, ...] = (
    Opcode(
        "set",
        "comparison",
        "D: T T",
        forms=(("and", "D: T T P"), ("or", "D: T T P"), ("xor", "D: T T P")),
        syntax=_SET,
        section="9.7.6.1, 9.7.7.1",
    ),
    Opcode(
        "setp",
        "comparison",
        "P P?: T T",
        forms=(
            # Scalar halves have no second destination.
            *((f"{op}.{half}", "P: T T P") for op in ("and", "or", "xor") for half in ("f16", "bf16")),
            *((half, "P: T T") for half in ("f16", "bf16")),
            *((op, "P P?: T T P") for op in ("and", "or", "xor")),
        ),
        syntax=(
            f"setp(.eq|.ne){_BOOL}(.b16|.b32|.b64)",
            f"setp{_SIGNED}{_BOOL}(.s16|.s32|.s64)",
            f"setp{_UNSIGNED}{_BOOL}(.u16|.u32|.u64)",
            f"setp{_CMP}{_BOOL}[.ftz](.f16|.f16x2|.f32)",
            f"setp{_CMP}{_BOOL}(.bf16|.bf16x2|.f64)",
        ),
        section="9.7.6.2, 9.7.7.2",
    ),
    Opcode(
        "selp",
        "comparison",
        "T: T T P",
        syntax=("selp(.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64)",),
        section="9.7.6.3",
    ),
    Opcode(
        "slct",
        "comparison",
        "D: D D T",
        syntax=(
            "slct(.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64)(.s32|[.ftz].f32)",
            "slct.ftz(.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64).f32",
        ),
        section="9.7.6.4",
    ),
)
