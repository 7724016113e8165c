"""`cuttle stack doctor`: what keeps the stack from working here. It changes nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from cuttle.cli import checks
from cuttle.cli.command_line import verb
from cuttle.cli.doctor import finding_text, first_line, summary
from cuttle.cli.render import Style
from cuttle.cli.result import FINDINGS, Block, Problem, Result, Table, Text
from cuttle.cli.stack import channel_options, engine_option, root_option
from cuttle.cli.stack.engines import engine_in_place, user_variables
from cuttle.errors import CuttleError, StackError
from cuttle.stack.diagnosis import CHECKS, DoctorResult, Situation, diagnose
from cuttle.stack.engine import configuration
from cuttle.stack.install import default_root
from cuttle.stack.journal import Root
from cuttle.stack.manifest import load
from cuttle.stack.scan import scan


def situation_of(root: Root, engine: str | None, channel: str, manifest_path: Path | None) -> Situation:
    """This machine, and the engine as it is installed."""
    variables = user_variables()
    name = engine or root.installed().engine or "zluda"
    try:
        place, problem = engine_in_place(name, root, variables), ""
    except CuttleError as error:
        place, problem = None, error.message
    try:
        config = configuration(root)
    except StackError:
        config = None
    return Situation(scan(), load(channel, manifest_path), root, name, place, problem, config, variables)


@verb("stack doctor")
@click.argument("names", nargs=-1, metavar="[CHECK]...")
@engine_option
@channel_options
@root_option
@click.option("--list-checks", is_flag=True, help="List the checks.")
def command(
    style: Style,
    names: tuple[str, ...],
    engine: str | None,
    channel: str,
    manifest_path: Path | None,
    root_path: Path | None,
    list_checks: bool,
) -> Result:
    """Check driver, HIP, math libraries, engine, antivirus, search path and the order of GPUs; exit 1 on findings.

    With CHECK: run only these.
    """
    if list_checks:
        rows = [(name, first_line(check.__doc__)) for name, check in CHECKS.items()]
        return Result("stack doctor", {"checks": list(CHECKS)}, [Table(("check", "about"), rows)])
    wanted = [name.replace("-", "_") for name in names] or list(CHECKS)
    for name in wanted:
        if name not in CHECKS:
            raise StackError("STK-0803", f"there is no check {name}")
    situation = situation_of(Root(root_path or default_root()), engine, channel, manifest_path)
    findings = [diagnose(situation, name) for name in wanted]
    width = max(map(len, wanted))
    shown = {found.check: checks.Finding(found.mark, found.text, found.hint) for found in findings}
    blocks: list[Block] = []
    if not style.json:
        lines = [
            finding_text(name, finding, style, width)
            for name, finding in shown.items()
            if not (style.quiet and finding.mark == checks.OK)
        ]
        if lines:
            blocks.append(Text("\n".join(lines)))
        if not style.quiet:
            about = "" if names else f"{situation.engine_name} is ready"
            blocks.append(Text("\n" + summary(shown, about)))
    bad = [found for found in findings if found.mark != "ok"]
    # On a terminal the findings themselves say it all.
    errors = [Problem("STK-0802", found.text, found.hint, found.check) for found in bad] if style.json else []
    sys.stdout.flush()
    data = msgspec.to_builtins(DoctorResult(situation.engine_name, findings))
    return Result("stack doctor", data, blocks, errors, FINDINGS if bad else 0)
