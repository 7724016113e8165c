"""Floating-point opcodes beyond arithmetic: roots, transcendental approximations, tests (PTX ISA 9.0, 9.7.3, 9.7.4)."""

from __future__ import annotations

from cuttle.abi.ptx_isa.row import Opcode

ROWS: tuple[Opcode, ...] = (
    Opcode("testp", "floating", "P: T", syntax=(
        "testp(.finite|.infinite|.number|.notanumber|.normal|.subnormal)(.f32|.f64)",
    ), since=("2.0", "sm_20"), section="9.7.3.1"),
    Opcode("copysign", "floating", "T: T T", syntax=("copysign(.f32|.f64)",), since=("2.0", "sm_20"), section="9.7.3.2"),
    Opcode("rcp", "floating", "T: T", syntax=(
        "rcp(.approx|.rn|.rz|.rm|.rp)[.ftz].f32", "rcp(.rn|.rz|.rm|.rp)[.ftz].f64", "rcp.approx.ftz.f64",
    ), section="9.7.3.13, 9.7.3.14"),
    Opcode("sqrt", "floating", "T: T", syntax=(
        "sqrt(.approx|.rn|.rz|.rm|.rp)[.ftz].f32", "sqrt(.rn|.rz|.rm|.rp).f64",
    ), section="9.7.3.15"),
    Opcode("rsqrt", "floating", "T: T", syntax=(
        "rsqrt.approx[.ftz].f32", "rsqrt.approx[.ftz].f64",
    ), section="9.7.3.16, 9.7.3.17"),
    Opcode("sin", "floating", "T: T", syntax=("sin.approx[.ftz].f32",), section="9.7.3.18"),
    Opcode("cos", "floating", "T: T", syntax=("cos.approx[.ftz].f32",), section="9.7.3.19"),
    Opcode("lg2", "floating", "T: T", syntax=("lg2.approx[.ftz].f32",), section="9.7.3.20"),
    Opcode("ex2", "floating", "T: T", syntax=(
        "ex2.approx[.ftz].f32", "ex2.approx(.f16|.f16x2)", "ex2.approx.ftz(.bf16|.bf16x2)",
    ), section="9.7.3.21, 9.7.4.10"),
    Opcode("tanh", "floating", "T: T", syntax=(
        "tanh.approx.f32", "tanh.approx(.f16|.f16x2|.bf16|.bf16x2)",
    ), since=("7.0", "sm_75"), section="9.7.3.22, 9.7.4.9"),
)  # fmt: skip
