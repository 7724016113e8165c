"""`runtime-config.json` (schema 2) and `gpu-report.json` (schema 1) as the PowerShell scripts of CUDA-for-AMD-Windows write and read them.

Facts: that project's `scripts/setup.ps1` and `scripts/gpu-scan.ps1`. Its readers ask for fields by name, so all of them are written, in its order; fields
that later versions added are kept when a file is read and written again.
"""

from __future__ import annotations

import datetime
from pathlib import Path, PureWindowsPath
from typing import Any

import msgspec

from cuttle.errors import StackError
from cuttle.stack.gpu_lookup import generation
from cuttle.stack.journal import write_atomically
from cuttle.stack.machine import Gpu, Machine, select

CONFIG_NAME = "runtime-config.json"
REPORT_NAME = "gpu-report.json"
MOST_BYTES = 4 << 20
# Steers programs to code that an engine can translate; the scripts' own default.
DEFAULT_ZLUDA_CC = "8.6"


class ConfigGpu(msgspec.Struct, kw_only=True):
    """The chosen GPU. `hip_visible_device` is what HIP_VISIBLE_DEVICES is set to."""

    name: str | None = None
    arch: str | None = None
    index: int | None = None
    hip_visible_device: str | None = None
    project_status: str = "not-scanned"
    tested_reference: bool = False
    scanner_report: str | None = None


class RuntimeConfig(msgspec.Struct, kw_only=True):
    """What `run` needs to know of an installation. Paths are those of this machine."""

    schema: int = 2
    profile: str = ""
    gpu: ConfigGpu = msgspec.field(default_factory=ConfigGpu)
    zluda_root: str | None = None
    hip_root: str | None = None
    hip_sdk_target: str = ""
    libtorch_root: str | None = None
    custom_overlay_root: str | None = None
    zluda_cc: str = DEFAULT_ZLUDA_CC
    torch_allow_tf32_cublas_override: str = "1"
    upstream: dict[str, Any] = {}
    validation: dict[str, Any] = {}


class ReportGpu(msgspec.Struct, kw_only=True):
    """A device of `gpu-report.json`. `memory` is text, as hipInfo prints it."""

    index: int
    name: str
    gfx: str | None = None
    generation: str | None = None
    memory: str | None = None
    driver_version: str | None = None
    detection: str = ""
    current_windows_hip_sdk: bool | None = None
    project_tested: bool = False
    project_status: str = ""


class GpuReport(msgspec.Struct, kw_only=True):
    """`gpu-report.json`."""

    schema: int = 1
    generated_utc: str = ""
    windows: str = ""
    hip_root: str | None = None
    hip_version: str | None = None
    hip_info: str | None = None
    selected_gpu_index: int | None = None
    selected_gpu: ReportGpu | None = None
    devices: list[ReportGpu] = []
    notes: str = ""


def project_status(gpu: Gpu, engine: str) -> str:
    """The scripts' words for a support state. Nothing but a report of hardware makes a GPU a validated reference."""
    support = gpu.support.get(engine)
    state = support.state if support is not None else "unverified candidate"
    return {"verified on hardware": "validated-reference", "unverified candidate": "unverified-candidate"}.get(
        state, "experimental"
    )


def _report_gpu(gpu: Gpu, engine: str, sdk_targets: tuple[str, ...]) -> ReportGpu:
    status = project_status(gpu, engine)
    return ReportGpu(
        index=gpu.hip_index if gpu.hip_index is not None else gpu.index,
        name=gpu.name,
        gfx=gpu.target or None,
        generation=generation(gpu.target).upper() or None,
        memory=f"{gpu.memory_bytes / (1 << 30):.2f} GB" if gpu.memory_bytes else None,
        driver_version=gpu.driver_version or None,
        detection="WMI-fallback" if gpu.detection == "wmi" else gpu.detection,
        current_windows_hip_sdk=gpu.target in sdk_targets if sdk_targets else None,
        project_tested=status == "validated-reference",
        project_status=status,
    )


def gpu_report(
    machine: Machine, engine: str, hip_root: str, sdk_targets: tuple[str, ...] = (), gpu_index: int | None = None
) -> GpuReport:
    """The scripts' report of a machine."""
    devices = [_report_gpu(gpu, engine, sdk_targets) for gpu in machine.gpus]
    chosen = select(machine, gpu_index)
    selected = devices[chosen.index] if chosen is not None else None
    windows = machine.platform == "windows"
    return GpuReport(
        generated_utc=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.0000000Z"),
        windows=f"Microsoft Windows NT {machine.os_version}.0" if windows else f"Linux {machine.os_version}",
        hip_root=hip_root or None,
        hip_version=machine.hip[0].version if machine.hip else None,
        hip_info=str(PureWindowsPath(hip_root) / "bin" / "hipInfo.exe") if windows and hip_root else None,
        selected_gpu_index=selected.index if selected is not None else None,
        selected_gpu=selected,
        devices=devices,
        notes="Written by cuttle stack. Without a chosen index a discrete GPU that HIP sees is preferred.",
    )


def _write(path: Path, record: msgspec.Struct, kept: dict[str, Any]) -> None:
    """Writes a record; fields of an older file that this version does not know stay."""
    document = {**kept, **msgspec.to_builtins(record)}
    write_atomically(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def _read(path: Path, kind: type[msgspec.Struct], schemas: tuple[int, ...]) -> tuple[Any, dict[str, Any]]:
    """(record, unknown fields). Raises STK-0703."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        # PowerShell 5 puts a byte order mark in front.
        document = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=dict[str, Any])
        record = msgspec.convert(document, kind)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise StackError("STK-0703", f"{path.name}: {error}") from None
    except OSError as error:
        raise StackError("STK-0703", f"{path.name}: {error.strerror}") from None
    if document.get("schema") not in schemas:
        raise StackError("STK-0703", f"{path.name} has schema {document.get('schema')}, not {schemas[0]}")
    known = set(kind.__struct_fields__)
    return record, {name: value for name, value in document.items() if name not in known}


def read_config(path: Path) -> RuntimeConfig:
    """A `runtime-config.json`, checked. Raises STK-0703."""
    record: RuntimeConfig = _read(path, RuntimeConfig, (2,))[0]
    return record


def write_config(path: Path, config: RuntimeConfig) -> None:
    """Writes a `runtime-config.json`; what other tools put into an older one stays. Raises STK-0401, STK-0406."""
    try:
        kept = _read(path, RuntimeConfig, (2,))[1]
    except StackError:
        kept = {}  # no file, or none of this schema: replaced
    _write(path, config, kept)


def read_report(path: Path) -> GpuReport:
    """A `gpu-report.json`, checked. Raises STK-0703."""
    record: GpuReport = _read(path, GpuReport, (1,))[0]
    return record


def write_report(path: Path, report: GpuReport) -> None:
    """Writes a `gpu-report.json`. Raises STK-0401, STK-0406."""
    _write(path, report, {})
