"""`cuttle stack`: its verbs are modules here, imported when they are called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

# Verb → (module, one line). The line stands here so that `cuttle stack --help` imports no verb.
STACK_VERBS: dict[str, tuple[str, str]] = {
    "scan": ("cuttle.cli.stack.scan", "Show the AMD GPUs, HIP and math libraries of this machine"),
    "plan": ("cuttle.cli.stack.plan", "Show what would be installed, from where, and how big it is"),
    "install": ("cuttle.cli.stack.install", "Fetch, check and install an engine, and LibTorch if asked for"),
    "run": ("cuttle.cli.stack.run", "Run a program on an engine: cuttle stack run -- ./program arguments"),
    "stage": ("cuttle.cli.stack.stage", "Place an engine's libraries beside a program, without running it"),
    "unstage": ("cuttle.cli.stack.unstage", "Take away what `stage` placed"),
    "doctor": ("cuttle.cli.stack.doctor", "Find out what keeps the stack from working on this machine"),
    "check": ("cuttle.cli.stack.check", "Try an engine's libraries: found, loads, creates a handle, one right answer"),
    "verify": ("cuttle.cli.stack.verify", "Compare installed files with their hashes"),
    "uninstall": ("cuttle.cli.stack.uninstall", "Remove what was installed"),
    "probe": ("cuttle.cli.stack.probe", "Try capabilities one by one, each in a process of its own"),
    "bench": ("cuttle.cli.stack.bench", "Compare two engines or settings in alternating order"),
    "report": ("cuttle.cli.stack.report", "Print a compatibility report of stored results, or bundle them, redacted"),
    "pin": ("cuttle.cli.stack.pin", "Make a manifest from files at hand"),
}


def root_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--root`: the folder of the installation."""
    option = click.option(
        "--root",
        "root_path",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder of the installation (CUTTLE_STACK_DIR).",
    )
    return option(function)


def channel_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--channel` and `--manifest`: what is installed."""
    function = click.option(
        "--manifest",
        "manifest_path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="A manifest file instead of a channel.",
    )(function)
    return click.option("--channel", default="stable", metavar="NAME", help="stable (the default) or latest.")(function)


def engine_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--engine`: None means what is installed, or zluda where something is to be installed."""
    return click.option("--engine", type=click.Choice(["cuttle", "zluda"]), help="The engine.")(function)


def gpu_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--gpu`: the number that `scan` shows."""
    return click.option(
        "--gpu", "gpu_index", type=click.IntRange(0), metavar="N", help="GPU of this number in `cuttle stack scan`."
    )(function)


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """`NAME=VALUE` options as a table."""
    found = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not rest:
            raise click.BadParameter(f"{value} is not NAME=VALUE", param_hint=option)
        found[name] = rest
    return found
