"""The HIP library in a process: versions, layouts, refusals; against stand-ins, and AMD's own where it is installed."""

from __future__ import annotations

import ctypes.util
import json
import subprocess
from pathlib import Path

import pytest

from cuttle.abi import hip
from cuttle.device.hip.find_library import Place, hip_candidates
from cuttle.device.hip.list_devices import target_verdict
from cuttle.device.hip.runtime_library import argument_type
from tests.device.hip.builds import fake_hip, hip_report, run_python

MAJORS = (5, 6, 7)


def test_rows_are_sound() -> None:
    names = [row.name for row in hip.FUNCTIONS]
    assert len(set(names)) == len(names) >= 60
    for row in hip.FUNCTIONS:
        assert 5 <= row.since <= row.until <= 7 and row.result in ("error", "text")
        for kind in row.arguments:
            argument_type(kind)
    for major, layout in hip.PROPERTIES.items():
        row = next(row for row in hip.FUNCTIONS if row.name == layout.function)
        assert row.exists_in(major)
        ends = [at + {"i32": 4, "u64": 8, "text256": 256}[kind] for at, kind in layout.fields.values()]
        assert max(ends) <= layout.size
        assert ("not verified" in layout.evidence) or major == 5
    assert hip.split_version(50221153) == (5, 2, 21153)
    assert hip.split_version(70100000) == (7, 1, 0)


@pytest.mark.parametrize("major", MAJORS)
def test_devices(fakes: dict[int, Path], major: int) -> None:
    report = hip_report(fakes[major], FAKE_HIP_DEVICES="gfx1100,gfx906:sramecc+:xnack-,gfx9999,gfx1201")
    assert report["problem"] is None
    assert report["version"] == f"{major}.2.345"
    first, vega, unknown, last = report["devices"]
    assert (first["target"], first["supported"], first["error"]) == ("gfx1100", True, None)
    assert first["name"] == "Fake Radeon ?[2J0", "an escape sequence reaches the terminal"
    assert (first["memory_bytes"], first["multiprocessor_count"], first["warp_size"]) == (24 << 30, 48, 32)
    assert (first["pci"], first["pci_bus"], first["clock_rate_khz"]) == ("0000:03:00.0", 3, None)
    assert (vega["architecture"], vega["target"], vega["supported"]) == ("gfx906:sramecc+:xnack-", "gfx906", False)
    assert vega["error"]["code"] == "DEV-0021" and "64 lanes" in vega["error"]["message"]
    assert unknown["error"]["code"] == "DEV-0020"
    assert last["supported"]


@pytest.mark.parametrize("major", MAJORS)
@pytest.mark.parametrize(
    "settings,code,reason,text",
    [
        ({"FAKE_HIP_INIT": "101"}, "DEV-0202", "no driver", "hipInit: hipErrorInvalidDevice (101)"),
        ({"FAKE_HIP_INIT": "100"}, "DEV-0202", "no driver", "hipInit: hipErrorNoDevice (100)"),
        ({"FAKE_HIP_COUNT": "100"}, "DEV-0202", "no GPU", "hipGetDeviceCount: hipErrorNoDevice (100)"),
        ({}, "DEV-0202", "no GPU", "counts 0 GPUs"),
        ({"FAKE_HIP_INIT": "35"}, "DEV-0204", "", "hipInit failed: hipErrorInsufficientDriver (35)"),
        ({"FAKE_HIP_INIT": "4321"}, "DEV-0204", "", "hipInit failed: hipErrorOfTheFuture (4321)"),
        ({"FAKE_HIP_COUNT": "1"}, "DEV-0204", "", "hipGetDeviceCount failed: hipErrorInvalidValue (1)"),
        ({"FAKE_HIP_VERSION": "43500000"}, "DEV-0203", "", "is HIP 4.35.0; Cuttle knows HIP 5, 6 and 7"),
        ({"FAKE_HIP_VERSION": "80000000"}, "DEV-0203", "", "is HIP 8.0.0"),
        ({"FAKE_HIP_VERSION": "-5"}, "DEV-0203", "", "does not say its version"),
        ({"FAKE_HIP_BEHAVIOUR": "crash"}, "DEV-0203", "", "ended the process that loaded it (signal 6)"),
    ],
)
def test_reasons(
    fakes: dict[int, Path], major: int, settings: dict[str, str], code: str, reason: str, text: str
) -> None:
    problem = hip_report(fakes[major], **settings)["problem"]
    assert (problem["code"], problem["reason"]) == (code, reason)
    assert text in problem["message"] and "\n" not in problem["message"]
    assert problem["hint"]


