"""Errors that reach the user: a code of `abi/errors.py`, a place, a reason, a hint.

`CuttleError.render()` gives the one form in which they are printed::

    error[PTX-0201]: register %r9 is not declared
      --> kernel.ptx:12:9, in kernel `saxpy`, at `add.s32 %r9, %r1, %r2`
      hint: Declare it with .reg in the same or an enclosing block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cuttle.abi.errors import ERRORS, ErrorRow

_rows: dict[str, ErrorRow] = {}
# Control characters but tab and line end, marks that turn the direction of writing, and halves of characters (which stand for
# bytes of file names that are no UTF-8, and cannot be written).
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_ERROR_LINE = re.compile(r"(?:cuttle: )?error\[([A-Z]{3}-\d{4})\]: (.*)")


def visible(text: str) -> str:
    """Text from files and programs as it may be sent to a terminal: what would act instead of showing is written `\\x1b`."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def error_row(code: str) -> ErrorRow | None:
    """The row of `code` (`PTX-0101`), or None. The index is built at the first call."""
    if not _rows:
        _rows.update((row.code, row) for row in ERRORS)
    return _rows.get(code)


@dataclass(frozen=True, slots=True)
class Where:
    """The place of an error. Lines and columns count from 1; 0 and empty strings mean unknown."""

    file: str = ""
    line: int = 0
    column: int = 0
    kernel: str = ""
    instruction: str = ""

    def __str__(self) -> str:
        parts = []
        if self.file or self.line:
            place = self.file or "PTX"
            if self.line:
                place += f":{self.line}"
                if self.column:
                    place += f":{self.column}"
            parts.append(place)
        if self.kernel:
            parts.append(f"in kernel `{self.kernel}`")
        if self.instruction:
            parts.append(f"at `{self.instruction}`")
        return ", ".join(parts)


class CuttleError(Exception):
    """An error with a code. `hint` defaults to that of the code's row."""

    def __init__(self, code: str, message: str, where: Where | None = None, hint: str = "") -> None:
        super().__init__(code, message, where, hint)
        self.code = code
        self.message = message
        self.where = where or Where()
        row = error_row(code)
        self.hint = hint or (row.hint if row else "")

    def render(self) -> str:
        """The error as text of up to three lines, fit for a terminal."""
        lines = [f"error[{self.code}]: {self.message}"]
        place = str(self.where)
        if place:
            lines.append(f"  --> {place}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return visible("\n".join(lines))

    def at(self, *, file: str = "", kernel: str = "", instruction: str = "") -> CuttleError:
        """The same error with a place filled in where it was still unknown."""
        old = self.where
        self.where = Where(old.file or file, old.line, old.column, old.kernel or kernel, old.instruction or instruction)
        return self

    def __str__(self) -> str:
        return self.render()


def said_error(talk: str) -> CuttleError | None:
    """The first error with a code in what a process of ours said on stderr, with its hint."""
    lines = talk.splitlines()
    for number, line in enumerate(lines):
        found = _ERROR_LINE.match(line)
        if found:
            after = (text.strip() for text in lines[number + 1 : number + 3])
            hint = next((text.removeprefix("hint: ") for text in after if text.startswith("hint: ")), "")
            return CuttleError(found[1], found[2], hint=hint)
    return None


def reason_in(told: str) -> str:
    """What a process said on stderr as the end of a sentence: its error with a code, else its last line."""
    said = said_error(told)
    if said is not None:
        return f": {said.message} ({said.code})"
    lines = told.strip().splitlines()
    return f": {lines[-1]}" if lines else ""


class PtxError(CuttleError):
    """PTX text that cannot be read, checked or linked (`PTX-xxxx`)."""


class ContainerError(CuttleError):
    """A fat binary, ELF or PE file that cannot be read (`CON-xxxx`)."""


class ApiError(CuttleError):
    """A CUDA function that cannot be carried out (`API-xxxx`)."""


class DeviceError(CuttleError):
    """A device, executor or kernel that failed (`DEV-xxxx`)."""


class StackError(CuttleError):
    """The AMD stack manager failed (`STK-xxxx`)."""


class SweepError(CuttleError):
    """An instruction sweep that cannot be done (`SWP-xxxx`)."""
