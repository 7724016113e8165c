"""From statements to graphs: forms one by one, then random programs against an interpreter."""

from __future__ import annotations

import random
import time

import pytest

from cuttle.lower.passes.build_graph import build
from cuttle.lower.passes.call_graph import recursive_functions
from cuttle.lower.passes.graph import (
    Branch,
    Chunk,
    Exit,
    Graph,
    Jump,
    Node,
    SsaAddress,
    SsaNegated,
    SsaVector,
    Switch,
    ValueRef,
)
from cuttle.ptx.address_taken import address_taken
from cuttle.ptx.ir import Immediate, Symbol
from tests.lower.passes.graphs import check, graph_of, module_of
from tests.lower.passes.random_programs import random_module, run_graph, run_statements

REGISTERS = ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<10>; .reg .f32 %f<10>;"


def kernel(body: str, before: str = "") -> Graph:
    return graph_of(f"{before}\n.visible .entry k(.param .u64 q)\n{{\n{REGISTERS}\n{body}\n}}\n")


def nodes(graph: Graph) -> list[Node]:
    return [node for block in graph.blocks for node in block.nodes]


def only(graph: Graph, opcode: str) -> Node:
    (found,) = (node for node in nodes(graph) if node.opcode == opcode)
    return found


def test_operands_and_results() -> None:
    graph = kernel(
        "ld.param.u64 %rd1, [q]; ld.global.v4.b32 {%r1, _, %r3, %r4}, [%rd1+16];\n"
        "setp.ne.s32 %p1|%p2, %r1, 0; and.pred %p3, %p1, !%p2;\n"
        "@%p3 st.global.v2.b32 [%rd1], {%r3, %r4}; mov.b64 {%r5, %r6}, %rd1; st.global.b32 [%rd1], %r6; ret;"
    )
    load = [node for node in nodes(graph) if node.opcode == "ld"][1]
    assert [result is None for result in load.results] == [False, True, False, False]
    assert load.operands == (SsaAddress(ValueRef(nodes(graph)[0].results[0] or 0), 16),)
    compare = only(graph, "setp")
    assert compare.operands == (ValueRef(load.results[0] or 0), Immediate(0)) and len(compare.results) == 2
    both = only(graph, "and")
    assert both.operands == (ValueRef(compare.results[0] or 0), SsaNegated(ValueRef(compare.results[1] or 0)))
    store = [node for node in nodes(graph) if node.opcode == "st"][0]
    assert store.results == () and store.guard == ValueRef(both.results[0] or 0) and not store.guard_negated
    assert store.operands[1] == SsaVector((ValueRef(load.results[2] or 0), ValueRef(load.results[3] or 0)))
    split = only(graph, "mov")
    assert len(split.results) == 2


def test_carry_flag_is_a_value() -> None:
    graph = kernel(
        "ld.param.u64 %rd1, [q]; ld.global.b32 %r1, [%rd1]; add.cc.u32 %r2, %r1, %r1; addc.cc.u32 %r3, %r1, 0;\n"
        "addc.u32 %r4, 0, 0; st.global.v4.b32 [%rd1], {%r2, %r3, %r4, %r1}; ret;"
    )
    first = only(graph, "add")
    second, third = (node for node in nodes(graph) if node.opcode == "addc")
    assert second.operands[-1] == ValueRef(first.results[-1] or 0) and len(second.operands) == 3
    assert third.operands[-1] == ValueRef(second.results[-1] or 0) and len(third.results) == 1
    assert graph.values[first.results[-1] or 0].type == "pred"


def test_merges_only_where_visible() -> None:
    graph = kernel(
        "ld.param.u64 %rd1, [q]; ld.global.b32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 3;\n"
        "mov.u32 %r2, 5; mov.u32 %r4, 9;\n"
        "@%p1 add.u32 %r2, %r1, 1; @%p1 add.u32 %r3, %r1, 2; @%p1 add.u32 %r4, %r1, 3;\n"
        "@%p1 st.global.b32 [%rd1], %r4; st.global.b32 [%rd1+4], %r2; st.global.b32 [%rd1+8], %r3; ret;"
    )
    first, second, third = (node for node in nodes(graph) if node.opcode == "add")
    assert first.merges[0] is not None
    assert second.merges == (None,), "undefined before"
    assert third.merges == (None,), "used under the same guard only"


