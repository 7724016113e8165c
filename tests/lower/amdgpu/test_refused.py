"""Every row of the list of PTX that is refused on AMD GPUs."""

from __future__ import annotations

import pytest

from cuttle.abi.ptx_isa.refused_on_amdgpu import REFUSED_ON_AMDGPU
from cuttle.errors import PtxError, error_row
from cuttle.lower.amdgpu.compile_kernel import compile_kernel
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.ptx.parser import parse_module

HEADER = ".version 8.8\n.target sm_90\n.address_size 64\n"


def recursive(statement: str) -> str:
    """A recursive function that executes a statement."""
    return (
        ".func (.param .b32 r) f(.param .b32 n) { .reg .b32 %n<3>; .reg .pred %p; ld.param.u32 %n0, [n]; setp.eq.u32 %p, %n0, 0;\n"
        f"{statement}\n@%p bra END; sub.u32 %n1, %n0, 1;\n"
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %n1; call (b), f, (a); ld.param.b32 %n0, [b]; }\n"
        "END: st.param.b32 [r], %n0; ret; }\n"
        ".visible .entry k(.param .u64 p) { .reg .b32 %r<2>; .reg .b64 %a; ld.param.u64 %a, [p]; ld.global.u32 %r0, [%a];\n"
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call (b), f, (a); ld.param.b32 %r1, [b]; }\n"
        "st.global.u32 [%a], %r1; ret; }"
    )


EXAMPLES = {
    "PTX-0601": ".visible .entry k(.param .u64 p) { .reg .b64 %a; .reg .b128 %v<2>; ld.param.u64 %a, [p]; ld.global.b128 %v0, [%a];\n"
    "atom.global.exch.b128 %v1, [%a], %v0; st.global.b128 [%a], %v1; ret; }",
    "PTX-0602": recursive("bar.sync 0;"),
    "PTX-0603": recursive("@%p exit;"),
    "PTX-0606": ".const .u32 c = 1;\n.visible .entry k(.param .u64 p) { .reg .pred %p; .reg .b64 %a; ld.param.u64 %a, [p]; ld.global.u64 %a, [%a];\n"
    "isspacep.global %p, %a; @%p st.u32 [%a], 1; ret; }",
    "PTX-0607": ".visible .entry k() { barrier.cluster.arrive; barrier.cluster.wait; ret; }",
    "PTX-0609": ".visible .entry k(.param .u64 p) { .reg .b64 %a; .reg .f32 %f<4>; ld.param.u64 %a, [p]; ld.global.f32 %f0, [%a];\n"
    "tex.cube.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%a, {%f0, %f0, %f0, %f0}]; st.global.f32 [%a], %f0; ret; }",
    "PTX-0605": ".visible .entry k(.param .u64 p) { .shared .align 4 .b8 s[65540]; .reg .b32 %r; mov.u32 %r, s; st.shared.u32 [%r+65536], %r; ret; }",
}


@pytest.mark.parametrize("row", REFUSED_ON_AMDGPU, ids=lambda row: row.code)
def test_the_kernel_is_refused_with_its_code(row) -> None:
    with pytest.raises(PtxError) as error:
        compile_kernel(parse_module(HEADER + EXAMPLES[row.code]), "k", AmdgpuOptions("gfx1100"))
    assert error.value.code == row.code
    assert error.value.where.kernel == "k"
    assert error.value.hint == row.hint
    assert error_row(row.code) is not None


def test_every_example_has_a_row() -> None:
    assert set(EXAMPLES) == {row.code for row in REFUSED_ON_AMDGPU}
