"""32-bit programs on Linux."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cuttle.client import build
from tests.clients.conftest import Run, built_program, device_environment

CLIENT = "linux-i386"
NAMES = (
    "start", "2000 launches", "module variable, packed parameters", "launches as in CUDA 2", "generic addresses of shared and local memory",
    "pinned memory", "copies with a pitch", "events and host functions", "a handle of the wrong kind",
    "threads have contexts of their own", "cuGetProcAddress", "heap table", "context table", "functions that are not there",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    if not Path("/lib/ld-linux.so.2").exists():
        pytest.skip("32-bit programs cannot be loaded: apt-get install libc6-i386")
    build.build(others=[CLIENT])
    program = built_program(tmp_path_factory.mktemp("program"), CLIENT)
    library = (build.LIB / build.OTHER_CLIENTS[CLIENT][0]).parent
    environment = {**device_environment(), "LD_LIBRARY_PATH": str(library)}

    def start(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(program), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    return start


def test_all_checks(run: Run) -> None:
    done = run()
    lines = done.stdout.splitlines()
    assert [line.removeprefix("ok ") for line in lines if line.startswith("ok ")] == list(NAMES), done
    assert lines[-1] in ("all right", "thread 0thread 1")
    assert "thread 0thread 1" in done.stdout
    assert done.returncode == 0


def test_wild_store_is_the_devices_fault(run: Run) -> None:
    done = run("fault")
    assert done.returncode == 0, done
    assert "ok a wild store" in done.stdout
    assert "illegal address: kernel wild" in done.stderr


def test_little_room(run: Run) -> None:
    """A smaller window is taken where the address space is crowded; the device is smaller then."""
    done = run("crowded")
    assert done.returncode == 0, done
    assert "ok context table" in done.stdout


def test_launcher(run: Run, tmp_path: Path) -> None:
    program = built_program(tmp_path, CLIENT)
    command = [sys.executable, "-m", "cuttle", "run", "--", str(program), "launches"]
    done = subprocess.run(command, env=device_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    assert "ok 2000 launches" in done.stdout
