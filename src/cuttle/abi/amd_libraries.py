"""AMD's libraries by name, as frozen rows: which files they are on Linux and Windows, and what they need.

Facts: sonames of Debian 12 and of published ROCm packages, file names of AMD's HIP SDK and graphics drivers for Windows. Sonames move
with every major version, so files are searched by pattern.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AmdLibrary:
    """One library. `linux` is the name in front of `.so`; `windows` are patterns of file names, empty where AMD has none.

    `purpose` says which CUDA library calls it serves. `kernels` is the folder beside the library that holds its kernels, one set per GPU: some
    end the process when the GPU's are missing.
    """

    name: str
    linux: str
    windows: tuple[str, ...]
    purpose: str
    kernels: str = ""
    windows_remark: str = ""


HIP = AmdLibrary("HIP", "libamdhip64", ("amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"), "the GPU itself")
COMGR = AmdLibrary("comgr", "libamd_comgr", ("amd_comgr_3.dll", "amd_comgr*.dll"), "an optional check of code objects")

MATH_LIBRARIES: tuple[AmdLibrary, ...] = (
    AmdLibrary("rocBLAS", "librocblas", ("rocblas.dll",), "cuBLAS", "rocblas/library"),
    AmdLibrary("hipBLASLt", "libhipblaslt", ("libhipblaslt.dll", "hipblaslt.dll"), "cuBLASLt", "hipblaslt/library"),
    AmdLibrary("hipFFT", "libhipfft", ("hipfft.dll",), "cuFFT"),
    AmdLibrary("rocSPARSE", "librocsparse", ("rocsparse.dll",), "cuSPARSE"),
    AmdLibrary("MIOpen", "libMIOpen", ("MIOpen.dll",), "cuDNN", windows_remark="AMD's HIP SDK for Windows does not contain it"),
    AmdLibrary("RCCL", "librccl", (), "NCCL", windows_remark="AMD has none for Windows"),
)  # fmt: skip

# Windows: environment variables of AMD's installers, and folders below %ProgramFiles%.
WINDOWS_SDK_FOLDER = "AMD/ROCm"
ROOT_VARIABLES = ("HIP_PATH", "ROCM_PATH", "ROCM_HOME")
LINUX_FOLDERS = (
    "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/lib64",
)  # fmt: skip
