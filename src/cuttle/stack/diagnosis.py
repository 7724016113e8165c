"""`doctor`: what keeps the stack from working on this machine. Every check is a function of a `Situation`; it looks and changes nothing.

Most come from what users of this route ran into: no HIP SDK or one of another major version, math libraries without kernels for the GPU, the integrated GPU as
HIP's first, DLLs that an antivirus tool removed, another CUDA library in front, kernels of another driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from cuttle.abi.stack_engines import SYSTEM_FILES
from cuttle.errors import StackError
from cuttle.stack.engine import EngineInPlace
from cuttle.stack.install import differences
from cuttle.stack.journal import Root
from cuttle.stack.machine import Machine, select
from cuttle.stack.manifest import Manifest
from cuttle.stack.plan import engine_row
from cuttle.stack.runtime_config import CONFIG_NAME, RuntimeConfig

Mark = Literal["ok", "warning", "failure", "crash"]


class Finding(msgspec.Struct, frozen=True):
    """What a check saw. `warning`: works, but; `failure`: will not work; `crash`: the check itself failed."""

    check: str
    mark: Mark
    text: str
    hint: str = ""


class DoctorResult(msgspec.Struct, frozen=True):
    """The data of `doctor`."""

    engine: str
    checks: list[Finding]


@dataclass(frozen=True)
class Situation:
    """All that checks look at. `engine` None: it is not installed; `engine_problem` says why."""

    machine: Machine
    manifest: Manifest
    root: Root
    engine_name: str
    engine: EngineInPlace | None
    engine_problem: str
    config: RuntimeConfig | None
    environment: Mapping[str, str]


Verdict = tuple[Mark, str, str]


def ok(text: str) -> Verdict:
    return "ok", text, ""


def _needs_hip(situation: Situation) -> bool:
    return bool(engine_row(situation.engine_name).hip_majors)


def check_gpu(situation: Situation) -> Verdict:
    """Is there an AMD GPU that the engine can use?"""
    gpu = select(situation.machine)
    if gpu is None:
        if not _needs_hip(situation):
            return ok("no AMD GPU; the engine cuttle runs on the CPU")
        return "failure", "no AMD GPU was found", StackError("STK-0701", "").hint
    support = gpu.support.get(situation.engine_name)
    text = f"{gpu.name} {gpu.target}" + (f": {support.state} ({support.evidence})" if support else "")
    if support is not None and support.state == "not supported":
        hint = "The engine cuttle also runs on the CPU: cuttle stack run --engine cuttle."
        return ("failure" if _needs_hip(situation) else "warning"), text, hint
    return ok(text)


def check_gpu_order(situation: Situation) -> Verdict:
    """Is the first GPU of HIP the one to use? CUDA puts the fastest first, HIP does not."""
    seen = [gpu for gpu in situation.machine.gpus if gpu.hip_index is not None]
    first = min(seen, key=lambda gpu: gpu.hip_index or 0, default=None)
    best = select(situation.machine)
    if first is None or best is None or best.hip_index == first.hip_index or not first.integrated:
        return ok("HIP's first GPU is the one to use" if first is not None else "HIP sees no GPU")
    if best.hip_index is None:
        return ok(f"HIP sees {first.name} only")
    chosen = situation.config.gpu.hip_visible_device if situation.config is not None else None
    if situation.environment.get("HIP_VISIBLE_DEVICES") or chosen == str(best.hip_index):
        return ok(f"{best.name} is chosen although HIP lists {first.name} first")
    hint = f"`cuttle stack install` writes the choice down; by hand: HIP_VISIBLE_DEVICES={best.hip_index}. Some HIP versions ignore it on Windows: then disable the integrated GPU."
    return "warning", f"HIP lists the integrated {first.name} before {best.name}", hint


def check_kernel_driver(situation: Situation) -> Verdict:
    """Is the kernel driver loaded, and may this user use it?"""
    machine = situation.machine
    if machine.platform == "windows":
        versions = sorted({gpu.driver_version for gpu in machine.gpus if gpu.driver_version})
        if machine.gpus and not versions:
            return (
                "warning",
                "the version of the graphics driver is not known",
                "Update AMD Software: Adrenalin Edition.",
            )
        return ok(f"graphics driver {', '.join(versions)}" if versions else "no AMD graphics driver")
    if machine.kfd == "usable":
        return ok("/dev/kfd can be used")
    if not machine.gpus and not _needs_hip(situation):
        return ok("no /dev/kfd, and no AMD GPU that would need it")
    hint = {
        "no permission": "Add yourself to the group that owns /dev/kfd (render), and log in again.",
        "missing": "Load the amdgpu driver; in a container pass /dev/kfd and /dev/dri; WSL has /dev/dxg instead, which needs AMD's ROCm for WSL.",
    }.get(machine.kfd, "")
    return ("failure" if _needs_hip(situation) else "warning"), f"/dev/kfd: {machine.kfd}", hint


def check_hip(situation: Situation) -> Verdict:
    """Is HIP there, in a version that the engine works with?"""
    machine, sdk = situation.machine, situation.manifest.hip_sdk
    first = machine.hip[0] if machine.hip else None
    if not _needs_hip(situation):
        return ok(
            f"HIP {first.version or first.major} ({first.origin})"
            if first
            else "no HIP; the engine cuttle runs on the CPU without it"
        )
    wanted = [major for major in engine_row(situation.engine_name).hip_majors if major in sdk.majors]
    words = " or ".join(map(str, wanted))
    if first is None:
        return (
            "failure",
            f"HIP was not found; version {words} is needed",
            f"Install AMD's HIP SDK {sdk.version} or ROCm: {sdk.page}",
        )
    if first.major not in wanted:
        hint = f"Install HIP SDK {sdk.version} ({sdk.page}), or `cuttle stack install --channel latest`."
        return (
            "failure",
            f"HIP {first.version or first.major} ({first.origin}) is first; version {words} is needed",
            hint,
        )
    return ok(f"HIP {first.version or first.major} ({first.origin})")  # fmt: skip


def check_hip_versions(situation: Situation) -> Verdict:
    """Are there HIPs of several major versions? Two of them in one process crash."""
    majors = sorted({hip.major for hip in situation.machine.hip if hip.major is not None})
    if len(majors) < 2:
        return ok("one major version of HIP" if majors else "no HIP")
    places = ", ".join(f"{hip.version or hip.major} ({hip.origin})" for hip in situation.machine.hip)
    return "warning", f"HIPs of several major versions: {places}", "Keep one, or point HIP_PATH at the one to use."


def _library(name: str, needed_for: str) -> Callable[[Situation], Verdict]:
    def check(situation: Situation) -> Verdict:
        found = next((library for library in situation.machine.math_libraries if library.name == name), None)
        if not _needs_hip(situation):
            return ok(f"{name} is not used by the engine cuttle in this version")
        if found is None:
            return "warning", f"{name} was not looked for", ""
        if found.state == "found":
            return ok(f"{name} {found.version}".strip())
        return "warning", f"{name}: {found.problem}", f"Programs that call {needed_for} will fail."

    check.__doc__ = f"Is {name} there, for this HIP, with kernels for this GPU? It serves {needed_for}."
    return check


check_rocblas = _library("rocBLAS", "cuBLAS")
check_hipblaslt = _library("hipBLASLt", "cuBLASLt")
check_rocsparse = _library("rocSPARSE", "cuSPARSE")
check_hipfft = _library("hipFFT", "cuFFT")
check_miopen = _library("MIOpen", "cuDNN")


def check_engine(situation: Situation) -> Verdict:
    """Is the engine installed?"""
    if situation.engine is None:
        return "failure", situation.engine_problem, "`cuttle stack install` installs it."
    count = len(situation.engine.files())
    return ok(f"{situation.engine.name} {situation.engine.version}, {count} libraries")


def check_installed_files(situation: Situation) -> Verdict:
    """Are all installed files there and unchanged? Antivirus tools remove DLLs of compatibility layers."""
    bad = []
    if not situation.root.installed().components:
        return ok("nothing is installed that could be damaged")
    for component in situation.root.installed().components.values():
        bad += differences(situation.root, component)
    if not bad:
        return ok("installed files are as they were installed")
    missing = [difference for difference in bad if difference.what == "missing"]
    name = Path(bad[0].path).name
    if missing:
        hint = "An antivirus tool may have removed them: exclude the folder of the installation, then `cuttle stack install` again."
        return "failure", f"{len(missing)} installed files are missing ({Path(missing[0].path).name})", hint
    return "failure", f"{len(bad)} installed files were changed ({name})", "`cuttle stack install` puts them right."


def check_configuration(situation: Situation) -> Verdict:
    """Does the configuration fit what is there?"""
    config = situation.config
    if config is None:
        return ok(f"no {CONFIG_NAME}")
    for name, folder in (
        ("zluda_root", config.zluda_root),
        ("hip_root", config.hip_root),
        ("libtorch_root", config.libtorch_root),
    ):
        if folder and not Path(folder).is_dir():
            return (
                "failure",
                f"{name} of {CONFIG_NAME} is a folder that is not there",
                "`cuttle stack install` writes it again.",
            )
    gpus = situation.machine.gpus
    if config.gpu.arch and gpus and config.gpu.arch not in {gpu.target for gpu in gpus}:
        return (
            "warning",
            f"{CONFIG_NAME} is for {config.gpu.arch}; this machine has another GPU",
            "`cuttle stack install` writes it again.",
        )
    return ok(f"{CONFIG_NAME} fits this machine")  # fmt: skip


def check_search_path(situation: Situation) -> Verdict:
    """Does another CUDA library stand where programs look first?"""
    windows = situation.machine.platform == "windows"
    variable = "PATH" if windows else "LD_LIBRARY_PATH"
    value = next((text for name, text in situation.environment.items() if name.upper() == variable), "")
    own = {os.path.realpath(situation.engine.folder)} if situation.engine is not None else set()
    for position, folder in enumerate(entry for entry in value.split(";" if windows else ":") if entry):
        if os.path.realpath(folder) in own:
            return ok(f"the engine's libraries come first on {variable}")
        for row in SYSTEM_FILES:
            for name in row.windows if windows else row.linux:
                if os.path.isfile(os.path.join(folder, name)):
                    hint = f"`cuttle stack run` puts the engine in front; programs that are started otherwise get this {name}."
                    return "warning", f"{name} lies in entry {position + 1} of {variable}", hint
    return ok(f"no CUDA library on {variable}")


def check_nvidia_driver(situation: Situation) -> Verdict:
    """Is NVIDIA's driver installed, too?"""
    if situation.machine.platform == "linux" and Path("/proc/driver/nvidia/version").exists():
        return ok("NVIDIA's driver is installed; programs that `cuttle stack run` starts get the engine")
    system = next((text for name, text in situation.environment.items() if name.upper() == "SYSTEMROOT"), "")
    if situation.machine.platform == "windows" and system and (Path(system) / "System32" / "nvcuda.dll").is_file():
        hint = "Programs that load nvcuda.dll by its full path get NVIDIA's, or what another tool put there."
        return "warning", "System32 holds an nvcuda.dll", hint
    return ok("no driver of NVIDIA's")


