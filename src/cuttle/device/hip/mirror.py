"""The GPU's copy of the program's device memory, at the same addresses.

Programs and runtime write device memory directly, whenever they want to, and kernels hold its addresses. So memory of the GPU lies at the
arena's addresses (HIP's virtual memory management), and a third copy, the *shadow*, remembers what both had when they were last equal: what the program
changed differs between arena and shadow and goes to the GPU, what kernels changed differs between GPU and shadow and goes to the arena, byte for byte, so that neither
overwrites what the other one wrote meanwhile. Copies go through two pinned buffers, one of which is in flight while the other is compared.
"""

from __future__ import annotations

import ctypes
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.abi import hip as rows
from cuttle.device.hip.runtime_library import Hip
from cuttle.device.job_loop import OUT_OF_MEMORY, Fault
from cuttle.errors import DeviceError

Bytes = NDArray[np.uint8]
GRANULE = rows.MIRROR_GRANULE_BYTES


class Mirror:
    """The memory of one GPU that mirrors an arena. `stream`: where its copies go; `base`: the arena's address."""

    def __init__(self, hip: Hip, ordinal: int, stream: Any, arena: Bytes, descriptor: int, base: int) -> None:
        self._hip, self._ordinal, self._stream = hip, ordinal, stream
        self._arena, self._descriptor, self._base = arena, descriptor, base
        self._shadows: dict[int, Bytes] = {}  # granule's address → its bytes when all three were equal
        self._zeros = np.zeros(GRANULE, np.uint8)
        self._properties = ctypes.create_string_buffer(self._allocation_properties(), rows.ALLOCATION_BYTES)
        self._check_granularity()
        self._reserve(len(arena))
        self._buffers = [self._pinned() for _ in range(2)]

    # -- memory at the arena's addresses -------------------------------------------------------------------------------

    def _allocation_properties(self) -> bytes:
        layout = rows.ALLOCATIONS[self._hip.major]
        data = bytearray(rows.ALLOCATION_BYTES)
        struct.pack_into("<i", data, layout.type, rows.ALLOCATION_PINNED)
        struct.pack_into("<i", data, layout.location_type, rows.LOCATION_DEVICE)
        struct.pack_into("<i", data, layout.location_id, self._ordinal)
        return bytes(data)

    def _check_granularity(self) -> None:
        size = ctypes.c_size_t()
        self._need("hipMemGetAllocationGranularity", ctypes.byref(size), ctypes.addressof(self._properties), 0)
        if not size.value or GRANULE % size.value:
            raise DeviceError("DEV-0207", f"the GPU's memory comes in pieces of {size.value} bytes, not of {GRANULE}")

    def _reserve(self, size: int) -> None:
        got = ctypes.c_uint64()
        whole = -(-size // GRANULE) * GRANULE
        self._need("hipMemAddressReserve", ctypes.byref(got), whole, GRANULE, self._base, 0)
        if got.value != self._base:
            self._hip.call("hipMemAddressFree", got.value, whole)
            raise DeviceError("DEV-0207", f"HIP reserves addresses at {got.value:#x}, not at {self._base:#x}")

    def _need(self, name: str, *arguments: Any) -> None:
        """A call without which there is no memory at chosen addresses."""
        result = self._hip.result(name, *arguments)
        if result != rows.SUCCESS:
            message = f"{name} of HIP {self._hip.version_text} failed: {self._hip.error_text(result)}"
            raise DeviceError("DEV-0207", message)

    def _pinned(self) -> tuple[int, Bytes, Any]:
        """(address, bytes, event) of a buffer for copies."""
        address, event = ctypes.c_void_p(), ctypes.c_void_p()
        self._hip.call("hipHostMalloc", ctypes.byref(address), GRANULE, 0)
        self._hip.call("hipEventCreateWithFlags", ctypes.byref(event), rows.EVENT_DISABLE_TIMING)
        place = int(address.value or 0)
        return (
            place,
            np.frombuffer(memoryview((ctypes.c_uint8 * GRANULE).from_address(place)).cast("B"), np.uint8),
            event,
        )

    def cover(self, address: int, size: int) -> None:
        """Gives these granules memory of the GPU, zeroed. Raises Fault when there is none left."""
        missing = [at for at in range(address, address + size, GRANULE) if at not in self._shadows]
        while missing:
            count = 1
            while count < len(missing) and missing[count] == missing[0] + count * GRANULE:
                count += 1
            self._map(missing[0], count * GRANULE)
            for at in missing[:count]:
                self._shadows[at] = np.zeros(GRANULE, np.uint8)
            del missing[:count]
        self._granules = sorted(self._shadows)

    def _map(self, address: int, size: int) -> None:
        handle = ctypes.c_void_p()
        result = self._hip.result("hipMemCreate", ctypes.byref(handle), size, ctypes.addressof(self._properties), 0)
        if result == rows.OUT_OF_MEMORY:
            raise Fault(OUT_OF_MEMORY, f"the GPU has no {size} bytes left")
        if result != rows.SUCCESS:
            raise DeviceError("DEV-0204", f"hipMemCreate failed: {self._hip.error_text(result)}")
        self._hip.call("hipMemMap", address, size, 0, handle, 0)
        access = (ctypes.c_int32 * 3)(rows.LOCATION_DEVICE, self._ordinal, rows.ACCESS_READ_WRITE)
        self._hip.call("hipMemSetAccess", address, size, ctypes.addressof(access), 1)
        # The mapping keeps the memory.
        self._hip.call("hipMemRelease", handle)
        self._hip.call("hipMemsetD8Async", address, 0, size, self._stream)

    # -- copies ----------------------------------------------------------------------------------------------------------

    def upload(self) -> None:
        """What the program changed since the last exchange goes to the GPU."""
        turn = 0
        for address, shadow in self._each():
            source = self._of_program(address)
            if np.array_equal(source.view(np.uint64), shadow.view(np.uint64)):
                continue
            place, buffer, event = self._buffers[turn & 1]
            if turn >= 2:
                self._hip.call("hipEventSynchronize", event)
            # The program may go on writing: what is sent is what is remembered.
            buffer[:] = source
            shadow[:] = buffer
            self._hip.call("hipMemcpyHtoDAsync", address, place, GRANULE, self._stream)
            self._hip.call("hipEventRecord", event, self._stream)
            turn += 1
        # A buffer may be used again by whoever comes next.
        for _, _, event in self._buffers[: min(turn, 2)]:
            self._hip.call("hipEventSynchronize", event)

    def download(self) -> None:
        """What kernels changed since the last exchange goes to the arena."""
        waiting: tuple[int, Bytes, Bytes, Any] | None = None
        for turn, (address, shadow) in enumerate(self._each()):
            place, buffer, event = self._buffers[turn & 1]
            self._hip.call("hipMemcpyDtoHAsync", place, address, GRANULE, self._stream)
            self._hip.call("hipEventRecord", event, self._stream)
            if waiting is not None:
                self._take(*waiting)
            waiting = address, shadow, buffer, event
        if waiting is not None:
            self._take(*waiting)

    def _take(self, address: int, shadow: Bytes, buffer: Bytes, event: Any) -> None:
        self._hip.call("hipEventSynchronize", event)
        if np.array_equal(buffer.view(np.uint64), shadow.view(np.uint64)):
            return
        changed = np.flatnonzero(buffer != shadow)
        changed = changed[changed < len(self._arena) - (address - self._base)]
        at = address - self._base
        self._arena[at + changed] = buffer[changed]
        shadow[changed] = buffer[changed]

    def _each(self) -> Iterator[tuple[int, Bytes]]:
        return iter(self._shadows.items())

    def _of_program(self, address: int) -> Bytes:
        """A granule of the arena; where nothing was ever written, zeros without making pages of it."""
        at = address - self._base
        try:
            empty = os.lseek(self._descriptor, at, os.SEEK_DATA) >= at + GRANULE
        except OSError:
            empty = True  # nothing behind it, either
        if empty:
            return self._zeros
        piece = self._arena[at : at + GRANULE]
        if len(piece) < GRANULE:
            return np.concatenate((piece, self._zeros[len(piece) :]))
        return piece

    def read(self, address: int, most: int) -> bytes:
        """Up to `most` bytes of the GPU from an address on, as far as it has memory there."""
        place = bisect_right(self._granules, address) - 1
        end = address
        while (
            place >= 0
            and place < len(self._granules)
            and self._granules[place] <= end < self._granules[place] + GRANULE
        ):
            end = self._granules[place] + GRANULE
            place += 1
        size = min(most, end - address)
        if size <= 0:
            return b""
        data = ctypes.create_string_buffer(size)
        self._hip.call("hipMemcpyDtoHAsync", ctypes.addressof(data), address, size, self._stream)
        self._hip.call("hipStreamSynchronize", self._stream)
        return data.raw
