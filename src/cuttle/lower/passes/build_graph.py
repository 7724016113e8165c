"""From a PTX function to its SSA graph: inline calls, cut into blocks, split loop edges, rename."""

from __future__ import annotations

from dataclasses import replace

from cuttle.errors import PtxError, Where
from cuttle.lower.passes.build_ssa import Flow, Raw, build_ssa
from cuttle.lower.passes.dominance import predecessors_of, reverse_post_order
from cuttle.lower.passes.graph import (
    BARRIERS,
    CARRY,
    Branch,
    CallShape,
    Exit,
    Graph,
    Jump,
    Switch,
    Terminator,
    ValueRef,
    terminator_targets,
)
from cuttle.lower.passes.inline_calls import Inlined, inline_calls
from cuttle.lower.passes.loops import find_loops
from cuttle.ptx.ir import (
    Address,
    Function,
    Instruction,
    Label,
    LabelMark,
    Module,
    Negated,
    Operand,
    PredicatePair,
    Register,
    SelectedRegister,
    TextureOperand,
    Vector,
)

# Roots whose first operand is a source although it may be a register. An address in first place is always a source.
_NO_DESTINATION = frozenset(
    """
    bar barrier barrier.cluster bar.warp.sync nanosleep stackrestore setmaxnreg bra brx.idx ret exit trap brkpt pmevent
    tcgen05.dealloc cp.async.wait_group cp.async.bulk.wait_group wgmma.wait_group discard applypriority prefetch
    prefetchu st red
    """.split()
)
_CARRY_READERS = frozenset({"addc", "subc", "madc"})


def build(module: Module, function: Function) -> Graph:
    """The graph of a function with everything inlined that can be. Raises PtxError for malformed control flow."""
    return build_graph(inline_calls(module, function))


def build_graph(inlined: Inlined) -> Graph:
    """The graph of a function whose calls have been inlined."""
    flow = _FlowReader(inlined).read()
    flow = _drop_unreachable(flow)
    flow = _merge_chains(flow)
    forest = find_loops(_successors(flow))
    if forest.loops and _split_edges(flow):
        flow = _drop_unreachable(flow)
        forest = find_loops(_successors(flow))
    blocks, values = build_ssa(flow, forest)
    return Graph(inlined.function, blocks, values, inlined.needed)


def destination_count(instruction: Instruction) -> int:
    """How many of the written operands are destinations: 0 or 1 (a vector or a `p|q` pair is one operand).

    The destination comes first; an address in first place is a source (`st`, `red`, `prefetch`, `mbarrier.init`).
    """
    operands = instruction.operands
    if not operands or isinstance(operands[0], Address | TextureOperand):
        return 0
    if instruction.opcode in _NO_DESTINATION:
        return 1 if "red" in instruction.modifiers and instruction.opcode in ("bar", "barrier") else 0
    return 1


def carry_use(instruction: Instruction) -> tuple[bool, bool]:
    """Whether the instruction reads and writes the carry flag."""
    return instruction.opcode in _CARRY_READERS, "cc" in instruction.modifiers


