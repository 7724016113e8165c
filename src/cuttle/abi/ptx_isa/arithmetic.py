"""Arithmetic opcodes that span integer, floating-point, half and mixed precision (PTX ISA 9.0, 9.7.1 to 9.7.5)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

INT = "(.u16|.u32|.u64|.s16|.s32|.s64)"
RND = "[.rn|.rz|.rm|.rp]"
HALF = "(.f16|.f16x2)"
BF = "(.bf16|.bf16x2)"
MIXED = "[.rn|.rz|.rm|.rp][.sat].f32(.f16|.bf16)"

ROWS: tuple[Opcode, ...] = (
    Opcode(
        "add",
        "arithmetic",
        "T: T T",
        forms=(("#2", "D: T D"),),
        syntax=(
            f"add{INT}",
            "add.sat.s32",
            "add(.u16x2|.s16x2)",
            "add.cc(.u32|.s32|.u64|.s64)",
            f"add{RND}[.ftz][.sat].f32",
            f"add{RND}.f64",
            f"add[.rn][.ftz][.sat]{HALF}",
            f"add[.rn]{BF}",
            f"add{MIXED}",
        ),
        section="9.7.1.1, 9.7.2.1, 9.7.3.3, 9.7.4.1, 9.7.5.1",
        writes_carry=True,
    ),
    Opcode(
        "sub",
        "arithmetic",
        "T: T T",
        forms=(("#2", "D: T D"),),
        syntax=(
            f"sub{INT}",
            "sub.sat.s32",
            "sub.cc(.u32|.s32|.u64|.s64)",
            f"sub{RND}[.ftz][.sat].f32",
            f"sub{RND}.f64",
            f"sub[.rn][.ftz][.sat]{HALF}",
            f"sub[.rn]{BF}",
            f"sub{MIXED}",
        ),
        section="9.7.1.2, 9.7.2.3, 9.7.3.4, 9.7.4.2, 9.7.5.2",
        writes_carry=True,
    ),
    Opcode(
        "mul",
        "arithmetic",
        "T: T T",
        forms=(("wide", "W: T T"),),
        syntax=(
            f"mul(.lo|.hi){INT}",
            "mul.wide(.u16|.u32|.s16|.s32)",
            f"mul{RND}[.ftz][.sat].f32",
            f"mul{RND}.f64",
            f"mul[.rn][.ftz][.sat]{HALF}",
            f"mul[.rn]{BF}",
        ),
        section="9.7.1.3, 9.7.3.5, 9.7.4.3",
    ),
    Opcode(
        "mad",
        "arithmetic",
        "T: T T T",
        forms=(("wide", "W: T T W"),),
        syntax=(
            f"mad(.lo|.hi){INT}",
            "mad.wide(.u16|.u32|.s16|.s32)",
            "mad.hi.sat.s32",
            "mad(.lo|.hi).cc(.u32|.s32|.u64|.s64)",
            "mad(.rn|.rz|.rm|.rp)[.ftz][.sat].f32",
            "mad(.rn|.rz|.rm|.rp).f64",
        ),
        section="9.7.1.4, 9.7.2.5, 9.7.3.7",
        writes_carry=True,
    ),
    Opcode(
        "fma",
        "arithmetic",
        "T: T T T",
        forms=(("#2", "D: T T D"),),
        syntax=(
            "fma(.rn|.rz|.rm|.rp)[.ftz][.sat].f32",
            "fma(.rn|.rz|.rm|.rp).f64",
            f"fma.rn[.ftz][.sat|.relu]{HALF}",
            f"fma.rn[.relu]{BF}",
            f"fma.rn.oob[.relu]({HALF}|{BF})",
            "fma(.rn|.rz|.rm|.rp)[.sat].f32(.f16|.bf16)",
        ),
        since=("1.4", "sm_13"),
        section="9.7.3.6, 9.7.4.4, 9.7.5.3",
    ),
    Opcode(
        "addc",
        "arithmetic",
        "T: T T",
        syntax=("addc[.cc](.u32|.s32|.u64|.s64)", "addc(.u16|.s16)", "addc.sat.s32"),
        since=("1.2", "sm_10"),
        section="9.7.2.2",
        reads_carry=True,
        writes_carry=True,
    ),
    Opcode(
        "subc",
        "arithmetic",
        "T: T T",
        syntax=("subc[.cc](.u32|.s32|.u64|.s64)", "subc(.u16|.s16)", "subc.sat.s32"),
        since=("3.0", "sm_10"),
        section="9.7.2.4",
        reads_carry=True,
        writes_carry=True,
    ),
    Opcode(
        "madc",
        "arithmetic",
        "T: T T T",
        syntax=("madc(.lo|.hi)[.cc](.u32|.s32|.u64|.s64)", "madc(.lo|.hi)(.u16|.s16)", "madc.hi.sat.s32"),
        since=("3.0", "sm_20"),
        section="9.7.2.6",
        reads_carry=True,
        writes_carry=True,
    ),
    Opcode("sad", "arithmetic", "T: T T T", syntax=(f"sad{INT}",), section="9.7.1.7"),
    Opcode(
        "div",
        "arithmetic",
        "T: T T",
        syntax=(
            f"div{INT}",
            "div(.approx|.full)[.ftz].f32",
            "div(.rn|.rz|.rm|.rp)[.ftz].f32",
            "div(.rn|.rz|.rm|.rp).f64",
        ),
        section="9.7.1.8, 9.7.3.8",
    ),
    Opcode("rem", "arithmetic", "T: T T", syntax=(f"rem{INT}",), section="9.7.1.9"),
    Opcode(
        "abs",
        "arithmetic",
        "T: T",
        syntax=("abs(.s16|.s32|.s64)", "abs[.ftz].f32", "abs.f64", f"abs[.ftz]{HALF}", f"abs{BF}"),
        section="9.7.1.10, 9.7.3.9, 9.7.4.6",
    ),
    Opcode(
        "neg",
        "arithmetic",
        "T: T",
        syntax=("neg(.s16|.s32|.s64)", "neg[.ftz].f32", "neg.f64", f"neg[.ftz]{HALF}", f"neg{BF}"),
        section="9.7.1.11, 9.7.3.10, 9.7.4.5",
    ),
    *(
        Opcode(
            name,
            "arithmetic",
            "T: T T T?",
            syntax=(
                f"{name}{INT}",
                f"{name}(.u16x2|.s16x2)",
                f"{name}.relu(.s16x2|.s32)",
                f"{name}[.ftz][.NaN][.xorsign.abs].f32",
                f"{name}.f64",
                f"{name}[.ftz][.NaN][.xorsign.abs]{HALF}",
                f"{name}[.NaN][.xorsign.abs]{BF}",
            ),
            section=section,
        )
        for name, section in (("min", "9.7.1.12, 9.7.3.11, 9.7.4.7"), ("max", "9.7.1.13, 9.7.3.12, 9.7.4.8"))
    ),
)
