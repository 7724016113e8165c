"""The PTX parser: grammar, names, errors."""

from __future__ import annotations

import importlib
import pkgutil
import struct
from pathlib import Path

import pytest

from cuttle.abi import ptx_isa
from cuttle.abi.ptx_isa.row import Opcode
from cuttle.errors import PtxError
from cuttle.ptx.ir import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    LabelMark,
    Negated,
    PredicatePair,
    Register,
    Relocation,
    SelectedRegister,
    Sink,
    SpecialRegister,
    Symbol,
    TextureOperand,
    Vector,
)
from cuttle.ptx.opcode_roots import ROOTS, split_opcode
from cuttle.ptx.parser import index_module, parse_function, parse_module
from cuttle.ptx.printer import print_module, without_places
from cuttle.ptx.validator import validate_module

DATA = Path(__file__).parent / "data"
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def body(text: str, declarations: str = "", parameters: str = "") -> Function:
    """The function `f` with the body `text` and some registers."""
    module = parse_module(
        f"{HEAD}{declarations}\n.visible .entry f({parameters})\n{{ .reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %rd<9>;"
        f"\n.reg .f32 %f<9>;\n{text}\n}}\n"
    )
    return module.functions["f"]


def instructions(function: Function) -> list[Instruction]:
    return [s for s in function.statements or () if isinstance(s, Instruction)]


def first(text: str, **more: str) -> Instruction:
    return instructions(body(text, **more))[0]


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.glob("*.ptx")))
def test_round_trip(name: str) -> None:
    module = parse_module((DATA / name).read_bytes(), name)
    assert validate_module(module) == []
    again = parse_module(print_module(module))
    assert without_places(again) == without_places(module)
    # Declarations are printed first, so the order of functions may change once, and never again.
    assert print_module(parse_module(print_module(again))) == print_module(again)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%r1", Register("%r1")),
        ("%tid.x", SpecialRegister("%tid.x")),
        ("%clock64", SpecialRegister("%clock64")),
        ("%pm7_64", SpecialRegister("%pm7_64")),
        ("WARP_SZ", SpecialRegister("WARP_SZ")),
        ("-1", Immediate(2**64 - 1)),
        ("0x1Fu".upper().replace("X", "x"), Immediate(31)),
        ("0b101", Immediate(5)),
        ("017", Immediate(15)),
        ("(1 << 4) | 3", Immediate(19)),
        ("WARP_SZ - 1", Immediate(31)),
        ("1 ? 2 : 3", Immediate(2)),
        ("-7 / 2", Immediate(2**64 - 3)),
        ("-7 % 2", Immediate(2**64 - 1)),
        ("-1 > 0u".replace("u", "U"), Immediate(1)),
        ("!5", Immediate(0)),
        ("0f3F800000", Immediate(0x3F800000, 32)),
        ("-0f3F800000", Immediate(0xBF800000, 32)),
        ("0d3FF0000000000000", Immediate(0x3FF0000000000000, 64)),
        ("1.5", Immediate(struct.unpack("<Q", struct.pack("<d", 1.5))[0], 64)),
        ("-1e3", Immediate(struct.unpack("<Q", struct.pack("<d", -1000.0))[0], 64)),
        ("g", Symbol("g")),
        ("g+8", Symbol("g", 8)),
        ("g - 8", Symbol("g", -8)),
        ("g[2]", Symbol("g", 8)),
        ("{%r1, _, 3}", Vector((Register("%r1"), Sink(), Immediate(3)))),
    ],
)  # fmt: skip
def test_operand_forms(text: str, expected: object) -> None:
    assert first(f"mov.b32 %r0, {text};", declarations=".global .b32 g[4];").operands[1] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[%rd1]", Address(Register("%rd1"))),
        ("[%rd1+4]", Address(Register("%rd1"), 4)),
        ("[ %rd1 + -4 ]", Address(Register("%rd1"), -4)),
        ("[%rd1-4*2]", Address(Register("%rd1"), -8)),
        ("[g+12]", Address(Symbol("g"), 12)),
        ("[16]", Address(None, 16)),
        ("g[3]", Address(Symbol("g"), 12)),
    ],
)
def test_address_forms(text: str, expected: object) -> None:
    assert first(f"ld.global.b32 %r0, {text};", declarations=".global .b32 g[4];").operands[1] == expected


