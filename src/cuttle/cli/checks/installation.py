"""Checks of what is installed: our client library, and what else calls itself libcuda.so.1."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from cuttle import __version__
from cuttle.cli import environment
from cuttle.cli.checks import FAILURE, OK, WARNING, Context, Finding
from cuttle.cli.render import size_text

BUILD_HINT = "Run `python -m cuttle.client.build`; it needs `pip install ziglang`, or a C compiler named cc."


def check_client_library(context: Context) -> Finding:
    """Is libcuda.so.1 built, and newer than its sources?"""
    library = Path(environment.CLIENT_LIBRARY)
    if not library.exists():
        return Finding(FAILURE, f"{library} is missing", BUILD_HINT)
    sources = [path for folder in ("client", "abi") for path in source_files(Path(environment.PACKAGE) / folder)]
    newer = [path for path in sources if path.stat().st_mtime > library.stat().st_mtime + 1]
    details = (str(library), size_text(library.stat().st_size))
    checkout = (Path(environment.PACKAGE).parent.parent / "pyproject.toml").exists()
    if newer and checkout:
        return Finding(WARNING, f"the client library is older than its sources ({newer[0].name})", BUILD_HINT, details)
    return Finding(OK, f"libcuda.so.1 of Cuttle {__version__}", details=details)


def source_files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.suffix in (".c", ".h")]


def check_executor_file(context: Context) -> Finding:
    """Is the program that runs kernels in place?"""
    path = Path(context.environment.get("CUTTLE_EXECUTOR") or f"{environment.LIBRARY_FOLDER}/cuttle-executor")
    if not path.exists():
        return Finding(FAILURE, f"{path} is missing", BUILD_HINT)
    if not os.access(path, os.X_OK):
        return Finding(FAILURE, f"{path} is not executable", f"Try chmod +x {path}; is the file system mounted noexec?")
    return Finding(OK, "executor is in place", details=(str(path),))


def check_nvidia_driver(context: Context) -> Finding:
    """Is a real NVIDIA driver here? No problem, but the user should know which of the two a program gets."""
    found = []
    if Path("/proc/driver/nvidia/version").exists():
        found.append(Path("/proc/driver/nvidia/version").read_text().splitlines()[0])
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    if Path(ldconfig).exists():
        listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
        found += sorted({match for match in re.findall(r"libcuda\.so\.1 .*=> (\S+)", listing)})
    if not found:
        return Finding(OK, "no NVIDIA driver on this machine")
    return Finding(
        OK,
        "an NVIDIA driver is installed; programs started by `cuttle run` get Cuttle, all others get that driver",
        details=tuple(found),
    )


def check_stand_in(context: Context) -> Finding:
    """Is our nvidia-smi found first?"""
    path = Path(environment.PROGRAM_FOLDER) / "nvidia-smi"
    if not os.access(path, os.X_OK):
        return Finding(WARNING, f"the nvidia-smi stand-in {path} is not executable", f"Try chmod +x {path}")
    first = shutil.which("nvidia-smi", path=context.client_environment["PATH"])
    if first != str(path):
        return Finding(
            WARNING, f"nvidia-smi under `cuttle run` would be {first}", "Is PATH changed by a start-up file?"
        )
    return Finding(OK, "nvidia-smi stand-in is found first", details=(str(path),))


def check_variables(context: Context) -> Finding:
    """Are the CUTTLE_ variables that are set knobs, with values they can have?"""
    from cuttle.abi.knobs import KNOBS, KnobError

    known = {knob.name: knob for knob in KNOBS}
    set_knobs = {name: value for name, value in context.environment.items() if name.startswith("CUTTLE_")}
    for name, value in set_knobs.items():
        if name not in known:
            return Finding(WARNING, f"{name} is set, but there is no such knob", "docs/reference/knobs.md lists them.")
        try:
            known[name].check({name: value})
        except KnobError as error:
            return Finding(FAILURE, str(error), f"`cuttle explain {name}`")
    if not set_knobs:
        return Finding(OK, "no knobs are set")
    return Finding(
        OK, f"knobs set: {', '.join(sorted(set_knobs))}", details=tuple(f"{k}={v}" for k, v in set_knobs.items())
    )
