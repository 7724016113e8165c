"""The executor of the emulated GPU: takes jobs in ring order, as the native one (`device/cpu/executor`) does.

    python -c "... main(sys.argv[1:])" STATUS ARENA JOBS SOCKET      (numbers of inherited descriptors)

Images are files of `lower/cpu/image_file.py` whose blob is a linked code object and whose metadata are those of
`lower/amdgpu/compile_kernel.py`. What the kernels see beside their parameters: `abi/amdgpu_abi.py`.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from select import POLLIN, POLLRDHUP, poll
from struct import pack, pack_into, unpack_from
from threading import Thread
from typing import Any

import numpy as np

from cuttle.abi import knobs
from cuttle.abi import wire_layout as wire
from cuttle.abi.amdgpu_abi import AMDGPU_HEAP, AMDGPU_LAUNCH
from cuttle.device.rdna.code_object import CodeObject
from cuttle.device.rdna.device_output import OUTPUT_BYTES, read_fault, read_records
from cuttle.device.rdna.errors import IllegalAddress, IllegalInstruction, LaunchError, MissingWait, NoProgress, Trap
from cuttle.device.rdna.memory import Memory
from cuttle.device.rdna.program import Program, load
from cuttle.device.shared import SharedWords
from cuttle.errors import CuttleError
from cuttle.lower.cpu.image_file import ImageError, unpack_image

_FAULT_EXIT_CODE = 70
_OUTPUT_AREA = 4 << 20
_WORKSPACE_BYTES = 1024
_ILLEGAL_ADDRESS, _TRAP, _TIME_OUT, _ILLEGAL_INSTRUCTION, _LOAD_FAILED, _DEADLOCK = 1, 3, 6, 7, 8, 10
_FUTEX, _FUTEX_WAKE = 202, 1
_PR_SET_PDEATHSIG = 1
_STRING_LIMIT = 16384
_COOPERATIVE = 1


class Fault(Exception):
    """What ends this process: the kind (`abi/wire.py` FAULTS) and a line of text."""

    def __init__(self, kind: int, text: str, block: tuple[int, int, int] = (0, 0, 0), thread: int = 0) -> None:
        super().__init__(text)
        self.kind, self.text, self.block, self.thread = kind, text, block, thread


class _Image:
    """A loaded kernel and its launch facts."""

    def __init__(self, program: Program, metadata: dict[str, Any], symbols: int) -> None:
        self.program = program
        self.name = str(metadata["name"])
        self.launch_offset = int(metadata["launch_offset"])
        self.symbol_count = len(metadata["symbols"])
        self.symbols = symbols


class Executor:
    """The jobs of one device."""

    def __init__(self, status: int, arena: int, jobs: int, socket: int) -> None:
        self._status = SharedWords(status, wire.STATUS_BYTES)
        self._jobs = SharedWords(jobs, wire.JOBS_BYTES)
        self._socket = socket
        self._arena_base: int = self._jobs.u64[wire.JOBS_ARENA_BASE_AT // 8]
        size: int = self._jobs.u64[wire.JOBS_ARENA_BYTES_AT // 8]
        self._arena = np.frombuffer(mmap.mmap(arena, size), np.uint8)
        self._memory = Memory()
        self._memory.map(self._arena_base, self._arena)
        self._images: dict[int, _Image] = {}
        self._output = self._memory.allocate(OUTPUT_BYTES + _OUTPUT_AREA, 0)
        self._workspace = self._memory.allocate(_WORKSPACE_BYTES, 0)
        self._grid_id = 0
        self._heap_base = 0
        self._running: _Image | None = None
        self._libc = ctypes.CDLL(None)
        self._status_address = ctypes.addressof(ctypes.c_char.from_buffer(self._status.memory))
        self._actions: dict[int, Callable[[int], None]] = {
            wire.RECORD_LAUNCH: self._launch, wire.RECORD_COPY: self._copy, wire.RECORD_COPY_3D: self._copy_3d,
            wire.RECORD_FILL: self._fill, wire.RECORD_EVENT_RECORD: self._event, wire.RECORD_HOST_CALL: self._host_call,
            wire.RECORD_WRITE_VALUE: self._write_value, wire.RECORD_LOAD: self._load, wire.RECORD_UNLOAD: self._unload,
        }  # fmt: skip

    # -- the ring ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs jobs until the other side is gone. Raises Fault."""
        u64, head_at, tail_at = self._jobs.u64, wire.JOBS_HEAD_AT // 8, wire.JOBS_TAIL_AT // 8
        tail = u64[tail_at]
        while True:
            if u64[head_at] == tail:
                self._wait_for_jobs(tail)
            while tail != u64[head_at]:
                at = wire.JOB_RING_AT + (tail & wire.JOB_SLOTS - 1) * wire.SLOT_BYTES
                kind, slots, stream, sequence = unpack_from("<HHIQ", self._jobs.bytes, at)
                if kind == wire.RECORD_SHUTDOWN:
                    os._exit(0)
                action = self._actions.get(kind)
                if action is not None:
                    action(at)
                if kind != wire.RECORD_HOST_CALL and sequence and stream < wire.STREAM_SLOTS:
                    self._status.u64[(wire.STREAMS_AT + stream * wire.STREAM_SIZE + wire.STREAM_COMPLETED_AT) // 8] = (
                        sequence
                    )
                    self._wake(wire.STATUS_COMPLETION_WORD_AT)
                tail += max(slots, 1)
                u64[tail_at] = tail

    def _wait_for_jobs(self, tail: int) -> None:
        """Sleeps until the device process writes a byte. The first sleeps are short: its store to `head` and its look at
        `executor_sleeping` are not fenced."""
        u32, sleeping = self._jobs.u32, wire.JOBS_EXECUTOR_SLEEPING_AT // 4
        poller = poll()
        poller.register(self._socket, POLLIN)
        pause_ms = 1
        u32[sleeping] = 1
        while self._jobs.u64[wire.JOBS_HEAD_AT // 8] == tail:
            if poller.poll(pause_ms):
                if not os.read(self._socket, 64):
                    os._exit(0)
                u32[sleeping] = 1
            pause_ms = min(2 * pause_ms, 50)
        u32[sleeping] = 0

    def _wake(self, word_at: int) -> None:
        self._status.u32[word_at // 4] = (self._status.u32[word_at // 4] + 1) & 0xFFFFFFFF
        self._libc.syscall(
            _FUTEX, ctypes.c_void_p(self._status_address + word_at), _FUTEX_WAKE, 0x7FFFFFFF, None, None, 0
        )

    # -- copies and values -------------------------------------------------------------------------------------------

    def _piece(self, address: int, size: int, what: str) -> Any:
        at = address - self._arena_base
        if at < 0 or at + size > len(self._arena):
            raise Fault(_ILLEGAL_ADDRESS, f"{what}: {size} bytes at {address:#x} are not in device memory")
        return self._arena[at : at + size]

    def _copy(self, at: int) -> None:
        destination, source, size = unpack_from("<3Q", self._jobs.bytes, at + 16)
        self._piece(destination, size, "a memory copy")[:] = self._piece(source, size, "a memory copy").copy()

    def _copy_3d(self, at: int) -> None:
        to, source, width, height, depth, pitch, slice_, source_pitch, source_slice = unpack_from(
            "<9Q", self._jobs.bytes, at + 16
        )
        for z in range(depth):
            for y in range(height):
                row = self._piece(source + z * source_slice + y * source_pitch, width, "a memory copy")
                self._piece(to + z * slice_ + y * pitch, width, "a memory copy")[:] = row.copy()

    def _fill(self, at: int) -> None:
        destination, width, height, pitch, value, element = unpack_from("<4Q2I", self._jobs.bytes, at + 16)
        pattern = np.frombuffer(value.to_bytes(4, "little")[:element], np.uint8)
        for y in range(height):
            self._piece(destination + y * pitch, width * element, "a memory fill").reshape(-1, element)[:] = pattern

    def _write_value(self, at: int) -> None:
        address, value, _, bits = unpack_from("<2Q2I", self._jobs.bytes, at + 16)
        size = bits // 8
        self._piece(address, size, "a value write").view(f"u{size}")[0] = value & (1 << bits) - 1

    def _event(self, at: int) -> None:
        event, _, number = unpack_from("<IIQ", self._jobs.bytes, at + 16)
        if event >= wire.EVENT_SLOTS:
            return
        slot = wire.EVENTS_AT + event * wire.EVENT_SIZE
        self._status.u64[(slot + wire.EVENT_TIME_NS_AT) // 8] = time.monotonic_ns()
        self._status.u64[(slot + wire.EVENT_COMPLETED_AT) // 8] = number
        self._wake(wire.STATUS_COMPLETION_WORD_AT)

    def _host_call(self, at: int) -> None:
        (stream,) = unpack_from("<I", self._jobs.bytes, at + 4)
        function, data, kind, _, ticket = unpack_from("<QQIIQ", self._jobs.bytes, at + 16)
        u64, head_at, tail_at = self._status.u64, wire.STATUS_HOST_CALL_HEAD_AT // 8, wire.STATUS_HOST_CALL_TAIL_AT // 8
        head = u64[head_at]
        while head - u64[tail_at] >= wire.HOST_CALL_SLOTS:
            time.sleep(0.00005)
        slot = wire.HOST_CALLS_AT + head % wire.HOST_CALL_SLOTS * wire.HOST_CALL_SIZE
        pack_into("<QQIIQ", self._status.bytes, slot, function, data, stream, kind, ticket)
        u64[head_at] = head + 1
        self._wake(wire.STATUS_HOST_CALL_WORD_AT)

    # -- images and launches -----------------------------------------------------------------------------------------

    def _load(self, at: int) -> None:
        number, size, symbols = unpack_from("<2IQ", self._jobs.bytes, at + 16)
        path = bytes(self._jobs.bytes[at + wire.RECORD_LOAD_BYTES : at + wire.RECORD_LOAD_BYTES + size])
        try:
            with open(path, "rb") as file:
                metadata, blob = unpack_image(file.read())
            self._images[number] = _Image(load(CodeObject.parse(blob), self._memory), metadata, symbols)
        except (OSError, ImageError, CuttleError, KeyError, TypeError, ValueError) as error:
            raise Fault(_LOAD_FAILED, f"{type(error).__name__}: {error}") from None

    def _unload(self, at: int) -> None:
        image = self._images.pop(unpack_from("<I", self._jobs.bytes, at + 16)[0], None)
        if image is not None:
            image.program.unload()

    def _launch(self, at: int) -> None:
        target, gx, gy, gz, bx, by, bz, dynamic, size, flags = unpack_from("<10I", self._jobs.bytes, at + 16)
        image = self._running = self._images.get(target)
        if image is None:
            raise Fault(_LOAD_FAILED, "a launch names an image that is not loaded")
        parameters = bytes(self._jobs.bytes[at + wire.RECORD_LAUNCH_BYTES : at + wire.RECORD_LAUNCH_BYTES + size])
        grid, block = (gx, gy, gz), (bx, by, bz)
        cooperative = bool(flags & _COOPERATIVE)
        if not gx * gy * gz:
            return
        self._grid_id += 1
        if cooperative:
            self._memory.write(self._workspace, bytes(_WORKSPACE_BYTES))
        self._memory.write(self._output, pack("<Q", _OUTPUT_AREA).ljust(OUTPUT_BYTES, b"\0"))
        record = pack(
            "<8I4Q",
            *grid,
            *block,
            dynamic,
            flags,
            self._grid_id,
            self._workspace if cooperative else 0,
            self._output,
            self._heap(),
        )
        assert len(record) == AMDGPU_LAUNCH.bytes
        symbols = self._memory.read(image.symbols, 8 * image.symbol_count) if image.symbol_count else b""
        kernarg = parameters[: image.launch_offset].ljust(image.launch_offset, b"\0") + record + symbols
        self._execute(image, kernarg, grid, block, dynamic, cooperative)
        self._running = None

    def _execute(
        self, image: _Image, kernarg: bytes, grid: tuple[int, int, int], block: tuple[int, int, int], dynamic: int, cooperative: bool
    ) -> None:  # fmt: skip
        timeout_ms: int = self._jobs.u32[wire.JOBS_TIMEOUT_MS_AT // 4]
        end = time.monotonic() + timeout_ms / 1000 if timeout_ms else 0.0
        late = False

        def interrupted() -> bool:
            nonlocal late
            late = bool(end) and time.monotonic() > end
            return late

        try:
            image.program.run(
                image.name, kernarg, grid, block, dynamic_lds_bytes=dynamic, resident=cooperative, interrupted=interrupted,
                stack_bytes=max(1024, self._jobs.u64[wire.JOBS_LOCAL_LIMIT_BYTES_AT // 8]), schedule=knobs.RDNA_SCHEDULE.text(),
                check_waits=knobs.RDNA_CHECK_WAITS.switch()
            )  # fmt: skip
        except NoProgress as error:
            if late:
                raise Fault(_TIME_OUT, f"a kernel ran for more than {timeout_ms} ms (CUTTLE_TIMEOUT)") from None
            raise Fault(_DEADLOCK, _line(error)) from None
        except IllegalAddress as error:
            raise Fault(_ILLEGAL_ADDRESS, _line(error)) from None
        except Trap as error:
            raise Fault(_TRAP, _line(error)) from None
        except (IllegalInstruction, MissingWait) as error:
            raise Fault(_ILLEGAL_INSTRUCTION, _line(error)) from None
        except LaunchError as error:
            raise Fault(_LOAD_FAILED, _line(error)) from None
        finally:
            self._drain(block)
        kind, line, where, thread = read_fault(self._memory.read(self._output, OUTPUT_BYTES))
        if kind:
            name = wire.FAULTS[kind][0] if kind in wire.FAULTS else "fault"
            raise Fault(kind, f"{name} at PTX line {line}" if line else name, where, thread)

    def _heap(self) -> int:
        """The heap of device malloc, made ready at its first launch; 0 if there is none."""
        base: int = self._jobs.u64[wire.JOBS_HEAP_BASE_AT // 8]
        size: int = self._jobs.u64[wire.JOBS_HEAP_BYTES_AT // 8]
        if size < AMDGPU_HEAP.bytes + 64:
            return 0
        if self._heap_base != base:
            self._heap_base = base
            first = -(-(base + AMDGPU_HEAP.bytes) // 16) * 16
            self._memory.write(base, pack("<QQ", first, base + size).ljust(AMDGPU_HEAP.bytes, b"\0"))
        return base

    # -- text --------------------------------------------------------------------------------------------------------

    def _drain(self, block: tuple[int, int, int]) -> None:
        capacity, cursor = unpack_from("<QQ", self._memory.read(self._output, 16))
        used = min(capacity, cursor, _OUTPUT_AREA)
        if not used:
            return
        area = self._memory.read(self._output + OUTPUT_BYTES, used)
        for channel, text in read_records(area, block, self._string_at):
            self._write_text(channel, text)
        self._memory.write(self._output + OUTPUT_BYTES, bytes(used))

    def _string_at(self, address: int) -> bytes:
        """A string of the device, up to its end or the end of what can be read."""
        try:
            region = self._memory.region_at(address)
        except IllegalAddress:
            return b"(bad address)"
        start = address - region.base
        return bytes(region.bytes[start : start + _STRING_LIMIT]).split(b"\0", 1)[0]

    def _write_text(self, channel: int, text: bytes) -> None:
        """Into the FIFO that the client drains; what finds no room is lost."""
        u64 = self._status.u64
        limit = u64[wire.STATUS_TEXT_LIMIT_AT // 8]
        if not 0 < limit <= wire.TEXT_FIFO_BYTES:
            limit = wire.TEXT_FIFO_BYTES
        head = u64[wire.STATUS_TEXT_HEAD_AT // 8]
        entry = pack("<II", len(text), channel) + text
        if head - u64[wire.STATUS_TEXT_TAIL_AT // 8] + len(entry) > limit:
            return
        place = head % wire.TEXT_FIFO_BYTES
        first = min(len(entry), wire.TEXT_FIFO_BYTES - place)
        self._status.bytes[wire.TEXT_AT + place : wire.TEXT_AT + place + first] = entry[:first]
        self._status.bytes[wire.TEXT_AT : wire.TEXT_AT + len(entry) - first] = entry[first:]
        u64[wire.STATUS_TEXT_HEAD_AT // 8] = head + len(entry)

    # -- the end -----------------------------------------------------------------------------------------------------

    def write_fault(self, fault: Fault) -> None:
        """Leaves the reason in the jobs page."""
        image = next((number for number, image in self._images.items() if image is self._running), 0xFFFFFFFF)
        text = (
            fault.text
            if self._running is None
            else f"kernel {self._running.name}, block [{fault.block[0]},{fault.block[1]},{fault.block[2]}]: {fault.text}"
        )
        data = text.encode("utf-8", "replace")[:1023] + b"\0"
        self._jobs.bytes[wire.JOBS_FAULT_TEXT_AT : wire.JOBS_FAULT_TEXT_AT + len(data)] = data
        self._jobs.u32[wire.JOBS_FAULT_IMAGE_AT // 4] = image
        self._jobs.u32[wire.JOBS_FAULT_THREAD_AT // 4] = fault.thread
        self._jobs.u32[wire.JOBS_FAULT_KIND_AT // 4] = fault.kind


def _line(error: CuttleError) -> str:
    return f"{error.message}, {error.where}"


def _watch(socket: int) -> None:
    """Ends this process when the device process is gone, whatever is being emulated."""
    poller = poll()
    poller.register(socket, POLLRDHUP)
    while True:
        if any(events & ~POLLIN for _, events in poller.poll()):
            os._exit(0)


def main(arguments: list[str]) -> None:
    """The process. Ends with code 70 after a fault."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status, arena, jobs, socket = (int(text) for text in arguments)
    executor = Executor(status, arena, jobs, socket)
    Thread(target=_watch, args=(socket,), daemon=True).start()
    try:
        executor.run()
    except Fault as fault:
        executor.write_fault(fault)
        os._exit(_FAULT_EXIT_CODE)
    except BaseException:
        import traceback

        sys.stderr.write(f"cuttle: the emulator failed\n{traceback.format_exc()}")
        os._exit(1)
