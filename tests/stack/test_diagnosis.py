"""`doctor` on machines that lack something."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from cuttle.stack import diagnosis
from cuttle.stack.diagnosis import CHECKS, Situation, diagnose
from cuttle.stack.engine import EngineInPlace
from cuttle.stack.install import install_asset
from cuttle.stack.journal import Root
from cuttle.stack.machine import HipRuntime, Machine, MathLibrary
from cuttle.stack.manifest import load
from cuttle.stack.runtime_config import ConfigGpu, RuntimeConfig
from tests.stack.release_server import PATIENCE, ReleaseServer
from tests.stack.test_scan import scanned


def situation(machine: Machine, folder: Path, engine: str = "zluda", **changes: object) -> Situation:
    place = EngineInPlace(engine, "v6", machine.platform, folder / "engine")
    made = Situation(machine, load("stable"), Root(folder / "root"), engine, place, "", None, {})
    return replace(made, **changes)  # type: ignore[arg-type]


def verdict(of: Situation, name: str) -> tuple[str, str]:
    found = diagnose(of, name)
    assert found.mark == "ok" or found.hint or name in ("scan", "rocblas"), f"{name} gives no hint"
    return found.mark, found.text


def with_hip(machine: Machine, *majors: int) -> Machine:
    return msgspec.structs.replace(machine, hip=[HipRuntime(major, f"{major}.1", "HIP SDK") for major in majors])


def test_every_check_says_what_it_is_about(tmp_path: Path) -> None:
    for name, check in CHECKS.items():
        assert (check.__doc__ or "").strip().splitlines()[0].endswith((".", "?")), name
        assert name == check.__name__.removeprefix("check_") or check.__name__ == "check", name


@pytest.mark.parametrize("engine,mark", [("zluda", "failure"), ("cuttle", "ok")])
def test_no_gpu(tmp_path: Path, engine: str, mark: str) -> None:
    of = situation(scanned("linux-none", tmp_path / "m"), tmp_path, engine)
    assert verdict(of, "gpu")[0] == mark
    assert verdict(of, "kernel_driver")[0] == mark
    assert verdict(of, "hip")[0] == mark


def test_waves_of_64(tmp_path: Path) -> None:
    machine = scanned("windows-rx570", tmp_path / "m")
    assert verdict(situation(machine, tmp_path), "gpu")[0] == "failure"
    assert verdict(situation(machine, tmp_path, "cuttle"), "gpu")[0] == "warning"


def test_an_integrated_gpu_comes_first(tmp_path: Path) -> None:
    machine = scanned("windows-780m-first-6800", tmp_path / "m")
    of = situation(machine, tmp_path)
    mark, text = verdict(of, "gpu_order")
    assert mark == "warning"
    assert "780M" in text and "RX 6800" in text
    assert "HIP_VISIBLE_DEVICES=1" in diagnose(of, "gpu_order").hint
    chosen = RuntimeConfig(gpu=ConfigGpu(hip_visible_device="1"))
    assert verdict(situation(machine, tmp_path, config=chosen), "gpu_order")[0] == "ok"
    assert verdict(situation(machine, tmp_path, environment={"HIP_VISIBLE_DEVICES": "1"}), "gpu_order")[0] == "ok"
    assert verdict(situation(scanned("windows-7900xtx", tmp_path / "n"), tmp_path), "gpu_order")[0] == "ok"


def test_hip_versions(tmp_path: Path) -> None:
    machine = scanned("windows-7900xtx", tmp_path / "m")
    assert verdict(situation(machine, tmp_path), "hip")[0] == "failure"
    assert verdict(situation(with_hip(machine, 5), tmp_path), "hip") == (
        "failure",
        "HIP 5.1 (HIP SDK) is first; version 6 is needed",
    )
    assert verdict(situation(with_hip(machine, 6), tmp_path), "hip")[0] == "ok"
    assert verdict(situation(with_hip(machine, 7), tmp_path), "hip")[0] == "failure"
    latest = situation(with_hip(machine, 7), tmp_path, manifest=load("latest"))
    assert verdict(latest, "hip")[0] == "ok"
    assert verdict(situation(with_hip(machine, 6, 7), tmp_path), "hip_versions")[0] == "warning"
    assert verdict(situation(with_hip(machine, 6, 6), tmp_path), "hip_versions")[0] == "ok"


def test_math_libraries(tmp_path: Path) -> None:
    machine = scanned("linux-9070xt", tmp_path / "m")
    lacking = MathLibrary("rocBLAS", "unusable", "4.4", "it has no kernels for gfx1201")
    of = situation(msgspec.structs.replace(machine, math_libraries=[lacking]), tmp_path)
    assert verdict(of, "rocblas") == ("warning", "rocBLAS: it has no kernels for gfx1201")
    assert "cuBLAS" in diagnose(of, "rocblas").hint
    found = MathLibrary("MIOpen", "found", "3.4", "")
    assert verdict(situation(msgspec.structs.replace(machine, math_libraries=[found]), tmp_path), "miopen")[0] == "ok"
    assert verdict(situation(machine, tmp_path, "cuttle"), "hipfft")[0] == "ok"


def test_kfd_without_permission(tmp_path: Path) -> None:
    machine = msgspec.structs.replace(scanned("linux-9070xt", tmp_path / "m"), kfd="no permission")
    of = situation(machine, tmp_path)
    assert verdict(of, "kernel_driver") == ("failure", "/dev/kfd: no permission")
    assert "render" in diagnose(of, "kernel_driver").hint


def test_an_antivirus_tool(server: ReleaseServer, tmp_path: Path) -> None:
    root = Root(tmp_path / "root")
    with root.locked():
        install_asset(root, server.asset(), patience=PATIENCE)
    of = situation(scanned("windows-7900xtx", tmp_path / "m"), tmp_path)
    assert verdict(of, "installed_files")[0] == "ok"
    (root.path / "zluda-v6-preview.69/zluda/nvcuda.dll").unlink()
    mark, text = verdict(of, "installed_files")
    assert (mark, text) == ("failure", "1 installed files are missing (nvcuda.dll)")
    assert "antivirus" in diagnose(of, "installed_files").hint


def test_configurations_that_do_not_fit(tmp_path: Path) -> None:
    machine = scanned("linux-9070xt", tmp_path / "m")
    gone = RuntimeConfig(zluda_root=str(tmp_path / "gone"))
    assert verdict(situation(machine, tmp_path, config=gone), "configuration")[0] == "failure"
    other = RuntimeConfig(gpu=ConfigGpu(arch="gfx1100"))
    assert verdict(situation(machine, tmp_path, config=other), "configuration")[0] == "warning"
    fits = RuntimeConfig(gpu=ConfigGpu(arch="gfx1201"), hip_root=str(tmp_path))
    assert verdict(situation(machine, tmp_path, config=fits), "configuration")[0] == "ok"


def test_another_library_in_front(tmp_path: Path) -> None:
    machine = scanned("linux-9070xt", tmp_path / "m")
    other, engine = tmp_path / "other", tmp_path / "engine"
    for folder in (other, engine):
        folder.mkdir()
        (folder / "libcublas.so.12").touch()
    of = situation(machine, tmp_path, environment={"LD_LIBRARY_PATH": f"/nothing:{other}:{engine}"})
    mark, text = verdict(of, "search_path")
    assert (mark, text) == ("warning", "libcublas.so.12 lies in entry 2 of LD_LIBRARY_PATH")
    assert str(other) not in text, "no folders of users"
    good = situation(machine, tmp_path, environment={"LD_LIBRARY_PATH": f"{engine}:{other}"})
    assert verdict(good, "search_path")[0] == "ok"


def test_a_system_with_an_nvcuda(tmp_path: Path) -> None:
    (tmp_path / "System32").mkdir()
    (tmp_path / "System32/nvcuda.dll").touch()
    of = situation(scanned("windows-7900xtx", tmp_path / "m"), tmp_path, environment={"SystemRoot": str(tmp_path)})
    assert verdict(of, "nvidia_driver")[0] == "warning"


def test_no_engine(tmp_path: Path) -> None:
    of = situation(scanned("windows-7900xtx", tmp_path / "m"), tmp_path, engine="zluda")
    assert verdict(replace(of, engine=None, engine_problem="it is not installed"), "engine") == (
        "failure",
        "it is not installed",
    )


def test_what_could_not_be_read(tmp_path: Path) -> None:
    of = situation(scanned("windows-6800xt-two-sdks", tmp_path / "m"), tmp_path)
    assert verdict(of, "scan") == ("warning", "hipInfo of HIP SDK 7.1 sees no GPU")


def test_a_check_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(of: Situation) -> diagnosis.Verdict:
        raise ZeroDivisionError("oops")

    monkeypatch.setitem(CHECKS, "gpu", broken)
    found = diagnose(situation(scanned("linux-none", tmp_path / "m"), tmp_path), "gpu")
    assert (found.mark, "ZeroDivisionError" in found.text) == ("crash", True)


def test_the_command(cuttle, tmp_path: Path) -> None:
    done = cuttle("stack", "doctor", "--engine", "cuttle", "--root", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing found: cuttle is ready" in done.stdout
    done = cuttle("stack", "doctor", "--engine", "zluda", "--root", str(tmp_path), "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert {error["code"] for error in document["errors"]} == {"STK-0802"}
    assert [found["check"] for found in document["data"]["checks"]] == list(CHECKS)
    one = json.loads(cuttle("stack", "doctor", "gpu-order", "--root", str(tmp_path), "--json").stdout)
    assert [found["check"] for found in one["data"]["checks"]] == ["gpu_order"]
    assert cuttle("stack", "doctor", "no-such-check", "--root", str(tmp_path)).returncode == 2
    assert "gpu_order" in cuttle("stack", "doctor", "--list-checks").stdout