def test_hints_of_missing_devices_differ(fakes: dict[int, Path], tmp_path: Path) -> None:
    paths_and_settings = ((tmp_path / "none", {}), (fakes[7], {"FAKE_HIP_INIT": "101"}), (fakes[7], {}))
    problems = [hip_report(path, **settings)["problem"] for path, settings in paths_and_settings]
    assert [problem["reason"] for problem in problems] == ["library missing", "no driver", "no GPU"]
    assert len({problem["hint"] for problem in problems}) == len({problem["message"] for problem in problems}) == 3


def test_what_a_library_prints_does_not_disturb(fakes: dict[int, Path]) -> None:
    report = hip_report(fakes[6], FAKE_HIP_BEHAVIOUR="print", FAKE_HIP_DEVICES="gfx1200")
    assert report["devices"][0]["target"] == "gfx1200"


@pytest.mark.parametrize("major", MAJORS)
def test_a_struct_of_another_layout_is_refused(fakes: dict[int, Path], major: int) -> None:
    overlong = hip_report(fakes[major], FAKE_HIP_DEVICES="gfx1100", FAKE_HIP_OVERLONG="8")["devices"][0]
    assert overlong["error"]["code"] == "DEV-0203" and "wrote more than" in overlong["error"]["message"]
    nameless = hip_report(fakes[major], FAKE_HIP_DEVICES="GeForce")["devices"][0]
    assert nameless["error"]["code"] == "DEV-0203" and "gcnArchName" in nameless["error"]["message"]


def test_another_layout_under_the_name_of_this_one_is_refused(fakes: dict[int, Path]) -> None:
    """A library with HIP 5's struct that says it is HIP 7, and the other way round."""
    old = hip_report(fakes[5], FAKE_HIP_VERSION="70000000", FAKE_HIP_DEVICES="gfx1100")["problem"]
    assert old["code"] == "DEV-0203" and "has no function hipGetDevicePropertiesR0600" in old["message"]
    code = """
import ctypes, sys
from cuttle.abi import hip
from cuttle.device.hip import list_devices, runtime_library
library = runtime_library.open_hip(sys.argv[1])
library.start()
layout = hip.PROPERTIES[5]
hip.PROPERTIES[7] = hip.PropertiesLayout(7, "hipGetDevicePropertiesR0600", layout.size, layout.fields, "")
try:
    list_devices.read_properties(library, 0)
except Exception as error:
    print(error.code, error.message)
"""
    assert run_python(code, str(fakes[7]), FAKE_HIP_DEVICES="gfx1100").startswith(
        "DEV-0203 hipGetDevicePropertiesR0600 wrote more"
    )


def test_waves_of_another_size_than_the_targets_are_refused(fakes: dict[int, Path]) -> None:
    device = hip_report(fakes[7], FAKE_HIP_DEVICES="gfx1100", FAKE_HIP_WARP="64")["devices"][0]
    assert device["error"]["code"] == "DEV-0021" and "HIP says" in device["error"]["message"]


def test_a_library_without_a_function_is_refused(tmp_path: Path) -> None:
    path = fake_hip(tmp_path, 6, without="hipModuleLaunchKernel")
    problem = hip_report(path, FAKE_HIP_DEVICES="gfx1100")["problem"]
    assert problem["code"] == "DEV-0203" and problem["message"].endswith("has no function hipModuleLaunchKernel")


