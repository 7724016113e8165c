"""`cuttle stack uninstall`: removes what `install` placed, and nothing else."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style
from cuttle.cli.result import Remark, Result
from cuttle.cli.stack import root_option
from cuttle.stack.install import default_root, uninstall
from cuttle.stack.journal import Root


@verb("stack uninstall")
@click.argument("names", nargs=-1, metavar="[COMPONENT]...")
@root_option
def command(style: Style, names: tuple[str, ...], root_path: Path | None) -> Result:
    """Remove components, all if none is named. Files that something else put into their folders stay.

    Libraries that were staged beside programs stay, too: `cuttle stack unstage` removes them.
    """
    root = Root(root_path or default_root())
    with root.locked():
        result = uninstall(root, names)
    lines = [Remark(f"removed {component.name} {component.version}") for component in result.removed]
    lines = lines or [Remark(f"nothing was installed in {root.path}")]
    return Result("stack uninstall", msgspec.to_builtins(result), lines)
