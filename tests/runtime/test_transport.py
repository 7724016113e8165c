"""The device process, spoken to by a client in Python."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack

import pytest

from cuttle.abi import wire_layout as wire
from cuttle.runtime.cache import compiler_fingerprint, open_default
from tests.device import images
from tests.runtime.client import FakeClient

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .const .align 8 .u64 pointer = generic(table);
.visible .global .align 4 .u32 table[4] = {1, 2, 3, 4};
.visible .global .attribute(.managed) .align 4 .u32 shared_value = 5;
.visible .entry work(.param .u64 a, .param .u32 b)
{
    trap;
}
"""  # `work` alone cannot run: it needs an image from `plant_image`.


@pytest.fixture
def client(tmp_path: Path) -> Iterator[FakeClient]:
    made = FakeClient({"CUTTLE_CACHE_DIR": str(tmp_path / "cache"), "CUTTLE_THREADS": "2"})
    yield made
    errors = made.close()
    assert "Traceback" not in errors, errors
    assert made.process.returncode == 0


def plant_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, shape: tuple[int, int, int]) -> None:
    """Puts a hand-made image into the cache, where the kernel `work` of PTX will find it."""
    from hashlib import blake2b

    monkeypatch.setenv("CUTTLE_CACHE_DIR", str(tmp_path / "cache"))
    cache = open_default(compiler_fingerprint())
    options = {
        "affine": True, "plain": False, "optimization": 2, "exact_nan": True, "fast_math": False, "block_shape": shape,
    }  # fmt: skip
    digest = blake2b(PTX.rstrip(b"\0"), digest_size=16).hexdigest()
    key = cache.key(digest, "work", repr(sorted(options.items())))
    assert cache.store(digest, key, images.build_image(tmp_path, "work", source).read_bytes())


