"""What `cuttle doctor`, `info` and `run` say to owners of AMD GPUs, and to everybody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuttle.cli.checks import FAILURE, OK, WARNING, Context, Finding, amd
from cuttle.device.hip.refusals import NO_DEVICE_HINTS
from tests.device.hip.builds import fake_hip

NODE = {
    "node": 1,
    "target": "gfx1100",
    "vendor_id": 0x1002,
    "device_id": 0x744C,
    "location_id": 768,
    "render_minor": 128,
}
REFUSED = {"code": "DEV-0021", "message": "gfx906 has waves of 64 lanes", "hint": "Take the CPU device.", "reason": ""}


def kernel(*, refused: bool = False, **changes: Any) -> dict[str, Any]:
    gpu = {**NODE, "error": REFUSED if refused else None}
    files = [{"path": "/dev/kfd", "exists": True, "usable": True, "group": "render"}]
    return {"gpus": [gpu], "problems": [], "pci": ["1002:744c at 0000:03:00.0"], "files": files, **changes}


def finding(check: str, **parts: Any) -> Finding:
    """A check's finding about a report that is given."""
    context = Context()
    nothing = {"gpus": [], "problems": [], "pci": [], "files": []}
    missing = {
        "code": "DEV-0202",
        "message": "there is no HIP library",
        "hint": "Install it.",
        "reason": "library missing",
    }
    report = {
        "kernel_driver": nothing,
        "hip": {"chosen": None, "tried": [], "problem": missing},
        "comgr": None,
        "libraries": [],
    }
    context.__dict__["amd"] = {**report, **parts}
    found: Finding = getattr(amd, f"check_{check}")(context)
    return found


def test_without_an_amd_gpu_nothing_is_wrong() -> None:
    for check in ("amd_driver", "hip", "comgr", "amd_libraries"):
        assert finding(check).mark == OK


@pytest.mark.parametrize(
    "report,mark,text,hint",
    [
        (kernel(), OK, "gfx1100, served by the kernel driver", ""),
        (kernel(gpus=[]), WARNING, "does not list it", "modprobe amdgpu"),
        (kernel(gpus=[], pci=[], problems=["nodes/1/properties: broken"]), WARNING, "broken", "container"),
        (kernel(problems=["nodes/2/properties: broken"]), WARNING, "broken", "container"),
        (kernel(refused=True), WARNING, "waves of 64 lanes", "CPU device"),
        (
            kernel(files=[{"path": "/dev/kfd", "exists": True, "usable": False, "group": "render"}]),
            FAILURE, "you may not open /dev/kfd (group render)", "usermod -aG render",
        ),
        (
            kernel(files=[{"path": "/dev/dri/renderD128", "exists": False, "usable": False, "group": ""}]),
            FAILURE, "/dev/dri/renderD128 is missing", "--device /dev/dri/renderD128",
        ),
    ],
)  # fmt: skip
def test_kernel_driver(report: dict[str, Any], mark: str, text: str, hint: str) -> None:
    found = finding("amd_driver", kernel_driver=report)
    assert found.mark == mark and text in found.text and hint in found.hint


def test_a_gpu_without_hip_is_a_failure() -> None:
    found = finding("hip", kernel_driver=kernel())
    assert (found.mark, found.text, found.hint) == (FAILURE, "there is no HIP library", "Install it.")


def test_libraries_of_another_rocm() -> None:
    row = {"name": "rocBLAS", "purpose": "cuBLAS", "state": "unusable", "path": "/lib/x", "version": "4.4", "hip_major": 6,
           "problem": "it is linked to HIP 6, but HIP 7 is in use"}  # fmt: skip
    found = finding("amd_libraries", libraries=[row])
    assert found.mark == WARNING and "linked to HIP 6" in found.text
    assert found.details[0].split()[:3] == ["library", "state", "version"]
    good = finding("amd_libraries", libraries=[{**row, "state": "found", "problem": ""}])
    assert (good.mark, good.text) == (OK, "rocBLAS 4.4")


