"""Where the loader looks for a program's libraries: DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, the cache, the defaults."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_FOLDERS = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


@dataclass(frozen=True, slots=True)
class ProgramPaths:
    """What the dynamic section of a program says about its libraries."""

    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    needed: tuple[str, ...]

    def search_order(self, library_path: str) -> list[tuple[str, str]]:
        """(folder, why) in the loader's order; DT_RPATH is ignored where a DT_RUNPATH exists."""
        order = [] if self.runpath else [(folder, "DT_RPATH") for folder in self.rpath]
        order += [(folder, "LD_LIBRARY_PATH") for folder in library_path.split(":") if folder]
        order += [(folder, "DT_RUNPATH") for folder in self.runpath]
        order += [(folder, "ld.so.cache") for folder in cached_folders("libcuda.so.1")]
        order += [(folder, "default folder") for folder in DEFAULT_FOLDERS]
        return order


def program_paths(path: Path) -> ProgramPaths | None:
    """The paths of an ELF program, with $ORIGIN replaced; None if it is none."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile

    rpath: list[str] = []
    runpath: list[str] = []
    needed: list[str] = []
    origin = str(path.resolve().parent)
    with path.open("rb") as file:
        try:
            program = ELFFile(file)
        except ELFError:
            return None
        for segment in program.iter_segments():
            if not isinstance(segment, DynamicSegment):
                continue
            for tag in segment.iter_tags():
                # pyelftools names the attribute after the tag: `needed`, `rpath`, `runpath`.
                value = str(getattr(tag, str(tag.entry.d_tag).removeprefix("DT_").lower(), ""))
                if tag.entry.d_tag == "DT_NEEDED":
                    needed.append(value)
                elif tag.entry.d_tag == "DT_RPATH":
                    rpath += split_paths(value, origin)
                elif tag.entry.d_tag == "DT_RUNPATH":
                    runpath += split_paths(value, origin)
    return ProgramPaths(tuple(rpath), tuple(runpath), tuple(needed))


def split_paths(text: str, origin: str) -> list[str]:
    return [part.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for part in text.split(":") if part]


def cached_folders(name: str) -> list[str]:
    """Folders of `name` in the loader's cache, from `ldconfig -p`."""
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    if not Path(ldconfig).exists():
        return []
    listing = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=False).stdout
    lines = (line.split(" => ") for line in listing.splitlines() if line.strip().startswith(f"{name} "))
    return [str(Path(parts[1].strip()).parent) for parts in lines if len(parts) == 2 and "x86-64" in parts[0]]


def search(name: str, folders: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The first folder that holds `name`: (file, why)."""
    for folder, why in folders:
        file = Path(folder) / name
        if file.exists():
            return str(file), why
    return None


def libraries_beside(program: Path, prefix: str) -> list[Path]:
    """Files whose names begin with `prefix` in the program's folder and the usual library folders near it."""
    base = program.resolve().parent
    found: list[Path] = []
    for folder in (base, base / "lib", base / "lib64", base.parent / "lib", base.parent / "lib64"):
        if folder in (Path("/lib"), Path("/usr/lib"), Path("/lib64"), Path("/usr/lib64")) or not folder.is_dir():
            continue
        found += sorted(path for path in folder.iterdir() if path.name.startswith(prefix))
    return found