def test_files_that_are_no_libraries(tmp_path: Path) -> None:
    text = tmp_path / "libamdhip64.so.6"
    text.write_bytes(b"not a library")
    assert hip_report(text)["problem"]["reason"] == "library missing"
    libc = ctypes.util.find_library("m")
    path = next(
        (
            Path(folder) / str(libc)
            for folder in ("/lib/x86_64-linux-gnu", "/lib64", "/usr/lib")
            if (Path(folder) / str(libc)).exists()
        ),
        None,
    )
    if path is None:
        pytest.skip("libm is in no folder known here")
    assert "is no HIP library" in hip_report(path)["problem"]["message"]


def test_never_two_in_one_process(fakes: dict[int, Path]) -> None:
    code = """
import sys
from cuttle.device.hip.runtime_library import open_hip
first = open_hip(sys.argv[1])
assert open_hip(sys.argv[1]) is first
try:
    open_hip(sys.argv[2])
except Exception as error:
    print(error.code, error.message)
"""
    assert "would be a second HIP" in run_python(code, str(fakes[6]), str(fakes[7]))
    brought = """
import ctypes, sys
from cuttle.device.hip.runtime_library import open_hip
ctypes.CDLL(sys.argv[1])
try:
    open_hip(sys.argv[2])
except Exception as error:
    print(error.code, error.message)
"""
    assert run_python(brought, str(fakes[6]), str(fakes[7])).startswith(f"DEV-0203 {fakes[6]} is in this process")
    unusable = """
import sys
from cuttle.device.hip.runtime_library import open_hip
for _ in range(2):
    try:
        open_hip(sys.argv[1])
    except Exception as error:
        print(error.message)
"""
    first, second = run_python(unusable, str(fakes[7]), FAKE_HIP_VERSION="80000000").splitlines()
    assert "is HIP 8" in first and "could not be used" in second


@pytest.mark.parametrize("major", MAJORS)
def test_the_stand_in_is_strict(fakes: dict[int, Path], major: int) -> None:
    """Wrong order, null pointers and wrong devices get HIP's errors, so that a sloppy caller would be seen."""
    code = """
import ctypes, json, sys
from cuttle.abi import hip
from cuttle.device.hip.runtime_library import open_hip
library = open_hip(sys.argv[1])
properties = hip.PROPERTIES[library.major].function
number, buffer = ctypes.c_int32(), ctypes.create_string_buffer(8192)
early = [library.result("hipGetDeviceCount", ctypes.byref(number)), library.result(properties, ctypes.addressof(buffer), 0)]
library.start()
late = [
    library.result("hipGetDeviceCount", None), library.result("hipDeviceGet", None, 0),
    library.result("hipDeviceGet", ctypes.byref(number), 1), library.result(properties, None, 0),
    library.result("hipDeviceGetAttribute", ctypes.byref(number), 87, -1), library.result("hipMalloc", None, 8),
]
try:
    library.call("hipDeviceGet", ctypes.byref(number), 1)
except Exception as error:
    print(json.dumps([early, late, error.code, error.message]))
"""
    early, late, code_seen, message = json.loads(run_python(code, str(fakes[major]), FAKE_HIP_DEVICES="gfx1100"))
    assert early == [hip.NOT_INITIALIZED] * 2
    assert late == [1, 1, 101, 1, 101, 801]
    assert (code_seen, message) == ("DEV-0204", "hipDeviceGet failed: hipErrorInvalidDevice (101)")


def test_every_target_has_one_rule() -> None:
    assert target_verdict("gfx1100") is None
    refused = target_verdict("gfx90a")
    assert refused is not None and refused.code == "DEV-0021"
    unknown = target_verdict("gfx803")
    assert unknown is not None and unknown.code == "DEV-0020"


REAL = next((found.path for found in hip_candidates(Place.here()) if found.major == 5), None)
needs_real = pytest.mark.skipif(REAL is None, reason="AMD's HIP 5 is not installed (Debian: libamdhip64-5)")


@needs_real
def test_debians_library_finds_no_device() -> None:
    """Without /dev/kfd: hipInit answers 101. Recorded from HIP 5.2.3."""
    if Path("/dev/kfd").exists():
        pytest.skip("there is a GPU driver here")
    report = hip_report(Path(str(REAL)))
    assert report["version"].startswith("5.")
    assert report["problem"]["reason"] == "no driver"
    assert "hipErrorInvalidDevice (101)" in report["problem"]["message"]


