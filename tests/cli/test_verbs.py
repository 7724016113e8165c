"""The verbs that need no device: envelopes, formats, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cuttle import __version__, errors
from cuttle.abi.errors import ERRORS
from cuttle.cli import env, probe, render
from cuttle.cli.command_line import VERBS
from cuttle.cli.result import Problem, Remark, Result, Table, Text
from cuttle.errors import CuttleError, Where

JULIA = Path(render.__file__).parent / "julia.ptx"


def envelope(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(done.stdout)
    assert set(document) == {"schema", "command", "status", "exit_code", "data", "errors"}
    assert document["schema"] == "cuttle/1"
    assert document["exit_code"] == done.returncode
    assert all(set(error) == {"code", "message", "hint", "where"} for error in document["errors"])
    return document


def test_version(cuttle) -> None:
    assert cuttle("--version").stdout == f"cuttle {__version__}\n"


def test_the_overview_names_every_verb(cuttle) -> None:
    text = cuttle("--help").stdout
    assert all(f"  {name} " in text for name in VERBS)


@pytest.mark.parametrize("name", [name for name in VERBS if name != "run"])
def test_every_verb_has_help_and_the_common_options(cuttle, name: str) -> None:
    done = cuttle(name, "--help")
    assert done.returncode == 0
    if name not in ("cache", "stack"):
        assert all(option in done.stdout for option in ("--json", "--quiet", "--verbose", "--color"))


def test_help_breaks_no_path(cuttle) -> None:
    """Somebody will copy it."""
    for name in VERBS:
        text = cuttle(name, "--help").stdout
        assert not re.search(r"[a-z/]-\n", text) and "--help" in text


def test_wrong_usage_is_exit_code_2(cuttle) -> None:
    done = cuttle("info", "--no-such-option")
    assert done.returncode == 2
    assert done.stderr.startswith("error[CLI-0001]: ")
    assert envelope(cuttle("info", "--no-such-option", "--json"))["status"] == "error"


def test_explain(cuttle) -> None:
    assert "undeclared register" in cuttle("explain", "ptx-0201").stdout
    assert "worker threads" in cuttle("explain", "CUTTLE_THREADS").stdout
    done = cuttle("explain", "PTX-9999")
    assert done.returncode == 1
    assert done.stderr.startswith("error[CLI-0002]: ")
    assert envelope(cuttle("explain", "--json"))["data"]["errors"][0]["code"] == ERRORS[0].code


def test_error_codes_are_unique() -> None:
    codes = [row.code for row in ERRORS]
    assert len(codes) == len(set(codes))


def test_env_for_a_shell_extends_lists(cuttle) -> None:
    text = cuttle("env", "--format", "sh").stdout
    script = f'LD_LIBRARY_PATH=/mine; {text}\necho "$LD_LIBRARY_PATH"; command -v nvidia-smi'
    lines = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0].endswith("/client/lib:/mine")
    assert lines[1].endswith("/client/bin/nvidia-smi")


def test_env_as_json(cuttle) -> None:
    plain = json.loads(cuttle("env", "--format", "json").stdout)
    assert plain == envelope(cuttle("env", "--json"))["data"]["variables"]
    assert set(plain) == {"CUTTLE_PYTHON", "LD_LIBRARY_PATH", "PATH"}


def test_env_formats() -> None:
    variables = {"CUTTLE_PYTHON": "/it's/python", "PATH": "/bin/a"}
    assert env.as_sh(variables) == "export CUTTLE_PYTHON='/it'\\''s/python'\nexport PATH='/bin/a'\"${PATH:+:$PATH}\"\n"
    assert env.as_fish(variables) == "set -gx CUTTLE_PYTHON '/it\\'s/python'\nset -gx --path PATH '/bin/a' $PATH\n"
    assert env.as_docker({"PATH": "/bin/a"}) == 'ENV PATH="/bin/a${PATH:+:$PATH}"\n'
    assert env.as_github({"PATH": "/bin/a"}) == "echo '/bin/a' >> \"$GITHUB_PATH\"\n"


def test_scan_of_ptx(cuttle) -> None:
    done = cuttle("scan", str(JULIA), "--json")
    file = envelope(done)["data"]["files"][0]
    assert file["kernels"] == ["draw"]
    assert file["verdict"] == "runs", file["unsupported"]


def test_scan_of_nothing(cuttle, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing to see")
    done = cuttle("scan", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "")
    missing = cuttle("scan", str(tmp_path / "missing"))
    assert missing.returncode == 1
    assert missing.stderr.startswith("error[CLI-0501]: ")


def test_scan_of_damage(cuttle, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.ptx"
    damaged.write_bytes(JULIA.read_bytes()[:3000])
    assert cuttle("scan", str(damaged)).returncode == 1


@pytest.mark.parametrize("form", ["ptx", "ir"])
def test_compile_shows_the_front_end(cuttle, form: str) -> None:
    done = cuttle("compile", str(JULIA), "--kernel", "draw", "--emit", form)
    assert done.returncode == 0, done.stderr
    assert "mul.wide.u32" in done.stdout


@pytest.mark.parametrize(("stage", "text"), [("llvm", "define"), ("asm", "ret"), ("image", '"block_shape"')])
def test_compile_shows_the_back_end(cuttle, tmp_path: Path, stage: str, text: str) -> None:
    file = tmp_path / "probe.ptx"
    file.write_bytes(probe.KERNEL)
    done = cuttle("compile", str(file), "--emit", stage, "--block-shape", "64")
    assert done.returncode == 0, done.stderr
    assert text in done.stdout
    assert cuttle("compile", str(file), "--block-shape", "64,64").stderr.startswith("error[CLI-0503]: ")


def test_compile_refuses_kernels_that_do_not_exist(cuttle) -> None:
    done = cuttle("compile", str(JULIA), "--kernel", "nothing")
    assert done.returncode == 1
    assert "draw" in done.stderr


def test_compile_shows_where_ptx_is_wrong(cuttle, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.ptx"
    wrong.write_text(".version 7.0\n.target sm_52\n.address_size 64\n.visible .entry k()\n{\n  add.u32 %a, %b, 1;\n}\n")
    done = cuttle("compile", str(wrong), "--emit", "ptx")
    assert done.returncode == 1
    assert f"{wrong}:6" in done.stderr


def test_cache(cuttle, tmp_path: Path) -> None:
    empty = envelope(cuttle("cache", "size", "--json"))["data"]
    assert empty["entries"] == 0
    assert cuttle("cache", "clear").returncode == 0
    assert cuttle("cache", "prune").returncode == 0


def test_knobs_with_impossible_values_are_named(cuttle) -> None:
    done = cuttle("cache", env={"CUTTLE_CACHE_BYTES": "much"})
    assert done.returncode == 2
    assert done.stderr.startswith("error[CLI-0104]: CUTTLE_CACHE_BYTES=much")


def test_plain_tables_are_aligned() -> None:
    text = render.plain_table(("a", "number"), [("x", "1"), ("long", "12345678")], frozenset({"number"}))
    assert text == "a       number\nx            1\nlong  12345678\n"


def test_the_envelope_of_a_failure() -> None:
    document = Result("scan", None, errors=[Problem("X", "m")], exit_code=1).envelope()
    assert (document["status"], document["errors"][0]["message"]) == ("error", "m")


BAD = "k\x1b[2J\x9b5m\x07\r\u202e\udcff\n"
GOOD = "k\\x1b[2J\\x9b5m\\x07\\r\\u202e\\udcff"


def test_nothing_from_files_acts_on_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernel names, file names, texts in databases: tables, remarks and problems; data only where it goes to a terminal."""
    assert errors.visible(BAD) == GOOD + "\n" and errors.visible("naïve\t→ 日本\n") == "naïve\t→ 日本\n"
    assert CuttleError("PTX-0201", BAD, Where(file=BAD), hint=BAD).render().count(GOOD) == 3
    blocks = [Table(("a", "b"), [(BAD, "x\ty")]), Remark(BAD)]
    render.show(Result("x", None, blocks, [Problem("X-1", BAD, BAD, BAD)]), render.Style(color="always"))
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split() == [GOOD + "\\n", "x", "y"]
    assert err.count(GOOD) == 4 and err.replace("\x1b[31m", "").replace("\x1b[36m", "").replace("\x1b[0m", "").isascii()
    assert "\x1b[2J" not in err
    render.show(Result("x", None, [Text("\x1b[2J\n")]), render.Style())
    assert capsys.readouterr()[0] == "\x1b[2J\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    render.show(Result("x", None, [Text(BAD)]), render.Style())
    assert capsys.readouterr()[0] == GOOD + "\n"


