"""The quick look at a kernel's text finds what compiling it would refuse, and nothing in kernels that run."""

from __future__ import annotations

import pytest

from cuttle.abi.ptx_isa.refused import REFUSED
from cuttle.bench.first_launches import kernel_text
from cuttle.errors import PtxError
from cuttle.lower.cpu.compile_kernel import compile_kernel
from cuttle.lower.cpu.options import CompileOptions
from cuttle.ptx.parser import index_module, parse_module
from cuttle.ptx.refusals import refusal_of

HEAD = ".version 8.8\n.target sm_90\n.address_size 64\n"


@pytest.mark.parametrize("row", [row for row in REFUSED if row.rules], ids=lambda row: row.code)
def test_everything_that_is_refused_by_its_spelling(row: object) -> None:
    example = row.example  # type: ignore[attr-defined]
    text = f"{HEAD}.visible .entry k()\n{{\n  {example}\n  ret;\n}}\n"
    error = refusal_of(index_module(text), "k")
    assert error is not None and error.code == row.code  # type: ignore[attr-defined]


def test_a_kernel_that_runs() -> None:
    assert refusal_of(index_module(kernel_text(300)), "work") is None


def test_functions_that_only_a_pointer_leads_to_do_not_count() -> None:
    text = HEAD + (
        ".func odd()\n{\n  wgmma.fence.sync.aligned;\n  ret;\n}\n"
        ".visible .entry k(.param .u64 out)\n{\n  .reg .b64 %a, %b;\n  ld.param.u64 %a, [out];\n"
        "  mov.u64 %b, odd;\n  st.global.u64 [%a], %b;\n  ret;\n}\n"
    )
    assert refusal_of(index_module(text), "k") is None
    compile_kernel(parse_module(text), "k", CompileOptions())


def test_the_look_and_the_compiler_agree_about_calls() -> None:
    text = HEAD + (
        ".func odd()\n{\n  wgmma.fence.sync.aligned;\n  ret;\n}\n.func even()\n{\n  call.uni odd, ();\n  ret;\n}\n"
        ".visible .entry k()\n{\n  call even, ();\n  ret;\n}\n"
    )
    error = refusal_of(index_module(text), "k")
    with pytest.raises(PtxError) as raised:
        compile_kernel(parse_module(text), "k", CompileOptions())
    assert error is not None and error.code == raised.value.code
