"""The books about graphs' memory, with the sequence of an H200 (driver 580.159)."""

from __future__ import annotations

import pytest

from cuttle.runtime.graph_memory import RESERVED_CURRENT, RESERVED_HIGH, STEP, USED_CURRENT, USED_HIGH, GraphMemory
from cuttle.runtime.results import CudaError

MIB = 1 << 20


def values(memory: GraphMemory) -> list[int]:
    found = [memory.get(attribute) for attribute in (USED_CURRENT, USED_HIGH, RESERVED_CURRENT, RESERVED_HIGH)]
    return [value // STEP for value in found]


def test_a_launch_takes_memory_and_trimming_gives_it_back() -> None:
    memory = GraphMemory()
    assert values(memory) == [0, 0, 0, 0]
    for _ in range(2):
        memory.launch([(4096, 1), (4096, 0)])
        assert values(memory) == [1, 1, 1, 1]
    memory.trim()
    assert values(memory) == [0, 1, 0, 1]
    memory.reset(USED_HIGH)
    memory.reset(RESERVED_HIGH)
    assert values(memory) == [0, 0, 0, 0]
    with pytest.raises(CudaError):
        memory.reset(USED_CURRENT)


def test_what_nobody_freed_stays() -> None:
    memory = GraphMemory()
    memory.launch([(1 << 20, 100), (2 << 20, 5 * MIB), (1 << 20, 0), (2 << 20, 0)])
    assert values(memory) == [1, 1, 1, 1]
    memory.launch([(8 << 20, 70 * MIB)])
    assert values(memory) == [3, 3, 3, 3]
    memory.trim()
    assert values(memory) == [3, 3, 3, 3]
    memory.free(8 << 20)
    assert values(memory) == [3, 3, 3, 3]
    memory.trim()
    assert values(memory) == [0, 3, 0, 3]
