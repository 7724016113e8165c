"""`cuttle stack run` and `stage` as a person types them, and the variables that engines get."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuttle.cli.stack import engines
from cuttle.errors import StackError
from cuttle.stack import launch
from cuttle.stack.engine import EngineInPlace, configuration, insisting_variables, run_variables, zluda_in_place
from cuttle.stack.install import install_asset
from cuttle.stack.journal import Root
from cuttle.stack.runtime_config import CONFIG_NAME, ConfigGpu, RuntimeConfig, write_config
from tests.stack.release_server import PATIENCE, ReleaseServer

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"


@pytest.fixture
def zluda(server: ReleaseServer, tmp_path: Path) -> Root:
    """An installation with a release of the test's own."""
    root = Root(tmp_path / "root with space")
    with root.locked():
        install_asset(root, server.asset(platform="linux"), patience=PATIENCE)
    config = RuntimeConfig(
        gpu=ConfigGpu(name="AMD Radeon RX 9070 XT", arch="gfx1201", index=1, hip_visible_device="1"),
        hip_root="/opt/rocm",
    )
    write_config(root.path / CONFIG_NAME, config)
    return root


def shown(done: subprocess.CompletedProcess[str]) -> tuple[list[str], dict[str, str]]:
    assert done.returncode == 0, done.stderr
    arguments, environment = json.loads(done.stdout)
    return arguments, environment


def test_arguments_arrive_unharmed(cuttle) -> None:
    awkward = [
        "",
        "a b",
        "--json",
        "-h",
        "--",
        "--engine",
        "zluda",
        "*",
        "$HOME",
        '"',
        "\\",
        "ü漢",
        "a\nb",
        "--no-such-option=3",
    ]
    arguments, _ = shown(cuttle("stack", "run", "--engine", "cuttle", "--", sys.executable, "-c", SHOW, *awkward))
    assert arguments == awkward
    arguments, _ = shown(cuttle("stack", "run", "--engine", "cuttle", sys.executable, "-c", SHOW, "--", "-x"))
    assert arguments == ["--", "-x"]


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_the_exit_code(cuttle, script: Callable[[str], str], code: int) -> None:
    done = cuttle("stack", "run", "--engine", "cuttle", "--", script(f"echo out; echo err >&2; exit {code}"))
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "err\n")


def test_a_program_that_dies_of_a_signal(cuttle, script: Callable[[str], str]) -> None:
    assert cuttle("stack", "run", "--engine", "cuttle", "--", script("kill -TERM $$")).returncode == -signal.SIGTERM


def test_programs_that_cannot_be_run(cuttle, tmp_path: Path) -> None:
    missing = cuttle("stack", "run", "--engine", "cuttle", "--", str(tmp_path / "missing"))
    assert (missing.returncode, missing.stdout) == (127, "")
    assert "error[STK-0601]" in missing.stderr
    text = tmp_path / "text"
    text.write_text("no program")
    assert cuttle("stack", "run", "--engine", "cuttle", "--", str(text)).returncode == 126
    text.chmod(0o755)
    unreadable = cuttle("stack", "run", "--engine", "cuttle", "--", str(text))
    assert (unreadable.returncode, "error[STK-0604]" in unreadable.stderr) == (126, True)
    absent = cuttle("stack", "run", "--engine", "zluda", "--root", str(tmp_path), "--", "true")
    assert absent.returncode == 125
    assert "error[STK-0405]" in absent.stderr
    assert cuttle("stack", "run").returncode == 2


