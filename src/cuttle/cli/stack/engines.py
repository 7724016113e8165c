"""Engines that are in place, seen from the command line: Cuttle's own lies in this package, others below the root."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from cuttle import __version__
from cuttle.cli import environment
from cuttle.errors import StackError
from cuttle.stack.engine import EngineInPlace, zluda_in_place
from cuttle.stack.install import this_platform
from cuttle.stack.journal import Root

# Machine of a PE file → folder of the client library for such programs (client/build.py makes them).
WINDOWS_FOLDERS = {0x8664: "windows-x86_64", 0x014C: "windows-i386"}


def windows_folder(program: Path | None) -> str:
    """The folder of a Windows program's libraries; empty if the file is none. Without a file: that of 64-bit programs on Windows."""
    if program is None or not program.is_file():
        return WINDOWS_FOLDERS[0x8664] if this_platform() == "windows" else ""
    with program.open("rb") as file:
        head = file.read(4096)
    if head[:2] != b"MZ":
        return WINDOWS_FOLDERS[0x8664] if this_platform() == "windows" else ""
    at = int.from_bytes(head[0x3C:0x40], "little")
    machine = int.from_bytes(head[at + 4 : at + 6], "little") if head[at : at + 4] == b"PE\0\0" else 0
    return WINDOWS_FOLDERS.get(machine, WINDOWS_FOLDERS[0x8664])


def cuttle_in_place(variables: Mapping[str, str], build: bool = False, program: Path | None = None) -> EngineInPlace:
    """Cuttle's own client library for a program. `build`: make it first in a source checkout. Raises STK-0603."""
    inner = windows_folder(program)
    platform = "windows" if inner else "linux"
    folder = Path(environment.LIBRARY_FOLDER, inner)
    if build and platform == "linux":
        from cuttle.cli.devices import require_client

        require_client()
    if platform == "windows":
        return EngineInPlace("cuttle", __version__, platform, folder, {"CUTTLE_PYTHON": sys.executable})
    own = environment.client_variables(dict(variables))
    return EngineInPlace("cuttle", __version__, platform, folder, own)


def engine_in_place(
    name: str | None, root: Root, variables: Mapping[str, str], build: bool = False, program: Path | None = None
) -> EngineInPlace:
    """The engine of this name; without one the engine that was installed last, else Cuttle's own. `program`: the file it is for, which
    may be one of Windows on Linux (Wine). Raises STK-0405, STK-0603."""
    root.settle_leftovers()
    chosen = name or root.installed().engine or "cuttle"
    if chosen == "cuttle":
        engine = cuttle_in_place(variables, build, program)
    else:
        engine = zluda_in_place(root, "windows" if windows_folder(program) else "linux")
    if not engine.files():
        raise StackError("STK-0603", f"the engine {engine.name} has no libraries for {engine.platform}")
    return engine


def user_variables() -> dict[str, str]:
    """The environment as the user made it."""
    if os.name == "nt":
        return dict(os.environ)
    from cuttle.cli.launch import initial_environment

    return initial_environment()
