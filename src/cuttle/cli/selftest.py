"""`cuttle selftest`: shows what a device can do, and writes the report that turns "emulated" into "verified on hardware"."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import msgspec

from cuttle.abi.knobs import DEVICE
from cuttle.cli.command_line import verb
from cuttle.cli.devices import client_environment, devices, require_device_name
from cuttle.cli.progress import StepBar
from cuttle.cli.render import Style, count_text
from cuttle.cli.result import FINDINGS, OK, Problem, Remark, Result, Table, Text
from cuttle.errors import CuttleError
from cuttle.selftest.run import describe, run_selftest
from cuttle.stack.selftest_report import PARTS, SelftestReport, encode_report, markdown

SHOWN = 40


@verb("selftest")
@click.option("--device", default="cpu", metavar="NAME", help=f"Device of `cuttle run`: {', '.join(DEVICE.choices)}.")
@click.option("--quick", is_flag=True, help="A selection of the tests; proves less.")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Only this part (default: all).")
@click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), default=Path("."), metavar="FOLDER",
    help="Folder of the report (default: this one).",
)  # fmt: skip
def command(style: Style, device: str, quick: bool, parts: tuple[str, ...], output: Path) -> Result:
    """Run Cuttle's tests on a device of this machine and write a report.

    Programs, PTX files and instruction forms with results recorded on an NVIDIA H200; nothing else needs to be installed. The report names the
    GPU, the versions and the results, and nobody. Exit code 1 if a test failed; what is refused says so itself and is no failure.
    """
    require_device_name(device)
    about = describe(device)
    devices(CUTTLE_DEVICE=device)  # one error now, instead of one with each test
    prepare(output)
    bar = StepBar(style)
    with bar.progress:
        report = run_selftest(
            about, client_environment(CUTTLE_DEVICE=device), quick=quick, parts=parts or PARTS, watch=bar.watch
        )
    return write_and_show(report, output)


def write_and_show(report: SelftestReport, folder: Path) -> Result:
    """The tests took long: what they found is shown even if it cannot be written."""
    try:
        return result_of(report, write(report, folder))
    except CuttleError as error:
        shown = result_of(report, [])
        return Result("selftest", shown.data, shown.blocks, [*shown.errors, Problem.of(error)], FINDINGS)


def prepare(folder: Path) -> None:
    """Makes the report's folder, and tries it before anything that takes long. Raises CuttleError STS-0102."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise not_written(folder, error) from None


def not_written(folder: Path, error: OSError) -> CuttleError:
    return CuttleError("STS-0102", f"{folder}: {error.strerror}")


def write(report: SelftestReport, folder: Path) -> list[Path]:
    """The JSON file and its Markdown. Raises CuttleError STS-0102."""
    name = f"cuttle-selftest-{report.target or 'cpu'}-{report.date}"
    files = [folder / f"{name}.json", folder / f"{name}.md"]
    try:
        files[0].write_bytes(encode_report(report))
        files[1].write_text(markdown(report), encoding="utf-8")
    except OSError as error:
        raise not_written(folder, error) from None
    return files


def result_of(report: SelftestReport, written: list[Path]) -> Result:
    """What the user sees. `written`: the files, none if they could not be."""
    columns = ("part", "passed", "refused", "failed", "left out", "values compared", "seconds")
    rows = [
        (part.name, str(part.passed), str(part.refused), str(part.failed), str(part.left_out), f"{part.results:,}", f"{part.seconds:.0f}")
        for part in report.parts
    ]  # fmt: skip
    failures = [trouble for part in report.parts for trouble in part.troubles if trouble.result == "fail"]
    blocks: list[Table | Text | Remark] = [Table(columns, rows, frozenset(columns[1:]))]
    if failures:
        blocks.append(Table(("failed", "why"), [(trouble.name, trouble.reason) for trouble in failures[:SHOWN]]))
    failed = f"{count_text(len(failures), 'test')} failed"
    proof = f"verifies {report.verifies} on hardware" if report.verifies else f"evidence: {report.evidence}"
    blocks.append(Text(f"{report.gpu}: {failed if failures else 'all is well'}; {proof}"))
    if written:
        blocks.append(Remark(f"cuttle: the report is in {written[0]} and {written[1].name}"))
    data = {**msgspec.to_builtins(report), "files": [str(path) for path in written]}
    if not failures:
        return Result("selftest", data, blocks, exit_code=OK)
    return Result("selftest", data, blocks, [Problem("STS-0201", failed)], FINDINGS)
