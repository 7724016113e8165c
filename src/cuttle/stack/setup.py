"""`install` as a whole: plan, components, the configuration that `run` reads, the reports of the scripts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cuttle.abi.gpu_names import WINDOWS_HIP_SDK_TARGETS
from cuttle.device.hip.find_library import Place
from cuttle.errors import StackError
from cuttle.stack.check import CheckResult
from cuttle.stack.download import Patience
from cuttle.stack.hip_places import hip_root
from cuttle.stack.install import Progress, choose_engine, component_home, install_asset, silent
from cuttle.stack.journal import Installed, Root
from cuttle.stack.machine import Machine, select
from cuttle.stack.manifest import Manifest
from cuttle.stack.plan import Plan, make_plan, wanted_assets
from cuttle.stack.runtime_config import (
    CONFIG_NAME,
    REPORT_NAME,
    ConfigGpu,
    GpuReport,
    RuntimeConfig,
    gpu_report,
    project_status,
    write_config,
    write_report,
)


class InstallResult(msgspec.Struct, frozen=True):
    """The data of `install`: what there is now, and which components had to be fetched.

    `recovered`: what was done first with an installation that something had killed: `rolled back`, `finished`, or empty. `check`: its libraries tried, unless
    that was not wanted.
    """

    plan: Plan
    root: str
    components: dict[str, str]
    changed: list[str]
    config: str
    gpu_report: str
    recovered: str = ""
    check: CheckResult | None = None


def sdk_targets(machine: Machine) -> tuple[str, ...]:
    """Targets in AMD's list for the HIP SDK of a Windows machine."""
    if machine.platform != "windows" or not machine.hip or machine.hip[0].major is None:
        return ()
    return WINDOWS_HIP_SDK_TARGETS.get(machine.hip[0].major, ())


def scripts_report(machine: Machine, engine: str, gpu_index: int | None = None) -> GpuReport:
    """`gpu-report.json` of this machine."""
    return gpu_report(machine, engine, hip_root(Place.here()), sdk_targets(machine), gpu_index)


def make_config(
    root: Root, manifest: Manifest, machine: Machine, installed: Installed, engine: str, gpu_index: int | None
) -> RuntimeConfig:
    """`runtime-config.json` for what is installed."""
    gpu = select(machine, gpu_index)
    zluda, libtorch = installed.components.get("zluda"), installed.components.get("libtorch")
    chosen = ConfigGpu(scanner_report=str(root.path / REPORT_NAME))
    if gpu is not None:
        hip_index = str(gpu.hip_index) if gpu.hip_index is not None else None
        chosen = ConfigGpu(
            name=gpu.name,
            arch=gpu.target or None,
            index=gpu.hip_index if gpu.hip_index is not None else gpu.index,
            hip_visible_device=hip_index,
            project_status=project_status(gpu, engine),
            tested_reference=project_status(gpu, engine) == "validated-reference",
            scanner_report=str(root.path / REPORT_NAME),
        )
    parts = [f"auto-{gpu.target}" if gpu is not None and gpu.target else "manual", engine]
    parts += [component.folder for component in (zluda, libtorch) if component is not None]
    return RuntimeConfig(
        profile="-".join(parts),
        gpu=chosen,
        zluda_root=str(component_home(root, zluda)) if zluda is not None else None,
        hip_root=hip_root(Place.here()) or None,
        hip_sdk_target=manifest.hip_sdk.version,
        libtorch_root=str(component_home(root, libtorch)) if libtorch is not None else None,
        upstream={
            "zluda_release": zluda.version if zluda is not None else None,
            "zluda_windows_asset": zluda.asset_file if zluda is not None else None,
            "libtorch": libtorch.version if libtorch is not None else None,
            "zluda_channel": manifest.channel,
        },
        validation={"other_gpus": "unverified until somebody sends a report"},
    )


def install_all(
    root: Root,
    manifest: Manifest,
    engine: str,
    machine: Machine,
    libtorch: bool = False,
    force: bool = False,
    mirrors: Sequence[str] = (),
    progress: Progress = silent,
    gpu_index: int | None = None,
    patience: Patience | None = None,
    at_hand: Mapping[str, Path] | None = None,
) -> InstallResult:
    """Installs an engine (and LibTorch) and writes the configuration. `at_hand`: files of assets that need not be fetched. Raises STK-01xx to STK-04xx; then nothing is half-installed."""
    with root.locked() as recovered:
        plan = make_plan(manifest, engine, machine, root.installed(), libtorch, gpu_index)
        assets = wanted_assets(manifest, engine, machine.platform, libtorch)
        files = dict(at_hand or {})
        for name in files.keys() - {asset.name for asset in assets}:
            raise StackError("STK-0104", f"{name} is no asset of this installation")
        for asset in assets:
            asset.require_hash()
        lacking = [need for need in plan.requirements if need.required and not need.met]
        if lacking and not force:
            raise StackError("STK-0407", f"{lacking[0].name}: {lacking[0].text}", hint=lacking[0].hint)
        changed = []
        for asset in assets:
            component, done = install_asset(root, asset, mirrors, progress, patience, files.get(asset.name))
            if done:
                changed.append(component.name)
        choose_engine(root, manifest, engine)
        installed = root.installed()
        write_report(root.path / REPORT_NAME, scripts_report(machine, engine, gpu_index))
        write_config(root.path / CONFIG_NAME, make_config(root, manifest, machine, installed, engine, gpu_index))
    return InstallResult(
        plan,
        str(root.path),
        {name: component.version for name, component in installed.components.items()},
        changed,
        os.path.join(root.path, CONFIG_NAME),
        os.path.join(root.path, REPORT_NAME),
        recovered,
    )
