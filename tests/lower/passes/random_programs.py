"""Random PTX programs of a few opcodes, and two interpreters: one of statements, one of graphs.

Both read registers that were never written as 0 and record every `st.global` as (place, value). The graph interpreter
forgets each value that liveness says is dead, so that a wrong set shows as a KeyError.
"""

from __future__ import annotations

import random
from typing import Any

from cuttle.lower.passes.graph import (
    CARRY,
    Branch,
    Exit,
    Graph,
    Jump,
    Node,
    SsaNegated,
    SsaOperand,
    Switch,
    ValueRef,
    terminator_value,
)
from cuttle.lower.passes.liveness import find_liveness
from cuttle.ptx.ir import (
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    LabelMark,
    Module,
    Negated,
    PredicatePair,
    Register,
    Sink,
    Symbol,
)

MASK = 0xFFFF_FFFF
FUEL = 400


def random_module(rng: random.Random) -> str:
    """A kernel `k` and up to three functions, each calling only later ones."""
    functions = [f"f{n}" for n in range(rng.randrange(4))]
    parts = ["  .global .u32 out[1024];"]
    parts += [f".func (.param .b32 r) {name} (.param .b32 a, .param .b64 b);" for name in functions]
    for position in reversed(range(len(functions))):
        name = functions[position]
        body = _body(rng, functions[position + 1 :], True)
        parts.append(f".func (.param .b32 r) {name} (.param .b32 a, .param .b64 b)\n{{\n{body}\n}}")
    parts.append(f".visible .entry k ()\n{{\n{_body(rng, functions, False)}\n}}")
    return "\n".join(parts)


def _body(rng: random.Random, callees: list[str], is_function: bool) -> str:
    registers = [f"%r{n}" for n in range(1, 7)]
    predicates = [f"%p{n}" for n in range(1, 4)]
    labels = [f"L{n}" for n in range(rng.randrange(1, 7))]
    lines = ["  .reg .b32 %r<10>;", "  .reg .b64 %rd<3>;", "  .reg .pred %p<4>;"]
    table = rng.random() < 0.3
    if table:
        lines.append(f"  T: .branchtargets {', '.join(rng.choice(labels) for _ in range(4))};")
    if is_function:
        # Every call starts afresh in the interpreter, but not in an inlined copy: nothing may be read unwritten.
        lines += [f"  mov.b32 {name}, 0;" for name in registers]
        lines += [f"  setp.lt.u32 {name}, 1, 0;" for name in predicates]
        lines += ["  add.cc.u32 %r3, 0, 0;", "  st.param.b32 [r], 0;"]
        lines += ["  ld.param.b32 %r1, [a];", "  ld.param.b64 %rd1, [b];", "  cvt.u32.u64 %r2, %rd1;"]

    def register() -> str:
        return rng.choice(registers)

    def source() -> str:
        return rng.choice((register(), register(), register(), str(rng.randrange(8))))

    def guard(chance: float) -> str:
        return f"@{rng.choice(('', '!'))}{rng.choice(predicates)} " if rng.random() < chance else ""

    calls = 0
    marks = sorted(rng.sample(range(30), len(labels)))
    for step in range(30):
        while marks and marks[0] == step:
            lines.append(f"{labels[len(labels) - len(marks)]}:")
            marks.pop(0)
        kind = rng.random()
        if kind < 0.25:
            lines.append(f"  {guard(0.3)}add.u32 {register()}, {register()}, {source()};")
        elif kind < 0.4:
            lines.append(f"  {guard(0.3)}mov.b32 {register()}, {source()};")
        elif kind < 0.5:
            first, second = rng.sample([*predicates, "_"], 2)
            first = first if first != "_" else "%p1"
            second = second if second != first else "_"
            lines.append(f"  {guard(0.2)}setp.lt.u32 {first}|{second}, {register()}, {source()};")
        elif kind < 0.55:
            lines.append(
                f"  {guard(0.2)}and.pred {rng.choice(predicates)}, {rng.choice(predicates)}, !{rng.choice(predicates)};"
            )
        elif kind < 0.6:
            lines.append(f"  {guard(0.3)}add.cc.u32 {register()}, {register()}, {source()};")
            lines.append(f"  {guard(0.1)}addc.u32 {register()}, {register()}, {source()};")
        elif kind < 0.72:
            lines.append(f"  {guard(0.3)}st.global.u32 [out+{4 * rng.randrange(100)}], {register()};")
        elif kind < 0.86:
            lines.append(f"  {guard(0.8)}bra {rng.choice(labels)};")
        elif kind < 0.88 and table:
            lines.append(f"  and.b32 %r9, {register()}, 3;")
            lines.append(f"  {guard(0.3)}brx.idx %r9, T;")
        elif kind < 0.9:
            lines.append(f"  {guard(0.9)}{rng.choice(('ret', 'exit'))};")
        elif callees and calls < 2:
            calls += 1
            lines += [
                f"  {{ .param .b32 x; .param .b64 y; .param .b32 z; cvt.u64.u32 %rd2, {register()};",
                f"  st.param.b32 [x+0], {source()}; st.param.b64 [y+0], %rd2; st.param.b32 [z], {source()};",
                f"  {guard(0.3)}call (z), {rng.choice(callees)}, (x, y);",
                f"  ld.param.b32 {register()}, [z+0]; }}",
            ]
    for _ in marks:
        lines.append(f"{labels[len(labels) - len(marks)]}:")
        marks = marks[1:]
    if is_function:
        lines.append(f"  st.param.b32 [r], {register()};")
    lines.append(f"  st.global.u32 [out], {register()};")
    lines.append("  ret;")
    return "\n".join(lines)


