"""`cuttle stack bench`: two engines or settings against each other."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from cuttle.cli.command_line import verb
from cuttle.cli.progress import StepBar
from cuttle.cli.render import Style, count_text
from cuttle.cli.result import Block, Remark, Result, Table
from cuttle.cli.stack import root_option
from cuttle.errors import StackError
from cuttle.stack.compare import Comparison, direction
from cuttle.stack.compare_runs import Plan, known_workloads, require_devices, run_comparison, workload_command
from cuttle.stack.configurations import parse_configuration
from cuttle.stack.install import default_root
from cuttle.stack.journal import Root
from cuttle.stack.scan import keep


def listing() -> Result:
    found = known_workloads()
    return Result("stack bench", {"workloads": found}, [Table(("workload", "from"), sorted(found.items()))])


def metric_row(found: Comparison) -> tuple[str, ...]:
    noise = f"± {found.noise_percent:.1f} %" if direction(found.metric) else ""
    return (
        found.metric,
        f"{found.a.median:.5g}", f"{found.a.mean:.5g}", f"{found.a.deviation:.2g}",
        f"{found.b.median:.5g}", f"{found.b.mean:.5g}", f"{found.b.deviation:.2g}",
        f"{found.percent:+.1f} %", noise, found.verdict,
    )  # fmt: skip


COLUMNS = ("metric", "A median", "mean", "sd", "B median", "mean", "sd", "B - A", "noise", "verdict")


@verb("stack bench")
@click.argument("workload", default="ppo")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--a", "a_text", default="cuttle", metavar="CONFIGURATION", help="ENGINE[:DEVICE][,NAME=VALUE]...")
@click.option("--b", "b_text", default="system", metavar="CONFIGURATION", help="What A is compared with.")
@click.option("--size", type=click.Choice(["full", "small"]), default="full", help="Size of a workload of ours.")
@click.option(
    "--iterations", "-n", default=5, type=click.IntRange(1), help="Samples per process (one more is run and dropped)."
)
@click.option("--trials", default=2, type=click.IntRange(1), help="Processes per configuration, in alternating order.")
@click.option("--timeout", default=1800.0, type=click.FloatRange(0.1), metavar="SECONDS", help="For one process.")
@click.option("--list", "as_list", is_flag=True, help="List the workloads.")
@root_option
def command(
    style: Style,
    workload: str,
    program: tuple[str, ...],
    a_text: str,
    b_text: str,
    size: str,
    iterations: int,
    trials: int,
    timeout: float,
    as_list: bool,
    root_path: Path | None,
) -> Result:
    """Compare two engines or settings: A B, B A, A B and so on, the first iteration of each process dropped.

    Engines are cuttle, zluda and system (whatever driver library the machine has). A verdict is given only where the
    difference is larger than the noise. A workload of your own is a command that prints one JSON line per iteration:
    `cuttle stack bench mine --a system --b cuttle -- python my.py`.
    """
    if as_list:
        return listing()
    a, b = parse_configuration(a_text), parse_configuration(b_text)
    plan = Plan(workload, size, iterations, trials, timeout, program)
    workload_command(plan)
    bar = StepBar(style)
    bar.remark(f"looking for the devices of {a_text} and {b_text}")
    devices = require_devices(plan, a, b)
    bar.remark(
        f"{workload}: {2 * trials} processes of {iterations + 1} iterations on {' and '.join(dict.fromkeys(filter(None, devices)))}"
    )
    with bar.progress:
        report = run_comparison(plan, a, b, bar.watch)
    right = frozenset(COLUMNS) - {"metric", "verdict"}
    blocks: list[Block] = [Table(COLUMNS, [metric_row(found) for found in report.metrics], right)]
    blocks.append(
        Remark(f"A: {a_text}; B: {b_text}; {count_text(trials, 'trial')} of {count_text(iterations, 'iteration')} each")
    )
    try:
        keep(Root(root_path or default_root()), "bench", report)
    except StackError as error:
        blocks.append(Remark(f"note: not stored: {error.message}"))
    return Result("stack bench", msgspec.to_builtins(report), blocks)
