"""`cuttle stack check`: the libraries of an engine, one after the other."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import msgspec

from cuttle.abi.stack_engines import LIBRARIES
from cuttle.cli.command_line import verb
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
        return Result(
            "stack check", {"libraries": list(LIBRARIES)}, [Table(("library",), [(name,) for name in LIBRARIES])]
        )
    root = Root(root_path or default_root())
    variables = user_variables()
    chosen = engine_in_place(engine, root, variables, build=True)
    added = run_variables(chosen, configuration(root), variables, None)

    def before(name: str) -> None:
        if sys.stderr.isatty() and not style.json and not style.quiet:
            sys.stderr.write(f"\r\x1b[K{name}")
            sys.stderr.flush()

    result = check_engine(chosen, {**variables, **added}, libraries or LIBRARIES, seconds, before)
    if sys.stderr.isatty() and not style.json and not style.quiet:
        sys.stderr.write("\r\x1b[K")
    rows = [
        (found.library, found.state, STEPS[found.step], found.file or "-", found.text) for found in result.libraries
    ]
    blocks: list[Block] = [Table(("library", "result", "came as far as", "file", "reason"), rows)]
    if not libraries:
        try:
            keep(root, "check", result)
        except StackError as error:
            blocks.append(Remark(f"note: not stored: {error.message}"))
    problems = problems_of(result)
    return Result("stack check", msgspec.to_builtins(result), blocks, problems, FINDINGS if problems else 0)  # fmt: skip
