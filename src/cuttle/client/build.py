"""Compiles the client library and the executor: `python -m cuttle.client.build`.

The `ziglang` wheel's C compiler is used where it is importable, with glibc 2.17 as the target, so that the result runs on
any Linux of the last decade; else `$CC`, `cc`, `gcc` or `clang` for this machine. Results go to `client/lib/`.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parent
EXECUTOR = CLIENT.parent / "device" / "cpu" / "executor"
GENERATED = CLIENT / "generated"
LIB = CLIENT / "lib"
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


def outputs() -> dict[Path, tuple[list[Path], list[str]]]:
    """File to build → its sources and flags."""
    client = sorted(CLIENT.glob("*.c")) + sorted(GENERATED.glob("*.c"))
    built = {LIB / "libcuda.so.1": (client, [*LIBRARY_FLAGS, f"-I{CLIENT}", "-ldl"])}
    executor = sorted(EXECUTOR.glob("*.c"))
    if executor:
        built[LIB / "cuttle-executor"] = (executor, [f"-I{EXECUTOR}", "-ldl", "-lm"])
    return built


def is_current(output: Path, sources: list[Path]) -> bool:
    if not output.exists():
        return False
    headers = [*CLIENT.glob("*.h"), *GENERATED.glob("*.h"), *EXECUTOR.glob("*.h"), Path(__file__)]
    return output.stat().st_mtime > max(path.stat().st_mtime for path in (*sources, *headers))


def build(force: bool = False) -> list[Path]:
    """Builds what is out of date; returns the files built."""
    command = compiler()
    LIB.mkdir(exist_ok=True)
    lock = os.open(LIB, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test workers build at the same time
        return _build(command, force)
    finally:
        os.close(lock)


def _build(command: list[str], force: bool) -> list[Path]:
    done = []
    for output, (sources, flags) in outputs().items():
        if not force and is_current(output, sources):
            continue
        # Built beside it and moved: a running program has the old file mapped.
        fresh = output.with_name(f"{output.name}.{os.getpid()}")
        options = [flag for flag in flags if not flag.startswith("-l")]
        libraries = [flag for flag in flags if flag.startswith("-l")]
        arguments = [*command, *FLAGS, *options, *map(str, sources), "-o", str(fresh), *libraries]
        try:
            subprocess.run(arguments, check=True)
            fresh.replace(output)
        finally:
            fresh.unlink(missing_ok=True)
        done.append(output)
    plain = LIB / "libcuda.so"
    if not plain.is_symlink():
        plain.unlink(missing_ok=True)
        plain.symlink_to("libcuda.so.1")
    return done


def main() -> int:
    try:
        for path in build(force="--force" in sys.argv[1:]):
            print(path)
    except NoCompiler as error:
        print(f"cuttle: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