def test_complementary_guards_need_one_merge() -> None:
    graph = kernel(
        "ld.param.u64 %rd1, [q]; ld.global.b32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 3; mov.b32 %r2, 1;\n"
        "@%p1 add.u32 %r2, %r1, 1; @!%p1 sub.u32 %r2, %r1, 1; st.global.b32 [%rd1], %r2; ret;"
    )
    assert only(graph, "add").merges == (None,)
    assert only(graph, "sub").merges == only(graph, "add").results


def test_guarded_exits_and_branches() -> None:
    graph = kernel(
        "ld.param.u64 %rd1, [q]; ld.global.b32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 3;\n"
        "@%p1 exit; setp.eq.u32 %p2, %r1, 4; @!%p2 bra.uni L; st.global.b32 [%rd1], %r1; @%p1 trap; L: ret;"
    )
    first, second = (b.terminator for b in graph.blocks if isinstance(b.terminator, Branch))
    assert graph.blocks[first.taken].terminator == Exit("exit") and not first.uniform_hint
    assert second.negated and second.uniform_hint
    assert only(graph, "trap").guard is not None


def test_trap_ends_a_block() -> None:
    graph = kernel("trap; st.global.b32 [0], 1; ret;")
    assert [b.terminator for b in graph.blocks] == [Exit("trap")]
    assert [node.opcode for node in nodes(graph)] == ["trap"]


def test_indexed_branch() -> None:
    graph = kernel(
        "ld.param.u64 %rd1, [q]; ld.global.b32 %r1, [%rd1];\nT: .branchtargets A, B, A;\nbrx.idx.uni %r1, T;\n"
        "A: st.global.b32 [%rd1], 1; ret;\nB: st.global.b32 [%rd1], 2; ret;"
    )
    switch = graph.blocks[0].terminator
    assert isinstance(switch, Switch) and len(switch.targets) == 3 and switch.targets[0] == switch.targets[2]
    assert switch.uniform_hint and len(graph.blocks[0].successors) == 2


def test_loop_shape() -> None:
    graph = kernel(
        "ld.param.u64 %rd1, [q]; mov.b32 %r1, 0; mov.b32 %r2, 0;\n"
        "L: add.u32 %r2, %r2, %r1; add.u32 %r1, %r1, 1; setp.gt.u32 %p1, %r2, 50; @%p1 bra OUT;\n"
        "setp.lt.u32 %p2, %r1, 10; @%p2 bra L;\nOUT: st.global.b32 [%rd1], %r2; ret;"
    )
    # Two loop exits, each with a block and a phi of its own, joined by a phi.
    phis = [(block, phi) for block in graph.blocks for phi in block.phis if phi.register == "%r2"]
    assert sorted(len(phi.incoming) for _, phi in phis) == [1, 1, 2, 2]
    assert all(isinstance(block.terminator, Jump) for block, phi in phis if len(phi.incoming) == 1)


def test_register_copies_and_dead_code_vanish() -> None:
    graph = kernel(
        "ld.param.u64 %rd1, [q]; mov.b64 %rd2, %rd1; ld.global.f32 %f1, [%rd2]; mov.b32 %r1, %f1; mul.f32 %f2, %f1, %f1;\n"
        "ld.global.b32 %r7, [%rd2+4]; ld.volatile.global.b32 %r8, [%rd2+8]; st.global.b32 [%rd2], %r1; ret;"
    )
    assert [node.opcode for node in nodes(graph)] == ["ld", "ld", "ld", "st"]
    assert nodes(graph)[3].operands[1] == ValueRef(nodes(graph)[1].results[0] or 0)


CALL = (
    "{ .param .b32 x; .param .b64 y; .param .b32 z; st.param.b32 [x+0], %r1; st.param.b64 [y+0], %rd1;\n"
    "call.uni (z), f, (x, y); ld.param.b32 %r2, [z+0]; }\n"
)
START = "ld.param.u64 %rd1, [q]; ld.global.b32 %r1, [%rd1];"


