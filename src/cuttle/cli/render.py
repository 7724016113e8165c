"""Prints results: the one place that knows about terminals, colour and JSON. Data to stdout, talk to stderr."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from cuttle.cli.result import Problem, Remark, Result, Table, Text
from cuttle.errors import visible

ANSI = {"green": "32", "yellow": "33", "red": "31", "cyan": "36", "bold": "1", "dim": "2"}


@dataclass(frozen=True, slots=True)
class Style:
    """How the user wants to see results: the options that every verb has."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    color: str = "auto"

    def colored(self, stream: TextIO) -> bool:
        if self.color != "auto":
            return self.color == "always"
        return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, color: str, enabled: bool) -> str:
    """`text` in a colour of `ANSI`. Colour never carries meaning alone."""
    return f"\x1b[{ANSI[color]}m{text}\x1b[0m" if enabled and text else text


def marks(stream: TextIO) -> dict[str, str]:
    """The glyphs of findings, or ASCII where the terminal's encoding lacks them."""
    glyphs = {"ok": "✓", "warning": "!", "failure": "✗", "crash": "☠"}
    try:
        "".join(glyphs.values()).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return {"ok": "+", "warning": "!", "failure": "x", "crash": "#"}
    return glyphs


def show(result: Result, style: Style) -> None:
    """Print a result; the caller exits with `result.exit_code`."""
    if style.json:
        show_json(result)
        return
    for block in result.blocks:
        if isinstance(block, Table):
            show_table(block, style)
        elif isinstance(block, Text):
            text = block.text if block.text.endswith("\n") else block.text + "\n"
            # Data for another program keeps its bytes; a terminal would obey some of them.
            sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
        elif isinstance(block, Remark) and not style.quiet:
            sys.stdout.flush()
            sys.stderr.write(visible(block.text) + "\n")
    sys.stdout.flush()
    for problem in result.errors:
        show_problem(problem, style)


def show_json(result: Result) -> None:
    """The envelope, in UTF-8 whatever the terminal's encoding is."""
    import msgspec

    try:
        document = msgspec.json.encode(result.envelope())
    except UnicodeEncodeError:
        document = msgspec.json.encode(encodable(msgspec.to_builtins(result.envelope())))
    data = msgspec.json.format(document, indent=2) + b"\n"
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # a stream that holds text only
        sys.stdout.write(data.decode())
    else:
        sys.stdout.flush()
        buffer.write(data)
    sys.stdout.flush()


def encodable(value: Any) -> Any:
    """A document in which bytes of file names that are no UTF-8 are written `\\xff`."""
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return value


def write_everything(stream: TextIO) -> None:
    """From now on the stream takes every text: file names as their bytes, and what its encoding lacks as `\\u2192`."""
    codecs.register_error("cuttle", unwritable)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="cuttle")


def unwritable(error: UnicodeError) -> tuple[bytes, int]:
    """A handler of `codecs.register_error`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return b"".join(
        bytes([ord(letter) - 0xDC00]) if "\udc80" <= letter <= "\udcff" else letter.encode("ascii", "backslashreplace")
        for letter in letters
    ), error.end


def show_problem(problem: Problem, style: Style) -> None:
    """`error[CODE]: message`, the place, `hint:`; on stderr."""
    color = style.colored(sys.stderr)
    lines = [paint(f"error[{problem.code}]:", "red", color) + f" {visible(problem.message)}"]
    if problem.where:
        lines.append(f"  --> {visible(problem.where)}")
    if problem.hint:
        lines.append("  " + paint("hint:", "cyan", color) + f" {visible(problem.hint)}")
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def cell_text(text: str) -> str:
    """A cell as it is shown: on one line, with nothing in it that a terminal obeys."""
    return visible(text).replace("\n", "\\n").replace("\t", " ")


def show_table(table: Table, style: Style) -> None:
    table = Table(table.columns, [[cell_text(cell) for cell in row] for row in table.rows], table.right)
    if style.colored(sys.stdout) and sys.stdout.isatty():
        show_rich_table(table)
    else:
        sys.stdout.write(plain_table(table.columns, table.rows, table.right))


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str] = frozenset()) -> str:
    """Columns aligned with spaces: for pipes and files."""
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    lines = []
    for row in (columns, *rows):
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ]
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)


def show_rich_table(table: Table) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

    view = RichTable(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in table.columns:
        view.add_column(column, justify="right" if column in table.right else "left", overflow="fold")
    for row in table.rows:
        view.add_row(*(RichText(cell) for cell in row))
    Console().print(view)


def count_text(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def size_text(size_bytes: float) -> str:
    """A size in binary units: `3.2 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size_bytes) < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
