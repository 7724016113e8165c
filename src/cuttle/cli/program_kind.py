"""Which of the client libraries a program needs, by its file's header. On the start path: imports `os` only.

Facts: System V ABI (ELF headers), Microsoft's PE format specification (signature, machine numbers).
"""

from __future__ import annotations

import os

from cuttle.cli import environment

NATIVE = "linux-x86_64"
# Client → its library below client/lib.
LIBRARIES = {
    NATIVE: "libcuda.so.1",
    "linux-i386": "linux-i386/libcuda.so.1",
    "windows-x86_64": "windows-x86_64/nvcuda.dll",
    "windows-i386": "windows-i386/nvcuda.dll",
}
LOADER_32 = "/lib/ld-linux.so.2"
_ELF_MACHINES = {(1, 3): "linux-i386", (2, 62): NATIVE}
_PE_MACHINES = {0x8664: "windows-x86_64", 0x14C: "windows-i386"}


def kind_of(head: bytes) -> str:
    """A key of LIBRARIES; "" for what is no program file; `other N` for machine number N of a processor that is not served.

    `head` is the beginning of the file, 4 KiB of it.
    """
    if head[:4] == b"\x7fELF" and len(head) >= 64:
        machine = int.from_bytes(head[18:20], "little")
        return _ELF_MACHINES.get((head[4], machine), f"other {machine}")
    if head[:2] == b"MZ" and len(head) >= 64:
        at = int.from_bytes(head[60:64], "little")
        if head[at : at + 4] == b"PE\0\0" and len(head) >= at + 6:
            machine = int.from_bytes(head[at + 4 : at + 6], "little")
            return _PE_MACHINES.get(machine, f"other {machine}")
    return ""


def read_head(path: str) -> bytes:
    """The first 4 KiB; empty for a file that may be executed but not read."""
    try:
        with open(path, "rb") as file:
            return file.read(4096)
    except OSError:
        return b""


def is_windows(kind: str) -> bool:
    return kind.startswith("windows-")


def library_path(kind: str) -> str:
    return f"{environment.LIBRARY_FOLDER}/{LIBRARIES[kind]}"


def variables(kind: str, given: dict[str, str]) -> dict[str, str]:
    """What a program of this kind needs beside `environment.client_variables`."""
    if kind == "linux-i386":
        folder = os.path.dirname(library_path(kind))
        return {"LD_LIBRARY_PATH": environment.prepended(folder, given.get("LD_LIBRARY_PATH"))}
    if not is_windows(kind):
        return {}
    # On the PATH that Windows programs see, of both widths: a program may start one of the other. Nothing is written beside
    # the program, and nothing is injected.
    added = {"WINEPATH": _wine_path(given.get("WINEPATH"))}
    parent = os.path.dirname(environment.PACKAGE)
    if "-packages" not in os.path.basename(parent):  # a source tree: the library cannot tell where it is
        added["PYTHONPATH"] = environment.prepended(parent, given.get("PYTHONPATH"))
    return added


def _wine_path(given: str | None) -> str:
    """Folders of the DLLs in front, by names that need no drive letter for the root folder."""
    own = [
        "\\\\?\\unix" + os.path.dirname(library_path(kind)).replace("/", "\\") for kind in LIBRARIES if is_windows(kind)
    ]
    return ";".join([*own, *(entry for entry in (given or "").split(";") if entry and entry not in own)])


def find_wine(path: str) -> str | None:
    """`wine` on a search path."""
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder or ".", "wine")
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return None