def test_destination_pairs_and_negated_predicates() -> None:
    instruction = first("setp.lt.and.s32 %p1|_, %r1, 2, !%p2;")
    assert instruction.operands[0] == PredicatePair(Register("%p1"), Sink())
    assert instruction.operands[3] == Negated(Register("%p2"))
    assert first("elect.sync _|%p1, -1;").operands[0] == PredicatePair(Sink(), Register("%p1"))


def test_video_selectors() -> None:
    operands = first("vmad.s32.u32.u32 %r1, %r2.b0, -%r3.h1, -%r4;").operands
    assert operands[1:] == (
        SelectedRegister(Register("%r2"), "b0"),
        SelectedRegister(Register("%r3"), "h1", True),
        SelectedRegister(Register("%r4"), "", True),
    )


def test_texture_operands() -> None:
    operand = first("tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, %rd2, {%f5, %f6}];").operands[1]
    assert operand == TextureOperand(Register("%rd1"), Register("%rd2"), Vector((Register("%f5"), Register("%f6"))))


def test_register_plus_constant_is_added_before() -> None:
    function = body("@%p1 st.global.b32 [%rd1], %r2 + 4; st.global.b32 [%rd1], %r2 + 4;")
    add, store, _, second = instructions(function)
    assert (add.opcode, add.types, add.guard) == ("add", ("s32",), None)
    assert add.operands == (Register("%r2$sum"), Register("%r2"), Immediate(4))
    assert store.operands[1] == Register("%r2$sum") and second.operands[1] == Register("%r2$sum$1")


def test_array_elements_by_register() -> None:
    """Seen in Dr.Jit: `ld.global.u64 %rd2, callables[%r3]`."""
    move, mad, load = instructions(body("@%p1 ld.global.b32 %r1, g[%r2];", ".global .b32 g[20];"))
    assert (move.opcode, move.types, move.operands[1], move.guard) == ("mov", ("u64",), Symbol("g"), None)
    assert (mad.opcode, mad.modifiers, mad.types) == ("mad", ("wide", "u32"), ("u32",))
    assert mad.operands == (Register("%r2$element"), Register("%r2"), Immediate(4), move.operands[0])
    assert load.operands[1] == Address(Register("%r2$element")) and load.guard is not None
    move, mad, taken = instructions(body("mov.u64 %rd1, g[%rd2 + 3];", ".global .b32 g[20];"))
    assert move.operands[1] == Symbol("g", 12) and mad.modifiers == ("lo", "u64")
    assert taken.operands[1] == Register("%rd2$element")


def test_unified_behind_the_address_is_a_modifier() -> None:
    assert first("ld.global.u32 %r1, [%rd1].unified;").modifiers == ("global", "u32", "unified")


@pytest.mark.parametrize(
    ("spelling", "root", "modifiers", "types"),
    [
        ("add.s32", "add", ("s32",), ("s32",)),
        ("cvt.rn.f32.s32", "cvt", ("rn", "f32", "s32"), ("f32", "s32")),
        ("bar.sync", "bar", ("sync",), ()),
        ("bar.warp.sync", "bar.warp.sync", (), ()),
        ("cp.async.ca.shared::cta.global", "cp.async", ("ca", "shared::cta", "global"), ()),
        ("cp.async.bulk.tensor.2d.shared::cluster.global", "cp.async.bulk.tensor", ("2d", "shared::cluster", "global"), ()),
        ("cp.async.bulk.commit_group", "cp.async.bulk.commit_group", (), ()),
        ("ld.global.nc.L2::128B.v4.f32", "ld", ("global", "nc", "L2::128B", "v4", "f32"), ("f32",)),
        ("wgmma.mma_async.sp.sync.aligned", "wgmma.mma_async.sp", ("sync", "aligned"), ()),
    ],
)  # fmt: skip
def test_opcode_roots(spelling: str, root: str, modifiers: tuple[str, ...], types: tuple[str, ...]) -> None:
    assert split_opcode(spelling) == (root, modifiers, types)


