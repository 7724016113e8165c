"""Device memory: who owns which part of the arena.

The arena is a sparse file, far larger than the budget; the budget is what the device admits to have. Freed ranges are
recycled while their pages are still there (the first touch of a page costs more than a copy of it); pages go back to the
system when too many lie idle.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable

from cuttle.device.shared import SharedMemory
from cuttle.runtime import results
from cuttle.runtime.ranges import FreeRanges
from cuttle.runtime.results import CudaError

ALIGNMENT = 512
# Allocations of more than 1 MiB start at multiples of 2 MiB on an H200 (those of pools do not); Taichi relies on 4 KiB.
LARGE, LARGE_ALIGNMENT = 1 << 20, 2 << 20
PAGE = 4096
# Kinds of allocations, as in requests MEM_ALLOC and POINTER_RANGE.
DEVICE, MANAGED, PINNED, MODULE, ARRAY, REGISTERED, POOL, INTERNAL = range(8)
# Freed ranges of at least this size are remembered as candidates for giving their pages back.
LARGE_BYTES = 4 << 20


class Allocation:
    """A part of the arena. `bytes` is what was asked for, `reserved` what it takes; `mapped`: addresses of virtual memory."""

    __slots__ = ("address", "bytes", "context", "flags", "identifier", "kind", "mapped", "pool", "reserved", "stream")

    def __init__(
        self, address: int, size: int, reserved: int, kind: int, context: int, flags: int, identifier: int, pool: int
    ) -> None:
        self.address = address
        self.bytes = size
        self.reserved = reserved
        self.kind = kind
        self.context = context
        self.flags = flags
        self.identifier = identifier
        self.pool = pool
        self.stream = 0
        self.mapped = False

    @property
    def freeable(self) -> bool:
        """Whether the program may free it by its address; the rest goes with what it belongs to."""
        return self.kind in (DEVICE, MANAGED, PINNED, POOL) and not self.mapped


class DeviceMemory:
    """The arena's allocator. `finished` tells how far the executor has got in the job ring; `cover` tells the device what is in use."""

    def __init__(
        self, shared: SharedMemory, budget: int, finished: Callable[[], int], cover: Callable[[int, int], None]
    ) -> None:
        self.budget = budget
        self.used = 0
        self._shared = shared
        self._finished = finished
        self._cover = cover
        self._free = FreeRanges()
        # Address 0 of the arena stays unused, so that a null pointer plus a small offset never meets an allocation.
        self._free.add(shared.arena_base + PAGE, shared.arena_bytes - PAGE)
        self._starts: list[int] = []
        self._allocations: dict[int, Allocation] = {}
        self._identifier = 0
        self._idle: dict[int, int] = {}  # large freed ranges whose pages may still be there
        self._idle_bytes = 0
        self._idle_limit = budget // 4
        self._later: deque[tuple[int, Allocation]] = deque()  # freed in stream order: (job position, allocation)

    def allocate(
        self, size: int, kind: int, context: int = 0, flags: int = 0, alignment: int = 0, pool: int = 0
    ) -> Allocation:
        """Memory with undefined contents; raises CUDA_ERROR_OUT_OF_MEMORY."""
        if size <= 0:
            raise CudaError(results.INVALID_VALUE, "an allocation of 0 bytes")
        alignment = max(alignment, PAGE if kind in (MANAGED, PINNED, REGISTERED) else ALIGNMENT)
        reserved = -(-size // ALIGNMENT) * ALIGNMENT
        if kind in (MANAGED, PINNED, REGISTERED) or size >= 1 << 20:
            reserved = -(-size // PAGE) * PAGE
        self.settle()
        if self.used + reserved > self.budget:
            raise CudaError(
                results.OUT_OF_MEMORY, f"{size} bytes asked for, {self.budget - self.used} of {self.budget} are free"
            )
        wanted = LARGE_ALIGNMENT if size > LARGE and not pool and kind in (DEVICE, MANAGED) else alignment
        address = self._free.take(reserved, max(wanted, alignment))
        if address is None and wanted > alignment:
            address = self._free.take(reserved, alignment)
        if address is None:
            raise CudaError(results.OUT_OF_MEMORY, f"no range of {reserved} bytes is free")
        self._forget_idle(address, reserved)
        self._cover(address, reserved)
        self._identifier += 1
        allocation = Allocation(address, size, reserved, kind, context, flags, self._identifier, pool)
        self._allocations[address] = allocation
        insort(self._starts, address)
        self.used += reserved
        return allocation

    def find(self, address: int) -> Allocation | None:
        """The allocation that holds an address."""
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        allocation = self._allocations[self._starts[place]]
        return allocation if address < allocation.address + allocation.reserved else None

    def neighbours(self, address: int) -> tuple[Allocation | None, Allocation | None]:
        """The last allocation that begins at or below an address, and the first one above it; the device's own left out."""
        place = bisect_right(self._starts, address)
        before = (self._allocations[start] for start in reversed(self._starts[:place]))
        behind = (self._allocations[start] for start in self._starts[place:])
        below, above = (next((each for each in side if each.kind != INTERNAL), None) for side in (before, behind))
        return below, above

    def at(self, address: int) -> Allocation | None:
        """The allocation that begins at an address."""
        return self._allocations.get(address)

    def free(self, allocation: Allocation) -> None:
        """Free at once: nothing uses it any more."""
        self._remove(allocation)
        self._recycle(allocation)

    def free_later(self, allocation: Allocation, position: int) -> None:
        """Free when the executor has got to `position`; the books forget it now."""
        self._remove(allocation)
        self._later.append((position, allocation))

    def take_back(self, size: int, stream: int) -> Allocation | None:
        """Memory freed in this stream's order may be used again by the same stream before it has got there."""
        reserved = -(-size // ALIGNMENT) * ALIGNMENT
        for place, (_, allocation) in enumerate(self._later):
            if allocation.stream == stream and allocation.reserved == reserved and allocation.kind == POOL:
                del self._later[place]
                self._identifier += 1
                allocation.identifier = self._identifier
                allocation.bytes = size
                self._allocations[allocation.address] = allocation
                insort(self._starts, allocation.address)
                self.used += reserved
                return allocation
            if place >= 64:
                break
        return None

    def settle(self) -> None:
        """Recycles what was freed in stream order and is reached by now."""
        if not self._later:
            return
        finished = self._finished()
        while self._later and self._later[0][0] <= finished:
            self._recycle(self._later.popleft()[1])

    def settle_all(self) -> None:
        """The executor is gone: nothing uses anything."""
        while self._later:
            self._recycle(self._later.popleft()[1])

    # What `runtime/virtual_memory.py` needs: addresses without memory, memory without addresses.

    def reserve_range(self, size: int, alignment: int, hint: int) -> int:
        """Addresses without memory."""
        if hint and self._free.take_at(hint, size):
            return hint
        address = self._free.take(size, alignment)
        if address is None:
            raise CudaError(results.OUT_OF_MEMORY, f"no range of {size} bytes is free")
        self._forget_idle(address, size)
        return address

    def return_range(self, address: int, size: int) -> None:
        self._free.add(address, size)

    def charge(self, size: int) -> None:
        """Counts memory against the budget."""
        if self.used + size > self.budget:
            raise CudaError(results.OUT_OF_MEMORY, f"{size} bytes asked for, {self.budget - self.used} are free")
        self.used += size

    def enter(self, address: int, size: int, kind: int, context: int) -> Allocation:
        """Makes reserved addresses an allocation that `find` finds; the budget has been charged."""
        self._cover(address, size)
        self._identifier += 1
        allocation = Allocation(address, size, size, kind, context, 0, self._identifier, 0)
        allocation.mapped = True
        self._allocations[address] = allocation
        insort(self._starts, address)
        return allocation

    def leave(self, allocation: Allocation) -> None:
        self._remove(allocation)
        self.used += allocation.reserved

    def read(self, address: int, size: int) -> bytes:
        return self._shared.read(address, size)

    def write(self, address: int, data: bytes) -> None:
        self._shared.write(address, data)

    def forget_pages(self, address: int, size: int) -> None:
        self._shared.forget(address, size)

    def of_context(self, context: int) -> list[Allocation]:
        """What goes with a context; mapped addresses stay until they are unmapped."""
        return [one for one in self._allocations.values() if one.context == context and not one.mapped]

    def trim(self) -> None:
        """Gives the pages of idle ranges back to the system."""
        for start, size in list(self._idle.items()):
            self._shared.forget(start, size)
        self._idle.clear()
        self._idle_bytes = 0

    def _remove(self, allocation: Allocation) -> None:
        del self._allocations[allocation.address]
        place = bisect_right(self._starts, allocation.address) - 1
        del self._starts[place]
        self.used -= allocation.reserved

    def _recycle(self, allocation: Allocation) -> None:
        self._free.add(allocation.address, allocation.reserved)
        if allocation.reserved < LARGE_BYTES:
            return
        begin = -(-allocation.address // PAGE) * PAGE
        end = (allocation.address + allocation.reserved) // PAGE * PAGE
        self._idle[begin] = end - begin
        self._idle_bytes += end - begin
        # Oldest first: what was freed last is likely to be asked for again.
        while self._idle_bytes > self._idle_limit:
            start, size = next(iter(self._idle.items()))
            del self._idle[start]
            self._idle_bytes -= size
            self._shared.forget(start, size)

    def _forget_idle(self, address: int, size: int) -> None:
        """Part of an idle range is in use again: what is left of it counts as idle still."""
        if not self._idle:
            return
        end = address + size
        for start, idle in list(self._idle.items()):
            if start < end and address < start + idle:
                del self._idle[start]
                self._idle_bytes -= idle
                for rest_start, rest_end in ((start, address // PAGE * PAGE), (-(-end // PAGE) * PAGE, start + idle)):
                    if rest_end - rest_start >= LARGE_BYTES:
                        self._idle[rest_start] = rest_end - rest_start
                        self._idle_bytes += rest_end - rest_start


def read_whole(path: str) -> int | None:
    """A file with one number; None if it is not there or holds no number."""
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def available_memory() -> int:
    """Bytes that this machine, or the control group we live in, can still give."""
    available = 4 << 30
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    available = int(line.split()[1]) * 1024
                    break
    except OSError:
        pass
    limit = control_group_limit()
    return min(available, limit) if limit is not None else available


def control_group_limit() -> int | None:
    """The smallest memory limit of the control groups (version 1 or 2) above this process; None without one."""
    try:
        with open("/proc/self/cgroup") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    limits = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            root, name = "/sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        while True:
            limit = read_whole(f"{root}{path.rstrip('/')}/{name}")
            if limit is not None and limit < 1 << 60:
                limits.append(limit)
            if path in ("", "/"):
                break
            path = path.rsplit("/", 1)[0]
    return min(limits, default=None)


def choose_budget(asked: int) -> int:
    """Bytes the device admits to have: what was asked for, or 60 % of what is there, in whole MiB."""
    budget = asked if asked else available_memory() * 6 // 10
    return max(budget >> 20, 16) << 20
