"""Order between streams, against CUDA's rules written down once more in the simplest way."""

from __future__ import annotations

from struct import pack, unpack_from

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuttle.abi import wire_layout as wire
from cuttle.runtime.streams import DONE, RUNNING, WAIT, StreamOrder

STREAMS = 4  # 0 legacy, 1 and 2 blocking, 3 non-blocking


class Harness:
    """A StreamOrder whose records are COPY (plain), HOST_CALL and events; remembers what was let go, in order."""

    def __init__(self) -> None:
        self.words = memoryview(bytearray(wire.STATUS_BYTES)).cast("I")
        self.words[(wire.STREAMS_AT + 3 * wire.STREAM_SIZE + wire.STREAM_FLAGS_AT) // 4] = 3
        self.log: list[int] = []
        self.running: dict[int, int] = {}
        self.blocked: set[int] = set()
        self.order = StreamOrder(self.words, self.let_go)

    def let_go(self, record: bytes, number: int) -> int | list[bytes]:
        kind, _, _, sequence = unpack_from(wire.RECORD_HEADER_FORMAT, record)
        if kind == wire.RECORD_MARK:
            return DONE
        if sequence in self.blocked:
            return WAIT
        self.log.append(sequence)
        if kind == wire.RECORD_HOST_CALL:
            self.running[sequence] = number
            return RUNNING
        return DONE


def header(kind: int, stream: int, sequence: int) -> bytes:
    return pack(wire.RECORD_HEADER_FORMAT, kind, 1, stream, sequence)


def event(kind: int, stream: int, sequence: int, number: int) -> bytes:
    return header(kind, stream, sequence) + pack("<IIQ", 7, 0, number)


operations = st.lists(
    st.tuples(st.sampled_from(["plain", "host", "record", "wait", "finish"]), st.integers(0, STREAMS - 1)), max_size=40
)


@settings(max_examples=300, deadline=None)
@given(operations)
def test_nothing_overtakes_what_it_depends_on(steps: list[tuple[str, int]]) -> None:
    harness = Harness()
    submitted: list[tuple[int, int, str, int]] = []  # sequence, stream, what, event number
    finished: list[int] = []
    records = 0
    for sequence, (what, stream) in enumerate(steps, 1):
        if what == "finish":
            if harness.running:
                one = next(iter(harness.running))
                finished.append(one)
                harness.log.append(-one)
                harness.order.finish(harness.running.pop(one))
            continue
        number = 0
        if what == "record":
            records += 1
            number = records
        elif what == "wait":
            number = records
        submitted.append((sequence, stream, what, number))
        kind = {"plain": wire.RECORD_COPY, "host": wire.RECORD_HOST_CALL, "record": wire.RECORD_EVENT_RECORD,
                "wait": wire.RECORD_EVENT_WAIT}[what]  # fmt: skip
        if what in ("record", "wait"):
            harness.order.accept(event(kind, stream, sequence, number))
        else:
            harness.order.accept(header(kind, stream, sequence))
    while harness.running:
        one = next(iter(harness.running))
        harness.log.append(-one)
        harness.order.finish(harness.running.pop(one))
    assert not harness.order.held
    places = {entry: place for place, entry in enumerate(harness.log)}
    assert len(places) == len(harness.log)

    def end(sequence: int, what: str) -> int:
        return places[-sequence] if what == "host" else places[sequence]

    for later, (sequence, stream, what, number) in enumerate(submitted):
        for before, other, kind, recorded in submitted[:later]:
            ordered = stream == other or (
                0 in (stream, other) and 3 not in (stream, other)
            ) or (what == "wait" and kind == "record" and recorded == number and number)  # fmt: skip
            if ordered:
                assert end(before, kind) < places[sequence], (before, sequence)


def test_waits_are_asked_again() -> None:
    harness = Harness()
    harness.blocked = {1}
    harness.order.accept(header(wire.RECORD_COPY, 1, 1))
    harness.order.accept(header(wire.RECORD_COPY, 1, 2))
    harness.order.accept(header(wire.RECORD_COPY, 3, 3))
    assert harness.log == [3]
    harness.order.pump()
    assert harness.log == [3]
    harness.blocked.clear()
    harness.order.pump()
    assert harness.log == [3, 1, 2] and not harness.order.held


def test_records_that_become_several() -> None:
    log: list[int] = []
    blocked = {11}

    def let_go(record: bytes, number: int) -> int | list[bytes]:
        sequence = unpack_from(wire.RECORD_HEADER_FORMAT, record)[3]
        if sequence == 1:
            return [header(wire.RECORD_COPY, 1, part) for part in (10, 11, 12)]
        if sequence in blocked:
            return WAIT
        log.append(sequence)
        return DONE

    order = StreamOrder(memoryview(bytearray(wire.STATUS_BYTES)).cast("I"), let_go)
    order.accept(header(wire.RECORD_GRAPH_LAUNCH, 1, 1))
    order.accept(header(wire.RECORD_COPY, 1, 2))
    order.accept(header(wire.RECORD_COPY, 0, 3))
    assert log == [10]
    blocked.clear()
    order.pump()
    assert log == [10, 11, 12, 2, 3]


def test_finishing_twice_or_wrongly_is_harmless() -> None:
    harness = Harness()
    harness.order.accept(header(wire.RECORD_HOST_CALL, 1, 1))
    harness.order.finish(999)
    number = harness.running[1]
    harness.order.finish(number)
    harness.order.finish(number)
    assert not harness.order.held


@pytest.mark.parametrize("stream", [1, 3])
def test_clear_forgets(stream: int) -> None:
    harness = Harness()
    harness.order.accept(header(wire.RECORD_HOST_CALL, stream, 1))
    harness.order.accept(header(wire.RECORD_COPY, stream, 2))
    harness.order.clear()
    harness.order.finish(harness.running[1])
    harness.order.accept(header(wire.RECORD_COPY, stream, 3))
    assert harness.log == [1, 3]
