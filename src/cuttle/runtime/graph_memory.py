"""What graphs' allocation nodes have in use, as `cuDeviceGetGraphMemAttribute` tells it.

The memory itself is there from the moment the node is added. An H200 takes it when a graph is launched, 32 MiB at a time, lets
graphs that do not hold memory at the same time share it, and keeps it until `cuDeviceGraphMemTrim`; that is what is counted.
"""

from __future__ import annotations

from collections.abc import Iterable

from cuttle.runtime import results
from cuttle.runtime.results import CudaError

# CUgraphMem_attribute numbers.
USED_CURRENT, USED_HIGH, RESERVED_CURRENT, RESERVED_HIGH = range(4)

STEP = 32 << 20


class GraphMemory:
    """The books of one device. All sizes in bytes."""

    def __init__(self) -> None:
        self._held: dict[int, int] = {}  # what launches have allocated and nobody has freed yet
        self._current = 0
        self._high = [0, 0]

    def launch(self, steps: Iterable[tuple[int, int]]) -> None:
        """A graph is launched: (address, bytes) for each allocation and (address, 0) for each free, in order."""
        peak = 0
        for address, size in steps:
            if size:
                self._held[address] = size
                peak = max(peak, sum(self._held.values()))
            else:
                self._held.pop(address, None)
        self._current = max(self._current, _rounded(peak))
        self._high = [max(high, self._current) for high in self._high]

    def free(self, address: int) -> None:
        """Memory of a launch is freed outside of its graph."""
        self._held.pop(address, None)

    def trim(self) -> None:
        """Gives back what is not in use."""
        self._current = min(self._current, _rounded(sum(self._held.values())))

    def get(self, attribute: int) -> int:
        """The value of an attribute. Used and reserved memory are the same."""
        if attribute in (USED_CURRENT, RESERVED_CURRENT):
            return self._current
        return self._high[attribute == RESERVED_HIGH]

    def reset(self, attribute: int) -> None:
        """Sets a high-water mark to 0; the others cannot be set."""
        if attribute not in (USED_HIGH, RESERVED_HIGH):
            raise CudaError(results.INVALID_VALUE, f"attribute {attribute} of graph memory cannot be set")
        self._high[attribute == RESERVED_HIGH] = 0


def _rounded(size: int) -> int:
    return -(-size // STEP) * STEP
