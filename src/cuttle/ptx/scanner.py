"""PTX text before grammar: decoding, comments, places in the text, and the tokens of declarations.

Instructions are not tokenised (`statements.py` reads each with one regular expression); declarations are rarer and
freer in form, and are read token by token with `Tokens`. Facts: PTX ISA 9.x, chapter 4 (syntax).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cuttle.errors import PtxError, Where

MAX_TEXT_BYTES = 1 << 30
MAX_NESTING = 64

# Characters that end statements or blocks get a stand-in inside strings, so that scanning need not know strings.
_HIDE = str.maketrans({"{": "\x01", "}": "\x02", ";": "\x03"})
_SHOW = str.maketrans({"\x01": "{", "\x02": "}", "\x03": ";"})

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|^@@[^\n]*|/\*|"', re.DOTALL | re.MULTILINE)
_NOT_NEWLINE = re.compile(r"[^\n]")

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<directive>\.[A-Za-z_][\w]*(?:::\w+)*)
  | (?P<name>[%$A-Za-z_][\w$]*)
  | (?P<number>\d[\w.]*)
  | (?P<string>"[^"\n]*")
  | (?P<punctuation>\S)
  | (?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII,
)


def decode(text: bytes | str) -> str:
    """PTX as str: cut at the first NUL (the C interfaces pass NUL-terminated text), line ends made `\\n`."""
    if len(text) > MAX_TEXT_BYTES:
        raise PtxError("PTX-0301", f"the module text has {len(text)} bytes; the limit is {MAX_TEXT_BYTES}")
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    nul = text.find("\0")
    if nul >= 0:
        text = text[:nul]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removeprefix("\ufeff")


def strip_comments(text: str) -> str:
    """Blank out `//` and `/* */` comments and `@@DWARF` lines; lines and columns of the rest stay what they were."""
    if "/" not in text and '"' not in text and "@@" not in text:
        return text

    def replacement(match: re.Match[str]) -> str:
        found = match[0]
        if found[0] == '"' and len(found) > 1:
            return found.translate(_HIDE)
        if found == "/*":
            raise SourceText(text).error("PTX-0102", match.start(), "this comment is never closed")
        if found == '"':
            raise SourceText(text).error("PTX-0102", match.start(), "this string is never closed")
        if found.startswith("/*"):
            return _NOT_NEWLINE.sub(" ", found)
        return ""

    return _COMMENT.sub(replacement, text)


def unquote(token: str) -> str:
    """The text of a string token."""
    return token[1:-1].translate(_SHOW)


def excerpt(text: str, limit: int = 80) -> str:
    """`text` on one line, cut to `limit` characters, for messages."""
    line = " ".join(text[: 4 * limit].translate(_SHOW).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


class SourceText:
    """A module's text without comments, able to name places in it."""

    def __init__(self, text: str, file: str = "") -> None:
        self.text = text
        self.file = file

    def line(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    def error(
        self, code: str, offset: int, message: str, *, expected: str = "", found: str = "", kernel: str = "",
        instruction: str = "", hint: str = "",
    ) -> PtxError:  # fmt: skip
        """An error at `offset`. `found` and `expected` are added to the message when given."""
        text = self.text
        offset = max(0, min(offset, len(text)))
        while offset < len(text) and text[offset].isspace():
            offset += 1
        if found:
            message += f": found `{excerpt(found, 60)}`"
        if expected:
            message += f"{',' if found else ':'} expected {expected}"
        column = offset - (text.rfind("\n", 0, offset) + 1) + 1
        where = Where(self.file, self.line(offset), column, kernel, excerpt(instruction))
        return PtxError(code, message, where, hint)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is `directive`, `name`, `number`, `string`, `punctuation` or `end`; `text` as written."""

    kind: str
    text: str
    offset: int


class Tokens:
    """A cursor over the tokens of `source.text[start:end]`."""

    def __init__(self, source: SourceText, start: int = 0, end: int | None = None, kernel: str = "") -> None:
        self.source = source
        self.end = len(source.text) if end is None else end
        self.kernel = kernel
        self.position = start
        self.token = Token("end", "", start)
        self.advance()

    def advance(self) -> Token:
        """Step on and return the token stepped over."""
        previous = self.token
        match = _TOKEN.match(self.source.text, self.position, self.end)
        if match is None or match.lastgroup is None or match.lastgroup == "end":
            self.token = Token("end", "", self.end)
            self.position = self.end
        else:
            kind = match.lastgroup
            self.token = Token(kind, match[kind], match.start(kind))
            self.position = match.end()
        return previous

    def seek(self, offset: int) -> None:
        """Continue at `offset`."""
        self.position = offset
        self.advance()

    def accept(self, text: str) -> bool:
        """Step over the token if it is `text`."""
        if self.token.text == text:
            self.advance()
            return True
        return False

    def expect(self, text: str) -> Token:
        if self.token.text != text:
            raise self.unexpected(f"`{text}`")
        return self.advance()

    def expect_kind(self, kind: str, what: str) -> str:
        if self.token.kind != kind:
            raise self.unexpected(what)
        return self.advance().text

    def unexpected(self, expected: str, code: str = "PTX-0101") -> PtxError:
        found = self.token.text or "the end of the text"
        if self.token.kind == "end" and code == "PTX-0101":
            code = "PTX-0102"
        return self.error(code, "unexpected text", found=found, expected=expected)

    def error(
        self, code: str, message: str, *, found: str = "", expected: str = "", offset: int | None = None
    ) -> PtxError:
        place = self.token.offset if offset is None else offset
        return self.source.error(code, place, message, found=found, expected=expected, kernel=self.kernel)

    def bracketed(self, opening: str, closing: str) -> tuple[int, int]:
        """Step over a bracketed part; the cursor stands on `opening`. Returns the span between the brackets.

        Brackets of the same kind may nest inside. Uses find and count, so that large initialisers cost little.
        """
        if self.token.text != opening:
            raise self.unexpected(f"`{opening}`")
        start = self.token.offset + 1
        stop = closing_offset(self.source.text, start, self.end, opening, closing)
        if stop < 0:
            raise self.error("PTX-0102", f"this `{opening}` is never closed")
        self.seek(stop + 1)
        return start, stop


def closing_offset(text: str, start: int, end: int, opening: str = "{", closing: str = "}") -> int:
    """Offset of the bracket that closes the one opened just before `start`, or -1."""
    depth = 1
    position = start
    while True:
        stop = text.find(closing, position, end)
        if stop < 0:
            return -1
        depth += text.count(opening, position, stop) - 1
        if depth == 0:
            return stop
        position = stop + 1