def test_names_in_ptx_and_files_are_shown_harmless(cuttle, tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31mb.ptx"
    path.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { \x1b[2J; }\n")
    for done in (cuttle("compile", str(path)), cuttle("scan", str(path)), cuttle("compile", str(path) + "\x1b[0m")):
        assert "\x1b" not in done.stdout + done.stderr and "\\x1b" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments", [("explain",), ("explain", "--json"), ("--help",), ("run", "--help"), ("doctor", "python")]
)
def test_output_that_cannot_be_written(cuttle, arguments: tuple[str, ...]) -> None:
    """A full disk: one error instead of a traceback. And a closed stdout: nobody wants to see it."""
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-m", "cuttle", *arguments]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert done.returncode == (125 if arguments[0] == "run" else 1)
    assert done.stderr.startswith("error[CLI-0603]: standard output: No space left on device")
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
    closed = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, env=environment, check=False
    )  # fmt: skip
    assert closed.returncode == 0 or arguments[0] == "run"
    assert "Traceback" not in closed.stderr
    headless = subprocess.run(
        ["/bin/bash", "-c", '"$@" | true; exit ${PIPESTATUS[0]}', "sh", *command], capture_output=True, text=True, env=environment, check=False
    )  # fmt: skip
    assert headless.returncode in (0, 141) and headless.stderr == ""


