"""The AMD GPUs that a HIP library knows, and whether Cuttle can make code for them."""

from __future__ import annotations

import ctypes
import re
from typing import Any

from cuttle.abi import hip
from cuttle.abi.targets import BY_NAME, WAVE_LANES
from cuttle.device.hip.runtime_library import Hip
from cuttle.errors import DeviceError

# Bytes behind the struct that must stay as they are: a longer struct than the row's means that its offsets are wrong, too.
_GUARD_BYTES = 4096
_GUARD = 0xA5


def read_properties(library: Hip, ordinal: int) -> dict[str, int | str]:
    """The fields of `abi/hip.py`'s layout, from the properties call of this major version.

    Raises DEV-0204 if the call fails, DEV-0203 if what it wrote is no struct of that layout.
    """
    layout = hip.PROPERTIES[library.major]
    buffer = (ctypes.c_ubyte * (layout.size + _GUARD_BYTES))(*([_GUARD] * (layout.size + _GUARD_BYTES)))
    library.call(layout.function, ctypes.addressof(buffer), ordinal)
    data = bytes(buffer)
    if data[layout.size :] != bytes([_GUARD]) * _GUARD_BYTES:
        raise DeviceError(
            "DEV-0203", f"{layout.function} wrote more than the {layout.size} bytes of HIP {library.major}"
        )
    values: dict[str, int | str] = {}
    for name, (offset, kind) in layout.fields.items():
        if kind == "text256":
            values[name] = data[offset : offset + 256].partition(b"\0")[0].decode("utf-8", "replace")
        else:
            values[name] = int.from_bytes(data[offset : offset + (8 if kind == "u64" else 4)], "little")
    if not re.fullmatch(r"gfx[0-9a-f]{3,5}(:[a-z]+[+-])*", str(values["gcnArchName"])):
        raise DeviceError(
            "DEV-0203", f"{layout.function} of HIP {library.version_text} gives no gcnArchName where it should be"
        )
    return values


def target_verdict(name: str) -> DeviceError | None:
    """Why Cuttle makes no code for the GPU target `gfx...`, or None if it does. The rule is in `abi/targets.py`."""
    target = BY_NAME.get(name)
    if target is None:
        return DeviceError("DEV-0020", f"{name} is no GPU target that Cuttle knows")
    if target.wave != WAVE_LANES:
        return DeviceError("DEV-0021", f"{name} ({target.products}) has waves of {target.wave} lanes")
    return None


def list_devices(library: Hip) -> list[dict[str, Any]]:
    """One report a GPU, as `cuttle info --json` shows it. Starts HIP; raises as `Hip.start`.

    A GPU that cannot be looked at has an `error` instead of its values.
    """
    return [_device(library, ordinal) for ordinal in range(library.start())]


def _device(library: Hip, ordinal: int) -> dict[str, Any]:
    report: dict[str, Any] = {"index": ordinal}
    try:
        device = ctypes.c_int32()
        library.call("hipDeviceGet", ctypes.byref(device), ordinal)
        name = ctypes.create_string_buffer(256)
        library.call("hipDeviceGetName", name, 256, device.value)
        report["name"] = printable(name.value)
        total = ctypes.c_size_t()
        library.call("hipDeviceTotalMem", ctypes.byref(total), device.value)
        report["memory_bytes"] = total.value
        bus = ctypes.create_string_buffer(64)
        library.call("hipDeviceGetPCIBusId", bus, 64, device.value)
        report["pci"] = printable(bus.value)
        for key, number in hip.ATTRIBUTES.items():
            report[key] = attribute(library, number, device.value)
        architecture = str(read_properties(library, device.value)["gcnArchName"])
        report["architecture"] = architecture
        report["target"] = architecture.partition(":")[0]
        verdict = target_verdict(report["target"]) or wave_verdict(report)
    except DeviceError as error:
        verdict = error
    report["supported"] = verdict is None
    report["error"] = (
        None if verdict is None else {"code": verdict.code, "message": verdict.message, "hint": verdict.hint}
    )
    return report


def wave_verdict(report: dict[str, Any]) -> DeviceError | None:
    """HIP must see waves of the size that code is made for."""
    if report["warp_size"] == WAVE_LANES:
        return None
    message = f"HIP says that {report['target']} has waves of {report['warp_size']} lanes, not {WAVE_LANES}"
    return DeviceError("DEV-0021", message)


def attribute(library: Hip, number: int, device: int) -> int | None:
    """A device attribute, or None where this HIP does not know it."""
    value = ctypes.c_int32()
    result = library.result("hipDeviceGetAttribute", ctypes.byref(value), number, device)
    if result in (hip.INVALID_VALUE, hip.NOT_SUPPORTED):
        return None
    if result != hip.SUCCESS:
        raise DeviceError("DEV-0204", f"hipDeviceGetAttribute {number} failed: {library.error_text(result)}")
    return value.value


def printable(text: bytes) -> str:
    """Text from a driver, without what would move a terminal's cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in text.decode("utf-8", "replace"))
