"""Where AMD's libraries lie: a list of files, best first, from environment variables and the usual folders. Loads nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuttle.abi.amd_libraries import HIP, LINUX_FOLDERS, ROOT_VARIABLES, WINDOWS_SDK_FOLDER, AmdLibrary
from cuttle.abi.knobs import HIP_LIBRARY


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may be the library. `major` is what its name says, if it does; `origin` says why it was looked at."""

    path: str
    major: int | None
    origin: str


@dataclass(frozen=True, slots=True)
class Place:
    """The machine that is searched: its platform, its environment, its root folder (not `/` in tests)."""

    windows: bool
    environment: Mapping[str, str]
    root: Path = Path("/")

    @classmethod
    def here(cls) -> Place:
        """This machine."""
        return cls(os.name == "nt", os.environ)


def candidates(library: AmdLibrary, place: Place) -> list[Candidate]:
    """Files of the library, best first; each file once, however many links lead to it.

    On Linux the user's variables win over the system's folders. On Windows the graphics driver's files (System32) come first: AMD
    wants programs to use them, and an SDK of another version may lie around. In one folder, higher versions come first.
    """
    found: list[Candidate] = []
    seen: set[str] = set()
    for folder, origin in folders(place):
        files = windows_files(library, folder) if place.windows else linux_files(library, folder)
        for path, major in files:
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                found.append(Candidate(str(path), major, origin))
    return found


def hip_candidates(place: Place) -> list[Candidate]:
    """Files of the HIP library, best first. CUTTLE_HIP_LIBRARY names the only one to take."""
    chosen = HIP_LIBRARY.text(place.environment)
    if chosen:
        return [Candidate(chosen, major_in_name(os.path.basename(os.path.realpath(chosen))), HIP_LIBRARY.name)]
    return candidates(HIP, place)


def folders(place: Place) -> Iterator[tuple[Path, str]]:
    """(folder, why it is looked at), in order. Folders may be missing."""
    yield from windows_folders(place) if place.windows else linux_folders(place)


def linux_folders(place: Place) -> Iterator[tuple[Path, str]]:
    for variable in ROOT_VARIABLES:
        if value := place.environment.get(variable):
            yield Path(value) / "lib", variable
            yield Path(value) / "lib64", variable
    for entry in place.environment.get("LD_LIBRARY_PATH", "").split(":"):
        if entry:
            yield Path(entry), "LD_LIBRARY_PATH"
    optional = place.root / "opt"
    yield optional / "rocm" / "lib", "ROCm's folder"
    for folder in sorted(optional.glob("rocm-*"), key=lambda path: numbers_in(path.name), reverse=True):
        yield folder / "lib", "ROCm's folder"
    for name in LINUX_FOLDERS:
        yield place.root / name, "system folder"


def windows_folders(place: Place) -> Iterator[tuple[Path, str]]:
    environment = {name.upper(): value for name, value in place.environment.items()}
    if system := environment.get("SYSTEMROOT"):
        yield Path(system) / "System32", "graphics driver"
    versioned = sorted((n for n in environment if re.fullmatch(r"HIP_PATH_\d{1,4}", n)), key=numbers_in, reverse=True)
    for variable in (*ROOT_VARIABLES, *versioned):
        if value := environment.get(variable):
            yield Path(value) / "bin", variable
    if programs := environment.get("PROGRAMFILES"):
        installed = (Path(programs) / WINDOWS_SDK_FOLDER).glob("*")
        for folder in sorted(installed, key=lambda path: numbers_in(path.name), reverse=True):
            yield folder / "bin", "HIP SDK"
    for entry in environment.get("PATH", "").split(";"):
        if entry:
            yield Path(entry), "PATH"


def linux_files(library: AmdLibrary, folder: Path) -> list[tuple[Path, int | None]]:
    """`libNAME.so.MAJOR` before the plain `libNAME.so` of development packages, higher majors first."""
    pattern = re.compile(re.escape(library.linux) + r"\.so(?:\.(\d{1,4}))?")
    found = []
    for path in listed(folder):
        match = pattern.fullmatch(path.name)
        if match and path.is_file():
            found.append((path, int(match[1]) if match[1] else None))
    return sorted(found, key=lambda file: -1 if file[1] is None else file[1], reverse=True)


def windows_files(library: AmdLibrary, folder: Path) -> list[tuple[Path, int | None]]:
    """The row's patterns in their order; names differ in case."""
    files = {path.name.lower(): path for path in listed(folder)}
    found: list[tuple[Path, int | None]] = []
    for pattern in library.windows:
        expression = re.compile(re.escape(pattern.lower()).replace(r"\*", ".*"))
        for name in sorted(files, reverse=True):
            path = files[name]
            if expression.fullmatch(name) and path.is_file() and path not in (known for known, _ in found):
                found.append((path, major_in_name(name)))
    return found


def listed(folder: Path) -> list[Path]:
    """The entries of a folder; none if it is missing or closed."""
    try:
        return sorted(folder.iterdir())
    except (OSError, ValueError):
        return []


def major_in_name(name: str) -> int | None:
    """7 of `libamdhip64.so.7.1.2` and `amdhip64_7.dll`."""
    match = re.search(r"\.so\.(\d{1,4})|_(\d{1,4})\.dll$", name, re.IGNORECASE)
    return int(match[1] or match[2]) if match else None


def numbers_in(name: str) -> tuple[int, ...]:
    """Sort key: 6.10 is after 6.9."""
    return tuple(int(text) for text in re.findall(r"\d{1,9}", name))