def test_every_row_of_the_isa_is_a_root() -> None:
    rows = set()
    for module in pkgutil.iter_modules(ptx_isa.__path__):
        for value in vars(importlib.import_module(f"{ptx_isa.__name__}.{module.name}")).values():
            if isinstance(value, tuple):
                rows.update(row.name for row in value if isinstance(row, Opcode))
    assert rows and rows <= ROOTS


def test_scopes_are_flattened_with_unique_names() -> None:
    function = body("mov.b32 %r1, 1; { .reg .b64 %r<3>; mov.b64 %r1, 2; { mov.b64 %r2, %r1; } } mov.b32 %r2, %r1;")
    assert [i.operands[0] for i in instructions(function)] == [
        Register("%r1"), Register("%r1$1"), Register("%r2"), Register("%r2$1"),
    ]  # fmt: skip
    assert function.registers == {"%r1": "b32", "%r1$1": "b64", "%r2": "b64", "%r2$1": "b32"}


def test_labels_are_scoped() -> None:
    function = body("{ L: bra L; } { L: bra M; } M: { bra M; bra.uni L; L: ret; }")
    targets = [i.operands[0] for i in instructions(function) if i.opcode == "bra"]
    assert targets == [Label("L"), Label("M"), Label("M"), Label("L$2")]
    marks = [s.name for s in function.statements or () if isinstance(s, LabelMark)]
    assert marks == ["L", "L$1", "M", "L$2"]


def test_variables_of_blocks_get_unique_names() -> None:
    function = body("{ .param .b32 a; st.param.b32 [a], 1; } { .param .b64 a; st.param.b64 [a], 2; }")
    assert {name: v.type for name, v in function.variables.items()} == {"a": "b32", "a$1": "b64"}
    assert instructions(function)[1].operands[0] == Address(Symbol("a$1"))


def test_register_ranges() -> None:
    function = body(".reg .f64 %r1<3>; mov.f64 %r12, 0d0000000000000000; mov.b32 %r8, 1;")
    assert function.registers == {"%r12": "f64", "%r8": "b32"}
    for name in ("%r9", "%r08", "%r13", "%q1", "r1"):
        with pytest.raises(PtxError):
            body(f".reg .f64 %r1<3>; mov.b32 %r1, {name};")


def test_parameter_layout() -> None:
    parameters = (
        ".param .u8 a, .param .u64 b, .param .align 16 .b8 c[20], .param .u16 d, .param .u64 .ptr .global .align 4 e"
    )
    function = body("ret;", parameters=parameters)
    assert [(p.name, p.offset, p.size_bytes, p.align) for p in function.parameters] == [
        ("a", 0, 1, 1), ("b", 8, 8, 8), ("c", 16, 20, 16), ("d", 36, 2, 2), ("e", 40, 8, 8),
    ]  # fmt: skip
    assert function.parameter_bytes == 48


