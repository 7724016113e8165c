"""Scanning files and folders for device code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuttle.ptx.ir import Function
from cuttle.ptx.parser import parse_module
from cuttle.ptx.scan import ScanFile, scan_bytes, scan_path
from cuttle.ptx.stubs import stub_reason
from tests.ptx_front.container_writer import Entry, write_archive, write_cubin, write_fatbin, write_pe, write_program

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
PTX = (
    HEAD + ".visible .entry alpha() { ret; }\n.visible .entry beta() { .reg .b32 %r<3>; add.s32 %r1, %r2, 1; ret; }"
).encode()


def scan(data: bytes) -> ScanFile:
    found = scan_bytes(data, "file")
    assert found is not None
    return found


def test_program_with_ptx_runs() -> None:
    data = write_fatbin(
        Entry(write_cubin({"alpha": [], "beta": []}), 2), Entry(PTX, compression="zstd", version=(8, 4))
    )
    found = scan(write_program(data, ("libcudart.so.12", "libcublas.so.12", "libm.so.6")))
    assert (found.verdict, found.kernels, found.hint) == ("runs", ["alpha", "beta"], "")
    assert [(c.kind, c.target, c.version, c.compression) for c in found.code] == [
        ("ptx", "compute_80", "8.4", "zstd"), ("cubin", "sm_80", "", "none"),
    ]  # fmt: skip
    assert found.libraries == ["libcudart.so.12", "libcublas.so.12"]


def test_machine_code_only_says_what_to_do() -> None:
    found = scan(write_program(write_fatbin(Entry(write_cubin({"alpha": []}, 86), 2, 86))))
    assert (found.verdict, found.kernels, found.kernels_without_ptx) == ("machine code only", ["alpha"], ["alpha"])
    assert "code=compute_80" in found.hint


def test_partly() -> None:
    one = write_fatbin(Entry(write_cubin({"gamma": []}), 2))
    two = write_fatbin(Entry(write_cubin({"alpha": [], "beta": []}), 2), Entry(PTX))
    found = scan(write_pe(one + two, ("cudart64_12.dll", "cufft64_11.dll", "USER32.dll")))
    assert (found.verdict, found.kernels_without_ptx) == ("partly", ["gamma"])
    assert found.libraries == ["cudart64_12.dll", "cufft64_11.dll"]


def test_target_above_the_device_is_noted() -> None:
    found = scan(write_fatbin(Entry(PTX, architecture=121)))
    assert found.verdict == "runs" and "took the lowest, compute_121" in found.notes[0]


def test_damage_is_reported_not_raised() -> None:
    data = write_program(write_fatbin(Entry(PTX)))
    assert scan(data[: len(data) // 2]).verdict == "damaged"
    broken = write_fatbin(Entry(PTX, compression="zstd", says_uncompressed=7))
    assert scan(broken).notes[0].startswith("CON-0104")


def test_static_library_and_its_members() -> None:
    member = write_program(write_fatbin(Entry(PTX)))
    found = scan(write_archive({"a.o": member, "b.o": b"text", "c.o": member}))
    assert (found.format, found.verdict, found.code[0].entries) == ("archive", "runs", 2)


def test_unsupported_instructions_are_asked_for_once_per_form() -> None:
    asked = []

    def unsupported(root: str, modifiers: tuple[str, ...]) -> str | None:
        asked.append((root, modifiers))
        return "no adder" if root == "add" else None

    found = scan_bytes(PTX, "k.ptx", unsupported)
    assert found is not None and sorted(asked) == [("add", ("s32",)), ("ret", ())]
    (use,) = found.unsupported
    assert (use.instruction, use.reason, use.functions, use.examples) == ("add.s32", "no adder", 1, ["beta"])
    assert found.verdict == "partly"


def test_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "app").write_bytes(write_program(write_fatbin(Entry(PTX))))
    (tmp_path / "k.ptx").write_bytes(PTX)
    (tmp_path / "libx.so").write_bytes(write_program(b"", ("libnvrtc.so.12",)))
    (tmp_path / "plain.so").write_bytes(write_program(b"", ("libc.so.6",)))
    (tmp_path / "notes.txt").write_text("words " * 100)
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "k.ptx")
    report = scan_path(tmp_path)
    assert [(Path(f.path).name, f.verdict) for f in report.files] == [
        ("k.ptx", "runs"), ("libx.so", "libraries only"), ("app", "runs"),
    ]  # fmt: skip
    assert report.files_seen == 6
    assert json.loads(json.dumps(report.as_json()))["files"][2]["kernels"] == ["alpha", "beta"]


def test_missing_file(tmp_path: Path) -> None:
    assert "No such file" in scan_path(tmp_path / "nothing").unreadable[0]


@pytest.mark.parametrize(
    ("text", "stub"),
    [
        ("trap;", True),
        (".reg .b64 %rd<3>; mov.u64 %rd1, message; { .param .b64 p; st.param.b64 [p], %rd1; call vprintf, (p, p); } trap;", True),
        (".reg .b64 %rd<3>; { .param .b64 p; st.param.b64 [p], %rd1; call vprintf, (p, p); } ret;", False),
        ("ret;", False),
        (".reg .b64 %rd<3>; st.global.b32 [%rd1], 1; trap;", False),
        # Kernels that trap in some case only are programs that check something.
        (".reg .pred %p; @%p trap; ret;", False),
        (".reg .pred %p; @%p bra out; trap; out: ret;", False),
        (".reg .pred %p; @%p bra no; ret; no: trap;", False),
        (".reg .pred %p; @%p ret; trap;", False),
        (".reg .pred %p; @%p bra both; mov.pred %p, 1; both: trap;", True),
    ],
)  # fmt: skip
def test_stubs(text: str, stub: bool) -> None:
    module = parse_module(
        HEAD + ".extern .func vprintf (.param .b64 a, .param .b64 b); .global .b8 message[3] = {72, 105, 0};"
        f".entry k() {{ {text} }}"
    )
    function: Function = module.functions["k"]
    reason = stub_reason(function, module.variables)
    assert (reason is not None) == stub
    if "message" in text:
        assert reason is not None and "'Hi'" in reason