class _FlowReader:
    """Cuts the statement list into blocks and takes the instructions apart."""

    def __init__(self, inlined: Inlined) -> None:
        self.inlined = inlined
        self.function = inlined.function
        self.numbers: dict[str, int] = {}
        self.types: list[str] = []
        self.labels: list[str] = []
        self.bodies: list[list[Raw]] = []
        self.terminators: list[Terminator | None] = []
        self.block_of: dict[str, int] = {}
        self.pending: list[tuple[int, Instruction, tuple[str, ...]]] = []
        self.open = False

    def read(self) -> Flow:
        self._start("entry")
        shapes = self.inlined.shapes
        for position, statement in enumerate(self.function.statements or ()):
            if type(statement) is LabelMark:
                self._label(statement.name)
                continue
            assert isinstance(statement, Instruction)
            opcode = statement.opcode
            if not self.open:
                self._start(f"line{statement.location.line}")
            if opcode == "bra" or opcode == "brx.idx":
                self._branch(statement)
            elif opcode == "ret" or opcode == "exit":
                if statement.guard is None:
                    self._finish(Exit(opcode))
                else:
                    self._guarded_exit(statement)
            elif opcode in BARRIERS and statement.guard is not None:
                self._guarded_barrier(statement, shapes.get(position))
            else:
                self.bodies[-1].append(self._take_apart(statement, shapes.get(position)))
                if opcode == "trap" and statement.guard is None:
                    self._finish(Exit("trap"))
        if self.open:
            self._finish(Exit("ret"))
        terminators = self._resolve()
        return Flow(self.labels, self.bodies, terminators, list(self.numbers), self.types)

    def _start(self, label: str) -> None:
        self.labels.append(label)
        self.bodies.append([])
        self.terminators.append(None)
        self.open = True

    def _finish(self, terminator: Terminator | None) -> None:
        """End the open block; None stands for a terminator that `_resolve` fills in."""
        self.terminators[-1] = terminator
        self.open = False

    def _label(self, name: str) -> None:
        if self.open:
            # The entry block must have no predecessors, so a label always starts a block of its own.
            self._finish(Jump(len(self.bodies)))
        self._start(name)
        self.block_of[name] = len(self.bodies) - 1

    def _number(self, name: str) -> int:
        number = self.numbers.get(name)
        if number is None:
            number = self.numbers[name] = len(self.types)
            self.types.append("pred" if name == CARRY else self.function.registers.get(name, "b32"))
        return number

    def _branch(self, statement: Instruction) -> None:
        block = len(self.bodies) - 1
        if statement.opcode == "bra":
            target = statement.operands[-1]
            assert isinstance(target, Label)
            self.pending.append((block, statement, (target.name,)))
            self._finish(None)
            if statement.guard is not None:
                self._start(f"line{statement.location.line}")
            return
        target = statement.operands[-1]
        assert isinstance(target, Label)
        targets = self.function.branch_targets.get(target.name, ())
        if not targets:
            raise self._error(statement, f"`{target.name}` lists no branch targets")
        if statement.guard is not None:
            predicate = ValueRef(self._number(statement.guard.register.name))
            self._finish(Branch(predicate, statement.guard.negated, block + 1, block + 2, statement.has("uni")))
            self._start(f"line{statement.location.line}")
        self.pending.append((len(self.bodies) - 1, statement, targets))
        self._finish(None)
        if statement.guard is not None:
            self._start(f"line{statement.location.line}")

    def _guarded_exit(self, statement: Instruction) -> None:
        guard = statement.guard
        assert guard is not None
        block = len(self.bodies) - 1
        predicate = ValueRef(self._number(guard.register.name))
        self._finish(Branch(predicate, guard.negated, block + 1, block + 2, statement.has("uni")))
        self._start(f"{statement.opcode}{statement.location.line}")
        self._finish(Exit(statement.opcode))
        self._start(f"line{statement.location.line}")

    def _guarded_barrier(self, statement: Instruction, shape: CallShape | None) -> None:
        """Lanes that a guard sends past a barrier wait elsewhere: a branch, like any other."""
        guard = statement.guard
        assert guard is not None
        block = len(self.bodies) - 1
        predicate = ValueRef(self._number(guard.register.name))
        self._finish(Branch(predicate, guard.negated, block + 1, block + 2))
        self._start(f"{statement.opcode}{statement.location.line}")
        self.bodies[-1].append(self._take_apart(replace(statement, guard=None), shape))
        self._finish(Jump(block + 2))
        self._start(f"line{statement.location.line}")

    def _resolve(self) -> list[Terminator]:
        for block, statement, names in self.pending:
            for name in names:
                if name not in self.block_of:
                    raise self._error(statement, f"label `{name}` is not defined")
            targets = tuple(self.block_of[name] for name in names)
            uniform = statement.has("uni")
            if statement.opcode == "brx.idx":
                index = statement.operands[0]
                if len(set(targets)) == 1 or not isinstance(index, Register):
                    self.terminators[block] = Jump(targets[0])
                else:
                    self.terminators[block] = Switch(ValueRef(self._number(index.name)), targets, uniform)
            elif statement.guard is None or targets[0] == block + 1:
                self.terminators[block] = Jump(targets[0])
            else:
                predicate = ValueRef(self._number(statement.guard.register.name))
                negated = statement.guard.negated
                self.terminators[block] = Branch(predicate, negated, targets[0], block + 1, uniform)
        return [terminator or Exit("ret") for terminator in self.terminators]

    def _error(self, statement: Instruction, message: str) -> PtxError:
        return PtxError("PTX-0202", message, Where(line=statement.location.line, kernel=self.function.name))

    # -- instructions -------------------------------------------------------------------------------------------------

    def _take_apart(self, instruction: Instruction, shape: CallShape | None) -> Raw:
        numbers = self.numbers
        operands = instruction.operands
        call = instruction.call
        targets: list[int] = []
        if call is not None:
            for result in call.results:
                targets.append(self._number(result.name) if isinstance(result, Register) else -1)
            sources: tuple[Operand, ...] = call.arguments
            if isinstance(call.callee, Register):
                sources = (call.callee, *sources)
        elif destination_count(instruction):
            first = operands[0]
            sources = operands[1:]
            if type(first) is Register:
                number = numbers.get(first.name)
                targets.append(number if number is not None else self._number(first.name))
            else:
                self._targets(first, targets)
        else:
            sources = operands
        reads: list[int] = []
        for operand in sources:
            if type(operand) is Register:
                number = numbers.get(operand.name)
                reads.append(number if number is not None else self._number(operand.name))
            else:
                self._reads(operand, reads)
        guard = instruction.guard
        raw = Raw(
            instruction,
            targets,
            sources,
            reads,
            -1 if guard is None else self._number(guard.register.name),
            guard is not None and guard.negated,
            shape,
        )
        if "cc" in instruction.modifiers or instruction.opcode in _CARRY_READERS:
            read, write = carry_use(instruction)
            if read:
                reads.append(self._number(CARRY))
                raw.carry_read = True
            if write:
                targets.append(self._number(CARRY))
        return raw

    def _targets(self, operand: Operand, targets: list[int]) -> None:
        if isinstance(operand, Register):
            targets.append(self._number(operand.name))
        elif isinstance(operand, SelectedRegister):
            targets.append(self._number(operand.register.name))
        elif isinstance(operand, Vector):
            for element in operand.elements:
                self._targets(element, targets)
        elif isinstance(operand, PredicatePair):
            self._targets(operand.first, targets)
            self._targets(operand.second, targets)
        else:
            targets.append(-1)

    def _reads(self, operand: Operand, reads: list[int]) -> None:
        if isinstance(operand, Register):
            reads.append(self._number(operand.name))
        elif isinstance(operand, Address):
            if isinstance(operand.base, Register):
                reads.append(self._number(operand.base.name))
        elif isinstance(operand, Vector):
            for element in operand.elements:
                self._reads(element, reads)
        elif isinstance(operand, Negated | SelectedRegister):
            reads.append(self._number(operand.register.name))
        elif isinstance(operand, TextureOperand):
            for part in (operand.texture, operand.sampler):
                if isinstance(part, Register):
                    reads.append(self._number(part.name))
            self._reads(operand.coordinates, reads)


