"""A Windows machine from what its tools print: pure functions of text, and the collector that runs the tools.

Sources: hipInfo.exe of AMD's HIP SDK, the WMI class Win32_VideoController through PowerShell, and the registry's key of display adapters
(AdapterRAM of WMI ends at 4 GiB; `HardwareInformation.qwMemorySize` does not). Never run on Windows by the maintainers; tested with recorded outputs.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cuttle.device.hip.find_library import Place, numbers_in
from cuttle.stack.gpu_lookup import generation, integrated, pci_gpu, product_name, target_of_name
from cuttle.stack.hip_places import hip_runtimes, libraries_for
from cuttle.stack.machine import Gpu, Machine, label, version_text

AMD_VENDOR = 0x1002
MOST_TEXT = 4 << 20
MOST_DEVICES = 64
ADAPTER_KEY = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"

_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


@dataclass(frozen=True, slots=True)
class HipInfoDevice:
    """A device as hipInfo prints it. `memory_bytes` is rounded: hipInfo prints two decimals of GB."""

    index: int
    name: str
    target: str
    memory_bytes: int | None
    bus: int | None
    integrated: bool | None


@dataclass(frozen=True, slots=True)
class HipInfo:
    """The output of one hipInfo. `error` is the HIP error number that it ended with (100: no device), None if it did not."""

    devices: tuple[HipInfoDevice, ...]
    error: int | None


@dataclass(frozen=True, slots=True)
class Adapter:
    """A display adapter of Windows, whoever made it."""

    name: str
    vendor: int | None
    device: int | None
    revision: int | None
    driver_version: str
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WindowsTexts:
    """What the collector found: `hipinfo` by the SDK's version, best first."""

    os_version: str = ""
    hipinfo: tuple[tuple[str, str], ...] = ()
    video_controllers: str = ""
    registry: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def parse_hipinfo(text: str) -> HipInfo:
    """Devices of hipInfo's output. Lines that are not understood are skipped; a device without a name or target keeps them empty."""
    devices: list[dict[str, str]] = []
    error = None
    for line in text[:MOST_TEXT].splitlines():
        if match := re.search(r"HIP API error\s*=\s*0*(\d{1,6})", line):
            error = int(match[1])
        elif match := re.match(r"\s*device#\s+(\d{1,3})\s*$", line):
            if len(devices) == MOST_DEVICES:
                break
            devices.append({"device#": match[1]})
        elif devices and (match := re.match(r"\s*([A-Za-z][A-Za-z0-9._]{0,63}):\s*(.*?)\s*$", line)):
            devices[-1].setdefault(match[1].lower(), match[2])
    return HipInfo(tuple(_hipinfo_device(values) for values in devices), error)


def _hipinfo_device(values: dict[str, str]) -> HipInfoDevice:
    target = re.match(r"gfx[0-9]{1,3}[0-9a-f]{2}(?![0-9a-z])", values.get("gcnarchname", ""))
    memory = re.fullmatch(r"(\d{1,7}(?:\.\d{1,6})?)\s*([KMGT]?B)", values.get("totalglobalmem", ""))
    bus = values.get("pcibusid", "")
    flag = values.get("isintegrated", values.get("integrated", ""))
    return HipInfoDevice(
        int(values["device#"]),
        label(values.get("name", "")),
        target[0] if target else "",
        int(float(memory[1]) * _UNITS[memory[2]]) if memory else None,
        int(bus) if re.fullmatch(r"\d{1,5}", bus, re.ASCII) else None,
        flag == "1" if flag in ("0", "1") else None,
    )


def parse_pnp_id(text: str) -> tuple[int | None, int | None, int | None]:
    """(vendor, device, revision) of `PCI\\VEN_1002&DEV_744C&SUBSYS_...&REV_C8\\...`; what follows tells this card from others and is dropped."""
    found = {
        name: int(value, 16) for name, value in re.findall(r"(VEN|DEV|REV)_([0-9A-F]{2,4})(?![0-9A-F])", text.upper())
    }
    return found.get("VEN"), found.get("DEV"), found.get("REV")


