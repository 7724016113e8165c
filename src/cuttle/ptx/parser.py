"""PTX text to IR: `index_module` (cheap), `parse_function` (one body), `parse_module` (all).

Loading a module only indexes it: headers, parameters, variables and where each body stands. A body is read when its
kernel is first needed, so that a library with thousands of kernels loads in milliseconds (architecture, decision 4).
Grammar: PTX ISA 3.2 to 9.x.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cuttle.errors import PtxError, Where
from cuttle.ptx.body import BodyReader, OpcodeShape
from cuttle.ptx.declarations import LINKAGES, SPACES, read_function_header, read_integer, read_variables, skip_pragma
from cuttle.ptx.ir import Function, Module, Variable
from cuttle.ptx.scanner import SourceText, Tokens, closing_offset, decode, strip_comments, unquote

_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})\Z", re.ASCII)
MAX_INITIALISED_TOTAL = 1 << 29


@dataclass(frozen=True, slots=True)
class FunctionIndex:
    """A function's header and where its body stands. `body_start` is -1 for a declaration.

    `header` has no statements. Offsets are into `ModuleIndex.source.text`, lines count from 1.
    """

    header: Function
    body_start: int = -1
    body_end: int = -1
    body_line: int = 0
    last_line: int = 0

    @property
    def is_defined(self) -> bool:
        return self.body_start >= 0


@dataclass(slots=True)
class ModuleIndex:
    """All of a module but its function bodies."""

    source: SourceText
    version: tuple[int, int] = (0, 0)
    target: tuple[str, ...] = ()
    address_size: int = 32
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, FunctionIndex] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    symbols: dict[str, object] = field(default_factory=dict)
    opcodes: dict[str, OpcodeShape] = field(default_factory=dict)

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the kernels that have a body, in order of the text."""
        return tuple(name for name, f in self.functions.items() if f.header.is_entry and f.is_defined)


def index_module(text: bytes | str, file: str = "") -> ModuleIndex:
    """Find entry names, parameter layouts, body spans and variables. Raises PtxError."""
    source = SourceText(strip_comments(decode(text)), file)
    index = ModuleIndex(source)
    _IndexReader(index).read()
    return index


def parse_function(index: ModuleIndex, name: str) -> Function:
    """Read one function's body. Each call returns a new `Function`. Raises PtxError."""
    entry = index.functions.get(index.aliases.get(name, name))
    if entry is None or not entry.is_defined:
        raise PtxError("PTX-0206", f"the module has no function body `{name}`", Where(index.source.file, kernel=name))
    header = entry.header
    function = replace(
        header, registers={}, variables={}, prototypes={}, branch_targets={}, call_targets={},
        directives=dict(header.directives),
    )  # fmt: skip
    reader = BodyReader(index.source, function, index.variables, index.symbols, index.opcodes)
    function.statements = reader.read(entry.body_start, entry.body_end, entry.body_line)
    return function


def parse_module(text: bytes | str, file: str = "") -> Module:
    """Read a whole module. Raises PtxError."""
    index = index_module(text, file)
    module = Module(index.version, index.target, index.address_size, dict(index.variables))
    module.files.update(index.files)
    module.aliases.update(index.aliases)
    for name, entry in index.functions.items():
        module.functions[name] = parse_function(index, name) if entry.is_defined else entry.header
    return module


