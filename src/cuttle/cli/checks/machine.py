"""Checks of the machine: platform, Python, processor, memory, system calls."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys
from pathlib import Path

from cuttle.abi.wire import ARENA_BASE
from cuttle.cli import environment
from cuttle.cli.checks import FAILURE, OK, WARNING, Context, Finding
from cuttle.cli.render import size_text

OLDEST_GLIBC = (2, 17)


def check_platform(context: Context) -> Finding:
    """Linux on x86-64 with a C library that the client library can live with?"""
    problem = environment.platform_problem()
    if problem:
        return Finding(FAILURE, problem, "`cuttle scan` and `cuttle compile` work everywhere.")
    name, version = platform.libc_ver()
    if name != "glibc":
        return Finding(FAILURE, "the C library is not glibc (musl?)", "Use a Debian, Ubuntu, Fedora or similar image.")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_GLIBC:
        return Finding(FAILURE, f"glibc {version} is older than 2.17", "Use a newer distribution.")
    return Finding(OK, f"Linux {platform.release()} on x86-64, glibc {version}")


def check_python(context: Context) -> Finding:
    """Which Python runs the device process?"""
    return Finding(OK, f"Python {platform.python_version()}", details=(sys.executable,))


def check_processor(context: Context) -> Finding:
    """Which vector instructions will kernels use?"""
    flags: set[str] = set()
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            flags = set(value.split())
        elif key.strip() == "model name":
            model = value.strip()
        if flags and not line:
            break
    cores = len(os.sched_getaffinity(0))
    text = f"{model}, {cores} core{'s' if cores != 1 else ''}"
    missing = [name for name in ("avx2", "fma", "bmi2", "f16c") if name not in flags]
    if missing:
        return Finding(WARNING, f"{text}, without {', '.join(missing)}", "Kernels will run, but slowly.")
    level = "AVX-512" if "avx512f" in flags else "AVX2"
    return Finding(OK, f"{text}, {level}")


def cgroup_limit() -> int | None:
    """The memory limit of this process's cgroup (v2 or v1) in bytes, or None."""
    candidates = [Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")]
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, _, path = line.split(":", 2)
        if number == "0":
            folder = Path("/sys/fs/cgroup" + path)
            candidates += [
                parent / "memory.max" for parent in (folder, *folder.parents) if str(parent).startswith("/sys")
            ]
    limits = []
    for candidate in candidates:
        try:
            text = candidate.read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < 1 << 60:
            limits.append(int(text))
    return min(limits, default=None)


def check_memory(context: Context) -> Finding:
    """How much memory is there, and does a cgroup limit it?"""
    values = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    total, available = (int(values[key].split()[0]) * 1024 for key in ("MemTotal", "MemAvailable"))
    limit = cgroup_limit()
    text = f"{size_text(available)} of {size_text(total)} free"
    if limit is not None and limit < total:
        text += f", limited to {size_text(limit)} by the container or service (cgroup)"
    asked = context.environment.get("CUTTLE_MEMORY", "")
    if asked:
        from cuttle.abi.knobs import MEMORY

        wanted = MEMORY.whole(context.environment)
        if wanted > min(total, limit or total):
            return Finding(
                WARNING, f"{text}; CUTTLE_MEMORY asks for {size_text(wanted)}", "Ask for less than the machine has."
            )
    if min(available, limit or available) < 1 << 30:
        return Finding(WARNING, text, "Less than 1 GiB is little for a device; close other programs.")
    return Finding(OK, text)


def check_shared_memory(context: Context) -> Finding:
    """Device memory is a memfd that all processes map at one address."""
    try:
        descriptor = os.memfd_create("cuttle-doctor")
    except OSError as error:
        return Finding(FAILURE, f"memfd_create fails: {error.strerror}", "A sandbox forbids it; run outside of it.")
    try:
        os.ftruncate(descriptor, 64 << 30)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        size = 64 << 30
        fixed_noreplace = 0x100000
        flags = mmap.MAP_SHARED | fixed_noreplace
        address = libc.mmap(ARENA_BASE, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0)
        if address != ARENA_BASE:
            reason = os.strerror(ctypes.get_errno())
            return Finding(
                FAILURE,
                f"64 GiB of address space at {ARENA_BASE:#x} cannot be mapped: {reason}",
                "Is there a limit on virtual memory (ulimit -v), or does a sanitizer use this range?",
            )
        libc.munmap(address, size)
    except OSError as error:
        return Finding(FAILURE, f"a memfd of 64 GiB cannot be made: {error.strerror}", "Look at ulimit -f.")
    finally:
        os.close(descriptor)
    return Finding(OK, f"memfd and a fixed mapping at {ARENA_BASE:#x} work")


def check_sandbox(context: Context) -> Finding:
    """Does a container or sandbox forbid system calls that Cuttle needs?"""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    mode = {"0": "none", "1": "strict", "2": "a filter"}.get(status.get("Seccomp", "0").strip(), "unknown")
    container = Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
    text = f"{'in a container; ' if container else ''}seccomp: {mode}"
    libc = ctypes.CDLL(None, use_errno=True)
    futex, futex_wake = 202, 1
    word = ctypes.c_uint32()
    if libc.syscall(futex, ctypes.byref(word), futex_wake, 1, None, None, 0) < 0:
        return Finding(FAILURE, f"{text}; futex is forbidden", "Run with another seccomp profile.")
    if not hasattr(os, "pidfd_open"):
        return Finding(OK, text)
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return Finding(OK, f"{text}; pidfd_open: {error.strerror} (not needed)")
    return Finding(OK, text)
