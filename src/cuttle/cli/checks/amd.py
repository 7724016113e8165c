"""Checks for owners of AMD GPUs: kernel driver, HIP, comgr, math libraries. Without an AMD GPU there is nothing to complain about."""

from __future__ import annotations

import os
from typing import Any

from cuttle.cli.checks import FAILURE, OK, WARNING, Context, Finding
from cuttle.cli.render import plain_table, size_text
from cuttle.device.needs_numpy import require_numpy
from cuttle.errors import DeviceError


def has_gpu(report: dict[str, Any]) -> bool:
    """Whether anything on this machine says that there is an AMD GPU."""
    kernel = report["kernel_driver"]
    return bool(kernel["gpus"] or kernel["pci"] or report["hip"]["chosen"])


def check_amd_driver(context: Context) -> Finding:
    """Does the kernel serve an AMD GPU, and may this user open it?"""
    kernel = context.amd["kernel_driver"]
    pci, problems = tuple(f"PCI {text}" for text in kernel["pci"]), tuple(kernel["problems"])
    if not kernel["gpus"]:
        if pci:
            hint = (
                "Load the driver (modprobe amdgpu); in a container, pass /dev/kfd, /dev/dri and /sys/class/kfd through."
            )
            return Finding(
                WARNING,
                "an AMD GPU is on the PCI bus, but the kernel's compute driver does not list it",
                hint,
                pci + problems,
            )
        if problems:
            return Finding(
                WARNING, f"the kernel's list of GPUs cannot be read: {problems[0]}", "Is this a container?", problems
            )
        if os.name == "nt":
            return Finding(OK, "on Windows, AMD's graphics driver brings HIP: see hip")
        if context.amd["hip"]["chosen"]:
            return Finding(OK, "the kernel's compute driver lists no AMD GPU, but HIP sees one: see hip")
        hint = "In a container, pass /dev/kfd, /dev/dri and /sys/class/kfd through; CUTTLE_DEVICE=cpu works everywhere."
        return Finding(context.missed("amd_driver"), "no AMD GPU on this machine", hint)
    details = (
        *(
            f"node {gpu['node']}: {gpu['target']}, PCI device {gpu['vendor_id']:04x}:{gpu['device_id']:04x}"
            for gpu in kernel["gpus"]
        ),
        *problems,
    )
    names = ", ".join(gpu["target"] for gpu in kernel["gpus"])
    for file in kernel["files"]:
        if not file["exists"]:
            return Finding(
                FAILURE, f"{names}: {file['path']} is missing", f"In a container: --device {file['path']}", details
            )
        if not file["usable"]:
            hint = f"sudo usermod -aG {file['group']} $USER, then log in again."
            return Finding(FAILURE, f"{names}: you may not open {file['path']} (group {file['group']})", hint, details)
    refused = [gpu["error"] for gpu in kernel["gpus"] if gpu["error"]]
    if len(refused) == len(kernel["gpus"]):
        return Finding(WARNING, refused[0]["message"], refused[0]["hint"], details)
    if problems:
        return Finding(
            WARNING, f"{names}; another entry cannot be read: {problems[0]}", "Is this a container?", details
        )
    return Finding(OK, f"{names}, served by the kernel driver", details=details)


def check_hip(context: Context) -> Finding:
    """Which HIP library is there, what version is it, and which GPUs does it see?"""
    hip = context.amd["hip"]
    details = tuple(line for report in hip["tried"] for line in hip_lines(report))
    chosen = hip["chosen"]
    if chosen is None:
        problem = hip["problem"]
        # Somebody without an AMD GPU needs no HIP, but a library that breaks is worth a word.
        mark = FAILURE if has_gpu(context.amd) else context.missed("hip")
        if mark == OK and problem["code"] != "DEV-0202":
            mark = WARNING
        return Finding(mark, problem["message"], problem["hint"], details)
    text = f"HIP {chosen['version']}: " + ", ".join(
        gpu.get("name") or f"GPU {gpu['index']}" for gpu in chosen["devices"]
    )
    refused = [gpu for gpu in chosen["devices"] if not gpu["supported"]]
    if refused and len(refused) == len(chosen["devices"]):
        return Finding(WARNING, f"{text}; {refused[0]['error']['message']}", refused[0]["error"]["hint"], details)
    try:
        require_numpy("this GPU")
    except DeviceError as error:
        return Finding(FAILURE if context.on_hip else WARNING, f"{text}; {error.message}", error.hint, details)
    return Finding(OK, f"{text} (CUTTLE_DEVICE=hip)", details=details)


def hip_lines(report: dict[str, Any]) -> list[str]:
    lines = [
        f"{report['path']} ({report['origin']}): " + (f"HIP {report['version']}" if report["version"] else "not usable")
    ]
    if report["evidence"]:
        lines.append(f"  {report['evidence']}")
    if report["problem"]:
        lines.append(f"  {report['problem']['message']}")
    for gpu in report["devices"]:
        if gpu["supported"]:
            memory, count = size_text(gpu["memory_bytes"]), gpu["multiprocessor_count"]
            lines.append(
                f"  {gpu['index']}: {gpu['name']}, {gpu['target']}, {memory}, {count} multiprocessors, PCI {gpu['pci']}"
            )
        else:
            lines.append(f"  {gpu['index']}: {gpu.get('name', 'GPU')}: {gpu['error']['message']}")
    return lines


def check_comgr(context: Context) -> Finding:
    """AMD's code object manager, with which code objects can be checked. Nothing needs it."""
    report = context.amd["comgr"]
    if report is None:
        return Finding(OK, "AMD's comgr is not installed (not needed)")
    if report["problem"]:
        return Finding(WARNING, report["problem"]["message"], report["problem"]["hint"], (report["path"],))
    text = f"comgr {report['version']}, interface {report['interface']}, knows {len(report['targets'])} targets"
    return Finding(OK, text, details=(report["path"], ", ".join(report["targets"])))


def check_amd_libraries(context: Context) -> Finding:
    """rocBLAS, hipBLASLt, hipFFT, rocSPARSE, MIOpen, RCCL: there, and for the HIP in use?"""
    libraries = context.amd["libraries"]
    rows = [
        (row["name"], row["state"], row["version"], row["purpose"], row["problem"] or row["path"]) for row in libraries
    ]
    details = tuple(plain_table(("library", "state", "version", "serves", "where or why"), rows).splitlines())
    unusable = [row for row in libraries if row["state"] == "unusable"]
    if unusable:
        text = f"{unusable[0]['name']} ({unusable[0]['path']}): {unusable[0]['problem']}"
        return Finding(WARNING, text, "Install the libraries of one ROCm version.", details)
    found = [f"{row['name']} {row['version']}".strip() for row in libraries if row["state"] == "found"]
    return Finding(
        OK,
        ", ".join(found) if found else "none of AMD's math libraries is installed (nothing uses them yet)",
        details=details,
    )
