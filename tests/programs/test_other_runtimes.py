"""A few of the programs with the runtimes of 12.9 and 11.8, also several of them in one process.

PyPI has no nvcc of 12 or 11, so the one of 13.0 compiles, with the older runtime's own headers; `other_runtime/` bridges the
two differences. Machine code is not made, so ptxas is not needed. The result asks the driver what a genuine older program
asks: that comes from the headers and the runtime library. `tools/test.sh` installs the runtimes to build/cudart-*.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import cuda_toolchain
from tests.programs.programs import FOLDER, PROGRAMS, Program
from tests.programs.test_programs import recorded, run

HELPERS = FOLDER / "other_runtime"
CHOSEN = {
    program.name: program
    for program in PROGRAMS
    if program.name in ("saxpy_streams", "device_reset", "constant_managed_symbols")
}
# Functions that only compilers from 13.0 on use for a launch.
NEW_LAUNCH = ("__cudaGetKernel", "__cudaLaunchKernel")
CALL_EACH_MAIN = "import ctypes, sys; sys.exit(any([ctypes.CDLL(path).main() for path in sys.argv[1:]]))"


@dataclass(frozen=True)
class Runtime:
    """A CUDA runtime and how it is linked; `launch` says by which function kernels are launched."""

    version: str
    library: str
    launch: str

    @property
    def name(self) -> str:
        return f"{self.version}-{'static' if self.library.endswith('.a') else 'shared'}"

    @property
    def folder(self) -> Path:
        return cuda_toolchain.REPOSITORY / "build" / f"cudart-{self.version}" / "nvidia" / "cuda_runtime"

    def compiled(self, program: Program) -> Path:
        """The program's object file, out of the cache where possible."""
        if not (self.folder / "lib" / self.library).exists():
            pytest.skip(f"the runtime {self.version} is not in {self.folder}: tools/test.sh installs it")
        wheels = cuda_toolchain.from_wheels()
        helper = hashlib.sha256((HELPERS / "cuda_runtime.h").read_bytes()).hexdigest()
        places = (f"-I{HELPERS}", f"-I{self.folder / 'include'}")
        toolchain = cuda_toolchain.Toolchain(wheels.nvcc, places, f"{wheels.version} {self.version} {helper}")
        major, minor = self.version.split(".")
        flags = [
            *program.compiler_flags(broken=False),
            f"-DEXPECTED_CUDART_VERSION={int(major) * 1000 + int(minor) * 10}",
            *("-Xcompiler", "-fPIC", "-c"),
        ]
        name = f"{program.name}.cudart-{self.version}"
        return cuda_toolchain.cached_build(toolchain, name, program.source_paths(), flags, program.source_hash())

    def linked(self, program: Program, folder: Path, *flags: str) -> Path:
        """An executable, or what `flags` make of it."""
        output = folder / f"{program.name}-{self.name}"
        old_launch: list[str] = []
        if self.launch == "old":
            wrapped = [f"-Wl,--wrap={name}" for name in NEW_LAUNCH]
            old_launch = [*wrapped, *("-x", "c", str(HELPERS / "launch.c"), "-x", "none")]
        libraries = self.folder / "lib"
        command = [
            *("g++", *flags, "-fPIC", "-o", str(output), str(self.compiled(program)), *old_launch),
            *(str(libraries / self.library), f"-Wl,-rpath,{libraries}", "-ldl", "-lrt", "-pthread"),
        ]
        subprocess.run(command, check=True)
        return output


STATIC_12 = Runtime("12.9", "libcudart_static.a", "old")
SHARED_12 = Runtime("12.9", "libcudart.so.12", "new")
SHARED_11 = Runtime("11.8", "libcudart.so.11.0", "old")

pytestmark = [pytest.mark.nvcc, pytest.mark.device]
each_runtime = pytest.mark.parametrize("runtime", (STATIC_12, SHARED_12, SHARED_11), ids=lambda runtime: runtime.name)


@each_runtime
@pytest.mark.parametrize("program", CHOSEN.values(), ids=lambda program: program.name)
def test_a_program_of_an_older_runtime(program: Program, runtime: Runtime, tmp_path: Path) -> None:
    code, stdout, stderr = run(runtime.linked(program, tmp_path))
    assert (code, stdout.decode()) == (0, recorded(program)["normal"]["stdout"]), stderr.decode(errors="replace")


@each_runtime
def test_eager_loading(runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older runtimes then look up every kernel and variable at their start."""
    monkeypatch.setenv("CUDA_MODULE_LOADING", "EAGER")
    test_a_program_of_an_older_runtime(CHOSEN["constant_managed_symbols"], runtime, tmp_path)


def test_three_runtimes_in_one_process(tmp_path: Path) -> None:
    """They share the primary context: a reset by one takes everything from the others, which then start anew."""
    calls = (
        (STATIC_12, CHOSEN["saxpy_streams"]),
        (SHARED_11, CHOSEN["device_reset"]),
        (STATIC_12, CHOSEN["saxpy_streams"]),
        (SHARED_12, CHOSEN["constant_managed_symbols"]),
        (SHARED_11, CHOSEN["saxpy_streams"]),
    )
    libraries = [str(runtime.linked(program, tmp_path, "-shared")) for runtime, program in calls]
    command = [sys.executable, "-m", "cuttle", "run", "--", sys.executable, "-c", CALL_EACH_MAIN, *libraries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=dict(os.environ))
    expected = "".join(recorded(program)["normal"]["stdout"] for _, program in calls)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
