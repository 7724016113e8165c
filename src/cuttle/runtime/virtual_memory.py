"""Virtual memory management: reserved addresses, physical memory, mappings.

Memory lies in the arena at its own address, so "mapping" is a matter of books: a piece of physical memory has no place of
its own until it is mapped, and its contents follow it when it is mapped somewhere else. One piece mapped at two addresses
at once is refused.
"""

from __future__ import annotations

from cuttle.runtime import memory as memory_kinds
from cuttle.runtime import results
from cuttle.runtime.memory import Allocation, DeviceMemory
from cuttle.runtime.results import CudaError

GRANULARITY = 2 << 20


class Physical:
    """Physical memory: a size, a place while it is mapped, its contents while it is not but was."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.bytes = size
        self.address = 0
        self.contents = b""
        self.released = False


class VirtualMemory:
    """All of a session's."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._reserved: dict[int, int] = {}
        self._physical: dict[int, Physical] = {}
        self._mapped: dict[int, tuple[int, Physical, Allocation]] = {}  # address → bytes, physical, books' entry
        self._next = 1

    def reserve(self, size: int, alignment: int, hint: int) -> int:
        if size <= 0 or size % GRANULARITY:
            raise CudaError(results.INVALID_VALUE, f"{size} is no multiple of the granularity")
        address = self._memory.reserve_range(size, max(alignment, GRANULARITY), hint)
        self._reserved[address] = size
        return address

    def release(self, address: int, size: int) -> None:
        if self._reserved.get(address) != size:
            raise CudaError(results.INVALID_VALUE, f"{address:#x} was not reserved with {size} bytes")
        if any(address <= place < address + size for place in self._mapped):
            raise CudaError(results.INVALID_VALUE, "something is still mapped there")
        del self._reserved[address]
        self._memory.return_range(address, size)

    def create(self, size: int) -> int:
        if size <= 0 or size % GRANULARITY:
            raise CudaError(results.INVALID_VALUE, f"{size} is no multiple of the granularity")
        self._memory.charge(size)
        number = self._next
        self._next += 1
        self._physical[number] = Physical(number, size)
        return number

    def _find(self, number: int) -> Physical:
        physical = self._physical.get(number)
        if physical is None:
            raise CudaError(results.INVALID_VALUE, f"no physical memory {number}")
        return physical

    def destroy(self, number: int) -> None:
        """Lives on while it is mapped."""
        physical = self._find(number)
        physical.released = True
        if not physical.address:
            self._drop(physical)

    def _drop(self, physical: Physical) -> None:
        del self._physical[physical.number]
        self._memory.charge(-physical.bytes)

    def map(self, address: int, size: int, offset: int, number: int, context: int) -> None:
        physical = self._find(number)
        if not any(start <= address and address + size <= start + length for start, length in self._reserved.items()):
            raise CudaError(results.INVALID_VALUE, f"{address:#x} is not reserved")
        if offset or size != physical.bytes:
            raise CudaError(results.NOT_SUPPORTED, "only the whole of a physical allocation can be mapped")
        if physical.address:
            raise CudaError(results.NOT_SUPPORTED, "physical memory can be mapped at one place only")
        if any(address < place + length and place < address + size for place, (length, _, _) in self._mapped.items()):
            raise CudaError(results.INVALID_VALUE, "something is mapped there")
        entry = self._memory.enter(address, size, memory_kinds.DEVICE, context)
        physical.address = address
        if physical.contents:
            self._memory.write(address, physical.contents)
            physical.contents = b""
        self._mapped[address] = (size, physical, entry)

    def unmap(self, address: int, size: int) -> None:
        places = sorted(place for place in self._mapped if address <= place < address + size)
        if not places or sum(self._mapped[place][0] for place in places) != size:
            raise CudaError(results.INVALID_VALUE, f"{address:#x} with {size} bytes is not what was mapped")
        for place in places:
            length, physical, entry = self._mapped.pop(place)
            if not physical.released:
                physical.contents = self._memory.read(place, length)
            physical.address = 0
            self._memory.leave(entry)
            self._memory.forget_pages(place, length)
            if physical.released:
                self._drop(physical)
