"""Which HIPs and math libraries a machine has, without their paths: what a scan may record."""

from __future__ import annotations

import os
import re
from typing import cast

from cuttle.abi.amd_libraries import HIP
from cuttle.device.hip.find_library import Place, candidates
from cuttle.device.hip.math_libraries import look_at_all
from cuttle.stack.machine import HipRuntime, LibraryState, MathLibrary, label, sentence, version_text


def hip_runtimes(place: Place) -> list[HipRuntime]:
    """Every HIP library, best first. The version is that of the file's or the SDK folder's name, as far as they tell."""
    found = []
    for candidate in candidates(HIP, place):
        real = os.path.realpath(candidate.path)
        match = re.search(r"\.so\.(\d[\d.]{0,30})$", real) or re.search(
            r"ROCm[/\\](\d[\d.]{0,30})[/\\]bin", real, re.IGNORECASE
        )
        version = version_text(match[1]) if match else ""
        major = candidate.major if candidate.major is not None else int(version.split(".")[0]) if version else None
        found.append(HipRuntime(major, version or (str(major) if major is not None else ""), label(candidate.origin)))
    return found


def libraries_for(place: Place, runtimes: list[HipRuntime], targets: tuple[str, ...]) -> list[MathLibrary]:
    """AMD's math libraries for the first HIP and these targets."""
    major = runtimes[0].major if runtimes else None
    return [
        MathLibrary(
            found.library.name,
            cast(LibraryState, found.state),
            version_text(found.version),
            _without_paths(found.problem),
        )
        for found in look_at_all(place, major, targets)
    ]


def _without_paths(text: str) -> str:
    return sentence(re.sub(r"(?:[A-Za-z]:)?[/\\][^\s:,;]*[/\\][^\s:,;]*", "(path)", text))


def hip_root(place: Place) -> str:
    """The folder of the HIP SDK or ROCm that holds the first HIP library; empty if there is none. It is a path: not for scans."""
    for candidate in candidates(HIP, place):
        folder = os.path.dirname(candidate.path)
        # The graphics driver's files in System32 belong to no SDK.
        if candidate.origin != "graphics driver" and os.path.basename(folder).lower() in ("bin", "lib", "lib64"):
            return os.path.dirname(folder)
    return ""
