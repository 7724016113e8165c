"""Copies, fills and value writes on the arena itself, in NumPy: what executors in Python share."""

from __future__ import annotations

from struct import unpack_from
from typing import Any

import numpy as np

from cuttle.device.job_loop import JobLoop


class ArenaJobs(JobLoop):
    """A job loop whose copies work on the arena."""

    def __init__(self, status: int, arena: int, jobs: int, socket: int) -> None:
        super().__init__(status, arena, jobs, socket)
        self.arena = np.frombuffer(self.arena_map, np.uint8)

    def cover(self, at: int) -> None:
        """Nothing to do: kernels use the arena itself."""

    def settle(self) -> None:
        """Nothing to do: kernels use the arena itself."""

    @property
    def settles_each_job(self) -> bool:
        return True

    def _piece(self, address: int, size: int, what: str) -> Any:
        at = self.offset(address, size, what)
        return self.arena[at : at + size]

    def copy(self, at: int) -> None:
        destination, source, size = unpack_from("<3Q", self.jobs.bytes, at + 16)
        self._piece(destination, size, "a memory copy")[:] = self._piece(source, size, "a memory copy").copy()

    def copy_3d(self, at: int) -> None:
        to, source, width, height, depth, pitch, slice_, source_pitch, source_slice = unpack_from(
            "<9Q", self.jobs.bytes, at + 16
        )
        for z in range(depth):
            for y in range(height):
                row = self._piece(source + z * source_slice + y * source_pitch, width, "a memory copy")
                self._piece(to + z * slice_ + y * pitch, width, "a memory copy")[:] = row.copy()

    def fill(self, at: int) -> None:
        destination, width, height, pitch, value, element = unpack_from("<4Q2I", self.jobs.bytes, at + 16)
        pattern = np.frombuffer(value.to_bytes(4, "little")[:element], np.uint8)
        for y in range(height):
            self._piece(destination + y * pitch, width * element, "a memory fill").reshape(-1, element)[:] = pattern

    def write_value(self, at: int) -> None:
        address, value, _, bits = unpack_from("<2Q2I", self.jobs.bytes, at + 16)
        size = bits // 8
        self._piece(address, size, "a value write").view(f"u{size}")[0] = value & (1 << bits) - 1
