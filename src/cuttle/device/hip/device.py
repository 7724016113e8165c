"""The AMD GPU as a device: its executor is a Python process that drives AMD's HIP library (`executor.py`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from struct import pack
from typing import Any

from cuttle.abi import hip
from cuttle.abi import wire_layout as wire
from cuttle.abi.hip import MIRROR_GRANULE_BYTES as GRANULE
from cuttle.device.base import Fault
from cuttle.device.cpu.device import CpuDevice
from cuttle.device.hip.refusals import NO_GPU, NoAmdDevice
from cuttle.device.hip.report import choose_hip, no_hip
from cuttle.device.needs_numpy import require_numpy
from cuttle.device.shared import SharedMemory
from cuttle.errors import DeviceError

# Of the GPU's memory, what programs may have: the rest is for code, scratch, and whoever else draws on it.
_SHARE = 0.9
_ABORTED = -6


class HipDevice(CpuDevice):
    """See `device/base.py` for the contract. Ring and process are the CPU device's; what executes is a GPU.

    `library`: path of the HIP library; `gpu`: its report of the GPU (`list_devices.py`); `major`: of HIP.
    """

    def __init__(
        self, shared: SharedMemory, workers: int, timeout_ms: int, *, library: str, gpu: dict[str, Any], major: int
    ) -> None:
        super().__init__(shared, workers, timeout_ms)
        self._library = library
        self._ordinal = int(gpu["index"])
        self._major = major
        self._covered: list[tuple[int, int]] = []
        self.title = f"Cuttle {gpu['name']}"
        self.code_options = {"target": gpu["target"], "code_object_version": 4 if major == 5 else 5}
        self.memory_bytes = int(gpu["memory_bytes"] * _SHARE)

    def start(self) -> None:
        if self.running:
            return
        super().start()
        for address, size in self._covered:
            self._submit_cover(address, size)

    def cover(self, address: int, size: int) -> None:
        first, end = address // GRANULE * GRANULE, -(-(address + size) // GRANULE) * GRANULE
        if any(start <= first and end <= start + length for start, length in self._covered):
            return
        self._covered = merged([*self._covered, (first, end - first)])
        if self.running:
            self._submit_cover(first, end - first)

    def _submit_cover(self, address: int, size: int) -> None:
        self.submit(pack(wire.RECORD_COVER_FORMAT, wire.RECORD_COVER, 1, 0, 0, address, size), 1)

    def executor_command(self) -> list[str]:
        # -P: nothing in the program's working folder may be imported.
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        start = f"import sys; sys.path.insert(0, {package!r}); from cuttle.device.hip.executor import main; main(sys.argv[1:])"
        return [sys.executable, "-P", "-c", start, self._library, str(self._ordinal)]

    def _describe_end(self, exit_code: int) -> Fault:
        if exit_code == _ABORTED:
            return Fault(
                719, f"HIP {self._major} ended its process: a kernel faulted, most likely at an illegal address"
            )  # fmt: skip
        return super()._describe_end(exit_code)


def merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(address, bytes) ranges in order, those that touch as one."""
    result: list[tuple[int, int]] = []
    for address, size in sorted(ranges):
        if result and address <= sum(result[-1]):
            start, length = result[-1]
            result[-1] = start, max(length, address + size - start)
        else:
            result.append((address, size))
    return result


@dataclass(frozen=True, slots=True)
class ChosenGpu:
    """A GPU that Cuttle runs on: the HIP library that sees it, that library's version, and its report of the GPU."""

    library: str
    version: str
    gpu: dict[str, Any]


def choose_gpu(which: str) -> ChosenGpu:
    """The GPU of `hip` (the first that can be used) or `hip:N`.

    Raises NoAmdDevice if there is no HIP or no GPU, the GPU's own error if Cuttle does not support it, and DeviceError DEV-0108
    without NumPy.
    """
    chosen, tried = choose_hip()
    if chosen is None:
        raise no_hip(tried)
    gpus = chosen["devices"]
    if which and int(which) >= len(gpus):
        raise NoAmdDevice(NO_GPU, f"there is no GPU {which}: HIP {chosen['version']} sees {len(gpus)}, from 0 on")
    gpu = gpus[int(which)] if which else next((gpu for gpu in gpus if gpu["supported"]), gpus[0])
    if not gpu["supported"]:
        error = gpu["error"]
        raise DeviceError(error["code"], error["message"], hint=error["hint"])
    require_numpy(f"the GPU {gpu['name']}")
    return ChosenGpu(chosen["path"], chosen["version"], gpu)


def choose(which: str) -> Callable[[SharedMemory, int, int], HipDevice]:
    """What makes the device of `hip` or `hip:N`; raises as `choose_gpu`."""
    found = choose_gpu(which)
    major = int(found.version.partition(".")[0])
    assert major in hip.MAJORS

    def make(shared: SharedMemory, workers: int, timeout_ms: int) -> HipDevice:
        return HipDevice(shared, workers, timeout_ms, library=found.library, gpu=found.gpu, major=major)

    return make
