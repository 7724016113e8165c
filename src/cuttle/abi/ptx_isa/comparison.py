"""Comparison and selection opcodes (PTX ISA 9.0, 9.7.6 and 9.7.7)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

_INT = "((.eq|.ne)(.b16|.b32|.b64)|(.eq|.ne|.lt|.le|.gt|.ge)(.s16|.s32|.s64)|(.eq|.ne|.lo|.ls|.hi|.hs|.lt|.le|.gt|.ge)(.u16|.u32|.u64))"
_CMP = "(.eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan)"
_BOOL = "[.and|.or|.xor]"
_RESULT = "(.u32|.s32|.f32)"


def _set_forms() -> tuple[str, ...]:
    integer = "(.eq|.ne|.lt|.le|.gt|.ge)"
    return (
        f"set.eq{_BOOL}{_RESULT}(.b16|.b32|.b64)",
        f"set{integer}{_RESULT}(.u16|.u32|.u64|.s16|.s32|.s64)",
        f"set(.lo|.ls|.hi|.hs){_RESULT}(.u16|.u32|.u64)",
        f"set{_CMP}{_BOOL}[.ftz]{_RESULT}.f32",
        f"set{_CMP}{_RESULT}.f64",
        f"set{_CMP}[.ftz](.f16|.u16|.s16|.u32|.s32).f16",
        f"set{_CMP}(.bf16|.u16|.s16|.u32|.s32).bf16",
        f"set{_CMP}[.ftz](.f16x2|.u32|.s32).f16x2",
        f"set{_CMP}(.bf16x2|.u32|.s32).bf16x2",
    )


ROWS: tuple[Opcode, ...] = (
    Opcode(
        "set",
        "comparison",
        "D: T T",
        forms=(("and", "D: T T P"), ("or", "D: T T P"), ("xor", "D: T T P")),
        syntax=_set_forms(),
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
            f"setp{_INT}",
            "setp.lt(.and|.or|.xor)(.s32|.u64)",
            f"setp{_CMP}[.ftz].f32",
            f"setp{_CMP}(.and|.or|.xor).f32",
            f"setp{_CMP}.f64",
            f"setp{_CMP}[.ftz](.f16|.f16x2)",
            f"setp{_CMP}(.bf16|.bf16x2)",
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