class _IndexReader:
    """The statements at module scope."""

    def __init__(self, index: ModuleIndex) -> None:
        self.index = index
        self.tokens = Tokens(index.source)
        self.line = 1
        self.counted = 0
        self.initialised = 0
        self.directives: dict[str, Callable[[], None]] = {
            ".version": self._version, ".target": self._target, ".address_size": self._address_size,
            ".file": self._file, ".section": self._section, ".pragma": self._pragma, ".loc": self._loc,
            ".alias": self._alias,
        }  # fmt: skip

    def read(self) -> None:
        tokens = self.tokens
        while tokens.token.kind != "end":
            token = tokens.token
            handler = self.directives.get(token.text)
            if handler is not None:
                handler()
            elif token.text in LINKAGES or token.text in SPACES or token.text in (".entry", ".func"):
                self._declaration()
            elif token.kind == "directive":
                raise tokens.error("PTX-0103", f"unknown directive `{token.text}`")
            elif not tokens.accept(";"):
                self._require_header()
                raise tokens.unexpected("a directive")
        self._require_header()

    def _require_header(self) -> None:
        if not self.index.version[0]:
            raise self.tokens.error("PTX-0110", "the text does not begin with .version: is this PTX?")
        if not self.index.target:
            raise self.tokens.error("PTX-0110", "the module has no .target")

    def _line_at(self, offset: int) -> int:
        """Line number of `offset`; offsets must not decrease from call to call."""
        self.line += self.index.source.text.count("\n", self.counted, offset)
        self.counted = max(self.counted, offset)
        return self.line

    # -- module header ------------------------------------------------------------------------------------------

    def _version(self) -> None:
        tokens = self.tokens
        if self.index.version[0]:
            raise tokens.error("PTX-0110", "a second .version")
        tokens.advance()
        offset = tokens.token.offset
        match = _VERSION.match(tokens.expect_kind("number", "a version such as 8.0"))
        if match is None or not int(match[1]):
            raise tokens.error("PTX-0110", "bad .version", expected="a version such as 8.0", offset=offset)
        self.index.version = (int(match[1]), int(match[2]))

    def _target(self) -> None:
        tokens = self.tokens
        tokens.advance()
        words = [tokens.expect_kind("name", "a target such as sm_80")]
        while tokens.accept(","):
            words.append(tokens.expect_kind("name", "a target"))
        self.index.target = (*self.index.target, *(word for word in words if word not in self.index.target))

    def _address_size(self) -> None:
        tokens = self.tokens
        tokens.advance()
        offset = tokens.token.offset
        size = read_integer(tokens)
        if size not in (32, 64):
            raise tokens.error("PTX-0110", f"address size {size}", expected="32 or 64", offset=offset)
        self.index.address_size = size

    # -- debug information and hints ----------------------------------------------------------------------------

    def _file(self) -> None:
        """`.file 1 "name.cu", timestamp, size`"""
        tokens = self.tokens
        tokens.advance()
        number = read_integer(tokens)
        self.index.files[number] = unquote(tokens.expect_kind("string", "a file name"))
        while tokens.accept(","):
            read_integer(tokens)

    def _section(self) -> None:
        """`.section .debug_info { ... }`: DWARF, of no use here."""
        tokens = self.tokens
        tokens.advance()
        while tokens.token.kind in ("directive", "name"):
            tokens.advance()
        tokens.bracketed("{", "}")

    def _pragma(self) -> None:
        skip_pragma(self.tokens)

    def _loc(self) -> None:
        tokens = self.tokens
        tokens.advance()
        while tokens.token.kind in ("number", "name") or tokens.token.text in (",", "+"):
            tokens.advance()

    # -- declarations -------------------------------------------------------------------------------------------

    def _alias(self) -> None:
        tokens = self.tokens
        tokens.advance()
        offset = tokens.token.offset
        alias = tokens.expect_kind("name", "a function name")
        tokens.expect(",")
        target = tokens.expect_kind("name", "a function name")
        tokens.expect(";")
        if target not in self.index.functions:
            raise tokens.error("PTX-0203", f"the alias `{alias}` names the unknown function `{target}`", offset=offset)
        self.index.aliases[alias] = target
        self.index.symbols[alias] = target

    def _declaration(self) -> None:
        tokens = self.tokens
        self._require_header()
        linkage = ""
        while tokens.token.text in LINKAGES:
            linkage = tokens.advance().text[1:]
        if tokens.token.text in (".entry", ".func"):
            self._function(tokens.token.text == ".entry", linkage)
            return
        if tokens.token.text not in SPACES or tokens.token.text in (".reg", ".sreg", ".param"):
            raise tokens.unexpected("`.entry`, `.func` or a state space of module scope")
        offset = tokens.token.offset
        space = tokens.advance().text[1:]
        for variable in read_variables(tokens, space, linkage, {}):
            self._add_variable(variable, offset)

    def _add_variable(self, variable: Variable, offset: int) -> None:
        index = self.index
        known = index.symbols.get(variable.name)
        if known is not None:
            if not isinstance(known, Variable) or (known.linkage != "extern" and variable.linkage != "extern"):
                raise self.tokens.error("PTX-0204", f"`{variable.name}` is declared twice", offset=offset)
            if variable.linkage == "extern":
                return
        self.initialised += len(variable.initial or b"")
        if self.initialised > MAX_INITIALISED_TOTAL:
            raise self.tokens.error("PTX-0301", "the module's initialisers are too large", offset=offset)
        index.variables[variable.name] = variable
        index.symbols[variable.name] = variable

    def _function(self, is_entry: bool, linkage: str) -> None:
        tokens, index = self.tokens, self.index
        offset = tokens.token.offset
        line = self._line_at(offset)
        tokens.advance()
        header = read_function_header(tokens, is_entry, linkage, line)
        tokens.kernel = ""
        known = index.symbols.get(header.name)
        if known is not None and not isinstance(known, FunctionIndex):
            raise tokens.error("PTX-0204", f"`{header.name}` is declared twice", offset=offset)
        if tokens.token.text == ";":
            tokens.advance()
            if known is None:
                self._add_function(FunctionIndex(header))
            return
        if known is not None and known.is_defined:
            raise tokens.error("PTX-0204", f"`{header.name}` is defined twice", offset=offset)
        start = tokens.token.offset + 1
        stop = closing_offset(index.source.text, start, tokens.end)
        if stop < 0:
            raise tokens.error("PTX-0102", f"the body of `{header.name}` is never closed")
        body_line = self._line_at(start)
        self._add_function(FunctionIndex(header, start, stop, body_line, self._line_at(stop)))
        tokens.seek(stop + 1)

    def _add_function(self, function: FunctionIndex) -> None:
        self.index.functions[function.header.name] = function
        self.index.symbols[function.header.name] = function
