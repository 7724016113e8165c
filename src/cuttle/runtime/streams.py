"""Order between streams.

The executor runs jobs strictly in order, so a record that can run goes straight into the job ring and order is kept. Only
when something must be waited for *outside* of the executor (a host function, a compilation, a value in memory) is a record
held back, together with everything that CUDA's rules put behind it:

* the later records of its stream;
* the records of the legacy default stream, when its stream is a blocking one;
* the records of blocking streams, when it is in the legacy default stream itself;
* waits for events whose recording is held back.

Held records are numbered in order of arrival. A record is let go when it is the first of its stream and none of the
records it depends on is still held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from struct import pack, unpack_from

from cuttle.abi import wire_layout as wire

LEGACY_STREAM = 0
STREAM_NON_BLOCKING = 2  # flag in a stream's slot

# What `let_go` says of a record.
DONE, WAIT, RUNNING = range(3)

_FLAGS = wire.STREAM_FLAGS_AT // 4


class Held:
    """A record that could not go yet. `running`: its host function has been called and not returned."""

    __slots__ = ("dependencies", "number", "record", "running", "stream")

    def __init__(self, number: int, stream: int, record: bytes, dependencies: tuple[int, ...]) -> None:
        self.number = number
        self.stream = stream
        self.record = record
        self.dependencies = dependencies
        self.running = False


class StreamOrder:
    """Holds back what must wait.

    `let_go(record, number)` submits a record and says whether it is DONE, must WAIT and be asked again, or is RUNNING
    until `finish(number)`; or it gives a list of records that take this one's place.
    """

    def __init__(self, status_words: memoryview, let_go: Callable[[bytes, int], int | list[bytes]]) -> None:
        self.held: dict[int, deque[Held]] = {}  # by stream; no empty queues
        self._status = status_words
        self._let_go = let_go
        self._number = 0
        self._pending: set[int] = set()  # numbers of all held records
        self._by_number: dict[int, Held] = {}
        self._events: dict[tuple[int, int], int] = {}  # held event recordings

    def non_blocking(self, stream: int) -> bool:
        """Whether a stream takes no part in the legacy default stream's ordering."""
        word = (wire.STREAMS_AT + stream * wire.STREAM_SIZE) // 4 + _FLAGS
        return bool(self._status[word] & STREAM_NON_BLOCKING)

    def accept(self, record: bytes) -> None:
        """A record in order of arrival: lets it go or holds it."""
        kind, _, stream, _ = unpack_from(wire.RECORD_HEADER_FORMAT, record)
        dependencies = self._dependencies(stream, kind, record) if self.held else ()
        queue = self.held.get(stream)
        number = self._new_number()
        outcome: int | list[bytes] = WAIT
        if queue is None and not dependencies:
            outcome = self._let_go(record, number)
            if outcome == DONE:
                return
        if isinstance(outcome, list):
            self._hold_all(stream, outcome, number)
            self._try_stream(stream)
            return
        one = Held(number, stream, record, dependencies)
        one.running = outcome == RUNNING
        if queue is None:
            queue = self.held[stream] = deque()
        queue.append(one)
        self._pending.add(number)
        self._by_number[number] = one
        if kind == wire.RECORD_EVENT_RECORD:
            self._events[_event_of(record)] = number

    def _new_number(self) -> int:
        self._number += 1
        return self._number

    def _hold_all(self, stream: int, records: list[bytes], number: int) -> None:
        """Puts the parts of a record in front of its stream's queue. The last part stands for the whole."""
        queue = self.held.get(stream)
        if queue is None:
            queue = self.held[stream] = deque()
        numbers = [self._new_number() for _ in records[:-1]] + [number]
        for part, part_number in zip(reversed(records), reversed(numbers), strict=True):
            one = Held(part_number, stream, part, ())
            queue.appendleft(one)
            self._pending.add(part_number)
            self._by_number[part_number] = one
            if unpack_from("<H", part)[0] == wire.RECORD_EVENT_RECORD:
                self._events[_event_of(part)] = part_number

    def finish(self, number: int) -> None:
        """A RUNNING record is done."""
        one = self._by_number.get(number)
        if one is None or not one.running:
            return
        _, _, stream, sequence = unpack_from(wire.RECORD_HEADER_FORMAT, one.record)
        self._drop(one)
        if sequence:
            self._let_go(pack(wire.RECORD_MARK_FORMAT, wire.RECORD_MARK, 1, stream, sequence), 0)
        self.pump()

    def pump(self) -> None:
        """Lets go whatever can go now."""
        progress = True
        while progress and self.held:
            progress = False
            for stream in list(self.held):
                progress |= self._try_stream(stream)

    def clear(self) -> None:
        """Forgets everything held (the context is lost)."""
        self.held.clear()
        self._pending.clear()
        self._by_number.clear()
        self._events.clear()

    def _try_stream(self, stream: int) -> bool:
        progress = False
        while (queue := self.held.get(stream)) and self._try(queue[0]):
            progress = True
        return progress

    def _try(self, one: Held) -> bool:
        if one.running or any(number in self._pending for number in one.dependencies):
            return False
        outcome = self._let_go(one.record, one.number)
        if self._by_number.get(one.number) is not one:
            return False  # the context was lost meanwhile: nothing is held any more
        if outcome == DONE:
            self._drop(one)
            return True
        if isinstance(outcome, list):
            self._drop(one)
            self._hold_all(one.stream, outcome, one.number)
            return True
        one.running = outcome == RUNNING
        return False

    def _drop(self, one: Held) -> None:
        queue = self.held[one.stream]
        queue.popleft()
        if not queue:
            del self.held[one.stream]
        self._pending.discard(one.number)
        del self._by_number[one.number]
        if unpack_from("<H", one.record)[0] == wire.RECORD_EVENT_RECORD:
            self._events.pop(_event_of(one.record), None)

    def _dependencies(self, stream: int, kind: int, record: bytes) -> tuple[int, ...]:
        found: list[int] = []
        if kind == wire.RECORD_EVENT_WAIT:
            number = self._events.get(_event_of(record))
            if number is not None:
                found.append(number)
        if stream == LEGACY_STREAM:
            found += [
                queue[-1].number
                for other, queue in self.held.items()
                if other != LEGACY_STREAM and not self.non_blocking(other)
            ]
        elif LEGACY_STREAM in self.held and not self.non_blocking(stream):
            found.append(self.held[LEGACY_STREAM][-1].number)
        return tuple(found)


def _event_of(record: bytes) -> tuple[int, int]:
    event, number = unpack_from("<I4xQ", record, wire.RECORD_EVENT_WAIT_EVENT_AT)
    return event, number