def test_inlined_call_costs_nothing() -> None:
    graph = kernel(
        START + CALL + "mov.b32 %r1, %r2;" + CALL + "st.global.b32 [%rd1], %r2; ret;",
        ".func (.param .b32 r) f (.param .b32 a, .param .b64 b)\n{ .reg .b32 %r<4>; ld.param.b32 %r1, [a];\n"
        "add.s32 %r2, %r1, 1; st.param.b32 [r+0], %r2; ret; }",
    )
    assert [node.opcode for node in nodes(graph)] == ["ld", "ld", "add", "add", "st"]
    assert len(graph.blocks) == 1 and graph.needed == ()


def test_argument_with_its_address_taken_becomes_local() -> None:
    graph = kernel(
        START
        + "{ .param .align 8 .b8 s[16]; st.param.b64 [s+0], %rd1; st.param.b32 [s+8], %r1; call g, (s); }\n"
        + "st.global.b32 [%rd1], %r1; ret;",
        ".func g (.param .align 8 .b8 s[16])\n{ .reg .b64 %rd<4>; .reg .b32 %r<3>; mov.b64 %rd1, s;\n"
        "ld.param.b64 %rd2, [%rd1]; st.global.b64 [%rd2], %rd2; ret; }",
    )
    (variable,) = graph.function.variables.values()
    assert variable.space == "local" and variable.size_bytes == 16
    stores = [node for node in nodes(graph) if node.opcode == "st" and "local" in node.instruction.modifiers]
    assert len(stores) == 2
    assert [n for n in nodes(graph) if n.opcode == "ld"][2].instruction.modifiers[0] == "local"


def test_small_arguments_are_truncated_and_extended() -> None:
    graph = kernel(
        START
        + "{ .param .b32 x; .param .b32 z; st.param.b8 [x+0], %r1; call (z), h, (x); ld.param.b32 %r2, [z+0]; }\n"
        + "st.global.b32 [%rd1], %r2; ret;",
        ".func (.param .b32 r) h (.param .b32 a)\n{ .reg .b32 %r<4>; ld.param.s8 %r1, [a]; st.param.b32 [r+0], %r1; ret; }",
    )
    first, second = (node.instruction for node in nodes(graph) if node.opcode == "cvt")
    assert first.types == ("u16", "u32") and second.types == ("s32", "s8")


def test_register_parameters() -> None:
    graph = kernel(
        START + "call (%r2), f, (%r1, 7); st.global.b32 [%rd1], %r2; ret;",
        ".func (.reg .b32 %o) f (.reg .b32 %i, .reg .b32 %j)\n{ add.u32 %o, %i, %j; ret; }",
    )
    assert [node.opcode for node in nodes(graph)] == ["ld", "ld", "mov", "add", "st"]


def test_extern_call_has_plain_operands() -> None:
    graph = kernel(
        START
        + "{ .param .b64 fmt; .param .b64 args; .param .b32 n; st.param.b64 [fmt], 5; st.param.b64 [args], %rd1;\n"
        + "call (n), vprintf, (fmt, args); ld.param.b32 %r2, [n]; } st.global.b32 [%rd1], %r2; ret;",
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);",
    )
    call = only(graph, "call")
    assert call.call is not None and call.call.callee == "vprintf"
    assert call.call.arguments == ((Chunk(0, 8),), (Chunk(0, 8),)) and call.call.results == ((Chunk(0, 4),),)
    assert len(call.operands) == 2 and call.operands[1] == ValueRef(nodes(graph)[0].results[0] or 0)
    assert only(graph, "st").operands[1] == ValueRef(call.results[0] or 0)


def test_guarded_call_becomes_a_branch() -> None:
    graph = kernel(
        START + "setp.eq.u32 %p1, %r1, 0; @%p1 call e, (); st.global.b32 [%rd1], %r1; ret;", ".extern .func e ();"
    )
    assert only(graph, "call").guard is None and len(graph.blocks) == 3


