"""The HIP device behind the device contract, on stand-ins for HIP 5, 6 and 7 whose kernels the RDNA emulator runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack
from typing import Any

import pytest

import cuttle
from cuttle.device import needs_numpy
from cuttle.device.hip import device as hip_device
from cuttle.device.hip.refusals import NoAmdDevice
from cuttle.errors import DeviceError
from cuttle.lower.amdgpu.compile_kernel import compile_kernel
from cuttle.lower.amdgpu.options import AmdgpuOptions
from cuttle.lower.cpu.image_file import pack_image
from cuttle.ptx.parser import parse_module
from cuttle.selftest.run_files import read_file
from tests.device.hip.builds import run_python
from tests.device.rdna.test_device import ADD, HEAD, SPIN, TRAP
from tests.device.ring import Machine
from tests.programs.programs import PROGRAMS, Program
from tests.programs.test_programs import RUN_TIMEOUT_S, build, recorded
from tests.ptx.test_files import FOLDER, run
from tests.ptx.test_files_on_amdgpu import chosen, problems

pytestmark = pytest.mark.device
ROOT = Path(__file__).resolve().parents[3]
MAJORS = (5, 6, 7)
TWICE = (
    HEAD
    + """
.visible .entry twice(.param .u64 p) {
  .reg .b32 %r<4>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d1, %d1, %d2;
  ld.global.u32 %r2, [%d1];
  add.u32 %r2, %r2, %r2;
  st.global.u32 [%d1], %r2;
  ret;
}
"""
)


def use(monkeypatch: pytest.MonkeyPatch, library: Path, **settings: str) -> None:
    """Makes a stand-in the HIP library of device processes started from here."""
    import numpy

    folders = (ROOT, Path(numpy.__file__).parents[1], Path(cuttle.__file__).parents[1])
    values = {
        "CUTTLE_HIP_LIBRARY": str(library), "FAKE_HIP_EMULATOR": ":".join(map(str, folders)), "FAKE_HIP_DEVICES": "gfx1200",
        "CUTTLE_DEVICE": "hip", **settings,
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def image(folder: Path, text: str, kernel: str, **options: Any) -> Path:
    compiled = compile_kernel(parse_module(text.encode()), kernel, AmdgpuOptions(**options))
    path = folder / kernel
    path.write_bytes(pack_image(compiled.metadata, compiled.code_object))
    return path


def started(timeout_ms: int = 0) -> Machine:
    machine = Machine(timeout_ms=timeout_ms, device_class=hip_device.choose(""), covered=0)
    machine.device.cover(machine.base, 4 << 20)
    return machine


@pytest.fixture(params=MAJORS)
def major(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def machine(major: int, fakes: dict[int, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    use(monkeypatch, fakes[major])
    made = started()
    yield made
    made.close()


def test_kernel_and_copies(machine: Machine, tmp_path: Path, major: int) -> None:
    options = machine.device.code_options
    assert options == {"target": "gfx1200", "code_object_version": 4 if major == 5 else 5}
    number = machine.load(image(tmp_path, ADD, "add", **options))
    a, b, c, count = machine.base + 0x10000, machine.base + 0x20000, machine.base + 0x30000, 1000
    machine.shared.write(a, pack(f"<{count}f", *range(count)))
    machine.submit(2, "<HHIQQQQ", b, a, 4 * count)  # COPY
    machine.launch(number, (4, 1, 1), (256, 1, 1), pack("<QQQI", a, b, c, count))
    machine.wait(60)
    assert unpack(f"<{count}f", machine.shared.read(c, 4 * count)) == tuple(2.0 * i for i in range(count))


def test_jobs_of_one_batch_see_each_other(machine: Machine, tmp_path: Path) -> None:
    """Copies, fills, rows and values behind a kernel, with memory on the GPU, and a kernel behind them."""
    number = machine.load(image(tmp_path, TWICE, "twice", **machine.device.code_options))
    a, b, c = machine.base + 0x1000, machine.base + 0x200000, machine.base + 0x5000
    machine.shared.write(a, pack("<32I", *range(32)))
    machine.launch(number, (1, 1, 1), (32, 1, 1), pack("<Q", a))
    machine.submit(2, "<HHIQQQQ", b, a, 128)  # COPY
    machine.submit(4, "<HHIQQQQQII", b + 8, 2, 2, 16, 0xABCD1234, 4)  # FILL: words 2, 3 and 6, 7
    machine.submit(4, "<HHIQQQQQII", b + 64, 5, 1, 5, 7, 1)
    machine.launch(number, (1, 1, 1), (32, 1, 1), pack("<Q", b))
    machine.submit(3, "<HHIQQQQQQQQQQ", c, b, 16, 2, 1, 16, 32, 64, 128)  # COPY_3D: rows of 16 bytes, 64 apart
    machine.submit(14, "<HHIQQQII", c + 4, 99, 0, 32)  # WRITE_VALUE
    machine.launch(number, (1, 1, 1), (32, 1, 1), pack("<Q", c))
    machine.wait(60)
    assert unpack("<32I", machine.shared.read(a, 128)) == tuple(2 * i for i in range(32))
    words = [2 * i for i in range(32)]
    words[2:4] = words[6:8] = [0xABCD1234] * 2
    words[16:18] = [0x07070707, 0x22 & ~0xFF | 7]
    doubled = [2 * word & 0xFFFFFFFF for word in words]
    assert list(unpack("<32I", machine.shared.read(b, 128))) == doubled
    rows = doubled[:4] + doubled[16:20]
    rows[1] = 99
    assert list(unpack("<8I", machine.shared.read(c, 32))) == [2 * word & 0xFFFFFFFF for word in rows]


def test_what_the_program_writes_meanwhile_stays(machine: Machine, tmp_path: Path) -> None:
    """The program may use memory that the kernel does not touch, also next to what it does."""
    number = machine.load(image(tmp_path, TWICE, "twice", **machine.device.code_options))
    place = machine.base + 0x1000
    machine.shared.write(place, pack("<64I", *range(64)))
    for turn in range(20):
        machine.launch(number, (1, 1, 1), (32, 1, 1), pack("<Q", place))
        machine.device.wake()
        machine.shared.write(place + 128, pack("<32I", *[turn] * 32))
        machine.wait(60)
        assert unpack("<32I", machine.shared.read(place + 128, 128)) == (turn,) * 32
    assert unpack("<32I", machine.shared.read(place, 128)) == tuple(i << 20 for i in range(32))


def test_memory_covered_later(machine: Machine, tmp_path: Path) -> None:
    number = machine.load(image(tmp_path, TWICE, "twice", **machine.device.code_options))
    place = machine.base + (64 << 20) - 64
    machine.shared.write(place, pack("<32I", *range(32)))
    machine.device.cover(place, 128)
    machine.launch(number, (1, 1, 1), (32, 1, 1), pack("<Q", place))
    machine.wait(60)
    assert unpack("<32I", machine.shared.read(place, 128)) == tuple(2 * i for i in range(32))


def test_illegal_address(machine: Machine, tmp_path: Path, major: int) -> None:
    """HIP 7 answers an error; earlier ones end the process."""
    number = machine.load(image(tmp_path, ADD, "add", **machine.device.code_options))
    machine.launch(number, (1, 1, 1), (32, 1, 1), pack("<QQQI", 0x1234000, machine.base, machine.base, 32))
    fault = machine.wait_for_fault(60)
    if major == 7:
        assert fault.result == 700 and "kernel add" in fault.text and "hipErrorIllegalAddress (700)" in fault.text
    else:
        assert fault.result == 719 and f"HIP {major} ended its process" in fault.text


def test_trap(machine: Machine, tmp_path: Path) -> None:
    number = machine.load(image(tmp_path, TRAP, "stop", **machine.device.code_options))
    machine.launch(number, (1, 1, 1), (32, 1, 1), b"")
    assert machine.wait_for_fault(60).result == 719


def test_the_device_starts_again(machine: Machine, tmp_path: Path) -> None:
    """After a fault a fresh process has the same memory."""
    path = image(tmp_path, TRAP, "stop", **machine.device.code_options)
    machine.launch(machine.load(path), (1, 1, 1), (32, 1, 1), b"")
    machine.wait_for_fault(60)
    machine.device.reset()
    machine.device.start()
    number = machine.load(image(tmp_path, TWICE, "twice", **machine.device.code_options))
    machine.shared.write(machine.base, pack("<32I", *range(32)))
    machine.launch(number, (1, 1, 1), (32, 1, 1), pack("<Q", machine.base))
    machine.wait(60)
    assert unpack("<32I", machine.shared.read(machine.base, 128)) == tuple(2 * i for i in range(32))


@pytest.mark.parametrize("options", [{"target": "gfx1100"}, {"target": "gfx1200"}])
def test_code_that_hip_refuses(machine: Machine, tmp_path: Path, major: int, options: dict[str, str]) -> None:
    """Code for another GPU, and of the version that this HIP does not read."""
    version = 4 if major == 5 else 5
    wrong = version if options["target"] == "gfx1100" else 5
    if major != 5 and options["target"] == "gfx1200":
        machine.load(image(tmp_path, TRAP, "stop", **options, code_object_version=5))
        machine.wait(60)
        return
    machine.load(image(tmp_path, TRAP, "stop", **options, code_object_version=wrong))
    fault = machine.wait_for_fault(60)
    name = "hipErrorNoBinaryForGpu (209)" if options["target"] == "gfx1100" else "hipErrorInvalidImage (200)"
    assert fault.result == 300 and "HIP refuses the code of kernel stop" in fault.text and name in fault.text


def test_time_out(fakes: dict[int, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(monkeypatch, fakes[6])
    machine = started(timeout_ms=300)
    try:
        number = machine.load(image(tmp_path, SPIN, "spin", **machine.device.code_options))
        machine.launch(number, (1, 1, 1), (32, 1, 1), b"")
        fault = machine.wait_for_fault(60)
        assert fault.result == 702 and "300 ms" in fault.text
    finally:
        machine.close()


@pytest.mark.parametrize("behaviour,text", [
    ("no virtual memory", "[DEV-0207] hipMemAddressReserve of HIP 7.2.345 failed: hipErrorNotSupported (801)"),
    ("other addresses", "[DEV-0207] HIP reserves addresses at 0x700000000, not at"),
])  # fmt: skip
def test_memory_at_other_addresses_is_refused(
    fakes: dict[int, Path], monkeypatch: pytest.MonkeyPatch, behaviour: str, text: str
) -> None:
    use(monkeypatch, fakes[7], FAKE_HIP_BEHAVIOUR=behaviour)
    machine = Machine(device_class=hip_device.choose(""), covered=0)
    fault = machine.wait_for_fault(60)
    machine.close()
    assert fault.result == 719 and text in fault.text


def test_memory_that_runs_out(fakes: dict[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fakes[7], FAKE_HIP_MEMORY=str(8 << 20))
    machine = started()
    machine.wait(60)
    machine.device.cover(machine.base + (16 << 20), 8 << 20)
    fault = machine.wait_for_fault(60)
    machine.close()
    assert fault.result == 2 and "has no 8388608 bytes left" in fault.text


def test_choice_of_a_gpu(fakes: dict[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fakes[7], FAKE_HIP_DEVICES="gfx906,gfx1100,gfx1200")
    made = Machine(device_class=hip_device.choose("2"), covered=0)
    assert made.device.code_options["target"] == "gfx1200" and made.device.memory_bytes == int(0.9 * (24 << 30))
    made.close()
    made = Machine(device_class=hip_device.choose(""), covered=0)
    assert made.device.code_options["target"] == "gfx1100", "the first that is supported"
    made.close()
    with pytest.raises(NoAmdDevice, match="there is no GPU 3: HIP 7.2.345 sees 3"):
        hip_device.choose("3")
    with pytest.raises(DeviceError, match="waves of 64 lanes"):
        hip_device.choose("0")
    monkeypatch.setenv("CUTTLE_HIP_LIBRARY", "/nowhere/libamdhip64.so.7")
    with pytest.raises(DeviceError, match="DEV-0202"):
        hip_device.choose("")


def test_without_numpy_there_is_no_device(fakes: dict[int, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fakes[7])
    monkeypatch.setattr(needs_numpy, "find_spec", lambda name: None)
    with pytest.raises(DeviceError, match="DEV-0108"):
        hip_device.choose("")


FILES = (
    "warp/shfl.ptx",
    "integer/bfe.ptx",
    "memory/ld.ptx",
    "control/call-stack_fits.ptx",
    "atomics/atom.ptx",
    "barrier/bar.ptx",
)


def test_ptx_files(fakes: dict[int, Path], major: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the driver API and `CUTTLE_DEVICE=hip`. HIP 5 has no way to set the stack of calls."""
    use(monkeypatch, fakes[major])
    monkeypatch.setitem(os.environ, "CUTTLE_DEVICE", "hip:0")
    names = list(FILES)
    outcomes = run(names, seconds=120.0)
    wanted = {name: read_file(FOLDER / name).expect for name in names}
    if major == 5:
        wanted["control/call-stack_fits.ptx"] = "fault cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED"
    assert outcomes == wanted


