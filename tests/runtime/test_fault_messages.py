"""What a user is told when a kernel faults: kernel, place in the source, address and the memory near it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest

from tests.runtime.client import FakeClient

MEGABYTE = 1 << 20
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
# Line 12 of the source loads, 13 stores; a device function that was inlined stores at line 4.
PTX = (
    HEADER
    + """
.file 1 "/home/me/kernels.cu"
.func inner(.param .u64 at)
{
    .reg .b64 %rd<2>;
    .loc 1 4 5
    ld.param.u64 %rd1, [at];
    st.global.u32 [%rd1], 1;
    ret;
}
.visible .entry copy(.param .u64 from, .param .u64 to)
{
    .reg .b64 %rd<5>;
    .reg .b32 %r<3>;
    .loc 1 10 1
    ld.param.u64 %rd1, [from];
    ld.param.u64 %rd2, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd1, %rd1, %rd3;
    add.u64 %rd2, %rd2, %rd3;
    .loc 1 12 3
    ld.global.u32 %r2, [%rd1];
    .loc 1 13 3
    st.global.u32 [%rd2], %r2;
    ret;
}
.visible .entry calling(.param .u64 from, .param .u64 to)
{
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [to];
    { .param .b64 p; st.param.b64 [p], %rd1; call.uni inner, (p); }
    ret;
}
.visible .entry trapping(.param .u64 from, .param .u64 to)
{
    .reg .pred %p;
    .reg .b32 %r<2>;
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p, %r1, 37;
    .loc 1 21 3
    @%p trap;
    ret;
}
.visible .entry shared_store(.param .u64 from, .param .u64 to)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [from];
    cvt.u32.u64 %r1, %rd1;
    .loc 1 30 3
    st.shared.u32 [%r1], %r1;
    ret;
}
.func (.reg .b32 result) endless(.reg .b32 depth, .reg .b64 at)
{
    .reg .b32 %r<3>;
    add.u32 %r1, depth, 1;
    call.uni (%r2), endless, (%r1, at);
    st.global.u32 [at], %r2;
    mad.lo.u32 result, %r2, 3, depth;
    ret;
}
.visible .entry deep(.param .u64 from, .param .u64 to)
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [to];
    call.uni (%r1), endless, (0, %rd1);
    ret;
}
"""
)


@pytest.fixture(params=["fast", "optimised", "plain"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeClient]:
    how = {"CUTTLE_PLAIN": "1"} if request.param == "plain" else {"CUTTLE_TIERS": request.param}
    made = FakeClient({"CUTTLE_CACHE_DIR": str(tmp_path / "cache"), "CUTTLE_THREADS": "2", **how})
    yield made
    made.close()


def fault(client: FakeClient, kernel: str, source: int, target: int, text: str = PTX) -> str:
    """The message after a launch of one block of 64 threads."""
    client.launch(client.kernel(client.load(text.encode()), kernel), 1, 64, pack("<QQ", source, target))
    client.wait_sticky()
    return client.error_text()


def test_a_read_beyond_an_allocation(start: FakeClient) -> None:
    small, target = start.allocate(1000), start.allocate(4 * MEGABYTE)
    text = fault(start, "copy", target + 256 * MEGABYTE, small)
    found = re.search(
        r"^illegal address: kernel copy, block \[0,0,0\]: read from address 0x[0-9a-f]+ \([\d,]+ bytes past the end of "
        r"the 4,194,304-byte allocation at (0x[0-9a-f]+)\)\n  --> /home/me/kernels.cu:12, PTX line \d+: `ld.global.u32`\n  hint: An index",
        text,
    )
    assert found and int(found[1], 16) == target, text


def test_a_write_through_null(start: FakeClient) -> None:
    text = fault(start, "copy", start.allocate(4096), 0)
    assert re.search(r"write to address 0x[0-9a-f]+ \((?:a null pointer|\d+ bytes from a null pointer)\)", text), text
    assert "kernels.cu:13," in text and "hint: The pointer is null" in text


def test_a_place_in_a_function(start: FakeClient) -> None:
    assert re.search(r"  --> /home/me/kernels.cu:4, PTX line \d+: `st.global.u32`\n", fault(start, "calling", 0, 8))


def test_a_trap_names_its_thread(start: FakeClient) -> None:
    text = fault(start, "trapping", 0, 0)
    assert text.startswith("trap: kernel trapping, block [0,0,0], thread [37,0,0]: the kernel ended itself\n"), text
    assert "kernels.cu:21, PTX line" in text and "`trap`" in text


def test_shared_memory_is_not_looked_for_among_allocations(start: FakeClient) -> None:
    text = fault(start, "shared_store", 0x7000_0000, 0)
    assert "kernels.cu:30," in text and "hint: Shared memory of a block ends" in text and "allocation" not in text


def test_endless_recursion_is_a_stack_overflow(start: FakeClient) -> None:
    """Also with functions that keep next to nothing: what their caller writes for them must not be what faults."""
    text = fault(start, "deep", 0, start.allocate(4096))
    assert text.startswith("stack overflow: kernel deep, block [0,0,0], thread [") and "PTX line" in text, text


def test_without_loc_the_message_says_how_to_get_it(start: FakeClient) -> None:
    bare = "\n".join(line for line in PTX.splitlines() if ".loc" not in line and ".file" not in line)
    text = fault(start, "copy", start.allocate(4096), 0, bare)
    assert re.search(r"  --> PTX line \d+: `st.global.u32` \(nvcc -lineinfo names the source line\)\n", text), text


def test_images_from_the_cache_have_places_too(tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        made = FakeClient({"CUTTLE_CACHE_DIR": str(tmp_path / "cache"), "CUTTLE_TIERS": "optimised"})
        texts.append(fault(made, "copy", made.allocate(4096), 0))
        made.close()
    assert texts[0] == texts[1] and "kernels.cu:13" in texts[1]


@pytest.mark.parametrize("tier", ["fast", "optimised"])
def test_a_time_out_names_what_is_waited_for(tier: str, tmp_path: Path) -> None:
    """One warp waits for ever in a loop that yields, the other at a barrier: neither is on the stack when time is up."""
    waiting = (
        HEADER
        + """
