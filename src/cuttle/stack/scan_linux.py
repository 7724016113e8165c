"""A Linux machine from the kernel's files: the KFD topology, PCI, DRM. `root` is `/`, or a folder with the same files in tests."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cuttle.device.hip.find_library import Place
from cuttle.device.hip.kernel_driver import AMD_VENDOR, BadTopology, KfdGpu, access, kfd_gpus, read_small
from cuttle.stack.gpu_lookup import generation, integrated, pci_gpu, product_name
from cuttle.stack.hip_places import hip_runtimes, libraries_for
from cuttle.stack.machine import Gpu, KfdState, Machine, label, sentence, version_text

MOST_PCI_DEVICES = 4096


@dataclass(frozen=True, slots=True)
class PciDevice:
    """An AMD display or accelerator controller. `location` is what KFD calls location_id, without the domain."""

    address: str
    domain: int
    location: int
    device: int
    revision: int | None
    memory_bytes: int | None
    driver: str


def pci_devices(root: Path) -> list[PciDevice]:
    """AMD's display controllers (PCI class 3) and accelerators (0x12), by address."""
    folder = root / "sys/bus/pci/devices"
    try:
        names = sorted(os.listdir(folder))[:MOST_PCI_DEVICES]
    except OSError:
        return []
    found = []
    for name in names:
        match = re.fullmatch(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", name)
        if match is None or _number(folder / name / "vendor") != AMD_VENDOR:
            continue
        device, kind = _number(folder / name / "device"), _number(folder / name / "class")
        if device is None or kind is None or kind >> 16 not in (0x03, 0x12):
            continue
        domain, bus, slot, function = (int(text, 16) for text in match.groups())
        try:
            driver = os.path.basename(os.readlink(folder / name / "driver"))
        except OSError:
            driver = ""
        found.append(
            PciDevice(
                name,
                domain,
                bus << 8 | slot << 3 | function,
                device,
                _number(folder / name / "revision"),
                _number(folder / name / "mem_info_vram_total"),
                label(driver),
            )
        )
    return found


def _number(path: Path) -> int | None:
    """The number in a small file, hexadecimal with 0x or decimal; None if it holds none."""
    try:
        match = re.fullmatch(r"(0x[0-9a-f]{1,16}|[0-9]{1,20})\n?", read_small(path))
    except (OSError, BadTopology):
        return None
    return int(match[1], 0) if match else None


def _text(path: Path) -> str:
    try:
        return read_small(path)
    except (OSError, BadTopology):
        return ""


def kfd_state(root: Path) -> KfdState:
    """Whether this user may use /dev/kfd."""
    found = access(str(root / "dev/kfd"))
    return "missing" if not found.exists else "usable" if found.usable else "no permission"


def scan_linux(root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> Machine:
    """What the kernel says. Reads files only: no library is loaded, nothing is started."""
    nodes, problems = kfd_gpus(root / "sys/class/kfd/kfd/topology/nodes")
    # The place of a file is not told: it can hold anything in a container.
    problems = [sentence(f"KFD node {re.sub(r'.*/nodes/', '', problem)}") for problem in problems]
    devices = pci_devices(root)
    release = _text(root / "proc/sys/kernel/osrelease")
    module_version = version_text(_text(root / "sys/module/amdgpu/version")) or version_text(release)
    gpus: list[Gpu] = []
    left = list(devices)
    for number, node in enumerate(nodes):
        pci = _device_of(node, left)
        if pci is not None:
            left.remove(pci)
        gpus.append(_gpu(len(gpus), node, number, pci, module_version))
    for pci in left:
        gpus.append(_gpu(len(gpus), None, None, pci, module_version))
        if pci.driver != "amdgpu":
            problems.append(f"PCI device 1002:{pci.device:04x} is driven by {pci.driver or 'nothing'}, not by amdgpu")
    place = Place(False, environment if environment is not None else os.environ, root)
    runtimes = hip_runtimes(place)
    targets = tuple(dict.fromkeys(gpu.target for gpu in gpus if gpu.hip_index is not None))
    return Machine(
        platform="linux",
        os_version=version_text(release),
        wsl="microsoft" in release.lower() or (root / "dev/dxg").exists(),
        gpus=gpus,
        hip=runtimes,
        math_libraries=libraries_for(place, runtimes, targets),
        kfd=kfd_state(root),
        problems=problems,
    )


def _device_of(node: KfdGpu, devices: list[PciDevice]) -> PciDevice | None:
    """The PCI device of a KFD node: the same place, or the only one with its id."""
    same = [device for device in devices if device.device == node.device_id]
    return next((device for device in same if device.location == node.location_id), same[0] if len(same) == 1 else None)


def _gpu(index: int, node: KfdGpu | None, hip_index: int | None, pci: PciDevice | None, driver_version: str) -> Gpu:
    device = node.device_id if node is not None else pci.device if pci is not None else None
    revision = pci.revision if pci is not None else None
    row = pci_gpu(device)
    target = node.target if node is not None else row.target if row is not None else ""
    driver = pci.driver if pci is not None else "amdgpu"
    return Gpu(
        index=index,
        hip_index=hip_index,
        name=label(product_name(device, revision) or f"AMD GPU 1002:{device or 0:04x}"),
        target=target,
        generation=generation(target),
        integrated=integrated(target, device),
        pci_device=device,
        pci_revision=revision,
        memory_bytes=pci.memory_bytes if pci is not None else None,
        driver=driver,
        driver_version=driver_version if driver == "amdgpu" else "",
        detection="kfd" if node is not None else "pci",
    )