def test_initialisers() -> None:
    module = parse_module((DATA / "operands.ptx").read_bytes())
    variables = module.variables
    assert variables["numbers"].initial == struct.pack("<4f", 1.5, -2.0, struct.unpack("<f", b"\xdb\x0f\x49\x40")[0], 1)
    assert variables["grid"].initial == struct.pack("<6I", 1, 2, 0, 3, 4, 5)
    assert variables["text"].initial == b"hi\0" and variables["text"].size_bytes == 3
    assert variables["computed"].initial == struct.pack("<I", (1 << 4) | 3 * (2 + 1) - 0x10 // 4)
    assert variables["shifted"].initial == b"\xff" * 8
    assert variables["pointers"].relocations == (
        Relocation(0, 8, "numbers"), Relocation(8, 8, "numbers", 4), Relocation(16, 8, "grid", 8, True),
        Relocation(24, 8, "helper"),
    )  # fmt: skip
    assert variables["address_bytes"].relocations[1:] == (
        Relocation(1, 1, "numbers", 0, False, 0xFF00), Relocation(2, 1, "numbers", 0, True, 0xFF0000),
    )  # fmt: skip
    assert variables["dynamic"].size_bytes == 0 and variables["dynamic"].linkage == "extern"
    assert variables["shared_with_host"].managed


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (".global .attribute(.managed) .u32 x;", ""),
        (".global .attribute( .managed , .unified(0x1, 2) ) .u32 x;", ""),
        (".func .attribute(.unified(1,2)) f() { ret; }", ""),
        (".global .attribute(.managedfoo) .u32 x;", "PTX-0103"),
        (".global .attribute(.foo) .u32 x;", "PTX-0103"),
        (".global .attribute() .u32 x;", "PTX-0103"),
        (".global .attribute(.managed .unified(1,2)) .u32 x;", "PTX-0103"),
        (".global .attribute(.unified(-1,2)) .u32 x;", "PTX-0103"),
        (".global .attribute(.unified(1)) .u32 x;", "PTX-0103"),
        (".shared .attribute(.managed) .u32 x;", "PTX-0101"),
        (".const .attribute(.managed) .u32 x;", "PTX-0101"),
        (".func f() .attribute(.managed) { ret; }", "PTX-0101"),
    ],
)
def test_attributes(text: str, code: str) -> None:
    """As ptxas 13.0 takes and refuses them (`.unified` it only takes for linking later)."""
    if not code:
        module = parse_module(HEAD + text)
        assert module.functions or module.variables["x"].managed
        return
    with pytest.raises(PtxError) as caught:
        parse_module(HEAD + text)
    assert caught.value.code == code


def test_large_flat_initialiser() -> None:
    values = [n % 251 for n in range(100_000)]
    text = f"{HEAD}.global .b8 big[100004] = {{{', '.join(map(str, values))}}};"
    assert parse_module(text).variables["big"].initial == bytes(values) + bytes(4)
    octal = f"{HEAD}.global .b8 big[] = {{{', '.join(['010'] * 100)}}};"
    assert parse_module(octal).variables["big"].initial == b"\x08" * 100


def test_calls_and_targets() -> None:
    function = parse_module((DATA / "calls.ptx").read_bytes()).functions["calls"]
    calls = [i.call for i in instructions(function) if i.call]
    assert calls[0] and calls[0].callee == Symbol("plus") and calls[0].results == (Symbol("result"),)
    assert calls[0].arguments == (Symbol("param0"), Symbol("param1"))
    assert calls[1] and calls[1].callee == Register("%rd2") and calls[1].prototype == "prototype_0"
    assert calls[2] and calls[2].arguments == (Register("%r2"), Immediate(7))
    assert calls[3] and calls[3].arguments == ()
    assert calls[4] and calls[4].prototype == "known"
    assert function.prototypes["prototype_0"].parameters[1].size_bytes == 16
    assert function.branch_targets == {"cases": ("first", "second", "first")}
    assert function.call_targets == {"known": ("plus", "sum_of")}
    assert function.directives == {"reqntid": (32,), "explicitcluster": (), "reqnctapercluster": (2, 1, 1)}


def test_places() -> None:
    module = parse_module((DATA / "calls.ptx").read_bytes())
    assert module.files == {1: "/home/user/odd {name}; file.cu", 2: "other.h"}
    places = [
        (i.location.line, i.location.source_file, i.location.source_line)
        for i in instructions(module.functions["plus"])
    ]
    text = (DATA / "calls.ptx").read_text().split("\n")
    assert text[places[0][0] - 1].strip() == "ld.param.b32 %r1, [a];"
    assert [place[1:] for place in places] == [(1, 10), (2, 7), (2, 7), (2, 7), (2, 7)]


def test_index_is_lazy() -> None:
    index = index_module(f"{HEAD}.entry good() {{ ret; }} .entry bad() {{ nonsense.b32 ; }} .func f();")
    assert index.entries == ("good", "bad")
    assert [i.opcode for i in instructions(parse_function(index, "good"))] == ["ret"]
    with pytest.raises(PtxError, match="PTX-0104"):
        parse_function(index, "bad")
    with pytest.raises(PtxError, match="PTX-0206"):
        parse_function(index, "f")


