"""Odd surroundings: programs do as they would in ordinary ones, or are told what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.conftest import Start

WORKS = "p = Program()\nsay(p.works())"


def passes(result: tuple[int, str, str], errors: str = "") -> None:
    assert result == (0, "True\n", errors)


@pytest.mark.parametrize(
    "env",
    [
        {"HOME": "unset", "XDG_CACHE_HOME": "unset"},
        {"HOME": "", "CUTTLE_CACHE_DIR": ""},
        {"LD_PRELOAD": "libpthread.so.0"},
        {"TMPDIR": "/nonexistent", "LANG": "unset", "PATH": "/nonexistent"},
        {"PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1", "PYTHONOPTIMIZE": "2", "PYTHONIOENCODING": "ascii"},
    ],
    ids=["no home", "empty home", "preload", "no path", "python settings"],
)
def test_environments(start: Start, env: dict[str, str]) -> None:
    run = start(WORKS, env=env)
    passes(run.end())
    run.assert_gone()


def test_python_variables_of_the_program(start: Start) -> None:
    """Set between `cuttle run` and the program, as a wrapper script of some other Python does."""
    run = start(
        """
libc = ctypes.CDLL(None)
for name in (b"PYTHONHOME", b"PYTHONSTARTUP", b"PYTHONINSPECT", b"PYTHONPLATLIBDIR"):
    libc.setenv(name, b"/nonexistent", 1)
libc.unsetenv(b"PYTHONPATH")
"""
        + WORKS
    )
    passes(run.end())
    run.assert_gone()


def test_places(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "with spaces and ü"
    folder.mkdir()
    program = folder / "the program"
    program.symlink_to(sys.executable)
    passes(start(command=[str(program), "-c", "from tests.robustness.program import *\n" + WORKS], cwd=folder).end())
    # A library of the name of one of ours in the working directory is not for us.
    (folder / "json.py").write_text("raise SystemExit('the wrong json')")
    passes(start(WORKS.replace("p =", "import sys; sys.path.pop(0)\np ="), cwd=folder, cache=folder / "cache").end())


def test_a_working_directory_that_is_gone(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    line = 'cd "$1" && rmdir "$1" && exec "$0" -c "$2"'
    text = "from tests.robustness.program import *\n" + WORKS
    passes(start(command=["sh", "-c", line, sys.executable, str(folder), text]).end())


@pytest.mark.parametrize("closed", ["0", "1", "2", "0 1 2"])
def test_closed_standard_streams(start: Start, closed: str, tmp_path: Path) -> None:
    redirections = " ".join(f"{number}>&-" for number in closed.split())
    text = f"from tests.robustness.program import *\np = Program()\nopen({str(tmp_path / 'out')!r}, 'w').write(str(p.works()))"
    run = start(
        command=["sh", "-c", f'exec "$0" -c "$1" {redirections}', sys.executable, text], env={"CUTTLE_CACHE": "0"}
    )
    assert run.end()[0] == 0
    assert (tmp_path / "out").read_text() == "True"
    run.assert_gone()


@pytest.mark.parametrize("broken", ["closed", "full"])
def test_nobody_reads_stderr(start: Start, broken: str) -> None:
    """The device process has something to say, and must not be held up or ended by that."""
    read, write = os.pipe()
    if broken == "closed":
        os.close(read)
    else:
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, bytes(4096))
        except BlockingIOError:
            os.set_blocking(write, True)
    text = f"from tests.robustness.program import *\nos.dup2({write}, 2)\np = Program()\nsay(p.launch('stub'), p.synchronize(), p.works())"
    run = start(command=[sys.executable, "-c", text], pass_fds=(write,))
    assert run.end()[:2] == (0, "218 0 True\n")
    run.assert_gone()
    os.close(write)


def test_forks(start: Start) -> None:
    run = start(
        """
import subprocess
if os.fork() == 0:  # before the first call: the child has a device of its own
    p = Program()
    os._exit(0 if p.works() else 1)
assert os.wait()[1] == 0
p = Program()
assert p.works()
child = os.fork()
if child == 0:
    os._exit(p.synchronize())
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
text = "from tests.robustness.program import *; p = Program(); sys.exit(not p.works())"
assert subprocess.run([sys.executable, "-c", text]).returncode == 0
say(p.works())
"""
    )
    passes(run.end())
    run.assert_gone()


def test_a_program_that_closes_descriptors(start: Start) -> None:
    run = start("os.closerange(3, 4096)\n" + WORKS)
    passes(run.end())
    run = start(
        """
p = Program()
p.works()
os.closerange(3, 4096)
files = [os.open("/dev/null", os.O_RDWR) for _ in range(40)]
time.sleep(0.5)
say(p.launch("good"), p.synchronize(), p.synchronize())
"""
    )
    code, out, errors = run.end(20)
    assert code == 0 and out.split()[1:] == ["802", "802"]
    assert errors.count("cuttle: ") == 1 and "closed a descriptor" in errors and "hint: " in errors
    run.assert_gone()


def test_a_program_with_signal_handlers_of_its_own(start: Start) -> None:
    passes(start("import faulthandler\nfaulthandler.enable()\n" + WORKS).end())


def test_the_library_is_loaded_and_let_go(start: Start) -> None:
    run = start(
        """
import _ctypes
libc = ctypes.CDLL(None)
for turn in range(3):
    p = Program()
    assert p.works()
    libc.sleep
    p.driver.cuLaunchHostFunc(ADDRESS(0), ctypes.cast(libc.getpid, ADDRESS), None)
    _ctypes.dlclose(p.driver.library._handle)
say(True)
"""
    )
    passes(run.end())
    run.assert_gone()


def test_two_at_once(start: Start, tmp_path: Path) -> None:
    runs = [start(WORKS, cache=tmp_path / "cache") for _ in range(3)]
    for run in runs:
        passes(run.end())
    assert not list((tmp_path / "cache").rglob("*.new"))


@pytest.mark.parametrize(
    "options", [["--pid", "--fork"], ["--pid", "--fork", "--mount-proc"]], ids=["proc", "own proc"]
)
def test_pid_namespaces(start: Start, options: list[str]) -> None:
    unshare = ["unshare", "--user", "--map-root-user", *options]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces to be had here")
    text = "from tests.robustness.program import *\n" + WORKS
    run = start(command=[*unshare, sys.executable, "-c", text])
    passes(run.end())
    run.assert_gone()


LIMITS = [
    ("RLIMIT_AS", 6 << 30, True),
    ("RLIMIT_AS", 1 << 30, False),
    ("RLIMIT_FSIZE", 1 << 20, False),
    ("RLIMIT_NOFILE", 24, None),
    ("RLIMIT_STACK", 256 << 10, True),
]


@pytest.mark.parametrize(("limit", "value", "works"), LIMITS, ids=[f"{name}-{value}" for name, value, _ in LIMITS])
def test_limits(start: Start, limit: str, value: int, works: bool | None) -> None:
    """They hold for all our processes: either it works, or the first call says what is the matter."""
    run = start(
        f"""
import resource
resource.setrlimit(resource.{limit}, ({value}, {value}))
try:
    p = Program()
    say(p.works())
except DriverError as error:
    say(error)
"""
    )
    code, out, errors = run.end()
    if works or (works is None and out == "True\n"):
        assert (code, out) == (0, "True\n"), errors
    else:
        assert code == 0 and out.startswith("cuInit: CUDA_ERROR_"), (out, errors)
        assert "hint: " in errors and "Traceback" not in errors
    run.assert_gone()
