"""An engine that is there: its folder, its libraries, and the variables of a program that runs on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cuttle.abi.stack_engines import BY_NAME, EngineFile
from cuttle.errors import StackError
from cuttle.stack.install import component_home, this_platform
from cuttle.stack.journal import Root
from cuttle.stack.runtime_config import CONFIG_NAME, RuntimeConfig, read_config


@dataclass(frozen=True, slots=True)
class EngineInPlace:
    """`folder` holds the libraries; `variables` are what the engine itself wants besides those of `run_variables`."""

    name: str
    version: str
    platform: str
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def files(self) -> list[Path]:
        """All libraries of the engine that are in its folder, in the order of its row."""
        found = []
        for file in BY_NAME[self.name].files:
            names = file.windows if self.platform == "windows" else file.linux
            found += [self.folder / name for name in names if (self.folder / name).is_file()]
        return found

    def library(self, row: EngineFile) -> Path | None:
        """The newest file of a row, or None."""
        names = row.windows if self.platform == "windows" else row.linux
        return next((self.folder / name for name in names if (self.folder / name).is_file()), None)


def configuration(root: Root) -> RuntimeConfig | None:
    """`runtime-config.json` of an installation, None if there is none. Raises STK-0703."""
    path = root.path / CONFIG_NAME
    return read_config(path) if path.exists() else None


def zluda_in_place(root: Root, platform: str | None = None) -> EngineInPlace:
    """The installed ZLUDA; else the one that a configuration of the PowerShell scripts names. Raises STK-0405."""
    chosen = platform or this_platform()
    component = root.installed().components.get("zluda")
    if component is not None:
        return EngineInPlace("zluda", component.version, chosen, component_home(root, component))
    config = configuration(root)
    if config is not None and config.zluda_root and Path(config.zluda_root).is_dir():
        return EngineInPlace("zluda", str(config.upstream.get("zluda_release", "")), chosen, Path(config.zluda_root))
    raise StackError("STK-0405", f"the engine zluda is not installed in {root.path}")


def prepended(folders: list[str], value: str | None, separator: str) -> str:
    """Folders in front of a list of folders, each once. Empty entries stay: for the loader they mean the current folder."""
    rest = [entry for entry in value.split(separator) if entry not in folders] if value else []
    return separator.join([*folders, *rest])


AUDIT_MODULE = "zluda_ld"
LAUNCHER = "zluda.exe"


def insisting_variables(engine: EngineInPlace, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of Linux that let the engine win over libraries which a program names by DT_RPATH: ZLUDA's audit module, or its driver preloaded.

    Raises STK-0603 where there is no such means.
    """
    if engine.platform == "linux":
        audit = engine.folder / AUDIT_MODULE
        if engine.name == "zluda" and audit.exists():
            return {"LD_AUDIT": prepended([str(audit)], environment.get("LD_AUDIT"), ":")}
        driver = engine.library(BY_NAME[engine.name].files[0])
        if driver is not None:
            return {"LD_PRELOAD": prepended([str(driver)], environment.get("LD_PRELOAD"), ":")}
    raise StackError("STK-0603", f"the engine {engine.name} has no means to win over a program's own libraries here")


def run_variables(
    engine: EngineInPlace, config: RuntimeConfig | None, environment: Mapping[str, str], program_folder: Path | None
) -> dict[str, str]:
    """The variables of a program on this engine that differ from `environment`; they are set for that program only.

    ZLUDA's: ZLUDA_CC, TORCH_CUDNN_V8_API_DISABLED, HIP_PATH, the kernels of rocBLAS and hipBLASLt, HIP_VISIBLE_DEVICES for the configured GPU, and where the libraries are.
    What the user has set himself stays, except for the lists of folders.
    """
    windows = engine.platform == "windows"
    separator = ";" if windows else ":"
    variables: dict[str, str] = dict(engine.variables)
    folders = [str(engine.folder)]
    if engine.name == "zluda":
        # As ZLUDA's launcher: PyTorch's newer way to cuDNN needs what ZLUDA does not have.
        defaults = {"TORCH_CUDNN_V8_API_DISABLED": "1"}
        if config is not None:
            defaults["ZLUDA_CC"] = config.zluda_cc
            defaults["TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"] = config.torch_allow_tf32_cublas_override
            if config.gpu.hip_visible_device is not None:
                defaults["HIP_VISIBLE_DEVICES"] = config.gpu.hip_visible_device
            if config.hip_root:
                binaries = os.path.join(config.hip_root, "bin" if windows else "lib")
                defaults["HIP_PATH"] = config.hip_root
                defaults["ROCBLAS_TENSILE_LIBPATH"] = os.path.join(binaries, "rocblas", "library")
                defaults["HIPBLASLT_TENSILE_LIBPATH"] = _hipblaslt_folder(binaries, config.gpu.arch)
                folders.append(binaries)
            if config.libtorch_root:
                folders += [os.path.join(config.libtorch_root, name) for name in ("lib", "bin")]
        variables.update((name, value) for name, value in defaults.items() if name not in environment)
    if windows:
        beside = [str(program_folder)] if program_folder is not None else []
        variables["PATH"] = prepended([*beside, *folders], _lookup(environment, "PATH"), separator)
    else:
        name = "LD_LIBRARY_PATH"
        variables[name] = prepended(folders, variables.get(name, environment.get(name)), separator)
    return variables


def _hipblaslt_folder(binaries: str, target: str | None) -> str:
    """hipBLASLt's kernels: some versions have a folder for each target."""
    folder = os.path.join(binaries, "hipblaslt", "library")
    own = os.path.join(folder, target) if target else folder
    return own if os.path.isdir(own) else folder


def _lookup(environment: Mapping[str, str], name: str) -> str | None:
    """A variable of Windows, whose names do not differ in case."""
    return next((value for key, value in environment.items() if key.upper() == name), None)
