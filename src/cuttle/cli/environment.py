"""The environment in which a program finds Cuttle instead of NVIDIA's driver. On the start path: imports `os` and `sys` only."""

from __future__ import annotations

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARY_FOLDER = f"{PACKAGE}/client/lib"
PROGRAM_FOLDER = f"{PACKAGE}/client/bin"
CLIENT_LIBRARY = f"{LIBRARY_FOLDER}/libcuda.so.1"


def platform_problem() -> str:
    """Why Cuttle cannot run programs on this machine, or an empty string."""
    if sys.platform != "linux":
        name = {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
        return f"Cuttle runs programs on Linux on x86-64; this machine runs {name}"
    machine = os.uname().machine
    if machine not in ("x86_64", "amd64"):
        return f"Cuttle runs programs on Linux on x86-64; this machine is {machine}"
    if sys.maxsize < 1 << 32:
        return "Cuttle needs a 64-bit Python"
    return ""


def prepended(folder: str, path: str | None) -> str:
    """`folder` in front of a colon-separated list, named once. Empty entries stay: they mean the current folder."""
    if not path:
        return folder
    return ":".join([folder, *(entry for entry in path.split(":") if entry != folder)])


def client_variables(environment: dict[str, str], *, prefer_ours: bool = False) -> dict[str, str]:
    """The variables that `environment` needs beside the user's own knobs, with their new values.

    `prefer_ours` preloads the client library: a program whose DT_RPATH names a folder with another libcuda.so.1 would
    find that one first, but the loader reuses a library that is loaded under the same SONAME.
    """
    variables = {
        "CUTTLE_PYTHON": sys.executable,
        "LD_LIBRARY_PATH": prepended(LIBRARY_FOLDER, environment.get("LD_LIBRARY_PATH")),
        "PATH": prepended(PROGRAM_FOLDER, environment.get("PATH", os.defpath)),
    }
    if prefer_ours:
        variables["LD_PRELOAD"] = prepended(CLIENT_LIBRARY, environment.get("LD_PRELOAD"))
    return variables
