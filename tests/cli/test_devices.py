"""The verbs that start a device, and the `nvidia-smi` stand-in."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import pytest

from cuttle.cli import demo_program, environment, nvidia_smi

DEVICE = {
    "index": 0,
    "name": "Cuttle CPU",
    "uuid": "GPU-00112233-4455-6677-8899-aabbccddeeff",
    "memory_bytes": 4 << 30,
    "compute_capability": "8.0",
    "pci_domain_id": 0,
    "pci_bus_id": 1,
    "pci_device_id": 0,
    "count": 1,
}


def test_query_csv() -> None:
    fields = ["name", "memory.total", "temperature.gpu", "power.draw"]
    text = nvidia_smi.query_csv([DEVICE], fields, {"csv"})
    assert text == "name, memory.total [MiB], temperature.gpu, power.draw [W]\nCuttle CPU, 4096 MiB, [N/A], [N/A]\n"
    bare = nvidia_smi.query_csv([DEVICE], fields, {"csv", "noheader", "nounits"})
    assert bare == "Cuttle CPU, 4096, [N/A], [N/A]\n"
    with pytest.raises(ValueError, match="no_such_field"):
        nvidia_smi.query_csv([DEVICE], ["no_such_field"], set())


def test_every_field_that_scripts_ask_answers() -> None:
    fields = (
        "name,memory.total,memory.used,memory.free,driver_version,compute_cap,count,uuid,index,utilization.gpu,"
        "temperature.gpu,power.draw"
    ).split(",")
    cells = nvidia_smi.query_csv([DEVICE], fields, {"noheader"}).strip().split(", ")
    assert len(cells) == len(fields)
    assert all(cells)


def test_the_overview_is_a_box() -> None:
    lines = nvidia_smi.overview([DEVICE], "13.0").splitlines()
    boxed = [line for line in lines[1:] if line]
    assert {len(line) for line in boxed} == {len(boxed[0])}
    assert all(line[0] in "+|" and line[-1] in "+|" for line in boxed)
    assert "CUDA Version: 13.0" in boxed[1]


def test_the_xml_is_well_formed() -> None:
    gpu = ElementTree.fromstring(nvidia_smi.xml([DEVICE], "13.0")).find("gpu")
    assert gpu is not None
    assert gpu.findtext("fb_memory_usage/total") == "4096 MiB"
    assert gpu.get("id") == "00000000:01:00.0"


def test_devices_are_chosen_by_index_uuid_and_bus() -> None:
    for name in ("0", DEVICE["uuid"], "00000000:01:00.0"):
        assert nvidia_smi.chosen([DEVICE], str(name)) == [DEVICE]
    with pytest.raises(ValueError, match="7"):
        nvidia_smi.chosen([DEVICE], "7")


def test_png() -> None:
    """The writer's rows are differences to the row above; undone, they are the pixels."""
    pixels = bytes(range(2 * 3 * 4))
    data = demo_program.png(pixels, 2, 3)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (2, 3)
    at = data.index(b"IDAT")
    rows = zlib.decompress(data[at + 4 : at + 4 + int.from_bytes(data[at - 4 : at], "big")])
    above = bytes(6)
    for number in range(3):
        row = rows[number * 7 : number * 7 + 7]
        assert row[0] == 2
        above = bytes((a + b) & 255 for a, b in zip(row[1:], above, strict=True))
        expected = pixels[number * 8 : number * 8 + 8]
        assert above == expected[0:3] + expected[4:7]


@pytest.mark.device
def test_info(cuttle) -> None:
    report = json.loads(cuttle("info", "--json").stdout)["data"]
    assert report["driver_version"] == 13000
    device = report["devices"][0]
    assert device["warp_size"] == 32
    assert cuttle("info", "-L").stdout == f"GPU 0: {device['name']} (UUID: {device['uuid']})\n"
    query = cuttle("info", "--query", "name,cc", "--format", "csv,noheader", env={"CUTTLE_COMPUTE_CAPABILITY": "9.0"})
    assert query.stdout == f"{device['name']},9.0\n"
    assert cuttle("info", "--query", "taste").stderr.startswith("error[CLI-0003]: ")


