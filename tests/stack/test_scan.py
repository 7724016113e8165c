"""Scans of recorded machines. Each file of `machines/` names its public source and what of it was made up for the test."""

from __future__ import annotations

import datetime
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuttle.abi.gpu_names import PCI_GPUS
from cuttle.abi.targets import BY_NAME
from cuttle.device.hip.find_library import Place
from cuttle.errors import StackError
from cuttle.stack import scan_windows
from cuttle.stack.gpu_lookup import product_name, target_of_name
from cuttle.stack.journal import Root, encode
from cuttle.stack.machine import Machine, select, version_text
from cuttle.stack.scan import keep, known_machine, read_machine, scan, with_support
from cuttle.stack.scan_linux import scan_linux
from cuttle.stack.scan_windows import (
    WindowsTexts,
    parse_hipinfo,
    parse_pnp_id,
    parse_registry,
    parse_video_controllers,
)
from cuttle.stack.selftest_report import PartReport, SelftestReport, encode_report
from cuttle.stack.support import VerifiedReport, support

FOLDER = Path(__file__).parent / "machines"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def description(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return document


def scanned(name: str, folder: Path) -> Machine:
    """The machine of a description."""
    document = description(name)
    if document["platform"] == "windows":
        texts = WindowsTexts(
            document["os_version"], tuple(map(tuple, document["hipinfo"])), document["video_controllers"], document["registry"]
        )  # fmt: skip
        for file in document.get("hip_files", []):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).touch()
        return with_support(scan_windows.scan_windows(texts, Place(True, {"PROGRAMFILES": str(folder)})))
    for file, text in document["files"].items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for link, target in document["links"].items():
        (folder / link).symlink_to(target)
    return with_support(scan_linux(folder, {}))


def test_there_are_twenty_machines() -> None:
    assert len(NAMES) >= 20
    for name in NAMES:
        document = description(name)
        assert document["synthetic"], f"{name} says what of it was made up"
        assert document["source"].startswith("https://") or document["synthetic"] == ["everything"], name


@pytest.mark.parametrize("name", NAMES)
def test_machine(name: str, tmp_path: Path) -> None:
    machine = scanned(name, tmp_path)
    expected = description(name)["expected"]
    found = [[gpu.name, gpu.target, gpu.hip_index, gpu.integrated, gpu.detection] for gpu in machine.gpus]
    assert found == expected["gpus"]
    memory = [gpu.memory_bytes and round(gpu.memory_bytes / (1 << 30), 2) for gpu in machine.gpus]
    assert memory == expected["memory_gib"]
    chosen = select(machine)
    assert (chosen.index if chosen else None) == expected["selected"]
    assert len(machine.problems) == expected["problems"], machine.problems
    assert [[hip.major, hip.version] for hip in machine.hip] == expected.get("hip", [])
    if "rocblas" in expected:
        assert {found.name: found.state for found in machine.math_libraries}["rocBLAS"] == expected["rocblas"]
    # What is written can be read: the types hold for what parsers make of outside text.
    assert msgspec.json.decode(encode(machine), type=Machine) == machine


@pytest.mark.parametrize("name", NAMES)
def test_support_is_never_claimed(name: str, tmp_path: Path) -> None:
    """No report of a card is in the repository, so nothing is verified."""
    for gpu in scanned(name, tmp_path).gpus:
        states = {engine: found.state for engine, found in gpu.support.items()}
        assert "verified on hardware" not in states.values()
        if gpu.target in ("gfx803", "gfx906", "gfx942"):
            assert set(states.values()) == {"not supported"}
        elif gpu.target in ("gfx1100", "gfx1200"):
            assert states == {"cuttle": "emulated", "zluda": "unverified candidate"}
        else:
            assert set(states.values()) == {"unverified candidate"}


PERSONAL = ("SUBSYS", "700100E", "1A2B3C4D", "generic", "C:\\", "/sys", "DESKTOP")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_personal(name: str, tmp_path: Path) -> None:
    """No instance ids, paths, or kernel names that somebody chose."""
    text = encode(scanned(name, tmp_path)).decode()
    assert not [word for word in PERSONAL if word in text]
    assert str(tmp_path) not in text


