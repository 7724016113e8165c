"""Compiles the client library and the executor: `python -m cuttle.client.build [--force] [--all | CLIENT...]`.

The `ziglang` wheel's C compiler is used where it is importable, with glibc 2.17 as the target, so that the result runs on
any Linux of the last decade; else `$CC`, `cc`, `gcc` or `clang` for this machine. Results go to `client/lib/`. The clients for
32-bit and for Windows programs (`linux-i386`, `windows-x86_64`, `windows-i386`; `--all` builds the three) need zig.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

CLIENT = Path(__file__).resolve().parent
EXECUTOR = CLIENT.parent / "device" / "cpu" / "executor"
GENERATED = CLIENT / "generated"
LIB = CLIENT / "lib"
WINDOWS = CLIENT / "windows"
ZIG_TARGET = "x86_64-linux-gnu.2.17"

FLAGS = ("-std=gnu11", "-O2", "-g1", "-pthread", "-Wall", "-fno-strict-aliasing", f"-I{GENERATED}")
LIBRARY_FLAGS = (
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wl,-soname,libcuda.so.1",
    "-Wl,-Bsymbolic",
    "-Wl,-z,nodelete",
)
# Without a C runtime: the library's own entry point, kernel32, and windows/c_library.c.
WINDOWS_FLAGS = (
    "-shared", "-g0", "-nostdlib", "-ffreestanding", "-fno-stack-protector", f"-I{WINDOWS}", "-lkernel32",
)  # fmt: skip
LINUX_ONLY = {"os_linux.c", "fork.c"}
WINDOWS_ONLY = {"os_windows.c", "os_windows_device.c"}
# The clients for other kinds of programs: file below `lib/`, zig's name of the target.
OTHER_CLIENTS = {
    "linux-i386": ("linux-i386/libcuda.so.1", "x86-linux-gnu.2.17"),
    "windows-x86_64": ("windows-x86_64/nvcuda.dll", "x86_64-windows-gnu"),
    "windows-i386": ("windows-i386/nvcuda.dll", "x86-windows-gnu"),
}


class NoCompiler(RuntimeError):
    """There is no C compiler."""


def compiler() -> list[str]:
    """Command that compiles C for x86-64 Linux."""
    chosen = os.environ.get("CC")
    if chosen:
        return chosen.split()
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc", "-target", ZIG_TARGET]
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    raise NoCompiler("no C compiler: install the ziglang wheel, or gcc or clang")


def zig(target: str) -> list[str]:
    """Command that compiles C for another kind of machine; only zig can."""
    if importlib.util.find_spec("ziglang") is None:
        raise NoCompiler("clients for other kinds of programs are built with zig: pip install ziglang")
    return [sys.executable, "-m", "ziglang", "cc", "-target", target]


def client_sources(windows: bool) -> list[Path]:
    """C files of the client library for one system."""
    skipped = LINUX_ONLY if windows else WINDOWS_ONLY
    own = [path for path in sorted(CLIENT.glob("*.c")) if path.name not in skipped]
    system = [*sorted(WINDOWS.glob("*.c")), GENERATED / "nvcuda.def"] if windows else []
    return [*own, *system, *sorted(GENERATED.glob("*.c"))]


class Output(NamedTuple):
    """A file to build."""

    path: Path
    command: list[str]
    sources: list[Path]
    flags: list[str]


def native_outputs() -> list[Output]:
    """What programs of this machine's own kind need."""
    command = compiler()
    client = [*LIBRARY_FLAGS, f"-I{CLIENT}", "-ldl"]
    built = [Output(LIB / "libcuda.so.1", command, client_sources(False), client)]
    executor = sorted(EXECUTOR.glob("*.c"))
    if executor:
        built.append(Output(LIB / "cuttle-executor", command, executor, [f"-I{EXECUTOR}", "-ldl", "-lm"]))
    return built


def other_output(name: str) -> Output:
    """The client of OTHER_CLIENTS."""
    path, target = OTHER_CLIENTS[name]
    windows = target.endswith("windows-gnu")
    system = WINDOWS_FLAGS if windows else (*LIBRARY_FLAGS, "-D_FILE_OFFSET_BITS=64", "-ldl")
    return Output(LIB / path, zig(target), client_sources(windows), [*system, f"-I{CLIENT}"])


def is_current(output: Path, sources: list[Path]) -> bool:
    if not output.exists():
        return False
    headers = [path for folder in (CLIENT, GENERATED, EXECUTOR, WINDOWS) for path in folder.glob("*.h")]
    return output.stat().st_mtime > max(path.stat().st_mtime for path in (*sources, *headers, Path(__file__)))


def build(force: bool = False, others: Iterable[str] = ()) -> list[Path]:
    """Builds what is out of date, `others` of OTHER_CLIENTS included; returns the files built."""
    outputs = [*native_outputs(), *(other_output(name) for name in others)]
    LIB.mkdir(exist_ok=True)
    lock = os.open(LIB, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test workers build at the same time
        return _build(outputs, force)
    finally:
        os.close(lock)


def _build(outputs: list[Output], force: bool) -> list[Path]:
    done = []
    for output in outputs:
        if not force and is_current(output.path, output.sources):
            continue
        output.path.parent.mkdir(exist_ok=True)
        # Built elsewhere and moved: a running program has the old file mapped. The linker leaves more than one file.
        with tempfile.TemporaryDirectory(dir=LIB, prefix=".build-") as folder:
            fresh = Path(folder) / output.path.name
            options = [flag for flag in output.flags if not flag.startswith("-l")]
            libraries = [flag for flag in output.flags if flag.startswith("-l")]
            general = [flag for flag in FLAGS if flag != "-pthread" or "-nostdlib" not in options]
            arguments = [*output.command, *general, *options, *map(str, output.sources), "-o", str(fresh), *libraries]
            subprocess.run(arguments, check=True)
            fresh.replace(output.path)
        done.append(output.path)
    plain = LIB / "libcuda.so"
    if not plain.is_symlink():
        plain.unlink(missing_ok=True)
        plain.symlink_to("libcuda.so.1")
    return done


def chosen_clients(arguments: list[str]) -> list[str]:
    """`--all` and names of OTHER_CLIENTS; raises ValueError for other words."""
    wrong = [word for word in arguments if word not in OTHER_CLIENTS and word not in ("--all", "--force")]
    if wrong:
        raise ValueError(f"{wrong[0]} is none of --force, --all, {', '.join(OTHER_CLIENTS)}")
    return list(OTHER_CLIENTS) if "--all" in arguments else [word for word in arguments if word in OTHER_CLIENTS]


def main() -> int:
    try:
        for path in build("--force" in sys.argv[1:], chosen_clients(sys.argv[1:])):
            print(path)
    except (NoCompiler, ValueError) as error:
        print(f"cuttle: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