class OutOfFuel(Exception):
    pass


class ThreadExit(Exception):
    pass


def compute(instruction: Instruction, sources: list[int]) -> list[int]:
    """Result values of a node, destination order as in `Node.results`."""
    opcode = instruction.opcode
    if opcode == "add":
        total = sources[0] + sources[1]
        return [total & MASK, total >> 32] if "cc" in instruction.modifiers else [total & MASK]
    if opcode == "addc":
        return [(sources[0] + sources[1] + sources[2]) & MASK]
    if opcode in ("mov", "cvt"):
        return [sources[0]]
    if opcode == "setp":
        less = int(sources[0] < sources[1])
        return [less, 1 - less]
    if opcode == "and":
        return [sources[0] & sources[1]]
    raise NotImplementedError(opcode)


def run_statements(module: Module, name: str) -> list[tuple[int, int]] | None:
    """Stores of a thread; None if it runs too long."""
    stores: list[tuple[int, int]] = []
    fuel = [FUEL]
    try:
        _run_function(module, module.functions[name], {}, stores, fuel)
    except ThreadExit:
        pass
    except OutOfFuel:
        return None
    return stores


def _run_function(
    module: Module, function: Function, parameters: dict[str, int], stores: list[tuple[int, int]], fuel: list[int]
) -> dict[str, int]:
    registers: dict[str, int] = {}
    variables = dict(parameters)
    statements = function.statements or []
    places = {s.name: n for n, s in enumerate(statements) if isinstance(s, LabelMark)}

    def value(operand: Any) -> int:
        if isinstance(operand, Register):
            return registers.get(operand.name, 0)
        if isinstance(operand, Negated):
            return 1 - registers.get(operand.register.name, 0)
        assert isinstance(operand, Immediate)
        return operand.bits

    def holds(guard: Guard | None) -> bool:
        return guard is None or (registers.get(guard.register.name, 0) == 1) != guard.negated

    position = 0
    while position < len(statements):
        statement = statements[position]
        position += 1
        if isinstance(statement, LabelMark):
            continue
        fuel[0] -= 1
        if fuel[0] < 0:
            raise OutOfFuel
        if not holds(statement.guard):
            continue
        opcode, operands = statement.opcode, statement.operands
        if opcode == "bra":
            assert isinstance(operands[0], Label)
            position = places[operands[0].name]
        elif opcode == "brx.idx":
            assert isinstance(operands[1], Label)
            position = places[function.branch_targets[operands[1].name][value(operands[0])]]
        elif opcode == "ret":
            break
        elif opcode == "exit":
            raise ThreadExit
        elif opcode == "call":
            call = statement.call
            assert call is not None and isinstance(call.callee, Symbol)
            callee = module.functions[call.callee.name]
            passed = {
                formal.name: variables.get(actual.name, 0)
                for formal, actual in zip(callee.parameters, call.arguments, strict=True)
                if isinstance(actual, Symbol)
            }
            results = _run_function(module, callee, passed, stores, fuel)
            for formal, result in zip(callee.results, call.results, strict=True):
                assert isinstance(result, Symbol)
                variables[result.name] = results.get(formal.name, variables.get(result.name, 0))
        elif opcode == "ld":
            assert isinstance(operands[1], Address) and isinstance(operands[1].base, Symbol)
            assert isinstance(operands[0], Register)
            registers[operands[0].name] = variables.get(operands[1].base.name, 0)
        elif opcode == "st":
            assert isinstance(operands[0], Address) and isinstance(operands[0].base, Symbol)
            if "param" in statement.modifiers:
                variables[operands[0].base.name] = value(operands[1])
            else:
                stores.append((operands[0].offset, value(operands[1])))
        else:
            sources = [value(operand) for operand in operands[1:]]
            if opcode == "addc":
                sources.append(registers.get(CARRY, 0))
            computed = compute(statement, sources)
            first = operands[0]
            targets: list[object] = [first.first, first.second] if isinstance(first, PredicatePair) else [first]
            for place, number in zip(targets, computed, strict=False):
                if isinstance(place, Register):
                    registers[place.name] = number
                else:
                    assert isinstance(place, Sink)
            if "cc" in statement.modifiers:
                registers[CARRY] = computed[1]
    return variables


