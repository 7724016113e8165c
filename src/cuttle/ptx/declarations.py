"""Declarations of PTX: variables with initialisers, parameters, function headers (PTX ISA 9.x, sections 5 and 11).

Everything here works on a `Tokens` cursor. Sizes follow section 5.4: element size times vector width times array
dimensions; alignment is `.align` or the natural one (a vector's is its whole size).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from cuttle.ptx.constants import ConstantError, integer
from cuttle.ptx.initialisers import Initialiser
from cuttle.ptx.ir import TYPE_BITS, Function, Parameter, Relocation, Variable
from cuttle.ptx.scanner import Tokens

LINKAGES = frozenset({".extern", ".visible", ".weak", ".common"})
SPACES = frozenset({".global", ".const", ".shared", ".local", ".param", ".tex", ".reg", ".sreg"})
_VECTOR_WIDTHS = {".v2": 2, ".v4": 4, ".v8": 8}
_INTEGER_DIRECTIVES = frozenset(
    """.maxntid .reqntid .maxnreg .minnctapersm .maxnctapersm .maxclusterrank .reqnctapercluster
    .abi_preserve .abi_preserve_control""".split()
)
# PTX ISA 5.4.8: `.managed`, and `.unified(uuid1, uuid2)`, two halves of a UUID.
_NUMBER = r"\s*(?:0[xX][0-9a-fA-F]+|[0-9]+)U?\s*"
_ATTRIBUTE = rf"\s*\.(?:managed|unified\s*\({_NUMBER},{_NUMBER}\))\s*"
_ATTRIBUTES = re.compile(f"{_ATTRIBUTE}(?:,{_ATTRIBUTE})*")
_FLAG_DIRECTIVES = frozenset({".noreturn", ".explicitcluster", ".blocksareclusters"})

MAX_VARIABLE_BYTES = 1 << 40
MAX_INITIALISED_BYTES = 1 << 28
MAX_PARAMETERS = 1 << 16


@dataclass(slots=True)
class Declarator:
    """The common part of a declaration: what stands between the state space and the name, and after it."""

    type: str = ""
    vector: int = 1
    align: int = 0
    managed: bool = False

    @property
    def element_bytes(self) -> int:
        return max(1, TYPE_BITS[self.type] // 8)

    def natural_align(self) -> int:
        width = self.element_bytes * self.vector
        return self.align or width


def read_qualifiers(tokens: Tokens, declarator: Declarator) -> None:
    """Read `.align 4 .v2 .b32 .ptr .global .attribute(...)` in whatever order up to the name."""
    while tokens.token.kind == "directive":
        text = tokens.token.text
        if text[1:] in TYPE_BITS:
            tokens.advance()
            declarator.type = text[1:]
        elif text in _VECTOR_WIDTHS:
            tokens.advance()
            declarator.vector = _VECTOR_WIDTHS[text]
        elif text == ".align":
            tokens.advance()
            offset = tokens.token.offset
            align = read_integer(tokens)
            if not 0 < align <= 1 << 20 or align & (align - 1):
                raise tokens.error("PTX-0101", f"alignment {align} is no power of two", offset=offset)
            declarator.align = align
        elif text == ".ptr":
            tokens.advance()
            _skip_pointer_attributes(tokens)
        elif text == ".attribute":
            declarator.managed |= ".managed" in read_attributes(tokens)
        elif text in LINKAGES or text in SPACES:
            raise tokens.unexpected("a type")
        else:
            raise tokens.error("PTX-0107", f"unknown type `{text}`")
    if not declarator.type:
        raise tokens.unexpected("a type")


def read_attributes(tokens: Tokens) -> list[str]:
    """The names in `.attribute(.managed, .unified(1, 2))`; the cursor stands on `.attribute`. What is unknown is refused: it may matter."""
    tokens.advance()
    start, stop = tokens.bracketed("(", ")")
    text = tokens.source.text[start:stop]
    if not _ATTRIBUTES.fullmatch(text):
        raise tokens.error("PTX-0103", f"unknown attribute in `.attribute({' '.join(text.split())})`", offset=start)
    return re.findall(r"\.[a-z]+", text)


def _skip_pointer_attributes(tokens: Tokens) -> None:
    """`.ptr .global .align 16`: what a parameter points to; not part of the IR."""
    if tokens.token.text in (".global", ".const", ".shared", ".local", ".param"):
        tokens.advance()
    if tokens.accept(".align"):
        read_integer(tokens)


def read_integer(tokens: Tokens) -> int:
    """An integer literal, possibly negative."""
    negative = tokens.accept("-")
    offset = tokens.token.offset
    text = tokens.expect_kind("number", "an integer")
    try:
        value = integer(text)
    except ConstantError as error:
        raise tokens.error("PTX-0105", str(error), offset=offset) from None
    return -value if negative else value


def read_dimensions(tokens: Tokens) -> list[int]:
    """`[4][2*3][]`: the sizes written; 0 for an empty pair of brackets (the first only)."""
    dimensions: list[int] = []
    while tokens.token.text == "[":
        offset = tokens.token.offset
        start, stop = tokens.bracketed("[", "]")
        text = tokens.source.text[start:stop]
        if not text.strip():
            size = 0
            if dimensions:
                raise tokens.error("PTX-0101", "only the first dimension may be empty", offset=offset)
        else:
            try:
                size = integer(text)
            except ConstantError as error:
                raise tokens.error("PTX-0105", str(error), offset=offset) from None
            if size < 0 or size > MAX_VARIABLE_BYTES:
                raise tokens.error("PTX-0301", f"array size {size} is out of range", offset=offset)
        dimensions.append(size)
        if len(dimensions) > 32:
            raise tokens.error("PTX-0302", "more than 32 array dimensions", offset=offset)
    return dimensions


def read_variables(tokens: Tokens, space: str, linkage: str, constants: Mapping[str, str]) -> list[Variable]:
    """The rest of a variable declaration after its state space, up to and including `;`.

    `constants` maps names that initialisers may refer to under another name (function-scope variables).
    """
    declarator = Declarator()
    if space == "tex":
        space, declarator.type = "global", "texref"
    if tokens.token.text == "[" and space == "const":
        tokens.bracketed("[", "]")  # a constant bank number (PTX 2.x); there is only one bank since
    read_qualifiers(tokens, declarator)
    if declarator.managed and space != "global":
        raise tokens.error("PTX-0101", f"a variable in .{space} cannot be .managed")
    variables: list[Variable] = []
    while True:
        variables.append(_read_declarator(tokens, declarator, space, linkage, constants))
        if not tokens.accept(","):
            break
    tokens.expect(";")
    return variables


def _read_declarator(
    tokens: Tokens, declarator: Declarator, space: str, linkage: str, constants: Mapping[str, str]
) -> Variable:
    offset = tokens.token.offset
    name = tokens.expect_kind("name", "a variable name")
    dimensions = read_dimensions(tokens)
    unsized = bool(dimensions) and dimensions[0] == 0
    shape = [*dimensions[1:]] if unsized else [*dimensions]
    if declarator.vector > 1:
        shape.append(declarator.vector)
    elements = 1
    for size in shape:
        elements *= size
    element_bytes = declarator.element_bytes
    if elements * element_bytes > MAX_VARIABLE_BYTES:
        raise tokens.error("PTX-0301", f"variable `{name}` is larger than {MAX_VARIABLE_BYTES} bytes", offset=offset)
    initial: bytes | None = None
    relocations: tuple[Relocation, ...] = ()
    if tokens.accept("="):
        if declarator.type in ("texref", "samplerref", "surfref"):
            raise tokens.error("PTX-0304", f"initialisers of .{declarator.type} variables are not supported")
        if elements * element_bytes > MAX_INITIALISED_BYTES:
            raise tokens.error("PTX-0301", f"initialised variable `{name}` exceeds {MAX_INITIALISED_BYTES} bytes")
        full_shape = [0, *shape] if unsized else shape
        reader = Initialiser(tokens, declarator.type, full_shape, constants, MAX_INITIALISED_BYTES)
        initial, relocations = reader.read()
        size_bytes = len(initial)
    else:
        size_bytes = 0 if unsized else elements * element_bytes
    align = declarator.natural_align()
    return Variable(
        name, space, declarator.type, size_bytes, align, linkage, initial, relocations, declarator.managed
    )  # fmt: skip


def read_parameters(tokens: Tokens) -> tuple[Parameter, ...]:
    """`( .param .b64 a, .reg .b32 b, .param .align 8 .b8 c[16] )`, offsets by natural alignment; `_` names allowed."""
    tokens.expect("(")
    parameters: list[Parameter] = []
    offset = 0
    while tokens.token.text != ")":
        if parameters:
            tokens.expect(",")
        if tokens.token.text not in (".param", ".reg"):
            raise tokens.unexpected("`.param` or `.reg`")
        if len(parameters) >= MAX_PARAMETERS:
            raise tokens.error("PTX-0301", f"more than {MAX_PARAMETERS} parameters")
        space = tokens.advance().text[1:]
        declarator = Declarator()
        read_qualifiers(tokens, declarator)
        name = tokens.expect_kind("name", "a parameter name")
        elements = declarator.vector
        for size in read_dimensions(tokens):
            elements *= size
        size_bytes = elements * declarator.element_bytes
        if size_bytes > MAX_VARIABLE_BYTES:
            raise tokens.error("PTX-0301", f"parameter `{name}` is too large")
        align = declarator.natural_align()
        offset = -(-offset // align) * align
        parameters.append(Parameter(name, declarator.type, size_bytes, align, offset, space))
        offset += size_bytes
    tokens.expect(")")
    return tuple(parameters)


def read_function_header(tokens: Tokens, is_entry: bool, linkage: str, line: int) -> Function:
    """From after `.entry` or `.func` up to the token `{` or `;`, which stays current."""
    directives: dict[str, tuple[int, ...]] = {}
    _read_directives(tokens, directives)
    results: tuple[Parameter, ...] = ()
    if not is_entry and tokens.token.text == "(":
        results = read_parameters(tokens)
        _read_directives(tokens, directives)
    name = tokens.expect_kind("name", "a function name")
    parameters = read_parameters(tokens) if tokens.token.text == "(" else ()
    _read_directives(tokens, directives)
    if tokens.token.text not in ("{", ";"):
        raise tokens.unexpected("`{` or `;`")
    _check_directives(tokens, directives)
    return Function(name, is_entry, parameters, results, linkage, directives=directives, line=line)


def _read_directives(tokens: Tokens, directives: dict[str, tuple[int, ...]]) -> None:
    while tokens.token.kind == "directive":
        text = tokens.token.text
        if text in _INTEGER_DIRECTIVES:
            tokens.advance()
            values = [read_integer(tokens)]
            while tokens.accept(","):
                values.append(read_integer(tokens))
                if len(values) > 3:
                    raise tokens.error("PTX-0101", f"{text} takes at most three numbers")
            directives[text[1:]] = tuple(values)
        elif text in _FLAG_DIRECTIVES:
            tokens.advance()
            directives[text[1:]] = ()
        elif text == ".attribute":
            if ".managed" in read_attributes(tokens):
                raise tokens.error("PTX-0101", "a function cannot be .managed")
        elif text == ".pragma":
            skip_pragma(tokens)
        else:
            raise tokens.error("PTX-0103", f"unknown directive `{text}` in a function header")


def _check_directives(tokens: Tokens, directives: dict[str, tuple[int, ...]]) -> None:
    """What ptxas 13.0 refuses about the performance and cluster directives of a function."""
    for name, values in directives.items():
        if not all(0 <= value < 1 << 32 for value in values):
            raise tokens.error("PTX-0105", f".{name}: a number beyond 32 bits")
        if name in ("maxntid", "reqntid") and 0 in values:
            raise tokens.error("PTX-0101", f".{name}: zero threads")
        if name == "maxclusterrank" and len(values) != 1:
            raise tokens.error("PTX-0101", f".{name} takes one number")
    for one, other in (("maxntid", "reqntid"), ("maxclusterrank", "reqnctapercluster")):
        if one in directives and other in directives:
            raise tokens.error("PTX-0101", f".{one} and .{other} exclude each other")
    if "blocksareclusters" in directives and not ("reqntid" in directives and "reqnctapercluster" in directives):
        raise tokens.error("PTX-0101", ".blocksareclusters needs .reqntid and .reqnctapercluster")


def skip_pragma(tokens: Tokens) -> None:
    """`.pragma "nounroll", "used_bytes_mask 0xff";`: hints that change no result."""
    tokens.expect(".pragma")
    tokens.expect_kind("string", "a string")
    while tokens.accept(","):
        tokens.expect_kind("string", "a string")
    tokens.expect(";")
