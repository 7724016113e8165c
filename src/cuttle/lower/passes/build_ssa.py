"""SSA form from a control-flow graph over virtual registers.

Pruned SSA (Cytron et al. 1991, phis only where a register is live), loop-closed: where an edge leaves a loop, every
register written in the loop and live behind it gets a phi, placed before the other phis so that these see it as a
definition. Register copies vanish while renaming; trivial phis, merges that nobody can see, and dead pure nodes after.
Registers are dense numbers and sets of them Python integers, so that data flow costs little even for large kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cuttle.lower.passes.dominance import dominance_frontiers, dominators, predecessors_of
from cuttle.lower.passes.graph import (
    Block,
    Branch,
    CallShape,
    Node,
    Phi,
    SsaAddress,
    SsaNegated,
    SsaOperand,
    SsaSelected,
    SsaTexture,
    SsaVector,
    Switch,
    Terminator,
    ValueInfo,
    ValueRef,
    terminator_targets,
)
from cuttle.lower.passes.liveness import members
from cuttle.lower.passes.loops import LoopForest
from cuttle.ptx.ir import (
    TYPE_BITS,
    Address,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Register,
    SelectedRegister,
    Sink,
    SpecialRegister,
    Symbol,
    TextureOperand,
    Vector,
)

# Roots without effect but on their results; dead ones are dropped. Weak loads are dropped too.
PURE_ROOTS = frozenset(
    """
    abs add addc and bfe bfi bfind bmsk brev clmad clz cnot copysign cos createpolicy cvt cvt.pack cvta div dp2a dp4a
    ex2 fma fns getctarank isspacep istypep lg2 lop3 mad mad24 madc mapa max mbarrier.pending_count min mov mul mul24
    neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct sqrt sub subc szext tanh testp txq suq
    vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vset vset2
    vset4 vshl vshr vsub vsub2 vsub4 xor
    """.split()
)


@dataclass(slots=True)
class Raw:
    """An instruction taken apart: register numbers of destinations (-1: sink) and of sources in operand order.

    `ids`, `results`, `merges` and `guard_id` are filled in by renaming.
    """

    instruction: Instruction
    targets: list[int]
    sources: tuple[Operand, ...]
    reads: list[int]
    guard: int
    negated: bool
    shape: CallShape | None = None
    carry_read: bool = False
    ids: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    merges: list[int] = field(default_factory=list)
    guard_id: int = -1
    live: bool = False


@dataclass(slots=True)
class Flow:
    """A control-flow graph before SSA; terminators name registers by number in their ValueRefs."""

    labels: list[str]
    bodies: list[list[Raw]]
    terminators: list[Terminator]
    registers: list[str]
    types: list[str]


def build_ssa(flow: Flow, forest: LoopForest) -> tuple[list[Block], list[ValueInfo]]:
    """Blocks in SSA form and the value table. Exit blocks of loops must be dedicated (see `Graph`)."""
    return _Builder(flow, forest).build()


def _terminator_register(terminator: Terminator) -> int:
    if isinstance(terminator, Branch):
        return terminator.predicate.id
    if isinstance(terminator, Switch):
        return terminator.index.id
    return -1


class _Builder:
    def __init__(self, flow: Flow, forest: LoopForest) -> None:
        self.flow = flow
        self.forest = forest
        self.successors = [list(terminator_targets(t)) for t in flow.terminators]
        self.predecessors = predecessors_of(self.successors)
        self.values: list[ValueInfo] = []
        self.undefined: dict[int, int] = {}
        self.phis: list[dict[int, Phi]] = [{} for _ in flow.bodies]
        self.phi_of: dict[int, tuple[int, Phi]] = {}
        self.terminator_ids: list[int] = [-1] * len(flow.bodies)

    def build(self) -> tuple[list[Block], list[ValueInfo]]:
        self._live_registers()
        self._place_phis()
        self._rename()
        self._drop_trivial_phis()
        self._drop_merges()
        self._mark_live()
        return self._blocks(), self.values

    # -- where phis go ----------------------------------------------------------------------------------------------

    def _live_registers(self) -> None:
        """Registers written in each block and live at its start."""
        count = len(self.flow.bodies)
        self.written = [0] * count
        upward = [0] * count
        for block, body in enumerate(self.flow.bodies):
            up = done = 0
            for raw in body:
                reads = 0
                for register in raw.reads:
                    reads |= 1 << register
                writes = 0
                for register in raw.targets:
                    if register >= 0:
                        writes |= 1 << register
                if raw.guard >= 0:
                    reads |= 1 << raw.guard | writes
                up |= reads & ~done
                done |= writes
            register = _terminator_register(self.flow.terminators[block])
            if register >= 0:
                up |= (1 << register) & ~done
            upward[block], self.written[block] = up, done
        live = self.live_in = upward[:]
        pending = list(range(count))
        queued = [True] * count
        while pending:
            block = pending.pop()
            queued[block] = False
            out = 0
            for target in self.successors[block]:
                out |= live[target]
            new = upward[block] | out & ~self.written[block]
            if new != live[block]:
                live[block] = new
                for source in self.predecessors[block]:
                    if not queued[source]:
                        queued[source] = True
                        pending.append(source)

    def _place_phis(self) -> None:
        self.tree = dominators(self.successors)
        frontiers = dominance_frontiers(self.successors, self.tree)
        placed = [0] * len(self.flow.bodies)
        exits = []
        for block, sources in enumerate(self.predecessors):
            if len(sources) == 1:
                left = self._outermost_left(sources[0], block)
                if left >= 0:
                    exits.append((block, self.forest.loops[left].blocks))
        pending = list(range(len(placed)))
        while pending:
            while pending:
                block = pending.pop()
                defined = self.written[block] | placed[block]
                if not defined:
                    continue
                for target in frontiers[block]:
                    new = defined & self.live_in[target] & ~placed[target]
                    if new:
                        placed[target] |= new
                        pending.append(target)
            # Close the loops; what phis define in a loop counts, as with several entries they merge outer values.
            inside: dict[frozenset[int], int] = {}
            for block, blocks in exits:
                bits = inside.get(blocks)
                if bits is None:
                    bits = 0
                    for member in blocks:
                        bits |= self.written[member] | placed[member]
                    inside[blocks] = bits
                new = bits & self.live_in[block] & ~placed[block]
                if new:
                    placed[block] |= new
                    pending.append(block)
        for block, bits in enumerate(placed):
            for register in members(bits):
                value = self._new_value(register, block)
                phi = Phi(value, self.flow.registers[register], {})
                self.values[value].definition = phi
                self.phis[block][register] = phi
                self.phi_of[value] = (block, phi)

    def _outermost_left(self, source: int, target: int) -> int:
        """The outermost loop that the edge leaves, or -1."""
        result = -1
        loop = self.forest.innermost[source]
        while loop >= 0 and target not in self.forest.loops[loop].blocks:
            result = loop
            loop = self.forest.loops[loop].parent
        return result

    # -- renaming ---------------------------------------------------------------------------------------------------

    def _new_value(self, register: int, block: int) -> int:
        value = len(self.values)
        type_name = self.flow.types[register]
        self.values.append(ValueInfo(value, self.flow.registers[register], type_name, TYPE_BITS[type_name], block))
        return value

    def _undefined(self, register: int) -> int:
        value = self.undefined.get(register)
        if value is None:
            value = self.undefined[register] = self._new_value(register, -1)
        return value

    def _rename(self) -> None:
        types = self.flow.types
        current: list[int] = [-1] * len(types)
        undo: list[tuple[int, int]] = []
        stack: list[tuple[int, int]] = [(0, -1)]
        undefined = self._undefined
        while stack:
            block, mark = stack.pop()
            if mark >= 0:
                while len(undo) > mark:
                    register, value = undo.pop()
                    current[register] = value
                continue
            stack.append((block, len(undo)))
            for register, phi in self.phis[block].items():
                undo.append((register, current[register]))
                current[register] = phi.result
            kept = []
            for raw in self.flow.bodies[block]:
                ids = []
                for register in raw.reads:
                    value = current[register]
                    ids.append(value if value >= 0 else undefined(register))
                instruction = raw.instruction
                guarded = raw.guard >= 0
                if instruction.opcode == "mov" and not guarded and type(raw.sources[0]) is Register:
                    source, target = raw.reads[0], raw.targets[0] if len(raw.targets) == 1 else -1
                    if target >= 0 and _same_width(types[source], types[target]):
                        undo.append((target, current[target]))
                        current[target] = ids[0]
                        continue
                raw.ids = ids
                if guarded:
                    value = current[raw.guard]
                    raw.guard_id = value if value >= 0 else undefined(raw.guard)
                    raw.merges = [
                        -1 if r < 0 or current[r] < 0 or self.values[current[r]].block < 0 else current[r]
                        for r in raw.targets
                    ]
                results = []
                for register in raw.targets:
                    if register < 0:
                        results.append(-1)
                        continue
                    value = self._new_value(register, block)
                    results.append(value)
                    undo.append((register, current[register]))
                    current[register] = value
                raw.results = results
                kept.append(raw)
            self.flow.bodies[block] = kept
            register = _terminator_register(self.flow.terminators[block])
            if register >= 0:
                value = current[register]
                self.terminator_ids[block] = value if value >= 0 else undefined(register)
            for target in self.successors[block]:
                for register, phi in self.phis[target].items():
                    value = current[register]
                    phi.incoming[block] = value if value >= 0 else undefined(register)
            for child in reversed(self.tree.children[block]):
                stack.append((child, -1))

    # -- clean-up ---------------------------------------------------------------------------------------------------

    def _drop_trivial_phis(self) -> None:
        """Replace phis whose operands are all one value, but for those that close a loop over it."""
        replaced: dict[int, int] = {}

        def find(value: int) -> int:
            while value in replaced:
                value = replaced[value]
            return value

        users: dict[int, list[int]] = {}
        for value, (_, phi) in self.phi_of.items():
            for source in phi.incoming.values():
                if source in self.phi_of:
                    users.setdefault(source, []).append(value)
        pending = list(self.phi_of)
        while pending:
            value = pending.pop()
            if value in replaced:
                continue
            block, phi = self.phi_of[value]
            distinct = {find(source) for source in phi.incoming.values()} - {value}
            if len(distinct) != 1:
                continue
            (only,) = distinct
            home = self.values[only].block
            if home >= 0 and len(phi.incoming) == 1:
                (source,) = phi.incoming
                left = self._outermost_left(source, block)
                if left >= 0 and home in self.forest.loops[left].blocks:
                    continue
            replaced[value] = only
            del self.phis[block][next(r for r, p in self.phis[block].items() if p is phi)]
            for user in users.get(value, ()):
                if user not in replaced:
                    pending.append(user)
                    if only in self.phi_of:
                        users.setdefault(only, []).append(user)
        if not replaced:
            return
        for body in self.flow.bodies:
            for raw in body:
                raw.ids = [find(value) if value in replaced else value for value in raw.ids]
                if raw.guard >= 0:
                    raw.guard_id = find(raw.guard_id)
                    raw.merges = [find(value) for value in raw.merges]
                    raw.merges = [-1 if v >= 0 and self.values[v].block < 0 else v for v in raw.merges]
        for phis in self.phis:
            for phi in phis.values():
                phi.incoming = {source: find(value) for source, value in phi.incoming.items()}
        self.terminator_ids = [find(value) for value in self.terminator_ids]
        for value in replaced:
            del self.phi_of[value]

    def _drop_merges(self) -> None:
        """Drop merges that no lane can see: every use of the result is under the same guard.

        A merge counts as a use only if it stays itself, and one under the opposite guard reads no merged lane.
        """
        guards: dict[int, tuple[int, bool]] = {}
        merged: dict[int, list[int]] = {}
        for body in self.flow.bodies:
            for raw in body:
                for result, merge in zip(raw.results, raw.merges, strict=False):
                    if merge >= 0 and result >= 0:
                        guards[result] = (raw.guard_id, raw.negated)
        if not guards:
            return
        seen: set[int] = set()
        for body in self.flow.bodies:
            for raw in body:
                guard = (raw.guard_id, raw.negated)
                for value in raw.ids:
                    if value in guards and guards[value] != guard:
                        seen.add(value)
                if raw.guard_id in guards:
                    seen.add(raw.guard_id)
                for result, merge in zip(raw.results, raw.merges, strict=False):
                    if merge in guards and guards[merge] != (raw.guard_id, not raw.negated):
                        merged.setdefault(result, []).append(merge)
        for phis in self.phis:
            for phi in phis.values():
                seen.update(value for value in phi.incoming.values() if value in guards)
        seen.update(value for value in self.terminator_ids if value in guards)
        pending = list(seen)
        while pending:
            for merge in merged.get(pending.pop(), ()):
                if merge not in seen:
                    seen.add(merge)
                    pending.append(merge)
        for body in self.flow.bodies:
            for raw in body:
                if raw.merges:
                    raw.merges = [
                        merge if result in seen else -1 for result, merge in zip(raw.results, raw.merges, strict=True)
                    ]

    def _mark_live(self) -> None:
        """Mark nodes with effects and everything they use; phis and nodes left over are dead."""
        definition: dict[int, Raw] = {}
        pending: list[int] = []
        for body in self.flow.bodies:
            for raw in body:
                for result in raw.results:
                    definition[result] = raw
                if not _removable(raw.instruction):
                    raw.live = True
                    pending += raw.ids
                    pending.append(raw.guard_id)
                    pending += raw.merges
        pending += self.terminator_ids
        live_phis: set[int] = set()
        while pending:
            value = pending.pop()
            found = definition.get(value)
            if found is not None:
                if not found.live:
                    found.live = True
                    pending += found.ids
                    pending.append(found.guard_id)
                    pending += found.merges
            elif value in self.phi_of and value not in live_phis:
                live_phis.add(value)
                pending += self.phi_of[value][1].incoming.values()
        for phis in self.phis:
            for register in [r for r, phi in phis.items() if phi.result not in live_phis]:
                del phis[register]

    # -- the result -------------------------------------------------------------------------------------------------

    def _blocks(self) -> list[Block]:
        values: list[ValueInfo] = []
        number: dict[int, int] = {-1: -1}
        refs: dict[int, ValueRef] = {}

        def keep(value: int) -> int:
            """The final number of a value: dense, in order of definition."""
            new = number.get(value)
            if new is None:
                info = self.values[value]
                new = number[value] = info.id = len(values)
                refs[value] = ValueRef(new)
                values.append(info)
            return new

        blocks = []
        for index, body in enumerate(self.flow.bodies):
            block = Block(index, self.flow.labels[index], predecessors=self.predecessors[index])
            block.successors = self.successors[index]
            blocks.append(block)
            for phi in self.phis[index].values():
                phi.result = keep(phi.result)
                block.phis.append(phi)
            for raw in body:
                if raw.live:
                    for result in raw.results:
                        keep(result)
        for block, body in zip(blocks, self.flow.bodies, strict=True):
            for raw in body:
                if not raw.live:
                    continue
                results = tuple([number[r] if r >= 0 else None for r in raw.results])
                for value in raw.ids:
                    keep(value)
                node = Node(raw.instruction, _operands(raw, refs), results)
                node.call = raw.shape
                if raw.guard >= 0:
                    keep(raw.guard_id)
                    node.guard = refs[raw.guard_id]
                    node.guard_negated = raw.negated
                    node.merges = tuple([keep(m) if m >= 0 else None for m in raw.merges])
                else:
                    node.merges = (None,) * len(results)
                for result in raw.results:
                    if result >= 0:
                        values[number[result]].definition = node
                block.nodes.append(node)
            for phi in block.phis:
                phi.incoming = {source: keep(value) for source, value in phi.incoming.items()}
            terminator = self.flow.terminators[block.index]
            read = self.terminator_ids[block.index]
            keep(read)
            if isinstance(terminator, Branch):
                terminator = Branch(
                    refs[read], terminator.negated, terminator.taken, terminator.otherwise, terminator.uniform_hint
                )
            elif isinstance(terminator, Switch):
                terminator = Switch(refs[read], terminator.targets, terminator.uniform_hint)
            block.terminator = terminator
        self.values = values
        return blocks


def _same_width(a: str, b: str) -> bool:
    return a == b or (TYPE_BITS[a] == TYPE_BITS[b] and a != "pred" and b != "pred")


def _removable(instruction: Instruction) -> bool:
    if instruction.opcode in PURE_ROOTS:
        return True
    modifiers = instruction.modifiers
    return instruction.opcode in ("ld", "ldu") and not (
        "volatile" in modifiers or "acquire" in modifiers or "relaxed" in modifiers or "mmio" in modifiers
    )


def _operands(raw: Raw, refs: dict[int, ValueRef]) -> tuple[SsaOperand, ...]:
    ids = iter(raw.ids)
    result: list[SsaOperand] = []
    for operand in raw.sources:
        if type(operand) is Register:
            result.append(refs[next(ids)])
        elif type(operand) is Immediate:
            result.append(operand)
        else:
            result.append(_convert(operand, ids, refs))
    if raw.carry_read:
        result.append(refs[next(ids)])
    return tuple(result)


def _convert(operand: Operand, ids: Iterator[int], refs: dict[int, ValueRef]) -> SsaOperand:
    if isinstance(operand, Register):
        return refs[next(ids)]
    if isinstance(operand, Address):
        base = operand.base
        return SsaAddress(refs[next(ids)] if isinstance(base, Register) else base, operand.offset)
    if isinstance(operand, Vector):
        return SsaVector(tuple([_convert(element, ids, refs) for element in operand.elements]))
    if isinstance(operand, Negated):
        return SsaNegated(refs[next(ids)])
    if isinstance(operand, SelectedRegister):
        return SsaSelected(refs[next(ids)], operand.selector, operand.negated)
    if isinstance(operand, TextureOperand):
        texture = refs[next(ids)] if isinstance(operand.texture, Register) else operand.texture
        sampler = refs[next(ids)] if isinstance(operand.sampler, Register) else operand.sampler
        elements = tuple([_convert(element, ids, refs) for element in operand.coordinates.elements])
        return SsaTexture(texture, sampler, SsaVector(elements))
    assert isinstance(operand, SpecialRegister | Immediate | Symbol | Label | Sink)
    return operand
