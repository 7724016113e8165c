"""The formats of the PowerShell scripts: written so that they can read them, read as they write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cuttle.errors import StackError
from cuttle.stack.journal import Root
from cuttle.stack.machine import Machine
from cuttle.stack.manifest import load
from cuttle.stack.plan import make_plan
from cuttle.stack.runtime_config import gpu_report, read_config, read_report, write_config, write_report
from cuttle.stack.setup import install_all, make_config
from tests.stack.release_server import PATIENCE, ReleaseServer
from tests.stack.test_scan import scanned

# The fields in the order in which setup.ps1 and gpu-scan.ps1 write them.
CONFIG_FIELDS = [
    "schema", "profile", "gpu", "zluda_root", "hip_root", "hip_sdk_target", "libtorch_root", "custom_overlay_root", "zluda_cc",
    "torch_allow_tf32_cublas_override", "upstream", "validation",
]  # fmt: skip
CONFIG_GPU_FIELDS = [
    "name",
    "arch",
    "index",
    "hip_visible_device",
    "project_status",
    "tested_reference",
    "scanner_report",
]
REPORT_FIELDS = [
    "schema", "generated_utc", "windows", "hip_root", "hip_version", "hip_info", "selected_gpu_index", "selected_gpu", "devices", "notes",
]  # fmt: skip
DEVICE_FIELDS = [
    "index", "name", "gfx", "generation", "memory", "driver_version", "detection", "current_windows_hip_sdk", "project_tested", "project_status",
]  # fmt: skip


def written_by_the_scripts() -> dict[str, Any]:
    """A runtime-config.json with the values that setup.ps1 gives it."""
    return {
        "schema": 2,
        "profile": "auto-gfx1201-zluda-v6-preview69-libtorch230-cu118",
        "gpu": {
            "name": "AMD Radeon RX 9070 XT", "arch": "gfx1201", "index": 1, "hip_visible_device": "1", "project_status": "unverified-candidate",
            "tested_reference": False, "scanner_report": "D:\\cuda\\.runtime\\gpu-report.json",
        },
        "zluda_root": "D:\\cuda\\.runtime\\zluda-core",
        "hip_root": "C:\\Program Files\\AMD\\ROCm\\6.4",
        "hip_sdk_target": "7.14.0a20260612",
        "libtorch_root": None,
        "custom_overlay_root": None,
        "zluda_cc": "8.6",
        "torch_allow_tf32_cublas_override": "1",
        "upstream": {"zluda_release": "v6-preview.69", "zluda_windows_asset": "zluda-windows-87531d3.zip", "libtorch": "2.3.0+cu118"},
        "validation": {"reference_gpu": "AMD Radeon AI PRO R9700"},
    }  # fmt: skip


def test_a_config_of_the_scripts(tmp_path: Path) -> None:
    path = tmp_path / "runtime-config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(written_by_the_scripts()).encode())
    config = read_config(path)
    assert config.zluda_root == "D:\\cuda\\.runtime\\zluda-core"
    assert (config.gpu.hip_visible_device, config.zluda_cc) == ("1", "8.6")


def test_what_others_added_stays(tmp_path: Path) -> None:
    path = tmp_path / "runtime-config.json"
    path.write_text(json.dumps({**written_by_the_scripts(), "later_field": {"a": 1}}))
    write_config(path, read_config(path))
    assert json.loads(path.read_text()) == {**written_by_the_scripts(), "later_field": {"a": 1}}


def test_a_config_of_ours(tmp_path: Path, server: ReleaseServer) -> None:
    machine = scanned("linux-9070xt", tmp_path / "machine")
    root = Root(tmp_path / "stack")
    manifest = load("stable")
    assets = [asset for asset in manifest.assets if asset.platform != "linux"]
    import msgspec

    manifest = msgspec.structs.replace(manifest, assets=[*assets, server.asset(platform="linux")])
    with pytest.raises(StackError) as caught:
        install_all(root, manifest, "zluda", machine, patience=PATIENCE)
    assert caught.value.code == "STK-0407", "no HIP on this machine"
    assert server.requests == []
    result = install_all(root, manifest, "zluda", machine, force=True, patience=PATIENCE)
    assert (result.changed, result.components) == (["zluda"], {"zluda": "v6-preview.69"})
    document = json.loads((root.path / "runtime-config.json").read_text())
    assert list(document) == CONFIG_FIELDS
    assert list(document["gpu"]) == CONFIG_GPU_FIELDS
    assert Path(document["zluda_root"], "libcuda.so.1").exists()
    assert document["gpu"]["hip_visible_device"] == "0"
    assert document["gpu"]["project_status"] == "unverified-candidate"
    assert read_report(root.path / "gpu-report.json").devices[0].gfx == "gfx1201"
    assert root.installed().engine == "zluda"
    assert install_all(root, manifest, "zluda", machine, force=True, patience=PATIENCE).changed == []


@pytest.mark.parametrize("name", ["windows-780m-first-6800", "windows-7900xtx", "linux-none"])
def test_a_gpu_report(tmp_path: Path, name: str) -> None:
    machine: Machine = scanned(name, tmp_path / "machine")
    report = gpu_report(machine, "zluda", "C:\\Program Files\\AMD\\ROCm\\6.4", ("gfx1100", "gfx1030"))
    write_report(tmp_path / "gpu-report.json", report)
    document = json.loads((tmp_path / "gpu-report.json").read_text())
    assert list(document) == REPORT_FIELDS
    for device in document["devices"]:
        assert list(device) == DEVICE_FIELDS
        assert device["project_tested"] is False
    if name == "windows-780m-first-6800":
        assert document["selected_gpu_index"] == 1
        assert document["selected_gpu"]["name"] == "AMD Radeon RX 6800"
        assert document["hip_info"] == "C:\\Program Files\\AMD\\ROCm\\6.4\\bin\\hipInfo.exe"
    assert read_report(tmp_path / "gpu-report.json") == report


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"schema": 7}', b'{"schema": 2, "gpu": 3}', b'{"schema": 2, "zluda_root": 5}', b"\xff\xfe"],
)
def test_unreadable_configs(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "runtime-config.json"
    path.write_bytes(content)
    with pytest.raises(StackError) as caught:
        read_config(path)
    assert caught.value.code == "STK-0703"


def requirement_names(machine: Machine) -> dict[str, bool]:
    plan = make_plan(load("stable"), "zluda", machine, Root(Path("/nonexistent")).installed(), False)
    return {need.name: need.met for need in plan.requirements if need.required}


def test_requirements(tmp_path: Path) -> None:
    assert requirement_names(scanned("windows-7900xtx", tmp_path)) == {"AMD GPU": True, "HIP": False}
    assert requirement_names(scanned("windows-rx570", tmp_path)) == {"AMD GPU": False, "HIP": False}
    assert requirement_names(scanned("linux-none", tmp_path)) == {
        "AMD GPU": False,
        "kernel driver": False,
        "HIP": False,
    }


def test_the_wrong_major(tmp_path: Path) -> None:
    import msgspec

    from cuttle.stack.machine import HipRuntime

    machine = scanned("windows-7900xtx", tmp_path)
    for channel, major, met in (
        ("stable", 5, False),
        ("stable", 6, True),
        ("stable", 7, False),
        ("latest", 7, True),
        ("latest", 6, True),
    ):
        with_hip = msgspec.structs.replace(machine, hip=[HipRuntime(major, f"{major}.1", "HIP SDK")])
        plan = make_plan(load(channel), "zluda", with_hip, Root(Path("/nonexistent")).installed(), False)
        (need,) = [need for need in plan.requirements if need.name == "HIP"]
        assert need.met == met, (channel, major)
        assert met or "is needed" in need.text


def test_libtorch_is_only_planned_when_asked_for(tmp_path: Path) -> None:
    machine = scanned("windows-7900xtx", tmp_path)
    installed = Root(Path("/nonexistent")).installed()
    small, large = (make_plan(load("stable"), "zluda", machine, installed, libtorch) for libtorch in (False, True))
    assert [asset.name for asset in small.assets] == ["zluda"]
    assert large.download_bytes == 32944552 + 2660890386
    assert make_plan(load("stable"), "cuttle", machine, installed, False).assets == []
    assert make_config(Root(tmp_path), load("stable"), machine, installed, "cuttle", None).zluda_root is None