# With HIP 5 and 6 an illegal address is CUDA_ERROR_LAUNCH_FAILED: see `test_illegal_address`.
PROGRAM_MAJORS = [("vector_add", 5), ("matmul_tiled", 6), ("device_assert", 7), ("device_malloc", 5), ("grid_sync", 6),
                  ("saxpy_streams", 7), ("host_memory", 7), ("illegal_address", 7)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_all_ptx_files(fakes: dict[int, Path], part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pytest -m slow tests/device/hip` runs all files and all programs on the stand-in for HIP 7: about 25 minutes on two cores."""
    use(monkeypatch, fakes[7])
    assert not problems(chosen(part, 4), "hip", monkeypatch)


@pytest.mark.slow
@pytest.mark.nvcc
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_all_programs(fakes: dict[int, Path], monkeypatch: pytest.MonkeyPatch, program: Program) -> None:
    check(fakes[7], monkeypatch, program)


@pytest.mark.nvcc
@pytest.mark.parametrize("name,version", PROGRAM_MAJORS)
def test_programs(fakes: dict[int, Path], monkeypatch: pytest.MonkeyPatch, name: str, version: int) -> None:
    check(fakes[version], monkeypatch, next(program for program in PROGRAMS if program.name == name))


def check(library: Path, monkeypatch: pytest.MonkeyPatch, program: Program) -> None:
    """What an H200 printed."""
    use(monkeypatch, library)
    done = subprocess.run(
        [sys.executable, "-m", "cuttle", "run", "--device", "hip", "--", str(build(program, broken=False))],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_TIMEOUT_S, check=False,
    )  # fmt: skip
    entry = recorded(program)["normal"]
    assert done.returncode == entry["exit_code"], done.stderr.decode(errors="replace")
    assert done.stdout.decode(errors="replace") == entry["stdout"]


STRICT = """
import ctypes, json, sys
from cuttle.abi import hip
from cuttle.device.hip.runtime_library import open_hip
library = open_hip(sys.argv[1])
code = open(sys.argv[2], "rb").read() + bytes(64)
library.start()
call = lambda name, *rest: answers.append(library.result(name, *rest))
answers = []
address, handle, function, stream, event = ctypes.c_uint64(), *(ctypes.c_void_p() for _ in range(4))
call("hipMalloc", ctypes.byref(address), 4096)
library.call("hipSetDevice", 0)
call("hipMalloc", None, 4096)
library.call("hipMalloc", ctypes.byref(address), 4096)
library.call("hipStreamCreateWithFlags", ctypes.byref(stream), 1)
library.call("hipEventCreateWithFlags", ctypes.byref(event), 2)
image = ctypes.create_string_buffer(code)
library.call("hipModuleLoadData", ctypes.byref(handle), ctypes.addressof(image))
library.call("hipModuleGetFunction", ctypes.byref(function), handle, b"twice")
call("hipModuleGetFunction", ctypes.byref(function), handle, b"nobody")
call("hipModuleGetFunction", ctypes.byref(function), 4711, b"twice")
call("hipModuleLoadData", ctypes.byref(handle), ctypes.addressof(ctypes.create_string_buffer(b"x" * 64)))
call("hipMemcpyHtoDAsync", address.value, ctypes.addressof(image), 4097, stream)
call("hipMemsetD32Async", address.value + 2, 0, 1, stream)
call("hipEventRecord", 4711, stream)
call("hipMemMap", address.value, 2 << 20, 0, 4711, 0)
call("hipMemCreate", ctypes.byref(handle), 4096, ctypes.addressof(ctypes.create_string_buffer(32)), 0)
buffer, size = ctypes.create_string_buffer(80), ctypes.c_size_t(80)
def launch(first=1, end=3, block=32, what=function):
    extra = (ctypes.c_void_p * 5)(first, ctypes.addressof(buffer), 2, ctypes.addressof(size), end)
    call("hipModuleLaunchKernel", what, 1, 1, 1, block, 1, 1, 0, stream, None, ctypes.addressof(extra))
launch(first=4); launch(end=0); launch(block=0); launch(what=4711)
source = ctypes.create_string_buffer(b"first!!!", 8)
library.call("hipMemcpyHtoDAsync", address.value, ctypes.addressof(source), 8, stream)
source.raw = b"too soon"
library.call("hipStreamSynchronize", stream)
target = ctypes.create_string_buffer(8)
library.call("hipMemcpyDtoHAsync", ctypes.addressof(target), address.value, 8, stream)
early = target.raw.decode("latin-1")
library.call("hipStreamSynchronize", stream)
library.call("hipFree", address.value)
call("hipFree", address.value)
if library.major < 7:
    call("hipStreamSynchronize", 4711)
print(json.dumps([answers, early, target.raw.decode("latin-1")]))
if library.major == 7 and len(sys.argv) > 3:
    library.result("hipStreamSynchronize", 4711)
"""


def test_the_stand_in_is_strict(fakes: dict[int, Path], major: int, tmp_path: Path) -> None:
    """Negative controls: what is wrong gets HIP's own error, and a buffer that is used again too early shows."""
    import json

    import numpy

    options = AmdgpuOptions("gfx1200", 4 if major == 5 else 5)
    code = tmp_path / "code"
    code.write_bytes(compile_kernel(parse_module(TWICE.encode()), "twice", options).code_object)
    folders = f"{ROOT}:{Path(numpy.__file__).parents[1]}"
    environment = {"FAKE_HIP_DEVICES": "gfx1200", "FAKE_HIP_EMULATOR": folders}
    answers, early, late = json.loads(run_python(STRICT, str(fakes[major]), str(code), **environment))
    bad_block, bad_function = (9, 1) if major == 7 else (1, 400)
    wanted = [101, 1, 500, 400, 200, 1, 1, 400, 1, 1, 1, 1, bad_block, bad_function, 1]
    assert answers == wanted + ([400] if major < 7 else [])
    assert early == "\0" * 8 and late == "too soon"
    if major == 7:
        with pytest.raises(AssertionError):
            run_python(STRICT, str(fakes[major]), str(code), "crash", **environment)
