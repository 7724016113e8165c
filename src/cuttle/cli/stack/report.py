"""`cuttle stack report`: one file to send, and a compatibility report in Markdown."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style
from cuttle.cli.result import Block, Remark, Result, Text
from cuttle.cli.stack import root_option
from cuttle.errors import StackError
from cuttle.stack.install import default_root
from cuttle.stack.journal import Root, write_atomically
from cuttle.stack.redaction import Identity, redact_document
from cuttle.stack.report import bundle, bundle_name, gather, markdown


@verb("stack report")
@root_option
@click.option("--bundle", "as_bundle", is_flag=True, help="Write one archive with the report and all results.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Name of the archive.")
def command(style: Style, root_path: Path | None, as_bundle: bool, output: Path | None) -> Result:
    """Print a compatibility report made of the stored results of scan, check, probe and bench; run nothing.

    Names of users and hosts, folders of users, addresses and keys are taken out. The grade follows from the results:
    detected < loads < refuses safely < correct < fast.
    """
    facts, identity = gather(Root(root_path or default_root())), Identity.here()
    text = markdown(facts, identity)
    blocks: list[Block] = [Text(text)]
    data = redact_document(msgspec.to_builtins(facts), identity)
    data["markdown"] = text
    data["bundle"] = None
    if as_bundle or output is not None:
        path = output or bundle_name(Path.cwd())
        if path.exists():
            raise StackError("STK-0406", f"{path} exists", hint="Choose another name with --output.")
        try:
            write_atomically(path, bundle(facts, identity))
        except StackError as error:
            raise StackError(error.code, error.message, hint="Choose another place with --output.") from None
        data["bundle"] = path.name
        blocks = [Remark(f"wrote {path}; look at it before you send it")]
    return Result("stack report", data, blocks)