@needs_real
def test_debians_library_has_the_functions_and_names() -> None:
    code = """
import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
library.hipGetErrorName.restype = ctypes.c_char_p
from cuttle.abi import hip
count = ctypes.c_int(-1)
init, counted = library.hipInit(0), library.hipGetDeviceCount(ctypes.byref(count))
print(json.dumps([
    [row.name for row in hip.FUNCTIONS if row.exists_in(5) and not hasattr(library, row.name)],
    [row.name for row in hip.FUNCTIONS if not row.exists_in(5) and hasattr(library, row.name)],
    {number: library.hipGetErrorName(number).decode() for number in hip.ERRORS}, init, counted, count.value]))
"""
    missing, surplus, names, init, counted, count = json.loads(run_python(code, str(REAL)))
    assert missing == [] and surplus == []
    assert {int(number): name for number, name in names.items()} == hip.ERRORS
    if not Path("/dev/kfd").exists():
        assert (init, counted, count) == (101, 100, 0)


def header_folder() -> Path | None:
    """Where AMD's header of HIP 5 is: beside the library, or installed."""
    folders = [Path("/usr/include")] + [parent / "include" for parent in Path(str(REAL)).parents if REAL]
    return next((folder for folder in folders if (folder / "hip" / "hip_runtime_api.h").exists()), None)


@needs_real
@pytest.mark.skipif(header_folder() is None, reason="AMD's header is not installed (Debian: libamdhip64-dev)")
def test_layout_and_attributes_as_in_debians_header(tmp_path: Path) -> None:
    from cuttle.client.build import compiler

    layout = hip.PROPERTIES[5]
    names = {
        "warp_size": "WarpSize", "multiprocessor_count": "MultiprocessorCount", "max_threads_per_block": "MaxThreadsPerBlock",
        "max_shared_memory_per_block": "MaxSharedMemoryPerBlock", "clock_rate_khz": "ClockRate",
        "memory_clock_rate_khz": "MemoryClockRate", "memory_bus_width": "MemoryBusWidth", "l2_cache_bytes": "L2CacheSize",
        "integrated": "Integrated", "cooperative_launch": "CooperativeLaunch", "managed_memory": "ManagedMemory",
        "pci_domain": "PciDomainID", "pci_bus": "PciBusId", "pci_device": "PciDeviceId",
    }  # fmt: skip
    checks = [f"sizeof(hipDeviceProp_t) == {layout.size}"]
    checks += [f"offsetof(hipDeviceProp_t, {name}) == {at}" for name, (at, _) in layout.fields.items()]
    checks += [f"hipDeviceAttribute{names[key]} == {number}" for key, number in hip.ATTRIBUTES.items()]
    allocation = hip.ALLOCATIONS[5]
    checks += [
        f"sizeof(hipMemAllocationProp) == {hip.ALLOCATION_BYTES}",
        f"offsetof(hipMemAllocationProp, type) == {allocation.type}",
        f"offsetof(hipMemAllocationProp, location) == {allocation.location_type}",
        f"offsetof(hipMemAllocationProp, location) + offsetof(hipMemLocation, id) == {allocation.location_id}",
        f"hipMemAllocationTypePinned == {hip.ALLOCATION_PINNED}", f"hipMemLocationTypeDevice == {hip.LOCATION_DEVICE}",
        f"hipMemAccessFlagsProtReadWrite == {hip.ACCESS_READ_WRITE}", "sizeof(hipMemAccessDesc) == 12",
    ]  # fmt: skip
    source = tmp_path / "layout.c"
    lines = ["#define __HIP_PLATFORM_AMD__", "#include <stddef.h>", "#include <hip/hip_runtime_api.h>"]
    source.write_text("\n".join(lines + [f'_Static_assert({check}, "{check}");' for check in checks]) + "\n")
    command = [*compiler(), "-w", "-c", "-o", str(tmp_path / "layout.o"), f"-I{header_folder()}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
