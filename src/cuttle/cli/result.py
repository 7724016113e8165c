"""What every verb returns: data for machines, blocks for people, errors with codes. `render.py` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cuttle.errors import CuttleError

SCHEMA = "cuttle/1"

OK, FINDINGS, USAGE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or finding as it stands in the JSON envelope."""

    code: str
    message: str
    hint: str = ""
    where: str = ""

    @classmethod
    def of(cls, error: CuttleError) -> Problem:
        return cls(error.code, error.message, error.hint, str(error.where))


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under column titles. `right` names the columns of numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Text:
    """Lines of data, printed as they are. Markup such as `[green]` is not interpreted."""

    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Talk: goes to stderr, not at all with `-q`."""

    text: str


Block = Table | Text | Remark


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a verb. `exit_code` 0 is fine, 1 findings or a failure, 2 wrong usage."""

    command: str
    data: Any
    blocks: Sequence[Block] = ()
    errors: Sequence[Problem] = ()
    exit_code: int = OK
    status: str = field(default="")

    def envelope(self) -> dict[str, Any]:
        """The JSON form (docs/reference/json.md)."""
        status = self.status or ("success" if self.exit_code == OK else "partial" if self.data else "error")
        return {
            "schema": SCHEMA,
            "command": self.command,
            "status": status,
            "exit_code": self.exit_code,
            "data": self.data,
            "errors": [
                {"code": error.code, "message": error.message, "hint": error.hint, "where": error.where}
                for error in self.errors
            ],
        }


def failure(command: str, error: CuttleError, exit_code: int = FINDINGS) -> Result:
    """A verb that could not do its work."""
    return Result(command, None, errors=[Problem.of(error)], exit_code=exit_code, status="error")
