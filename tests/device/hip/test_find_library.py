"""Where AMD's libraries are searched, in folders made for the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuttle.abi.amd_libraries import COMGR, HIP, MATH_LIBRARIES
from cuttle.device.hip.find_library import Place, candidates, hip_candidates


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def found(place: Place, root: Path) -> list[tuple[str, int | None, str]]:
    return [(str(Path(c.path).relative_to(root)), c.major, c.origin) for c in hip_candidates(place)]


def test_linux_order(tmp_path: Path) -> None:
    make(
        tmp_path,
        "mine/lib/libamdhip64.so.6",
        "opt/rocm-6.10.0/lib/libamdhip64.so.6",
        "opt/rocm-6.9.1/lib/libamdhip64.so.6",
        "opt/rocm-7.1.0/lib/libamdhip64.so.7",
        "usr/lib/x86_64-linux-gnu/libamdhip64.so.5",
        "usr/lib/x86_64-linux-gnu/libamdhip64.so.7",
        "usr/lib/x86_64-linux-gnu/libamdhip64.so",
        "usr/lib/x86_64-linux-gnu/libamdhip64.so.5.2.1",
        "usr/lib/x86_64-linux-gnu/libamdhip64.sober",
        "usr/lib/x86_64-linux-gnu/xlibamdhip64.so.9",
        "path/libamdhip64.so.5",
    )
    environment = {"HIP_PATH": str(tmp_path / "mine"), "LD_LIBRARY_PATH": f":{tmp_path / 'path'}:"}
    assert found(Place(False, environment, tmp_path), tmp_path) == [
        ("mine/lib/libamdhip64.so.6", 6, "HIP_PATH"),
        ("path/libamdhip64.so.5", 5, "LD_LIBRARY_PATH"),
        ("opt/rocm-7.1.0/lib/libamdhip64.so.7", 7, "ROCm's folder"),
        ("opt/rocm-6.10.0/lib/libamdhip64.so.6", 6, "ROCm's folder"),
        ("opt/rocm-6.9.1/lib/libamdhip64.so.6", 6, "ROCm's folder"),
        ("usr/lib/x86_64-linux-gnu/libamdhip64.so.7", 7, "system folder"),
        ("usr/lib/x86_64-linux-gnu/libamdhip64.so.5", 5, "system folder"),
        ("usr/lib/x86_64-linux-gnu/libamdhip64.so", None, "system folder"),
    ]


def test_links_to_one_file_count_once(tmp_path: Path) -> None:
    make(tmp_path, "opt/rocm-7.1.0/lib/libamdhip64.so.7.1")
    folder = tmp_path / "opt/rocm-7.1.0/lib"
    (folder / "libamdhip64.so.7").symlink_to("libamdhip64.so.7.1")
    (folder / "libamdhip64.so").symlink_to("libamdhip64.so.7")
    (folder / "libamdhip64.so.6").symlink_to("gone")
    (tmp_path / "opt/rocm").symlink_to("rocm-7.1.0")
    assert found(Place(False, {}, tmp_path), tmp_path) == [("opt/rocm/lib/libamdhip64.so.7", 7, "ROCm's folder")]


def test_windows_order(tmp_path: Path) -> None:
    make(
        tmp_path,
        "Windows/System32/amdhip64.dll",
        "Windows/System32/amdhip64_6.dll",
        "Windows/System32/AMDHIP64_7.dll",
        "sdk/bin/amdhip64_6.dll",
        "old/bin/amdhip64.dll",
        "Program Files/AMD/ROCm/6.4/bin/amdhip64_6.dll",
        "Program Files/AMD/ROCm/7.1/bin/amdhip64_7.dll",
    )
    environment = {
        "SystemRoot": str(tmp_path / "Windows"),
        "ProgramFiles": str(tmp_path / "Program Files"),
        "HIP_PATH": str(tmp_path / "sdk"),
        "HIP_PATH_57": str(tmp_path / "old"),
        "Path": "",
    }
    assert found(Place(True, environment, tmp_path), tmp_path) == [
        ("Windows/System32/AMDHIP64_7.dll", 7, "graphics driver"),
        ("Windows/System32/amdhip64_6.dll", 6, "graphics driver"),
        ("Windows/System32/amdhip64.dll", None, "graphics driver"),
        ("sdk/bin/amdhip64_6.dll", 6, "HIP_PATH"),
        ("old/bin/amdhip64.dll", None, "HIP_PATH_57"),
        ("Program Files/AMD/ROCm/7.1/bin/amdhip64_7.dll", 7, "HIP SDK"),
        ("Program Files/AMD/ROCm/6.4/bin/amdhip64_6.dll", 6, "HIP SDK"),
    ]


def test_the_drivers_comgr_of_interface_3_comes_first(tmp_path: Path) -> None:
    make(tmp_path, "System32/amd_comgr_2.dll", "System32/amd_comgr_3.dll")
    names = [Path(c.path).name for c in candidates(COMGR, Place(True, {"SYSTEMROOT": str(tmp_path)}, tmp_path))]
    assert names == ["amd_comgr_3.dll", "amd_comgr_2.dll"]


def test_a_chosen_library_is_the_only_one(tmp_path: Path) -> None:
    make(tmp_path, "usr/lib/libamdhip64.so.7", "mine.so")
    place = Place(False, {"CUTTLE_HIP_LIBRARY": str(tmp_path / "mine.so")}, tmp_path)
    assert found(place, tmp_path) == [("mine.so", None, "CUTTLE_HIP_LIBRARY")]


@pytest.mark.parametrize("windows", [False, True])
def test_nothing_there(tmp_path: Path, windows: bool) -> None:
    environment = {"HIP_PATH": str(tmp_path / "gone"), "ROCM_PATH": "\0", "SYSTEMROOT": str(tmp_path)}
    for library in (HIP, COMGR, *MATH_LIBRARIES):
        assert candidates(library, Place(windows, environment, tmp_path)) == []
