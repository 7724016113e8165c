"""The stages of a kernel's way through `lower/cpu`, for `cuttle compile`. Imports LLVM."""

from __future__ import annotations

import json

from cuttle.lower.cpu.compile_kernel import compile_kernel
from cuttle.lower.cpu.options import CompileOptions
from cuttle.ptx.ir import Module


def lowered(
    module: Module, kernel: str, stage: str, block_shape: tuple[int, int, int] | None, cpu: str, optimization: int
) -> str:
    """One kernel as text: `llvm` as we write it, `optimized` by LLVM, `asm`, or the `image`'s metadata as JSON."""
    options = CompileOptions(block_shape=block_shape, processor=cpu, optimization=optimization)
    compiled = compile_kernel(module, kernel, options, want_ir=stage == "optimized", want_assembly=stage == "asm")
    if stage == "llvm":
        return compiled.source
    if stage == "optimized":
        return compiled.ir
    if stage == "asm":
        return compiled.assembly
    return json.dumps({**compiled.metadata, "file_bytes": len(compiled.file_bytes)}, indent=2) + "\n"
