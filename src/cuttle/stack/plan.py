"""`plan`: what an installation would do, and what the machine lacks for it. Nothing is changed."""

from __future__ import annotations

from typing import Literal

import msgspec

from cuttle.abi.gpu_names import WINDOWS_HIP_SDK_TARGETS
from cuttle.abi.stack_engines import BY_NAME, Engine
from cuttle.errors import StackError
from cuttle.stack.install import room_needed
from cuttle.stack.journal import Installed
from cuttle.stack.machine import Machine, select
from cuttle.stack.manifest import Asset, Manifest

# Libraries that programs of most kinds call through the engine; without them the driver alone works.
WANTED_LIBRARIES = ("rocBLAS", "hipBLASLt", "rocSPARSE")


class PlannedAsset(msgspec.Struct, frozen=True):
    """One asset. `action`: `installed` (nothing to do), `fetch`, `refused` (no hash; `reason` says more). `size_bytes` None: not published."""

    name: str
    version: str
    file: str
    action: Literal["installed", "fetch", "refused"]
    size_bytes: int | None
    sha256: str | None
    hash_source: str
    reason: str


class Requirement(msgspec.Struct, frozen=True):
    """Something that the machine must have. What is not `required` is missed by some programs only."""

    name: str
    met: bool
    required: bool
    text: str
    hint: str = ""


class Plan(msgspec.Struct, frozen=True):
    """The data of `plan`. `room_bytes` is what has to be free while it is installed, as far as sizes are known."""

    channel: str
    engine: str
    platform: str
    gpu_index: int | None
    gpu_name: str
    gpu_target: str
    assets: list[PlannedAsset]
    requirements: list[Requirement]
    download_bytes: int
    room_bytes: int
    ready: bool


def engine_row(name: str) -> Engine:
    """The row of an engine. Raises STK-0405."""
    if name not in BY_NAME:
        raise StackError("STK-0405", f"there is no engine {name}; there are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def wanted_assets(manifest: Manifest, engine: str, platform: str, libtorch: bool) -> list[Asset]:
    """The assets of an installation: the engine's, unless it is part of Cuttle, and LibTorch if asked for. Raises STK-0104, STK-0405."""
    names = [] if engine_row(engine).name == "cuttle" else [engine]
    names += ["libtorch"] if libtorch else []
    return [manifest.asset(name, platform) for name in names]


def make_plan(
    manifest: Manifest, engine: str, machine: Machine, installed: Installed, libtorch: bool, gpu_index: int | None = None
) -> Plan:  # fmt: skip
    """What `install` would do on this machine. Raises STK-0104, STK-0405, STK-0702."""
    gpu = select(machine, gpu_index)
    assets = wanted_assets(manifest, engine, machine.platform, libtorch)
    planned = [_planned(asset, installed) for asset in assets]
    to_fetch = [asset for asset, plan in zip(assets, planned, strict=True) if plan.action == "fetch"]
    requirements = requirements_of(engine_row(engine), manifest, machine, gpu_index)
    return Plan(
        manifest.channel,
        engine,
        machine.platform,
        gpu.index if gpu is not None else None,
        gpu.name if gpu is not None else "",
        gpu.target if gpu is not None else "",
        planned,
        requirements,
        sum(asset.size_bytes or 0 for asset in to_fetch),
        max((room_needed(asset) for asset in to_fetch), default=0),
        all(plan.action != "refused" for plan in planned)
        and all(requirement.met or not requirement.required for requirement in requirements),
    )


def _planned(asset: Asset, installed: Installed) -> PlannedAsset:
    there = installed.components.get(asset.name)
    action: Literal["installed", "fetch", "refused"] = "fetch"
    reason = ""
    if asset.sha256 is None:
        action, reason = "refused", asset.why_no_hash
    elif there is not None and there.asset_sha256 == asset.sha256:
        action = "installed"
    elif there is not None:
        reason = f"replaces {there.version}"
    return PlannedAsset(
        asset.name, asset.version, asset.file, action, asset.size_bytes, asset.sha256, asset.hash_source, reason
    )


def requirements_of(
    engine: Engine, manifest: Manifest, machine: Machine, gpu_index: int | None = None
) -> list[Requirement]:
    """What an engine wants of a machine, and whether it is there."""
    if not engine.hip_majors:
        return []
    page = manifest.hip_sdk.page
    found: list[Requirement] = []
    gpu = select(machine, gpu_index)
    if gpu is None:
        found.append(Requirement("AMD GPU", False, True, "none was found", "`cuttle stack scan` says where it looked."))
    else:
        support = gpu.support.get(engine.name)
        met = support is None or support.state != "not supported"
        state = f": {support.state} ({support.evidence})" if support is not None else ""
        found.append(Requirement("AMD GPU", met, True, f"{gpu.name} {gpu.target}{state}"))
    if machine.platform == "linux":
        usable = machine.kfd == "usable"
        hint = {
            "no permission": "Add yourself to the group that owns /dev/kfd (render), and log in again.",
            "missing": "Load the amdgpu driver; in a container pass /dev/kfd and /dev/dri.",
        }.get(machine.kfd, "")
        found.append(Requirement("kernel driver", usable, True, f"/dev/kfd: {machine.kfd}", hint))
    majors = [major for major in engine.hip_majors if major in manifest.hip_sdk.majors]
    first = machine.hip[0] if machine.hip else None
    wanted = " or ".join(map(str, majors))
    if first is None:
        hint = f"Install AMD's HIP SDK {manifest.hip_sdk.version} or ROCm: {page}"
        found.append(Requirement("HIP", False, True, f"none was found; version {wanted} is needed", hint))
    else:
        met = first.major in majors
        text = f"{first.version or first.major} ({first.origin})" + ("" if met else f"; version {wanted} is needed")
        hint = (
            "" if met else f"Install HIP SDK {manifest.hip_sdk.version}: {page}, or take the channel for your version."
        )
        found.append(Requirement("HIP", met, True, text, hint))
    if (
        machine.platform == "windows"
        and gpu is not None
        and first is not None
        and first.major in WINDOWS_HIP_SDK_TARGETS
    ):
        listed = gpu.target in WINDOWS_HIP_SDK_TARGETS[first.major]
        text = f"{gpu.target} is {'' if listed else 'not '}in AMD's list for HIP SDK {first.major}"
        hint = "" if listed else "Its math libraries may lack kernels for this GPU."
        found.append(Requirement("HIP SDK's GPUs", listed, False, text, hint))
    for library in machine.math_libraries:
        if library.name in WANTED_LIBRARIES:
            text = f"{library.version} found" if library.state == "found" else library.problem
            found.append(Requirement(library.name, library.state == "found", False, text.strip()))
    return found
