"""Asks a driver library what it offers: `python -m cuttle.cli.probe [--kernel]`, in a process of its own.

Prints one JSON line. It loads `libcuda.so.1` as a program would, so it sees exactly what programs see, and a driver
that crashes costs this process only.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import time
from typing import Any

from cuttle.sweep.driver import DriverFailure, DriverLibrary

# CUdevice_attribute numbers (cuda.h) → names in the report.
ATTRIBUTES = {
    1: "max_threads_per_block",
    8: "max_shared_memory_per_block",
    10: "warp_size",
    13: "clock_rate_khz",
    16: "multiprocessor_count",
    33: "pci_bus_id",
    34: "pci_device_id",
    50: "pci_domain_id",
    75: "compute_capability_major",
    76: "compute_capability_minor",
    83: "managed_memory",
    95: "cooperative_launch",
}

# Squares the numbers 0 to 63 in one block of 64 threads.
KERNEL = b"""
.version 7.0
.target sm_52
.address_size 64
.visible .entry cuttle_probe(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.lo.u32 %r2, %r1, %r1;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""
THREADS = 64


def library_path() -> str:
    """The file that `libcuda.so.1` was loaded from."""
    with open("/proc/self/maps") as file:
        for line in file:
            if "/libcuda.so" in line:
                return line[line.index("/") :].strip()
    return ""


def device_report(driver: DriverLibrary, ordinal: int) -> dict[str, Any]:
    device = driver.integer("cuDeviceGet", ordinal)
    name = ctypes.create_string_buffer(256)
    driver.call("cuDeviceGetName", name, 256, device)
    total = ctypes.c_size_t()
    driver.call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
    uuid = (ctypes.c_ubyte * 16)()
    driver.call("cuDeviceGetUuid", uuid, device)
    text = bytes(uuid).hex()
    report: dict[str, Any] = {
        "index": ordinal,
        "name": name.value.decode(errors="replace"),
        "uuid": f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}",
        "memory_bytes": total.value,
    }
    for number, key in ATTRIBUTES.items():
        try:
            report[key] = driver.integer("cuDeviceGetAttribute", ctypes.c_int(number), device)
        except DriverFailure:
            report[key] = None
    report["compute_capability"] = f"{report['compute_capability_major']}.{report['compute_capability_minor']}"
    return report


def run_kernel(driver: DriverLibrary) -> dict[str, Any]:
    """Compile and run a small kernel; says whether its answer is right and how long each step took."""
    times: dict[str, Any] = {}
    device = driver.integer("cuDeviceGet", 0)
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    memory = ctypes.c_uint64()
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    driver.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(THREADS * 4))
    started = time.perf_counter()
    driver.call("cuModuleLoadData", ctypes.byref(module), KERNEL)
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"cuttle_probe")
    times["load_ms"] = round((time.perf_counter() - started) * 1e3, 2)
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(memory), ctypes.c_void_p))
    for key in ("first_launch_ms", "launch_ms"):
        started = time.perf_counter()
        driver.call("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, None, parameters, None)
        driver.call("cuCtxSynchronize")
        times[key] = round((time.perf_counter() - started) * 1e3, 2)
    output = (ctypes.c_uint32 * THREADS)()
    driver.call("cuMemcpyDtoH_v2", output, memory, ctypes.c_size_t(THREADS * 4))
    driver.call("cuMemFree_v2", memory)
    driver.call("cuDevicePrimaryCtxRelease_v2", device)
    return {"right": list(output) == [i * i for i in range(THREADS)], **times}


def probe(kernel: bool) -> dict[str, Any]:
    report: dict[str, Any] = {"library": "", "driver_version": 0, "devices": [], "kernel": None, "error": ""}
    try:
        driver = DriverLibrary()
        report["library"] = library_path()
        report["is_cuttle"] = hasattr(driver.cuda, "cuttle_version")
        started = time.perf_counter()
        driver.call("cuInit", 0)
        report["init_ms"] = round((time.perf_counter() - started) * 1e3, 2)
        report["driver_version"] = driver.integer("cuDriverGetVersion")
        report["devices"] = [device_report(driver, i) for i in range(driver.integer("cuDeviceGetCount"))]
        if kernel:
            report["kernel"] = run_kernel(driver)
    except OSError as error:
        report["error"] = str(error)
    except DriverFailure as error:
        report["error"] = str(error)
    return report


def ask(*arguments: str, environment: dict[str, str], timeout: float = 60) -> dict[str, Any]:
    """The report of a child process that runs under `environment`. A crash or time-out is an `error` in it."""
    command = [sys.executable, "-m", "cuttle.cli.probe", *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {timeout:.0f} s", "devices": [], "talk": ""}
    talk = done.stderr.decode(errors="replace").strip()
    try:
        report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        report = {"error": f"the probe ended with {how}", "devices": [], "crashed": True}
    report["talk"] = talk
    return report


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe("--kernel" in sys.argv)) + "\n")
    sys.stdout.flush()
