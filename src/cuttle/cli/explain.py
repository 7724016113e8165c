"""`cuttle explain CODE`: the page of an error code, or of a knob."""

from __future__ import annotations

import difflib
import textwrap

import click

from cuttle.abi.errors import ERRORS, ErrorRow
from cuttle.cli.command_line import verb
from cuttle.cli.render import Style
from cuttle.cli.result import Result, Table, Text
from cuttle.errors import CuttleError, error_row

WIDTH = 100


def error_page(row: ErrorRow) -> str:
    paragraphs = [f"{row.code}: {row.title}", textwrap.fill(row.explanation, WIDTH)]
    if row.hint:
        paragraphs.append(textwrap.fill(f"hint: {row.hint}", WIDTH, subsequent_indent="      "))
    return "\n\n".join(paragraphs)


@verb("explain")
@click.argument("code", required=False)
def command(style: Style, code: str | None) -> Result:
    """Explain an error code such as PTX-0201, or a knob such as CUTTLE_THREADS. Without CODE: list all."""
    if code is None:
        rows = [(row.code, row.title) for row in ERRORS]
        data = {"errors": [{"code": row.code, "title": row.title} for row in ERRORS]}
        return Result("explain", data, [Table(("code", "title"), rows)])
    wanted = code.strip().strip("[]").upper().removeprefix("ERROR[")
    if wanted.startswith("CUTTLE_"):
        return explain_knob(wanted)
    row = error_row(wanted)
    if row is None:
        near = difflib.get_close_matches(wanted, [row.code for row in ERRORS], n=3)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise CuttleError("CLI-0002", f"there is no error {code}", hint=hint + "`cuttle explain` lists all codes.")
    page = {"code": row.code, "title": row.title, "explanation": row.explanation, "hint": row.hint}
    return Result("explain", page, [Text(error_page(row))])


def explain_knob(name: str) -> Result:
    from cuttle.cli.knob_pages import knob_pages

    pages = knob_pages()
    if name not in pages:
        near = difflib.get_close_matches(name, list(pages), n=3)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise CuttleError("CLI-0002", f"there is no knob {name}", hint=hint + "docs/reference/knobs.md lists all.")
    return Result("explain", {"knob": name, "page": pages[name]}, [Text(pages[name])])
