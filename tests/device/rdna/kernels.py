"""LLVM text of small kernels, and what builds and runs them on an emulated GPU. Linked with LLD of the `ziglang` wheel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from cuttle.device.rdna.code_object import CodeObject
from cuttle.device.rdna.memory import Memory
from cuttle.device.rdna.program import Program, Report, load

TARGETS = ("gfx1100", "gfx1200")

_HEAD = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
declare void @llvm.amdgcn.s.barrier()
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
"""
# The index of the work-item in the grid, for kernels with one dimension.
INDEX = """
  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  %gid = call i32 @llvm.amdgcn.workgroup.id.x()
  %implicit = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %size.at = getelementptr i8, ptr addrspace(4) %implicit, i64 12
  %size16 = load i16, ptr addrspace(4) %size.at
  %size = zext i16 %size16 to i32
  %start = mul i32 %gid, %size
  %i = add i32 %start, %tid
  %i64 = zext i32 %i to i64
"""


@cache
def _machine(target: str, level: int) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(cpu=target, opt=level, reloc="pic")


def _optimised(text: str, target: str, level: int) -> Any:
    machine = _machine(target, level)
    module = llvm.parse_assembly(_HEAD + text)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(level))
    builder.getModulePassManager().run(module, builder)
    return module


def compile_text(text: str, target: str, level: int = 2) -> bytes:
    """A relocatable object."""
    return _machine(target, level).emit_object(_optimised(text, target, level))


def assembly(text: str, target: str, level: int = 2) -> str:
    """Assembly text of the same. (Code generation changes a module: each form needs a fresh one.)"""
    return _machine(target, level).emit_assembly(_optimised(text, target, level))


def link(relocatable: bytes) -> bytes:
    with TemporaryDirectory() as folder:
        source, result = Path(folder, "a.o"), Path(folder, "a.so")
        source.write_bytes(relocatable)
        subprocess.run([sys.executable, "-m", "ziglang", "ld.lld", "-shared", source, "-o", result], check=True)
        return result.read_bytes()


@cache
def code_object(text: str, target: str, level: int = 2) -> bytes:
    return link(compile_text(text, target, level))


class Gpu:
    """A program in a memory of its own, and buffers that hold arrays."""

    def __init__(self, text: str, target: str, level: int = 2) -> None:
        self.memory = Memory()
        self.program: Program = load(CodeObject.parse(code_object(text, target, level)), self.memory)

    def buffer(self, array: Any) -> int:
        data = np.ascontiguousarray(array)
        address = self.memory.allocate(max(1, data.nbytes))
        self.memory.write(address, data.tobytes())
        return address

    def array(self, address: int, count: int, dtype: Any) -> Any:
        return np.frombuffer(self.memory.read(address, count * np.dtype(dtype).itemsize), dtype)

    def run(self, name: str, *arguments: Any, grid: Any = (1, 1, 1), block: Any = (32, 1, 1), **options: Any) -> Report:
        """Arguments: ints are 64-bit addresses, NumPy scalars what they are."""
        kernarg = b""
        for argument in arguments:
            value = np.uint64(argument) if isinstance(argument, int) else argument
            kernarg += b"\0" * (-len(kernarg) % value.itemsize) + value.tobytes()
        return self.program.run(name, kernarg, grid, block, **options)


def elementwise(name: str, result: str, kinds: tuple[str, ...], body: str, declarations: str = "") -> str:
    """A kernel `out[i] = body(a[i], b[i], ...)`; the body computes %r of %x0, %x1, ..."""
    pointers = ", ".join(f"ptr addrspace(1) %p{n}" for n in range(len(kinds)))
    loads = "".join(
        f"  %q{n} = getelementptr {kind}, ptr addrspace(1) %p{n}, i64 %i64\n"
        f"  %x{n} = load {kind}, ptr addrspace(1) %q{n}\n"
        for n, kind in enumerate(kinds)
    )
    return (
        f"{declarations}\ndefine amdgpu_kernel void @{name}(ptr addrspace(1) %out, {pointers}) {{\n{INDEX}{loads}{body}\n"
        f"  %o = getelementptr {result}, ptr addrspace(1) %out, i64 %i64\n"
        f"  store {result} %r, ptr addrspace(1) %o\n  ret void\n}}\n"
    )


def run_elementwise(text: str, name: str, target: str, dtype: Any, *arrays: Any, **options: Any) -> Any:
    """Runs an `elementwise` kernel over arrays whose length is a multiple of 64."""
    gpu = Gpu(text, target)
    count = len(arrays[0])
    out = gpu.buffer(np.zeros(count, dtype))
    gpu.run(name, out, *(gpu.buffer(a) for a in arrays), grid=(count // 64, 1, 1), block=(64, 1, 1), **options)
    return gpu.array(out, count, dtype)


Runner = Callable[..., Any]
