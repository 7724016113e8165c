"""Builds the stand-ins for AMD's libraries, and asks a HIP library in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cuttle.abi import hip
from cuttle.client.build import compiler

HERE = Path(__file__).resolve().parent

# Written out in fake_hip.c; all others of the table only exist.
WRITTEN = {
    "hipInit", "hipDriverGetVersion", "hipRuntimeGetVersion", "hipGetErrorName", "hipGetErrorString", "hipGetDeviceCount", "hipDeviceGet",
    "hipDeviceGetName", "hipDeviceGetAttribute", "hipDeviceTotalMem", "hipDeviceGetPCIBusId", "hipGetDeviceProperties",
    "hipGetDevicePropertiesR0600",
}  # fmt: skip


def build(source: Path, output: Path, *flags: str) -> Path:
    """Compiles a shared library."""
    output.parent.mkdir(parents=True, exist_ok=True)
    command = [*compiler(), "-shared", "-fPIC", "-O1", "-Wl,--build-id=none", *flags, str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return output


C_TYPES = {"i32": "int", "u32": "unsigned", "u8": "unsigned char", "u16": "unsigned short"}


def forwarder(row: hip.HipFunction) -> str:
    """C of a function that hands its arguments to `fake_hip.c`'s `forward`, as 64-bit words."""
    types = [
        C_TYPES.get(kind, "void *" if kind in ("handle", "host", "text", "function") or kind[0] == "*" else "word")
        for kind in row.arguments
    ]
    declared = ", ".join(f"{kind} a{n}" for n, kind in enumerate(types)) or "void"
    words = ", ".join(f"(word)(size_t)a{n}" if kind.endswith("*") else f"(word)a{n}" for n, kind in enumerate(types))
    return (
        f"EXPORT int {row.name}({declared}) {{ const word words[] = {{ {words or 0} }}; "
        f'return forward("{row.name}", {len(types)}, words); }}\n'
    )


def fake_hip(folder: Path, major: int, without: str = "") -> Path:
    """`libamdhip64.so.MAJOR` in the folder; `without` leaves out one function."""
    names = [row.name for row in hip.FUNCTIONS if row.exists_in(major) and row.name not in WRITTEN | {without}]
    headers = folder / f"headers{major}"
    headers.mkdir(parents=True, exist_ok=True)
    (headers / "others.h").write_text("".join(forwarder(row) for row in hip.FUNCTIONS if row.name in names))
    name = f"libamdhip64.so.{major}"
    flags = (f"-DMAJOR={major}", f"-I{headers}", f"-Wl,-soname,{name}")
    return build(HERE / "fake_hip.c", folder / name, *flags)


def run_python(code: str, *arguments: str, **environment: str) -> str:
    """Output of Python code in a process of its own: a process takes only one HIP."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("FAKE_HIP_", "CUTTLE_HIP"))}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**variables, **environment}, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def hip_report(path: Path, **environment: str) -> dict[str, Any]:
    """`cuttle.device.hip.report.ask` for a library, with the FAKE_HIP_ variables given."""
    code = """
import json, sys
from cuttle.device.hip.find_library import Candidate
from cuttle.device.hip.report import ask
print(json.dumps(ask("hip", Candidate(sys.argv[1], None, "test"))))
"""
    report: dict[str, Any] = json.loads(run_python(code, str(path), **environment))
    return report