def test_verified_needs_a_report(tmp_path: Path) -> None:
    report = {
        "engine_version": "v6", "target": "gfx1201", "gpu": "AMD Radeon RX 9070 XT", "platform": "windows",
        "date": "2026-12-01", "grade": "correct",
    }  # fmt: skip
    folder = tmp_path / "zluda"
    folder.mkdir()
    (folder / "one.json").write_text(json.dumps(report))
    (folder / "newer.json").write_text(json.dumps({**report, "date": "2026-12-05"}))
    found = support("zluda", "gfx1201", tmp_path)
    assert found.state == "verified on hardware"
    assert "2026-12-05" in found.evidence and "newer.json" in found.evidence
    assert support("cuttle", "gfx1201", tmp_path).state == "unverified candidate"
    for bad in ({"grade": "loads"}, {"target": "gfx"}, {"date": "soon"}, {"engine": "cuttle"}, {"user": "me"}):
        (folder / "bad.json").write_text(json.dumps({**report, **bad}))
        with pytest.raises(StackError) as caught:
            support("zluda", "gfx1201", tmp_path)
        assert caught.value.code == "STK-0703"
    assert set(VerifiedReport.__struct_fields__) == set(report)


def test_a_self_test_verifies_the_engine_cuttle(tmp_path: Path) -> None:
    """The same accepted reports as in the table of targets."""
    parts = [
        PartReport(name, passed=9, refused=0, failed=0, left_out=0, results=100, seconds=1.0, troubles=[])
        for name in ("programs", "files", "forms")
    ]
    report = SelftestReport(
        "cuttle-selftest/1", "0.1.0", datetime.date(2026, 12, 1), "hip", "AMD Radeon RX 9070 XT", "gfx1201", "HIP 7.0",
        "hardware", "Linux", "3.12", True, parts,
    )  # fmt: skip
    (tmp_path / "cuttle").mkdir()
    path = tmp_path / "cuttle" / "gfx1201-2026-12-01.json"
    path.write_bytes(encode_report(report))
    found = support("cuttle", "gfx1201", tmp_path)
    assert found.state == "verified on hardware" and path.name in found.evidence
    assert support("zluda", "gfx1201", tmp_path).state == "unverified candidate"
    path.write_bytes(encode_report(msgspec.structs.replace(report, evidence="unconfirmed hardware")))
    assert support("cuttle", "gfx1201", tmp_path).state == "unverified candidate"


def test_tables_agree() -> None:
    """Ids stand once; targets that code objects are made for are known by the same names."""
    devices = [row.device for row in PCI_GPUS]
    assert len(devices) == len(set(devices))
    unknown = {row.target for row in PCI_GPUS} - set(BY_NAME)
    assert unknown == {"gfx803", "gfx900"}, "GCN cards are named so that they can be refused"
    covered = {row.target for row in PCI_GPUS}
    assert {name for name in BY_NAME if "generic" not in name} - covered == {"gfx1153"}


def test_names() -> None:
    assert product_name(0x744C, 0xC8) == "AMD Radeon RX 7900 XTX"
    assert product_name(0x744C, 0x99) == "AMD Radeon RX 7900"
    assert product_name(0x1234, 0) == ""
    assert target_of_name("AMD Radeon(TM) RX 9070 XT") == "gfx1201"
    assert target_of_name("Radeon RX 6600") == "gfx1032"
    assert target_of_name("AMD Radeon RX 6750 GRE 10GB") == "gfx1032"
    assert target_of_name("AMD Radeon RX 6750 GRE 12GB") == "gfx1031"
    assert target_of_name("AMD Radeon(TM) Graphics") == ""
    assert target_of_name("NVIDIA GeForce RTX 4090") == ""
    assert target_of_name("") == ""


def test_every_product_name_leads_back() -> None:
    for row in PCI_GPUS:
        for revision, _ in row.revisions:
            assert target_of_name(product_name(row.device, revision)) == row.target


def test_pnp_ids() -> None:
    assert parse_pnp_id("PCI\\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8\\6&1A2B&0&0008") == (0x1002, 0x744C, 0xC8)
    assert parse_pnp_id("pci\\ven_1002&dev_73bf&rev_c1") == (0x1002, 0x73BF, 0xC1)
    assert parse_pnp_id("ROOT\\BASICDISPLAY\\0000") == (None, None, None)


def test_a_selected_index(tmp_path: Path) -> None:
    machine = scanned("windows-780m-first-6800", tmp_path)
    chosen = select(machine, 0)
    assert chosen is not None and chosen.integrated
    with pytest.raises(StackError) as caught:
        select(machine, 7)
    assert caught.value.code == "STK-0702"


def test_version_text_drops_what_people_add() -> None:
    assert version_text("6.8.0-jane-custom") == "6.8.0"
    assert version_text("custom") == ""


HOSTILE = st.text(
    alphabet=st.sampled_from('device#Name: gcnArchNgfx10\n\r\t0123456789.GB{}[]"\\,&_VENDR\x00\u2028é '), max_size=400
)


