"""The two tiers of a kernel: the fast one runs first, the optimised one takes over, each is kept in the cache."""

from __future__ import annotations

import time
from pathlib import Path
from struct import pack, unpack

import pytest

from cuttle.lower.cpu.image_file import unpack_image
from tests.runtime.client import FakeClient

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry work(.param .u64 out, .param .u32 add)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [add];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd1, %rd1, %rd2;
    ld.global.u32 %r3, [%rd1];
    mad.lo.u32 %r4, %r3, 3, %r1;
    st.global.u32 [%rd1], %r4;
    ret;
}
"""


def images(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file() and not path.name.endswith(".new"))


def wait_for_images(cache: Path, count: int) -> None:
    limit = time.monotonic() + 60
    while len(images(cache)) < count:
        assert time.monotonic() < limit, f"{len(images(cache))} images after a minute, expected {count}"
        time.sleep(0.02)


def client_with(cache: Path, tiers: str) -> FakeClient:
    return FakeClient({"CUTTLE_CACHE_DIR": str(cache), "CUTTLE_THREADS": "1", "CUTTLE_TIERS": tiers})


def launch(client: FakeClient, kernel: int, memory: int, turns: int, value: int) -> int:
    """Runs the kernel so often and checks what it leaves; returns the new value."""
    for _ in range(turns):
        last = client.launch(kernel, 1, 32, pack("<QI", memory, 1))
        value = (3 * value + 1) & 0xFFFF_FFFF
    client.wait(last, seconds=60)
    assert unpack("<32I", client.shared.read(memory, 128)) == (value,) * 32
    return value


def set_up(client: FakeClient) -> tuple[int, int]:
    memory = client.allocate(128)
    client.wait(client.fill(memory, 0, 32))
    return client.kernel(client.load(PTX), "work"), memory


def test_the_optimised_tier_takes_over(tmp_path: Path) -> None:
    client = client_with(tmp_path, "both")
    kernel, memory = set_up(client)
    value = launch(client, kernel, memory, 1, 0)
    first = images(tmp_path)
    assert len(first) == 1, "the launch waited for more than the fast tier"
    wait_for_images(tmp_path, 2)
    (second,) = [path for path in images(tmp_path) if path not in first]
    value = launch(client, kernel, memory, 100, value)
    fast, optimised = (unpack_image(path.read_bytes()) for path in (first[0], second))
    assert fast[1] != optimised[1]
    assert fast[0]["symbols"] == optimised[0]["symbols"]
    launch(client, kernel, memory, 100, value)
    assert "Traceback" not in client.close()


def test_it_takes_over_while_launches_keep_coming(tmp_path: Path) -> None:
    client = client_with(tmp_path, "both")
    kernel, memory = set_up(client)
    value = launch(client, kernel, memory, 1, 0)
    limit = time.monotonic() + 60
    while len(images(tmp_path)) < 2:
        assert time.monotonic() < limit
        value = launch(client, kernel, memory, 50, value)
    launch(client, kernel, memory, 5000, value)
    assert "Traceback" not in client.close()


@pytest.mark.parametrize("tiers", ["fast", "optimised"])
def test_one_tier_only(tmp_path: Path, tiers: str) -> None:
    client = client_with(tmp_path, tiers)
    kernel, memory = set_up(client)
    launch(client, kernel, memory, 1, 0)
    time.sleep(0.5)
    assert len(images(tmp_path)) == 1
    client.close()


def test_the_cache_gives_the_best_tier(tmp_path: Path) -> None:
    client = client_with(tmp_path, "both")
    kernel, memory = set_up(client)
    launch(client, kernel, memory, 1, 0)
    wait_for_images(tmp_path, 2)
    client.close()
    before = {path: path.stat().st_mtime_ns for path in images(tmp_path)}
    client = client_with(tmp_path, "both")
    kernel, memory = set_up(client)
    launch(client, kernel, memory, 10, 0)
    client.close()
    used = [path for path in images(tmp_path) if path.stat().st_mtime_ns != before.get(path)]
    assert len(images(tmp_path)) == 2 and len(used) == 1
    sizes = {path: unpack_image(path.read_bytes())[0]["blob_bytes"] for path in before}
    assert sizes[used[0]] == min(sizes.values()), "the fast tier was taken, whose code is the larger"


def test_a_module_that_goes_while_its_kernel_is_optimised(tmp_path: Path) -> None:
    client = client_with(tmp_path, "both")
    memory = client.allocate(128)
    for _ in range(3):
        client.wait(client.fill(memory, 0, 32))
        module = client.load(PTX)
        launch(client, client.kernel(module, "work"), memory, 2, 0)
        client.ok("MODULE_UNLOAD", module)
        time.sleep(0.2)
    client.wait(client.fill(memory, 7, 32))
    assert "Traceback" not in client.close()
    assert client.process.returncode == 0
