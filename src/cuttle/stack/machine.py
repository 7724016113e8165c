"""What is known of a machine: a closed set of fields, none of which can hold a user name, a host name, a path or a serial number."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

from cuttle.errors import StackError

SCHEMA = 1

# What hardware and drivers call themselves: printable, short, no separators of paths.
Label = Annotated[str, msgspec.Meta(max_length=96, pattern=r"^[\x20-\x2e\x30-\x5b\x5d-\x7e]*$(?!\n)")]
VersionText = Annotated[str, msgspec.Meta(max_length=48, pattern=r"^[0-9A-Za-z._+-]*$(?!\n)")]
Target = Annotated[str, msgspec.Meta(pattern=r"^(gfx[0-9]{1,3}[0-9a-f]{2})?$(?!\n)")]

# Texts for people: one line, nothing that a terminal would act on.
Sentence = Annotated[str, msgspec.Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$(?!\n)")]

State = Literal["verified on hardware", "emulated", "unverified candidate", "not supported"]
Detection = Literal["kfd", "pci", "hipInfo", "wmi", "registry"]
LibraryState = Literal["found", "unusable", "missing"]
KfdState = Literal["usable", "no permission", "missing", "not applicable"]


class Support(msgspec.Struct, frozen=True):
    """What is known of a GPU under an engine. `evidence`: the report and its date, or why."""

    state: State
    evidence: Sentence


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One AMD GPU.

    `hip_index` is its number for HIP (HIP_VISIBLE_DEVICES), None if HIP does not see it. `target` is its LLVM name, empty if unknown.
    `memory_bytes` is its own memory. `driver` is the kernel driver on Linux. `render_node`: this user can open it (Linux).
    """

    index: int
    hip_index: int | None
    name: Label
    target: Target
    generation: Label
    integrated: bool
    pci_device: int | None
    pci_revision: int | None
    memory_bytes: int | None
    driver: Label
    driver_version: VersionText
    detection: Detection
    support: dict[str, Support] = {}


class HipRuntime(msgspec.Struct, frozen=True):
    """A HIP that was found. `origin` says how (a variable's name, `HIP SDK`, `graphics driver`, ...), not where."""

    major: int | None
    version: VersionText
    origin: Label


class MathLibrary(msgspec.Struct, frozen=True):
    """One of AMD's libraries for the first HIP. `state`: found, unusable, missing; `problem` says why."""

    name: Label
    state: LibraryState
    version: VersionText
    problem: Sentence


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine. `os_version`: `6.8.0` of a Linux kernel, `10.0.26100` of Windows. `problems` are sentences about what could not be read."""

    schema: int = SCHEMA
    platform: Literal["windows", "linux"]
    os_version: VersionText
    wsl: bool
    gpus: list[Gpu]
    hip: list[HipRuntime]
    math_libraries: list[MathLibrary]
    kfd: KfdState
    problems: list[Sentence]


def label(text: str) -> str:
    """A name as it may stand in a `Machine`: one line, printable ASCII, no path separators, trademark signs gone."""
    text = text.replace("(TM)", "").replace("(R)", "").replace("(tm)", "").replace("\u2122", "").replace("\u00ae", "")
    return re.sub(r"\s+", " ", re.sub(r"[^\x20-\x7e]|[/\\]", " ", text)).strip()[:96]


def sentence(text: str) -> str:
    """A text as it may stand in a `Machine` for people."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", "?", text)[:500]


def version_text(text: str) -> str:
    """The leading version of a text: `6.8.0` of `6.8.0-45-generic`; what follows may be somebody's own."""
    match = re.match(r"\d{1,6}(?:\.\d{1,8}){0,5}", text.strip())
    return match[0] if match else ""


def select(machine: Machine, index: int | None = None) -> Gpu | None:
    """The GPU to use: the one of this index, else the best; None if there is none. Raises STK-0702.

    Best: seen by HIP, not refused by every engine, discrete, most memory, lowest index.
    """
    if index is not None:
        for gpu in machine.gpus:
            if gpu.index == index:
                return gpu
        raise StackError("STK-0702", f"there is no GPU {index}; there are {len(machine.gpus)}")

    def rank(gpu: Gpu) -> tuple[bool, bool, bool, int, int]:
        usable = any(support.state != "not supported" for support in gpu.support.values())
        return (usable, gpu.hip_index is not None, not gpu.integrated, gpu.memory_bytes or 0, -gpu.index)

    return max(machine.gpus, key=rank, default=None)
