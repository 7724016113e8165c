"""Checks that start a device: the device process, the compile worker, a kernel."""

from __future__ import annotations

import subprocess
import sys

from cuttle.cli import environment
from cuttle.cli.checks import FAILURE, OK, WARNING, Context, Finding
from cuttle.cli.render import size_text
from cuttle.errors import said_error

OLDEST_LLVM = 20


def check_compiler(context: Context) -> Finding:
    """llvmlite in a process of its own: some LLVM failures end the process."""
    code = (
        "import llvmlite, llvmlite.binding as llvm; llvm.initialize_native_target();"
        "print(llvmlite.__version__, '.'.join(map(str, llvm.llvm_version_info)), llvm.get_host_cpu_name())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return Finding(
            FAILURE, f"LLVM does not start: {reason}", "Reinstall llvmlite: pip install --force-reinstall llvmlite"
        )
    package, version, processor = done.stdout.split()
    if int(version.split(".")[0]) < OLDEST_LLVM:
        return Finding(WARNING, f"LLVM {version} is older than tested", "pip install --upgrade llvmlite")
    return Finding(OK, f"LLVM {version} (llvmlite {package}) for {processor}")


def check_device_process(context: Context) -> Finding:
    """Does a device start, and what does it say it is?"""
    problem = environment.platform_problem()
    if problem:
        return Finding(FAILURE, problem)
    report = context.report
    talk = tuple(report.get("talk", "").splitlines())
    if not report.get("devices"):
        said = said_error(report.get("talk", ""))
        if said is not None:
            return Finding(FAILURE, f"{said.message} ({said.code})", said.hint, talk)
        return Finding(FAILURE, f"cuInit fails: {report['error']}", "Its messages are below with -v.", talk)
    device = report["devices"][0]
    version = report["driver_version"]
    text = f"{device['name']}, {size_text(device['memory_bytes'])}, compute capability {device['compute_capability']}"
    details = (f"ready in {report['init_ms']} ms, reports CUDA {version // 1000}.{version % 1000 // 10}", *talk)
    return Finding(OK, text, details=details)


def check_loaded_library(context: Context) -> Finding:
    """Which file a process under `cuttle run` really loads as libcuda.so.1."""
    loaded = context.report.get("library", "")
    if not loaded:
        return Finding(
            FAILURE, f"libcuda.so.1 does not load: {context.report['error']}", "`cuttle doctor client_library`"
        )
    if loaded != environment.CLIENT_LIBRARY:
        return Finding(FAILURE, f"libcuda.so.1 is {loaded}, not Cuttle's", "Is LD_PRELOAD or LD_LIBRARY_PATH set?")
    return Finding(OK, f"libcuda.so.1 → {loaded}")


def check_kernel(context: Context) -> Finding:
    """Compile a small kernel, run it in the executor, look at its answer."""
    kernel = context.report.get("kernel")
    talk = tuple(context.report.get("talk", "").splitlines())
    if kernel is None and not context.report.get("devices"):
        return Finding(FAILURE, "no kernel was run: there is no device", "`cuttle doctor -v device_process`")
    if kernel is None:
        return Finding(
            FAILURE, f"no kernel could be run: {context.report['error']}", "Its messages are below with -v.", talk
        )
    if not kernel["right"]:
        return Finding(
            FAILURE, "a kernel ran, but its answer is wrong", "Please report this with `cuttle doctor -v --json`."
        )
    return Finding(
        OK,
        f"a kernel compiles, runs and answers right ({kernel['first_launch_ms']:.0f} ms, then {kernel['launch_ms']} ms)",
        details=talk,
    )
