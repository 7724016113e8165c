"""Windows programs under Wine, with the Linux device process behind them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cuttle.abi.cuda import FUNCTIONS
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


@pytest.fixture(scope="module")
def launch(run: Run, wine: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """`cuttle run` with the program in a folder without the DLL, whose name has a space and an umlaut."""
    folder = tmp_path_factory.mktemp("bare") / "Programm für CUDA"
    folder.mkdir()
    program = built_program(folder, CLIENT)
    program.chmod(0o644)

    def start(*arguments: str, program: str = str(program)) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cuttle", "run", "--threads", "2", "--", program, *arguments]
        # The program prints in its code page.
        return subprocess.run(command, env=wine, capture_output=True, encoding="latin-1", timeout=300)

    start.folder = folder  # type: ignore[attr-defined]
    return start


def test_launcher(launch: Run) -> None:
    folder = launch.folder  # type: ignore[attr-defined]
    before = sorted(folder.iterdir())
    done = launch("launches")
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[-1] == "all right"
    assert sorted(folder.iterdir()) == before  # nothing was put beside the program


def test_exit_code_and_arguments_pass_unharmed(launch: Run) -> None:
    arguments = ["plain", "two words", 'a "quote"', "back\\slash\\", 'both \\" of them\\\\', "", "--threads", "echo"]
    done = launch(*arguments)
    assert done.returncode == 37, done
    line = done.stdout.rstrip("\n")
    assert line.endswith(subprocess.list2cmdline(arguments)), line


def test_child_processes_find_the_driver(launch: Run, wine: dict[str, str]) -> None:
    shell = Path(wine["WINEPREFIX"], "drive_c/windows/system32/cmd.exe")
    child = "Z:" + str(launch.folder / "program.exe").replace("/", "\\")  # type: ignore[attr-defined]
    done = launch("/c", child, "launches", program=str(shell))
    assert done.returncode == 0, done
    assert "ok 2000 launches" in done.stdout


def test_a_setting_that_is_refused(run: Run) -> None:
    """The device process refuses before it says ready: cuInit answers CUDA_ERROR_INVALID_VALUE."""
    done = run(CUTTLE_COMPUTE_CAPABILITY="many")
    assert done.returncode == 2, done
    assert done.stdout == "failed cuInit 1\n"


@pytest.mark.slow  # the client waits for 30 s: under Wine it cannot see that the interpreter did not start
def test_an_interpreter_that_is_not_there(run: Run) -> None:
    done = run(CUTTLE_PYTHON="/no/such/python")
    assert (done.returncode, done.stdout) == (2, "failed cuInit 304\n"), done
    assert "the device process did not start" in done.stderr
    assert "hint: CUTTLE_PYTHON" in done.stderr


def test_all_checks_on_32_bits(wine32: dict[str, str], tmp_path: Path) -> None:
    client = "windows-i386"
    build.build(others=[client])
    program = built_program(tmp_path, client)
    shutil.copy(build.LIB / build.OTHER_CLIENTS[client][0], tmp_path)
    command = [wine32["WINELOADER"], str(program)]
    done = subprocess.run(command, env=wine32, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert [line.removeprefix("ok ") for line in lines if line.startswith("ok ")] == list(NAMES_32), done
    assert lines[-1] == "all right"
    assert done.returncode == 0


def test_dlls_need_kernel32_alone(run: Run) -> None:
    """No C runtime; exports have the names of NVIDIA's, undecorated also on 32 bits."""
    build.build(others=["windows-i386"])
    rows = {name.encode() for row in FUNCTIONS for name in (row.name, row.name + row.per_thread)}
    for client in ("windows-x86_64", "windows-i386"):
        data = (build.LIB / build.OTHER_CLIENTS[client][0]).read_bytes()
        names = set(re.findall(rb"[\w.]+\.dll", data, re.I))
        # Winsock and the random numbers are looked up by cuInit.
        assert {name.lower() for name in names} == {
            b"kernel32.dll", b"nvcuda.dll", b"ntdll.dll", b"ws2_32.dll", b"advapi32.dll",
        }  # fmt: skip
        assert all(b"\0" + name + b"\0" in data for name in rows)
