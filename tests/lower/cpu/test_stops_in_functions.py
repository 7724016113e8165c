"""Which kernels the vector leg leaves to the plain one: those that may reach a real function in which a warp has to wait."""

from __future__ import annotations

import pytest

from cuttle.lower.cpu.compile_kernel import compile_kernel
from cuttle.lower.cpu.options import CompileOptions
from cuttle.ptx.parser import parse_module

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
WAITING = """
.func wait(.param .u64 a, .param .u32 n)
{
    .reg .b64 %a; .reg .b32 %n, %v; .reg .pred %p;
    ld.param.u64 %a, [a]; ld.param.u32 %n, [n];
    setp.eq.u32 %p, %n, 0; @%p ret;
    BODY
    sub.u32 %n, %n, 1;
    { .param .b64 x; .param .b32 y; st.param.b64 [x], %a; st.param.b32 [y], %n; call wait, (x, y); }
    ret;
}
"""
CALL = """
.visible .entry k(.param .u64 a)
{
    .reg .b64 %a;
    ld.param.u64 %a, [a];
    { .param .b64 x; .param .b32 y; st.param.b64 [x], %a; st.param.b32 [y], 3; call wait, (x, y); }
    ret;
}
"""
POINTER = """
.visible .entry k(.param .u64 a)
{
    .reg .b64 %a, %f;
    ld.param.u64 %a, [a];
    mov.u64 %f, wait; add.u64 %f, %f, %a;
    shape: .callprototype _ (PARAMETERS);
    { .param .b64 x; .param .b32 y; st.param.b64 [x], %a; ARGUMENTS call %f, (NAMES), shape; }
    ret;
}
"""
ALIKE = (
    POINTER.replace("PARAMETERS", ".param .b64 _, .param .b32 _")
    .replace("ARGUMENTS", "st.param.b32 [y], 3;")
    .replace("NAMES", "x, y")
)
OTHER = POINTER.replace("PARAMETERS", ".param .b64 _").replace("ARGUMENTS", "").replace("NAMES", "x")


def mode(text: str) -> str:
    found: str = compile_kernel(parse_module(HEAD + text), "k", CompileOptions(optimization=0)).metadata["report"][
        "mode"
    ]
    return found


@pytest.mark.parametrize(
    "body",
    [
        "bar.sync 0;",
        "barrier.sync 1, 64;",
        "AGAIN: ld.volatile.global.u32 %v, [%a]; setp.eq.u32 %p, %v, 0; @%p bra AGAIN;",
    ],
)
@pytest.mark.parametrize("kernel", [CALL, ALIKE])
def test_plain_where_a_function_stops(body: str, kernel: str) -> None:
    assert mode(WAITING.replace("BODY", body) + kernel) == "plain"


def test_exit_in_a_function() -> None:
    assert mode(WAITING.replace("BODY", "@%p exit; exit;") + CALL) == "plain"


def test_other_kernels_stay() -> None:
    """Functions that do not stop, and those that do and that no call can mean."""
    assert mode(WAITING.replace("BODY", "st.global.u32 [%a], %n;") + CALL) == "regions"
    assert mode(WAITING.replace("BODY", "bar.sync 0;") + OTHER) == "regions"
