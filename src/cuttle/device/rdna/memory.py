"""The emulated GPU's address space: mapped regions, allocations, and bounds on every access.

Addresses are plain 64-bit numbers. An access must lie inside one allocation; what `map` maps is one allocation, of which
`give_out` may say that only the beginning is there. Element sizes are in bytes.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna.errors import IllegalAddress

Array = NDArray[Any]
FIRST_ADDRESS = 0x7E00_0000_0000
_GAP = 0x1_0000


class Region:
    """One mapped piece: NumPy sees it as bytes and as words from its base on."""

    def __init__(self, base: int, data: Array, writable: bool) -> None:
        if base % 16:
            raise ValueError("a region begins at a multiple of 16")
        self.base = base
        self.size = len(data)
        self.bytes = data
        self.writable = writable
        self.given_out: Callable[[], int] | None = None
        self.words = data[: len(data) // 4 * 4].view(np.uint32)
        self.doubles = data[: len(data) // 8 * 8].view(np.uint64)


class Memory:
    """Loads, stores and atomics by arrays of addresses; each refuses what is not allocated with IllegalAddress."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._regions: dict[int, Region] = {}
        self._next = FIRST_ADDRESS

    # -- mapping -----------------------------------------------------------------------------------------------------

    def allocate(self, size: int, fill: int = 0xA5) -> int:
        """Fresh memory of `size` bytes; returns its address. There is unmapped space on both sides."""
        data = np.full(-(-size // 16) * 16, fill, np.uint8)
        address = self.reserve(len(data))
        self.map(address, data)
        self._regions[address].size = size
        return address

    def reserve(self, size: int) -> int:
        """An address range of the emulator's own with nothing in it yet."""
        address = self._next
        self._next += -(-(size + _GAP) // _GAP) * _GAP
        return address

    def map(self, address: int, data: Any, *, writable: bool = True) -> None:
        """Makes a buffer (bytes, mmap, array of uint8) appear at an address; it is not copied if it is writable."""
        array = np.frombuffer(data, np.uint8)
        region = Region(address, array, writable and array.flags.writeable)
        place = bisect_right(self._bases, address)
        before = self._regions[self._bases[place - 1]] if place else None
        if (before and before.base + before.size > address) or (
            place < len(self._bases) and address + region.size > self._bases[place]
        ):
            raise ValueError(f"{address:#x} is mapped already")
        insort(self._bases, address)
        self._regions[address] = region

    def give_out(self, address: int, given_out: Callable[[], int]) -> None:
        """Of the region at an address only the first bytes may be accessed: as many as `given_out` says when it is asked."""
        region = self._regions[address]
        region.given_out, region.size = given_out, given_out()

    def unmap(self, address: int) -> None:
        self._bases.remove(address)
        del self._regions[address]

    def read(self, address: int, size: int) -> bytes:
        region = self.region_at(address, size)
        return region.bytes[address - region.base : address - region.base + size].tobytes()

    def write(self, address: int, data: bytes) -> None:
        region = self.region_at(address, len(data))
        region.bytes[address - region.base : address - region.base + len(data)] = np.frombuffer(data, np.uint8)

    def code_at(self, address: int) -> bytes:
        """Up to 20 bytes from an address to the end of its region, for the decoder."""
        region = self.region_at(address, 4)
        return region.bytes[address - region.base :][:20].tobytes()

    def region_at(self, address: int, size: int = 1) -> Region:
        """The region that holds these bytes. Raises IllegalAddress."""
        place = bisect_right(self._bases, address)
        if place:
            region = self._regions[self._bases[place - 1]]
            if region.given_out is not None and address + size > region.base + region.size:
                region.size = region.given_out()
            if address + size <= region.base + region.size:
                return region
        raise IllegalAddress(f"{size} bytes at {address:#x} are not allocated")

    # -- access by arrays --------------------------------------------------------------------------------------------

    def _locate(self, addresses: Array, size: int) -> Region | None:
        """The one region that holds all accesses; None if there are several. Raises IllegalAddress."""
        low, high = int(addresses.min()), int(addresses.max())
        place = bisect_right(self._bases, low)
        if place:
            region = self._regions[self._bases[place - 1]]
            if high + size <= region.base + region.size:
                return region
        for address in np.unique(addresses).tolist():
            try:
                self.region_at(address, size)
            except IllegalAddress as fault:
                fault.position = int(np.argmax(addresses == np.uint64(address)))
                raise
        return None

    def load(self, addresses: Array, size: int) -> list[Array]:
        """Loads of 1, 2 or 4n bytes: one uint32 array for each word (bytes and halves zero-extended)."""
        if not len(addresses):
            return [np.zeros(0, np.uint32)] * max(1, size // 4)
        region = self._locate(addresses, size)
        if region is None:
            return self._each_region(addresses, size, None)
        return load_at(region, (addresses - np.uint64(region.base)).astype(np.int64), size)

    def store(self, addresses: Array, size: int, words: list[Array]) -> None:
        """Stores; of several lanes that store to one address the highest wins."""
        if not len(addresses):
            return
        region = self._locate(addresses, size)
        if region is None:
            self._each_region(addresses, size, words)
            return
        if not region.writable:
            raise IllegalAddress(f"store to read-only memory at {int(addresses.min()):#x}")
        store_at(region, (addresses - np.uint64(region.base)).astype(np.int64), size, words)

    def _each_region(self, addresses: Array, size: int, words: list[Array] | None) -> list[Array]:
        results = [np.zeros(len(addresses), np.uint32) for _ in range(max(1, size // 4))]
        places = np.searchsorted(np.array(self._bases, np.uint64), addresses, side="right")
        for place in np.unique(places).tolist():
            which = places == place
            if words is None:
                for result, part in zip(results, self.load(addresses[which], size), strict=True):
                    result[which] = part
            else:
                self.store(addresses[which], size, [word[which] for word in words])
        return results

    def find(self, addresses: Array, size: int) -> list[tuple[Region, Array, Array]]:
        """For atomics: (region, which elements, byte offsets) for each region that is touched."""
        region = self._locate(addresses, size)
        if region is not None:
            parts = [(region, np.ones(len(addresses), bool))]
        else:
            places = np.searchsorted(np.array(self._bases, np.uint64), addresses, side="right")
            parts = [(self._regions[self._bases[p - 1]], places == p) for p in np.unique(places).tolist()]
        found = []
        for region, which in parts:
            if not region.writable:
                raise IllegalAddress(f"atomic on read-only memory at {int(addresses[which].min()):#x}")
            found.append((region, which, (addresses[which] - np.uint64(region.base)).astype(np.int64)))
        return found


def load_at(store: Any, offsets: Array, size: int) -> list[Array]:
    """Loads from anything with `bytes` and `words`, at byte offsets that are known to be inside."""
    if size == 1:
        return [store.bytes[offsets].astype(np.uint32)]
    if size == 2:
        return [store.bytes[offsets].astype(np.uint32) | store.bytes[offsets + 1].astype(np.uint32) << np.uint32(8)]
    if not (offsets & 3).any():
        index = offsets >> 2
        return [store.words[index + n if n else index] for n in range(size // 4)]
    return [
        store.bytes[offsets + 4 * n].astype(np.uint32)
        | store.bytes[offsets + 4 * n + 1].astype(np.uint32) << np.uint32(8)
        | store.bytes[offsets + 4 * n + 2].astype(np.uint32) << np.uint32(16)
        | store.bytes[offsets + 4 * n + 3].astype(np.uint32) << np.uint32(24)
        for n in range(size // 4)
    ]


def store_at(store: Any, offsets: Array, size: int, words: list[Array]) -> None:
    """The counterpart of `load_at`."""
    if size <= 2:
        for n in range(size):
            store.bytes[offsets + n] = (words[0] >> np.uint32(8 * n)) & np.uint32(255)
    elif not (offsets & 3).any():
        index = offsets >> 2
        for n in range(size // 4):
            store.words[index + n] = words[n]
    else:
        for n in range(size // 4):
            for byte in range(4):
                store.bytes[offsets + 4 * n + byte] = (words[n] >> np.uint32(8 * byte)) & np.uint32(255)
