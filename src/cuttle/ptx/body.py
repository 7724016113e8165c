"""The statements of a function body: one regular expression per statement (PTX ISA 9.x, sections 4.2 to 4.4).

This is the hot loop of loading a module. Three memos keep it fast: opcode spellings (per module), operand texts (per
block), guards (per block). `.loc` sets the source place of what follows; other directives go to `declarations.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from cuttle.errors import PtxError
from cuttle.ptx.declarations import SPACES, read_parameters, read_variables
from cuttle.ptx.ir import (
    TYPE_BITS,
    CallTarget,
    Function,
    Guard,
    Instruction,
    Label,
    LabelMark,
    Location,
    Operand,
    Parameter,
    Prototype,
    Register,
    Sink,
    Statement,
    Symbol,
    Variable,
    Vector,
    parameter_registers,
)
from cuttle.ptx.opcode_roots import split_opcode
from cuttle.ptx.operands import OperandError, OperandReader, register_names, split_operands
from cuttle.ptx.scanner import MAX_NESTING, SourceText, Tokens
from cuttle.ptx.scopes import MAX_RANGE, Names, Scope

_STATEMENT = re.compile(
    r"""\s*(?:
    (?:@\s*(!?\s*[%$\w]+)\s*)?([a-z]\w*(?:\.\w+(?:::\w+)*)*)(?=[\s;{\[(%!-])(?!\s*:)\s*([^;]*);     # 1 2 3 instruction
  | ([$%A-Za-z_][\w$]*)\s*:(?!:)                                                              # 4 label
  | ([{}])                                                                                    # 5 block
  | \.loc\s+(\d+)\s+(\d+)(?:\s+\d+)?(?:\s*,\s*function_name\s+[$%\w]+(?:\s*\+\s*\w+)?\s*,\s*inlined_at\s+\d+\s+\d+\s+\d+)?(?!\w)
                                                                                              # 6 7 .loc
  | \.(\w+)([^;]*);                                                                           # 8 9 directive
  | (;)                                                                                       # 10 empty
  | (\S)                                                                                      # 11 anything else
    )""",
    re.VERBOSE | re.ASCII,
)
_REGISTER = re.compile(r"\s*([%$A-Za-z_][\w$]*)\s*(?:<\s*(\w+)\s*>)?\s*\Z", re.ASCII)
_NAME = re.compile(r"\s*([%$A-Za-z_][\w$]*)\s*\Z", re.ASCII)
_LINKAGES = {"extern", "visible", "weak", "common"}
_WIDTHS = {".v2": 2, ".v4": 4, ".v8": 8}
_PLAIN, _BRANCH, _CALL, _VECTOR_MOVE = 0, 1, 2, 3

# What the opcode memo holds: root, modifiers, types, how to read operands.
OpcodeShape = tuple[str, tuple[str, ...], tuple[str, ...], int]


def opcode_spellings(text: str, start: int, end: int) -> set[str]:
    """The opcodes, as written with modifiers, of a body: a quick look without building IR."""
    end = start + len(text[start:end].rstrip())
    return {match[2] for match in _STATEMENT.finditer(text, start, end) if match.lastindex == 3}


class BodyReader:
    """Reads one body. `opcodes` is the module-wide memo of opcode spellings."""

    def __init__(
        self,
        source: SourceText,
        function: Function,
        variables: Mapping[str, Variable],
        symbols: Mapping[str, object],
        opcodes: dict[str, OpcodeShape],
    ) -> None:
        self.source = source
        self.function = function
        self.names = Names(function, symbols)
        self.operands = OperandReader(self.names, variables, symbols)
        self.opcodes = opcodes
        self.scope = Scope(None)
        self.depth = 0
        self.statements: list[Statement] = []
        # Labels may be used before they are defined and blocks may repeat them: resolved at the end.
        self.labels: dict[str, list[tuple[Scope, str]]] = {}
        self.label_uses: list[tuple[int, Scope, int]] = []
        self.lists: list[tuple[str, Scope, int]] = []

    def error(self, code: str, offset: int, message: str, **detail: str) -> PtxError:
        return self.source.error(code, offset, message, kernel=self.function.name, **detail)

    def read(self, start: int, end: int, first_line: int) -> list[Statement]:
        """Read `text[start:end]`, the part between the outer braces, whose first line has number `first_line`."""
        for parameter in (*self.function.results, *self.function.parameters):
            self._declare_parameter(parameter)
        text = self.source.text
        end = start + len(text[start:end].rstrip())
        count = text.count
        opcodes, statements = self.opcodes, self.statements
        append = statements.append
        scope = self.scope
        memo = scope.memo
        guards: dict[str, Guard] = {}
        readers = {_BRANCH: self._branch, _CALL: self._call, _VECTOR_MOVE: self._vector_move}
        line, counted = first_line, start
        file, source_line = 0, 0
        position = start
        for match in _STATEMENT.finditer(text, start, end):
            kind = match.lastindex
            position = match.end()
            if kind == 3:
                guard_text, spelling, rest = match.group(1, 2, 3)
                begin = match.start(2)
                line += count("\n", counted, begin)
                counted = begin
                shape = opcodes.get(spelling) or self._opcode(spelling, begin)
                guard = None
                if guard_text is not None:
                    guard = guards.get(guard_text)
                    if guard is None:
                        guard = guards[guard_text] = self._guard(guard_text, begin)
                location = Location(line, file, source_line)
                if shape[3] == _PLAIN:
                    try:
                        operands = tuple([memo[piece] for piece in rest.split(",")])
                    except KeyError:
                        operands, extra = self._read_operands(shape, rest, match.start(3))
                        if self.operands.sums:
                            self._emit_sums(location)
                        if extra:
                            modifiers = (*shape[1], extra)
                            append(Instruction(shape[0], modifiers, shape[2], operands, guard, location))
                            continue
                    append(Instruction(shape[0], shape[1], shape[2], operands, guard, location))
                else:
                    append(readers[shape[3]](shape, rest, guard, location, match.start(3)))
            elif kind == 4:
                self._label(match[4], match.start(4), position, end)
            elif kind == 5:
                if match[5] == "{":
                    self.depth += 1
                    if self.depth > MAX_NESTING:
                        raise self.error("PTX-0302", match.start(5), "blocks nest too deeply")
                    self.scope = scope = Scope(scope)
                else:
                    if scope.parent is None:
                        raise self.error("PTX-0101", match.start(5), "this `}` closes nothing")
                    self.depth -= 1
                    self.scope = scope = scope.parent
                memo = scope.memo
                guards = {}
            elif kind == 7:
                file, source_line = int(match[6][:9]), int(match[7][:9])
            elif kind == 9:
                self._directive(match[8], match.start(8) - 1, position)
                memo = scope.memo
                if match[8] == "reg":
                    guards = {}
            elif kind == 11:
                raise self._unreadable(match.start(11), end)
        if scope.parent is not None:
            raise self.error("PTX-0102", end, "a block `{` is never closed")
        self._resolve_labels()
        if self.names.vector_elements:
            self._drop_unused_elements()
        return statements

    def _drop_unused_elements(self) -> None:
        """Naming one component of a vector register declared all four; keep those that occur."""
        used: set[str] = set()
        for statement in self.statements:
            if isinstance(statement, Instruction):
                call = statement.call
                operands = statement.operands if call is None else (call.callee, *call.results, *call.arguments)
                for operand in operands:
                    used.update(register_names(operand))
        for name in self.names.vector_elements - used:
            del self.function.registers[name]

    def _unreadable(self, offset: int, end: int) -> PtxError:
        text = self.source.text
        if text.find(";", offset, end) < 0:
            return self.error("PTX-0102", offset, "this statement does not end", expected="`;`")
        found = text[offset : min(end, offset + 60)].split("\n")[0]
        return self.error("PTX-0101", offset, "unexpected text", found=found, expected="a statement")

    # -- instructions -------------------------------------------------------------------------------------------

    def _opcode(self, spelling: str, offset: int) -> OpcodeShape:
        parts = split_opcode(spelling)
        if parts is None:
            raise self.error("PTX-0104", offset, f"unknown instruction `{spelling}`")
        root = parts[0]
        how = _CALL if root == "call" else _BRANCH if root in ("bra", "brx.idx") else _PLAIN
        if root == "mov" and ("v2" in parts[1] or "v4" in parts[1]):
            how = _VECTOR_MOVE
        shape = (*parts, how)
        self.opcodes[spelling] = shape
        return shape

    def _guard(self, text: str, offset: int) -> Guard:
        negated = text[0] == "!"
        name = text[1:].strip() if negated else text
        register = self.names.find(self.scope, name)
        if register is None:
            raise self.error("PTX-0201", offset, f"register {name} is not declared")
        if not isinstance(register, Register) or self.function.registers[register.name] != "pred":
            raise self.error("PTX-0205", offset, f"{name} after @ is no predicate register")
        return Guard(register, negated)

    def _read_operands(self, shape: OpcodeShape, rest: str, offset: int) -> tuple[tuple[Operand, ...], str]:
        """The careful way, for operands not seen before. The second result is a modifier written behind an operand."""
        if not rest:
            return (), ""
        memo = self.scope.memo
        operands: list[Operand] = []
        extra = ""
        try:
            # Without braces, a comma inside brackets shows as a piece that opens but does not close.
            pieces = rest.split(",")
            if "{" in rest or "(" in rest or ("[" in rest and rest.find(",", rest.find("["), rest.rfind("]")) >= 0):
                pieces = split_operands(rest)
            for piece in pieces:
                operand = memo.get(piece)
                if operand is None:
                    operand = self._new_operand(shape[0], piece)
                    if operand is None:
                        extra = "unified"
                        operand = self.operands.read(self.scope, piece.strip()[:-8], True)
                operands.append(operand)
        except OperandError as error:
            instruction = ".".join((shape[0], *shape[1])) + " " + rest.strip()
            raise self._operand_error(error, rest, offset, instruction) from None
        return tuple(operands), extra

    def _new_operand(self, root: str, piece: str) -> Operand | None:
        """Read and memoise one operand; None if it is `[...].unified`, whose suffix belongs to the instruction."""
        memo = self.scope.memo
        text = piece.strip()
        found = self.names.find(self.scope, text)
        if found is not None:
            # As first operand it was written without, as a later one it will come with a leading space.
            memo[text] = memo[" " + text] = memo[piece] = found
            return found
        if text.endswith("].unified"):
            return None
        indexed_is_address = root not in ("mov", "cvta")
        operand = self.operands.read(self.scope, text, indexed_is_address)
        if (indexed_is_address or "[" not in text) and not self.operands.sums:
            memo[piece] = operand
        return operand

    def _operand_error(self, error: OperandError, rest: str, offset: int, instruction: str) -> PtxError:
        message = error.message
        line_end = rest.find("\n", len(rest) - len(rest.lstrip()))
        if line_end >= 0 and re.match(r"\s*[a-z@.]", rest[line_end:]):
            message += " (is the `;` of this statement missing?)"
        return self.error(error.code, offset, message, instruction=instruction)

    def _emit_sums(self, location: Location) -> None:
        """What operands `%r1+4` and `a[%r1]` need before their statement. It changes nothing if that does not execute."""
        for opcode, modifiers, operands in self.operands.sums:
            self.statements.append(Instruction(opcode, modifiers, modifiers[-1:], operands, None, location))
        self.operands.sums.clear()

    def _branch(
        self, shape: OpcodeShape, rest: str, guard: Guard | None, location: Location, offset: int
    ) -> Instruction:
        pieces = rest.split(",")
        match = _NAME.match(pieces[-1])
        wanted = 2 if shape[0] == "brx.idx" else 1
        if match is None or len(pieces) != wanted:
            raise self.error("PTX-0106", offset, "bad branch target", found=rest.strip(), expected="a label")
        operands: tuple[Operand, ...] = (Label(match[1]),)
        if wanted == 2:
            operands = self._read_operands(shape, pieces[0], offset)[0] + operands
        self._emit_sums(location)
        self.label_uses.append((len(self.statements), self.scope, offset))
        return Instruction(shape[0], shape[1], shape[2], operands, guard, location)

    def _vector_move(
        self, shape: OpcodeShape, rest: str, guard: Guard | None, location: Location, offset: int
    ) -> Instruction:
        """`mov.v4.b32 {a, b, c, d}, {w, x, y, z};` as single moves, the sources before the first target changes.

        The manual has no such form; ptxas takes it for up to 128 bits, and Dr.Jit writes it.
        """
        operands, _ = self._read_operands(shape, rest, offset)
        self._emit_sums(location)
        kind = shape[2][-1] if len(shape[2]) == 1 else ""
        count = _WIDTHS[next(f".{part}" for part in shape[1] if part in ("v2", "v4"))]
        lists = [operand.elements for operand in operands if isinstance(operand, Vector)]
        width = TYPE_BITS.get(kind, 0)
        fits = width in (16, 32, 64) and width * count <= 128 and shape[1][1:] == (kind,)
        if not fits or len(operands) != 2 or [len(each) for each in lists] != [count, count]:
            spelling = ".".join((shape[0], *shape[1]))
            message = f"`{spelling}` moves {count} elements, of 128 bits at most, between two brace lists"
            raise self.error("PTX-0207", offset, message, instruction=f"{spelling} {rest.strip()}")
        targets, sources = lists
        written = {name for target in targets[:-1] for name in register_names(target)}
        moves: list[tuple[Operand, Operand]] = []
        kept: list[Operand] = []
        for source in sources:
            if written.isdisjoint(register_names(source)):
                kept.append(source)
                continue
            copy = Register(self.names.unique("vector$move"))
            self.function.registers[copy.name] = f"b{width}"
            moves.append((copy, source))
            kept.append(copy)
        moves += [pair for pair in zip(targets, kept, strict=True) if not isinstance(pair[0], Sink)]
        made = [Instruction("mov", (kind,), (kind,), pair, guard, location) for pair in moves]
        if not made:
            raise self.error("PTX-0207", offset, "`mov` into sinks only moves nothing")
        self.statements += made[:-1]
        return made[-1]

    def _call(self, shape: OpcodeShape, rest: str, guard: Guard | None, location: Location, offset: int) -> Instruction:
        """`call (results), callee, (arguments), prototype;` each part but the callee optional."""
        try:
            pieces = [piece.strip() for piece in split_operands(rest)]
            results: tuple[Operand, ...] = ()
            arguments: tuple[Operand, ...] = ()
            if pieces and pieces[0].startswith("("):
                results = self._call_list(pieces.pop(0))
            if not pieces or not _NAME.match(pieces[0]):
                raise OperandError("PTX-0106", f"`call {rest.strip()[:60]}` names no function")
            callee = self.operands.named(self.scope, pieces.pop(0))
            if not isinstance(callee, Register | Symbol):
                raise OperandError("PTX-0106", f"`call {rest.strip()[:60]}`: the callee is no function or register")
            if pieces and pieces[0].startswith("("):
                arguments = self._call_list(pieces.pop(0))
            prototype = None
            if pieces:
                match = _NAME.match(pieces.pop(0))
                if match is None or pieces:
                    raise OperandError("PTX-0106", f"`call {rest.strip()[:60]}` has too many parts")
                prototype = match[1]
        except OperandError as error:
            raise self._operand_error(error, rest, offset, "call " + rest.strip()) from None
        self._emit_sums(location)
        if prototype is not None:
            self.label_uses.append((len(self.statements), self.scope, offset))
        target = CallTarget(callee, results, arguments, prototype)
        return Instruction(shape[0], shape[1], shape[2], (), guard, location, target)

    def _call_list(self, text: str) -> tuple[Operand, ...]:
        if text[-1] != ")":
            raise OperandError("PTX-0106", f"`{text[:60]}` is no argument list")
        inner = text[1:-1].strip()
        if not inner:
            return ()
        return tuple(self.operands.read(self.scope, piece, False) for piece in split_operands(inner))

    # -- labels -------------------------------------------------------------------------------------------------

    def _label(self, name: str, offset: int, position: int, end: int) -> None:
        """A label, and the `.callprototype`, `.branchtargets` or `.calltargets` that may stand behind it.

        The statement loop meets such a directive again as its next statement, where `_directive` passes over it.
        """
        known = self.labels.setdefault(name, [])
        if any(scope is self.scope for scope, _ in known):
            raise self.error("PTX-0204", offset, f"label `{name}` is defined twice in its block")
        unique = name if not known else self.names.unique(name)
        if not known:
            self.names.used.add(name)
        known.append((self.scope, unique))
        text = self.source.text
        while position < end and text[position].isspace():
            position += 1
        if text.startswith((".callprototype", ".branchtargets", ".calltargets"), position):
            stop = text.find(";", position, end)
            if stop < 0:
                raise self.error("PTX-0102", position, "this statement does not end", expected="`;`")
            self._labelled_directive(unique, position, stop)
        else:
            self.statements.append(LabelMark(unique))

    def _labelled_directive(self, name: str, position: int, stop: int) -> None:
        text = self.source.text
        if text.startswith(".callprototype", position):
            tokens = Tokens(self.source, position, stop + 1, self.function.name)
            tokens.advance()
            results = read_parameters(tokens) if tokens.token.text == "(" else ()
            tokens.expect_kind("name", "`_`")
            parameters = read_parameters(tokens) if tokens.token.text == "(" else ()
            while tokens.token.kind in ("directive", "number", "name", "punctuation") and tokens.token.text != ";":
                tokens.advance()  # .noreturn, .abi_preserve n: no effect on the shapes
            self.function.prototypes[name] = Prototype(name, results, parameters)
            return
        keyword, _, rest = text[position:stop].partition("targets")
        names = []
        for piece in rest.split(","):
            match = _NAME.match(piece)
            if match is None:
                raise self.error("PTX-0101", position, "bad target list", found=piece.strip(), expected="a name")
            names.append(match[1])
        if keyword == ".call":
            self.function.call_targets[name] = tuple(names)
        else:
            self.function.branch_targets[name] = tuple(names)
            self.lists.append((name, self.scope, position))

    def _resolve_labels(self) -> None:
        for index, scope, offset in self.label_uses:
            statement = self.statements[index]
            assert isinstance(statement, Instruction)
            if statement.call is not None:
                call = statement.call
                prototype = self._resolve_label(call.prototype or "", scope, offset)
                if prototype not in self.function.prototypes and prototype not in self.function.call_targets:
                    raise self.error("PTX-0202", offset, f"`{prototype}` is no .callprototype or .calltargets label")
                if prototype == call.prototype:
                    continue
                call = CallTarget(call.callee, call.results, call.arguments, prototype)
                operands = statement.operands
            else:
                call = None
                label = statement.operands[-1]
                assert isinstance(label, Label)
                name = self._resolve_label(label.name, scope, offset)
                if statement.opcode == "brx.idx" and name not in self.function.branch_targets:
                    raise self.error("PTX-0202", offset, f"`{label.name}` is no .branchtargets label")
                if name == label.name:
                    continue
                operands = (*statement.operands[:-1], Label(name))
            self.statements[index] = Instruction(
                statement.opcode, statement.modifiers, statement.types, operands, statement.guard,
                statement.location, call,
            )  # fmt: skip
        for name, scope, offset in self.lists:
            targets = self.function.branch_targets[name]
            self.function.branch_targets[name] = tuple(self._resolve_label(t, scope, offset) for t in targets)

    def _resolve_label(self, name: str, scope: Scope | None, offset: int) -> str:
        known = self.labels.get(name)
        if known is None:
            raise self.error("PTX-0202", offset, f"label `{name}` is not defined")
        while scope is not None:
            for owner, unique in known:
                if owner is scope:
                    return unique
            scope = scope.parent
        raise self.error("PTX-0202", offset, f"label `{name}` is not visible from here")

    # -- declarations -------------------------------------------------------------------------------------------

    def _declare_parameter(self, parameter: Parameter) -> None:
        name = parameter.name
        if name in self.scope.names:
            raise self.error("PTX-0204", 0, f"parameter `{name}` is declared twice")
        self.names.used.add(name)
        if parameter.space != "reg":
            self.scope.names[name] = Symbol(name)
            return
        registers = [Register(register) for register in parameter_registers(parameter)]
        self.function.registers.update((register.name, parameter.type) for register in registers)
        self.names.used.update(register.name for register in registers)
        # The elements can be named too: printed IR names them.
        self.scope.names.update((register.name, register) for register in registers)
        if len(registers) > 1:
            self.scope.names[name] = Vector(tuple(registers))

    def _directive(self, word: str, start: int, stop: int) -> None:
        if word == "reg":
            self._registers(start, stop)
        elif "." + word in SPACES or word in _LINKAGES:
            self._variables(start, stop)
        elif word in ("callprototype", "branchtargets", "calltargets"):
            if self.source.text[:start].rstrip()[-1:] != ":":
                raise self.error("PTX-0101", start, f".{word} without a label")
        elif word == "attribute":
            raise self.error("PTX-0101", start, "unexpected .attribute")
        elif word != "pragma":
            raise self.error("PTX-0103", start, f"unknown directive `.{word}` in a body")

    def _registers(self, start: int, stop: int) -> None:
        """`.reg .v2 .f32 %f<10>, %g;`"""
        text = self.source.text[start + 4 : stop - 1]
        words = text.split(None, 3)
        type_name, width = "", 1
        while words and words[0][0] == ".":
            for part in words[0][1:].split("."):
                if part in TYPE_BITS:
                    type_name = part
                elif "." + part in _WIDTHS:
                    width = _WIDTHS["." + part]
                else:
                    raise self.error("PTX-0107", start, f"unknown register type `.{part}`")
            text = text.lstrip()[len(words[0]) :]
            words = text.split(None, 1)
        if not type_name:
            raise self.error("PTX-0101", start, "this .reg names no type", found=text)
        scope = self.scope
        for piece in text.split(","):
            match = _REGISTER.match(piece)
            if match is None:
                raise self.error("PTX-0101", start, "bad register declaration", found=piece, expected="a register")
            name, count = match.groups()
            if count is None:
                if not self.names.declare_register(scope, name, type_name, width):
                    raise self.error("PTX-0204", start, f"register {name} is declared twice")
                continue
            if not count.isdigit() or len(count) > 10 or int(count) > MAX_RANGE:
                raise self.error("PTX-0301", start, f"register range `{piece.strip()}` is out of range")
            if name in scope.ranges:
                raise self.error("PTX-0204", start, f"registers {name}<> are declared twice")
            scope.ranges[name] = (type_name, int(count), width)
        scope.declared()

    def _variables(self, start: int, stop: int) -> None:
        tokens = Tokens(self.source, start, stop, self.function.name)
        linkage = ""
        while tokens.token.text[1:] in _LINKAGES:
            linkage = tokens.advance().text[1:]
        if tokens.token.text not in SPACES:
            raise tokens.unexpected("a state space")
        space = tokens.advance().text[1:]
        scope = self.scope
        renamed = {name: entry.name for name, entry in scope.names.items() if isinstance(entry, Symbol)}
        for variable in read_variables(tokens, space, linkage, renamed):
            if variable.name in scope.names:
                raise self.error("PTX-0204", start, f"variable `{variable.name}` is declared twice")
            unique = self.names.unique(variable.name)
            scope.names[variable.name] = Symbol(unique)
            self.function.variables[unique] = replace(variable, name=unique)
        scope.declared()
