"""Starting a program on an engine: staged if the platform needs it, with variables of its own, its exit code passed on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuttle.errors import StackError
from cuttle.stack.windows_arguments import command_line

FAILED, NOT_RUNNABLE, NOT_FOUND = 125, 126, 127


def exit_code_of(error: StackError) -> int:
    """The exit code with which `run` reports a failure of its own."""
    return {"STK-0601": NOT_FOUND, "STK-0604": NOT_RUNNABLE}.get(error.code, FAILED)


def find_program(name: str, environment: Mapping[str, str]) -> Path:
    """The file of a program: a path, or a name on PATH. Raises STK-0601."""
    if (os.sep in name or (os.altsep and os.altsep in name)) and Path(name).is_file():
        return Path(os.path.abspath(name))
    # Also for paths: on Windows `which` tries the extensions of programs.
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if found:
        return Path(os.path.abspath(found))
    raise StackError("STK-0601", f"{name}: no such program")


def launcher_arguments(launcher: Path, program: Path, arguments: Sequence[str]) -> list[str]:
    """Arguments for ZLUDA's launcher, which injects its libraries into a program that does not look in its own folder.

    It puts what follows `--` together with spaces and without quotation marks (up to v7-preview.10 at least), so whatever needs some is refused.
    Raises STK-0602, STK-0603.
    """
    if not launcher.is_file():
        raise StackError("STK-0603", f"the engine's folder holds no {launcher.name}")
    for part in (str(program), *arguments):
        if subprocess.list2cmdline([part]) != part:
            raise StackError(
                "STK-0602",
                f"{launcher.name} would tear {part!r} apart",
                hint="Without --launcher arguments pass unchanged; or use paths without spaces.",
            )
    return ["--", str(program), *arguments]


def run_program(program: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs a program to its end and returns its exit code; on Unix it replaces this process. Raises STK-0602, STK-0604."""
    if sys.platform == "win32":
        return _run_windows(program, arguments, environment)
    # Ignored signals survive exec: `cuttle stack run -- program | head` would not end.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(program, [str(program), *arguments], dict(environment))
    except OSError as error:
        raise StackError("STK-0604", f"{program}: {error.strerror}") from None


def _run_windows(program: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """CreateProcess with a command line of our own making; Ctrl+C is the program's business."""
    line = command_line(str(program), arguments)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # A batch file has to be named as the program for Windows to start cmd.exe on it.
        with subprocess.Popen(line, executable=str(program), env=dict(environment)) as process:
            return process.wait()
    except OSError as error:
        raise StackError("STK-0604", f"{program}: {error.strerror}") from None
    finally:
        signal.signal(signal.SIGINT, before)