@pytest.mark.device
def test_the_stand_in_answers_inside_run(cuttle) -> None:
    done = cuttle(
        "run", "--memory", "1g", "--", "nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert 0 < int(done.stdout) <= 1024
    assert cuttle("run", "--", "nvidia-smi", "-L").stdout.startswith("GPU 0: ")
    assert cuttle("run", "--", "nvidia-smi", "-i", "9").returncode == 6
    assert "Cuttle" in cuttle("run", "--", "nvidia-smi").stdout


@pytest.mark.device
def test_doctor_finds_nothing_here(cuttle) -> None:
    done = cuttle("doctor", "--json")
    checks = {check["check"]: check for check in json.loads(done.stdout)["data"]["checks"]}
    for name in ("client_library", "executor_file", "loaded_library", "device_process", "compiler", "kernel"):
        assert checks[name]["mark"] in ("ok", "warning"), checks[name]
    assert not [check for check in checks.values() if check["mark"] == "crash"]


def test_doctor_runs_single_checks(cuttle) -> None:
    assert cuttle("doctor", "python").returncode == 0
    assert cuttle("doctor", "no-such-check").returncode == 2
    assert "shared_memory" in cuttle("doctor", "--list-checks").stdout
    done = cuttle("doctor", "variables", env={"CUTTLE_THREAD": "4"})
    assert done.returncode == 1
    assert "CUTTLE_THREAD is set, but there is no such knob" in done.stdout


def test_doctor_names_the_library_that_a_program_gets(cuttle) -> None:
    done = cuttle("doctor", "--program", sys.executable, "library_path", "--json")
    check = json.loads(done.stdout)["data"]["checks"][0]
    assert environment.CLIENT_LIBRARY in check["text"] or "no ELF program" in check["text"]


def program_with_rpath(rpath: str) -> bytes:
    """An ELF program with an interpreter and a DT_RPATH: all that the loader's rules depend on."""
    strings = b"\0" + rpath.encode() + b"\0/lib64/ld-linux-x86-64.so.2\0"
    interpreter = strings.index(b"/lib64/ld")
    strings_at = 64 + 3 * 56
    dynamic_at = strings_at + len(strings)
    # DT_STRTAB, DT_STRSZ, DT_RPATH, DT_NULL
    dynamic = struct.pack("<8Q", 5, strings_at, 10, len(strings), 15, 1, 0, 0)
    end = dynamic_at + len(dynamic)
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 64, 0, 0)
    segments = (
        (3, strings_at + interpreter, len(strings) - interpreter),
        (1, 0, end),
        (2, dynamic_at, len(dynamic)),
    )
    table = b"".join(struct.pack("<IIQQQQQQ", kind, 5, at, at, at, size, size, 1) for kind, at, size in segments)
    return header + table + strings + dynamic


def test_doctor_sees_a_library_that_wins_by_rpath(cuttle, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"another driver")
    program = tmp_path / "program"
    program.write_bytes(program_with_rpath(str(tmp_path)))
    program.chmod(0o755)
    done = cuttle("doctor", "--program", str(program), "library_path")
    assert done.returncode == 1
    assert "by DT_RPATH" in done.stdout
    assert "--prefer-ours" in done.stdout
    assert cuttle("doctor", "--program", str(program), "--prefer-ours", "library_path").returncode == 0


@pytest.mark.device
def test_the_demo_draws_a_picture(cuttle, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    done = cuttle("demo", "--size", "320x240", "--samples", "1", "-o", str(picture))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{picture}\n"
    data = picture.read_bytes()
    at = data.index(b"IDAT")
    rows = zlib.decompress(data[at + 4 : at + 4 + int.from_bytes(data[at - 4 : at], "big")])
    assert len(rows) == 240 * (1 + 320 * 3)
    assert len(set(rows)) > 100  # a picture, not a plain area


@pytest.mark.device
def test_the_stand_in_writes_where_it_can(cuttle, tmp_path: Path) -> None:
    file = tmp_path / "smi.txt"
    assert cuttle("run", "--", "nvidia-smi", "-L", "-f", str(file)).returncode == 0 and file.read_text().startswith(
        "GPU 0: "
    )
    for arguments in (("-f", "/nowhere/x"), ("-f", "/dev/full")):
        done = cuttle("run", "--", "nvidia-smi", "-L", *arguments)
        assert done.returncode == 1 and done.stderr.startswith(f"error[CLI-0602]: {arguments[1]}: ")
    script = f"{sys.executable} -m cuttle run -- nvidia-smi -L > /dev/full"
    full = subprocess.run(["/bin/sh", "-c", script], stderr=subprocess.PIPE, text=True, check=False)
    assert full.returncode == 1 and full.stderr.startswith("error[CLI-0602]: standard output: ")
