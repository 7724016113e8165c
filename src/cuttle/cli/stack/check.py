"""`cuttle stack check`: the libraries of an engine, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from cuttle.abi.stack_engines import LIBRARIES
from cuttle.cli.command_line import verb
from cuttle.cli.progress import StepBar
from cuttle.cli.render import Style
from cuttle.cli.result import FINDINGS, Block, Problem, Remark, Result, Table
from cuttle.cli.stack import engine_option, root_option
from cuttle.cli.stack.engines import engine_in_place, user_variables
from cuttle.errors import StackError
from cuttle.stack.check import BAD, DEFAULT_SECONDS, CheckResult, check_engine
from cuttle.stack.engine import configuration, run_variables
from cuttle.stack.install import default_root
from cuttle.stack.journal import Root
from cuttle.stack.scan import keep

STEPS = {"": "-", "found": "found", "loads": "loads", "handle": "creates a handle", "answer": "right answer"}


def try_libraries(
    root: Root, engine: str | None, style: Style, libraries: Sequence[str] = LIBRARIES, seconds: float = DEFAULT_SECONDS
) -> CheckResult:
    """Tries libraries with the variables that `run` would set."""
    variables = user_variables()
    chosen = engine_in_place(engine, root, variables, build=True)
    added = run_variables(chosen, configuration(root), variables, None)
    bar = StepBar(style)
    tried: list[str] = []

    def before(name: str) -> None:
        bar.watch(len(tried), len(libraries), name)
        tried.append(name)

    with bar.progress:
        return check_engine(chosen, {**variables, **added}, libraries, seconds, before)


def libraries_table(result: CheckResult) -> Table:
    """A line for each library."""
    rows = [
        (found.library, found.state, STEPS[found.step], found.file or "-", found.text) for found in result.libraries
    ]
    return Table(("library", "result", "came as far as", "file", "reason"), rows)


def problems_of(result: CheckResult) -> list[Problem]:
    """Findings: what failed, and a driver that is not there."""
    return [
        Problem("STK-0801", f"{found.library}: {found.state} after `{STEPS[found.step]}`: {found.text}", where=found.file)
        for found in result.libraries
        if found.state in BAD or (found.library == "driver" and found.state != "correct")
    ]  # fmt: skip


@verb("stack check")
@click.argument("libraries", nargs=-1, metavar="[LIBRARY]...")
@engine_option
@root_option
@click.option(
    "--timeout", "seconds", type=click.FloatRange(0.1), default=DEFAULT_SECONDS, help="Seconds for each library."
)
@click.option("--list", "as_list", is_flag=True, help="List the libraries.")
def command(
    style: Style,
    libraries: tuple[str, ...],
    engine: str | None,
    root_path: Path | None,
    seconds: float,
    as_list: bool,
) -> Result:
    """Try the driver, cuBLAS, cuBLASLt, cuSPARSE, cuFFT, cuDNN and NCCL of an engine: found, loads, creates a handle, computes one right answer.

    Each has a process of its own. Exit 1 if one fails; what the engine does not have or refuses by itself is no failure.
    """
    if as_list:
        names = [(name,) for name in LIBRARIES]
        return Result("stack check", {"libraries": list(LIBRARIES)}, [Table(("library",), names)])
    root = Root(root_path or default_root())
    result = try_libraries(root, engine, style, libraries or LIBRARIES, seconds)
    blocks: list[Block] = [libraries_table(result)]
    if not libraries:
        try:
            keep(root, "check", result)
        except StackError as error:
            blocks.append(Remark(f"note: not stored: {error.message}"))
    problems = problems_of(result)
    return Result("stack check", msgspec.to_builtins(result), blocks, problems, FINDINGS if problems else 0)
