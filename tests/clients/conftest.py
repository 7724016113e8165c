"""Programs for Windows and for 32-bit Linux, built with zig, and what runs them. What a machine lacks is skipped by name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuttle.client import build

SOURCE = Path(__file__).with_name("driver_program.c")
WINDOWS_PROGRAM = (
    "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-mconsole", "-Wl,-e,mainCRTStartup", "-g0",
)  # fmt: skip
# The wrong calls are the driver's to judge: the program calls through untyped pointers.
FLAGS = ("-std=gnu11", "-O1", "-Wno-everything")

Run = Callable[..., subprocess.CompletedProcess[str]]


def built_program(folder: Path, client: str) -> Path:
    """The test program for one kind of client, in a folder of its own."""
    target = build.OTHER_CLIENTS[client][1]
    windows = target.endswith("windows-gnu")
    program = folder / ("program.exe" if windows else "program")
    system = [*WINDOWS_PROGRAM, "-lkernel32"] if windows else ["-ldl", "-pthread"]
    libraries = [flag for flag in system if flag.startswith("-l")]
    options = [flag for flag in system if flag not in libraries]
    subprocess.run(
        [*build.zig(target), *FLAGS, *options, str(SOURCE), "-o", str(program), *libraries], check=True, timeout=300
    )
    return program


def device_environment() -> dict[str, str]:
    """What lets a client find this source tree's device process."""
    parts = [str(build.CLIENT.parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "CUTTLE_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(filter(None, parts))}


@pytest.fixture(scope="session")
def wine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an own Wine prefix for 64-bit programs."""
    if shutil.which("wine") is None:
        pytest.skip("Wine is not installed: apt-get install wine wine64")
    folder = tmp_path_factory.mktemp("wine")
    environment = {
        **device_environment(),
        "WINEPREFIX": str(folder / "prefix"),
        "WINEDEBUG": "-all",
        # No window, no .NET, no browser, no menu entries
        "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe=d",
    }
    subprocess.run(["wineboot", "-i"], env=environment, check=True, timeout=300, capture_output=True)
    return environment
