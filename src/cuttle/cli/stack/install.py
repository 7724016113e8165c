"""`cuttle stack install`: fetches, checks, unpacks and configures."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style
from cuttle.cli.result import FINDINGS, Block, Remark, Result, Table, Text
from cuttle.cli.stack import channel_options, engine_option, gpu_option, pairs, root_option
from cuttle.cli.stack.check import libraries_table, problems_of, try_libraries
from cuttle.stack.download import Patience
from cuttle.stack.install import Progress, default_root, silent
from cuttle.stack.journal import Root
from cuttle.stack.manifest import load
from cuttle.stack.scan import keep, scan
from cuttle.stack.setup import install_all


@contextlib.contextmanager
def progress_bars(style: Style) -> Iterator[tuple[Progress, Patience]]:
    """Bars on a terminal, a line a step elsewhere, nothing with --json or --quiet; and what is said when something is tried again."""
    if style.json or style.quiet:
        yield silent, Patience()
        return
    if not sys.stderr.isatty():
        said: set[str] = set()

        def say(what: str, done: int, total: int | None) -> None:
            if what not in said:
                said.add(what)
                sys.stderr.write(f"{what}\n")

        yield say, Patience(tell=lambda text: print(f"note: {text}", file=sys.stderr))
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars
    from rich.text import Text as RichText

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks = {}

        def show(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield show, Patience(tell=lambda text: bars.console.print(RichText(f"note: {text}")))


@verb("stack install")
@channel_options
@engine_option
@click.option("--libtorch", is_flag=True, help="With LibTorch (2.66 GB).")
@gpu_option
@root_option
@click.option(
    "--mirror", "mirrors", multiple=True, metavar="URL", help="Look here first; the hash is checked all the same."
)
@click.option("--file", "files", multiple=True, metavar="ASSET=FILE", help="Take this file instead of fetching it.")
@click.option("--force", is_flag=True, help="Although the machine lacks something.")
@click.option("--check/--no-check", "checking", default=True, help="Try the libraries afterwards (the default).")
def command(
    style: Style,
    channel: str,
    manifest_path: Path | None,
    engine: str | None,
    libtorch: bool,
    gpu_index: int | None,
    root_path: Path | None,
    mirrors: tuple[str, ...],
    files: tuple[str, ...],
    force: bool,
    checking: bool,
) -> Result:
    """Install an engine from a pinned manifest: resumed downloads, SHA-256 before anything is unpacked, all or nothing.

    Writes runtime-config.json and gpu-report.json, which `cuttle stack run` and the PowerShell scripts read, and tries the libraries (as
    `cuttle stack check`); exit 1 if one fails. What an interrupted run left is finished or undone first.
    """
    manifest = load(channel, manifest_path)
    root = Root(root_path or default_root())
    machine = scan()
    at_hand = {name: Path(file) for name, file in pairs(files, "--file").items()}
    with progress_bars(style) as (progress, patience):
        result = install_all(
            root, manifest, engine or "zluda", machine, libtorch, force, mirrors, progress, gpu_index, patience, at_hand
        )
    keep(root, "scan", machine)
    problems = []
    if checking:
        check = try_libraries(root, result.plan.engine, style)
        keep(root, "check", check)
        result = msgspec.structs.replace(result, check=check)
        problems = problems_of(check)
    rows = [
        (name, version, "installed" if name in result.changed else "was there")
        for name, version in result.components.items()
    ]
    blocks: list[Block] = [Table(("component", "version", "state"), rows)] if rows else []
    if result.check is not None:
        blocks += [Text(""), libraries_table(result.check)]
    if result.recovered:
        blocks.append(Remark(f"an installation that was interrupted was {result.recovered} first"))
    blocks.append(Remark(f"engine {result.plan.engine}, configuration {result.config}"))
    if problems:
        blocks.append(Remark("installed, but not everything works: `cuttle stack doctor` looks for reasons"))
    return Result("stack install", msgspec.to_builtins(result), blocks, problems, FINDINGS if problems else 0)
