"""The state of a batch of waves, and the view of those that execute an instruction together.

Arrays are `[register][wave]` for scalar and `[register][wave][lane]` for vector registers, 32 bits an element. A `View` holds a selection of
waves that stand at one pc: a slice if they are neighbours (so that registers are views), else an index array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna.memory import Memory

Array = NDArray[Any]
LANES = 32
SCALARS = 128  # 106 scalar registers, VCC, trap temporaries, NULL, M0, EXEC
VCC, NULL, M0, EXEC = 106, 124, 125, 126
SHARED_APERTURE = 0x0001_0000_0000_0000  # upper halves of flat addresses of LDS and scratch
PRIVATE_APERTURE = 0x0002_0000_0000_0000
_LANE_NUMBERS = np.arange(LANES, dtype=np.uint32)

READY, AT_BARRIER, ENDED = 0, 1, 2


@dataclass(slots=True)
class Shape:
    """What a batch needs: numbers of registers, groups, waves a group, bytes of LDS a group and of scratch a lane."""

    vectors: int
    groups: int
    waves_per_group: int
    lds_bytes: int
    scratch_bytes: int


class Waves:
    """A batch of groups. Registers, LDS and scratch begin as garbage: a program that depends on zeros is wrong."""

    def __init__(self, shape: Shape, memory: Memory, mode: int) -> None:
        count = shape.groups * shape.waves_per_group
        self.shape = shape
        self.memory = memory
        self.count = count
        self.scalars = np.full((SCALARS, count), 0xBAD5C0DE, np.uint32)
        self.scalars[NULL] = 0
        self.scalars[EXEC + 1] = 0
        self.vectors = np.full((shape.vectors, count, LANES), 0xBAD0FACE, np.uint32)
        self.condition = np.zeros(count, np.uint32)  # SCC
        self.mode = np.full(count, mode, np.int64)
        self.pc = np.zeros(count, np.int64)
        self.state = np.full(count, READY, np.int8)
        self.signals = np.zeros(count, np.int64)  # barriers that the wave has arrived at, and has come to wait at
        self.waits = np.zeros(count, np.int64)
        self.resting = np.zeros(count, bool)  # has executed s_sleep since the scheduler looked
        self.group = np.repeat(np.arange(shape.groups, dtype=np.int64), shape.waves_per_group)
        self.lds = LocalBytes(shape.groups, shape.lds_bytes)
        self.scratch = LocalBytes(count * LANES, shape.scratch_bytes)
        self.last_run = np.zeros(count, np.int64)
        self.first_group = 0  # linear number of the batch's first group in the grid


class LocalBytes:
    """Equal pieces of memory, one for each owner (a group's LDS, a lane's scratch), as bytes and as words."""

    def __init__(self, owners: int, size: int) -> None:
        self.size = size
        self.stride = -(-size // 8) * 8 + 16  # room behind, so that unaligned word accesses stay inside the array
        self.bytes = np.full(owners * self.stride, 0xA5, np.uint8)
        self.words = self.bytes.view(np.uint32)
        self.doubles = self.bytes.view(np.uint64)


class View:
    """The waves that execute now. `mask` is None if all their lanes are active."""

    __slots__ = ("aligned", "count", "exec_bits", "group", "indices", "mask", "mode", "selection", "waves")

    def __init__(self, waves: Waves, indices: Array) -> None:
        self.waves = waves
        self.indices = indices
        self.count = len(indices)
        first, last = int(indices[0]), int(indices[-1])
        self.selection: Any = slice(first, last + 1) if last - first + 1 == self.count else indices
        self.mode = int(waves.mode[first])
        self.group = waves.group[self.selection]
        self.refresh()

    def refresh(self) -> None:
        """To be called after EXEC has changed."""
        bits = self.waves.scalars[EXEC][self.selection]
        self.exec_bits = bits
        if (bits == 0xFFFFFFFF).all():
            self.mask: Array | None = None
        else:
            self.mask = unpack(bits)

    def lane_mask(self) -> Array:
        return np.ones((self.count, LANES), bool) if self.mask is None else self.mask

    # -- scalar registers --------------------------------------------------------------------------------------------

    def scalar(self, register: int) -> Array:
        return self.waves.scalars[register][self.selection]

    def set_scalar(self, register: int, value: Any) -> None:
        """Writes a 32-bit register. NULL swallows; EXEC changes the active lanes."""
        if register == NULL:
            return
        self.waves.scalars[register][self.selection] = value
        if register == EXEC:
            self.refresh()

    def scalar64(self, register: int) -> Array:
        high = self.waves.scalars[register + 1][self.selection].astype(np.uint64) << np.uint64(32)
        return high | self.waves.scalars[register][self.selection]

    def set_scalar64(self, register: int, value: Array) -> None:
        if register == NULL:
            return
        value = np.asarray(value, np.uint64)
        self.set_scalar(register, (value & np.uint64(0xFFFFFFFF)).astype(np.uint32))
        self.waves.scalars[register + 1][self.selection] = (value >> np.uint64(32)).astype(np.uint32)

    def condition(self) -> Array:
        return self.waves.condition[self.selection]

    def set_condition(self, value: Any) -> None:
        self.waves.condition[self.selection] = value

    # -- vector registers --------------------------------------------------------------------------------------------

    def vector(self, register: int) -> Array:
        return self.waves.vectors[register][self.selection]

    def set_vector(self, register: int, value: Any) -> None:
        """Writes the active lanes of a 32-bit register; `value` broadcasts to (waves, 32)."""
        row = self.waves.vectors[register]
        if self.mask is None:
            row[self.selection] = value
        elif isinstance(self.selection, slice):
            np.copyto(row[self.selection], value, where=self.mask)
        else:
            part = row[self.selection]
            np.copyto(part, value, where=self.mask)
            row[self.selection] = part

    def vector64(self, register: int) -> Array:
        high = self.waves.vectors[register + 1][self.selection].astype(np.uint64) << np.uint64(32)
        return high | self.waves.vectors[register][self.selection]

    def set_vector64(self, register: int, value: Array) -> None:
        value = np.ascontiguousarray(value)
        halves = value.view(np.uint32).reshape(*value.shape, 2)
        self.set_vector(register, halves[..., 0])
        self.set_vector(register + 1, halves[..., 1])

    # -- active lanes, flattened, for memory -------------------------------------------------------------------------

    def active(self, value: Array) -> Array:
        """The elements of the active lanes, wave after wave."""
        if value.shape != (self.count, LANES):
            value = np.broadcast_to(value, (self.count, LANES))
        return value.reshape(-1) if self.mask is None else value[self.mask]

    def set_active(self, register: int, values: Array) -> None:
        """Writes 32-bit values of the active lanes (as `active` orders them)."""
        row = self.waves.vectors[register]
        if self.mask is None:
            row[self.selection] = values.reshape(self.count, LANES)
        else:
            part = row[self.selection]
            part[self.mask] = values
            if not isinstance(self.selection, slice):
                row[self.selection] = part

    def lane_of_active(self, position: int) -> tuple[int, int]:
        """Wave and lane of an element of `active`."""
        wave, lane = np.argwhere(self.lane_mask())[position]
        return int(self.indices[wave]), int(lane)


def unpack(bits: Array) -> Array:
    """Lane masks to booleans: (waves,) to (waves, 32)."""
    return ((bits[:, None] >> _LANE_NUMBERS) & np.uint32(1)).astype(bool)


def pack(lanes: Array) -> Array:
    """Booleans (waves, 32) to lane masks."""
    return np.packbits(np.ascontiguousarray(lanes), axis=1, bitorder="little").view(np.uint32).reshape(-1)
