"""The memfds that the device process shares: mapped once, seen as bytes and as words.

Items of a memoryview with format Q or I are read and written with one processor instruction, which is what the
protocols need.
"""

from __future__ import annotations

import mmap
import os

from cuttle.abi import wire_layout as wire


class SharedWords:
    """One mapped memfd, as bytes and as words. Word numbers are byte offsets divided by the word size."""

    __slots__ = ("bytes", "memory", "u16", "u32", "u64")

    def __init__(self, descriptor: int, size: int) -> None:
        self.memory = mmap.mmap(descriptor, size)
        self.bytes = memoryview(self.memory)
        self.u16 = self.bytes.cast("H")
        self.u32 = self.bytes.cast("I")
        self.u64 = self.bytes.cast("Q")


class SharedMemory:
    """Control, status and arena of one client. The arena is mapped when its size is decided."""

    __slots__ = ("arena", "arena_base", "arena_bytes", "arena_descriptor", "control", "status", "status_descriptor")

    def __init__(self, control: int, status: int, arena: int) -> None:
        self.control = SharedWords(control, wire.CONTROL_BYTES)
        self.status = SharedWords(status, wire.STATUS_BYTES)
        self.status_descriptor = status
        self.arena_descriptor = arena
        self.arena_base: int = self.control.u64[wire.CONTROL_ARENA_BASE_AT // 8]
        self.arena_bytes = 0
        self.arena: mmap.mmap | None = None

    def open_arena(self, size: int) -> None:
        """Gives the arena its size (sparse) and maps it; here it may lie anywhere."""
        os.ftruncate(self.arena_descriptor, size)
        self.arena_bytes = size
        self.arena = mmap.mmap(self.arena_descriptor, size)

    def read(self, address: int, size: int) -> bytes:
        """Bytes at a device address."""
        assert self.arena is not None
        at = self._offset(address, size)
        return self.arena[at : at + size]

    def write(self, address: int, data: bytes) -> None:
        assert self.arena is not None
        at = self._offset(address, len(data))
        self.arena[at : at + len(data)] = data

    def forget(self, address: int, size: int) -> None:
        """Gives the pages back to the system; their contents become zero. Both are multiples of the page size."""
        assert self.arena is not None
        self.arena.madvise(mmap.MADV_REMOVE, self._offset(address, size), size)

    def _offset(self, address: int, size: int) -> int:
        at = address - self.arena_base
        if at < 0 or at + size > self.arena_bytes:
            raise ValueError(f"{address:#x} is no address of the arena")
        return at


def allow_large_files(soft: int | None = None) -> int:
    """Sets the soft limit on file sizes, to the hard one by default; returns the old one. It counts for shared memory,
    too, where nobody means it."""
    import resource

    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if soft is None else soft, hard))
    return before
