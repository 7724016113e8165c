"""Calls through pointers, whose parameters travel in memory."""

from __future__ import annotations

import numpy as np
import pytest

from cuttle.errors import PtxError
from cuttle.lower.cpu.compile_kernel import compile_kernel
from cuttle.lower.cpu.options import CompileOptions
from cuttle.ptx.parser import parse_module
from tests.lower.cpu.kernels import HEADER, check, entry

U32 = np.uint32

CALLEES = """
.visible .func (.reg .u32 sum) first(.reg .u32 index, .reg .u64 data, .param .align 4 .b8 more[4])
{
  .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.b32 %r1, [more];
  ld.global.u32 %r2, [data];
  add.u32 sum, index, %r1;
  setp.gt.u32 %p1, index, 20;
  @%p1 ret;
  add.u32 sum, sum, %r2;
  ret;
}
.visible .func (.reg .u32 sum) second(.reg .u32 index, .reg .u64 data, .param .align 4 .b8 more[4])
{
  mov.u32 sum, index;
}
.global .u64 table[2] = {first, second};
"""
BODY = """
  and.b32 %r1, %t, 1;
  ld.global.u64 %d1, table[%r1];
  add.u32 %r2, %t, 100;
  { shape: .callprototype (.reg .u32 s) _ (.reg .u32 i, .reg .u64 d, .param .align 4 .b8 m[4]);
    .param .align 4 .b8 more[4]; st.param.b32 [more], %r2;
    call (%r3), %d1, (%t, %wide, more), shape; }
  st.global.u32 [%wide], %r3;
  ret;
"""


@pytest.mark.parametrize("count", [6, 64])
def test_register_parameters(count: int) -> None:
    """Seen in Dr.Jit: `.func f(.reg .u32 index, .reg .u64 data, .param .b8 params[4])` called through a table."""
    values = np.arange(1000, 1000 + count, dtype=U32)
    t = np.arange(count)
    expected = np.where(t & 1, t, t + t + 100 + np.where(t > 20, 0, values)).astype(U32)
    table = np.zeros(2, np.uint64)
    table[:] = handles()
    check(entry(BODY, before=CALLEES), (count, 1, 1), [values], [expected, None], symbols=[table])


def handles() -> list[int]:
    from cuttle.abi.kernel_abi_constants import FUNCTION_HANDLE_BASE

    return [FUNCTION_HANDLE_BASE, FUNCTION_HANDLE_BASE | 1]


MISMATCHES = {
    "direct": "call (%r3), second, (%t);",
    "too many": "call (%r3), second, (%t, %wide, %r1, %r1);",
    "pointer": "mov.u64 %d1, second; { shape: .callprototype (.reg .u32 s) _ (.reg .u32 i); call (%r3), %d1, (%t, %t), shape; }",
    "targets": "mov.u64 %d1, second; { list: .calltargets second; call (%r3), %d1, (%t), list; }",
}


@pytest.mark.parametrize("plain", [False, True], ids=["vectors", "plain"])
@pytest.mark.parametrize("call", MISMATCHES.values(), ids=MISMATCHES.keys())
def test_another_number_of_arguments_is_refused(call: str, plain: bool) -> None:
    """Found by fuzzing. With too few, the callee would read what the stack holds; ptxas refuses such calls, too."""
    module = parse_module(HEADER + entry(call + "st.global.u32 [%wide], %r3; ret;", before=CALLEES))
    options = CompileOptions(plain=plain, optimization=0, block_shape=(32, 1, 1))
    with pytest.raises(PtxError) as error:
        compile_kernel(module, "k", options)
    assert error.value.code == "PTX-0207" and "takes" in error.value.message


@pytest.mark.parametrize("plain", [False, True], ids=["vectors", "plain"])
@pytest.mark.parametrize("space", ["global", "const"])
def test_a_variable_that_nothing_defines_is_refused(space: str, plain: bool) -> None:
    """It must not read as 0. The same module may be loaded, and its other kernels run."""
    text = f".extern .{space} .u32 missing;\n" + entry(
        f"ld.{space}.u32 %r1, [missing]; st.global.u32 [%wide], %r1; ret;"
    )
    module = parse_module(HEADER + text)
    with pytest.raises(PtxError) as error:
        compile_kernel(module, "k", CompileOptions(plain=plain, optimization=0, block_shape=(32, 1, 1)))
    assert error.value.code == "PTX-0203" and "missing" in error.value.message


@pytest.mark.parametrize("plain", [False, True], ids=["vectors", "plain"])
def test_launches_from_kernels_are_refused_by_name(plain: bool) -> None:
    text = ".extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 f);\n" + entry(
        "{ .param .b64 f; .param .b64 r; st.param.b64 [f], %out; call.uni (r), __cudaCDP2GetParameterBufferV2, (f); } ret;"
    )
    with pytest.raises(PtxError, match="dynamic parallelism") as error:
        compile_kernel(parse_module(HEADER + text), "k", CompileOptions(plain=plain, optimization=0))
    assert error.value.code == "PTX-0304"