@pytest.fixture(scope="module")
def hip_7(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(fake_hip(tmp_path_factory.mktemp("hip"), 7))


def doctor_hip(cuttle: Any, **environment: str) -> dict[str, Any]:
    done = cuttle("doctor", "hip", "--json", env=environment)
    check: dict[str, Any] = json.loads(done.stdout)["data"]["checks"][0]
    return check


def test_doctor_shows_the_gpus_of_a_library(cuttle: Any, hip_7: str) -> None:
    check = doctor_hip(cuttle, CUTTLE_HIP_LIBRARY=hip_7, FAKE_HIP_DEVICES="gfx1201,gfx906")
    assert check["mark"] == OK and check["text"].startswith("HIP 7.2.345: Fake Radeon ?[2J0, Fake Radeon")
    assert "not verified" in " ".join(check["details"])
    assert any("gfx906 (Radeon VII, MI50, MI60) has waves of 64 lanes" in line for line in check["details"])
    only_wave64 = doctor_hip(cuttle, CUTTLE_HIP_LIBRARY=hip_7, FAKE_HIP_DEVICES="gfx906")
    assert only_wave64["mark"] == WARNING and "64 lanes" in only_wave64["text"]


def test_doctor_on_a_library_that_finds_nothing_or_breaks(cuttle: Any, hip_7: str) -> None:
    nothing = doctor_hip(cuttle, CUTTLE_HIP_LIBRARY=hip_7, FAKE_HIP_INIT="101")
    assert "hipErrorInvalidDevice (101)" in nothing["text"] and nothing["hint"] == NO_DEVICE_HINTS["no driver"]
    broken = doctor_hip(cuttle, CUTTLE_HIP_LIBRARY=hip_7, FAKE_HIP_BEHAVIOUR="crash")
    assert broken["mark"] in (WARNING, FAILURE) and "signal 6" in broken["text"]


def test_the_first_library_with_a_usable_gpu_is_taken(cuttle: Any, tmp_path: Path) -> None:
    """The newest HIP may not serve an older card any more, then an older HIP does."""
    for major in (6, 7):
        fake_hip(tmp_path / str(major), major)
    # Both get the same variables, so the newer one is made to break by a file of its own.
    (tmp_path / "7" / "libamdhip64.so.7").write_bytes(b"broken")
    path = f"{tmp_path / '7'}:{tmp_path / '6'}"
    check = doctor_hip(cuttle, LD_LIBRARY_PATH=path, FAKE_HIP_DEVICES="gfx1030")
    assert check["text"].startswith("HIP 6.2.345")
    assert any("cannot be loaded" in line for line in check["details"])


def test_a_library_of_another_major_by_name_is_not_loaded(cuttle: Any, tmp_path: Path) -> None:
    built = fake_hip(tmp_path, 7)
    renamed = built.rename(tmp_path / "libamdhip64.so.8")
    check = doctor_hip(cuttle, CUTTLE_HIP_LIBRARY=str(renamed), FAKE_HIP_DEVICES="gfx1100")
    assert check["mark"] in (WARNING, FAILURE) and "is HIP 8 by its name" in check["text"]


@pytest.mark.device
def test_info_lists_amd_gpus_apart(cuttle: Any, hip_7: str) -> None:
    environment = {"CUTTLE_HIP_LIBRARY": hip_7, "FAKE_HIP_DEVICES": "gfx1201,gfx906"}
    data = json.loads(cuttle("info", "--json", env=environment).stdout)["data"]
    assert [(gpu["target"], gpu["supported"], gpu["hip_version"]) for gpu in data["amd_gpus"]] == [
        ("gfx1201", True, "7.2.345"),
        ("gfx906", False, "7.2.345"),
    ]
    text = cuttle("info", env=environment).stdout
    assert "AMD GPUs (CUTTLE_DEVICE=hip; not verified on hardware" in text and "24.0 GiB" in text


@pytest.mark.device
def test_no_library_and_no_such_gpu(cuttle: Any, hip_7: str) -> None:
    """One clear error each, from the device process."""
    code = 'import ctypes; print(ctypes.CDLL("libcuda.so.1").cuInit(0))'
    missing = cuttle(
        "run", "--device", "hip", "--", "python3", "-c", code, env={"CUTTLE_HIP_LIBRARY": "/nowhere/libamdhip64.so.7"}
    )
    assert missing.stdout == "100\n"
    assert "error[DEV-0202]: there is no file /nowhere" in missing.stderr and "hint: " in missing.stderr
    environment = {"CUTTLE_HIP_LIBRARY": hip_7, "FAKE_HIP_DEVICES": "gfx906"}
    other = cuttle("run", "--device", "hip:1", "--", "python3", "-c", code, env=environment)
    assert other.stdout == "100\n" and "error[DEV-0202]: there is no GPU 1: HIP 7.2.345 sees 1" in other.stderr
    refused = cuttle("run", "--device", "hip", "--", "python3", "-c", code, env=environment)
    assert refused.stdout == "100\n" and "error[DEV-0021]" in refused.stderr and "64 lanes" in refused.stderr


def test_names_of_devices(cuttle: Any) -> None:
    for name in ("hip:", "hip:x", "hip:N2", "hipp", "rdna:0"):
        done = cuttle("run", "--device", name, "--", "true")
        assert done.returncode == 125 and done.stderr.startswith(f"error[CLI-0104]: there is no device {name}")


@pytest.mark.device
def test_the_device_process_refuses_bad_names(cuttle: Any) -> None:
    code = 'import ctypes; print(ctypes.CDLL("libcuda.so.1").cuInit(0))'
    for name in ("hip:N", "hip:", "rdna:1", "cpu:0"):
        done = cuttle("run", "--", "python3", "-c", code, env={"CUTTLE_DEVICE": name})
        assert done.stdout == "1\n" and f"CUTTLE_DEVICE={name}" in done.stderr


def test_doctor_checks_choices(cuttle: Any) -> None:
    done = cuttle("doctor", "variables", env={"CUTTLE_DEVICE": "hpi"})
    assert done.returncode == 1 and "CUTTLE_DEVICE=hpi" in done.stdout