def test_recursive_functions_stay() -> None:
    text = (
        ".func (.param .b32 r) f (.param .b32 a, .param .b64 b);\n"
        ".func (.param .b32 r) g (.param .b32 a, .param .b64 b)\n{ .reg .b32 %r<4>; .reg .b64 %rd<3>;"
        f" ld.param.b32 %r1, [a]; ld.param.b64 %rd1, [b];\n{CALL} st.param.b32 [r+0], %r2; ret; }}\n"
        ".func (.param .b32 r) f (.param .b32 a, .param .b64 b)\n{ .reg .b32 %r<4>; .reg .b64 %rd<3>;"
        f" ld.param.b32 %r1, [a]; ld.param.b64 %rd1, [b];\n{CALL.replace('f,', 'g,')} st.param.b32 [r+0], %r2; ret; }}\n"
    )
    module = module_of(text + f".visible .entry k(.param .u64 q)\n{{\n{REGISTERS}\n{START}{CALL}ret;\n}}")
    assert recursive_functions(module) == {"f", "g"}
    graph = build(module, module.functions["k"])
    check(graph)
    call = only(graph, "call")
    assert call.call is not None and call.call.callee == "f" and graph.needed == ("f",)
    assert call.call.arguments == ((Chunk(0, 4),), (Chunk(0, 8),))
    for name in ("f", "g"):
        inner = build(module, module.functions[name])
        check(inner)
        assert len(inner.needed) == 1


def test_indirect_call_and_taken_addresses() -> None:
    text = (
        ".visible .func (.param .b32 r) f (.param .b32 a)\n{ st.param.b32 [r], 4; ret; }\n"
        ".func h ()\n{ ret; }\n.global .u64 table[2] = {h, 0};\n"
    )
    body = (
        "mov.u64 %rd2, f; { .param .b32 x; .param .b32 z; st.param.b32 [x], %r1;\n"
        "P: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (z), %rd2, (x), P; ld.param.b32 %r2, [z]; }\n"
        "st.global.b32 [%rd1], %r2; ret;"
    )
    module = module_of(text + f".visible .entry k(.param .u64 q)\n{{\n{REGISTERS}\n{START}{body}\n}}")
    assert address_taken(module) == ["f", "h"]
    graph = build(module, module.functions["k"])
    check(graph)
    call = only(graph, "call")
    assert call.call is not None and call.call.callee is None and call.call.prototype in graph.function.prototypes
    assert call.operands[0] == ValueRef(only(graph, "mov").results[0] or 0) and len(call.operands) == 2
    assert only(graph, "mov").operands == (Symbol("f"),) and graph.needed == ("f",)


def test_copies_share_the_callees_variables() -> None:
    graph = kernel(
        START + "call s, (); call s, (); ret;",
        ".func s ()\n{ .shared .b32 v; .local .b32 w; st.shared.b32 [v], 1; st.local.b32 [w], 2; ret; }",
    )
    assert sorted(graph.function.variables) == ["s::v", "s::w"]
    assert {n.operands[0].base.name for n in nodes(graph) if n.opcode == "st"} == {"s::v", "s::w"}  # type: ignore[union-attr]


@pytest.mark.parametrize("part", range(8))
def test_random_programs(part: int) -> None:
    finished = 0
    for seed in range(part * 150, part * 150 + 150):
        text = random_module(random.Random(seed))
        module = module_of(text)
        graph = build(module, module.functions["k"])
        try:
            check(graph)
            expected = run_statements(module, "k")
            if expected is not None:
                finished += 1
                assert run_graph(graph) == expected
        except Exception as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert finished > 50


def test_a_large_kernel_is_fast() -> None:
    parts = []
    for n in range(400):
        parts.append(
            f"L{n}: add.u32 %r1, %r1, {n}; setp.lt.u32 %p1, %r1, %r2; @%p1 bra M{n}; mul.lo.u32 %r2, %r1, %r3;\n"
            f"add.u32 %r4, %r2, %r3; xor.b32 %r5, %r4, %r1; sub.u32 %r3, %r5, %r4; @%p2 add.u32 %r6, %r5, %r6;\n"
            f"M{n}: setp.gt.u32 %p2, %r6, %r5; add.u32 %r7, %r6, %r7; add.u32 %r8, %r8, %r7; @%p2 bra L{n};"
        )
    body = START + "".join(parts) + "st.global.b32 [%rd1], %r8; ret;"
    module = module_of(f".visible .entry k(.param .u64 q)\n{{\n{REGISTERS}\n{body}\n}}")
    start = time.process_time()
    graph = build(module, module.functions["k"])
    assert time.process_time() - start < 3.0
    check(graph)
