"""The emulated AMD GPU as a device: its executor is a Python process that runs code objects (`executor.py`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial

from cuttle.device.cpu.device import CpuDevice
from cuttle.device.needs_numpy import require_numpy
from cuttle.device.shared import SharedMemory


class RdnaDevice(CpuDevice):
    """See `device/base.py` for the contract. Ring, process and faults are the CPU device's; what executes is not."""

    def __init__(self, shared: SharedMemory, workers: int, timeout_ms: int, target: str = "gfx1100") -> None:
        super().__init__(shared, workers, timeout_ms)
        self.title = f"Cuttle emulated AMD {target}"
        self.code_options = {"target": target}

    def executor_command(self) -> list[str]:
        # -P: nothing in the program's working folder may be imported.
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        start = f"import sys; sys.path.insert(0, {package!r}); from cuttle.device.rdna.executor import main; main(sys.argv[1:])"
        return [sys.executable, "-P", "-c", start]


def choose(target: str) -> Callable[[SharedMemory, int, int], RdnaDevice]:
    """What makes the device of `rdna:TARGET`; raises DeviceError DEV-0108 without NumPy."""
    require_numpy(f"an emulated {target}")
    return partial(RdnaDevice, target=target)
