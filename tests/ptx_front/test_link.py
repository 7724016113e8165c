"""Linking of PTX modules."""

from __future__ import annotations

import pytest

from cuttle.errors import PtxError
from cuttle.ptx.ir import Instruction, Module, Symbol
from cuttle.ptx.link import link_texts, unresolved_symbols
from cuttle.ptx.parser import parse_module
from cuttle.ptx.printer import print_module, without_places
from cuttle.ptx.validator import validate_module


def ptx(text: str, target: str = "sm_80", version: str = "8.0", bits: int = 64) -> str:
    return f".version {version}\n.target {target}\n.address_size {bits}\n{text}\n"


def link(*texts: str) -> Module:
    module = link_texts([(f"m{number}", ptx(text)) for number, text in enumerate(texts)])
    assert validate_module(module) == []
    assert without_places(parse_module(print_module(module))) == without_places(module)
    return module


USER = """.extern .global .b32 counter; .extern .func (.param .b32 r) next (.param .b32 x);
.visible .entry k() { .reg .b32 %r<3>; ld.global.b32 %r1, [counter]; call (%r2), next, (%r1); ret; }"""
OWNER = """.visible .global .b32 counter = 7;
.visible .func (.param .b32 r) next (.param .b32 x) { ret; }"""


def test_externals_are_resolved_in_any_order() -> None:
    for texts in ((USER, OWNER), (OWNER, USER)):
        module = link(*texts)
        assert module.variables["counter"].initial == b"\7\0\0\0"
        assert module.functions["next"].statements is not None
        assert unresolved_symbols(module) == ()


def test_unresolved_symbols_are_named_with_their_users() -> None:
    with pytest.raises(PtxError, match="2 unresolved symbols: `next` .used by m0.; `counter`") as raised:
        link(USER)
    assert raised.value.code == "PTX-0401"


def test_functions_of_the_device_need_no_definition() -> None:
    module = link(".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a); .entry k() { ret; }")
    assert module.functions["vprintf"].statements is None


def test_strong_symbols_may_be_defined_once() -> None:
    with pytest.raises(PtxError, match="`counter` is defined in m0 and in m2") as raised:
        link(".visible .global .b32 counter;", USER.replace("counter", "other"), ".visible .global .b32 counter;")
    assert raised.value.code == "PTX-0402"


def test_weak_yields_to_strong_and_to_the_first_weak() -> None:
    weak = [f".weak .func (.param .b32 r) f () {{ st.param.b32 [r], {n}; ret; }}" for n in range(3)]
    assert print_module(link(weak[1], weak[2])).count("[r], 1") == 1
    strong = weak[0].replace(".weak", ".visible")
    for texts in ((weak[1], strong), (strong, weak[1])):
        assert "[r], 0" in print_module(link(*texts))


def test_common_merges_to_the_largest() -> None:
    small, large = ".common .global .align 8 .b8 buffer[4];", ".common .global .align 4 .b8 buffer[64];"
    for texts in ((small, large), (large, small)):
        variable = link(*texts).variables["buffer"]
        assert (variable.size_bytes, variable.align) == (64, 8)


def test_local_symbols_that_clash_are_renamed_everywhere() -> None:
    local = """.global .b32 mine = {number}; .global .u64 pointer{number} = mine;
.func (.param .b32 r) get () {{ .reg .b32 %r<2>; ld.global.b32 %r1, [mine]; st.param.b32 [r], %r1; ret; }}
.visible .entry k{number}() {{ .reg .b32 %r<2>; .reg .b64 %rd<2>; call (%r1), get; mov.u64 %rd1, mine+4; ret; }}"""
    module = link(local.format(number=0), local.format(number=1), ".visible .global .b32 mine = 9;")
    assert set(module.variables) == {"mine$m0", "pointer0", "mine$m1", "pointer1", "mine"}
    assert module.variables["pointer1"].relocations[0].symbol == "mine$m1"
    statements = module.functions["k1"].statements or []
    call, move = [s for s in statements if isinstance(s, Instruction)][:2]
    assert call.call is not None and call.call.callee == Symbol("get$m1")
    assert move.operands[1] == Symbol("mine$m1", 4)


def test_dynamic_shared_memory_is_merged() -> None:
    texts = [f".extern .shared .align {align} .b8 pool[]; .entry k{align}() {{ ret; }}" for align in (4, 16)]
    assert link(*texts).variables["pool"].align == 16


def test_header_of_the_result() -> None:
    module = link_texts(
        [("a", ptx("", "sm_75, debug", "7.1")), ("b", ptx("", "sm_90a", "8.3")), ("c", ptx("", "sm_90", "8.0"))]
    )
    assert (module.version, module.target) == ((8, 3), ("sm_90a", "debug"))


def test_files_are_renumbered() -> None:
    text = '.file 1 "{name}"\n.entry k{name}() {{ .loc 1 5 1\n ret; }}'
    module = link(text.format(name="a"), text.format(name="b"))
    assert module.files == {1: "a", 2: "b"}
    statement = (module.functions["kb"].statements or [])[0]
    assert isinstance(statement, Instruction) and statement.location.source_file == 2


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ("PTX-0403", (".extern .func counter; .entry k() { call counter; }", ".visible .global .b32 counter;")),
        ("PTX-0403", (".extern .shared .b32 counter;", ".visible .global .b32 counter;")),
        ("PTX-0403", (".extern .func f (.param .b32 a);", ".visible .func f () { ret; }")),
    ],
)
def test_disagreement(code: str, texts: tuple[str, ...]) -> None:
    with pytest.raises(PtxError) as raised:
        link(*texts)
    assert raised.value.code == code


def test_modules_that_do_not_fit() -> None:
    with pytest.raises(PtxError, match="PTX-0404"):
        link_texts([("a", ptx("")), ("b", ptx("", bits=32))])
    with pytest.raises(PtxError, match="PTX-0405"):
        link_texts([])
