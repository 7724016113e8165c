"""Which waves execute next. See docs/design/rdna_emulator.md, section 3."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuttle.device.rdna.errors import LaunchError, NoProgress
from cuttle.device.rdna.waves import AT_BARRIER, ENDED, READY, Waves

Array = NDArray[Any]
_SLICE = 4096  # instructions after which others get a turn
_ENDLESS = 1 << 62

Choice = tuple[Array, int, int]  # indices of waves at one pc; pc at which to stop and look again; instructions at most


class Scheduler:
    """Chooses waves for a batch. `kind`: lockstep, serial, reverse, or random:SEED."""

    def __init__(self, kind: str) -> None:
        name, _, seed = kind.partition(":")
        if name not in ("lockstep", "serial", "reverse", "random"):
            raise LaunchError(f"no schedule {kind!r}: lockstep, serial, reverse, or random:SEED")
        self._random = random.Random(int(seed or "0"))
        self._choose: Callable[[Waves, Array], Choice] = {
            "lockstep": self._lockstep, "serial": self._one_by_one, "reverse": self._one_by_one, "random": self._any
        }[name]  # fmt: skip
        self._reverse = name == "reverse"
        self._tick = 0
        self._rotate = False

    def choose(self, waves: Waves) -> Choice | None:
        """The next to execute; None when all have ended. Raises NoProgress if all that live wait."""
        ready = np.flatnonzero(waves.state == READY)
        if not len(ready):
            if not open_barriers(waves):
                if (waves.state == ENDED).all():
                    return None
                stuck = np.unique(waves.group[waves.state == AT_BARRIER])
                raise NoProgress(f"barrier deadlock in {len(stuck)} groups: waves wait that no other wave will join")
            ready = np.flatnonzero(waves.state == READY)
        awake = ready[~waves.resting[ready]]
        if not len(awake):
            waves.resting[ready] = False
            awake = ready
        choice = self._choose(waves, awake)
        self._tick += 1
        waves.last_run[choice[0]] = self._tick
        return choice

    def used_up(self) -> None:
        """The chosen waves ran as long as they were allowed to: next time the one that has waited longest runs."""
        self._rotate = True

    def _longest_waiting(self, waves: Waves, ready: Array) -> int:
        self._rotate = False
        return int(ready[np.argmin(waves.last_run[ready])])

    def _lockstep(self, waves: Waves, ready: Array) -> Choice:
        pcs = waves.pc[ready]
        first = int(waves.pc[self._longest_waiting(waves, ready)] if self._rotate else pcs.min())
        together = ready[pcs == first]
        modes = waves.mode[together]
        if (modes != modes[0]).any():
            together = together[modes == modes[0]]
        later = pcs[pcs > first]
        alone = len(together) == len(ready)
        return together, int(later.min()) if len(later) else _ENDLESS, _ENDLESS if alone else _SLICE

    def _one_by_one(self, waves: Waves, ready: Array) -> Choice:
        wave = self._longest_waiting(waves, ready) if self._rotate else int(ready[-1 if self._reverse else 0])
        return np.array([wave]), _ENDLESS, _SLICE * 4

    def _any(self, waves: Waves, ready: Array) -> Choice:
        wave = int(ready[self._random.randrange(len(ready))])
        return np.array([wave]), _ENDLESS, self._random.randint(1, 64)


def open_barriers(waves: Waves) -> bool:
    """Lets the waves of each group go whose barrier all living waves of the group have reached; whether there were any."""
    waiting = waves.state == AT_BARRIER
    if not waiting.any():
        return False
    signals = np.where(waves.state == ENDED, np.iinfo(np.int64).max, waves.signals)
    least = np.repeat(signals.reshape(waves.shape.groups, -1).min(axis=1), waves.shape.waves_per_group)
    free = waiting & (least >= waves.waits)
    waves.state[free] = READY
    return bool(free.any())
