"""The contenders: how each is started, and whose CPU time counts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuttle.bench.build import SOURCES, Built
from cuttle.bench.processes import (
    EXECUTOR_NAME,
    TOKEN_VARIABLE,
    WorkerFailure,
    WorkerProcess,
    cpu_ns,
    marked_processes,
)

PACKAGES = Path(__file__).resolve().parents[2]


@dataclass
class Sample:
    """One measurement: CPU time of what does the work, of all processes of the contender, and wall time, per launch."""

    cpu_ms: float
    all_cpu_ms: float
    wall_ms: float


@dataclass
class Contender:
    """Something that runs the kernels in a worker process of its own."""

    name: str
    title: str
    command: list[str]
    environment: dict[str, str]
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    worker: WorkerProcess | None = None
    description: str = ""

    def start(self, log: Path) -> None:
        environment = {**self.environment, TOKEN_VARIABLE: self.token}
        self.worker = WorkerProcess(self.command, environment, log)
        reply = self.worker.ask("describe")
        if "absent" in reply:
            raise WorkerFailure(reply["absent"])
        self.description = reply["text"]

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        if self.worker is None:
            raise WorkerFailure("not running")
        return self.worker.ask(do, **details)

    def sample(self, launches: int) -> Sample:
        """Times so many launches. Here the worker does the work itself."""
        reply = self.ask("time", launches=launches)
        cpu = reply["cpu_ns"] / launches / 1e6
        return Sample(cpu, cpu, reply["wall_ns"] / launches / 1e6)

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None


class CuttleContender(Contender):
    """The program, the device process and the executor are three; the executor's time is what kernels cost."""

    def sample(self, launches: int) -> Sample:
        processes = list(marked_processes(self.token).items())
        executors = [pid for pid, name in processes if name == EXECUTOR_NAME]
        if not executors:
            self.ask("time", launches=1)  # tells more if the executor is gone
        if len(executors) != 1:
            raise WorkerFailure(f"{len(executors)} executors are running, expected one; processes: {processes}")
        before = {pid: cpu_ns(pid) for pid, _ in processes}
        reply = self.ask("time", launches=launches)
        used = {pid: cpu_ns(pid) - start for pid, start in before.items()}
        return Sample(
            used[executors[0]] / launches / 1e6,
            sum(used.values()) / launches / 1e6,
            reply["wall_ns"] / launches / 1e6,
        )


def base_environment() -> dict[str, str]:
    """This environment, with this package importable and every thread pool that is not measured kept small."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH", "")]))
    return environment


def cuttle_run(cache: Path, *program: str, threads: int = 1) -> list[str]:
    """Command line of a program under Cuttle."""
    options = ["--threads", str(threads), "--cache-dir", str(cache)]
    return [sys.executable, "-m", "cuttle", "run", *options, "--", *program]


def cuttle_contender(built: Built, folder: Path, *, fast: bool = False) -> Contender:
    """Cuttle as it is, or with CUTTLE_FAST_MATH."""
    worker = [sys.executable, "-m", "cuttle.bench.cuda_worker", str(built.ptx)]
    # What is measured is what a program gets that runs for a while: no samples of the first tier.
    environment = {**base_environment(), "CUTTLE_TIERS": "optimised"}
    name, title, cache = "cuttle", "Cuttle", folder / "cache"
    if fast:
        name, title, cache = "fast", "Cuttle, CUTTLE_FAST_MATH=1", folder / "fast-cache"
        environment["CUTTLE_FAST_MATH"] = "1"
    return CuttleContender(name, title, cuttle_run(cache, *worker), environment)


def native_contender(built: Built) -> Contender:
    text = f"{built.c_version}, -O3 -march=native"
    command = [sys.executable, "-m", "cuttle.bench.native_worker", str(built.library), text]
    return Contender("native", "plain C", command, base_environment())


def openblas_contender() -> Contender:
    command = [sys.executable, "-m", "cuttle.bench.openblas_worker"]
    return Contender("openblas", "OpenBLAS sgemm", command, base_environment())


def opencl_contender(name: str, title: str, python: str, library: Path, folder: Path, **variables: str) -> Contender:
    vendors = folder / f"{name}-vendors"
    vendors.mkdir(exist_ok=True)
    (vendors / f"{name}.icd").write_text(f"{library}\n")
    environment = {**base_environment(), "OCL_ICD_VENDORS": str(vendors), "PYOPENCL_NO_CACHE": "1", **variables}
    command = [python, "-m", "cuttle.bench.opencl_worker", str(SOURCES / "kernels" / "kernels.cl")]
    return Contender(name, title, command, environment)


def intel_contender(python: str, folder: Path) -> Contender | str:
    """Intel's runtime from the wheels of that Python environment, or why it is missing."""
    query = "import sys; print(sys.prefix)"
    prefix = subprocess.run([python, "-c", query], capture_output=True, text=True, check=True).stdout.strip()
    library = Path(prefix) / "lib" / "libintelocl.so"
    if not library.exists():
        return f"{library} is missing: pip install pyopencl intel-opencl-rt intel-cmplr-lib-rt"
    loader_path = os.pathsep.join(filter(None, [str(library.parent), os.environ.get("LD_LIBRARY_PATH", "")]))
    return opencl_contender(
        "intel",
        "Intel OpenCL",
        python,
        library,
        folder,
        LD_LIBRARY_PATH=loader_path,
        CL_CONFIG_CPU_FORCE_NUM_THREADS="1",
    )


def pocl_contender(python: str, folder: Path) -> Contender | str:
    """PoCL as the system's packages install it, or why it is missing."""
    listing = subprocess.run(
        [shutil.which("ldconfig") or "/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False
    )
    for line in listing.stdout.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if arrow and name.startswith("libpocl.so."):
            return opencl_contender(
                "pocl",
                "PoCL",
                python,
                Path(path),
                folder,
                POCL_MAX_PTHREAD_COUNT="1",
                POCL_CPU_MAX_CU_COUNT="1",
                POCL_CACHE_DIR=str(folder / "pocl-cache"),
            )
    return "libpocl is missing: apt-get install pocl-opencl-icd"
