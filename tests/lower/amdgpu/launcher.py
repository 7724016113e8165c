"""Compiles PTX kernels for an AMD GPU and runs them on the emulator, with the launch record as a device writes it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cuttle.abi.amdgpu_abi import AMDGPU_HEAP, AMDGPU_OUTPUT
from cuttle.abi.kernel_abi import FUNCTION_HANDLE_BASE
from cuttle.device.rdna.code_object import CodeObject
from cuttle.device.rdna.memory import Memory
from cuttle.device.rdna.program import Program, Report, load
from cuttle.lower.amdgpu.compile_kernel import CompiledCodeObject, compile_kernel
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.ptx.address_taken import address_taken
from cuttle.ptx.ir import Module
from cuttle.ptx.parser import parse_module

TARGETS = ("gfx1100", "gfx1200")
Array = np.ndarray[Any, Any]
Block = tuple[int, int, int]


@lru_cache(maxsize=64)
def compiled(text: str, kernel: str, options: AmdgpuOptions) -> tuple[Module, CompiledCodeObject, CodeObject]:
    module = parse_module(text)
    image = compile_kernel(module, kernel, options)
    return module, image, CodeObject.parse(image.code_object)


class Gpu:
    """Memory of one emulated GPU, the variables of a module in it, and launches of the module's kernels."""

    def __init__(self, text: str, target: str, *, specialise: bool = False, heap_bytes: int = 0) -> None:
        self.text, self.target, self.specialise = text, target, specialise
        self.memory = Memory()
        self.buffers: dict[int, Array] = {}
        self.variables: dict[str, int] = {}
        self.programs: dict[tuple[str, AmdgpuOptions], Program] = {}
        self.heap = self.make_heap(heap_bytes) if heap_bytes else 0
        self.output = 0

    # -- memory ------------------------------------------------------------------------------------------------------

    def put(self, data: Array | bytes) -> int:
        """A copy of an array in device memory; its address."""
        source = np.frombuffer(
            bytes(data) if isinstance(data, bytes) else np.ascontiguousarray(data).tobytes(), np.uint8
        )
        buffer = np.zeros(max(-(-len(source) // 16) * 16, 16), np.uint8)
        buffer[: len(source)] = source
        address = self.memory.reserve(len(buffer))
        self.memory.map(address, buffer)
        self.buffers[address] = buffer
        return address

    def get(self, address: int, like: Array) -> Array:
        return self.buffers[address][: like.nbytes].view(like.dtype).reshape(like.shape).copy()

    def make_heap(self, size: int) -> int:
        address = self.put(bytes(size))
        struct.pack_into("<QQ", self.buffers[address], 0, address + AMDGPU_HEAP.bytes, address + size)
        assert AMDGPU_HEAP.bytes % 16 == 0
        return address

    def variable(self, module: Module, name: str) -> int:
        """The address of a module variable, initialised when it is first asked for."""
        if name not in self.variables:
            row = module.variables[name]
            raw = bytearray(row.initial or b"").ljust(row.size_bytes, b"\0")
            handles = address_taken(module)
            for relocation in row.relocations:
                function = module.aliases.get(relocation.symbol, relocation.symbol)
                if function in handles:
                    value = FUNCTION_HANDLE_BASE | handles.index(function)
                else:
                    value = self.variable(module, relocation.symbol)
                raw[relocation.offset : relocation.offset + 8] = struct.pack("<Q", value + relocation.addend)
            self.variables[name] = self.put(bytes(raw))
        return self.variables[name]

    # -- launches ----------------------------------------------------------------------------------------------------

    def launch(
        self, kernel: str, grid: Block, block: Block, arguments: Sequence[int | float | bytes], *, dynamic_shared: int = 0,
        output_bytes: int = 1 << 16, **more: Any
    ) -> Report:  # fmt: skip
        """Arguments: integers for integer and pointer parameters, floats for `.f32` ones, bytes for anything."""
        options = AmdgpuOptions(self.target, block_shape=block if self.specialise else None)
        module, image, code = compiled(self.text, kernel, options)
        if (kernel, options) not in self.programs:
            self.programs[kernel, options] = load(code, self.memory)
        metadata = image.metadata
        kernarg = bytearray(metadata["kernarg_bytes"])
        for (offset, size), argument in zip(metadata["parameters"], arguments, strict=True):
            if isinstance(argument, float):
                argument = struct.pack("<f", argument)
            elif isinstance(argument, int):
                argument = (argument & (1 << 8 * size) - 1).to_bytes(size, "little")
            kernarg[offset : offset + size] = argument
        self.output = self.put(struct.pack("<Q", output_bytes).ljust(AMDGPU_OUTPUT.bytes + output_bytes, b"\0"))
        record = struct.pack("<8I4Q", *grid, *block, dynamic_shared, 0, 1, 0, self.output, self.heap)
        record += b"".join(struct.pack("<Q", self.variable(module, name)) for name in metadata["symbols"])
        kernarg[metadata["launch_offset"] :] = record
        assert len(kernarg) == metadata["kernarg_bytes"]
        return self.programs[kernel, options].run(
            kernel, bytes(kernarg), grid, block, dynamic_lds_bytes=dynamic_shared, **more
        )

    def fault(self) -> tuple[int, int, Block, int]:
        """Kind, line, block and thread of the last launch's fault; kind 0 is none."""
        kind, line, x, y, z, thread = struct.unpack_from("<6I", self.buffers[self.output], 16)
        return kind, line, (x, y, z), thread


def run(
    text: str, target: str, block: Block, arrays: Sequence[Array], *, kernel: str = "k", grid: Block = (1, 1, 1), **more: Any
) -> list[Array]:  # fmt: skip
    """Launches a kernel whose parameters are all arrays; the arrays as it leaves them."""
    gpu = Gpu(text, target, specialise=more.pop("specialise", False))
    places = [gpu.put(array) for array in arrays]
    gpu.launch(kernel, grid, block, places, **more)
    assert gpu.fault()[0] == 0, gpu.fault()
    return [gpu.get(place, array) for place, array in zip(places, arrays, strict=True)]
