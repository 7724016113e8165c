"""What AMD's libraries on this machine say, each asked in a process of its own: `python -m cuttle.device.hip.report hip PATH`.

A process of its own because a driver's library may crash, print, or wait, and because only one HIP may be in a process: every file that
was found gets its turn, and the first that sees a GPU is the one to use.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from cuttle.abi import hip as rows
from cuttle.abi.amd_libraries import COMGR, HIP
from cuttle.device.hip.comgr import Comgr
from cuttle.device.hip.find_library import Candidate, Place, candidates, hip_candidates
from cuttle.device.hip.kernel_driver import access, kfd_gpus, pci_display_devices
from cuttle.device.hip.list_devices import list_devices, target_verdict
from cuttle.device.hip.math_libraries import look_at_all
from cuttle.device.hip.refusals import LIBRARY_MISSING, NoAmdDevice
from cuttle.device.hip.runtime_library import open_hip
from cuttle.errors import CuttleError, DeviceError

TIMEOUT_S = 60


def problem_of(error: CuttleError) -> dict[str, str]:
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "reason": error.reason if isinstance(error, NoAmdDevice) else "",
    }


def hip_report(path: str) -> dict[str, Any]:
    """Loads a HIP library into this process and lists its devices. Errors are in `problem`."""
    report: dict[str, Any] = {"version": "", "evidence": "", "devices": [], "problem": None}
    try:
        library = open_hip(path)
        report["version"] = library.version_text
        report["evidence"] = rows.PROPERTIES[library.major].evidence
        report["devices"] = list_devices(library)
    except DeviceError as error:
        report["problem"] = problem_of(error)
    return report


def comgr_report(path: str) -> dict[str, Any]:
    """Loads a comgr into this process; its version, interface and the targets it knows."""
    report: dict[str, Any] = {"version": "", "interface": 0, "targets": [], "problem": None}
    try:
        library = Comgr(path)
        report["version"] = ".".join(map(str, library.version))
        report["interface"] = library.interface
        report["targets"] = [name.rpartition("--")[2] for name in library.isa_names()]
    except DeviceError as error:
        report["problem"] = problem_of(error)
    return report


REPORTS = {"hip": hip_report, "comgr": comgr_report}


def ask(kind: str, candidate: Candidate) -> dict[str, Any]:
    """A report from a process of its own, with the candidate's path and origin. However that process ends, there is a report."""
    command = [sys.executable, "-m", "cuttle.device.hip.report", kind, candidate.path]
    about = {"path": candidate.path, "origin": candidate.origin}
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return {**about, **failed(f"{candidate.path} did not answer within {TIMEOUT_S} seconds")}
    try:
        if done.returncode:
            raise ValueError
        report: dict[str, Any] = json.loads(done.stdout)
        return {**about, **report}
    except ValueError:
        end = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        return {**about, **failed(f"{candidate.path} ended the process that loaded it ({end})")}


def failed(message: str) -> dict[str, Any]:
    problem = problem_of(DeviceError("DEV-0203", message))
    return {"version": "", "evidence": "", "interface": 0, "devices": [], "targets": [], "problem": problem}


def choose_hip(place: Place | None = None) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """(report of the HIP to use, all reports made): the first with a GPU that Cuttle supports, else the first with any GPU."""
    tried: list[dict[str, Any]] = []
    for candidate in hip_candidates(place or Place.here()):
        tried.append(ask("hip", candidate) if known_major(candidate) else other_major(candidate))
        if any(device["supported"] for device in tried[-1]["devices"]):
            return tried[-1], tried
    return next((report for report in tried if report["devices"]), None), tried


def known_major(candidate: Candidate) -> bool:
    """Whether a file may be loaded at all, by its name."""
    return candidate.major is None or candidate.major in rows.MAJORS


def other_major(candidate: Candidate) -> dict[str, Any]:
    message = f"{candidate.path} is HIP {candidate.major} by its name; Cuttle knows HIP 5, 6 and 7"
    return {"path": candidate.path, "origin": candidate.origin, **failed(message)}


def kernel_report() -> dict[str, Any]:
    """What the Linux kernel says, and for each GPU whether Cuttle makes code for it."""
    gpus, problems = kfd_gpus()
    listed = []
    for gpu in gpus:
        verdict = target_verdict(gpu.target)
        listed.append({**asdict(gpu), "error": problem_of(verdict) if verdict else None})
    files = device_files([gpu.render_minor for gpu in gpus])
    return {
        "gpus": listed,
        "problems": problems,
        "pci": pci_display_devices(),
        "files": [asdict(access(path)) for path in files],
    }


NO_KERNEL_REPORT: dict[str, Any] = {"gpus": [], "problems": [], "pci": [], "files": []}


def amd_report(place: Place | None = None) -> dict[str, Any]:
    """Everything about AMD GPUs on this machine, for `cuttle doctor` and `cuttle info`.

    `hip.tried` has a report for each HIP file up to the first with a GPU that Cuttle supports. `hip.chosen` is that one, else the first with
    any GPU. Without one, `hip.problem` is that of the best file: one that was loaded and saw nothing says more than one that was not.
    """
    place = place or Place.here()
    kernel = NO_KERNEL_REPORT if place.windows else kernel_report()
    chosen, tried = choose_hip(place)
    comgr = next(iter(candidates(COMGR, place)), None)
    major = int(chosen["version"].partition(".")[0]) if chosen else None
    targets = tuple(sorted({str(gpu["target"]) for gpu in chosen["devices"] if gpu["supported"]})) if chosen else ()
    return {
        "kernel_driver": kernel,
        "hip": {"chosen": chosen, "tried": tried, "problem": None if chosen else best_problem(tried, place.windows)},
        "comgr": ask("comgr", comgr) if comgr else None,
        "libraries": [
            {"name": found.library.name, "purpose": found.library.purpose, "state": found.state, "path": found.path,
             "version": found.version, "hip_major": found.hip_major, "problem": found.problem}
            for found in look_at_all(place, major, targets)
        ],
    }  # fmt: skip


def device_files(render_minors: list[int]) -> list[str]:
    return ["/dev/kfd", *(f"/dev/dri/renderD{minor}" for minor in render_minors if minor)]


def no_hip(tried: list[dict[str, Any]]) -> DeviceError:
    """The error of a machine on which no HIP with a GPU was found."""
    problem = best_problem(tried, Place.here().windows)
    if problem["reason"]:
        return NoAmdDevice(problem["reason"], problem["message"])
    return DeviceError(problem["code"], problem["message"], hint=problem["hint"])


def best_problem(tried: list[dict[str, Any]], windows: bool) -> dict[str, str]:
    loaded = [report["problem"] for report in tried if report["version"]]
    every = loaded or [report["problem"] for report in tried]
    if every:
        problem: dict[str, str] = every[0]
        return problem
    names = ", ".join(HIP.windows if windows else [f"{HIP.linux}.so.{major}" for major in rows.MAJORS])
    return problem_of(NoAmdDevice(LIBRARY_MISSING, f"there is no HIP library on this machine ({names})"))


def main(arguments: list[str]) -> int:
    """Writes one report as JSON to stdout. Whatever a library prints goes to stderr."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    report = REPORTS[arguments[0]](arguments[1])
    with answer:
        json.dump(report, answer)
    answer.close()
    # Destructors of a driver's library have no work left that matters, and some crash.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
