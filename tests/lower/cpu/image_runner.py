"""Runs a compiled image inside the test process: what the executor does, in a few lines of ctypes.

Blocks run one after the other; blocks that stop unevenly are finished by `step` with the general barrier rules.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from cuttle.abi.kernel_abi import BLOCK, LAUNCH, SERVICES, STEP_DONE, STOPS, WARP
from cuttle.lower.cpu.compile_kernel import CompiledImage
from cuttle.lower.cpu.image_file import unpack_image
from cuttle.lower.cpu.region import field_offset

SERVICE = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32, *[ctypes.c_uint64] * 4)
BLOCKS = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)
STEP = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
STOP_NAMES = dict(STOPS)


def aligned(size: int, align: int = 256) -> tuple[Any, int]:
    """Zeroed memory and its aligned address."""
    buffer = ctypes.create_string_buffer(size + align)
    address = ctypes.addressof(buffer)
    return buffer, -(-address // align) * align


class ImageRunner:
    """An image loaded into this process."""

    def __init__(self, image: CompiledImage) -> None:
        self.metadata, blob = unpack_image(image.file_bytes)
        size = -(-len(blob) // 4096) * 4096 or 4096
        self.memory = mmap.mmap(-1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.memory.write(blob)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None)
        for offset in self.metadata["fixups"]:
            (word,) = struct.unpack_from("<Q", self.memory, offset)
            struct.pack_into("<Q", self.memory, offset, word + self.base)
        for offset, name in self.metadata["imports"]:
            address = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0
            struct.pack_into("<Q", self.memory, offset, address)
        # As in the executor: code does not write to its own image.
        assert libc.mprotect(ctypes.c_void_p(self.base), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC) == 0
        self.blocks = BLOCKS(self.base + self.metadata["blocks"])
        self.step = STEP(self.base + self.metadata["step"])
        self.services: list[tuple[str, int, tuple[int, ...]]] = []

    def service_table(self) -> Any:
        def make(name: str) -> Any:
            def call(block: int, thread: int, a: int, b: int, c: int, d: int) -> int:
                self.services.append((name, thread, (a, b, c, d)))
                return 0

            return SERVICE(call)

        self.callbacks = [make(name) for name, _ in SERVICES]
        addresses = [ctypes.cast(callback, ctypes.c_void_p).value or 0 for callback in self.callbacks]
        return (ctypes.c_uint64 * len(addresses))(*addresses)

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: bytes,
        *,
        symbols: Sequence[int] = (),
        dynamic_shared: int = 0,
        general: bool = False,
        flags: int = 2,
    ) -> None:
        """Runs the whole grid; `general` uses `step` for every block; `flags` as in `cuttle_launch`."""
        meta = self.metadata
        parameters, parameters_at = aligned(len(arguments) + 64)
        ctypes.memmove(parameters_at, arguments, len(arguments))
        table = self.service_table()
        symbol_table = (ctypes.c_uint64 * max(len(symbols), 1))(*symbols)
        threads = block[0] * block[1] * block[2]
        warps = -(-threads // 32)
        shared, shared_at = aligned(meta["static_shared_bytes"] + dynamic_shared + 256)
        local, local_at = aligned(meta["local_bytes"] * warps * 32 + 256)
        frame, frame_at = aligned(meta["frame_bytes"] * warps + 64)
        records, records_at = aligned(WARP.bytes * warps + 64)
        launch, launch_at = aligned(LAUNCH.bytes)
        put = struct.pack_into
        raw = (ctypes.c_char * LAUNCH.bytes).from_address(launch_at)
        put("<I", raw, field_offset(LAUNCH.fields, "flags"), flags)
        put("<QQQ", raw, 0, parameters_at, ctypes.addressof(symbol_table), ctypes.addressof(table))
        put("<3I", raw, field_offset(LAUNCH.fields, "grid"), *grid)
        put("<3I", raw, field_offset(LAUNCH.fields, "block"), *block)
        put("<3I", raw, field_offset(LAUNCH.fields, "cluster"), 1, 1, 1)
        put("<I", raw, field_offset(LAUNCH.fields, "dynamic_shared_bytes"), dynamic_shared)
        put("<I", raw, field_offset(LAUNCH.fields, "static_shared_bytes"), meta["static_shared_bytes"])
        state, state_at = aligned(BLOCK.bytes)
        raw_block = (ctypes.c_char * BLOCK.bytes).from_address(state_at)
        put("<QQQQQ", raw_block, 0, launch_at, shared_at, local_at, frame_at, records_at)
        total = grid[0] * grid[1] * grid[2]
        keep = (parameters, table, symbol_table, shared, local, frame, records, launch, state)
        index = 0
        while index < total:
            if not general:
                index = self.blocks(state_at, index, total)
                if index >= total:
                    break
            else:
                x, y = index % grid[0], index // grid[0]
                put("<4I", raw_block, field_offset(BLOCK.fields, "ctaid"), x, y % grid[1], y // grid[1], index)
            self.finish(state_at, records_at, warps, fresh=general)
            index += 1
        del keep

    def finish(self, state: int, records: int, warps: int, *, fresh: bool) -> None:
        """One block by the general rules: barriers with and without thread counts, arrivals, yields."""
        raw = (ctypes.c_char * (WARP.bytes * warps)).from_address(records)

        def field(warp: int, name: str) -> int:
            (value,) = struct.unpack_from("<I", raw, warp * WARP.bytes + field_offset(WARP.fields, name))
            return int(value)

        resume = [0 if fresh else field(w, "resume") for w in range(warps)]
        waiting: dict[int, list[int]] = {}  # barrier number: warps that wait at it
        arrived: dict[int, int] = {}  # barrier number: warps that have arrived without waiting

        def note_stop(warp: int) -> None:
            kind = STOP_NAMES[field(warp, "stop")]
            if resume[warp] == STEP_DONE or kind == "yield":
                return
            barrier = field(warp, "barrier")
            if kind == "barrier_arrive":
                arrived[barrier] = arrived.get(barrier, 0) + 1
            else:
                waiting.setdefault(barrier, []).append(warp)
            threads = field(warp, "threads")
            if threads and 32 * (len(waiting.get(barrier, ())) + arrived.get(barrier, 0)) >= threads:
                release(barrier)

        def release(barrier: int) -> None:
            self.release(raw, waiting.pop(barrier, []), field)
            arrived.pop(barrier, None)

        if not fresh:
            for warp in range(warps):
                note_stop(warp)
        for _ in range(1_000_000):
            blocked = {warp for group in waiting.values() for warp in group}
            ready = [warp for warp in range(warps) if resume[warp] != STEP_DONE and warp not in blocked]
            for warp in ready:
                resume[warp] = self.step(state, warp, resume[warp])
                note_stop(warp)
            if all(point == STEP_DONE for point in resume):
                return
            left = sum(point != STEP_DONE for point in resume)
            for barrier, group in list(waiting.items()):
                if not field(group[0], "threads") and len(group) + arrived.get(barrier, 0) >= left:
                    release(barrier)
                    ready.append(-1)
            if not ready:
                raise RuntimeError("deadlock")
        raise RuntimeError("no end")

    def release(self, raw: Any, arrived: list[int], field: Any) -> None:
        values = [(field(w, "value"), field(w, "active")) for w in arrived]
        for warp in arrived:
            kind = STOP_NAMES[field(warp, "stop")]
            if kind == "barrier_red_popc":
                result = sum((value & active).bit_count() for value, active in values)
            elif kind == "barrier_red_and":
                result = int(all(value & active == active for value, active in values))
            elif kind == "barrier_red_or":
                result = int(any(value & active for value, active in values))
            else:
                continue
            struct.pack_into("<I", raw, warp * WARP.bytes + field_offset(WARP.fields, "value"), result)


def pointer(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)
