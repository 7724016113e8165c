"""The stages of a kernel's way through `lower/cpu`, for `cuttle compile`. Imports LLVM."""

from __future__ import annotations

import json

from cuttle.lower.cpu import compile_kernel
from cuttle.lower.cpu.options import CompileOptions
from cuttle.ptx.parser import ModuleIndex, parse_module


def lowered(index: ModuleIndex, kernel: str, stage: str, block_shape: tuple[int, int, int] | None, cpu: str) -> str:
    """`llvm`, `asm` or `image` of one kernel as text."""
    raise NotImplementedError(
        json.dumps(
            [kernel, stage, block_shape, cpu, str(index), str(compile_kernel), str(CompileOptions), str(parse_module)]
        )
    )
