"""AMD's math libraries: which are there, whether they fit the HIP in use, and loading one without ending the process.

A library linked to another major version of HIP must not be loaded (two HIPs in one process crash), and rocBLAS ends the process when
its kernels for the GPU are missing: both are looked at in the files beforehand.
"""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path

from cuttle.abi.amd_libraries import MATH_LIBRARIES, AmdLibrary
from cuttle.device.hip.find_library import Place, candidates
from cuttle.device.hip.runtime_library import Hip, mapped_libraries
from cuttle.errors import DeviceError


@dataclass(frozen=True, slots=True)
class FoundLibrary:
    """What the files say. `version` is that of the file's name; `hip_major` the HIP it is linked to, None if unknown.

    `problem` says why it cannot be used, or is empty.
    """

    library: AmdLibrary
    path: str = ""
    version: str = ""
    hip_major: int | None = None
    problem: str = ""

    @property
    def state(self) -> str:
        """For tables: `found`, `unusable` or `missing`."""
        return "missing" if not self.path else "unusable" if self.problem else "found"


def look_at(library: AmdLibrary, place: Place, hip_major: int | None, targets: tuple[str, ...] = ()) -> FoundLibrary:
    """The best file of a library for this HIP and these GPU targets; if none fits, why the first does not."""
    files = [_looked_at(library, candidate.path, place, hip_major, targets) for candidate in candidates(library, place)]
    if files:
        return next((file for file in files if not file.problem), files[0])
    remark = library.windows_remark if place.windows else ""
    return FoundLibrary(library, problem=remark or f"{library.name} is not installed; it serves {library.purpose}")


def look_at_all(place: Place, hip_major: int | None, targets: tuple[str, ...] = ()) -> list[FoundLibrary]:
    """Every row of `MATH_LIBRARIES`, in order."""
    return [look_at(library, place, hip_major, targets) for library in MATH_LIBRARIES]


def _looked_at(
    library: AmdLibrary, path: str, place: Place, hip_major: int | None, targets: tuple[str, ...]
) -> FoundLibrary:
    real = os.path.realpath(path)
    match = re.search(r"\.so\.(\d[\d.]{0,40})$", real)
    version = match[1] if match else ""
    linked: int | None = None
    if not place.windows:
        try:
            linked = hip_major_needed(Path(real))
        except NotALibrary as error:
            return FoundLibrary(library, path, version, None, f"it cannot be read as a library: {error}")
    problem = ""
    if linked is not None and hip_major is not None and linked != hip_major:
        problem = f"it is linked to HIP {linked}, but HIP {hip_major} is in use"
    elif lacking := [target for target in targets if not has_kernels(library, Path(real), target)]:
        problem = f"it has no kernels for {', '.join(lacking)}"
    return FoundLibrary(library, path, version, linked, problem)


class NotALibrary(ValueError):
    """The file is no ELF library that can be read."""


def hip_major_needed(path: Path) -> int | None:
    """The HIP major version that an ELF library is linked to (DT_NEEDED libamdhip64.so.N), None if to none."""
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as file:
            for section in ELFFile(file).iter_sections():
                if not isinstance(section, DynamicSection):
                    continue
                for tag in section.iter_tags("DT_NEEDED"):
                    if match := re.fullmatch(r"libamdhip64\.so\.(\d{1,4})", str(getattr(tag, "needed", ""))):
                        return int(match[1])
    except OSError as error:
        raise NotALibrary(error.strerror or "unreadable") from None
    except Exception as error:  # pyelftools raises whatever a damaged file leads to
        raise NotALibrary(f"damaged ({type(error).__name__})") from None
    return None


def has_kernels(library: AmdLibrary, path: Path, target: str) -> bool:
    """Whether the folder of kernels beside the library names the target. True for libraries without such a folder."""
    if not library.kernels:
        return True
    # `gfx1100` must not be found in a name of `gfx11001`.
    pattern = re.compile(re.escape(target) + r"(?![0-9a-f])")
    folder = path.parent / library.kernels
    for _, folders, files in os.walk(folder):
        if any(pattern.search(name) for name in (*folders, *files)):
            return True
    return False


def load_math_library(library: AmdLibrary, place: Place, hip: Hip, targets: tuple[str, ...]) -> ctypes.CDLL:
    """Loads a library for the HIP of this process. Raises DEV-0206 with the reason: missing, other HIP, no kernels, broken."""
    found = look_at(library, place, hip.major, targets)
    if found.problem:
        where = f"{found.path}: " if found.path else ""
        raise DeviceError("DEV-0206", f"{where}{found.problem}")
    try:
        loaded = ctypes.CDLL(os.path.realpath(found.path))
    except OSError as error:
        raise DeviceError("DEV-0206", f"{found.path} cannot be loaded: {error}") from None
    for mapped in mapped_libraries("libamdhip64"):
        if os.path.realpath(mapped) != hip.path:
            raise DeviceError("DEV-0203", f"{found.path} brought {mapped} along; {hip.path} is in use")
    return loaded