def test_cuttle_is_the_engine_where_nothing_is_installed(cuttle, tmp_path: Path) -> None:
    program = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    done = cuttle("stack", "run", "--root", str(tmp_path), "--", sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_variables_of_zluda(cuttle, zluda: Root) -> None:
    arguments, environment = shown(
        cuttle(
            "stack",
            "run",
            "--engine",
            "zluda",
            "--root",
            str(zluda.path),
            "--",
            sys.executable,
            "-c",
            SHOW,
            env={"LD_LIBRARY_PATH": "/mine"},
        )
    )
    assert environment["LD_LIBRARY_PATH"] == f"{zluda.path}/zluda-v6-preview.69/zluda:/opt/rocm/lib:/mine"
    assert environment["ZLUDA_CC"] == "8.6"
    assert environment["HIP_PATH"] == "/opt/rocm"
    assert environment["HIP_VISIBLE_DEVICES"] == "1"
    assert environment["ROCBLAS_TENSILE_LIBPATH"] == "/opt/rocm/lib/rocblas/library"
    assert environment["TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"] == "1"
    assert environment["TORCH_CUDNN_V8_API_DISABLED"] == "1"


def test_what_the_user_has_set_stays(cuttle, zluda: Root) -> None:
    mine = {"ZLUDA_CC": "7.5", "HIP_VISIBLE_DEVICES": "0"}
    done = cuttle(
        "stack", "run", "--engine", "zluda", "--root", str(zluda.path), "--", sys.executable, "-c", SHOW, env=mine
    )
    _, environment = shown(done)
    assert {name: environment[name] for name in mine} == mine


def test_the_library_of_the_engine_is_the_one_that_is_found(cuttle, zluda: Root) -> None:
    """The test's release has text for a library: the loader names the file it tried."""
    program = "import ctypes\ntry: ctypes.CDLL('libcuda.so.1')\nexcept OSError as error: print(error)"
    done = cuttle("stack", "run", "--engine", "zluda", "--root", str(zluda.path), "--", sys.executable, "-c", program)
    assert done.stdout.startswith(f"{zluda.path}/zluda-v6-preview.69/zluda/libcuda.so.1: ")


def test_stage_run_unstage(cuttle, zluda: Root, tmp_path: Path) -> None:
    folder = tmp_path / "mit Leerzeichen ü"
    folder.mkdir()
    program = folder / "program"
    program.write_text("#!/bin/sh\nls -A\n")
    program.chmod(0o755)
    root = ("--root", str(zluda.path))
    staged = json.loads(cuttle("stack", "stage", str(program), "--engine", "zluda", *root, "--json").stdout)
    assert staged["data"]["placed"] == ["libcuda.so.1"]
    assert cuttle("stack", "run", "--stage", "--engine", "zluda", *root, "--", str(program)).returncode == 0
    assert (folder / "libcuda.so.1").read_bytes() == b"linux"
    other = cuttle("stack", "stage", str(folder), "--engine", "cuttle", *root)
    assert other.returncode == 1
    assert "error[STK-0506]" in other.stderr
    assert cuttle("stack", "unstage", str(program)).returncode == 0
    assert [path.name for path in folder.iterdir()] == ["program"]


def test_unstage_names_what_was_changed(cuttle, zluda: Root, tmp_path: Path) -> None:
    cuttle("stack", "stage", str(tmp_path), "--engine", "zluda", "--root", str(zluda.path))
    (tmp_path / "libcuda.so.1").write_text("changed")
    done = cuttle("stack", "unstage", str(tmp_path))
    assert done.returncode == 1
    assert "error[STK-0504]: libcuda.so.1 was changed" in done.stderr


def test_an_installation_of_the_scripts(tmp_path: Path) -> None:
    """A folder that setup.ps1 made: its configuration names the engine."""
    (tmp_path / "zluda-core").mkdir()
    (tmp_path / "zluda-core/nvcuda.dll").touch()
    config = RuntimeConfig(zluda_root=str(tmp_path / "zluda-core"), upstream={"zluda_release": "v6-preview.69"})
    write_config(tmp_path / CONFIG_NAME, config)
    engine = zluda_in_place(Root(tmp_path), "windows")
    assert (engine.version, [path.name for path in engine.files()]) == ("v6-preview.69", ["nvcuda.dll"])
    with pytest.raises(StackError) as caught:
        zluda_in_place(Root(tmp_path / "elsewhere"))
    assert caught.value.code == "STK-0405"
    assert configuration(Root(tmp_path / "elsewhere")) is None


def test_variables_on_windows(tmp_path: Path) -> None:
    """Names of variables have no case there; the list is separated by semicolons; the program's own folder comes first."""
    engine = EngineInPlace("zluda", "v6", "windows", Path("C:/stack/zluda"))
    config = RuntimeConfig(hip_root="C:/ROCm/6.4", libtorch_root="C:/libtorch", gpu=ConfigGpu(hip_visible_device="1"))
    added = run_variables(engine, config, {"Path": "C:\\Windows;C:/stack/zluda"}, Path("C:/app"))
    assert added["PATH"].split(";") == [
        "C:/app",
        "C:/stack/zluda",
        os.path.join("C:/ROCm/6.4", "bin"),
        os.path.join("C:/libtorch", "lib"),
        os.path.join("C:/libtorch", "bin"),
        "C:\\Windows",
    ]
    assert added["HIPBLASLT_TENSILE_LIBPATH"] == os.path.join("C:/ROCm/6.4", "bin", "hipblaslt", "library")
    assert "LD_LIBRARY_PATH" not in added


def test_empty_entries_of_a_search_path_stay(tmp_path: Path) -> None:
    """They mean the current folder."""
    engine = EngineInPlace("zluda", "v6", "linux", tmp_path)
    assert run_variables(engine, None, {"LD_LIBRARY_PATH": ":/mine:"}, None)["LD_LIBRARY_PATH"] == f"{tmp_path}::/mine:"
    assert run_variables(engine, None, {"LD_LIBRARY_PATH": ""}, None)["LD_LIBRARY_PATH"] == str(tmp_path)


def test_hipblaslt_with_a_folder_for_each_target(tmp_path: Path) -> None:
    (tmp_path / "lib/hipblaslt/library/gfx1201").mkdir(parents=True)
    config = RuntimeConfig(hip_root=str(tmp_path), gpu=ConfigGpu(arch="gfx1201"))
    engine = EngineInPlace("zluda", "v6", "linux", tmp_path)
    assert run_variables(engine, config, {}, None)["HIPBLASLT_TENSILE_LIBPATH"].endswith("library/gfx1201")
    config = RuntimeConfig(hip_root=str(tmp_path), gpu=ConfigGpu(arch="gfx1100"))
    assert run_variables(engine, config, {}, None)["HIPBLASLT_TENSILE_LIBPATH"].endswith("hipblaslt/library")


def test_waiting_for_a_program_as_on_windows(script: Callable[[str], str]) -> None:
    """The way of Windows, with this system's processes: one string for a command line, and the exit code of the end."""
    assert launch._run_windows(Path(script("exit 42")), ["a b"], dict(os.environ)) == 42
    with pytest.raises(StackError) as caught:
        launch._run_windows(Path("/nonexistent/program"), [], {})
    assert caught.value.code == "STK-0604"


def test_the_device_of_cuttle(cuttle, zluda: Root) -> None:
    program = "import os; print(os.environ.get('CUTTLE_DEVICE'))"
    ours = ("stack", "run", "--engine", "cuttle")
    assert cuttle(*ours, "--device", "hip:1", "--", sys.executable, "-c", program).stdout == "hip:1\n"
    assert cuttle(*ours, "--", sys.executable, "-c", program).stdout == "None\n"
    done = cuttle("stack", "run", "--engine", "zluda", "--root", str(zluda.path), "--device", "hip", "--", "true")
    assert (done.returncode, "error[STK-0603]" in done.stderr) == (125, True)


def portable_executable(machine: int) -> bytes:
    """The head of a Windows program."""
    head = bytearray(0x80)
    head[:2] = b"MZ"
    head[0x3C] = 0x80
    return bytes(head) + b"PE\0\0" + machine.to_bytes(2, "little") + bytes(100)


def test_libraries_for_the_kind_of_program(tmp_path: Path) -> None:
    """A Windows program on Linux is one for Wine; 32-bit programs have a library of their own."""
    program = tmp_path / "program.exe"
    for content, folder in (
        (portable_executable(0x8664), "windows-x86_64"),
        (portable_executable(0x014C), "windows-i386"),
        (b"MZ", "windows-x86_64"),
        (b"\x7fELF", ""),
        (b"", ""),
    ):
        program.write_bytes(content)
        assert engines.windows_folder(program) == folder
        place = engines.cuttle_in_place({}, program=program)
        assert (place.platform, place.folder.name) == (("windows", folder) if folder else ("linux", "lib"))
    assert engines.windows_folder(tmp_path) == engines.windows_folder(None) == ""


def test_insisting(cuttle, zluda: Root) -> None:
    """A program with a DT_RPATH of its own: ZLUDA's audit module where the release has one, else the driver preloaded."""
    engine = zluda_in_place(zluda, "linux")
    assert insisting_variables(engine, {"LD_PRELOAD": "/mine.so"}) == {
        "LD_PRELOAD": f"{engine.folder}/libcuda.so.1:/mine.so"
    }
    (engine.folder / "zluda_ld").touch()
    assert insisting_variables(engine, {}) == {"LD_AUDIT": f"{engine.folder}/zluda_ld"}
    with pytest.raises(StackError) as caught:
        insisting_variables(EngineInPlace("zluda", "v6", "windows", engine.folder), {})
    assert caught.value.code == "STK-0603"
    program = "import os; print(os.environ['LD_PRELOAD'])"
    done = cuttle("stack", "run", "--insist", "--engine", "cuttle", "--", sys.executable, "-c", program)
    assert done.stdout.endswith("/client/lib/libcuda.so.1\n")


def test_the_launcher_of_the_engine(tmp_path: Path) -> None:
    """It does not quote: what would be torn apart is refused, everything else arrives as it is."""
    tool = tmp_path / "zluda.exe"
    with pytest.raises(StackError) as caught:
        launch.launcher_arguments(tool, Path("program.exe"), [])
    assert caught.value.code == "STK-0603"
    tool.touch()
    assert launch.launcher_arguments(tool, Path("program.exe"), ["--a=1", "C:\\x\\"]) == [
        "--",
        "program.exe",
        "--a=1",
        "C:\\x\\",
    ]
    for program, arguments in (
        ("my program.exe", []),
        ("p.exe", ["a b"]),
        ("p.exe", [""]),
        ("p.exe", ['say "hi"']),
        ("p.exe", ["a\tb"]),
    ):
        with pytest.raises(StackError) as caught:
            launch.launcher_arguments(tool, Path(program), arguments)
        assert caught.value.code == "STK-0602"
