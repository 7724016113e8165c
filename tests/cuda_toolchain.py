"""Finds NVIDIA's compiler and builds CUDA programs with it, with a cache that parallel test workers share."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

# One set of versions that fit each other; the runtime and CCCL count their patch releases differently.
WHEELS = (
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
)

# Protects against a compiler that hangs; no build comes near it.
BUILD_TIMEOUT_S = 600


class BuildError(RuntimeError):
    """The compiler is missing or refused a program; the message holds its output."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler, the flags that tell it where its own files are, and a text that changes with its version."""

    nvcc: Path
    place_flags: tuple[str, ...]
    version: str

    def build(self, sources: Sequence[Path], flags: Sequence[str], output: Path) -> str:
        """Compiles and links a program; returns what the compiler printed, raises BuildError if it fails."""
        command = [str(self.nvcc), *flags, *self.place_flags, "-o", str(output), *map(str, sources)]
        # Flags in the environment would change what is built without changing its key.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("NVCC_")}
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
        if result.returncode != 0:
            raise BuildError(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stdout}")
        return result.stdout


def from_wheels() -> Toolchain:
    """The compiler of the wheels in this Python environment; tests use no other, so that all machines agree."""
    try:
        spec = importlib.util.find_spec("nvidia.cu13")
        version = importlib.metadata.version("nvidia-cuda-nvcc")
    except (ModuleNotFoundError, importlib.metadata.PackageNotFoundError):
        spec, version = None, ""
    for place in (spec.submodule_search_locations or []) if spec else []:
        nvcc = Path(place) / "bin" / "nvcc"
        if nvcc.is_file():
            return Toolchain(nvcc, (f"-L{Path(place) / 'lib'}",), version)
    raise BuildError(f"no nvcc in this Python environment\nhint: pip install {' '.join(WHEELS)}")


def from_path() -> Toolchain:
    """The compiler that is installed on the machine, for recording on one with a real GPU."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    try:
        version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"no nvcc on PATH: {error}") from error
    return Toolchain(Path(nvcc), (), version.strip().splitlines()[-1])


def cache_folder() -> Path:
    """Where built programs are kept: CUTTLE_TEST_BUILD, or build/programs in the repository."""
    chosen = os.environ.get("CUTTLE_TEST_BUILD")
    return Path(chosen) if chosen else REPOSITORY / "build" / "programs"


def cached_build(
    toolchain: Toolchain, name: str, sources: Sequence[Path], flags: Sequence[str], source_hash: str
) -> Path:
    """Builds a program unless the cache has it; returns the executable. Safe for several processes at once.

    `source_hash` stands for the content of all sources and headers.
    """
    key = hashlib.sha256("\0".join([source_hash, toolchain.version, *flags]).encode()).hexdigest()[:16]
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    executable = folder / f"{name}-{key}"
    with open(folder / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not executable.exists():
            # A half-written file must never be taken for a program, so it gets its name only when it is whole.
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                unfinished = Path(scratch) / name
                toolchain.build(sources, flags, unfinished)
                for outdated in folder.glob(f"{name}-*"):
                    outdated.unlink()
                unfinished.rename(executable)
    return executable