def parse_video_controllers(text: str) -> list[Adapter]:
    """`Get-CimInstance Win32_VideoController | ConvertTo-Json`: one object or a list of them. Empty if it is no such JSON."""
    try:
        data = msgspec.json.decode(text[:MOST_TEXT].lstrip("\ufeff"))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return []
    adapters = []
    for item in (data if isinstance(data, list) else [data])[:MOST_DEVICES]:
        if not isinstance(item, dict):
            continue
        vendor, device, revision = parse_pnp_id(_string(item, "PNPDeviceID"))
        memory: Any = item.get("AdapterRAM")
        # A 32-bit number: what is 4 GiB or nearly may be any size.
        exact = isinstance(memory, int) and 0 < memory < 0xF000_0000
        adapters.append(
            Adapter(
                label(_string(item, "Name")),
                vendor,
                device,
                revision,
                version_text(_string(item, "DriverVersion")),
                memory if exact else None,
            )
        )
    return adapters


def _string(item: dict[str, Any], name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def parse_registry(text: str) -> list[Adapter]:
    """`reg query KEY /s` of the key of display adapters: its numbered subkeys."""
    adapters: list[Adapter] = []
    for block in re.split(r"(?m)^(?=HKEY_|HKLM\\)", text[:MOST_TEXT])[: 4 * MOST_DEVICES]:
        head, _, body = block.partition("\n")
        if not re.search(r"\\\d{4}\s*$", head):
            continue
        values = dict(re.findall(r"(?m)^\s{2,}(\S[^\r\n]*?)\s{2,}REG_[A-Z_]+\s{2,}([^\r\n]*)", body))
        vendor, device, revision = parse_pnp_id(values.get("MatchingDeviceId", ""))
        size = re.fullmatch(r"0x([0-9a-fA-F]{1,16})", values.get("HardwareInformation.qwMemorySize", "").strip())
        adapters.append(
            Adapter(
                label(values.get("DriverDesc", "")),
                vendor,
                device,
                revision,
                version_text(values.get("DriverVersion", "")),
                int(size[1], 16) if size else None,
            )
        )
    return adapters


def _is_amd(adapter: Adapter) -> bool:
    if adapter.vendor is not None:
        return adapter.vendor == AMD_VENDOR
    return bool(re.search(r"\b(AMD|Radeon)\b", adapter.name))


def join_adapters(controllers: Sequence[Adapter], registry: Sequence[Adapter]) -> list[tuple[Adapter, str]]:
    """AMD's adapters with where they come from. The registry knows memory that WMI does not, and adapters that WMI lost."""
    left = [adapter for adapter in registry if _is_amd(adapter)]
    joined: list[tuple[Adapter, str]] = []
    for adapter in controllers:
        if not _is_amd(adapter):
            continue
        twin = next((other for other in left if _same(adapter, other)), None)
        memory = adapter.memory_bytes
        if twin is not None:
            left.remove(twin)
            memory = twin.memory_bytes or memory
        device = adapter.device if adapter.device is not None else twin.device if twin else None
        joined.append(
            (Adapter(adapter.name, AMD_VENDOR, device, adapter.revision, adapter.driver_version, memory), "wmi")
        )
    # Old keys of cards that are gone stay in the registry: they count only where WMI says nothing at all.
    if not joined:
        joined += [(adapter, "registry") for adapter in left]
    return joined


def _same(one: Adapter, other: Adapter) -> bool:
    if one.device is not None and other.device is not None:
        return one.device == other.device
    return one.name == other.name


def windows_gpus(info: HipInfo | None, adapters: Sequence[tuple[Adapter, str]]) -> list[Gpu]:
    """HIP's devices in HIP's order, joined with their adapters, then adapters that HIP does not see."""
    left = list(adapters)
    gpus: list[Gpu] = []
    for device in info.devices if info is not None else ():
        match = next((found for found in left if found[0].name == device.name), None) or next(
            (found for found in left if device.target and _target_of(found[0]) == device.target), None
        )
        if match is not None:
            left.remove(match)
        adapter = match[0] if match is not None else None
        pci_device = adapter.device if adapter is not None else None
        gpus.append(
            Gpu(
                index=len(gpus),
                hip_index=device.index,
                name=device.name or (adapter.name if adapter is not None else ""),
                target=device.target or (_target_of(adapter) if adapter is not None else ""),
                generation=generation(device.target),
                integrated=bool(device.integrated) or integrated(device.target, pci_device),
                pci_device=pci_device,
                pci_revision=adapter.revision if adapter is not None else None,
                memory_bytes=_memory(device, adapter),
                driver="",
                driver_version=adapter.driver_version if adapter is not None else "",
                detection="hipInfo",
            )
        )
    for adapter, origin in left:
        target = _target_of(adapter)
        gpus.append(
            Gpu(
                index=len(gpus),
                hip_index=None,
                name=adapter.name or product_name(adapter.device, adapter.revision),
                target=target,
                generation=generation(target),
                integrated=integrated(target, adapter.device),
                pci_device=adapter.device,
                pci_revision=adapter.revision,
                memory_bytes=adapter.memory_bytes,
                driver="",
                driver_version=adapter.driver_version,
                detection="registry" if origin == "registry" else "wmi",
            )
        )
    return gpus


def _memory(device: HipInfoDevice, adapter: Adapter | None) -> int | None:
    """hipInfo's, unless Windows knows more: some versions of hipInfo print a hundredth of it."""
    known = adapter.memory_bytes if adapter is not None else None
    if device.memory_bytes is None or (known is not None and known > 2 * device.memory_bytes):
        return known
    return device.memory_bytes


def _target_of(adapter: Adapter) -> str:
    row = pci_gpu(adapter.device)
    return row.target if row is not None else target_of_name(adapter.name)


def scan_windows(texts: WindowsTexts, place: Place | None = None) -> Machine:
    """A machine from collected texts. `place` is where HIP's files are looked for; without it none are."""
    problems: list[str] = []
    chosen: HipInfo | None = None
    for version, text in texts.hipinfo:
        info = parse_hipinfo(text)
        if info.error is not None:
            what = "sees no GPU" if info.error == 100 else f"ended with HIP error {info.error}"
            problems.append(f"hipInfo of HIP SDK {version_text(version) or '(unknown)'} {what}")
        if chosen is None and info.devices:
            chosen = info
    controllers = parse_video_controllers(texts.video_controllers)
    if texts.video_controllers.strip() and not controllers:
        problems.append("the output of Win32_VideoController could not be read")
    gpus = windows_gpus(chosen, join_adapters(controllers, parse_registry(texts.registry)))
    runtimes = hip_runtimes(place) if place is not None else []
    targets = tuple(dict.fromkeys(gpu.target for gpu in gpus if gpu.hip_index is not None and gpu.target))
    return Machine(
        platform="windows",
        os_version=version_text(texts.os_version),
        wsl=False,
        gpus=gpus,
        hip=runtimes,
        math_libraries=libraries_for(place, runtimes, targets) if place is not None else [],
        kfd="not applicable",
        problems=problems,
    )


# -- the collector ------------------------------------------------------------------------------------------------

Runner = Callable[[Sequence[str]], str]


def run_tool(command: Sequence[str]) -> str:
    """What a tool prints, or an empty string if it is not there, fails to start, or hangs. hipInfo tells its errors on stderr."""
    both = subprocess.STDOUT if command[0].lower().endswith("hipinfo.exe") else subprocess.DEVNULL
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=both, timeout=30, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout[:MOST_TEXT].decode("utf-8", "replace")


def hip_sdk_folders(environment: Mapping[str, str]) -> list[Path]:
    """Folders of HIP SDKs, the user's choice (HIP_PATH) first, then the newest."""
    variables = {name.upper(): value for name, value in environment.items()}
    found = [Path(variables["HIP_PATH"])] if variables.get("HIP_PATH") else []
    for base in (Path(variables.get("PROGRAMFILES", "C:/Program Files")) / "AMD" / "ROCm", Path("C:/ROCm")):
        try:
            folders = [folder for folder in base.iterdir() if folder.is_dir()]
        except OSError:
            continue
        found += sorted(folders, key=lambda folder: numbers_in(folder.name), reverse=True)
    return list(dict.fromkeys(found))


def collect(run: Runner = run_tool, environment: Mapping[str, str] | None = None) -> WindowsTexts:
    """Runs the tools of this machine."""
    variables = dict(os.environ if environment is None else environment)
    hipinfo = []
    for folder in hip_sdk_folders(variables):
        tool = folder / "bin" / "hipInfo.exe"
        if tool.is_file():
            hipinfo.append((folder.name, run([str(tool)])))
    fields = "Name,DriverVersion,PNPDeviceID,AdapterRAM"
    script = f"Get-CimInstance Win32_VideoController | Select-Object {fields} | ConvertTo-Json -Compress"
    return WindowsTexts(
        platform.version(),
        tuple(hipinfo),
        run(["powershell.exe", "-NoProfile", "-NonInteractive", "-Command", f"[Console]::OutputEncoding=[Text.Encoding]::UTF8; {script}"]),
        run(["reg.exe", "query", ADAPTER_KEY, "/s"]),
        variables,
    )  # fmt: skip
