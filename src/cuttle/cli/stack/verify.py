"""`cuttle stack verify`: hashes of what is installed."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style
from cuttle.cli.result import FINDINGS, Block, Problem, Remark, Result, Table
from cuttle.cli.stack import root_option
from cuttle.errors import StackError
from cuttle.stack.install import default_root, verify
from cuttle.stack.journal import Root


@verb("stack verify")
@click.argument("names", nargs=-1, metavar="[COMPONENT]...")
@root_option
def command(style: Style, names: tuple[str, ...], root_path: Path | None) -> Result:
    """Compare every installed file with its SHA-256; exit 1 if some are missing or changed."""
    root = Root(root_path or default_root())
    root.settle_leftovers()
    result = verify(root, names)
    found = result.differences
    rows = []
    for name, component in result.components.items():
        bad = sum(difference.component == name for difference in found)
        rows.append((name, component.version, str(component.files), str(bad)))
    hint = StackError("STK-0404", "").hint
    problems = [Problem("STK-0404", f"{bad.path}: {bad.what}", "" if i else hint) for i, bad in enumerate(found)]
    blocks: list[Block] = [Table(("component", "version", "files", "differ"), rows, frozenset({"files", "differ"}))]
    if not rows:
        blocks = [Remark(f"nothing is installed in {root.path}")]
    return Result("stack verify", msgspec.to_builtins(result), blocks, problems, FINDINGS if found else 0)
