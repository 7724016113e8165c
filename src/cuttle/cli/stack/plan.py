"""`cuttle stack plan`: what `install` would do."""

from __future__ import annotations

import datetime
from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.render import Style, size_text
from cuttle.cli.result import FINDINGS, Block, Problem, Remark, Result, Table, Text
from cuttle.cli.stack import channel_options, engine_option, gpu_option, root_option
from cuttle.errors import StackError
from cuttle.stack.install import default_root, this_platform
from cuttle.stack.journal import Root
from cuttle.stack.manifest import CHANNELS, Manifest, load
from cuttle.stack.plan import Plan, make_plan
from cuttle.stack.scan import known_machine


def plan_blocks(plan: Plan) -> list[Block]:
    """Assets, requirements, and one sentence."""
    blocks: list[Block] = []
    if plan.assets:
        rows = [
            (
                asset.name,
                asset.version,
                asset.file,
                size_text(asset.size_bytes) if asset.size_bytes else "not published",
                asset.action,
                asset.sha256[:12] if asset.sha256 else "none",
            )
            for asset in plan.assets
        ]
        blocks.append(Table(("asset", "version", "file", "size", "action", "SHA-256"), rows, frozenset({"size"})))
    if plan.requirements:
        words = {True: "yes", False: "no"}
        rows2 = [
            (need.name, words[need.met] if need.required or need.met else "no (optional)", need.text)
            for need in plan.requirements
        ]
        blocks.append(Text(""))
        blocks.append(Table(("requirement", "met", "what was found"), rows2))
        blocks += [Remark(f"hint: {need.hint}") for need in plan.requirements if need.hint and not need.met]
    blocks += [Remark(f"note: {asset.file}: {asset.reason}") for asset in plan.assets if asset.reason]
    if not plan.assets:
        blocks.append(Remark(f"note: the engine {plan.engine} is part of Cuttle: nothing is fetched"))
    elif plan.download_bytes:
        blocks.append(
            Remark(
                f"{size_text(plan.download_bytes)} to fetch; {size_text(plan.room_bytes)} of room while it is unpacked"
            )
        )
    return blocks  # fmt: skip


def listing(manifests: list[Manifest]) -> Result:
    """Every asset of the channels."""
    rows = [
        (m.channel, asset.name, asset.platform, asset.version, asset.file, asset.sha256[:12] if asset.sha256 else "none")
        for m in manifests
        for asset in m.assets
    ]  # fmt: skip
    data = {"manifests": [msgspec.to_builtins(manifest) for manifest in manifests]}
    columns = ("channel", "asset", "platform", "version", "file", "SHA-256")
    return Result("stack plan", data, [Table(columns, rows)])


def scan_date(root: Root) -> str:
    """When the stored scan was made, in this machine's time; empty if there is none."""
    path = root.results / "scan.json"
    return datetime.datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M") if path.exists() else ""


@verb("stack plan")
@channel_options
@engine_option
@click.option("--libtorch", is_flag=True, help="With LibTorch.")
@gpu_option
@root_option
@click.option("--list", "as_list", is_flag=True, help="List the assets of all channels.")
def command(
    style: Style,
    channel: str,
    manifest_path: Path | None,
    engine: str | None,
    libtorch: bool,
    gpu_index: int | None,
    root_path: Path | None,
    as_list: bool,
) -> Result:
    """Show what `install` would fetch, from which pinned manifest, how big it is, and what the machine lacks.

    Looks at the last `scan`, or makes one. Exit 1 if it could not be installed.
    """
    if as_list:
        return listing([load(name) for name in CHANNELS] if manifest_path is None else [load("", manifest_path)])
    manifest = load(channel, manifest_path)
    root = Root(root_path or default_root())
    root.settle_leftovers()
    machine = known_machine(root)
    if machine.platform != this_platform():
        raise StackError("STK-0703", f"the stored scan is of a {machine.platform} machine")
    plan = make_plan(manifest, engine or "zluda", machine, root.installed(), libtorch, gpu_index)
    problems = [
        Problem("STK-0102", f"{asset.file}: {asset.reason}") for asset in plan.assets if asset.action == "refused"
    ]
    problems += [
        Problem("STK-0407", f"{need.name}: {need.text}", need.hint)
        for need in plan.requirements
        if need.required and not need.met
    ]
    blocks = plan_blocks(plan)
    if scanned := scan_date(root):
        blocks.append(Remark(f"from the scan of {scanned}; `cuttle stack scan` looks again"))
    return Result("stack plan", msgspec.to_builtins(plan), blocks, problems, FINDINGS if problems else 0)  # fmt: skip
