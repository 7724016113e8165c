"""What the Linux kernel says about AMD GPUs: the KFD topology, /dev/kfd and PCI, without any library of AMD's.

Facts: the kernel's `drivers/gpu/drm/amd/amdkfd` (sysfs files `properties` with lines `name value`; `gfx_target_version` is
major * 10000 + minor * 100 + step; nodes without SIMDs are processors). What the files hold is checked before it is used: in a
container or under an emulator somebody else may have written them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

AMD_VENDOR = 0x1002

_MOST_NODES = 256
_MOST_BYTES = 1 << 16
_LINE = re.compile(r"([a-z][a-z0-9_]{0,63}) (\d{1,20})")
# Field → largest value that it can have.
_LIMITS = {
    "simd_count": 1 << 20,
    "gfx_target_version": 999_999,
    "vendor_id": 0xFFFF,
    "device_id": 0xFFFF,
    "location_id": 0xFFFF_FFFF,
    "domain": 0xFFFF_FFFF,
    "drm_render_minor": 1 << 20,
    "wave_front_size": 1 << 10,
}


class BadTopology(ValueError):
    """A file of the topology holds what it cannot hold."""


@dataclass(frozen=True, slots=True)
class KfdGpu:
    """A GPU that the kernel driver serves. `target` is its LLVM name; `render_minor` 0 means no render node."""

    node: int
    target: str
    vendor_id: int
    device_id: int
    location_id: int
    render_minor: int


@dataclass(frozen=True, slots=True)
class Access:
    """Whether this user may use a device file. `group` is the one that it belongs to."""

    path: str
    exists: bool
    usable: bool
    group: str = ""


def target_name(version: int) -> str:
    """gfx90a of 90010, gfx1201 of 120001: major decimal, minor and step one hexadecimal digit each."""
    major, rest = divmod(version, 10000)
    minor, step = divmod(rest, 100)
    if not 1 <= major <= 99 or minor > 15 or step > 15:
        raise BadTopology(f"gfx_target_version {version} is no version of a GPU")
    return f"gfx{major}{minor:x}{step:x}"


def read_small(path: Path) -> str:
    """The text of a small regular file. Raises BadTopology for anything else, OSError if it cannot be read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadTopology("it is no file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise BadTopology(f"it is longer than {_MOST_BYTES} bytes")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise BadTopology("it is no ASCII text") from None


def parse_properties(text: str) -> dict[str, int]:
    """`name value` lines as numbers. Lines of other forms and names that stand twice are refused."""
    values: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line.rstrip(" "))
        if match is None:
            raise BadTopology(f"line {number} is not `name value`")
        name, value = match[1], int(match[2])
        if name in values:
            raise BadTopology(f"{name} stands twice")
        if value > _LIMITS.get(name, (1 << 64) - 1):
            raise BadTopology(f"{name} {value} is too large")
        values[name] = value
    return values


def kfd_gpus(root: Path = Path("/sys/class/kfd/kfd/topology/nodes")) -> tuple[list[KfdGpu], list[str]]:
    """(GPUs in the order of nodes, what is wrong with other nodes). Nothing at all if the driver is not loaded."""
    try:
        names = sorted((name for name in os.listdir(root) if re.fullmatch(r"\d{1,6}", name, re.ASCII)), key=int)
    except OSError:
        return [], []
    gpus: list[KfdGpu] = []
    problems: list[str] = []
    if len(names) > _MOST_NODES:
        problems.append(f"{root}: {len(names)} nodes; only the first {_MOST_NODES} are looked at")
    for name in names[:_MOST_NODES]:
        path = root / name / "properties"
        try:
            values = parse_properties(read_small(path))
            if values.get("simd_count", 0) == 0:
                continue
            for field in ("gfx_target_version", "vendor_id", "device_id"):
                if field not in values:
                    raise BadTopology(f"it has no {field}")
            gpus.append(
                KfdGpu(
                    int(name),
                    target_name(values["gfx_target_version"]),
                    values["vendor_id"],
                    values["device_id"],
                    values.get("location_id", 0),
                    values.get("drm_render_minor", 0),
                )
            )
        except BadTopology as error:
            problems.append(f"{path}: {error}")
        except OSError as error:
            # Nodes of GPUs that a container must not see exist, but cannot be read.
            problems.append(f"{path}: {error.strerror}")
    return gpus, problems


def group_name(identifier: int) -> str:
    import grp

    try:
        return grp.getgrgid(identifier).gr_name
    except KeyError:
        return str(identifier)


def access(path: str, name_of_group: Callable[[int], str] = group_name) -> Access:
    """Whether this process may open a device file for reading and writing."""
    try:
        status = os.stat(path)
    except OSError:
        return Access(path, False, False)
    return Access(path, True, os.access(path, os.R_OK | os.W_OK), name_of_group(status.st_gid))


def pci_display_devices(root: Path = Path("/sys/bus/pci/devices")) -> list[str]:
    """`1002:744c at 0000:03:00.0` for each AMD display or accelerator controller on the PCI bus, driver or not."""
    found = []
    try:
        names = sorted(os.listdir(root))[:4096]
    except OSError:
        return []
    for name in names:
        try:
            vendor, device, kind = (
                int(re.fullmatch(r"0x([0-9a-f]{1,8})\n?", read_small(root / name / file))[1], 16)  # type: ignore[index]
                for file in ("vendor", "device", "class")
            )
        except (OSError, TypeError, BadTopology):
            continue
        # Base class 3 is display, 0x12 processing accelerator.
        if vendor == AMD_VENDOR and kind >> 16 in (0x03, 0x12) and re.fullmatch(r"[0-9a-f:.]{1,32}", name):
            found.append(f"{vendor:04x}:{device:04x} at {name}")
    return found
