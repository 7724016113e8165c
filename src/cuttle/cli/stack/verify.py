"""`cuttle stack verify`: hashes of what is installed."""

from __future__ import annotations

from pathlib import Path

import click

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
    record, found = verify(root, names)
    components = [component for name, component in record.components.items() if not names or name in names]
    rows = []
    for component in components:
        bad = sum(difference.component == component.name for difference in found)
        rows.append((component.name, component.version, str(len(component.files)), str(bad)))
    data = {
        "components": {component.name: {"version": component.version, "files": len(component.files)} for component in components},
        "differences": [{"component": bad.component, "path": bad.path, "what": bad.what} for bad in found],
    }  # fmt: skip
    hint = StackError("STK-0404", "").hint
    problems = [Problem("STK-0404", f"{bad.path}: {bad.what}", "" if i else hint) for i, bad in enumerate(found)]
    blocks: list[Block] = [Table(("component", "version", "files", "differ"), rows, frozenset({"files", "differ"}))]
    if not components:
        blocks = [Remark(f"nothing is installed in {root.path}")]
    return Result("stack verify", data, blocks, problems, FINDINGS if found else 0)
