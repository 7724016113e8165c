"""`cuttle stack probe`: the capability matrix."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.progress import StepBar
from cuttle.cli.render import Style
from cuttle.cli.result import FINDINGS, OK, Block, Problem, Remark, Result, Table
from cuttle.cli.stack import root_option
from cuttle.errors import StackError
from cuttle.stack.configurations import parse_configuration
from cuttle.stack.install import default_root
from cuttle.stack.journal import Root
from cuttle.stack.probe import FRONT_ENDS, LADDER, Setting, choose_front_end, make_report, run_probes, select
from cuttle.stack.probes.rows import PROBES
from cuttle.stack.scan import keep

BAD = ("fail", "crashed", "timed out")


def listing() -> Result:
    rows = [(row.name, row.group, row.title) for row in PROBES]
    data = {"tests": [asdict(row) for row in PROBES]}
    return Result("stack probe", data, [Table(("test", "group", "what it shows"), rows)])


@verb("stack probe")
@click.argument("names", nargs=-1, metavar="[TEST|GROUP]...")
@click.option("--list", "as_list", is_flag=True, help="List the tests.")
@click.option(
    "--engine", default="cuttle", metavar="CONFIGURATION", help="cuttle[:DEVICE], zluda, or system; see `bench`."
)
@click.option(
    "--front-end",
    type=click.Choice(["auto", *FRONT_ENDS]),
    default="auto",
    help="Who computes: PyTorch, CuPy, or our own kernels (auto: what is there).",
)
@click.option("--python", default=sys.executable, metavar="PATH", help="Python to run the tests with.")
@click.option("--timeout", default=120.0, type=click.FloatRange(0.1), metavar="SECONDS", help="For one test.")
@root_option
def command(
    style: Style,
    names: tuple[str, ...],
    as_list: bool,
    engine: str,
    front_end: str,
    python: str,
    timeout: float,
    root_path: Path | None,
) -> Result:
    """Try capabilities one by one, each in a process of its own.

    A test passes, is refused (what is missing says so), does not apply, fails (a wrong answer), crashes or does not end in
    time. Exit 1 for one of the last three.
    """
    if as_list:
        return listing()
    rows, configuration = select(names), parse_configuration(engine)
    bar = StepBar(style)
    with bar.progress:
        if front_end == "auto":
            bar.watch(0, len(rows), "looking for PyTorch and CuPy")
            front_end = choose_front_end(configuration, python, timeout)
        findings = run_probes(rows, Setting(configuration, front_end, timeout, python), bar.watch)
    report = make_report(findings, engine, front_end, not names)
    table = Table(
        ("test", "group", "result", "s", "reason"),
        [(f.name, f.group, f.result, f"{f.seconds:.1f}", f.reason) for f in findings],
        frozenset({"s"}),
    )
    said = ", ".join(f"{count} {result}" for result, count in report.counts.items() if count)
    blocks: list[Block] = [table, Remark(f"{said}; front end {front_end}")]
    if not names:
        steps = " < ".join(f"[{step}]" if step == report.rung else step for step in LADDER[1:])
        blocks.append(Remark(f"ladder: {steps} < fast (see `cuttle stack bench`)"))
        try:
            keep(Root(root_path or default_root()), "probe", report)
        except StackError as error:
            blocks.append(Remark(f"note: not stored: {error.message}"))
    problems = []
    bad = [finding.name for finding in findings if finding.result in BAD]
    if bad:
        shown = ", ".join(bad[:5]) + (f" and {len(bad) - 5} more" if len(bad) > 5 else "")
        problems.append(
            Problem.of(
                StackError(
                    "STK-1003",
                    f"{len(bad)} of {len(findings)} tests did not pass: {shown}",
                    hint=f"`cuttle stack probe {bad[0]} --engine {engine}` runs one; `cuttle stack doctor` looks at the machine.",
                )
            )
        )
    return Result("stack probe", msgspec.to_builtins(report), blocks, problems, FINDINGS if bad else OK)
