"""The executor process of a device written in Python: takes jobs in ring order, as the native one (`device/cpu/executor`) does.

    python -c "... main(sys.argv[1:])" STATUS ARENA JOBS SOCKET      (numbers of inherited descriptors)

Images are files of `lower/cpu/image_file.py` whose blob is a linked code object and whose metadata are those of
`lower/amdgpu/compile_kernel.py`. What the kernels see beside their parameters: `abi/amdgpu_abi.py`. A device gives `JobLoop` the jobs that
touch its memory and its kernels; ring, events, host calls, device text and faults are the same for all.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from select import POLLIN, POLLRDHUP, poll
from struct import pack, pack_into, unpack_from
from threading import Thread

from cuttle.abi import wire_layout as wire
from cuttle.device.shared import SharedWords

FAULT_EXIT_CODE = 70
ILLEGAL_ADDRESS, TRAP, TIME_OUT, ILLEGAL_INSTRUCTION, LOAD_FAILED, DEADLOCK, OUT_OF_MEMORY = 1, 3, 6, 7, 8, 10, 11
ASSERT = 4
LAUNCH_FAILED = TRAP  # both are CUDA_ERROR_LAUNCH_FAILED
COOPERATIVE = 1
_FUTEX, _FUTEX_WAKE = 202, 1
_PR_SET_PDEATHSIG = 1


class Fault(Exception):
    """What ends this process: the kind (`abi/wire.py` FAULTS) and a line of text."""

    def __init__(self, kind: int, text: str, block: tuple[int, int, int] = (0, 0, 0), thread: int = 0) -> None:
        super().__init__(text)
        self.kind, self.text, self.block, self.thread = kind, text, block, thread


class JobLoop(ABC):
    """The jobs of one device. `running` is the (image number, kernel) that a fault belongs to."""

    def __init__(self, status: int, arena: int, jobs: int, socket: int) -> None:
        self.status = SharedWords(status, wire.STATUS_BYTES)
        self.jobs = SharedWords(jobs, wire.JOBS_BYTES)
        self._socket = socket
        self.arena_descriptor = arena
        self.arena_base: int = self.jobs.u64[wire.JOBS_ARENA_BASE_AT // 8]
        self.arena_bytes: int = self.jobs.u64[wire.JOBS_ARENA_BYTES_AT // 8]
        self.arena_map = mmap.mmap(arena, self.arena_bytes)
        self.running: tuple[int, str] | None = None
        self._to_tell: list[Callable[[], None]] = []
        self._libc = ctypes.CDLL(None)
        self._status_address = ctypes.addressof(ctypes.c_char.from_buffer(self.status.memory))
        self._actions: dict[int, Callable[[int], None]] = {
            wire.RECORD_LAUNCH: self.launch, wire.RECORD_COPY: self.copy, wire.RECORD_COPY_3D: self.copy_3d,
            wire.RECORD_FILL: self.fill, wire.RECORD_EVENT_RECORD: self._event, wire.RECORD_HOST_CALL: self._host_call,
            wire.RECORD_WRITE_VALUE: self.write_value, wire.RECORD_LOAD: self.load, wire.RECORD_UNLOAD: self.unload,
            wire.RECORD_COVER: self.cover,
        }  # fmt: skip

    # -- what a device does: `at` is the place of the record in the jobs memory -----------------------------------------

    @abstractmethod
    def launch(self, at: int) -> None: ...

    @abstractmethod
    def copy(self, at: int) -> None: ...

    @abstractmethod
    def copy_3d(self, at: int) -> None: ...

    @abstractmethod
    def fill(self, at: int) -> None: ...

    @abstractmethod
    def write_value(self, at: int) -> None: ...

    @abstractmethod
    def load(self, at: int) -> None: ...

    @abstractmethod
    def unload(self, at: int) -> None: ...

    @abstractmethod
    def cover(self, at: int) -> None:
        """Kernels may access this part of the arena from now on."""

    @abstractmethod
    def settle(self) -> None:
        """What the jobs done so far wrote must be in the arena: what follows tells the program that they are done."""

    @property
    @abstractmethod
    def settles_each_job(self) -> bool:
        """Whether completions are told after each job, or after all that were there together."""

    # -- the ring ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs jobs until the other side is gone. Raises Fault."""
        u64, head_at, tail_at = self.jobs.u64, wire.JOBS_HEAD_AT // 8, wire.JOBS_TAIL_AT // 8
        tail = u64[tail_at]
        while True:
            if u64[head_at] == tail:
                self._wait_for_jobs(tail)
            end = u64[head_at]
            while tail != end:
                at = wire.JOB_RING_AT + (tail & wire.JOB_SLOTS - 1) * wire.SLOT_BYTES
                kind, slots, stream, sequence = unpack_from("<HHIQ", self.jobs.bytes, at)
                if kind == wire.RECORD_SHUTDOWN:
                    os._exit(0)
                if kind == wire.RECORD_HOST_CALL:
                    self._tell()
                action = self._actions.get(kind)
                if action is not None:
                    action(at)
                tail += max(slots, 1)
                told = sequence if kind != wire.RECORD_HOST_CALL and stream < wire.STREAM_SLOTS else 0
                self._to_tell.append(self._completion(stream, told, tail))
                if self.settles_each_job:
                    self._tell()
            self._tell()

    def _tell(self) -> None:
        """Tells of what was done since the last time."""
        if not self._to_tell:
            return
        self.settle()
        for tell in self._to_tell:
            tell()
        self._to_tell.clear()

    def _completion(self, stream: int, sequence: int, tail: int) -> Callable[[], None]:
        def tell() -> None:
            if sequence:
                at = (wire.STREAMS_AT + stream * wire.STREAM_SIZE + wire.STREAM_COMPLETED_AT) // 8
                self.status.u64[at] = sequence
                self._wake(wire.STATUS_COMPLETION_WORD_AT)
            self.jobs.u64[wire.JOBS_TAIL_AT // 8] = tail

        return tell

    def _wait_for_jobs(self, tail: int) -> None:
        """Sleeps until the device process writes a byte. The first sleeps are short: its store to `head` and its look at
        `executor_sleeping` are not fenced."""
        u32, sleeping = self.jobs.u32, wire.JOBS_EXECUTOR_SLEEPING_AT // 4
        poller = poll()
        poller.register(self._socket, POLLIN)
        pause_ms = 1
        u32[sleeping] = 1
        while self.jobs.u64[wire.JOBS_HEAD_AT // 8] == tail:
            if poller.poll(pause_ms):
                if not os.read(self._socket, 64):
                    os._exit(0)
                u32[sleeping] = 1
            pause_ms = min(2 * pause_ms, 50)
        u32[sleeping] = 0

    def _wake(self, word_at: int) -> None:
        self.status.u32[word_at // 4] = (self.status.u32[word_at // 4] + 1) & 0xFFFFFFFF
        self._libc.syscall(
            _FUTEX, ctypes.c_void_p(self._status_address + word_at), _FUTEX_WAKE, 0x7FFFFFFF, None, None, 0
        )

    def _event(self, at: int) -> None:
        event, _, number = unpack_from("<IIQ", self.jobs.bytes, at + 16)
        if event >= wire.EVENT_SLOTS:
            return
        slot = wire.EVENTS_AT + event * wire.EVENT_SIZE
        now = time.monotonic_ns()

        def tell() -> None:
            self.status.u64[(slot + wire.EVENT_TIME_NS_AT) // 8] = now
            self.status.u64[(slot + wire.EVENT_COMPLETED_AT) // 8] = number
            self._wake(wire.STATUS_COMPLETION_WORD_AT)

        self._to_tell.append(tell)

    def _host_call(self, at: int) -> None:
        (stream,) = unpack_from("<I", self.jobs.bytes, at + 4)
        function, data, kind, _, ticket = unpack_from("<QQIIQ", self.jobs.bytes, at + 16)
        u64, head_at, tail_at = self.status.u64, wire.STATUS_HOST_CALL_HEAD_AT // 8, wire.STATUS_HOST_CALL_TAIL_AT // 8
        head = u64[head_at]
        while head - u64[tail_at] >= wire.HOST_CALL_SLOTS:
            time.sleep(0.00005)
        slot = wire.HOST_CALLS_AT + head % wire.HOST_CALL_SLOTS * wire.HOST_CALL_SIZE
        pack_into("<QQIIQ", self.status.bytes, slot, function, data, stream, kind, ticket)
        u64[head_at] = head + 1
        self._wake(wire.STATUS_HOST_CALL_WORD_AT)

    # -- what devices share --------------------------------------------------------------------------------------------

    def offset(self, address: int, size: int, what: str) -> int:
        """Where a range lies in the arena. Raises Fault for one outside."""
        at = address - self.arena_base
        if at < 0 or at + size > self.arena_bytes:
            raise Fault(ILLEGAL_ADDRESS, f"{what}: {size} bytes at {address:#x} are not in device memory")
        return at

    @property
    def timeout_ms(self) -> int:
        """Longest time of a kernel; 0 for no limit."""
        timeout: int = self.jobs.u32[wire.JOBS_TIMEOUT_MS_AT // 4]
        return timeout

    @property
    def stack_bytes(self) -> int:
        """Stack of a lane in kernels whose need is not known."""
        return max(1024, self.jobs.u64[wire.JOBS_LOCAL_LIMIT_BYTES_AT // 8])

    @property
    def heap(self) -> tuple[int, int]:
        """(address, bytes) of the heap of device malloc; bytes may be 0."""
        return self.jobs.u64[wire.JOBS_HEAP_BASE_AT // 8], self.jobs.u64[wire.JOBS_HEAP_BYTES_AT // 8]

    def write_text(self, channel: int, text: bytes) -> None:
        """Into the FIFO that the client drains; what finds no room is lost."""
        u64 = self.status.u64
        limit = u64[wire.STATUS_TEXT_LIMIT_AT // 8]
        if not 0 < limit <= wire.TEXT_FIFO_BYTES:
            limit = wire.TEXT_FIFO_BYTES
        head = u64[wire.STATUS_TEXT_HEAD_AT // 8]
        entry = pack("<II", len(text), channel) + text
        if head - u64[wire.STATUS_TEXT_TAIL_AT // 8] + len(entry) > limit:
            return
        place = head % wire.TEXT_FIFO_BYTES
        first = min(len(entry), wire.TEXT_FIFO_BYTES - place)
        self.status.bytes[wire.TEXT_AT + place : wire.TEXT_AT + place + first] = entry[:first]
        self.status.bytes[wire.TEXT_AT : wire.TEXT_AT + len(entry) - first] = entry[first:]
        u64[wire.STATUS_TEXT_HEAD_AT // 8] = head + len(entry)


def write_fault(jobs: SharedWords, fault: Fault, running: tuple[int, str] | None) -> None:
    """Leaves the reason in the jobs page. `running`: image number and name of the kernel that the fault belongs to."""
    number, kernel = running or (0xFFFFFFFF, "")
    place = f"kernel {kernel}, block [{fault.block[0]},{fault.block[1]},{fault.block[2]}]: " if kernel else ""
    data = (place + fault.text).encode("utf-8", "replace")[:1023] + b"\0"
    jobs.bytes[wire.JOBS_FAULT_TEXT_AT : wire.JOBS_FAULT_TEXT_AT + len(data)] = data
    jobs.u32[wire.JOBS_FAULT_IMAGE_AT // 4] = number
    jobs.u32[wire.JOBS_FAULT_THREAD_AT // 4] = fault.thread
    jobs.u32[wire.JOBS_FAULT_KIND_AT // 4] = fault.kind


def _watch(socket: int) -> None:
    """Ends this process when the device process is gone, whatever is running."""
    poller = poll()
    poller.register(socket, POLLRDHUP)
    while True:
        if any(events & ~POLLIN for _, events in poller.poll()):
            os._exit(0)


def serve(make: Callable[[int, int, int, int], JobLoop], arguments: list[str], what: str) -> None:
    """The process. Ends with code 70 after a fault; `what` names who failed when it is Cuttle itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status, arena, jobs, socket = (int(text) for text in arguments)
    loop = None
    Thread(target=_watch, args=(socket,), daemon=True).start()
    try:
        loop = make(status, arena, jobs, socket)
        loop.run()
    except Fault as fault:
        page = loop.jobs if loop is not None else SharedWords(jobs, wire.JOBS_BYTES)
        write_fault(page, fault, loop.running if loop is not None else None)
        os._exit(FAULT_EXIT_CODE)
    except BaseException:
        import traceback

        sys.stderr.write(f"cuttle: {what} failed\n{traceback.format_exc()}")
        os._exit(1)
