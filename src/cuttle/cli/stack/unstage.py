"""`cuttle stack unstage`: takes away what `stage` placed."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style, count_text
from cuttle.cli.result import FINDINGS, Problem, Remark, Result
from cuttle.cli.stack.stage import folder_of
from cuttle.stack.stage import unstage


@verb("stack unstage")
@click.argument("program", type=click.Path(path_type=Path, exists=True))
def command(style: Style, program: Path) -> Result:
    """Remove the libraries that `stage` placed beside PROGRAM (or in this folder).

    A file that was changed since is left alone and named; then the exit code is 1.
    """
    result = unstage(folder_of(program))
    problems = [
        Problem("STK-0504", f"{name} was changed since it was staged; it stays", where=result.folder)
        for name in result.kept
    ]
    line = Remark(
        f"removed {count_text(len(result.removed), 'file')} of {result.engine} {result.version} from {result.folder}"
    )
    return Result("stack unstage", msgspec.to_builtins(result), [line], problems, FINDINGS if problems else 0)
