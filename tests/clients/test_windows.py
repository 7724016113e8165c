"""Windows programs under Wine, with the Linux device process behind them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from cuttle.client import build
from tests.clients.conftest import Run, built_program
from tests.clients.test_linux_i386 import NAMES as NAMES_32

CLIENT = "windows-x86_64"
NAMES = tuple(
    "tables of 32-bit programs" if name == "heap table" else name for name in NAMES_32 if name != "context table"
)


@pytest.fixture(scope="module")
def run(wine: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    build.build(others=[CLIENT])
    folder = tmp_path_factory.mktemp("program")
    program = built_program(folder, CLIENT)
    shutil.copy(build.LIB / build.OTHER_CLIENTS[CLIENT][0], folder)

    def start(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["wine", str(program), *arguments], env={**wine, **more}, capture_output=True, text=True, timeout=300
        )

    return start


def test_all_checks(run: Run) -> None:
    done = run()
    lines = done.stdout.splitlines()
    assert [line.removeprefix("ok ") for line in lines if line.startswith("ok ")] == list(NAMES), done
    assert lines[-1] == "all right"
    assert "thread 0thread 1" in done.stdout
    assert done.returncode == 0


def test_wild_store_is_the_devices_fault(run: Run) -> None:
    done = run("fault")
    assert done.returncode == 0, done
    assert "ok a wild store" in done.stdout


def test_a_setting_that_is_refused(run: Run) -> None:
    """The device process refuses before it says ready: cuInit answers CUDA_ERROR_INVALID_VALUE."""
    done = run(CUTTLE_COMPUTE_CAPABILITY="many")
    assert done.returncode == 2, done
    assert done.stdout == "failed cuInit 1\n"