.file 1 "/home/me/waits.cu"
.visible .entry wait(.param .u64 from, .param .u64 to)
{
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [from];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p, %r1, 32;
    @%p bra done;
again:
    .loc 1 7 3
    ld.volatile.global.u32 %r2, [%rd1];
    .loc 1 8 3
    setp.eq.u32 %p, %r2, 0;
    @%p bra again;
done:
    .loc 1 9 3
    bar.sync 0;
    ret;
}
"""
    )
    knobs = {"CUTTLE_CACHE_DIR": str(tmp_path / "cache"), "CUTTLE_TIERS": tier, "CUTTLE_TIMEOUT": "0.4"}
    made = FakeClient(knobs)
    text = fault(made, "wait", made.allocate(4096), 0, waiting)
    made.close()
    assert text.startswith("time-out: kernel wait, block [0,0,0]: it ran for more than 400 ms"), text
    assert re.search(r"  --> /home/me/waits.cu:7, PTX line \d+: `ld.volatile.global.u32`\n", text), text


def test_memory_given_out_while_a_kernel_runs_may_be_used(tmp_path: Path) -> None:
    """A kernel that waits for a pointer and then uses it: the memory was not there when it was launched."""
    waiting = (
        HEADER
        + """
.visible .entry work(.param .u64 from, .param .u64 to)
{
    .reg .pred %p;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [from];
again:
    ld.volatile.global.u64 %rd2, [%rd1];
    setp.eq.u64 %p, %rd2, 0;
    @%p bra again;
    st.global.u64 [%rd2], 42;
    ret;
}
"""
    )
    made = FakeClient({"CUTTLE_CACHE_DIR": str(tmp_path / "cache"), "CUTTLE_THREADS": "2"})
    box = made.allocate(64)
    made.wait(made.fill(box, 0, 2))
    last = made.launch(made.kernel(made.load(waiting.encode()), "work"), 1, 1, pack("<QQ", box, 0))
    large = made.allocate(64 * MEGABYTE)
    made.shared.write(box, pack("<Q", large + 63 * MEGABYTE))
    made.wait(last)
    assert made.shared.read(large + 63 * MEGABYTE, 8) == pack("<Q", 42)
    made.close()
