"""The CPU device: owns the executor process and its job ring."""

from __future__ import annotations

import _socket
import os
import time
from collections.abc import Callable, Sequence
from struct import pack, pack_into, unpack_from

from cuttle.abi import knobs
from cuttle.abi import wire_layout as wire
from cuttle.device.base import DeviceLost, Fault
from cuttle.device.shared import SharedMemory, SharedWords

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MASK = wire.JOB_SLOTS - 1
_HEAD = wire.JOBS_HEAD_AT // 8
_TAIL = wire.JOBS_TAIL_AT // 8
_SLEEPING = wire.JOBS_EXECUTOR_SLEEPING_AT // 4
_RING_AT = wire.JOB_RING_AT
_RING_SLOT = wire.JOB_RING_AT // wire.SLOT_BYTES
_TARGET = wire.RECORD_LAUNCH_TARGET_AT // 4
GPU_PAGE = 2 << 20  # beyond the last page of this size kernels fault on a GPU too
_FAULT_EXIT_CODE = 70


def find_executor() -> str:
    """The executor program: CUTTLE_EXECUTOR, or the one that was built with the client library."""
    path = knobs.EXECUTOR.text()
    if path:
        return path
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return os.path.join(package, "client", "lib", "cuttle-executor")


def require_executor() -> None:
    """Raises DeviceError DEV-0002 if there is no executor that can be started: a kernel would be too late to find out."""
    path = find_executor()
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        from cuttle.errors import DeviceError  # nothing that a start should wait for

        what = "is no program that may be executed" if os.path.exists(path) else "does not exist"
        raise DeviceError("DEV-0002", f"the executor {path} {what}")


