"""The control-flow graph in SSA form that every lowering pass works on: data structures only.

`build_graph.build` makes one `Graph` per kernel (or per device function that stays a real function). Virtual registers
are gone: every definition has a value id, an index into `Graph.values`; operands name values by `ValueRef`.

Invariants after `build`:

* `blocks[0]` is the entry and has no predecessors; every block is reachable; `blocks[i].index == i`.
* A block ends in exactly one terminator; `successors` are its distinct targets, `predecessors` the distinct sources.
* An edge that leaves a loop leads to a block that has no other predecessor, and a value defined in a loop is used
  outside it only through a phi of such a block (LCSSA). An edge into a loop header comes from a block with one successor,
  and a header has exactly one predecessor outside its loop (irreducible loops: see `loops.py`, they have no preheader).
* Guarded `bra`, `brx.idx`, `ret`, `exit`, `call` and barriers have become branches; all other guarded instructions are nodes with
  `guard` set. For these, `merges[i]` is the value that lanes with a false guard keep in `results[i]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cuttle.ptx.ir import Function, Immediate, Instruction, Label, Sink, SpecialRegister, Symbol

BARRIERS = ("bar", "barrier", "barrier.cluster")
"""Opcodes at which a warp may wait for others of its block or cluster."""

CARRY = "%cc"
"""The pseudo register (type pred) of the carry flag CC.CF: last source of `addc`..., last result of `add.cc`..."""


@dataclass(frozen=True, slots=True)
class ValueRef:
    """A value used as an operand; `id` indexes `Graph.values`."""

    id: int


@dataclass(frozen=True, slots=True)
class SsaAddress:
    """`[base+offset]`; base None is an absolute address."""

    base: ValueRef | Symbol | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class SsaVector:
    """A brace list in source position."""

    elements: tuple[SsaOperand, ...]


@dataclass(frozen=True, slots=True)
class SsaNegated:
    """`!%p` in source position."""

    ref: ValueRef


@dataclass(frozen=True, slots=True)
class SsaSelected:
    """Part of a register in source position, as in ir.SelectedRegister (video instructions)."""

    ref: ValueRef
    selector: str = ""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class SsaTexture:
    """`[texture, sampler, {coordinates}]`."""

    texture: ValueRef | Symbol
    sampler: ValueRef | Symbol | None
    coordinates: SsaVector


SsaOperand = (
    ValueRef
    | SpecialRegister
    | Immediate
    | Symbol
    | SsaAddress
    | SsaVector
    | SsaNegated
    | SsaSelected
    | SsaTexture
    | Label
    | Sink
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes `offset .. offset+size` of a call's argument or result."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class CallShape:
    """How the operands and results of a `call` node are laid out.

    `callee` is the function's name, or None for an indirect call: then `operands[0]` is the function address and the
    chunks' operands start at 1; `prototype` names its `.callprototype` (in `Graph.function.prototypes`).

    `arguments[i]` lists the chunks of argument i; their operands follow one another in `Node.operands` in that order.
    A chunk of an argument that is an immediate or a register in the text covers the whole formal parameter. Where the
    bytes could not be turned into values (mixed or address-taken access), the argument has the single chunk
    `Chunk(0, size)` and its operand is `Symbol(name)` of a `.local` variable that holds the bytes (`buffers` has the
    name, else None). Results likewise: chunks in `results`, values in `Node.results`; a buffered result
    (`result_buffers[i]`) has no chunks and is written to the `.local` variable by the callee.
    """

    callee: str | None
    arguments: tuple[tuple[Chunk, ...], ...]
    results: tuple[tuple[Chunk, ...], ...]
    buffers: tuple[str | None, ...] = ()
    result_buffers: tuple[str | None, ...] = ()
    prototype: str | None = None


@dataclass(slots=True)
class Node:
    """One instruction in SSA form.

    `operands` are the source operands only, in written order, each register replaced by a ValueRef; for instructions
    that read the carry flag its ValueRef is appended. `results` are the destination value ids, flattened (vector
    elements in order, `p|q` pairs as two, the carry flag last); None where the destination is `_` or the value is
    never used (dead results keep their id). `merges` is parallel to `results`: for a guarded node the value the
    register had before, None if it had none or nobody can see it; for an unguarded node all None.
    """

    instruction: Instruction
    operands: tuple[SsaOperand, ...]
    results: tuple[int | None, ...]
    guard: ValueRef | None = None
    guard_negated: bool = False
    merges: tuple[int | None, ...] = ()
    call: CallShape | None = None

    @property
    def opcode(self) -> str:
        return self.instruction.opcode

    def used_values(self) -> Iterator[int]:
        """Ids of all values the node reads: operands, guard, merges."""
        for operand in self.operands:
            if type(operand) is ValueRef:
                yield operand.id
            else:
                yield from operand_values(operand)
        if self.guard is not None:
            yield self.guard.id
            for merge in self.merges:
                if merge is not None:
                    yield merge


def operand_values(operand: SsaOperand) -> Iterator[int]:
    """Ids of the values inside one operand."""
    if isinstance(operand, ValueRef):
        yield operand.id
    elif isinstance(operand, SsaAddress):
        if isinstance(operand.base, ValueRef):
            yield operand.base.id
    elif isinstance(operand, SsaVector):
        for element in operand.elements:
            yield from operand_values(element)
    elif isinstance(operand, SsaNegated | SsaSelected):
        yield operand.ref.id
    elif isinstance(operand, SsaTexture):
        for part in (operand.texture, operand.sampler):
            if isinstance(part, ValueRef):
                yield part.id
        yield from operand_values(operand.coordinates)


@dataclass(slots=True)
class Phi:
    """`result` is the value of `incoming[p]` when the block is entered from block p."""

    result: int
    register: str
    incoming: dict[int, int]


@dataclass(frozen=True, slots=True)
class Jump:
    target: int


@dataclass(frozen=True, slots=True)
class Branch:
    """To `taken` where predicate != negated, else to `otherwise`; the two differ."""

    predicate: ValueRef
    negated: bool
    taken: int
    otherwise: int
    uniform_hint: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """`brx.idx`: to `targets[index]`; an index out of range is undefined behaviour."""

    index: ValueRef
    targets: tuple[int, ...]
    uniform_hint: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    """`kind`: `ret` (end of the function), `exit` (end of the thread), `trap` (after a `trap` node)."""

    kind: str


Terminator = Jump | Branch | Switch | Exit


@dataclass(slots=True)
class Block:
    index: int
    label: str
    phis: list[Phi] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    terminator: Terminator = Exit("ret")
    predecessors: list[int] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ValueInfo:
    """`register` is the PTX register it was (a name only), `type` its declared PTX type, `bits` its width.

    `block` is the defining block (-1 if undefined), `definition` the Node or Phi. `definition` None: the register was
    read without ever having been written; any bits will do.
    """

    id: int
    register: str
    type: str
    bits: int
    block: int = -1
    definition: Node | Phi | None = None

    @property
    def undefined(self) -> bool:
        return self.definition is None


@dataclass(slots=True)
class Graph:
    """`function` is the function after inlining: its `variables` include those of the inlined functions.

    `needed` names the functions that are still called directly or whose address is taken in this one.
    """

    function: Function
    blocks: list[Block]
    values: list[ValueInfo]
    needed: tuple[str, ...] = ()


def terminator_targets(terminator: Terminator) -> tuple[int, ...]:
    """Distinct target blocks, in order."""
    if isinstance(terminator, Jump):
        return (terminator.target,)
    if isinstance(terminator, Branch):
        return (terminator.taken, terminator.otherwise)
    if isinstance(terminator, Switch):
        return tuple(dict.fromkeys(terminator.targets))
    return ()


def terminator_value(terminator: Terminator) -> int | None:
    """The value a terminator reads."""
    if isinstance(terminator, Branch):
        return terminator.predicate.id
    if isinstance(terminator, Switch):
        return terminator.index.id
    return None
