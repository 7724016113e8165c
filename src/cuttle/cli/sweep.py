"""`cuttle sweep`: instruction forms over value domains on a device, against what an NVIDIA GPU answered."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import click
import platformdirs

from cuttle.abi.knobs import DEVICE
from cuttle.cli.command_line import verb
from cuttle.cli.devices import require_client, require_device_name
from cuttle.cli.progress import StepBar
from cuttle.cli.render import Style, count_text
from cuttle.cli.result import FINDINGS, OK, Problem, Remark, Result, Table, Text
from cuttle.sweep.domains import DOMAINS, shard_of
from cuttle.sweep.golden import FOLDER
from cuttle.sweep.run import Choice, Report, sweep
from cuttle.sweep.session import SYSTEM, TIMEOUT
from cuttle.sweep.verdict import GOOD, Verdict

SHOWN = 40  # forms that differ or did not run, in the table for people


def results_file(device: str) -> Path:
    """Where verdicts are kept unless told otherwise."""
    return Path(platformdirs.user_state_dir("cuttle")) / f"sweep-{device.replace(':', '-')}.sqlite"


def run_watched(choice: Choice, results: Path, fresh: bool, farm: str, style: Style) -> Report:
    bar = StepBar(style, remaining=True)

    def watch(done: int, total: int, form: str, share: float) -> None:
        bar.watch(done, total, f"{form} {share:.0%}" if 0 < share < 1 else form)

    with bar.progress:
        return sweep(choice, results, fresh=fresh, farm=farm, watch=watch)


def trouble_table(verdicts: Sequence[Verdict]) -> Table:
    """Forms that are not exact, worst first."""
    rows = [
        (v.domain, v.form, v.outcome, f"{v.differing:,} of {v.elements:,}" if v.differing else "",
         f"{v.max_ulp:.4g}" if v.differing and v.max_ulp >= 0 else "", v.first or v.text)
        for v in verdicts
    ]  # fmt: skip
    return Table(("domain", "form", "verdict", "differing", "ulp", "first failing input, or reason"), rows)


@verb("sweep")
@click.option(
    "--device",
    default="cpu",
    metavar="NAME",
    help=f"Device of `cuttle run` ({', '.join(DEVICE.choices)}), or `{SYSTEM}`: whatever libcuda.so.1 the machine has.",
)
@click.option(
    "--domain", "domains", multiple=True, type=click.Choice([*DOMAINS, "all"]), help="Values (default: golden)."
)
@click.option("--exhaustive", is_flag=True, help="Short for --domain exhaustive: all operands there are.")
@click.option("--form", "pattern", default="", metavar="PATTERN", help="Only forms that match this regular expression.")
@click.option("--shard", default="1/1", metavar="K/N", help="Only every Nth form, from the Kth on.")
@click.option(
    "--golden",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=FOLDER,
    metavar="FOLDER",
    help="Recordings to compare with (default: Cuttle's own).",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    help="SQLite file of verdicts; a sweep that was "
    "stopped goes on with it (default: one per device in the user's state folder).",
)
@click.option("--fresh", is_flag=True, help="Forget the verdicts in that file.")
@click.option("--farm", default="", metavar="ADDRESS", help="Spread over a Dask cluster: tcp://..., or local.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=TIMEOUT,
    metavar="SECONDS",
    help=f"Seconds without an answer, after which a form hangs and the next one is run (default: {TIMEOUT:g}).",
)
@click.option("--list", "only_list", is_flag=True, help="Show what would be swept.")
def command(
    style: Style, device: str, domains: tuple[str, ...], exhaustive: bool, pattern: str, shard: str, golden: Path,
    results: Path | None, fresh: bool, farm: str, timeout: float, only_list: bool
) -> Result:  # fmt: skip
    """Run instruction forms on a device and hold the results against what an NVIDIA H200 answered.

    Exit code 1 if a form gives something else than its row promises. What is refused says so itself and is no failure.
    """
    require_device_name(device, SYSTEM)
    asked = tuple(dict.fromkeys([*domains, *(["exhaustive"] if exhaustive else [])])) or ("golden",)
    if "all" in asked:
        asked = DOMAINS
    choice = Choice(device, asked, pattern, shard_of(shard), golden, timeout)
    if only_list:
        items = choice.items()
        lines = "".join(f"{item.domain}  {item.name}\n" for item in items)
        data = {"items": [{"domain": item.domain, "form": item.name} for item in items]}
        return Result("sweep", data, [Text(lines), Remark(f"cuttle: {len(items)} items")])
    if device != SYSTEM:
        require_client()
    path = results or results_file(device)
    report = run_watched(choice, path, fresh, farm, style)
    return result_of(report, asked, path)


def result_of(report: Report, domains: tuple[str, ...], path: Path) -> Result:
    """What is printed: forms that are not exact, and the sums."""
    counts = report.counts()
    data = {
        "device": report.device, "domains": domains, "results": str(path), "known": report.known, "counts": counts,
        "verdicts": [dataclasses.asdict(verdict) for verdict in report.verdicts],
    }  # fmt: skip
    order = {"crashed": 0, "hung": 1, "failed": 2, "differs": 3, "refused": 4, "ulp": 5}
    trouble = sorted(
        (v for v in report.verdicts if v.outcome in order), key=lambda v: (order[v.outcome], v.domain, v.form)
    )
    blocks: list[Table | Text | Remark] = []
    if trouble:
        blocks.append(trouble_table(trouble[:SHOWN]))
    if len(trouble) > SHOWN:
        blocks.append(Remark(f"cuttle: and {len(trouble) - SHOWN} more: --json has them all"))
    elements = sum(verdict.elements for verdict in report.verdicts)
    sums = ", ".join(f"{number:,} {outcome}" for outcome, number in counts.items() if number)
    blocks.append(Text(f"{report.device}: {count_text(len(report.verdicts), 'form')}, {elements:,} results: {sums}"))
    if report.known:
        blocks.append(Remark(f"cuttle: {report.known:,} verdicts were known from {path}"))
    if report.good:
        return Result("sweep", data, blocks, exit_code=OK)
    bad = sum(number for outcome, number in counts.items() if outcome not in GOOD)
    return Result(
        "sweep", data, blocks, [Problem("SWP-0301", f"{bad} forms differ, failed, crashed or hung")], FINDINGS
    )