def available_cores() -> int:
    """Cores this process may use: its affinity, further limited by a control group's quota (rounded up)."""
    cores = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        if quota != "max":
            cores = min(cores, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        try:
            with open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") as file:
                quota_us = int(file.read())
            with open("/sys/fs/cgroup/cpu/cpu.cfs_period_us") as file:
                period_us = int(file.read())
            if quota_us > 0:
                cores = min(cores, max(1, -(-quota_us // period_us)))
        except (OSError, ValueError):
            pass
    return cores


class CpuDevice:
    """See `device/base.py` for the contract."""

    def __init__(self, shared: SharedMemory, workers: int, timeout_ms: int) -> None:
        self.position = 0
        self.code_options: dict[str, Any] = {}
        self.title = ""
        self.memory_bytes = 0
        self.heap_base = 0
        self.heap_bytes = 0
        self.local_limit_bytes = 1024
        self.interrupted: Callable[[], bool] = lambda: False
        self._shared = shared
        self._workers = workers
        self._timeout_ms = timeout_ms
        self._process = 0
        self._socket = -1
        self._next_image = 0
        self._free_images: list[int] = []
        self._arena_used = 0
        self._paths: dict[int, str] = {}  # of image files, for messages
        self._descriptor = os.memfd_create("cuttle-jobs")
        os.ftruncate(self._descriptor, wire.JOBS_BYTES)
        self._jobs = SharedWords(self._descriptor, wire.JOBS_BYTES)
        self._u64 = self._jobs.u64
        self._u32 = self._jobs.u32
        self._bytes = self._jobs.bytes
        self._room = wire.JOB_SLOTS  # position up to which slots are known to be free

    # Starting and ending

    @property
    def running(self) -> bool:
        return self._process != 0

    def start(self) -> None:
        if self._process:
            return
        self._write_page()
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        # Numbers from 3 on in the child; they are made inheritable there by dup2.
        sources = (self._shared.status_descriptor, self._shared.arena_descriptor, self._descriptor, theirs.fileno())
        first = max(*sources, 10) + 1
        actions: list[tuple[int, int, int]] = [
            (os.POSIX_SPAWN_DUP2, source, first + number) for number, source in enumerate(sources)
        ]
        command = self.executor_command()
        arguments = [*command, *(str(first + number) for number in range(len(sources)))]
        try:
            self._process = os.posix_spawn(command[0], arguments, os.environ, file_actions=actions)
        except OSError as error:
            ours.close()
            from cuttle.errors import DeviceError

            lost = DeviceError("DEV-0001", f"cannot start {command[0]}: {error.strerror}")
            raise DeviceLost(lost.render()) from None
        finally:
            theirs.close()
        self._socket = ours.detach()
        os.set_blocking(self._socket, False)
        status = self._shared.status.u32
        status[wire.STATUS_EXECUTOR_PID_AT // 4] = self._process
        status[wire.STATUS_EXECUTOR_EPOCH_AT // 4] += 1

    def executor_command(self) -> list[str]:
        """The program that runs jobs; the numbers of the shared descriptors are added to its arguments."""
        return [find_executor()]

    def _write_page(self) -> None:
        self._bytes[: wire.JOBS_SIZE] = bytes(wire.JOBS_SIZE)
        self._u64[_HEAD] = self._u64[_TAIL] = self.position
        self._u32[wire.JOBS_VERSION_AT // 4] = wire.PROTOCOL_VERSION
        self._u32[wire.JOBS_WORKERS_AT // 4] = self._workers
        self._u32[wire.JOBS_TIMEOUT_MS_AT // 4] = self._timeout_ms
        self._u64[wire.JOBS_ARENA_BASE_AT // 8] = self._shared.arena_base
        self._u64[wire.JOBS_ARENA_BYTES_AT // 8] = self._shared.arena_bytes
        self._u64[wire.JOBS_ARENA_USED_AT // 8] = self._arena_used
        self._write_limits()
        self._room = self.position + wire.JOB_SLOTS

    def set_limits(self, heap_base: int, heap_bytes: int, local_bytes: int) -> None:
        self.heap_base = heap_base
        self.heap_bytes = heap_bytes
        self.local_limit_bytes = local_bytes
        self._write_limits()

    def _write_limits(self) -> None:
        """The executor reads the limits when it first needs them."""
        self._u64[wire.JOBS_HEAP_BASE_AT // 8] = self.heap_base
        self._u64[wire.JOBS_HEAP_BYTES_AT // 8] = self.heap_bytes
        self._u64[wire.JOBS_LOCAL_LIMIT_BYTES_AT // 8] = self.local_limit_bytes

    def reset(self) -> None:
        if self._process:
            os.kill(self._process, 9)
            os.waitpid(self._process, 0)
            os.close(self._socket)
        self._forget_process()

    def _forget_process(self) -> None:
        self._process = 0
        self._socket = -1
        self._next_image = 0
        self._free_images.clear()
        self._shared.status.u32[wire.STATUS_EXECUTOR_PID_AT // 4] = 0

    def cover(self, address: int, size: int) -> None:
        """Kernels reach the arena's beginning, up to the end of the last page that was covered: pages as large as a GPU's."""
        used = -(-(address + size - self._shared.arena_base) // GPU_PAGE) * GPU_PAGE
        if used > self._arena_used:
            self._arena_used = min(used, self._shared.arena_bytes)
            self._u64[wire.JOBS_ARENA_USED_AT // 8] = self._arena_used

    # Jobs

    def submit(self, record: bytes | memoryview, slots: int) -> None:
        position = self.position
        place = position & _MASK
        if place + slots > wire.JOB_SLOTS:
            self._fill_end(wire.JOB_SLOTS - place)
            position = self.position
            place = 0
        if position + slots > self._room:
            self._wait_for_room(slots)
        at = _RING_AT + place * wire.SLOT_BYTES
        self._bytes[at : at + len(record)] = record
        self.position = self._u64[_HEAD] = position + slots

    def submit_launch(self, record: memoryview, slots: int, image: int) -> None:
        position = self.position
        place = position & _MASK
        if place + slots > wire.JOB_SLOTS:
            self._fill_end(wire.JOB_SLOTS - place)
            position = self.position
            place = 0
        if position + slots > self._room:
            self._wait_for_room(slots)
        at = _RING_AT + place * wire.SLOT_BYTES
        self._bytes[at : at + len(record)] = record
        self._u32[(at >> 2) + _TARGET] = image
        self.position = self._u64[_HEAD] = position + slots

    def _fill_end(self, slots: int) -> None:
        """A record must not wrap: the slots up to the ring's end become one NOP."""
        if self.position + slots > self._room:
            self._wait_for_room(slots)
        at = _RING_AT + (self.position & _MASK) * wire.SLOT_BYTES
        pack_into(wire.RECORD_HEADER_FORMAT, self._bytes, at, wire.RECORD_NOP, slots, 0, 0)
        self.position = self._u64[_HEAD] = self.position + slots

    def _wait_for_room(self, slots: int) -> None:
        pause = 0.00002
        while True:
            self._room = self._u64[_TAIL] + wire.JOB_SLOTS
            if self.position + slots <= self._room:
                return
            self.wake()
            if self._lost():
                raise DeviceLost("the executor has ended")
            if self.interrupted():
                raise DeviceLost("the program has ended")
            time.sleep(pause)
            pause = min(pause * 2, 0.002)

    def wake(self) -> None:
        if self._u32[_SLEEPING]:
            self._u32[_SLEEPING] = 0
            try:
                os.write(self._socket, b"j")
            except BlockingIOError:
                pass  # it has more wake-up bytes than it can read
            except OSError:
                pass  # it is gone: `look` will say so

    def finished(self) -> int:
        return self._u64[_TAIL]

    # Images

    def load(self, path: str, symbols: int) -> int:
        if self._free_images:
            image = self._free_images.pop()
        else:
            image = self._next_image
            self._next_image += 1
        name = os.fsencode(path)
        size = wire.RECORD_LOAD_BYTES + len(name)
        slots = -(-size // wire.SLOT_BYTES)
        header = pack(wire.RECORD_LOAD_FORMAT, wire.RECORD_LOAD, slots, 0, 0, image, len(name), symbols)
        self.submit(header + name, slots)
        self._paths[image] = path
        return image

    def unload(self, image: int) -> None:
        self.submit(pack(wire.RECORD_UNLOAD_FORMAT, wire.RECORD_UNLOAD, 1, 0, 0, image, 0), 1)
        self._free_images.append(image)

    # Health

    def descriptors(self) -> Sequence[int]:
        return (self._socket,) if self._socket >= 0 else ()

    def _lost(self) -> bool:
        """Whether the socket has come to its end."""
        try:
            return os.read(self._socket, 64) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def look(self) -> Fault | None:
        if not self._process or not self._lost():
            return None
        _, status = os.waitpid(self._process, 0)
        os.close(self._socket)
        fault = self._describe_end(os.waitstatus_to_exitcode(status))
        self._forget_process()
        return fault

    def _describe_end(self, exit_code: int) -> Fault:
        kind = self._u32[wire.JOBS_FAULT_KIND_AT // 4]
        image = self._u32[wire.JOBS_FAULT_IMAGE_AT // 4]
        if exit_code == _FAULT_EXIT_CODE and kind in wire.FAULTS:
            name, result = wire.FAULTS[kind]
            from cuttle.device.cpu.fault_place import describe  # nothing that a start should wait for

            (raw,) = unpack_from("1024s", self._bytes, wire.JOBS_FAULT_TEXT_AT)
            text = raw.split(b"\0", 1)[0].decode("utf-8", "replace")
            access = self._u32[wire.JOBS_FAULT_ACCESS_AT // 4]
            address = self._u64[wire.JOBS_FAULT_ADDRESS_AT // 8] if access else -1
            line = self._u32[wire.JOBS_FAULT_LINE_AT // 4]
            more, in_device_memory = describe(self._paths.get(image, ""), line, kind, access)
            return Fault(result, f"{name}: {text}" if text else name, image, address if in_device_memory else -1, more)
        if exit_code == -9:
            return Fault(
                719,
                "the executor was killed, usually because memory ran out: CUTTLE_MEMORY sets how much the device has",
            )
        return Fault(719, f"the executor ended with code {exit_code}")