@settings(max_examples=300, deadline=None)
@given(HOSTILE)
def test_parsers_take_anything(text: str) -> None:
    parse_hipinfo(text)
    parse_registry(text)
    parse_video_controllers(text)
    machine = scan_windows.scan_windows(WindowsTexts(text, (("6.4", "device# 0\nName: " + text),), text, text))
    assert msgspec.json.decode(encode(machine), type=Machine) == machine


def test_names_from_outside_are_cleaned() -> None:
    evil = json.dumps(
        {"Name": "AMD \u001b[31mRadeon/../\n RX", "PNPDeviceID": 3, "DriverVersion": ["x"], "AdapterRAM": -1}
    )
    (adapter,) = parse_video_controllers(evil)
    assert adapter.name == "AMD [31mRadeon .. RX"
    assert adapter.memory_bytes is None
    assert parse_video_controllers('"text"') == []


def test_the_collector_runs_every_sdk(tmp_path: Path) -> None:
    for version in ("6.4", "6.10", "7.1"):
        tool = tmp_path / "AMD/ROCm" / version / "bin/hipInfo.exe"
        tool.parent.mkdir(parents=True)
        tool.touch()
    commands: list[str] = []

    def run(command: Any) -> str:
        commands.append(" ".join(command))
        return "text"

    chosen = tmp_path / "AMD/ROCm/6.4"
    texts = scan_windows.collect(run, {"ProgramFiles": str(tmp_path), "HIP_PATH": str(chosen)})
    assert [version for version, _ in texts.hipinfo] == ["6.4", "7.1", "6.10"], "the user's choice, then the newest"
    assert any("Win32_VideoController" in command for command in commands)
    assert any("{4d36e968-e325-11ce-bfc1-08002be10318}" in command for command in commands)


def test_tools_that_are_missing_or_hang() -> None:
    assert scan_windows.run_tool(["no-such-tool-of-windows"]) == ""
    assert scan_windows.run_tool([sys.executable, "-c", "print('hello')"]).strip() == "hello"


def test_hip_places_have_no_paths(tmp_path: Path) -> None:
    """A ROCm below a folder with somebody's name in it."""
    home = tmp_path / "home" / "jane.doe" / "rocm"
    (home / "lib").mkdir(parents=True)
    (home / "lib/libamdhip64.so.6").write_bytes(b"\x7fELF")
    (home / "lib/librocblas.so.4").write_bytes(b"not elf")
    machine = scan_linux(tmp_path, {"ROCM_PATH": str(home)})
    assert [(hip.major, hip.origin) for hip in machine.hip] == [(6, "ROCM_PATH")]
    assert machine.math_libraries[0].state == "unusable"
    assert "jane" not in encode(machine).decode()


def test_windows_hip_files(tmp_path: Path) -> None:
    folder = tmp_path / "AMD/ROCm/6.4/bin"
    folder.mkdir(parents=True)
    for name in ("amdhip64_6.dll", "rocblas.dll"):
        (folder / name).touch()
    (folder / "rocblas/library").mkdir(parents=True)
    (folder / "rocblas/library/TensileLibrary_gfx1100.co").touch()
    texts = WindowsTexts(hipinfo=(("6.4", "device# 0\nName: AMD Radeon RX 7900 XTX\ngcnArchName: gfx1100\n"),))
    machine = scan_windows.scan_windows(texts, Place(True, {"PROGRAMFILES": str(tmp_path)}))
    assert [(hip.major, hip.version, hip.origin) for hip in machine.hip] == [(6, "6.4", "HIP SDK")]
    states = {library.name: library.state for library in machine.math_libraries}
    assert states["rocBLAS"] == "found"
    assert states["hipBLASLt"] == "missing"


def test_this_machine() -> None:
    machine = scan()
    assert machine.platform == ("windows" if os.name == "nt" else "linux")
    assert re.fullmatch(r"\d+(\.\d+)*", machine.os_version)


def test_kept_scans(tmp_path: Path) -> None:
    root = Root(tmp_path)
    machine = scanned("linux-radeon-vii", tmp_path / "machine")
    keep(root, "scan", machine)
    assert known_machine(root) == machine
    escape = encode(machine).replace(b'"problems": []', b'"problems": ["\\u001b]0;evil"]')
    assert escape != encode(machine)
    for content in (b"{", escape, b'{"platform": "plan9"}', b"\xff", encode(machine).replace(b"gfx906", b"../..906")):
        (root.results / "scan.json").write_bytes(content)
        with pytest.raises(StackError) as caught:
            read_machine(root.results / "scan.json")
        assert caught.value.code == "STK-0703"
