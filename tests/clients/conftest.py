"""Programs for Windows and for 32-bit Linux, built with zig, and what runs them. What a machine lacks is skipped by name."""

from __future__ import annotations

import fcntl
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
    command = [*build.zig(target), *FLAGS, *options, str(SOURCE), "-o", str(program), *libraries]
    # As in build.build: two zig processes that fill one cache at the same time were seen to fail.
    build.LIB.mkdir(exist_ok=True)
    lock = os.open(build.LIB, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(command, check=True, timeout=300)
    finally:
        os.close(lock)
    return program


def device_environment() -> dict[str, str]:
    """What lets a client find this source tree's device process."""
    parts = [str(build.CLIENT.parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "CUTTLE_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(filter(None, parts))}


def prefix_environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment of an own Wine prefix in a folder; the prefix is made."""
    environment = {
        **device_environment(),
        "WINEPREFIX": str(folder / "prefix"),
        "WINEDEBUG": "-all",
        # No window, no .NET, no browser, no menu entries
        "WINEDLLOVERRIDES": "mscoree,mshtml=;winemenubuilder.exe=d",
        **more,
    }
    subprocess.run(
        [environment.get("WINELOADER", "wine"), "wineboot", "-i"],
        env=environment, check=True, timeout=300, capture_output=True,
    )  # fmt: skip
    return environment


@pytest.fixture(scope="session")
def wine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """For 64-bit Windows programs."""
    if shutil.which("wine") is None:
        pytest.skip("Wine is not installed: apt-get install wine wine64")
    return prefix_environment(tmp_path_factory.mktemp("wine"))


@pytest.fixture(scope="session")
def wine32(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """For 32-bit Windows programs: a 32-bit Wine that tools/unpack_wine32.sh unpacked."""
    named = os.environ.get("CUTTLE_TEST_WINE32")
    if not named:
        pytest.skip("CUTTLE_TEST_WINE32 names no 32-bit Wine: see tools/unpack_wine32.sh")
    root = Path(named).resolve()
    wine = root / "usr/lib/wine"
    return prefix_environment(
        tmp_path_factory.mktemp("wine32"),
        WINEARCH="win32",
        WINELOADER=str(wine / "wine"),
        WINESERVER=str(wine / "wineserver32"),
        WINEDLLPATH=str(root / "usr/lib/i386-linux-gnu/wine"),
        WINEPATH="\\\\?\\unix" + f"{root}/usr/i686-w64-mingw32/lib".replace("/", "\\"),  # zlib1.dll
        LD_LIBRARY_PATH=f"{root}/usr/lib/i386-linux-gnu:{root}/lib/i386-linux-gnu",
    )
