"""Operands against rows: everything that a GPU's assembler took passes, everything broken is told in words."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from typing import Any

import pytest

from cuttle.abi.ptx_isa import OPCODES
from cuttle.abi.ptx_isa.refused import refused_by
from cuttle.errors import PtxError
from cuttle.lower.amdgpu import compile_kernel as amdgpu
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.lower.cpu import compile_kernel as cpu
from cuttle.lower.cpu.options import CompileOptions
from cuttle.lower.ops.check_operands import check_instruction, vocabulary
from cuttle.ptx.ir import TYPE_BITS, Module
from cuttle.ptx.opcode_roots import split_opcode
from cuttle.ptx.parser import parse_module
from cuttle.sweep.golden import FOLDER, records

HEAD = """.version 8.0
.target sm_80
.address_size 64
.func f() { ret; }
"""
REGISTERS = ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<4>;"

# Every way of making code of a kernel: the rules are the same for all.
LEGS: dict[str, Callable[[Module, str], Any]] = {
    "cpu": lambda module, kernel: cpu.compile_kernel(module, kernel, CompileOptions(optimization=0)),
    "plain": lambda module, kernel: cpu.compile_kernel(module, kernel, CompileOptions(optimization=0, plain=True)),
    "amdgpu": lambda module, kernel: amdgpu.compile_kernel(module, kernel, AmdgpuOptions("gfx1100")),
}
in_every_leg = pytest.mark.parametrize("compile_kernel", LEGS.values(), ids=LEGS)


def test_all_recorded_forms_pass() -> None:
    for record in records():
        form = record.form
        kinds = {f"%d{i}": kind for i, (kind, _) in enumerate(form.destinations)}
        kinds |= {f"%s{i}": kind for i, (kind, _) in enumerate(form.sources)}
        registers = {
            name: kind if kind in ("pred", "f16", "f32", "f64") else f"b{max(16, TYPE_BITS[kind])}"
            for name, kind in kinds.items()
        }
        check_instruction(form.instruction, registers, ())


@in_every_leg
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("add.s32 %r1, %r2;", "too few operands"),
        ("add.s32 %r1, %r2, %r3, %r3;", "too many operands"),
        ("add.s32 7, %r2, %r3;", "found a number where the result's register is expected"),
        ("add.s32 %r1, [%d1], %r3;", "found an address in brackets where a value of type .s32 is expected"),
        ("add.s32 %r1, %p1, %r3;", "%p1 is of type .pred where .s32 is expected"),
        ("add.s64 %d1, %r1, %d2;", "%r1 is of type .b32, which is narrower than .s64"),
        ("setp.lt.s32 %r1, %r2, %r3;", "%r1 is of type .b32 where .pred is expected"),
        (
            "setp.s32 %p1, %r2, %r3; selp.b32 %r1, %r2, %r3, %p1; st.global.b32 [%d1], %r1;",
            "`setp.s32` is no form of setp",
        ),
        ("add.s32 %r1, %r2, %r3|%p1;", "found a pair of registers behind the results"),
        ("ld.global.u32 %r1, %d1;", "found a register where an address in brackets is expected"),
        ("ld.global.u32 %r1, [%h1];", "%h1 of type .b16 cannot hold an address"),
        ("ld.global.u32 %r1, [f];", "`f` is a function, not memory"),
        ("ld.global.v4.u32 {%r1, %r2}, [%d1];", "a brace list of 2 where 4 is expected"),
        ("ld.global.u32 {%r1, %r2}, [%d1];", "a brace list of 2 where no list is expected"),
        ("mov.b32 {%r1, %r2, %r3}, %r4;", ".b32 has no 3 equal parts"),
        ("selp.b32 %r1, %r2, %r3, !%p1;", ""),
        ("ld.global.u32 %r1, [%d1-9223372036854775808];", ""),
        ("bar.sync %r1|%p1, 32;", "found a pair of registers behind the results"),
        ("atom.global.u32 %r1, [%d1], %r2;", "`atom.global.u32` is no form of atom"),
        ("mul.wide.f32 %d1, %f1, %f2;", "there is no type twice as wide as .f32"),
        ("bar.sync [%d1];", "found an address in brackets where a value of type .u32 is expected"),
        ("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f1}, %d1, %r1;", "without a texture operand in brackets"),
        ("tex.1d.v4.f32.s32 {%f1, %f2, %f3}, [%d1, {%r1}];", "a brace list of 3 where 4 is expected"),
        ("tex.1d.v4.f32.s32 %f1, [%d1, {%r1}];", "no brace list where one of 4 is expected"),
        ("tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f0}|%p1, [%d1, {%r1, %r2, %r3}];", "3 coordinates where .1d expects 1"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, %f1];", "1 coordinates where .2d expects 2"),
        ("tex.3d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1, %f2, %f3}];", "3 coordinates where .3d expects 4"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1, %f2}], {%r1};", "1 offsets where .2d expects 2"),
        (
            "tex.cube.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1, %f2, %f3, %f0}], {%r1, %r2};",
            "2 offsets where .cube expects none",
        ),
        (
            "tex.level.3d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1, %f2, %f3, %f0}], %f1, %r1;",
            "no brace list where the offsets of .3d",
        ),
        (
            "tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1, %f2}], {%f1}, {%f1, %f2};",
            "1 gradients where .2d expects 2",
        ),
        (
            "tex.grad.1d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1}], %f1, %f2;",
            "no brace list where the gradients of .1d",
        ),
        ("tld4.r.2d.v4.f32.f32 {%f1, %f2}, [%d1, {%f1, %f2}];", "a brace list of 2 where 4 is expected"),
        ("suld.b.2d.v2.b32.trap {%r1, %r2}, [%d1, {%r1}];", "1 coordinates where .2d expects 2"),
        ("suld.b.1d.v2.b32.trap {%r1}, [%d1, {%r1}];", "a brace list of 1 where 2 is expected"),
        ("sust.b.1d.v4.b32.trap [%d1, {%r1}], {%r1, %r2};", "a brace list of 2 where 4 is expected"),
        ("sured.b.add.2d.u32.trap [%d1, {%r1}], %r2;", "1 coordinates where .2d expects 2"),
        ("st.async.mbarrier::complete_tx::bytes.v2.b32 [%d1], {%r1}, [%d2];", "a brace list of 1 where 2 is expected"),
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1, %f2, %f3, %f0}];", ""),
        ("suld.b.1d.b32.trap {%r1}, [%d1, {%r1}];", ""),
        ("fence.acquire.sync_restrict::shared::cluster.cluster;", ""),
        ("fence.release.sync_restrict::shared::cta.cluster;", ""),
        ("sust.b.3d.b32.trap [%d1, {%r1, %r2, %r3, %r3}], %r1;", ""),
        ("sured.b.add.3d.u32.trap [%d1, {%r1, %r2, %r3, %r3}], %r1;", ""),
    ],
)
def test_broken_instructions_are_told_in_words(
    line: str, words: str, compile_kernel: Callable[[Module, str], Any]
) -> None:
    module = parse_module(f"{HEAD}.visible .entry k() {{ {REGISTERS}\n{line}\nret; }}")
    if not words:
        compile_kernel(module, "k")
        return
    with pytest.raises(PtxError) as caught:
        compile_kernel(module, "k")
    error = caught.value
    assert (error.code, error.where.line, error.where.kernel) == ("PTX-0207", 6, "k")
    assert words in error.message
    assert "expected" in error.message
    assert error.where.instruction


@pytest.mark.parametrize(
    "line",
    [
        "ld.global.foo.u32 %r1, [%d1];", "ld.global.sat.u32 %r1, [%d1];", "st.global.rn.f32 [%d1], %f0;", "ld.global.v3.u32 {%r1, %r2, %r3}, [%d1];",
        "atom.global.add.sat.u32 %r1, [%d1], %r2;", "red.global.add.rn.f32 [%d1], %f0;", "bar.sync.foo 0;", "membar.gl.sat;",
        "tex.1d.foo.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1}];", "shfl.sync.up.sat.b32 %r1, %r2, 1, 0, -1;", "redux.sync.add.sat.s32 %r1, %r2, -1;",
        "suld.b.1d.b32.foo %r1, [%d1, {%r1}];", "tld4.r.1d.v4.f32.f32 {%f1, %f2, %f3, %f0}, [%d1, {%f1}];", "activemask.foo.b32 %r1;", "nanosleep.foo.u32 %r1;", "ret.foo;", "exit.foo;", "trap.sat;",
    ],
)  # fmt: skip
@in_every_leg
def test_unknown_modifiers_are_refused_everywhere(line: str, compile_kernel: Callable[[Module, str], Any]) -> None:
    module = parse_module(f"{HEAD}.visible .entry k() {{ {REGISTERS} {line} ret; }}")
    with pytest.raises(PtxError, match=r"is unknown here|brace list") as caught:
        compile_kernel(module, "k")
    assert caught.value.code in ("PTX-0304", "PTX-0207")


def test_no_modifier_that_ptxas_takes_is_unknown() -> None:
    """Of all spellings that ptxas 13.0 accepts for sm_80 and sm_90 (`tools/ask_ptxas.py`)."""
    seen, unknown = 0, set()
    for line in lzma.open(FOLDER / "accepted_ptx.xz", "rt"):
        parts = split_opcode(line.split(" ", 2)[2].strip()) if not line.startswith("#") else None
        row = OPCODES.get(parts[0]) if parts is not None else None
        if parts is None or row is None or row.status in ("todo", "refuse") or refused_by(parts[0], parts[1]):
            continue
        seen += 1
        unknown |= {(row.name, part) for part in parts[1] if row.syntax and part not in vocabulary(row)}
    assert seen > 15_000 and not unknown


@in_every_leg
def test_a_modifier_that_the_opcode_does_not_have_is_not_passed_over(
    compile_kernel: Callable[[Module, str], Any],
) -> None:
    module = parse_module(f"{HEAD}.visible .entry k() {{ {REGISTERS} add.hi.s32 %r1, %r2, %r3; ret; }}")
    with pytest.raises(PtxError, match="`add.hi.s32`: .hi is unknown here") as caught:
        compile_kernel(module, "k")
    assert caught.value.code == "PTX-0304"


@in_every_leg
def test_a_broken_function_that_only_a_pointer_may_reach_does_not_hinder_the_kernel(
    compile_kernel: Callable[[Module, str], Any],
) -> None:
    text = f"""{HEAD}.func g() {{ {REGISTERS} add.s32 %r1, %r2; ret; }}
.func h() {{ wgmma.fence.sync.aligned; ret; }}
.visible .entry k(.param .u64 p) {{ .reg .b64 %d<3>;
ld.param.u64 %d1, [p]; mov.u64 %d2, h; st.global.u64 [%d1], %d2; mov.u64 %d2, g; st.global.u64 [%d1], %d2;
P: .callprototype _ ();
call %d2, P;
ret; }}
.visible .entry broken() {{ call g; ret; }}
.visible .entry refused() {{ call h; ret; }}"""
    module = parse_module(text)
    assert compile_kernel(module, "k")
    with pytest.raises(PtxError, match="too few operands"):
        compile_kernel(module, "broken")
    with pytest.raises(PtxError, match="PTX-0501"):
        compile_kernel(module, "refused")
