"""`cuttle stack pin`: a manifest from files at hand."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style
from cuttle.cli.result import Block, Remark, Result, Text
from cuttle.cli.stack import channel_options, pairs
from cuttle.errors import StackError
from cuttle.stack.install import this_platform
from cuttle.stack.journal import write_atomically
from cuttle.stack.manifest import encode, load, pin


@verb("stack pin")
@click.argument("files", nargs=-1, required=True, metavar="ASSET=FILE...")
@channel_options
@click.option("--name", default="pinned", metavar="NAME", help="Name of the new channel.")
@click.option("--platform", type=click.Choice(["windows", "linux"]), default=None, help="Default: this one.")
@click.option("--url", "urls", multiple=True, metavar="ASSET=URL", help="Where others find the file.")
@click.option(
    "--version", "versions", multiple=True, metavar="ASSET=VERSION", help="Its version, if another than the base's."
)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write it here instead of to stdout.")
def command(
    style: Style,
    files: tuple[str, ...],
    channel: str,
    manifest_path: Path | None,
    name: str,
    platform: str | None,
    urls: tuple[str, ...],
    versions: tuple[str, ...],
    output: Path | None,
) -> Result:
    """Make a manifest: a channel with the sizes and hashes of files that you have and trust.

    \b
    cuttle stack pin zluda=zluda-linux-87531d3.tar.gz --url zluda=https://... --output my.json
    cuttle stack install --manifest my.json
    """
    paths = {asset: Path(file) for asset, file in pairs(files, "ASSET=FILE").items()}
    made = pin(
        load(channel, manifest_path),
        name,
        paths,
        platform or this_platform(),
        pairs(urls, "--url"),
        pairs(versions, "--version"),
    )
    blocks: list[Block] = [Text(encode(made).decode())]
    if output is not None:
        if output.exists():
            raise StackError("STK-0406", f"{output} exists", hint="Choose another name: manifests are not overwritten.")
        write_atomically(output, encode(made))
        blocks = [Remark(f"wrote {output}")]
    return Result("stack pin", msgspec.to_builtins(made), blocks)
