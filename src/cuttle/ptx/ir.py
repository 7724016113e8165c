"""The typed IR of PTX: what the parser produces and everything below `ptx/` consumes.

The IR keeps PTX's own granularity: one `Instruction` per PTX instruction, virtual registers by name, labels in the
statement list. Control-flow graphs and SSA form are built from it in `lower/passes`. Spellings are those of the PTX
ISA manual (opcode roots, modifiers with their leading dot removed, register and symbol names as written).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

# Size in bits of every fundamental PTX type (PTX ISA 9.0, section 5.2), packed and alternate formats included.
TYPE_BITS: dict[str, int] = {
    "pred": 1,
    "b8": 8, "u8": 8, "s8": 8, "e4m3": 8, "e5m2": 8,
    "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "e4m3x2": 16, "e5m2x2": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32, "u16x2": 32, "s16x2": 32,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64,
    "b128": 128, "u128": 128,
    "f32x2": 64, "u8x4": 32, "s8x4": 32,
    "b1": 1, "u4": 4, "s4": 4, "e2m1": 4, "e2m3": 6, "e3m2": 6, "ue8m0": 8, "ue4m3": 8, "s2f6": 8,
    "e2m1x2": 8, "e2m3x2": 16, "e3m2x2": 16, "ue8m0x2": 16, "s2f6x2": 16,
    "e4m3x4": 32, "e5m2x4": 32, "e2m1x4": 16, "e2m3x4": 32, "e3m2x4": 32,
    "texref": 64, "samplerref": 64, "surfref": 64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register, `%r1`; its declared type is in `Function.registers`."""

    name: str


@dataclass(frozen=True, slots=True)
class SelectedRegister:
    """A register read or written in part, `%r1.h0`, `-%r2.b3`: operands of the video instructions only.

    `selector` is the part without its dot (`b0` ... `b3`, `h0`, `h1`, `h10`, `b3210`, ...) or empty.
    """

    register: Register
    selector: str = ""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """A predefined read-only register, spelled as in the manual: `%tid.x`, `%laneid`, `%clock64`, `WARP_SZ`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. `bits` is the value as an unsigned integer of 64 bits (two's complement for negatives).

    For floating-point literals (`0f3F800000`, `0d...`, `1.5`) `bits` holds the IEEE pattern and `float_bits` its width
    (32 or 64); plain decimal floats have width 64. Integer literals have `float_bits` 0.
    """

    bits: int
    float_bits: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, parameter or function: `mov.u64 %rd1, name+8;`."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand `[base+offset]`; base None is an absolute address."""

    base: Register | Symbol | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """A brace list `{a, b, c, d}`."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target."""

    name: str


@dataclass(frozen=True, slots=True)
class Negated:
    """`!%p1` as a source operand."""

    register: Register


@dataclass(frozen=True, slots=True)
class Sink:
    """The bit bucket `_`."""


@dataclass(frozen=True, slots=True)
class PredicatePair:
    """`%p|%q`: the two destinations of `setp`, `shfl`, `lop3`, `match.all`; the second may be a `Sink`.

    `first` is a `Vector` for `tex` and `tld4` with a residency predicate.
    """

    first: Register | Sink | Vector
    second: Register | Sink


@dataclass(frozen=True, slots=True)
class TextureOperand:
    """`[texture, {coordinates}]` or `[texture, sampler, {coordinates}]` of `tex`, `tld4`, `suld`, `sust`, `sured`."""

    texture: Register | Symbol
    sampler: Register | Symbol | None
    coordinates: Vector


