"""The engines of `cuttle stack`, as frozen rows: which libraries they put in front of NVIDIA's, and which variables they want.

Facts: ZLUDA's `xtask` (names under which it installs each library) and its README (HIP_PATH, ZLUDA_CC); NVIDIA's file names of CUDA 11 to 13. The variables
for rocBLAS and hipBLASLt are AMD's.
"""

from __future__ import annotations

from dataclasses import dataclass

LIBRARIES = ("driver", "cublas", "cublaslt", "cusparse", "cufft", "cudnn", "nccl")


@dataclass(frozen=True, slots=True)
class EngineFile:
    """A library under its names, newest first. `library` is one of `LIBRARIES` or empty. `required`: the engine is none without it."""

    library: str
    linux: tuple[str, ...]
    windows: tuple[str, ...]
    required: bool = False


def _versions(pattern: str, *versions: int) -> tuple[str, ...]:
    return tuple(pattern.format(version) for version in versions)


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine. `hip_majors`: the HIP versions it works with; empty if it needs none. `marker`: the file that tells its folder."""

    name: str
    title: str
    files: tuple[EngineFile, ...]
    hip_majors: tuple[int, ...] = ()


DRIVER = EngineFile("driver", ("libcuda.so.1",), ("nvcuda.dll",), True)

ENGINES: tuple[Engine, ...] = (
    Engine("cuttle", "Cuttle's own client library and devices", (DRIVER,)),
    Engine(
        "zluda",
        "ZLUDA over AMD's HIP",
        (
            DRIVER,
            EngineFile("cublas", _versions("libcublas.so.{}", 13, 12, 11), _versions("cublas64_{}.dll", 13, 12, 11)),
            EngineFile("cublaslt", _versions("libcublasLt.so.{}", 13, 12, 11), _versions("cublasLt64_{}.dll", 13, 12, 11)),
            EngineFile("cusparse", _versions("libcusparse.so.{}", 12, 11, 10), _versions("cusparse64_{}.dll", 12, 11, 10)),
            EngineFile("cufft", _versions("libcufft.so.{}", 12, 11, 10), _versions("cufft64_{}.dll", 12, 11, 10)),
            EngineFile("cudnn", _versions("libcudnn.so.{}", 9, 8), _versions("cudnn64_{}.dll", 9, 8)),
            EngineFile("", ("libnvidia-ml.so.1",), ("nvml.dll",)),
            # Asked for by the CUDA runtime 13 on Windows; part of the upstream release.
            EngineFile("", (), ("nvcudart_hybrid64.dll",)),
        ),
        (6, 7),
    ),
)  # fmt: skip

BY_NAME = {engine.name: engine for engine in ENGINES}

# Names of NVIDIA's libraries for engines that lack them (NCCL), and to see which library stands in whose way.
SYSTEM_FILES: tuple[EngineFile, ...] = (
    *BY_NAME["zluda"].files[:6],
    EngineFile("nccl", ("libnccl.so.2",), ("nccl.dll",)),
)