# -- control-flow clean-up ----------------------------------------------------------------------------------------------


def _successors(flow: Flow) -> list[list[int]]:
    return [list(terminator_targets(terminator)) for terminator in flow.terminators]


def _retarget(terminator: Terminator, number: dict[int, int]) -> Terminator:
    """The terminator with its targets renumbered; targets not in the map stay."""
    if isinstance(terminator, Jump):
        return Jump(number.get(terminator.target, terminator.target))
    if isinstance(terminator, Branch):
        taken = number.get(terminator.taken, terminator.taken)
        otherwise = number.get(terminator.otherwise, terminator.otherwise)
        if taken == otherwise:
            return Jump(taken)
        return Branch(terminator.predicate, terminator.negated, taken, otherwise, terminator.uniform_hint)
    if isinstance(terminator, Switch):
        targets = tuple(number.get(target, target) for target in terminator.targets)
        return Switch(terminator.index, targets, terminator.uniform_hint)
    return terminator


def _renumber(flow: Flow, kept: list[int]) -> Flow:
    number = {old: new for new, old in enumerate(kept)}
    return Flow(
        [flow.labels[block] for block in kept],
        [flow.bodies[block] for block in kept],
        [_retarget(flow.terminators[block], number) for block in kept],
        flow.registers,
        flow.types,
    )


def _drop_unreachable(flow: Flow) -> Flow:
    """Reachable blocks only, numbered in reverse post order."""
    return _renumber(flow, reverse_post_order(_successors(flow)))


def _merge_chains(flow: Flow) -> Flow:
    """Merge each block with its only successor where it is that block's only predecessor."""
    predecessors = predecessors_of(_successors(flow))
    merged: set[int] = set()
    for block in range(len(flow.bodies)):
        if block in merged:
            continue
        terminator = flow.terminators[block]
        while isinstance(terminator, Jump) and len(predecessors[terminator.target]) == 1:
            target = terminator.target
            if target == block:
                break
            flow.bodies[block] += flow.bodies[target]
            merged.add(target)
            terminator = flow.terminators[block] = flow.terminators[target]
    return _renumber(flow, [block for block in range(len(flow.bodies)) if block not in merged])


def _split_edges(flow: Flow) -> bool:
    """Split edges out of loops to blocks with other predecessors, and critical edges to loop headers."""
    successors = _successors(flow)
    predecessors = predecessors_of(successors)
    forest = find_loops(successors)
    headers = {loop.header for loop in forest.loops if not loop.irreducible}
    split = False
    for block, targets in enumerate(successors):
        loop = forest.innermost[block]
        for target in targets:
            leaves = loop >= 0 and target not in forest.loops[loop].blocks and len(predecessors[target]) > 1
            if leaves or (target in headers and len(targets) > 1):
                new = len(flow.bodies)
                flow.labels.append(f"{flow.labels[block]}>{flow.labels[target]}")
                flow.bodies.append([])
                flow.terminators.append(Jump(target))
                flow.terminators[block] = _retarget(flow.terminators[block], {target: new})
                split = True
    return _add_preheaders(flow) or split


def _add_preheaders(flow: Flow) -> bool:
    """Join the edges that enter a loop in one block, where there are several."""
    successors = _successors(flow)
    predecessors = predecessors_of(successors)
    added = False
    for loop in find_loops(successors).loops:
        outside = [source for source in predecessors[loop.header] if source not in loop.blocks]
        if loop.irreducible or len(outside) < 2:
            continue
        new = len(flow.bodies)
        flow.labels.append(f">{flow.labels[loop.header]}")
        flow.bodies.append([])
        flow.terminators.append(Jump(loop.header))
        for source in outside:
            flow.terminators[source] = _retarget(flow.terminators[source], {loop.header: new})
        added = True
    return added
