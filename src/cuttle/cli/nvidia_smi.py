"""Stand-in for nvidia-smi: answers what scripts ask of it, from the device that programs would get.

`cuttle run` and `cuttle env` put it on PATH. Each program has a device of its own, so memory in use is that of a fresh
one; what Cuttle does not measure is "[N/A]", as nvidia-smi writes it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from cuttle import __version__
from cuttle.cli.devices import devices
from cuttle.errors import CuttleError

NOT_AVAILABLE = "[N/A]"
# CUDA 13.0 came with driver branch 580: scripts compare this number with what their CUDA version needs.
DRIVER_BRANCH = "580.00"

Device = dict[str, Any]


def mebibytes(size_bytes: int) -> str:
    return str(size_bytes >> 20)


def bus_id(device: Device) -> str:
    return "{:08X}:{:02X}:{:02X}.0".format(
        device.get("pci_domain_id") or 0, device.get("pci_bus_id") or 0, device.get("pci_device_id") or 0
    )


# Field of --query-gpu → (value, unit). Every other field that nvidia-smi knows answers [N/A].
QUERIES: dict[str, tuple[Callable[[Device], str], str]] = {
    "index": (lambda device: str(device["index"]), ""),
    "name": (lambda device: str(device["name"]), ""),
    "gpu_name": (lambda device: str(device["name"]), ""),
    "uuid": (lambda device: str(device["uuid"]), ""),
    "gpu_uuid": (lambda device: str(device["uuid"]), ""),
    "count": (lambda device: str(device["count"]), ""),
    "driver_version": (lambda device: DRIVER_BRANCH, ""),
    "compute_cap": (lambda device: str(device["compute_capability"]), ""),
    "memory.total": (lambda device: mebibytes(device["memory_bytes"]), "MiB"),
    "memory.used": (lambda device: "0", "MiB"),
    "memory.free": (lambda device: mebibytes(device["memory_bytes"]), "MiB"),
    "memory.reserved": (lambda device: "0", "MiB"),
    "pci.bus_id": (bus_id, ""),
    "gpu_bus_id": (bus_id, ""),
    "pci.domain": (lambda device: f"0x{device.get('pci_domain_id') or 0:04X}", ""),
    "pci.bus": (lambda device: f"0x{device.get('pci_bus_id') or 0:02X}", ""),
    "pci.device": (lambda device: f"0x{device.get('pci_device_id') or 0:02X}", ""),
    "compute_mode": (lambda device: "Default", ""),
    "persistence_mode": (lambda device: "Disabled", ""),
    "display_active": (lambda device: "Disabled", ""),
    "mig.mode.current": (lambda device: NOT_AVAILABLE, ""),
    "timestamp": (lambda device: time.strftime("%Y/%m/%d %H:%M:%S.000"), ""),
}
# Fields that are known but have no honest value here: with them a header shows the right unit.
UNMEASURED = {
    "utilization.gpu": "%",
    "utilization.memory": "%",
    "temperature.gpu": "",
    "temperature.memory": "",
    "power.draw": "W",
    "power.limit": "W",
    "power.max_limit": "W",
    "fan.speed": "%",
    "clocks.sm": "MHz",
    "clocks.mem": "MHz",
    "clocks.gr": "MHz",
    "clocks.current.sm": "MHz",
    "clocks.current.memory": "MHz",
    "clocks.max.sm": "MHz",
    "clocks.max.memory": "MHz",
    "pstate": "",
    "serial": "",
    "vbios_version": "",
    "ecc.mode.current": "",
    "pcie.link.gen.current": "",
    "pcie.link.width.current": "",
}


def query_csv(listed: list[Device], fields: list[str], options: set[str]) -> str:
    """The CSV of `--query-gpu`. Raises ValueError for a field that nvidia-smi would not know either."""
    columns = []
    for field in fields:
        if field in QUERIES:
            columns.append((field, *QUERIES[field]))
        elif field in UNMEASURED:
            columns.append((field, lambda device: NOT_AVAILABLE, UNMEASURED[field]))
        else:
            raise ValueError(field)
    units = "nounits" not in options
    lines = []
    if "noheader" not in options:
        # Like nvidia-smi, the header keeps the unit although the values lose it.
        lines.append(", ".join(f"{name} [{unit}]" if unit else name for name, _, unit in columns))
    for device in listed:
        cells = []
        for _, value, unit in columns:
            text = value(device)
            cells.append(f"{text} {unit}" if units and unit and text != NOT_AVAILABLE else text)
        lines.append(", ".join(cells))
    return "\n".join(lines) + "\n"


def overview(listed: list[Device], cuda_version: str) -> str:
    """The table that nvidia-smi prints without options, in the same places."""
    width = 89
    rule = "+" + "-" * width + "+"
    title = f" Cuttle {__version__} (nvidia-smi stand-in)    Driver Version: {DRIVER_BRANCH}    CUDA Version: {cuda_version}"
    lines = [time.strftime("%a %b %e %H:%M:%S %Y"), rule, f"|{title:<{width}}|", rule]
    cells = (41, 24, 22)
    split = "|" + "+".join("-" * cell for cell in cells) + "|"
    lines += [
        row(cells, " GPU  Name                 Persistence-M", " Bus-Id          Disp.A", " Volatile Uncorr. ECC"),
        row(cells, " Fan  Temp   Perf          Pwr:Usage/Cap", "           Memory-Usage", " GPU-Util  Compute M."),
        split.replace("-", "="),
    ]
    for device in listed:
        name = str(device["name"])[:26]
        memory = f"0MiB / {mebibytes(device['memory_bytes']):>6}MiB"
        lines += [
            row(cells, f" {device['index']:>3}  {name:<26}     Off", f" {bus_id(device)} Off", f"{'N/A':>21}"),
            row(cells, " N/A   N/A   N/A              N/A /  N/A", f"{memory:>23}", f"{'N/A      Default':>21}"),
            split,
        ]
    lines[-1] = rule
    lines += ["", rule, f"|{' Processes:':<{width}}|"]
    lines += [f"|{'  Each program has a device of its own; none is listed here.':<{width}}|", rule]
    return "\n".join(lines) + "\n"


def row(widths: tuple[int, ...], *cells: str) -> str:
    return "|" + "|".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)) + "|"


def xml(listed: list[Device], cuda_version: str) -> str:
    """A small `-q -x`: the elements that monitoring scripts read."""
    lines = [
        '<?xml version="1.0" ?>',
        "<nvidia_smi_log>",
        f"\t<timestamp>{time.strftime('%a %b %e %H:%M:%S %Y')}</timestamp>",
        f"\t<driver_version>{DRIVER_BRANCH}</driver_version>",
        f"\t<cuda_version>{cuda_version}</cuda_version>",
        f"\t<attached_gpus>{len(listed)}</attached_gpus>",
    ]
    for device in listed:
        total = mebibytes(device["memory_bytes"])
        lines += [
            f'\t<gpu id="{bus_id(device)}">',
            f"\t\t<product_name>{escape(str(device['name']))}</product_name>",
            f"\t\t<uuid>{device['uuid']}</uuid>",
            f"\t\t<minor_number>{device['index']}</minor_number>",
            "\t\t<fb_memory_usage>",
            f"\t\t\t<total>{total} MiB</total>",
            "\t\t\t<reserved>0 MiB</reserved>",
            "\t\t\t<used>0 MiB</used>",
            f"\t\t\t<free>{total} MiB</free>",
            "\t\t</fb_memory_usage>",
            "\t\t<compute_mode>Default</compute_mode>",
            "\t\t<utilization>\n\t\t\t<gpu_util>N/A</gpu_util>\n\t\t\t<memory_util>N/A</memory_util>\n\t\t</utilization>",
            "\t\t<temperature>\n\t\t\t<gpu_temp>N/A</gpu_temp>\n\t\t</temperature>",
            "\t\t<processes>\n\t\t</processes>",
            "\t</gpu>",
        ]
    lines.append("</nvidia_smi_log>")
    return "\n".join(lines) + "\n"


def plain(listed: list[Device], cuda_version: str) -> str:
    """`-q` without `-x`."""
    lines = [
        "==============NVSMI LOG==============",
        "",
        f"{'Driver Version':<42}: {DRIVER_BRANCH}",
        f"{'CUDA Version':<42}: {cuda_version}",
        "",
        f"{'Attached GPUs':<42}: {len(listed)}",
    ]
    for device in listed:
        total = mebibytes(device["memory_bytes"])
        lines += [
            f"GPU {bus_id(device)}",
            f"    {'Product Name':<38}: {device['name']}",
            f"    {'GPU UUID':<38}: {device['uuid']}",
            "    FB Memory Usage",
            f"        {'Total':<34}: {total} MiB",
            f"        {'Reserved':<34}: 0 MiB",
            f"        {'Used':<34}: 0 MiB",
            f"        {'Free':<34}: {total} MiB",
            f"    {'Compute Mode':<38}: Default",
        ]
    return "\n".join(lines) + "\n"


def chosen(listed: list[Device], identifier: str | None) -> list[Device]:
    """The devices that `-i` names: indices, UUIDs or bus ids. Raises ValueError if there is none."""
    if identifier is None:
        return listed
    found = []
    for name in identifier.split(","):
        matching = [d for d in listed if name.strip() in (str(d["index"]), d["uuid"], bus_id(d))]
        if not matching:
            raise ValueError(name)
        found += matching
    return found


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser("nvidia-smi", description="Cuttle's stand-in for nvidia-smi.", allow_abbrev=False)
    options.add_argument("-L", "--list-gpus", action="store_true", help="one line a device")
    options.add_argument("-q", "--query", action="store_true", help="details")
    options.add_argument("-x", "--xml-format", action="store_true", help="with -q: XML")
    options.add_argument("-i", "--id", help="index, UUID or bus id")
    options.add_argument("--query-gpu", metavar="FIELDS", help="CSV of these fields")
    options.add_argument("--query-compute-apps", metavar="FIELDS", help="always empty")
    options.add_argument("--format", default="csv", help="csv[,noheader][,nounits]")
    options.add_argument("-f", "--filename", help="write to this file")
    options.add_argument("--version", action="store_true", help="versions")
    return options


def answer(options: argparse.Namespace) -> str:
    report = devices()
    version = report["driver_version"]
    cuda_version = f"{version // 1000}.{version % 1000 // 10}"
    for device in report["devices"]:
        device["count"] = len(report["devices"])
    listed = chosen(report["devices"], options.id)
    if options.version:
        return f"Cuttle's nvidia-smi stand-in : {__version__}\nDRIVER version : {DRIVER_BRANCH}\nCUDA Version : {cuda_version}\n"
    if options.list_gpus:
        return "".join(f"GPU {d['index']}: {d['name']} (UUID: {d['uuid']})\n" for d in listed)
    form = {part.strip() for part in options.format.split(",")}
    if options.query_gpu:
        return query_csv(listed, [part.strip() for part in options.query_gpu.split(",") if part.strip()], form)
    if options.query_compute_apps:
        return "" if "noheader" in form else ", ".join(options.query_compute_apps.split(",")) + "\n"
    if options.query:
        return xml(listed, cuda_version) if options.xml_format else plain(listed, cuda_version)
    return overview(listed, cuda_version)


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        text = answer(options)
    except ValueError as error:
        if options.id and str(error) in options.id:
            sys.stdout.write("No devices were found\n")
            return 6  # nvidia-smi's code for a query that matched nothing
        sys.stdout.write(f'Field "{error}" is not a valid field to query.\n')
        return 2
    except CuttleError as error:
        sys.stderr.write(error.render() + "\n")
        return 9  # nvidia-smi's code for "driver is not loaded"
    return write(text, options.filename)


def write(text: str, path: str | None) -> int:
    """To a file, or to stdout if none is named; returns the exit code."""
    try:
        if path:
            Path(path).write_text(text, encoding="utf-8")
        elif sys.stdout is not None:
            sys.stdout.write(text)
            sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = None  # nothing may be flushed into the closed pipe at exit
        return 141
    except OSError as error:
        if not path:
            sys.stdout = None
        problem = CuttleError(
            "CLI-0602", f"{path or 'standard output'}: {error.strerror}", hint="-f FILENAME names a file."
        )
        sys.stderr.write(problem.render() + "\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
