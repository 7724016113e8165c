"""The device process's loop: takes records and requests in program order, hands jobs to the device.

The path of an ordinary launch is kept short: what the launch needs was looked up the first time, afterwards its bytes are
copied from one ring to the other and the image's index is put in.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from os import sched_yield
from select import POLLIN, POLLRDHUP, poll
from struct import pack, unpack_from
from time import monotonic

from cuttle.abi import wire_layout as wire
from cuttle.device.base import DeviceLost
from cuttle.runtime import results
from cuttle.runtime.messages import say
from cuttle.runtime.results import CudaError, Reply
from cuttle.runtime.session import Session
from cuttle.runtime.streams import DONE, RUNNING, WAIT, StreamOrder

Handler = Callable[[Session, tuple[int, ...], bytes], int | tuple[int, ...] | Reply | None]

_MASK = wire.RING_SLOTS - 1
_HEAD = wire.CONTROL_RING_HEAD_AT // 8
_TAIL = wire.CONTROL_RING_TAIL_AT // 8
_SLEEPING = wire.CONTROL_DEVICE_SLEEPING_AT // 4
_WAITING = wire.CONTROL_CLIENT_WAITING_AT // 4
_REQUEST = wire.CONTROL_REQUEST_SEQUENCE_AT // 8
_REPLY = wire.CONTROL_REPLY_SEQUENCE_AT // 8
_ARGUMENTS = wire.CONTROL_REQUEST_ARGUMENTS_AT // 8
_RESULT = wire.CONTROL_REPLY_RESULT_AT // 4
_WORD = (1 << 64) - 1

_LAUNCH_KEY_AT = wire.RECORD_LAUNCH_TARGET_AT
_LAUNCH_KEY_END = wire.RECORD_LAUNCH_CLUSTER_AT
_PARAMETERS_AT = wire.RECORD_LAUNCH_BYTES

SPIN_SECONDS = 0.00004
# The tail is published after so many records at the latest: the client may wait for room.
PUBLISH_EVERY = 512
# A program that launches without a pause gets its optimised kernels too: looks for them after so many turns of the loop.
POLL_EVERY = 256
REPLY_MORE = 2
FIRST_CHUNKED = 1
GRAPH_TICKET = 1 << 63


class Dispatcher:
    """Serves one client until it is gone."""

    def __init__(self, session: Session, socket: int, handler: Callable[[int], Handler | None]) -> None:
        self.session = session
        self._socket = socket
        self._handler = handler
        self._control = session.shared.control
        self._device = session.device
        self._tail = 0
        self._upload = bytearray()
        self._reply_rest = b""
        self._tickets: dict[int, int] = {}  # of running host functions: record number
        self._graph_tickets = 0
        self._values_waited_for = False
        self._no_launches: dict[bytes, tuple[int, int, int]] = {}
        self._closed = False
        session.device.interrupted = self._client_is_gone
        self.order = session.order = StreamOrder(session.shared.status.u32, self._let_go)
        self._simple = {
            wire.RECORD_COPY: wire.RECORD_COPY_BYTES,
            wire.RECORD_COPY_3D: wire.RECORD_COPY_3D_BYTES,
            wire.RECORD_FILL: wire.RECORD_FILL_BYTES,
            wire.RECORD_EVENT_RECORD: wire.RECORD_EVENT_RECORD_BYTES,
            wire.RECORD_WRITE_VALUE: wire.RECORD_WRITE_VALUE_BYTES,
        }
        self._to_mark = {
            wire.RECORD_EVENT_WAIT,
            wire.RECORD_STREAM_CREATE,
            wire.RECORD_STREAM_DESTROY,
            wire.RECORD_MARK,
        }

    # The loop

    def run(self, idle: Callable[[], None]) -> None:
        """Returns when the client is gone. `idle` is called once, when there is nothing to do for the first time."""
        control64 = self._control.u64
        idle_called = False
        spin_until = 0.0
        turns = 0
        while not self._closed:
            worked = False
            if control64[_HEAD] != self._tail:
                self._take_records()
                worked = True
            if control64[_REQUEST] != control64[_REPLY]:
                # Records published before the request come first.
                if control64[_HEAD] != self._tail:
                    self._take_records()
                self._serve()
                worked = True
            if worked:
                turns += 1
                if self.order.held or turns % POLL_EVERY == 0:
                    self._poll_compilers()
                self._device.wake()
                spin_until = 0.0
                continue
            if self._values_waited_for:
                self._values_waited_for = False
                try:
                    self.order.pump()
                except DeviceLost as error:
                    self._lost(error)
                except Exception as error:
                    self._broken(error)
                self._device.wake()
            # Whoever has work to do on this core goes first: on small machines the executor or the program itself.
            sched_yield()
            now = monotonic()
            if spin_until == 0.0:
                spin_until = now + SPIN_SECONDS
            elif now > spin_until:
                if not idle_called:
                    idle_called = True
                    idle()
                    continue
                self._sleep()
                spin_until = 0.0

    def _sleep(self) -> None:
        control64, control32 = self._control.u64, self._control.u32
        session = self.session
        poller = poll()
        poller.register(self._socket, POLLIN)
        for descriptor in self._device.descriptors():
            poller.register(descriptor, POLLIN)
        kernels = session.kernels if session.has("kernels") else None
        if kernels is not None:
            for descriptor in kernels.descriptors():
                poller.register(descriptor, POLLIN)
        control32[_SLEEPING] = 1
        # The system call is what stands between the store above and the looks below (docs/design/boundary.md).
        events = poller.poll(0)
        if not events and control64[_HEAD] == self._tail and control64[_REQUEST] == control64[_REPLY]:
            events = poller.poll(self._longest_sleep())
        control32[_SLEEPING] = 0
        ready = {descriptor: event for descriptor, event in events}
        if self._socket in ready and not self._drain_socket():
            self._closed = True
            return
        for descriptor in self._device.descriptors():
            if descriptor in ready:
                self._look_at_device()
        self._poll_compilers()
        self._device.wake()

    def _poll_compilers(self) -> None:
        session = self.session
        if not session.has("kernels"):
            return
        try:
            if session.kernels.poll():
                self.order.pump()
        except DeviceLost as error:
            self._lost(error)
        except Exception as error:
            self._broken(error)

    def _longest_sleep(self) -> int:
        """Milliseconds; -1 is for ever."""
        if self._values_waited_for:
            return 1
        return self.session.kernels.poll_within_ms() if self.session.has("kernels") else -1

    def _client_is_gone(self) -> bool:
        poller = poll()
        poller.register(self._socket, POLLRDHUP)
        self._closed = self._closed or bool(poller.poll(0))
        return self._closed

    def _drain_socket(self) -> bool:
        """Takes the wake-up bytes. False: the client is gone."""
        try:
            return os.read(self._socket, 4096) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _look_at_device(self) -> None:
        fault = self._device.look()
        if fault is not None:
            self.session.device_ended(fault)

    def _lost(self, error: DeviceLost) -> None:
        self._look_at_device()
        self.session.poison(results.LAUNCH_FAILED, str(error))

    def _broken(self, error: Exception) -> None:
        """A bug of ours costs the context, not the process that could say what happened."""
        import traceback

        say(traceback.format_exc())
        self.session.poison(results.UNKNOWN, f"the device process failed: {type(error).__name__}: {error}")

    # Records

    def _take_records(self) -> None:
        control64 = self._control.u64
        ring = self._control.bytes[wire.RING_AT : wire.RING_AT + wire.RING_SLOTS * wire.SLOT_BYTES]
        kinds = ring.cast("H")
        session = self.session
        held = self.order.held
        launches = session.kernels.ready_launches if session.has("kernels") else self._no_launches
        submit_launch = self._device.submit_launch
        head = control64[_HEAD]
        tail = self._tail
        launch, from_bytes = wire.RECORD_LAUNCH, int.from_bytes
        published = tail + PUBLISH_EVERY
        try:
            while tail != head:
                at = (tail & _MASK) << 7
                slots = kinds[(at >> 1) + 1] or 1
                end = at + (slots << 7)
                if session.sticky:
                    pass  # a lost context completes nothing
                elif kinds[at >> 1] == launch and not held:
                    ready = launches.get(bytes(ring[at + _LAUNCH_KEY_AT : at + _LAUNCH_KEY_END]))
                    if ready is not None and not ready[2] & from_bytes(
                        ring[at + _PARAMETERS_AT : at + ready[1]], "little"
                    ):
                        submit_launch(ring[at:end], slots, ready[0])
                    else:
                        self._accept(bytes(ring[at:end]))
                        launches = session.kernels.ready_launches
                else:
                    self._accept(bytes(ring[at:end]))
                tail += slots
                if tail >= published:
                    published = tail + PUBLISH_EVERY
                    self._publish_tail(tail)
                    self._device.wake()
        except DeviceLost as error:
            self._lost(error)
        except Exception as error:
            self._broken(error)
            tail = head  # a lost context completes nothing
        self._publish_tail(tail)

    def _publish_tail(self, tail: int) -> None:
        self._tail = self._control.u64[_TAIL] = tail
        if self._control.u32[_WAITING]:
            self._wake_client()

    def _wake_client(self) -> None:
        self._control.u32[_WAITING] = 0
        try:
            os.write(self._socket, b"d")
        except BlockingIOError:
            pass
        except OSError:
            self._closed = True

    def _accept(self, record: bytes) -> None:
        kind, _, stream, sequence = unpack_from(wire.RECORD_HEADER_FORMAT, record)
        if kind == wire.RECORD_HOST_DONE:
            (ticket,) = unpack_from("<Q", record, wire.RECORD_HOST_DONE_TICKET_AT)
            number = self._tickets.pop(ticket, None)
            if number is not None:
                self.order.finish(number)
        elif kind != wire.RECORD_NOP:
            if not self._device.running:
                self.session.start_device()
            self.order.accept(record)

    def _let_go(self, record: bytes, number: int) -> int | list[bytes]:
        """Submits a record that order allows to go."""
        kind, slots, stream, sequence = unpack_from(wire.RECORD_HEADER_FORMAT, record)
        device = self._device
        if kind == wire.RECORD_LAUNCH:
            return self._let_launch_go(record, slots)
        if kind in self._simple:
            device.submit(record, slots)
            return DONE
        if kind in self._to_mark:
            self._mark(stream, sequence)
            return DONE
        if kind == wire.RECORD_HOST_CALL:
            return self._let_host_call_go(record, slots, number)
        if kind == wire.RECORD_FREE_ASYNC:
            (address,) = unpack_from("<Q", record, wire.RECORD_FREE_ASYNC_ADDRESS_AT)
            self._free(address, stream)
            self._mark(stream, sequence)
            return DONE
        if kind == wire.RECORD_WAIT_VALUE:
            if not self._value_is_there(record):
                self._values_waited_for = True
                return WAIT
            self._mark(stream, sequence)
            return DONE
        if kind == wire.RECORD_GRAPH_LAUNCH:
            (graph,) = unpack_from("<Q", record, wire.RECORD_GRAPH_LAUNCH_GRAPH_AT)
            try:
                records = self.session.graphs.expand(graph, stream)
            except CudaError as error:
                self.session.poison(error.result, error.text)
                return DONE
            return [*records, pack(wire.RECORD_MARK_FORMAT, wire.RECORD_MARK, 1, stream, sequence)]
        self.session.poison(results.UNKNOWN, f"a record of unknown kind {kind}")
        return DONE

    def _mark(self, stream: int, sequence: int) -> None:
        if sequence:
            self._device.submit(pack(wire.RECORD_MARK_FORMAT, wire.RECORD_MARK, 1, stream, sequence), 1)

    def _let_launch_go(self, record: bytes, slots: int) -> int:
        try:
            image, error = self.session.kernels.prepare(record)
            result = results.INVALID_PTX
        except CudaError as problem:
            image, error, result = None, problem.text or str(problem), problem.result
        if image is not None:
            self._device.submit_launch(memoryview(record), slots, image.index)
            return DONE
        if error:
            # A launch that does not happen, as on hardware whose driver cannot translate the kernel. There the call itself
            # answers it; here it is found out later, and the next call that waits answers it. All else goes on.
            self.session.refuse_launch(result, error)
            _, _, stream, sequence = unpack_from(wire.RECORD_HEADER_FORMAT, record)
            self._mark(stream, sequence)
            return DONE
        return WAIT

    def _let_host_call_go(self, record: bytes, slots: int, number: int) -> int:
        (ticket,) = unpack_from("<Q", record, wire.RECORD_HOST_CALL_TICKET_AT)
        if ticket == 0 or ticket in self._tickets:
            # Host functions of graphs: the same record comes again and again.
            self._graph_tickets += 1
            ticket = GRAPH_TICKET | self._graph_tickets
            at = wire.RECORD_HOST_CALL_TICKET_AT
            record = record[:at] + pack("<Q", ticket) + record[at + 8 :]
        self._tickets[ticket] = number
        self._device.submit(record, slots)
        return RUNNING

    def _free(self, address: int, stream: int) -> None:
        memory = self.session.memory
        allocation = memory.at(address)
        if allocation is None or not allocation.freeable:
            say(f"nothing to free at {address:#x}: it is not the start of an allocation")
            return
        if allocation.pool:
            self.session.pools.freed(allocation)
        allocation.stream = stream
        memory.free_later(allocation, self._device.position)

    def _value_is_there(self, record: bytes) -> bool:
        """CUstreamWaitValue_flags: 0 >= (cyclic), 1 ==, 2 and, 3 nor."""
        fields: tuple[int, int, int, int] = unpack_from("<QQII", record, wire.RECORD_WAIT_VALUE_ADDRESS_AT)
        address, value, flags, bits = fields
        size = 8 if bits == 64 else 4
        mask = (1 << 8 * size) - 1
        try:
            there = int.from_bytes(self.session.shared.read(address, size), "little")
        except ValueError:
            self.session.poison(
                results.ILLEGAL_ADDRESS, f"a wait for a value at {address:#x}, which is no device address"
            )
            return True
        value &= mask
        how = flags & 3
        if how == 0:
            return ((there - value) & mask) >> (8 * size - 1) == 0
        if how == 1:
            return there == value
        if how == 2:
            return there & value != 0
        return ~(there | value) & mask != 0

    # Requests

    def _serve(self) -> None:
        control = self._control
        control64, control32 = control.u64, control.u32
        function = control32[wire.CONTROL_REQUEST_FUNCTION_AT // 4]
        payload_bytes = min(control32[wire.CONTROL_REQUEST_PAYLOAD_BYTES_AT // 4], wire.PAYLOAD_BYTES)
        payload = bytes(control.bytes[wire.PAYLOAD_AT : wire.PAYLOAD_AT + payload_bytes])
        if control32[wire.CONTROL_REQUEST_FLAGS_AT // 4] & FIRST_CHUNKED:
            self._upload += payload
            self._reply(0, (), b"")
            return
        count = min(control32[wire.CONTROL_REQUEST_COUNT_AT // 4], wire.REQUEST_ARGUMENTS)
        arguments = tuple(control64[_ARGUMENTS : _ARGUMENTS + count])
        if function == REPLY_MORE:
            start = arguments[0] if arguments else 0
            self._reply(0, (), self._reply_rest[start : start + wire.PAYLOAD_BYTES])
            return
        if self._upload:
            payload = bytes(self._upload) + payload
            self._upload = bytearray()
        self.session.context = control64[wire.CONTROL_REQUEST_CONTEXT_AT // 8]
        self.session.thread = control64[wire.CONTROL_REQUEST_THREAD_AT // 8]
        self._reply_rest = b""
        self._reply(*self._call(function, arguments, payload))

    def _call(self, function: int, arguments: tuple[int, ...], payload: bytes) -> tuple[int, tuple[int, ...], bytes]:
        handler = self._handler(function)
        if handler is None:
            return results.NOT_SUPPORTED, (), b""
        try:
            answer = handler(self.session, arguments, payload)
        except CudaError as error:
            return error.result, error.values, error.payload
        except DeviceLost as error:
            self._lost(error)
            return self.session.sticky, (), b""
        except Exception as error:  # a bug of ours must not take the program's data with it
            import traceback

            say(f"request {function} failed: {type(error).__name__}: {error}\n{traceback.format_exc()}")
            return results.UNKNOWN, (), b""
        if answer is None:
            return 0, (), b""
        if isinstance(answer, Reply):
            return 0, answer.values, answer.payload
        return 0, (answer if isinstance(answer, tuple) else (answer,)), b""

    def _reply(self, result: int, values: tuple[int, ...], payload: bytes) -> None:
        control = self._control
        for number, value in enumerate(values[: wire.REQUEST_ARGUMENTS]):
            control.u64[_ARGUMENTS + number] = value & _WORD
        control.u32[_RESULT] = result
        part = payload
        if len(payload) > wire.PAYLOAD_BYTES:
            self._reply_rest = payload
            part = payload[: wire.PAYLOAD_BYTES]
        control.u32[wire.CONTROL_REPLY_PAYLOAD_BYTES_AT // 4] = len(payload)
        control.bytes[wire.PAYLOAD_AT : wire.PAYLOAD_AT + len(part)] = part
        control.u64[_REPLY] = control.u64[_REQUEST]
        if control.u32[_WAITING]:
            self._wake_client()
