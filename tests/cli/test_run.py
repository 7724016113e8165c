"""`cuttle run`: the program is passed through untouched; what cannot start is refused with one clear line."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuttle.abi.knobs import DEVICE, KNOBS
from cuttle.cli import environment, launch, program_kind
from cuttle.client import build

Script = Callable[..., str]


def elf(machine: int = 62, bits: int = 64, interpreter: bool = True) -> bytes:
    """The head of an ELF program: enough for everything that looks before it runs."""
    header = b"\x7fELF" + bytes([2 if bits == 64 else 1, 1, 1]) + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    return header + struct.pack("<IIQQQQQQ", 3 if interpreter else 1, 4, 0, 0, 0, 0, 0, 0)


def pe(machine: int) -> bytes:
    """The head of a Windows program."""
    return (b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<H", machine)).ljust(512, b"\0")


def executable(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_the_exit_code_is_the_programs(cuttle, script: Script, code: int) -> None:
    assert cuttle("run", "--", script(f"exit {code}")).returncode == code


def test_a_signal_is_the_programs(cuttle, script: Script) -> None:
    assert cuttle("run", "--", script("kill -TERM $$")).returncode == -signal.SIGTERM


def test_arguments_are_unharmed(cuttle, script: Script) -> None:
    arguments = ["--device", "a b", "", "--", "-h", "*", "ü", "a=b"]
    done = cuttle("run", "--", script('for a in "$@"; do echo "<$a>"; done'), *arguments)
    assert done.stdout.splitlines() == [f"<{argument}>" for argument in arguments]


def test_options_end_at_the_program(cuttle, script: Script) -> None:
    done = cuttle("run", "--threads", "3", script('echo "$CUTTLE_THREADS" "$1"'), "--threads=9")
    assert done.stdout == "3 --threads=9\n"


def test_nothing_is_added_to_the_output(cuttle, script: Script) -> None:
    done = cuttle("run", "--", script("echo out; echo err >&2"))
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_closed_streams_are_the_programs(script: Script) -> None:
    program = script("[ -e /proc/self/fd/1 ] || [ -e /proc/self/fd/2 ] || exit 7")
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&- 2>&-', "sh", sys.executable, "-m", "cuttle", "run", "--", program], check=False
    )
    assert done.returncode == 7


def test_standard_input_is_the_programs(cuttle) -> None:
    assert cuttle("run", "--", "cat", input="to the program").stdout == "to the program"


def test_the_program_finds_our_driver_first(cuttle) -> None:
    done = cuttle(
        "run", "--", "sh", "-c", 'echo "$LD_LIBRARY_PATH"; command -v nvidia-smi', env={"LD_LIBRARY_PATH": "/x"}
    )
    library_path, stand_in = done.stdout.splitlines()
    assert library_path.split(":") == [environment.LIBRARY_FOLDER, "/x"]
    assert stand_in == f"{environment.PROGRAM_FOLDER}/nvidia-smi"


def test_nested_runs_do_not_pile_up(cuttle) -> None:
    command = [sys.executable, "-m", "cuttle", "run", "--", "sh", "-c", 'echo "$LD_LIBRARY_PATH"']
    library_path = cuttle("run", "--", *command, env={"LD_LIBRARY_PATH": ""}).stdout.strip()
    assert library_path == environment.LIBRARY_FOLDER


def test_knobs_and_the_rest_of_the_environment(cuttle) -> None:
    done = cuttle("run", "--memory=2G", "--timeout", "1.5", "--", "env", env={"OTHER": "kept"})
    values = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert values["CUTTLE_MEMORY"] == "2G"
    assert values["CUTTLE_TIMEOUT"] == "1.5"
    assert values["CUTTLE_PYTHON"] == sys.executable
    assert values["OTHER"] == "kept"


def test_the_locale_is_not_changed(cuttle) -> None:
    clean = {name: "" for name in ("LANG", "LC_ALL")}
    variables = {name: value for name, value in os.environ.items() if name not in ("LC_CTYPE", "LC_ALL", "LANG")}
    done = subprocess.run(
        [sys.executable, "-m", "cuttle", "run", "--", "env"], env=variables, capture_output=True, text=True, check=True
    )
    assert "LC_CTYPE" not in done.stdout
    kept = cuttle("run", "--", "env", env={**clean, "LC_CTYPE": "C.UTF-8"})
    assert "LC_CTYPE=C.UTF-8" in kept.stdout


def test_a_closed_pipe_ends_the_program(script: Script) -> None:
    program = script("while :; do echo line; done")
    line = f"{sys.executable} -m cuttle run -- {program} | head -n 1"
    assert subprocess.run(line, shell=True, capture_output=True, text=True, timeout=30, check=True).stdout == "line\n"


def test_help_is_data(cuttle) -> None:
    done = cuttle("run", "--help")
    assert done.returncode == 0
    assert done.stderr == ""
    assert all(option in done.stdout for option in launch.KNOB_OPTIONS)


def refusal(done: subprocess.CompletedProcess[str], exit_code: int, code: str) -> str:
    assert done.stdout == ""
    assert done.returncode == exit_code
    assert done.stderr.startswith(f"error[{code}]: ")
    return done.stderr


def test_a_missing_program(cuttle) -> None:
    refusal(cuttle("run", "--", "./no-such-program"), 127, "CLI-0301")
    refusal(cuttle("run", "--", "no-such-program-on-path"), 127, "CLI-0301")


def test_a_program_in_the_current_folder_is_hinted_at(cuttle, script: Script, tmp_path: Path) -> None:
    script("true", "mine")
    assert "hint: A file of this name is in the current folder: ./mine" in cuttle("run", "mine", cwd=tmp_path).stderr


def test_what_cannot_be_executed(cuttle, tmp_path: Path) -> None:
    refusal(cuttle("run", "--", str(tmp_path)), 126, "CLI-0302")
    (tmp_path / "data").write_text("data")
    refusal(cuttle("run", "--", str(tmp_path / "data")), 126, "CLI-0302")
    refusal(cuttle("run", "--", executable(tmp_path / "garbage", b"no program")), 126, "CLI-0303")
    refusal(cuttle("run", "--", executable(tmp_path / "lost", b"#!/no/such/interpreter\n")), 126, "CLI-0303")


def test_programs_of_other_platforms(cuttle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal(cuttle("run", "--", executable(tmp_path / "arm", elf(183))), 126, "CLI-0305")
    refusal(cuttle("run", "--", executable(tmp_path / "arm.exe", pe(0xAA64))), 126, "CLI-0305")
    small = executable(tmp_path / "small", elf(3, 32))
    monkeypatch.setattr(program_kind, "LOADER_32", str(tmp_path / "no-loader"))
    with pytest.raises(launch.Refusal, match="no loader"):
        launch.check_program(small)
    monkeypatch.setattr(program_kind, "LOADER_32", small)
    assert launch.check_program(small) == ""


def test_windows_programs_need_wine(cuttle, tmp_path: Path) -> None:
    program = tmp_path / "program.exe"  # without the mark of executable files, as they come
    program.write_bytes(pe(0x8664))
    text = refusal(cuttle("run", "--", str(program), env={"PATH": str(tmp_path)}), 126, "CLI-0307")
    assert "apt-get install wine" in text


@pytest.mark.parametrize(
    ("head", "kind"),
    (
        (b"", ""),
        (b"#!/bin/sh\n", ""),
        (b"MZ" + bytes(62), ""),
        (b"MZ" + bytes(58) + b"\xff\xff\xff\xff" + bytes(64), ""),
        (b"\x7fELF", ""),
    ),
)
def test_files_that_are_no_programs(head: bytes, kind: str) -> None:
    assert program_kind.kind_of(head) == kind


def test_kinds_of_programs() -> None:
    assert [program_kind.kind_of(head) for head in (elf(), elf(3, 32), pe(0x8664), pe(0x14C), pe(0x1C4))] == [
        "linux-x86_64",
        "linux-i386",
        "windows-x86_64",
        "windows-i386",
        "other 452",
    ]


def test_names_of_client_libraries_agree() -> None:
    assert {name: path for name, path in program_kind.LIBRARIES.items() if name != program_kind.NATIVE} == {
        name: path for name, (path, _) in build.OTHER_CLIENTS.items()
    }


def test_dlls_come_first_on_the_path_of_windows_programs() -> None:
    own = program_kind.variables("windows-i386", {})["WINEPATH"].split(";")
    assert [entry.rsplit("\\", 1)[1] for entry in own] == ["windows-x86_64", "windows-i386"]
    assert all(entry.startswith("\\\\?\\unix\\") for entry in own)
    again = program_kind.variables("windows-x86_64", {"WINEPATH": ";".join(["C:\\tools", *own])})
    assert again["WINEPATH"].split(";") == [*own, "C:\\tools"]


def test_a_static_program_is_remarked_upon(tmp_path: Path) -> None:
    assert "no CUDA driver" in launch.check_program(executable(tmp_path / "static", elf(interpreter=False)))
    assert launch.check_program(executable(tmp_path / "dynamic", elf())) == ""


def test_raised_privileges_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "raised"
    executable(path, elf())
    path.chmod(0o4755)
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(launch.Refusal) as caught:
        launch.check_program(str(path))
    assert caught.value.code == "CLI-0306"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--no-such-option", "--", "true"], "CLI-0101"),
        (["--threads"], "CLI-0102"),
        (["--threads", "--", "true"], "CLI-0102"),
        ([], "CLI-0103"),
        (["--"], "CLI-0103"),
        (["--threads", "many", "true"], "CLI-0104"),
        (["--memory=lots", "true"], "CLI-0104"),
        (["--device", "tpu", "true"], "CLI-0104"),
    ],
)
def test_wrong_usage(cuttle, arguments: list[str], code: str) -> None:
    assert "hint: " in refusal(cuttle("run", *arguments), 125, code)


@pytest.mark.parametrize(("platform", "machine"), [("darwin", "arm64"), ("win32", "AMD64"), ("linux", "aarch64")])
def test_other_platforms_are_refused(monkeypatch: pytest.MonkeyPatch, capsys, platform: str, machine: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("", "", "", "", machine)))
    assert launch.main(["--", "true"]) == 125
    assert capsys.readouterr().err.startswith("error[CLI-0201]: Cuttle runs programs on Linux on x86-64")


def test_every_option_sets_a_knob_that_exists() -> None:
    flags = {name for name in launch.FLAGS.values() if name.startswith("CUTTLE_")}
    assert {*launch.KNOB_OPTIONS.values(), *flags} <= {knob.name for knob in KNOBS}


def test_the_help_page_names_every_device() -> None:
    assert all(name in launch.HELP for name in DEVICE.choices)