def test_compile_on_other_processors_and_into_files(cuttle, tmp_path: Path) -> None:
    for name in ("nosuch", "i386"):
        done = cuttle("compile", str(JULIA), "--cpu", name, "--emit", "asm")
        assert done.returncode == 2 and done.stderr.startswith(f"error[CLI-0504]: LLVM has no 64-bit processor {name}")
    assert "vmulps" in cuttle("compile", str(JULIA), "--cpu", "haswell", "--emit", "asm").stdout
    for path in ("/nowhere/out", "/dev/full"):
        done = cuttle("compile", str(JULIA), "--emit", "ptx", "-o", path)
        assert done.returncode == 1 and done.stderr.startswith(f"error[CLI-0602]: {path}: ")
    (tmp_path / "empty.ptx").write_text(".version 8.0\n.target sm_80\n.address_size 64\n")
    done = cuttle("compile", str(tmp_path / "empty.ptx"))
    assert (done.returncode, done.stdout) == (0, "") and done.stderr.endswith("empty.ptx has no kernels\n")


def test_unknown_fields_are_wrong_usage(cuttle) -> None:
    for query in ("name,nosuch", ","):
        done = cuttle("info", "--query", query)
        assert done.returncode == 2 and "error[CLI-0003]" in done.stderr and "multiprocessors" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor", "nosuch"), ("selftest", "--device", "nosuch"), ("sweep", "--device", "nosuch"), ("sweep", "--device", "rdna:gfx906"), ("sweep", "--shard", "4/3"),
        ("sweep", "--form", "("), ("stack", "bench", "nosuch"), ("stack", "bench", "--a", "nosuch"), ("stack", "probe", "nosuch"),
        ("stack", "check", "nosuch"), ("stack", "doctor", "nosuch"),
    ],
)  # fmt: skip
def test_names_of_nothing_are_wrong_usage(cuttle, arguments: tuple[str, ...]) -> None:
    done = cuttle(*arguments, "--json")
    assert done.returncode == 2 and done.stderr == ""
    document = envelope(done)
    assert document["status"] == "error" and document["errors"][0]["hint"]


def test_an_interrupt_at_any_moment(tmp_path: Path) -> None:
    for milliseconds in (30, 60, 120, 300):
        command = [
            sys.executable,
            "-c",
            "import sys; from cuttle.__main__ import main; sys.stdout.write('.'); sys.stdout.flush(); sys.exit(main())",
        ]
        process = subprocess.Popen(
            [*command, "scan", str(Path(sys.prefix) / "lib")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )  # fmt: skip
        assert process.stdout is not None and process.stdout.read(1) == "."
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (130, 0, 1, -signal.SIGINT) and "Traceback" not in errors, errors


@pytest.mark.parametrize("encoding", ["ascii", "latin-1:strict", "utf-8:strict"])
def test_encodings_and_file_names_that_are_no_text(encoding: str, tmp_path: Path) -> None:
    """Whatever the terminal's encoding lacks, and whatever a file is called."""
    folder = os.fsencode(tmp_path) + b"/\xff \xc3\xbc"
    os.mkdir(folder)
    file, output = folder + b"/j\xfe.ptx", folder + b"/out\xfd"
    with open(file, "wb") as copy:
        copy.write(JULIA.read_bytes())
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": encoding}

    def run(*arguments: str | bytes) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [sys.executable, "-m", "cuttle", *arguments], capture_output=True, env=environment, check=False
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
        return done

    done = run("compile", file, "--emit", "ptx", "-o", output)
    assert done.returncode == 0 and done.stdout == output + b"\n" and os.path.exists(output)
    assert b"runs" in run("scan", folder).stdout
    assert json.loads(run("scan", folder, "--json").stdout)["data"]["files"][0]["path"].endswith("j\\xfe.ptx")
    assert b"libcuda.so.1" in run("doctor", "library_path", "--program", sys.executable).stdout
    missing = json.loads(run("compile", file + b"x", "--json").stdout)
    assert missing["errors"][0]["code"] == "CLI-0501" and "j\\xfe.ptxx" in missing["errors"][0]["message"]
