"""`cuttle env`: the variables that make programs find Cuttle, in the syntax of whoever will set them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from cuttle.cli import environment
from cuttle.cli.command_line import verb
from cuttle.cli.render import Style
from cuttle.cli.result import Remark, Result, Text
from cuttle.errors import CuttleError

# Variables that are lists: the other side keeps its own entries behind ours.
LISTS = ("LD_LIBRARY_PATH", "PATH", "LD_PRELOAD")


def quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def as_sh(variables: dict[str, str]) -> str:
    """For `eval "$(cuttle env)"`: lists are extended, so that evaluating twice or later keeps what is there."""
    lines = []
    for name, value in variables.items():
        if name in LISTS:
            lines.append(f'export {name}={quoted(value)}"${{{name}:+:${name}}}"\n')
        else:
            lines.append(f"export {name}={quoted(value)}\n")
    return "".join(lines)


def as_fish(variables: dict[str, str]) -> str:
    lines = []
    for name, value in variables.items():
        escaped = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if name in LISTS:
            lines.append(f"set -gx --path {name} {escaped} ${name}\n")
        else:
            lines.append(f"set -gx {name} {escaped}\n")
    return "".join(lines)


def as_docker(variables: dict[str, str]) -> str:
    """Lines of a Dockerfile."""
    lines = []
    for name, value in variables.items():
        rest = f"${{{name}:+:${name}}}" if name in LISTS else ""
        lines.append(f'ENV {name}="{value}{rest}"\n')
    return "".join(lines)


def as_github(variables: dict[str, str]) -> str:
    """Shell commands for a step of GitHub Actions; the variables hold for the steps after it."""
    lines = []
    for name, value in variables.items():
        if name == "PATH":
            lines.append(f'echo {quoted(value)} >> "$GITHUB_PATH"\n')
        elif name in LISTS:
            lines.append(f'echo {name}={quoted(value)}"${{{name}:+:${name}}}" >> "$GITHUB_ENV"\n')
        else:
            lines.append(f'echo {name}={quoted(value)} >> "$GITHUB_ENV"\n')
    return "".join(lines)


FORMATS: dict[str, Callable[[dict[str, str]], str]] = {
    "sh": as_sh,
    "fish": as_fish,
    "docker": as_docker,
    "github": as_github,
}


def variables(prefer_ours: bool = False) -> dict[str, str]:
    """The variables with Cuttle's part of each value only."""
    return environment.client_variables({"PATH": ""}, prefer_ours=prefer_ours)


@verb("env")
@click.option("--format", "form", type=click.Choice([*FORMATS, "json"]), help="Syntax (default: that of $SHELL).")
@click.option("--prefer-ours", is_flag=True, help="Preload Cuttle's library, too, as `cuttle run --prefer-ours` does.")
def command(style: Style, form: str | None, prefer_ours: bool) -> Result:
    """Print the variables that `cuttle run` sets.

    In a shell: eval "$(cuttle env)". For Dockerfile and CI there are recipes: docs/how-to/environment.md.
    """
    problem = environment.platform_problem()
    if problem:
        raise CuttleError("CLI-0201", problem)
    chosen = form or ("fish" if Path(os.environ.get("SHELL", "")).name == "fish" else "sh")
    values = variables(prefer_ours)
    if chosen == "json":
        import msgspec

        text = msgspec.json.format(msgspec.json.encode(values), indent=2).decode()
    else:
        text = FORMATS[chosen](values)
    blocks: list[Text | Remark] = [Text(text)]
    if not Path(environment.CLIENT_LIBRARY).exists():
        blocks.append(Remark("cuttle: note: the client library is not built yet: python -m cuttle.client.build"))
    elif chosen == "sh" and sys.stdout.isatty():
        blocks.append(Remark('# to set them in this shell: eval "$(cuttle env)"'))
    return Result("env", {"variables": values}, blocks)
