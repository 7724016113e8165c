"""KFD's topology and PCI devices from folders made for the test, with the content that nobody should trust."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuttle.device.hip.kernel_driver import (
    BadTopology,
    access,
    kfd_gpus,
    parse_properties,
    pci_display_devices,
    target_name,
)

GPU = (
    "cpu_cores_count 0\nsimd_count 192\nwave_front_size 32\ngfx_target_version 110000\nvendor_id 4098\ndevice_id 29772\n"
    "location_id 768\ndomain 0\ndrm_render_minor 128\nunique_id 18446744073709551615\n"
)
PROCESSOR = "cpu_cores_count 16\nsimd_count 0\ngfx_target_version 0\nvendor_id 0\ndevice_id 0\n"


def node(root: Path, number: int | str, text: str | bytes) -> None:
    folder = root / str(number)
    folder.mkdir(parents=True)
    (folder / "properties").write_bytes(text if isinstance(text, bytes) else text.encode())


def test_gpus_among_nodes(tmp_path: Path) -> None:
    node(tmp_path, 0, PROCESSOR)
    node(tmp_path, 10, GPU.replace("110000", "90010").replace("128", "129"))
    node(tmp_path, 2, GPU)
    node(tmp_path, "generation_id", GPU)
    gpus, problems = kfd_gpus(tmp_path)
    assert problems == []
    assert [(gpu.node, gpu.target, gpu.render_minor) for gpu in gpus] == [(2, "gfx1100", 128), (10, "gfx90a", 129)]
    assert (gpus[0].vendor_id, gpus[0].device_id, gpus[0].location_id) == (0x1002, 0x744C, 768)


@pytest.mark.parametrize(
    "version,name",
    [
        (120001, "gfx1201"),
        (110501, "gfx1151"),
        (100306, "gfx1036"),
        (90402, "gfx942"),
        (90006, "gfx906"),
        (80003, "gfx803"),
    ],
)
def test_target_names(version: int, name: str) -> None:
    assert target_name(version) == name


@pytest.mark.parametrize("version", [0, 5, 9999, 11600, 110016, 999999])
def test_versions_that_are_none(version: int) -> None:
    with pytest.raises(BadTopology):
        target_name(version)


@pytest.mark.parametrize(
    "text,reason",
    [
        (GPU.replace("gfx_target_version 110000\n", ""), "has no gfx_target_version"),
        (GPU.replace("110000", "-1"), "line 4 is not"),
        (GPU.replace("110000", "0x1ADB0"), "line 4 is not"),
        (GPU.replace("110000", "1" * 30), "line 4 is not"),
        (GPU.replace("110000", "99999999"), "gfx_target_version 99999999 is too large"),
        (GPU.replace("110000", "119900"), "is no version of a GPU"),
        (GPU.replace("4098", "65536"), "vendor_id 65536 is too large"),
        (GPU + "simd_count 0\n", "simd_count stands twice"),
        (GPU + "unique_id2 18446744073709551616\n", "is too large"),
        (GPU + "\x1b[2J 1\n", "line 11 is not"),
        (GPU.encode() + b"\xff 1\n", "no ASCII text"),
        (GPU + "x 1\n" * 20000, "is longer than 65536 bytes"),
    ],
)
def test_hostile_nodes_are_named_and_others_found(tmp_path: Path, text: str | bytes, reason: str) -> None:
    node(tmp_path, 1, text)
    node(tmp_path, 2, GPU)
    gpus, problems = kfd_gpus(tmp_path)
    assert [gpu.node for gpu in gpus] == [2]
    assert len(problems) == 1 and reason in problems[0] and "\x1b" not in problems[0]


def test_files_that_are_none(tmp_path: Path) -> None:
    """A pipe must not stop us, a folder or a dangling link is a problem with a reason."""
    for number in (1, 2, 3):
        (tmp_path / str(number)).mkdir()
    os.mkfifo(tmp_path / "1" / "properties")
    (tmp_path / "2" / "properties").mkdir()
    (tmp_path / "3" / "properties").symlink_to("gone")
    gpus, problems = kfd_gpus(tmp_path)
    assert gpus == []
    assert len(problems) == 3


def test_many_nodes(tmp_path: Path) -> None:
    for number in range(300):
        node(tmp_path, number, PROCESSOR)
    gpus, problems = kfd_gpus(tmp_path)
    assert gpus == [] and len(problems) == 1 and "300 nodes" in problems[0]


def test_no_driver(tmp_path: Path) -> None:
    assert kfd_gpus(tmp_path / "gone") == ([], [])
    assert pci_display_devices(tmp_path / "gone") == []


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        values = parse_properties(text)
    except BadTopology:
        return
    assert all(0 <= value < 1 << 64 for value in values.values())


def test_access(tmp_path: Path) -> None:
    gone = access(str(tmp_path / "kfd"))
    assert (gone.exists, gone.usable) == (False, False)
    path = tmp_path / "kfd"
    path.write_bytes(b"")
    there = access(str(path), lambda identifier: f"group {identifier}")
    assert (there.exists, there.usable, there.group) == (True, True, f"group {os.stat(path).st_gid}")


def test_pci(tmp_path: Path) -> None:
    devices = {
        "0000:03:00.0": ("0x1002\n", "0x744c\n", "0x030000\n"),
        "0000:03:00.1": ("0x1002\n", "0xab30\n", "0x040300\n"),  # its sound device
        "0000:04:00.0": ("0x10de\n", "0x2330\n", "0x030200\n"),
        "0000:05:00.0": ("0x1002\n", "0x74a1\n", "0x120000\n"),
        "0000:06:00.0": ("0x1002\n", "rubbish\n", "0x030000\n"),
    }
    for name, values in devices.items():
        (tmp_path / name).mkdir()
        for file, value in zip(("vendor", "device", "class"), values, strict=True):
            (tmp_path / name / file).write_text(value)
    assert pci_display_devices(tmp_path) == ["1002:744c at 0000:03:00.0", "1002:74a1 at 0000:05:00.0"]
