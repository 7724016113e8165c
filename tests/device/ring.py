"""Drives a CpuDevice by itself: memory, jobs, waiting."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import Any

from cuttle.abi import wire_layout as wire
from cuttle.device.base import Fault
from cuttle.device.cpu.device import CpuDevice
from cuttle.device.shared import SharedMemory

ARENA_BYTES = 256 << 20


class Machine:
    """Shared memory and a device, as the device process has them."""

    def __init__(
        self, workers: int = 2, timeout_ms: int = 0, device_class: Callable[..., CpuDevice] = CpuDevice,
        covered: int = ARENA_BYTES
    ) -> None:  # fmt: skip
        control, status, arena = (os.memfd_create(name) for name in ("control", "status", "arena"))
        os.ftruncate(control, wire.CONTROL_BYTES)
        os.ftruncate(status, wire.STATUS_BYTES)
        self.descriptors = (control, status, arena)
        self.shared = SharedMemory(control, status, arena)
        self.shared.control.u64[wire.CONTROL_ARENA_BASE_AT // 8] = wire.ARENA_BASE
        self.shared.arena_base = wire.ARENA_BASE
        self.shared.open_arena(ARENA_BYTES)
        self.base = wire.ARENA_BASE
        self.device = device_class(self.shared, workers, timeout_ms)
        self.device.set_limits(self.base + (128 << 20), 16 << 20, 1024)
        if covered:
            self.device.cover(self.base, covered)
        self.sequence = 0
        self.device.start()

    def submit(self, kind: int, form: str, *values: Any, stream: int = 1, sequence: int = 0, tail: bytes = b"") -> None:
        size = __import__("struct").calcsize(form) + len(tail)
        slots = -(-size // wire.SLOT_BYTES)
        self.device.submit(pack(form, kind, slots, stream, sequence, *values) + tail, slots)

    def mark(self, stream: int = 1) -> int:
        self.sequence += 1
        self.submit(wire.RECORD_MARK, wire.RECORD_MARK_FORMAT, stream=stream, sequence=self.sequence)
        return self.sequence

    def launch(self, image: int, grid: tuple[int, int, int], block: tuple[int, int, int], parameters: bytes,
               shared: int = 0, flags: int = 0) -> None:  # fmt: skip
        self.submit(
            wire.RECORD_LAUNCH, wire.RECORD_LAUNCH_FORMAT, image, *grid, *block, shared, len(parameters), flags, 1, 1, 1, 0,
            tail=parameters,
        )  # fmt: skip

    def load(self, path: Path, symbols: int = 0) -> int:
        return self.device.load(str(path), symbols)

    def completed(self, stream: int = 1) -> int:
        return int(
            self.shared.status.u64[(wire.STREAMS_AT + stream * wire.STREAM_SIZE + wire.STREAM_COMPLETED_AT) // 8]
        )

    def wait(self, seconds: float = 10.0) -> None:
        """Until all jobs are done."""
        wanted = self.mark()
        self.device.wake()
        limit = time.monotonic() + seconds
        while self.completed() < wanted:
            fault = self.device.look()
            assert fault is None, fault.text
            assert time.monotonic() < limit, "the executor does not finish"
            time.sleep(0.0002)

    def wait_for_fault(self, seconds: float = 10.0) -> Fault:
        self.device.wake()
        limit = time.monotonic() + seconds
        while True:
            fault = self.device.look()
            if fault is not None:
                return fault
            assert time.monotonic() < limit, "the executor does not fault"
            time.sleep(0.001)

    def text(self) -> list[tuple[int, str]]:
        """Device output so far: (channel, text)."""
        status = self.shared.status
        head, tail = status.u64[wire.STATUS_TEXT_HEAD_AT // 8], status.u64[wire.STATUS_TEXT_TAIL_AT // 8]

        def take(size: int) -> bytes:
            nonlocal tail
            data = bytes(status.bytes[wire.TEXT_AT + (tail + i) % wire.TEXT_FIFO_BYTES] for i in range(size))
            tail += size
            return data

        found = []
        while tail < head:
            length, channel = int.from_bytes(take(4), "little"), int.from_bytes(take(4), "little")
            found.append((channel, take(length).decode()))
        status.u64[wire.STATUS_TEXT_TAIL_AT // 8] = tail
        return found

    def close(self) -> None:
        self.device.reset()
        for descriptor in self.descriptors:
            os.close(descriptor)