@pytest.mark.parametrize(
    ("code", "text", "line"),
    [
        ("PTX-0104", "frobnicate.b32 %r1, %r2;", 1),
        ("PTX-0101", "ret;\n ? ;", 2),
        ("PTX-0102", "ret;\nadd.s32 %r1, %r2, 3", 2),
        ("PTX-0102", "{ ret;", 1),
        ("PTX-0201", "\n\nadd.s32 %r1, %r99, 3;", 3),
        ("PTX-0201", "@%p9 ret;", 1),
        ("PTX-0205", "@%r1 ret;", 1),
        ("PTX-0202", "bra nowhere;", 1),
        ("PTX-0202", "{ L: ret; } bra L;", 1),
        ("PTX-0203", "mov.u64 %rd1, nothing;", 1),
        ("PTX-0203", "call nothing;", 1),
        ("PTX-0204", "L: ret; L: ret;", 1),
        ("PTX-0204", ".reg .b32 %r<2>;", 1),
        ("PTX-0106", "ld.global.b32 %r1, [%rd1;", 1),
        ("PTX-0106", "mov.b64 %rd1, {%r1, {%r2}};", 1),
        ("PTX-0106", "add.s32 %r1, %r2 %r3;", 1),
        ("PTX-0106", "add.s32 %r1, , %r3;", 1),
        ("PTX-0106", "mov.u32 %r1, 99999999999999999999;", 1),
        ("PTX-0107", ".reg .q32 %x;", 1),
        ("PTX-0103", ".frobnicate 1;", 1),
        ("PTX-0105", "ld.global.b32 %r1, g[g];", 1),
        ("PTX-0301", ".reg .b32 %q<99999999999>;", 1),
        ("PTX-0302", "{" * 100 + "}" * 100, 1),
    ],
)
def test_errors_name_code_and_place(code: str, text: str, line: int) -> None:
    with pytest.raises(PtxError) as raised:
        module = f"{HEAD}.global .b32 g[4];\n.entry f()\n{{.reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
        offset = module.count("\n")
        parse_module(module + text + "\n}\n", "k.ptx")
    error = raised.value
    assert error.code == code
    if not text.endswith(("3", "ret;")):  # what is never closed is reported at the end or at the opening
        assert error.where.line == offset + line and error.where.column > 0
    assert error.render().startswith(f"error[{code}]: ")
    assert "  --> k.ptx:" in error.render() and "hint: " in error.render()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("PTX-0110", ""),
        ("PTX-0110", "hello"),
        ("PTX-0110", ".version 8.0\n"),
        ("PTX-0110", ".version 8.0\n.target sm_80\n.version 8.0"),
        ("PTX-0110", ".target sm_80"),
        ("PTX-0102", HEAD + "/* no end"),
        ("PTX-0102", HEAD + ".entry f() { ret;"),
        ("PTX-0103", HEAD + ".nonsense"),
        ("PTX-0107", HEAD + ".global .b33 x;"),
        ("PTX-0101", HEAD + ".global .align 3 .b32 x;"),
        ("PTX-0204", HEAD + ".global .b32 x; .global .b32 x;"),
        ("PTX-0204", HEAD + ".entry f() {} .entry f() {}"),
        ("PTX-0303", HEAD + ".global .b32 x[2] = {1, 2, 3};"),
        ("PTX-0105", HEAD + ".global .b32 x = 1 / 0;"),
        ("PTX-0301", HEAD + ".global .b8 x[99999999999999];"),
        ("PTX-0301", HEAD + ".global .b8 x[9999999999] = {1};"),
        ("PTX-0302", HEAD + ".global .b8 x[4] = " + "{" * 90 + "1" + "}" * 90 + ";"),
        ("PTX-0105", HEAD + ".global .b8 x = " + "(" * 5000 + "1" + ")" * 5000 + ";"),
        ("PTX-0105", HEAD + ".global .b8 x = " + "-" * 5000 + "1;"),
        ("PTX-0203", HEAD + ".alias a, b;"),
        ("PTX-0101", HEAD + ".entry f() .maxntid 32 .reqntid 32 { ret; }"),
        ("PTX-0101", HEAD + ".entry f() .maxclusterrank 4 .reqnctapercluster 4 { ret; }"),
        ("PTX-0101", HEAD + ".entry f() .maxclusterrank 4, 2 { ret; }"),
        ("PTX-0101", HEAD + ".entry f() .reqntid 32, 0 { ret; }"),
        ("PTX-0101", HEAD + ".entry f() .blocksareclusters { ret; }"),
        ("PTX-0101", HEAD + ".entry f() .blocksareclusters .reqnctapercluster 4 { ret; }"),
        ("PTX-0105", HEAD + ".entry f() .reqnctapercluster 4294967300 { ret; }"),
        ("PTX-0105", HEAD + ".entry f() .reqntid -1 { ret; }"),
    ],
)
def test_module_errors(code: str, text: str) -> None:
    with pytest.raises(PtxError) as raised:
        parse_module(text)
    assert raised.value.code == code


