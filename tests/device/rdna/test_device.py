"""The emulated GPU behind the device contract: jobs of the ring, images made from PTX, output, faults."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack

import pytest

from cuttle.device.device_output import format_text
from cuttle.device.rdna.device import RdnaDevice
from cuttle.errors import DeviceError
from cuttle.lower.amdgpu.compile_kernel import compile_kernel
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.lower.cpu.image_file import pack_image
from cuttle.ptx.parser import parse_module
from tests.device.ring import Machine

pytestmark = pytest.mark.device
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
ADD = (
    HEAD
    + """
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<4>;
  ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra DONE;
  mul.wide.u32 %d4, %r5, 4;
  add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d4;
  ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d2];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%d3], %f3;
DONE:
  ret;
}
"""
)
TRAP = HEAD + ".visible .entry stop() { trap; }\n"
SPIN = HEAD + ".visible .entry spin() { L: bra L; }\n"


@pytest.fixture(params=["gfx1100", "gfx1200"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine(device_class=RdnaDevice)
    yield made
    made.close()


def image(folder: Path, text: str, kernel: str, target: str) -> Path:
    compiled = compile_kernel(parse_module(text.encode()), kernel, AmdgpuOptions(target))
    path = folder / kernel
    path.write_bytes(pack_image(compiled.metadata, compiled.code_object))
    return path


def test_kernel_and_copies(machine: Machine, tmp_path: Path, target: str) -> None:
    number = machine.load(image(tmp_path, ADD, "add", target))
    a, b, c, count = machine.base + 0x10000, machine.base + 0x20000, machine.base + 0x30000, 1000
    machine.shared.write(a, pack(f"<{count}f", *range(count)))
    machine.submit(2, "<HHIQQQQ", b, a, 4 * count)  # COPY
    machine.launch(number, (4, 1, 1), (256, 1, 1), pack("<QQQI", a, b, c, count))
    machine.wait(60)
    assert unpack(f"<{count}f", machine.shared.read(c, 4 * count)) == tuple(2.0 * i for i in range(count))


def test_fills(machine: Machine) -> None:
    machine.submit(4, "<HHIQQQQQII", machine.base, 5, 2, 32, 0xABCD, 2)  # FILL
    machine.wait(60)
    assert machine.shared.read(machine.base, 12) == b"\xcd\xab" * 5 + b"\0\0"
    assert machine.shared.read(machine.base + 32, 12) == b"\xcd\xab" * 5 + b"\0\0"


def test_illegal_address_names_the_kernel(machine: Machine, tmp_path: Path, target: str) -> None:
    number = machine.load(image(tmp_path, ADD, "add", target))
    machine.launch(number, (1, 1, 1), (32, 1, 1), pack("<QQQI", 0x1234000, machine.base, machine.base, 32))
    fault = machine.wait_for_fault(60)
    assert fault.result == 700 and "kernel add" in fault.text and "global_load" in fault.text


def test_memory_that_was_not_given_out_is_none(tmp_path: Path, target: str) -> None:
    """The arena is larger than what was ever allocated; the rest faults, in pages of 2 MiB as on an NVIDIA GPU."""
    end = 146 << 20  # behind the heap
    made = Machine(device_class=RdnaDevice, covered=end)
    try:
        number = made.load(image(tmp_path, ADD, "add", target))
        inside, outside = made.base + end - 128, made.base + end - 124
        made.launch(number, (1, 1, 1), (32, 1, 1), pack("<QQQI", made.base, made.base, inside, 32))
        made.wait(60)
        made.launch(number, (1, 1, 1), (32, 1, 1), pack("<QQQI", made.base, made.base, outside, 32))
        fault = made.wait_for_fault(60)
        assert fault.result == 700 and "lane 31" in fault.text, fault.text
    finally:
        made.close()


def test_without_numpy_there_is_no_device(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    from cuttle.device import needs_numpy
    from cuttle.device.rdna.device import choose

    monkeypatch.setattr(needs_numpy, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match="DEV-0108"):
        choose(target)


def test_trap(machine: Machine, tmp_path: Path, target: str) -> None:
    number = machine.load(image(tmp_path, TRAP, "stop", target))
    machine.launch(number, (1, 1, 1), (32, 1, 1), b"")
    assert machine.wait_for_fault(60).result == 719


def test_time_out(tmp_path: Path, target: str) -> None:
    machine = Machine(timeout_ms=300, device_class=RdnaDevice)
    try:
        number = machine.load(image(tmp_path, SPIN, "spin", target))
        machine.launch(number, (1, 1, 1), (32, 1, 1), b"")
        fault = machine.wait_for_fault(60)
        assert fault.result == 702 and "300 ms" in fault.text
    finally:
        machine.close()


def test_a_file_that_is_no_image(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(os.urandom(5000))
    machine.load(path)
    assert machine.wait_for_fault(60).result == 300


def test_printf_conversions() -> None:
    strings = {1000: b"text", 2000: b""}
    values = pack("<iIqd", -5, 255, -7, 2.5) + pack("<QQ", 1000, 0xABC)
    assert format_text(b"%d %x %lld %.2f [%6s] %p%%", values, strings.__getitem__) == b"-5 ff -7 2.50 [  text] 0xabc%"
    assert format_text(b"%*d|%-4d|%c", pack("<iiii", 5, 42, 7, 65), strings.__getitem__) == b"   42|7   |A"
    assert format_text(b"100%", b"", strings.__getitem__) == b"100%"
    assert format_text(b"%y %s", pack("<Q", 0), strings.__getitem__) == b"%y (null)"
