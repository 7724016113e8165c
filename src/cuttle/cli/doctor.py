"""`cuttle doctor`: looks whether everything is in place. It changes nothing."""

from __future__ import annotations

import sys

import click

from cuttle.cli.checks import CRASH, FAILURE, OK, WARNING, Context, Finding, all_checks, run_check
from cuttle.cli.command_line import verb
from cuttle.cli.render import Style, count_text, marks, paint
from cuttle.cli.result import FINDINGS, Block, Problem, Result, Table, Text
from cuttle.errors import CuttleError, visible

COLORS = {OK: "green", WARNING: "yellow", FAILURE: "red", CRASH: "red"}


def finding_text(name: str, finding: Finding, style: Style, width: int) -> str:
    color = style.colored(sys.stdout)
    glyph = paint(f"[{marks(sys.stdout)[finding.mark]}]", COLORS[finding.mark], color)
    lines = [f"{glyph} {name.replace('_', ' '):<{width}}  {visible(finding.text)}"]
    indent = " " * (width + 6)
    if style.verbose:
        lines += [f"{indent}{visible(detail)}" for detail in finding.details]
    if finding.hint and finding.mark != OK:
        lines.append(f"{indent}{paint('hint:', 'cyan', color)} {visible(finding.hint)}")
    return "\n".join(lines)


def summary(findings: dict[str, Finding], ready: str) -> str:
    """`ready`: what is said if nothing was found; empty where only some checks ran."""
    counts = {mark: sum(finding.mark == mark for finding in findings.values()) for mark in COLORS}
    if counts[FAILURE] + counts[CRASH] + counts[WARNING] == 0:
        return f"{count_text(len(findings), 'check')}, nothing found{': ' * bool(ready)}{ready}."
    names = ((FAILURE, "failure"), (WARNING, "warning"), (CRASH, "crashed check"))
    parts = [f"{counts[mark]} {name}{'s' if counts[mark] > 1 else ''}" for mark, name in names if counts[mark]]
    return f"{count_text(len(findings), 'check')}: {', '.join(parts)}."


@verb("doctor")
@click.argument("names", nargs=-1, metavar="[CHECK]...")
@click.option("--program", metavar="FILE", help="Also check this program.")
@click.option("--prefer-ours", is_flag=True, help="As for `cuttle run`.")
@click.option("--list-checks", is_flag=True, help="List the checks.")
def command(style: Style, names: tuple[str, ...], program: str | None, prefer_ours: bool, list_checks: bool) -> Result:
    """Check the machine, the installation and the device; exit 1 on findings.

    With CHECK: run only these. Details with -v.
    """
    checks = all_checks()
    if list_checks:
        rows = [(name, first_line(check.__doc__)) for name, check in checks.items()]
        return Result("doctor", {"checks": list(checks)}, [Table(("check", "about"), rows)])
    wanted = [name.replace("-", "_").removeprefix("check_") for name in names]
    for name in wanted:
        if name not in checks:
            raise CuttleError("CLI-0701", f"there is no check {name}")
    if not wanted:
        wanted = [name for name, check in checks.items() if program or not check.__module__.endswith(".program")]
    context = Context(program, prefer_ours, asked=frozenset(names and wanted))
    findings: dict[str, Finding] = {}
    width = max(map(len, wanted))
    for name in wanted:
        findings[name] = run_check(checks[name], context)
        if not style.json and not (style.quiet and findings[name].mark == OK):
            # Printed as they come: the checks that start a device take a moment.
            sys.stdout.write(finding_text(name, findings[name], style, width) + "\n")
            sys.stdout.flush()
    bad = {name: finding for name, finding in findings.items() if finding.mark != OK}
    data = [
        {"check": name, "mark": finding.mark, "text": finding.text, "hint": finding.hint, "details": finding.details}
        for name, finding in findings.items()
    ]
    blocks: list[Block] = [] if style.quiet else [Text("\n" + summary(findings, "" if names else "Cuttle is ready"))]
    errors = (
        [Problem("CLI-0702", finding.text, finding.hint, name) for name, finding in bad.items()] if style.json else []
    )
    status = "success" if not bad else "partial"
    return Result("doctor", {"checks": data}, blocks, errors, FINDINGS if bad else 0, status)


def first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0] if text else ""
