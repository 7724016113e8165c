"""The executor by itself, with images made from C."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack

import pytest

from cuttle.abi import wire_layout as wire
from tests.device import images
from tests.device.ring import Machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    yield made
    made.close()


def floats(count: int, values: list[float]) -> bytes:
    return pack(f"<{count}f", *values)


def test_vector_add(machine: Machine, tmp_path: Path) -> None:
    image = machine.load(images.build_image(tmp_path, "add", images.ADD))
    count = 10007
    a, b, c = (machine.base + offset for offset in (0x10000, 0x20000, 0x30000))
    machine.shared.write(a, floats(count, [float(i) for i in range(count)]))
    machine.shared.write(b, floats(count, [3.0 * i for i in range(count)]))
    machine.launch(image, (40, 1, 1), (256, 1, 1), pack("<QQQI", a, b, c, count))
    machine.wait()
    assert unpack(f"<{count}f", machine.shared.read(c, 4 * count)) == tuple(4.0 * i for i in range(count))


@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (100, 10, 3), (1, 1, 999)])
def test_every_block_runs_once(machine: Machine, tmp_path: Path, grid: tuple[int, int, int]) -> None:
    image = machine.load(images.build_image(tmp_path, "squares", images.SQUARES))
    blocks = grid[0] * grid[1] * grid[2]
    for _ in range(3):
        machine.launch(image, grid, (32, 1, 1), pack("<Q", machine.base + 0x10000))
    machine.wait()
    assert unpack(f"<{blocks}Q", machine.shared.read(machine.base + 0x10000, 8 * blocks)) == tuple(
        3 * i * i for i in range(blocks)
    )


def test_many_jobs_wrap_the_ring(machine: Machine, tmp_path: Path) -> None:
    image = machine.load(images.build_image(tmp_path, "squares", images.SQUARES))
    for _ in range(3 * wire.JOB_SLOTS // 3):
        machine.launch(image, (2, 1, 1), (1, 1, 1), pack("<Q", machine.base + 0x10000) + bytes(200))
    machine.wait(30)
    assert unpack("<2Q", machine.shared.read(machine.base + 0x10000, 16)) == (0, wire.JOB_SLOTS)


def test_copies_and_fills(machine: Machine) -> None:
    base = machine.base
    machine.submit(wire.RECORD_FILL, wire.RECORD_FILL_FORMAT, base + 0x1000, 10, 3, 64, 0xABCD, 2)
    machine.submit(wire.RECORD_FILL, wire.RECORD_FILL_FORMAT, base + 0x2000, 5 << 20, 1, 0, 7, 1)
    machine.submit(wire.RECORD_COPY, wire.RECORD_COPY_FORMAT, base + (32 << 20), base + 0x2000, 5 << 20)
    machine.submit(
        wire.RECORD_COPY_3D, wire.RECORD_COPY_3D_FORMAT, base + 0x800000, base + 0x1000, 20, 3, 1, 20, 0, 64, 0
    )  # fmt: skip
    machine.submit(wire.RECORD_WRITE_VALUE, wire.RECORD_WRITE_VALUE_FORMAT, base + 0x100, 1 << 40 | 5, 0, 64)
    machine.wait()
    row = b"\xcd\xab" * 10
    assert machine.shared.read(base + 0x1000, 192) == (row + bytes(44)) * 3
    assert machine.shared.read(base + (32 << 20), 5 << 20) == b"\x07" * (5 << 20)
    assert machine.shared.read(base + 0x800000, 61) == row * 3 + b"\0"
    assert machine.shared.read(base + 0x100, 8) == pack("<Q", 1 << 40 | 5)


def test_events_and_streams(machine: Machine) -> None:
    machine.submit(wire.RECORD_EVENT_RECORD, wire.RECORD_EVENT_RECORD_FORMAT, 5, 0, 3, stream=2, sequence=9)
    machine.wait()
    status = machine.shared.status.u64
    event = (wire.EVENTS_AT + 5 * wire.EVENT_SIZE) // 8
    assert status[event + wire.EVENT_COMPLETED_AT // 8] == 3
    assert status[event + wire.EVENT_TIME_NS_AT // 8] > 0
    assert machine.completed(2) == 9


def test_host_calls_are_posted_and_not_completed(machine: Machine) -> None:
    machine.submit(wire.RECORD_HOST_CALL, wire.RECORD_HOST_CALL_FORMAT, 11, 22, 0, 0, 33, stream=4, sequence=1)
    machine.wait()
    status = machine.shared.status
    assert status.u64[wire.STATUS_HOST_CALL_HEAD_AT // 8] == 1
    assert unpack("<QQIIQ", status.bytes[wire.HOST_CALLS_AT : wire.HOST_CALLS_AT + 32]) == (11, 22, 4, 0, 33)
    assert machine.completed(4) == 0


def test_barriers_with_reductions(machine: Machine, tmp_path: Path) -> None:
    image = machine.load(images.build_image(tmp_path, "barriers", images.BARRIERS, can_stop=True, frame_bytes=64))
    machine.launch(image, (5, 1, 1), (96, 1, 1), pack("<Q", machine.base + 0x1000))
    machine.wait()
    for warp in range(15):
        assert unpack("<3I", machine.shared.read(machine.base + 0x1000 + 16 * warp, 12)) == (32 + 4 + 32, 0, 1)


def test_barrier_arrive_does_not_wait(machine: Machine, tmp_path: Path) -> None:
    image = machine.load(images.build_image(tmp_path, "arrive", images.ARRIVE, can_stop=True))
    machine.launch(image, (1, 1, 1), (64, 1, 1), pack("<Q", machine.base + 0x1000))
    machine.wait()
    assert unpack("<2I", machine.shared.read(machine.base + 0x1000, 8)) == (1, 0)


@pytest.mark.parametrize("flags", [0, 1])
def test_blocks_that_wait_for_each_other(machine: Machine, tmp_path: Path, flags: int) -> None:
    image = machine.load(
        images.build_image(tmp_path, "grid", images.GRID_BARRIER, can_stop=True, may_yield=True, frame_bytes=64)
    )
    for turn in range(20):
        machine.shared.write(machine.base + 0x1000, bytes(8))
        machine.launch(image, (50, 1, 1), (32, 1, 1), pack("<Q", machine.base + 0x1000), flags=flags)
        machine.wait()
        assert unpack("<2I", machine.shared.read(machine.base + 0x1000, 8)) == (50, 50), turn


def test_device_heap(machine: Machine, tmp_path: Path) -> None:
    image = machine.load(images.build_image(tmp_path, "heap", images.HEAP))
    for _ in range(5):
        machine.launch(image, (64, 1, 1), (1, 1, 1), pack("<Q", machine.base + 0x1000))
    machine.wait()
    assert machine.shared.read(machine.base + 0x1000, 64 * 8) == bytes(64 * 8)


PRINTF_CASES = [
    (b"plain, 100%%\n", b"", "plain, 100%\n", 0),
    (b"%d|%5d|%-5d|%05d|%+d|% d\n", pack("<6i", -42, -42, -42, 42, 42, 42), "-42|  -42|-42  |00042|+42| 42\n", 6),
    (b"%u %x %X %#x %o", pack("<5I", 3000000000, 0xBEEF, 0xBEEF, 0xBEEF, 511), "3000000000 beef BEEF 0xbeef 777", 5),
    (b"%d %lld %d", pack("<i4xqi", 1, -(1 << 40), 2), f"1 {-(1 << 40)} 2", 3),
    (b"%f %.2f %10.3f|%e|%g", pack("<5d", 1.5, 2.25, -3.125, 12345.678, 0.0001),
     "1.500000 2.25     -3.125|1.234568e+04|0.0001", 5),
    (b"%c%c|%5c|%hd|%hhd", pack("<5i", 97, 98, 120, 65533, 511), "ab|    x|-3|-1", 5),
    (b"%*d|%.*f|%-*d|", pack("<iii4xdii", 6, 17, 2, 0.125, 4, 9), "    17|0.12|9   |", 6),
    (b"%a %A", pack("<2d", 1.0, -0.5), "0x1p+0 -0X1P-1", 2),
    (b"%p", pack("<Q", 0x1234), "0x1234", 1),
    (b"%q%", b"", "%q%", 0),
]  # fmt: skip


@pytest.mark.parametrize("form,arguments,expected,count", PRINTF_CASES)
def test_printf(machine: Machine, tmp_path: Path, form: bytes, arguments: bytes, expected: str, count: int) -> None:
    image = machine.load(images.build_image(tmp_path, "print", images.PRINT))
    machine.shared.write(machine.base + 0x1000, form + b"\0")
    machine.shared.write(machine.base + 0x2000, arguments)
    machine.launch(image, (1, 1, 1), (1, 1, 1), pack("<3Q", *(machine.base + at for at in (0x1000, 0x2000, 0x3000))))
    machine.wait()
    assert machine.text() == [(1, expected)]
    assert unpack("<q", machine.shared.read(machine.base + 0x3000, 8)) == (count,)


def test_printf_strings(machine: Machine, tmp_path: Path) -> None:
    image = machine.load(images.build_image(tmp_path, "print", images.PRINT))
    base = machine.base
    machine.shared.write(base + 0x1000, b"%s|%10s|%-10s|%.3s\n\0")
    machine.shared.write(base + 0x4000, b"shortened\0")
    machine.shared.write(base + 0x2000, pack("<4Q", *[base + 0x4000] * 4))
    machine.launch(image, (3, 1, 1), (1, 1, 1), pack("<3Q", base + 0x1000, base + 0x2000, base + 0x3000))
    machine.wait()
    assert machine.text() == [(1, "shortened| shortened|shortened |sho\n")] * 3


def test_printf_overflow_loses_text_and_goes_on(machine: Machine, tmp_path: Path) -> None:
    machine.shared.status.u64[wire.STATUS_TEXT_LIMIT_AT // 8] = 100
    image = machine.load(images.build_image(tmp_path, "print", images.PRINT))
    machine.shared.write(machine.base + 0x1000, b"0123456789\0")
    parameters = pack("<3Q", *(machine.base + at for at in (0x1000, 0x2000, 0x3000)))
    for _ in range(2):
        machine.launch(image, (50, 1, 1), (1, 1, 1), parameters)
        machine.wait()
        assert machine.text() == [(1, "0123456789")] * 5


def test_assert_says_where(machine: Machine, tmp_path: Path) -> None:
    image = machine.load(images.build_image(tmp_path, "check", images.ASSERT))
    for at, text in ((0x1000, b"x > 0\0"), (0x2000, b"file.cu\0"), (0x3000, b"void check(int)\0")):
        machine.shared.write(machine.base + at, text)
    machine.launch(image, (2, 1, 1), (8, 8, 1), pack("<3Q", *(machine.base + at for at in (0x1000, 0x2000, 0x3000))))
    fault = machine.wait_for_fault()
    assert fault.result == 710
    channel, text = machine.text()[0]
    assert channel == 2
    assert text.replace("[1,0,0], t", "[0,0,0], t") == (
        "file.cu:12: void check(int): block: [0,0,0], thread: [5,4,0] Assertion `x > 0` failed.\n"
    )


@pytest.mark.parametrize(
    "source,parameter,result,text",
    [
        (images.WILD, 0x10, 700, "write to address 0x10"),
        (images.TRAP, 0, 719, "thread [5,0,0]: the kernel ended itself\n  --> PTX line 123"),
        (images.RECURSION, 0, 700, "stack overflow"),
    ],
)
def test_faults(machine: Machine, tmp_path: Path, source: str, parameter: int, result: int, text: str) -> None:
    image = machine.load(images.build_image(tmp_path, "faulty", source))
    machine.launch(image, (1, 1, 1), (32, 1, 1), pack("<Q", parameter))
    fault = machine.wait_for_fault()
    assert fault.result == result
    assert text in "\n".join((fault.text, *fault.more))
    assert "kernel faulty, block [0,0,0]" in fault.text


def test_wild_copy(machine: Machine) -> None:
    machine.submit(wire.RECORD_COPY, wire.RECORD_COPY_FORMAT, machine.base, 0x1000, 64)
    fault = machine.wait_for_fault()
    assert fault.result == 700 and "a memory copy" in fault.text


def test_deadlock_is_found(machine: Machine, tmp_path: Path) -> None:
    image = machine.load(images.build_image(tmp_path, "stuck", images.DEADLOCK, can_stop=True))
    machine.launch(image, (1, 1, 1), (64, 1, 1), b"")
    fault = machine.wait_for_fault()
    assert fault.result == 719 and "barrier deadlock" in fault.text


def test_time_out(tmp_path: Path) -> None:
    machine = Machine(timeout_ms=200)
    try:
        image = machine.load(images.build_image(tmp_path, "forever", images.FOREVER))
        machine.launch(image, (1, 1, 1), (32, 1, 1), b"")
        fault = machine.wait_for_fault()
        assert fault.result == 702 and "200 ms" in fault.text
    finally:
        machine.close()


def test_damaged_image(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "nothing.image"
    path.write_bytes(b"CUTTLEI1" + bytes(100))
    machine.load(path)
    fault = machine.wait_for_fault()
    assert fault.result == 300 and "nothing.image" in fault.text


def test_fresh_executor_after_a_fault(machine: Machine, tmp_path: Path) -> None:
    machine.submit(wire.RECORD_COPY, wire.RECORD_COPY_FORMAT, machine.base, 0x1000, 64)
    machine.wait_for_fault()
    machine.device.start()
    image = machine.load(images.build_image(tmp_path, "squares", images.SQUARES))
    machine.launch(image, (4, 1, 1), (1, 1, 1), pack("<Q", machine.base + 0x1000))
    machine.wait()
    assert unpack("<4Q", machine.shared.read(machine.base + 0x1000, 32)) == (0, 1, 4, 9)


def test_it_ends_with_its_owner(machine: Machine) -> None:
    machine.wait()
    process = machine.device._process
    os.close(machine.device._socket)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    machine.device._forget_process()
