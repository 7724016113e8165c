"""`cuttle stack run`: a program on an engine. Its arguments, output and exit code pass through unharmed."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cuttle.cli.render import Style, show_problem
from cuttle.cli.result import Problem
from cuttle.cli.stack import engine_option, root_option
from cuttle.cli.stack.engines import engine_in_place, user_variables
from cuttle.errors import CuttleError, StackError
from cuttle.stack.configurations import require_device_name
from cuttle.stack.engine import LAUNCHER, configuration, insisting_variables, run_variables
from cuttle.stack.install import default_root
from cuttle.stack.journal import Root
from cuttle.stack.launch import FAILED, exit_code_of, find_program, launcher_arguments, run_program
from cuttle.stack.stage import stage


@click.command("run", context_settings={"help_option_names": ["-h", "--help"], "allow_interspersed_args": False})
@engine_option
@root_option
@click.option(
    "--stage/--no-stage",
    "staging",
    default=None,
    help="Place the libraries beside the program first (the default on Windows).",
)
@click.option(
    "--device", metavar="NAME", help="Device of the engine cuttle: cpu (the default), hip, hip:N (CUTTLE_DEVICE)."
)
@click.option("--insist", is_flag=True, help="Win over libraries that the program names by DT_RPATH (Linux).")
@click.option("--launcher", is_flag=True, help="Start it through ZLUDA's launcher, which injects libraries (Windows).")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    engine: str | None,
    root_path: Path | None,
    staging: bool | None,
    device: str | None,
    insist: bool,
    launcher: bool,
    program: str,
    arguments: tuple[str, ...],
) -> None:
    """Run PROGRAM on an engine: cuttle stack run -- ./program arguments

    Sets the folders of HIP and ROCm, the compute capability that the program sees, and the configured GPU, for this run only. Variables that
    you have set yourself stay. Adds nothing to the program's output.

    Exit codes: the program's own; 125 Cuttle failed, 126 the program cannot be run, 127 it was not found.
    """
    try:
        variables = user_variables()
        root = Root(root_path or default_root())
        path = find_program(program, variables)
        chosen = engine_in_place(engine, root, variables, build=True)
        if staging if staging is not None else chosen.platform == "windows":
            stage(path.parent, chosen.name, chosen.version, chosen.files())
        added = run_variables(chosen, configuration(root), variables, path.parent)
        if device is not None:
            if chosen.name != "cuttle":
                raise StackError(
                    "STK-0603", f"the engine {chosen.name} has no choice of devices; --device is for cuttle"
                )
            require_device_name(device)
            added["CUTTLE_DEVICE"] = device
        if insist:
            added = {**added, **insisting_variables(chosen, variables)}
        if launcher:
            started = chosen.folder / LAUNCHER
            code = run_program(started, launcher_arguments(started, path, arguments), {**variables, **added})
        else:
            code = run_program(path, arguments, {**variables, **added})
    except CuttleError as error:
        show_problem(Problem.of(error), Style())
        code = exit_code_of(error) if isinstance(error, StackError) else FAILED
    sys.exit(code)  # fmt: skip