def test_ready_and_attributes(client: FakeClient) -> None:
    control = client.control
    assert client.ready_error == 0
    assert control.u32[wire.ATTRIBUTES_AT // 4 + 16] == 2
    assert control.u32[wire.ATTRIBUTES_AT // 4 + 10] == 32
    name = bytes(control.bytes[wire.CONTROL_DEVICE_NAME_AT : wire.CONTROL_DEVICE_NAME_AT + 256]).split(b"\0")[0]
    assert name == b"Cuttle CPU (2 threads)"


def test_bad_knob_is_told() -> None:
    made = FakeClient({"CUTTLE_MEMORY": "lots"})
    assert made.ready_error == 1
    made.process.wait(20)
    assert "CUTTLE_MEMORY" in made.close()


def test_memory_requests(client: FakeClient) -> None:
    free, total = client.ok("MEM_INFO")[:2]
    address = client.allocate(1 << 20)
    assert address % 512 == 0
    assert client.ok("MEM_INFO")[0] == free - (1 << 20)
    base, size, kind = client.ok("POINTER_RANGE", address + 5)[:3]
    assert (base, size, kind) == (address, 1 << 20, 0)
    assert client.request("MEM_ALLOC", total + 1, 0, 0, 0)[0] == 2
    assert client.request("MEM_FREE", address + 512)[0] == 1
    client.ok("MEM_FREE", address)
    assert client.request("MEM_FREE", address)[0] == 1
    assert client.ok("MEM_INFO")[0] == free


def test_unknown_request(client: FakeClient) -> None:
    client.control.u32[wire.CONTROL_REQUEST_FUNCTION_AT // 4] = 777
    client._exchange()
    assert client.control.u32[wire.CONTROL_REPLY_RESULT_AT // 4] == 801


def test_arrays_of_any_size_and_levels_are_answered_at_once(client: FakeClient) -> None:
    """Found by the fuzzer: 2^32 levels kept the device process busy for ever."""
    plain = (0x20, 1, 0)  # 32-bit floats of one channel
    result, _, layout = client.request("ARRAY_CREATE", 8, 8, 0, *plain, 1 << 32)
    assert result == 0
    assert len(layout) == 4 * len(client.request("ARRAY_CREATE", 8, 8, 0, *plain, 1)[2])
    assert client.request("ARRAY_CREATE", 8, 1 << 62, 1, *plain, 1)[0] == 1


def test_module_and_globals(client: FakeClient) -> None:
    module = client.load(PTX)
    table, size, managed = client.ok("GLOBAL_GET", module, payload=b"table")[:3]
    assert (size, managed) == (16, 0)
    assert unpack("<4I", client.shared.read(table, 16)) == (1, 2, 3, 4)
    pointer = client.ok("GLOBAL_GET", module, payload=b"pointer")[0]
    assert unpack("<Q", client.shared.read(pointer, 8)) == (table,)
    value, _, managed = client.ok("GLOBAL_GET", module, payload=b"shared_value")[:3]
    assert managed == 1 and client.shared.read(value, 4) == pack("<I", 5)
    assert client.request("GLOBAL_GET", module, payload=b"nothing")[0] == 500
    result, values, layout = client.request("KERNEL_GET", module, payload=b"work")
    assert result == 0 and values[1:3] == [2, 12] and unpack("<4I", layout) == (0, 8, 8, 4)
    assert values[5] == 8  # bytes of constants
    assert client.request("KERNEL_GET", module, payload=b"table")[0] == 500
    client.ok("MODULE_UNLOAD", module)
    assert client.request("KERNEL_NAMES", module)[0] == 400


def test_bad_module_gives_a_log(client: FakeClient) -> None:
    text = b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k( { nonsense"
    result, values, log = client.request(
        "MODULE_LOAD", 1, 1, 0, 4096, 0, 0, 0, 0, payload=pack("<Q", len(text)) + text
    )  # fmt: skip
    assert result == 218 and b"PTX-" in log and values[2] == len(log)
    assert client.request("MODULE_LOAD", 1, 1, 0, 0, 0, 0, 0, 0, payload=pack("<Q", 4) + b"\x01\x02\x03\x04")[0] == 200


def test_large_payloads(client: FakeClient) -> None:
    names = b"\n".join(b".visible .entry kernel_%020d() { ret; }" % number for number in range(60000))
    text = b".version 8.0\n.target sm_80\n.address_size 64\n" + names
    assert len(text) > 2 * wire.PAYLOAD_BYTES
    module = client.load(text)
    result, values, data = client.request("KERNEL_NAMES", module)
    assert result == 0 and values[0] == 60000 and len(data) > 1024000
    assert data.split(b"\0")[59999] == b"kernel_%020d" % 59999


def test_launches(client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant_image(tmp_path, monkeypatch, images.SQUARES, (32, 1, 1))
    kernel = client.kernel(client.load(PTX), "work")
    out = client.allocate(4096)
    client.fill(out, 0, 1024)
    for _ in range(40000):
        last = client.launch(kernel, 4, 32, pack("<QI", out, 0))
    client.wait(last)
    assert unpack("<4Q", client.shared.read(out, 32)) == tuple(40000 * i * i for i in range(4))


def test_streams_complete_independently(client: FakeClient) -> None:
    memory = client.allocate(4096)
    one, two = client.stream(1, 2), client.stream(2, 2)
    client.host_call(1, stream=one)
    held = client.fill(memory, 1, stream=one)
    client.wait(client.fill(memory + 4, 2, stream=two), two)
    time.sleep(0.02)
    assert client.completed(one) == 0
    client.host_done(1)
    client.wait(held, one)
    assert unpack("<2I", client.shared.read(memory, 8)) == (1, 2)


def test_legacy_stream_waits_and_is_waited_for(client: FakeClient) -> None:
    memory = client.allocate(4096)
    one, two = client.stream(1), client.stream(2)
    client.host_call(1, stream=one)
    legacy = client.fill(memory, 5, stream=0)
    after = client.fill(memory, 6, stream=two)
    time.sleep(0.05)
    assert client.completed(0) == 0 and client.completed(two) == 0
    client.host_done(1)
    client.wait(after, two)
    client.wait(legacy, 0)
    assert client.shared.read(memory, 4) == pack("<I", 6)


def test_non_blocking_streams_do_not_wait_for_the_legacy_one(client: FakeClient) -> None:
    memory = client.allocate(4096)
    one = client.stream(1, 2)
    client.host_call(1, stream=0)
    client.wait(client.fill(memory, 6, stream=one), one)
    client.host_done(1)
    client.wait(1, 0)


def test_waiting_for_an_event_of_a_held_stream(client: FakeClient) -> None:
    memory = client.allocate(4096)
    one, two = client.stream(1, 2), client.stream(2, 2)
    client.host_call(1, stream=one)
    client.fill(memory, 1, stream=one)
    number = client.record_event(7, stream=one)
    client.wait_event(7, number, stream=two)
    last = client.copy(memory + 4, memory, 4, stream=two)
    time.sleep(0.05)
    assert client.completed(two) == 0
    client.host_done(1)
    client.wait(last, two)
    assert client.shared.read(memory + 4, 4) == pack("<I", 1)


def test_waiting_for_a_value(client: FakeClient) -> None:
    memory = client.allocate(4096)
    client.wait(client.fill(memory, 0, 16))
    one, two = client.stream(1, 2), client.stream(2, 2)
    client.put(wire.RECORD_WAIT_VALUE, wire.RECORD_WAIT_VALUE_FORMAT, memory, 3, 0, 32, stream=one)
    last = client.fill(memory + 8, 9, stream=one)
    time.sleep(0.02)
    assert client.completed(one) == 0
    client.put(wire.RECORD_WRITE_VALUE, wire.RECORD_WRITE_VALUE_FORMAT, memory, 4, 0, 32, stream=two)
    client.wait(last, one)


def test_graph_with_a_host_function(client: FakeClient) -> None:
    memory = client.allocate(4096)
    graph = client.ok("GRAPH_CREATE", 0)[0]

    def record(form: str, kind: int, *values: int) -> bytes:
        return pack(form, kind, 1, 0, 0, *values).ljust(128, b"\0")

    fill = record(wire.RECORD_FILL_FORMAT, wire.RECORD_FILL, memory, 4, 1, 0, 7, 4)
    call = record(wire.RECORD_HOST_CALL_FORMAT, wire.RECORD_HOST_CALL, 99, 0, 0, 0, 0)
    copy = record(wire.RECORD_COPY_FORMAT, wire.RECORD_COPY, memory + 64, memory, 16)
    first = client.ok("GRAPH_ADD_NODE", graph, 2, 0, 0, payload=fill)[0]
    second = client.ok("GRAPH_ADD_NODE", graph, 3, 1, 0, payload=pack("<Q", first) + call)[0]
    client.ok("GRAPH_ADD_NODE", graph, 1, 1, 0, payload=pack("<Q", second) + copy)
    assert client.ok("GRAPH_NODES", graph, 0)[0] == 3
    executable = client.ok("GRAPH_INSTANTIATE", graph, 0)[0]
    client.ok("GRAPH_DESTROY", graph)
    for turn in range(3):
        client.wait(client.fill(memory, 0, 32))
        last = client.put(wire.RECORD_GRAPH_LAUNCH, wire.RECORD_GRAPH_LAUNCH_FORMAT, executable)
        limit = time.monotonic() + 5
        while len(client.posted_host_calls()) <= turn and time.monotonic() < limit:
            time.sleep(0.001)
        assert client.completed() == last - 1
        function, ticket = client.posted_host_calls()[turn]
        assert function == 99 and client.shared.read(memory + 64, 4) == bytes(4)
        client.host_done(ticket)
        client.wait(last)
        assert unpack("<4I", client.shared.read(memory + 64, 16)) == (7, 7, 7, 7)


def test_capture(client: FakeClient) -> None:
    one = client.stream(1, 2)
    client.ok("CAPTURE_BEGIN", one, 0, 0, 0)
    memory = client.allocate(4096)
    fill = pack(wire.RECORD_FILL_FORMAT, wire.RECORD_FILL, 1, one, 0, memory, 4, 1, 0, 7, 4).ljust(128, b"\0")
    client.ok("CAPTURE_ADD", one, 2, 0, payload=fill)
    client.ok("CAPTURE_EVENT_RECORD", one, 3)
    assert client.ok("CAPTURE_EVENT_WAIT", 2, 3)[0] == 1
    client.ok("CAPTURE_ADD", 2, 2, 0, payload=fill)
    assert client.ok("CAPTURE_INFO", 2)[0] == 1
    result, _, slots = client.request("CAPTURE_END", one)
    assert result == 904 and sorted(unpack("<2I", slots)) == [1, 2]
    assert client.request("CAPTURE_END", one)[0] == 401


def test_fault_sticks_until_reset(client: FakeClient) -> None:
    memory = client.allocate(4096)
    client.copy(memory, 0x1000, 64)
    assert client.wait_sticky() == 700
    assert "memory copy" in client.error_text()
    assert client.request("MEM_ALLOC", 64, 0, 0, 0)[0] == 700
    client.ok("DEVICE_RESET", 1)
    assert client.sticky == 0
    memory = client.allocate(4096)
    client.wait(client.fill(memory, 3))
    assert client.shared.read(memory, 4) == pack("<I", 3)


def test_executor_that_is_killed(client: FakeClient) -> None:
    memory = client.allocate(4096)
    client.wait(client.fill(memory, 3))
    os.kill(client.status.u32[wire.STATUS_EXECUTOR_PID_AT // 4], signal.SIGKILL)
    assert client.wait_sticky() == 719


def test_freed_memory_is_reused_only_behind_its_users(client: FakeClient) -> None:
    one = client.stream(1, 2)
    address = client.ok("POOL_ALLOC", 1, 4096, one)[0]
    assert client.ok("POOL_ATTRIBUTE_GET", 1, 7)[0] == 4096
    client.put(wire.RECORD_FREE_ASYNC, wire.RECORD_FREE_ASYNC_FORMAT, address, stream=one)
    assert client.ok("POOL_ATTRIBUTE_GET", 1, 7)[0] == 0
    assert client.ok("POOL_ALLOC", 1, 4096, one)[0] == address


def test_the_program_goes_while_a_kernel_runs_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = FakeClient({"CUTTLE_CACHE_DIR": str(tmp_path / "cache")})
    plant_image(tmp_path, monkeypatch, images.FOREVER, (32, 1, 1))
    kernel = made.kernel(made.load(PTX), "work")
    for _ in range(wire.JOB_SLOTS + wire.RING_SLOTS // 2):
        made.launch(kernel, 1, 32, pack("<QI", 0, 0))
    made.close()
    assert made.process.returncode == 0


def test_the_program_goes_and_nothing_stays(tmp_path: Path) -> None:
    made = FakeClient({"CUTTLE_CACHE_DIR": str(tmp_path)})
    made.wait(made.fill(made.allocate(64), 1))
    executor = made.status.u32[wire.STATUS_EXECUTOR_PID_AT // 4]
    made.load(PTX)
    made.close()
    assert made.process.returncode == 0
    limit = time.monotonic() + 5
    while Path(f"/proc/{executor}").exists() and time.monotonic() < limit:
        time.sleep(0.01)
    assert not Path(f"/proc/{executor}").exists()


def test_a_kernel_that_cannot_be_compiled_fails_when_launched(client: FakeClient) -> None:
    text = b"""
    .version 8.0
    .target sm_80
    .address_size 64
    .visible .entry stub() { trap; }
    .visible .entry good(.param .u64 out)
    {
        .reg .b64 %rd<3>;
        ld.param.u64 %rd1, [out];
        st.global.u64 [%rd1], 77;
        ret;
    }
    """
    module = client.load(text)
    memory = client.allocate(64)
    client.wait(client.launch(client.kernel(module, "good"), 1, 32, pack("<Q", memory)))
    assert client.shared.read(memory, 8) == pack("<Q", 77)
    word = wire.STATUS_LAUNCH_ERROR_AT // 4
    client.wait(client.launch(client.kernel(module, "stub"), 1, 32, b""), refused=218)
    client.status.u32[word] = 0
    # Everything else goes on, and the kernel fails again.
    client.wait(client.fill(memory, 0, 2))
    client.wait(client.launch(client.kernel(module, "good"), 1, 32, pack("<Q", memory)))
    assert client.shared.read(memory, 8) == pack("<Q", 77)
    client.wait(client.launch(client.kernel(module, "stub"), 1, 32, b""), refused=218)


def test_what_is_not_the_programs_to_free_stays(client: FakeClient) -> None:
    """Found by fuzzing: an asynchronous free of the kernels' heap, and a reset of context 0, left books that ended in KeyError."""
    mine = client.allocate(4096)
    client.wait(client.fill(mine, 3))  # starts the executor, which has a heap
    variable = client.ok("GLOBAL_GET", client.load(PTX), payload=b"table")[0]
    # The heap begins somewhere among the first pages of the arena.
    near = [wire.ARENA_BASE + 4096 + 512 * step for step in range(64)]
    for address in (variable, variable + 4, 1, *(place for place in near if place != mine)):
        assert client.request("MEM_FREE", address)[0] == 1
        client.put(wire.RECORD_FREE_ASYNC, wire.RECORD_FREE_ASYNC_FORMAT, address)
    for name in ("DEVICE_RESET", "CONTEXT_DESTROY"):
        assert client.request(name, 0)[0] == 201
    assert client.ok("POINTER_RANGE", variable)[2] == 3  # a module's variable still
    client.copy(client.allocate(4096), 0x1000, 64)
    assert client.wait_sticky() == 700
    client.ok("DEVICE_RESET", 1)
    client.wait(client.fill(client.allocate(4096), 3))
    assert "nothing to free" in client.said()


def test_mapped_memory_outlives_its_context_and_is_not_freed_by_address(client: FakeClient) -> None:
    size = 2 << 20
    free = client.ok("MEM_INFO")[0]
    address = client.ok("ADDRESS_RESERVE", size, 0, 0)[0]
    physical = client.ok("PHYSICAL_CREATE", size)[0]
    client.ok("PHYSICAL_MAP", address, size, 0, physical)
    assert client.request("MEM_FREE", address)[0] == 1
    client.put(wire.RECORD_FREE_ASYNC, wire.RECORD_FREE_ASYNC_FORMAT, address)
    client.ok("DEVICE_RESET", 1)
    assert client.ok("POINTER_RANGE", address)[0] == address
    client.wait(client.fill(address, 5))
    client.ok("PHYSICAL_UNMAP", address, size)
    client.ok("PHYSICAL_RELEASE", physical)
    client.ok("ADDRESS_FREE", address, size)
    assert client.ok("MEM_INFO")[0] <= free and client.request("POINTER_RANGE", address)[0] == 1