Operand = (
    Register
    | SelectedRegister
    | SpecialRegister
    | Immediate
    | Symbol
    | Address
    | Vector
    | Label
    | Negated
    | Sink
    | PredicatePair
    | TextureOperand
)


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p` or `@!%p`."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Location:
    """Where a statement stands: line (1-based) of the PTX text, and the source line named by the last `.loc`."""

    line: int
    source_file: int = 0
    source_line: int = 0


@dataclass(frozen=True, slots=True)
class CallTarget:
    """The fixed parts of a `call`: `call.uni (ret), callee, (arguments), prototype;`.

    `callee` is a Symbol for a direct call, a Register for an indirect one (then `prototype` names a `.callprototype`
    or `.calltargets` label). Arguments and results are registers, immediates or `.param` variables (Symbol).
    """

    callee: Symbol | Register
    results: tuple[Operand, ...]
    arguments: tuple[Operand, ...]
    prototype: str | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction.

    `opcode` is the root (`add`, `setp`, `ld`, `cp.async.bulk` keeps its full dotted root when a row of that name
    exists in `abi/ptx_isa`). `modifiers` are all dotted parts after the root in written order, dots removed
    (`("rn", "ftz", "f32")`). `types` are those of the modifiers that are types, in order. `operands` are destination
    first, as written. `call` is set for `call` only.
    """

    opcode: str
    modifiers: tuple[str, ...]
    types: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    location: Location
    call: CallTarget | None = None

    @property
    def type(self) -> str:
        """The instruction type: the last type modifier (`cvt.f32.s32`: `s32`); empty if there is none."""
        return self.types[-1] if self.types else ""

    def has(self, modifier: str) -> bool:
        return modifier in self.modifiers


@dataclass(frozen=True, slots=True)
class LabelMark:
    """A label definition in the statement list."""

    name: str


Statement = Instruction | LabelMark


@dataclass(frozen=True, slots=True)
class Relocation:
    """A symbol's address inside an initialiser: at `offset` bytes, `size` bytes wide, shifted by `mask` if not 0."""

    offset: int
    size: int
    symbol: str
    addend: int = 0
    generic: bool = False
    mask: int = 0


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in any state space. `size_bytes` 0 marks an unsized extern array (dynamic shared memory).

    `type` is the element type, `elements` the number of elements. `initial` is the initialiser's bytes, padded to
    size, or None; `relocations` are the symbol addresses in it.
    """

    name: str
    space: str
    type: str
    size_bytes: int
    align: int
    linkage: str = ""
    initial: bytes | None = None
    relocations: tuple[Relocation, ...] = ()
    managed: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """A formal parameter; `offset` is its byte offset in the parameter buffer (natural alignment, as the ABI says).

    A parameter of space `reg` is a register of its name, or several for a vector: see `parameter_registers`.
    """

    name: str
    type: str
    size_bytes: int
    align: int
    offset: int
    space: str = "param"


def parameter_registers(parameter: Parameter) -> tuple[str, ...]:
    """The registers of a `.reg` parameter: its own name, or `name$x`, `name$y`, ... for `.reg .v2 .u32 name`."""
    width = parameter.size_bytes * 8 // TYPE_BITS[parameter.type]
    if width <= 1:
        return (parameter.name,)
    return tuple(f"{parameter.name}${'xyzw'[n] if width <= 4 else n}" for n in range(width))


@dataclass(frozen=True, slots=True)
class Prototype:
    """A `.callprototype`: shapes of results and parameters of an indirect call."""

    name: str
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]


@dataclass(slots=True)
class Function:
    """A `.entry` or `.func` with its body (None for a declaration).

    `registers` maps a register's name to its declared type (ranges `%r<10>` expanded lazily by the parser: only names
    that occur). `variables` are the `.shared`, `.local`, `.param` and `.const` declarations inside the body, by name;
    nested scopes are flattened with unique names. `branch_targets` maps `.branchtargets` labels to label lists,
    `call_targets` maps `.calltargets` labels to function names. `directives` are the performance directives of the
    header (`maxntid`: (256, 1, 1)) and flags (`noreturn`: ()).
    """

    name: str
    is_entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...] = ()
    linkage: str = ""
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    statements: list[Statement] | None = None
    prototypes: dict[str, Prototype] = field(default_factory=dict)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    line: int = 0
    call_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def parameter_bytes(self) -> int:
        """Size of the parameter buffer in bytes."""
        return max((p.offset + p.size_bytes for p in self.parameters), default=0)


@dataclass(slots=True)
class Module:
    """A parsed PTX module: version, target, module-scope variables, functions, files named by `.file`."""

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


def matches_call(function: Function | None, formals: Function | Prototype) -> bool:
    """Whether a function has a body, and the parameters and results that a call through a pointer has."""
    if function is None or function.statements is None:
        return False

    def sizes(parameters: Sequence[Parameter]) -> list[tuple[int, int]]:
        return [(parameter.offset, parameter.size_bytes) for parameter in parameters]

    return sizes(function.parameters) == sizes(formals.parameters) and sizes(function.results) == sizes(formals.results)
