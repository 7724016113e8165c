"""The stages of a kernel's way through `lower/cpu`, for `cuttle compile`. Imports LLVM."""

from __future__ import annotations

import json
import subprocess
import sys

from cuttle.errors import CuttleError
from cuttle.lower.cpu.compile_kernel import compile_kernel
from cuttle.lower.cpu.options import CompileOptions
from cuttle.ptx.ir import Module

# LLVM ends the process for some of the names that it knows, and only remarks on those that it does not.
TRY_PROCESSOR = """
import sys, llvmlite.binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
machine = llvm.Target.from_default_triple().create_target_machine(cpu=sys.argv[1])
machine.emit_object(llvm.parse_assembly("define i64 @f(i64 %x) { ret i64 %x }"))
"""


def require_processor(name: str) -> None:
    """Raises CuttleError CLI-0504 for a processor that LLVM does not have."""
    done = subprocess.run([sys.executable, "-c", TRY_PROCESSOR, name], capture_output=True, text=True, check=False)
    if done.returncode or done.stderr:
        raise CuttleError("CLI-0504", f"LLVM has no 64-bit processor {name}")


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