def run_graph(graph: Graph) -> list[tuple[int, int]]:
    """Stores of a thread, as `run_statements` gives them."""
    stores: list[tuple[int, int]] = []
    values: dict[int, int] = {}
    liveness = find_liveness(graph)

    def read(value: int) -> int:
        return 0 if graph.values[value].undefined else values[value]

    def operand(source: SsaOperand) -> int:
        if isinstance(source, ValueRef):
            return read(source.id)
        if isinstance(source, SsaNegated):
            return 1 - read(source.ref.id)
        assert isinstance(source, Immediate)
        return source.bits

    def forget(live: int) -> None:
        for value in list(values):
            if not live >> value & 1:
                del values[value]

    def step(node: Node) -> None:
        active = node.guard is None or (read(node.guard.id) == 1) != node.guard_negated
        if not active:
            for result, merge in zip(node.results, node.merges, strict=True):
                if result is not None:
                    values[result] = 0 if merge is None else read(merge)
        elif node.opcode == "st":
            stores.append((node.operands[0].offset, operand(node.operands[1])))  # type: ignore[union-attr]
        else:
            results = compute(node.instruction, [operand(source) for source in node.operands])
            for result, value in zip(node.results, results, strict=False):
                if result is not None:
                    values[result] = value

    block, fuel = 0, 100 * FUEL
    while fuel:
        fuel -= 1
        body = graph.blocks[block]
        forget(liveness.live_in[block])
        for index, node in enumerate(body.nodes):
            step(node)
            forget(liveness.live_after(block, index))
        terminator = body.terminator
        if isinstance(terminator, Exit):
            return stores
        chosen = terminator_value(terminator)
        if isinstance(terminator, Jump):
            target = terminator.target
        elif isinstance(terminator, Branch):
            assert chosen is not None
            target = terminator.taken if (read(chosen) == 1) != terminator.negated else terminator.otherwise
        else:
            assert isinstance(terminator, Switch) and chosen is not None
            target = terminator.targets[read(chosen)]
        forget(liveness.live_out[block])
        values.update({phi.result: read(phi.incoming[block]) for phi in graph.blocks[target].phis})
        block = target
    raise OutOfFuel
