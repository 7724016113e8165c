"""Checks of one program (`cuttle doctor --program FILE`): will it find Cuttle, and its other libraries?"""

from __future__ import annotations

import os
from pathlib import Path

from cuttle.cli import environment, launch
from cuttle.cli.checks import FAILURE, OK, WARNING, Context, Finding
from cuttle.cli.elf_paths import ProgramPaths, libraries_beside, program_paths, search

NO_PROGRAM = Finding(OK, "no program given; add --program FILE to check one")


def located(context: Context) -> tuple[str, ProgramPaths | None]:
    path = launch.find_program(context.program or "")
    return path, program_paths(Path(path))


def check_program(context: Context) -> Finding:
    """Can `cuttle run` start it at all?"""
    if context.program is None:
        return NO_PROGRAM
    try:
        path = launch.find_program(context.program)
        note = launch.check_program(path)
    except launch.Refusal as refusal:
        return Finding(FAILURE, refusal.message, refusal.hint)
    return Finding(WARNING if note else OK, note or f"{path} can be started")


def check_library_path(context: Context) -> Finding:
    """Which libcuda.so.1 the loader takes for the program: DT_RPATH beats LD_LIBRARY_PATH, DT_RUNPATH does not."""
    if context.program is None:
        return NO_PROGRAM
    try:
        path, paths = located(context)
    except launch.Refusal as refusal:
        return Finding(FAILURE, refusal.message, refusal.hint)
    if paths is None:
        return Finding(OK, f"{path} is no ELF program; what it starts is decided by LD_LIBRARY_PATH")
    folders = paths.search_order(context.client_environment.get("LD_LIBRARY_PATH", ""))
    details = tuple(f"{why}: {folder}" for folder, why in folders)
    if context.prefer_ours:
        return Finding(OK, f"libcuda.so.1 → {environment.CLIENT_LIBRARY} (preloaded)", details=details)
    found = search("libcuda.so.1", folders)
    if found is None:
        return Finding(FAILURE, "libcuda.so.1 is found nowhere", "`cuttle doctor client_library`", details)
    file, why = found
    if os.path.realpath(file) != os.path.realpath(environment.CLIENT_LIBRARY):
        return Finding(
            FAILURE, f"libcuda.so.1 → {file}, by {why}", f"cuttle run --prefer-ours -- {context.program}", details
        )
    return Finding(OK, f"libcuda.so.1 → {file}, by {why}", details=details)


def check_bundled_driver(context: Context) -> Finding:
    """Stubs and copies of NVIDIA's driver beside the program are found by programs that look there themselves."""
    if context.program is None:
        return NO_PROGRAM
    try:
        path, _ = located(context)
    except launch.Refusal as refusal:
        return Finding(FAILURE, refusal.message, refusal.hint)
    beside = libraries_beside(Path(path), "libcuda.so")
    if beside:
        return Finding(
            WARNING,
            f"the program brings its own {beside[0].name}",
            f"If it does not use Cuttle: cuttle run --prefer-ours -- {context.program}",
            tuple(map(str, beside)),
        )
    return Finding(OK, "the program brings no libcuda.so.1 along")
