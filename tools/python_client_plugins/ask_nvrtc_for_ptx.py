"""A pytest plugin for tests that let NVRTC make machine code: it makes PTX instead, for the same compute capability.

The tests stay as they are. On a GPU both ways end in the same kernel; Cuttle can only run PTX.
"""

from __future__ import annotations

from typing import Any

from cuda import nvrtc  # type: ignore[import-not-found]

_compile = nvrtc.nvrtcCompileProgram


def _compile_to_ptx(program: Any, count: int, options: list[bytes]) -> Any:
    return _compile(
        program, count, [option.replace(b"architecture=sm_", b"architecture=compute_") for option in options]
    )


nvrtc.nvrtcCompileProgram = _compile_to_ptx
nvrtc.nvrtcGetCUBINSize = nvrtc.nvrtcGetPTXSize
nvrtc.nvrtcGetCUBIN = nvrtc.nvrtcGetPTX
