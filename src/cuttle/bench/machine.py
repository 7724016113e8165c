"""What the numbers were measured on."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import cuttle
from cuttle.bench.build import REPOSITORY

# Instruction sets that change how kernels are compiled.
INTERESTING_FLAGS = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16", "amx_tile")


def processor_facts() -> tuple[str, list[str]]:
    """(model, those of the interesting instruction sets that it has)."""
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines():
        name, _, value = line.partition(":")
        facts[name.strip()] = value.strip()
    flags = facts.get("flags", "").split()
    model = (
        f"{facts.get('model name', platform.machine())} (family {facts.get('cpu family')}, model {facts.get('model')})"
    )
    return model, [flag for flag in INTERESTING_FLAGS if flag in flags]


def commit() -> str:
    """The checkout's commit, marked if files differ from it."""
    try:
        name = subprocess.run(
            ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return "unknown"
    return name.stdout.strip() or "unknown"


def package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def description() -> dict[str, str]:
    """Facts about machine and software, in the order of the report."""
    model, flags = processor_facts()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "instruction sets": ", ".join(flags),
        "system": f"{platform.system()} {platform.release()}, {platform.freedesktop_os_release().get('PRETTY_NAME', '')}",
        "load when started": load,
        "version": f"{cuttle.__version__}, commit {commit()}",
        "Python": platform.python_version(),
        "llvmlite": package_version("llvmlite"),
    }
