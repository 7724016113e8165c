"""`cuttle stack stage`: an engine's libraries beside a program, which is not started."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style, count_text
from cuttle.cli.result import Block, Remark, Result, Text
from cuttle.cli.stack import engine_option, root_option
from cuttle.cli.stack.engines import engine_in_place, user_variables
from cuttle.stack.install import default_root
from cuttle.stack.journal import Root
from cuttle.stack.stage import stage


def folder_of(program: Path) -> Path:
    """The folder of a program, or the folder itself."""
    return program if program.is_dir() else program.parent


@verb("stack stage")
@click.argument("program", type=click.Path(path_type=Path, exists=True))
@engine_option
@root_option
def command(style: Style, program: Path, engine: str | None, root_path: Path | None) -> Result:
    """Place the libraries of an engine beside PROGRAM (or in this folder). `cuttle stack unstage` takes them away again.

    A file that was not placed by Cuttle is never overwritten: if one is in the way, nothing is changed. Windows programs find libraries in
    their own folder first; Linux programs only if they were built so ($ORIGIN): there `cuttle stack run` needs no staging.
    """
    root = Root(root_path or default_root())
    chosen = engine_in_place(engine, root, user_variables(), build=True, program=program)
    result = stage(folder_of(program), chosen.name, chosen.version, chosen.files())
    blocks: list[Block] = [Text("\n".join(result.placed))] if result.placed else []
    done = f"placed {count_text(len(result.placed), 'file')}" if result.placed else "everything was in place"
    blocks.append(Remark(f"{done} of {result.engine} {result.version} in {result.folder}"))
    if result.kept and result.placed:
        blocks.append(Remark(f"there already, and not Cuttle's to remove: {', '.join(result.kept)}"))
    return Result("stack stage", msgspec.to_builtins(result), blocks)