def check_scan(situation: Situation) -> Verdict:
    """Could everything be read?"""
    if situation.machine.problems:
        return "warning", "; ".join(situation.machine.problems[:3]), ""
    return ok("GPUs, drivers and HIP could be read")


CHECKS: dict[str, Callable[[Situation], Verdict]] = {
    "gpu": check_gpu,
    "gpu_order": check_gpu_order,
    "kernel_driver": check_kernel_driver,
    "hip": check_hip,
    "hip_versions": check_hip_versions,
    "rocblas": check_rocblas,
    "hipblaslt": check_hipblaslt,
    "rocsparse": check_rocsparse,
    "hipfft": check_hipfft,
    "miopen": check_miopen,
    "engine": check_engine,
    "installed_files": check_installed_files,
    "configuration": check_configuration,
    "search_path": check_search_path,
    "nvidia_driver": check_nvidia_driver,
    "scan": check_scan,
}


def diagnose(situation: Situation, name: str) -> Finding:
    """Runs one check; what it raises is a finding of its own kind."""
    try:
        mark, text, hint = CHECKS[name](situation)
    except Exception as error:
        return Finding(
            name, "crash", f"the check itself failed: {type(error).__name__}: {error}", "Please report this."
        )
    return Finding(name, mark, text, hint)
