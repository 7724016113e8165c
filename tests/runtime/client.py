"""A client in Python: starts the device process and talks to it as the C library does."""

from __future__ import annotations

import _socket
import os
import subprocess
import sys
import time
from pathlib import Path
from struct import calcsize, pack
from typing import Any

from cuttle.abi import wire_layout as wire
from cuttle.abi.requests import REQUESTS
from cuttle.device.shared import SharedMemory

SOURCE = Path(__file__).parents[2] / "src"
NUMBERS = {row.name: row.number for row in REQUESTS}


class FakeClient:
    """One program's connection."""

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        descriptors = [os.memfd_create(name) for name in ("control", "status", "arena")]
        os.ftruncate(descriptors[0], wire.CONTROL_BYTES)
        os.ftruncate(descriptors[1], wire.STATUS_BYTES)
        self.descriptors = descriptors
        self.shared = SharedMemory(*descriptors)
        self.control = self.shared.control
        self.status = self.shared.status
        self.control.u32[wire.CONTROL_VERSION_AT // 4] = wire.PROTOCOL_VERSION
        self.control.u64[wire.CONTROL_ARENA_BASE_AT // 8] = wire.ARENA_BASE
        self.shared.arena_base = wire.ARENA_BASE
        self.status.u32[(wire.STREAMS_AT + wire.STREAM_FLAGS_AT) // 4] = 1
        self.socket, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self.socket.settimeout(20)
        started = time.perf_counter()
        numbers = (theirs.fileno(), *descriptors)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cuttle.runtime", *map(str, numbers)],
            pass_fds=numbers,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **(environment or {})},
            stderr=subprocess.PIPE,
        )
        theirs.close()
        assert self.socket.recv(1) == b"r"
        self.start_seconds = time.perf_counter() - started
        assert self.control.u32[wire.CONTROL_MAGIC_AT // 4] == wire.READY_MAGIC
        self.ready_error = self.control.u32[wire.CONTROL_READY_ERROR_AT // 4]
        if not self.ready_error:
            import mmap

            self.shared.arena_bytes = self.control.u64[wire.CONTROL_ARENA_BYTES_AT // 8]
            self.shared.arena = mmap.mmap(descriptors[2], self.shared.arena_bytes)
        self.head = 0
        self.event_number = 0
        self.ticket = 0

    # Records

    def wake(self) -> None:
        if self.control.u32[wire.CONTROL_DEVICE_SLEEPING_AT // 4]:
            self.control.u32[wire.CONTROL_DEVICE_SLEEPING_AT // 4] = 0
            self.socket.send(b"c")

    def put(self, kind: int, form: str, *values: Any, stream: int = 0, ordered: bool = True, tail: bytes = b"") -> int:
        """Publishes a record; returns its sequence number."""
        size = calcsize(form) + len(tail)
        slots = -(-size // wire.SLOT_BYTES)
        place = self.head % wire.RING_SLOTS
        if place + slots > wire.RING_SLOTS:
            self._publish(pack(wire.RECORD_NOP_FORMAT, 0, wire.RING_SLOTS - place, 0, 0), wire.RING_SLOTS - place)
        sequence = 0
        if ordered:
            word = (wire.STREAMS_AT + stream * wire.STREAM_SIZE + wire.STREAM_SUBMITTED_AT) // 8
            sequence = self.status.u64[word] = self.status.u64[word] + 1
        self._publish(pack(form, kind, slots, stream, sequence, *values) + tail, slots)
        self.wake()
        return sequence

    def _publish(self, record: bytes, slots: int) -> None:
        limit = time.monotonic() + 20
        while self.head + slots - self.control.u64[wire.CONTROL_RING_TAIL_AT // 8] > wire.RING_SLOTS:
            self.wake()
            assert time.monotonic() < limit, "the device process takes no records"
            time.sleep(0.0001)
        at = wire.RING_AT + (self.head % wire.RING_SLOTS) * wire.SLOT_BYTES
        self.control.bytes[at : at + len(record)] = record
        self.head += slots
        self.control.u64[wire.CONTROL_RING_HEAD_AT // 8] = self.head

    def stream(self, number: int, flags: int = 0) -> int:
        self.status.u32[(wire.STREAMS_AT + number * wire.STREAM_SIZE + wire.STREAM_FLAGS_AT) // 4] = 1 | flags
        self.put(wire.RECORD_STREAM_CREATE, wire.RECORD_STREAM_CREATE_FORMAT, flags, 0, stream=number, ordered=False)
        return number

    def fill(self, address: int, value: int, count: int = 1, stream: int = 0) -> int:
        return self.put(wire.RECORD_FILL, wire.RECORD_FILL_FORMAT, address, count, 1, 0, value, 4, stream=stream)

    def copy(self, destination: int, source: int, size: int, stream: int = 0) -> int:
        return self.put(wire.RECORD_COPY, wire.RECORD_COPY_FORMAT, destination, source, size, stream=stream)

    def record_event(self, event: int, stream: int = 0) -> int:
        self.event_number += 1
        self.put(wire.RECORD_EVENT_RECORD, wire.RECORD_EVENT_RECORD_FORMAT, event, 0, self.event_number, stream=stream)
        return self.event_number

    def wait_event(self, event: int, number: int, stream: int = 0) -> int:
        return self.put(wire.RECORD_EVENT_WAIT, wire.RECORD_EVENT_WAIT_FORMAT, event, 0, number, stream=stream)

    def host_call(self, function: int, stream: int = 0) -> int:
        self.ticket += 1
        form = wire.RECORD_HOST_CALL_FORMAT
        return self.put(wire.RECORD_HOST_CALL, form, function, 0, 0, 0, self.ticket, stream=stream)

    def host_done(self, ticket: int) -> None:
        self.put(wire.RECORD_HOST_DONE, wire.RECORD_HOST_DONE_FORMAT, ticket, ordered=False)

    def posted_host_calls(self) -> list[tuple[int, int]]:
        """(function, ticket) of all calls posted so far."""
        found = []
        for number in range(self.status.u64[wire.STATUS_HOST_CALL_HEAD_AT // 8]):
            at = (wire.HOST_CALLS_AT + number % wire.HOST_CALL_SLOTS * wire.HOST_CALL_SIZE) // 8
            found.append((self.status.u64[at], self.status.u64[at + wire.HOST_CALL_TICKET_AT // 8]))
        return found

    def launch(self, kernel: int, grid: int, block: int, parameters: bytes, stream: int = 0) -> int:
        return self.put(
            wire.RECORD_LAUNCH, wire.RECORD_LAUNCH_FORMAT, kernel, grid, 1, 1, block, 1, 1, 0, len(parameters), 0, 0, 0, 0, 0,
            stream=stream, tail=parameters,
        )  # fmt: skip

    # Waiting

    def completed(self, stream: int = 0) -> int:
        return int(self.status.u64[(wire.STREAMS_AT + stream * wire.STREAM_SIZE + wire.STREAM_COMPLETED_AT) // 8])

    @property
    def sticky(self) -> int:
        return int(self.status.u32[wire.STATUS_STICKY_ERROR_AT // 4])

    @property
    def launch_error(self) -> int:
        return int(self.status.u32[wire.STATUS_LAUNCH_ERROR_AT // 4])

    def wait(self, sequence: int, stream: int = 0, seconds: float = 20.0, refused: int = 0) -> None:
        """Waits for the work with this number; work that failed or was refused fails the test, unless `refused`, a CUresult, is expected."""
        limit = time.monotonic() + seconds
        while self.completed(stream) < sequence and not self.sticky:
            assert time.monotonic() < limit, f"stream {stream} does not reach {sequence}"
            assert self.process.poll() is None, "the device process has ended"
            time.sleep(0.0002)
        assert not self.sticky, self.error_text()
        assert self.launch_error == refused, self.said()

    def wait_sticky(self, seconds: float = 20.0) -> int:
        limit = time.monotonic() + seconds
        while not self.sticky:
            assert time.monotonic() < limit
            time.sleep(0.001)
        return self.sticky

    def said(self) -> str:
        """What the device process wrote on stderr since the last look."""
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)
        try:
            return os.read(self.process.stderr.fileno(), 1 << 16).decode()
        except BlockingIOError:
            return ""
        finally:
            os.set_blocking(self.process.stderr.fileno(), True)

    def error_text(self) -> str:
        at = wire.STATUS_ERROR_TEXT_AT
        return bytes(self.status.bytes[at : at + 1024]).split(b"\0", 1)[0].decode()

    # Requests

    def _exchange(self) -> None:
        sequence = self.control.u64[wire.CONTROL_REQUEST_SEQUENCE_AT // 8] + 1
        self.control.u64[wire.CONTROL_REQUEST_SEQUENCE_AT // 8] = sequence
        self.wake()
        limit = time.monotonic() + 20
        while self.control.u64[wire.CONTROL_REPLY_SEQUENCE_AT // 8] != sequence:
            assert time.monotonic() < limit, "no reply"
            assert self.process.poll() is None, "the device process has ended"
            time.sleep(0.00005)

    def request(
        self, name: str, *arguments: int, payload: bytes = b"", context: int = 1
    ) -> tuple[int, list[int], bytes]:
        """(CUresult, reply words, reply payload)."""
        u32, u64 = self.control.u32, self.control.u64
        u64[wire.CONTROL_REQUEST_CONTEXT_AT // 8] = context
        u64[wire.CONTROL_REQUEST_THREAD_AT // 8] = 1
        while len(payload) > wire.PAYLOAD_BYTES:
            self._write_payload(payload[: wire.PAYLOAD_BYTES])
            u32[wire.CONTROL_REQUEST_FUNCTION_AT // 4] = NUMBERS[name]
            u32[wire.CONTROL_REQUEST_FLAGS_AT // 4] = 1
            u32[wire.CONTROL_REQUEST_COUNT_AT // 4] = 0
            self._exchange()
            payload = payload[wire.PAYLOAD_BYTES :]
        self._write_payload(payload)
        self._send(name, arguments)
        result = u32[wire.CONTROL_REPLY_RESULT_AT // 4]
        at = wire.CONTROL_REQUEST_ARGUMENTS_AT // 8
        values = list(u64[at : at + wire.REQUEST_ARGUMENTS])
        size = u32[wire.CONTROL_REPLY_PAYLOAD_BYTES_AT // 4]
        data = bytes(self.control.bytes[wire.PAYLOAD_AT : wire.PAYLOAD_AT + min(size, wire.PAYLOAD_BYTES)])
        while len(data) < size:
            self._write_payload(b"")
            self._send("REPLY_MORE", (len(data),))
            more = u32[wire.CONTROL_REPLY_PAYLOAD_BYTES_AT // 4]
            data += bytes(self.control.bytes[wire.PAYLOAD_AT : wire.PAYLOAD_AT + more])
        return result, values, data

    def _write_payload(self, payload: bytes) -> None:
        self.control.bytes[wire.PAYLOAD_AT : wire.PAYLOAD_AT + len(payload)] = payload
        self.control.u32[wire.CONTROL_REQUEST_PAYLOAD_BYTES_AT // 4] = len(payload)

    def _send(self, name: str, arguments: tuple[int, ...]) -> None:
        u32, u64 = self.control.u32, self.control.u64
        u32[wire.CONTROL_REQUEST_FUNCTION_AT // 4] = NUMBERS[name]
        u32[wire.CONTROL_REQUEST_FLAGS_AT // 4] = 0
        u32[wire.CONTROL_REQUEST_COUNT_AT // 4] = len(arguments)
        for number, value in enumerate(arguments):
            u64[wire.CONTROL_REQUEST_ARGUMENTS_AT // 8 + number] = value & 0xFFFF_FFFF_FFFF_FFFF
        self._exchange()

    def ok(self, name: str, *arguments: int, payload: bytes = b"") -> list[int]:
        result, values, data = self.request(name, *arguments, payload=payload)
        assert result == 0, (name, result, data)
        return values

    def allocate(self, size: int, kind: int = 0) -> int:
        return self.ok("MEM_ALLOC", size, kind, 0, 0)[0]

    def load(self, text: bytes) -> int:
        return self.ok("MODULE_LOAD", 1, 1, 0, 4096, 0, 0, 0, 0, payload=pack("<Q", len(text)) + text)[0]

    def kernel(self, module: int, name: str) -> int:
        return self.ok("KERNEL_GET", module, payload=name.encode())[0]

    def close(self) -> str:
        """Ends the connection; returns what the device process said on stderr."""
        self.socket.close()
        _, errors = self.process.communicate(timeout=20)
        for descriptor in self.descriptors:
            os.close(descriptor)
        return errors.decode()
