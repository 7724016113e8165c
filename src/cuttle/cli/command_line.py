"""The command line with click. Verbs are modules that are imported when they are called."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from cuttle import __version__
from cuttle.abi.knobs import KnobError
from cuttle.cli.render import Style, show, write_everything
from cuttle.cli.result import FINDINGS, USAGE, Problem, Result, failure
from cuttle.cli.stack import STACK_VERBS
from cuttle.errors import CuttleError

# Verb → (module, one line). The line stands here so that `cuttle --help` imports no verb.
VERBS: dict[str, tuple[str, str]] = {
    "run": ("", "Run a CUDA program: cuttle run -- ./program arguments"),
    "demo": ("cuttle.cli.demo", "Draw a picture with a CUDA driver-API program on the CPU"),
    "info": ("cuttle.cli.info", "Show the devices that programs will see"),
    "doctor": ("cuttle.cli.doctor", "Check whether everything is in place"),
    "scan": ("cuttle.cli.scan", "Find device code in programs and libraries and say whether it can run"),
    "env": ("cuttle.cli.env", "Print the variables that `run` sets, for shells, Docker and CI"),
    "cache": ("cuttle.cli.cache", "Show, prune or clear the cache of compiled kernels"),
    "compile": ("cuttle.cli.compile", "Show what a PTX file becomes: IR, LLVM, assembly"),
    "stack": ("cuttle.cli.stack", "Set up, check and run CUDA on AMD GPUs: engines, HIP, libraries"),
    "sweep": ("cuttle.cli.sweep", "Hold instructions against what an NVIDIA GPU answers"),
    "selftest": ("cuttle.cli.selftest", "Test a device of this machine and write a report: for owners of AMD GPUs"),
    "explain": ("cuttle.cli.explain", "Explain an error code or a knob"),
}


PIPE_CLOSED = 141
# Of click 8.2 and later; before, a group without arguments shows its help and ends well.
NO_ARGUMENTS: type[Exception] | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())
# What verbs find out about their own arguments: names of things that do not exist, and values that cannot be.
WRONG_USAGE = frozenset(
    (
        "CLI-0003",
        "CLI-0104",
        "CLI-0503",
        "CLI-0504",
        "CLI-0701",
        "SWP-0104",
        "STK-0803",
        "STK-1001",
        "STK-1101",
        "STK-1102",
    )
)


class LazyGroup(click.Group):
    """Commands of a table such as `VERBS`, each imported when asked for."""

    verbs = VERBS

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self.verbs:
            return None
        command: click.Command = importlib.import_module(self.verbs[name][0]).command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.verbs.items()])


class MainGroup(LazyGroup):
    """The verbs of `cuttle`: `run` stands here, and `stack` is a group of its own."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name == "run":
            return run
        if name == "stack":
            return stack
        return super().get_command(context, name)


class StackGroup(LazyGroup):
    """The verbs of `cuttle stack`."""

    verbs = STACK_VERBS


@click.group(cls=MainGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", message="cuttle %(version)s")
def group() -> None:
    """Run unmodified CUDA programs on machines without an NVIDIA GPU."""


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(arguments: tuple[str, ...]) -> None:
    """Reached only through `cuttle` options before `run`; see launch.py."""
    from cuttle.cli import launch

    sys.exit(launch.main(list(arguments)))


@click.group("stack", cls=StackGroup, context_settings={"help_option_names": ["-h", "--help"]})
def stack() -> None:
    """Set up, check and run CUDA on AMD GPUs, reproducibly, with the engines `cuttle` and `zluda`.

    docs/how-to/stack.md walks through it.
    """


def verb(name: str) -> Callable[[Callable[..., Result]], click.Command]:
    """Make a function `(style, ...) -> Result` a command with the options that every verb has."""

    def decorate(function: Callable[..., Result]) -> click.Command:
        @functools.wraps(function)
        def call(json: bool, quiet: bool, verbose: bool, color: str, **arguments: Any) -> None:
            style = Style(json, quiet, verbose, color)
            try:
                result = function(style, **arguments)
            except CuttleError as error:
                result = failure(name, error, USAGE if error.code in WRONG_USAGE else FINDINGS)
            show(result, style)
            sys.exit(result.exit_code)

        wrapped: Callable[..., Any] = call
        options: tuple[Callable[[Any], Any], ...] = (
            click.option(
                "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour."
            ),
            click.option("-v", "--verbose", is_flag=True, help="Say more."),
            click.option("-q", "--quiet", is_flag=True, help="Say nothing but data and errors."),
            click.option("--json", is_flag=True, help="Print one JSON document (docs/reference/json.md)."),
        )
        for option in options:
            wrapped = option(wrapped)
        return click.command(name, context_settings={"help_option_names": ["-h", "--help"]})(wrapped)

    return decorate


def main(arguments: list[str]) -> int:
    """Run a verb; returns the exit code."""
    if sys.stdout is None:  # closed by whoever started this
        sys.stdout = open(os.devnull, "w")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    write_everything(sys.stdout)
    style, stdout = Style(json="--json" in arguments), sys.stdout
    try:
        code = group.main(arguments, prog_name="cuttle", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.UsageError as error:
        if isinstance(error, NO_ARGUMENTS):
            sys.stdout.write(error.ctx.get_help() + "\n" if error.ctx else "")
            return USAGE
        command = error.ctx.info_name or "cuttle" if error.ctx else "cuttle"
        path = error.ctx.command_path if error.ctx else "cuttle"
        problem = Problem("CLI-0001", error.format_message(), f"`{path} --help` shows what is possible.")
        show(Result(command, None, errors=[problem], exit_code=USAGE, status="error"), style)
        return USAGE
    except click.ClickException as error:
        problem = Problem("CLI-0001", error.format_message())
        show(Result("cuttle", None, errors=[problem], exit_code=USAGE, status="error"), style)
        return USAGE
    except CuttleError as error:  # raised while options are read; verbs catch their own
        show(failure("cuttle", error, USAGE), style)
        return USAGE
    except KnobError as error:
        problem = Problem("CLI-0104", str(error), f"`cuttle explain {str(error).partition('=')[0]}`")
        show(Result("cuttle", None, errors=[problem], exit_code=USAGE, status="error"), style)
        return USAGE
    except click.exceptions.Abort:
        return 130
    except SystemExit as end:
        # click replaces stdout if it meets a closed pipe, and exits with 1; a program that SIGPIPE ends has another code.
        if sys.stdout is not stdout:
            return PIPE_CLOSED
        raise end
    except OSError as error:
        return system_refused(error)


def system_refused(error: OSError) -> int:
    """Tells, on stderr, of an error that no verb has told of: most likely stdout, which is not written to again."""
    if not error.filename:
        sys.stdout = None
    problem = CuttleError("CLI-0603", f"{error.filename or 'standard output'}: {error.strerror or error}")
    with contextlib.suppress(OSError):  # stderr may lead to the same place
        sys.stderr.write(problem.render() + "\n")
        sys.stderr.flush()
    return FINDINGS
