"""Memory pools: books about memory that is allocated and freed in stream order."""

from __future__ import annotations

from cuttle.runtime import memory as memory_kinds
from cuttle.runtime import results
from cuttle.runtime.memory import Allocation, DeviceMemory
from cuttle.runtime.results import CudaError

DEFAULT_POOL = 1

# CUmemPool_attribute numbers.
REUSE_FOLLOW_EVENTS, REUSE_OPPORTUNISTIC, REUSE_INTERNAL = 1, 2, 3
RELEASE_THRESHOLD = 4
RESERVED_CURRENT, RESERVED_HIGH, USED_CURRENT, USED_HIGH = 5, 6, 7, 8


class Pool:
    """One pool. What it has reserved is what it uses: freed memory goes back to the device at once."""

    def __init__(self, number: int, context: int, maximum_bytes: int) -> None:
        self.number = number
        self.context = context
        self.maximum_bytes = maximum_bytes
        self.used = 0
        self.used_high = 0
        self.settings = {REUSE_FOLLOW_EVENTS: 1, REUSE_OPPORTUNISTIC: 1, REUSE_INTERNAL: 1, RELEASE_THRESHOLD: 0}
        self.destroyed = False


class Pools:
    """All pools of the device."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._pools = {DEFAULT_POOL: Pool(DEFAULT_POOL, 0, 0)}
        self._next = DEFAULT_POOL + 1

    def create(self, context: int, maximum_bytes: int) -> Pool:
        pool = Pool(self._next, context, maximum_bytes)
        self._next += 1
        self._pools[pool.number] = pool
        return pool

    def find(self, number: int) -> Pool:
        pool = self._pools.get(number)
        if pool is None or pool.destroyed:
            raise CudaError(results.INVALID_VALUE, f"no memory pool {number}")
        return pool

    def destroy(self, pool: Pool) -> None:
        """Its allocations stay valid until they are freed."""
        if pool.number == DEFAULT_POOL:
            raise CudaError(results.INVALID_VALUE, "the default pool cannot be destroyed")
        pool.destroyed = True

    def allocate(self, pool: Pool, size: int, stream: int, context: int) -> Allocation:
        if size <= 0:
            raise CudaError(results.INVALID_VALUE, "an allocation of 0 bytes")
        if pool.maximum_bytes and pool.used + size > pool.maximum_bytes:
            raise CudaError(results.OUT_OF_MEMORY, "the pool's maximum size is reached")
        allocation = self._memory.take_back(size, stream)
        if allocation is None:
            allocation = self._memory.allocate(size, memory_kinds.POOL, context)
        allocation.pool = pool.number
        allocation.context = context
        pool.used += allocation.reserved
        pool.used_high = max(pool.used_high, pool.used)
        return allocation

    def freed(self, allocation: Allocation) -> None:
        """To be told of every allocation of a pool that is freed, by whatever call."""
        pool = self._pools.get(allocation.pool)
        if pool is not None:
            pool.used -= allocation.reserved
            if pool.destroyed and pool.used <= 0:
                del self._pools[pool.number]

    def attribute(self, pool: Pool, number: int) -> int:
        if number in pool.settings:
            return pool.settings[number]
        values = {
            RESERVED_CURRENT: pool.used,
            RESERVED_HIGH: pool.used_high,
            USED_CURRENT: pool.used,
            USED_HIGH: pool.used_high,
        }
        if number not in values:
            raise CudaError(results.INVALID_VALUE, f"no memory pool attribute {number}")
        return values[number]

    def set_attribute(self, pool: Pool, number: int, value: int) -> None:
        if number in pool.settings:
            pool.settings[number] = value
        elif number in (RESERVED_HIGH, USED_HIGH) and value == 0:
            pool.used_high = pool.used
        else:
            raise CudaError(results.INVALID_VALUE, f"memory pool attribute {number} cannot be set to {value}")

    def forget_context(self, context: int) -> None:
        for number in [one.number for one in self._pools.values() if one.context == context and one.context]:
            del self._pools[number]
        self._pools[DEFAULT_POOL].used = 0
