"""Builds what the benchmark runs, from `bench/` of the source checkout: PTX, the C library, the launch programs."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCES = REPOSITORY / "bench"
C_FLAGS = ("-O3", "-march=native")


class BenchError(Exception):
    """The benchmark cannot run as asked; the text says why and what to do."""


@dataclass(frozen=True)
class Built:
    """Paths of everything built, and how."""

    ptx: Path
    library: Path
    launch_program: Path
    first_launch_program: Path
    trivial_program: Path
    nvcc_version: str
    c_version: str


def find_nvcc(chosen: Path | None) -> Path:
    """The given compiler, or that of the NVIDIA wheels in this Python environment, or the one on PATH."""
    if chosen is not None:
        return chosen
    try:
        spec = importlib.util.find_spec("nvidia.cu13")
    except ModuleNotFoundError:
        spec = None
    for place in (spec.submodule_search_locations or []) if spec else []:
        nvcc = Path(place) / "bin" / "nvcc"
        if nvcc.is_file():
            return nvcc
    found = shutil.which("nvcc")
    if found is None:
        raise BenchError("no nvcc in this Python environment; pip install '.[test]', or name one with --nvcc")
    return Path(found)


def command_output(*command: str | Path) -> str:
    """What a command prints; raises BenchError if it fails."""
    try:
        done = subprocess.run(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise BenchError(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        raise BenchError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(folder: Path, nvcc_path: Path | None) -> Built:
    """Builds everything into `folder`."""
    if not SOURCES.is_dir():
        raise BenchError(f"{SOURCES} is missing: benchmarks run from a source checkout")
    nvcc = find_nvcc(nvcc_path)
    library_folder = nvcc.parent.parent / "lib"
    ptx, library = folder / "kernels.ptx", folder / "libkernels.so"
    launch_program, trivial_program = folder / "launch_cost", folder / "trivial"
    first_launch_program = folder / "first_launch"
    command_output(nvcc, "-ptx", "-arch=compute_80", "-o", ptx, SOURCES / "kernels" / "kernels.cu")
    command_output(
        nvcc, "-arch=compute_80", f"-L{library_folder}", "-o", trivial_program, SOURCES / "programs" / "trivial.cu"
    )
    command_output("gcc", *C_FLAGS, "-shared", "-fPIC", "-o", library, SOURCES / "kernels" / "kernels.c", "-lm")
    command_output("gcc", *C_FLAGS, "-o", launch_program, SOURCES / "programs" / "launch_cost.c", "-ldl")
    first_launch_source = SOURCES / "programs" / "first_launch.c"
    command_output("gcc", *C_FLAGS, "-o", first_launch_program, first_launch_source, "-ldl")
    return Built(
        ptx,
        library,
        launch_program,
        first_launch_program,
        trivial_program,
        command_output(nvcc, "--version").strip().splitlines()[-1],
        command_output("gcc", "--version").splitlines()[0],
    )