def test_text_ends_at_nul_and_knows_dos_lines() -> None:
    module = parse_module(HEAD.replace("\n", "\r\n").encode() + b".entry f() { ret; }\0 garbage")
    assert list(module.functions) == ["f"]


def test_loc_may_end_a_body() -> None:
    assert [s.opcode for s in instructions(body("ret;\n.loc 1 2 3"))] == ["ret"]


def test_missing_semicolon_is_guessed() -> None:
    with pytest.raises(PtxError, match="`;` of this statement missing"):
        body("add.s32 %r1, %r2, %r3\nadd.s32 %r1, %r2, %r3;")


def test_validator_finds_broken_ir() -> None:
    module = parse_module(f"{HEAD}.global .u64 p = q; .entry f() {{ .reg .b32 %r<2>; L: mov.b32 %r1, 1; bra L; }}")
    function = module.functions["f"]
    function.registers.clear()
    assert function.statements is not None
    function.statements.pop(0)
    assert [error.code for error in validate_module(module)] == ["PTX-0203", "PTX-0201", "PTX-0202"]


def test_vector_moves_are_single_moves() -> None:
    """A form that no manual has and ptxas takes; Dr.Jit 1.5 clears texels with it."""
    function = body("mov.v4.b32 {%r1, %r2, %r3, %r4}, {0, 1, 2, 0x3f800000};")
    assert [(i.opcode, i.modifiers, i.operands) for i in function.statements or () if isinstance(i, Instruction)] == [
        ("mov", ("b32",), (Register(f"%r{index + 1}"), Immediate(value)))
        for index, value in enumerate((0, 1, 2, 0x3F800000))
    ]


def test_vector_moves_read_before_they_write() -> None:
    function = body("@%p1 mov.v2.b64 {%rd1, %rd2}, {%rd2, %rd1};")
    moves = [i for i in function.statements or () if isinstance(i, Instruction)]
    (first, second, third) = moves
    copy = first.operands[0]
    assert isinstance(copy, Register) and function.registers[copy.name] == "b64"
    assert [move.operands for move in moves] == [
        (copy, Register("%rd1")), (Register("%rd1"), Register("%rd2")), (Register("%rd2"), copy),
    ]  # fmt: skip
    assert all(move.guard is not None and move.opcode == "mov" for move in moves)


@pytest.mark.parametrize(
    "text",
    [
        "mov.v4.b64 {%rd1, %rd2, %rd3, %rd4}, {%rd1, %rd2, %rd3, %rd4};",
        "mov.v2.b32 {%r1, %r2, %r3}, {%r1, %r2, %r3};",
        "mov.v2.b32 {%r1, %r2}, %rd1;",
        "mov.v2.b32 {%r1, %r2};",
        "mov.v2.pred {%p1, %p2}, {%p2, %p1};",
        "mov.v2 {%r1, %r2}, {%r2, %r1};",
    ],
)
def test_vector_moves_that_ptxas_refuses(text: str) -> None:
    with pytest.raises(PtxError):
        body(text)
