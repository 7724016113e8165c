"""Reports of self-tests: what they prove, and that a stranger's file is checked before anybody believes it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cuttle.abi.targets import BY_NAME
from cuttle.errors import CuttleError
from cuttle.selftest.support import state_of, support_rows
from cuttle.stack.selftest_report import (
    MOST_BYTES,
    PARTS,
    SCHEMA,
    PartReport,
    SelftestReport,
    Trouble,
    accepted_reports,
    encode_report,
    markdown,
    read_report,
)
from tools.accept_selftest import accept


def report(**changes: Any) -> SelftestReport:
    """A report that verifies gfx1100."""
    parts = [PartReport(name, 10, 0, 0, 1, 260, 1.5, []) for name in PARTS]  # type: ignore[arg-type]
    values: dict[str, Any] = {
        "schema": SCHEMA, "cuttle": "0.1.0", "date": datetime.date(2026, 12, 1), "device": "hip", "gpu": "Radeon RX 7900 XTX",
        "target": "gfx1100", "library": "HIP 7.1.0", "evidence": "hardware", "system": "Linux 6.8", "python": "3.12.3",
        "whole": True, "parts": parts, **changes,
    }  # fmt: skip
    return SelftestReport(**values)


def written(folder: Path, value: SelftestReport | bytes, name: str = "report.json") -> Path:
    path = folder / name
    path.write_bytes(value if isinstance(value, bytes) else encode_report(value))
    return path


FAILED = [
    PartReport("programs", 10, 0, 0, 0, 0, 1, []),
    PartReport("files", 10, 0, 1, 0, 5, 1, [Trouble("warp/shfl.ptx", "fail", "1 of 32 results differ")]),
    PartReport("forms", 10, 1, 0, 0, 5, 1, [Trouble("add.s32", "refused", "no")]),
]


def test_a_report_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_report(written(tmp_path, report())) == report()
    assert read_report(written(tmp_path, report(parts=FAILED))) == report(parts=FAILED)


@pytest.mark.parametrize("changes", [
    {"evidence": "unconfirmed hardware"}, {"whole": False}, {"parts": FAILED}, {"parts": []},
    {"device": "rdna:gfx1100", "evidence": "emulated"},
    {"parts": [PartReport(name, 0, 0, 0, 1, 0, 1.5, []) for name in PARTS]},  # type: ignore[arg-type]
])  # fmt: skip
def test_what_proves_nothing(changes: dict[str, Any], tmp_path: Path) -> None:
    """It is a report, but not one that verifies a GPU: the table stays, and the tool refuses it with the reason."""
    assert report().verifies == "gfx1100"
    other = report(**changes)
    assert other.verifies == ""
    path = written(tmp_path, other)
    assert accepted_reports(tmp_path) == {}
    with pytest.raises(CuttleError, match="STS-0101"):
        accept(path, tmp_path / "accepted")
    assert not (tmp_path / "accepted").exists()


def changed(**changes: Any) -> bytes:
    document = json.loads(encode_report(report()))
    return json.dumps({**document, **changes}).encode()


@pytest.mark.parametrize("data,text", [
    (b"", "Input data was truncated"), (b"[]", "Expected `object`"), (b"\xff{}", "malformed"), (b'{"schema": "cuttle-selftest/2"}', "schema"),
    (b"[" * 100_000, "too deeply nested|truncated|recursion|Expected"), (b" " * (MOST_BYTES + 1), "longer than"),
    (changed(extra=1), "unknown field"), (changed(gpu="x" * 200), "120"), (changed(gpu="a\x1b[2Jb"), "control characters"),
    (changed(target="gfx9999"), "no GPU target"), (changed(device="gpu"), "no device"), (changed(device="cpu"), "no evidence of the device"),
    (changed(date="yesterday"), "date"), (changed(whole="yes"), "bool"),
    (changed(parts=[{"name": "files", "passed": 1, "refused": 0, "failed": 0, "left_out": 0, "results": 0, "seconds": 1, "troubles": []}] * 2), "stands twice"),
    (changed(parts=[{"name": "files", "passed": 1, "refused": 0, "failed": 0, "left_out": 0, "results": 0, "seconds": 1,
                     "troubles": [{"name": "a", "result": "fail", "reason": "b"}]}]), "do not fit its list"),
    (changed(parts=[{"name": "files", "passed": -1, "refused": 0, "failed": 0, "left_out": 0, "results": 0, "seconds": 1, "troubles": []}]), ">= 0"),
    (changed(parts=[{"name": "files", "passed": 1, "refused": 0, "failed": 0, "left_out": 0, "results": 0, "seconds": 1,
                     "troubles": [{"name": "a", "result": "pass", "reason": "b"}]}]), "Invalid enum"),
])  # fmt: skip
def test_files_of_strangers(data: bytes, text: str, tmp_path: Path) -> None:
    with pytest.raises(CuttleError, match=f"(?s)STS-0101.*({text})"):
        read_report(written(tmp_path, data))


def test_the_table(tmp_path: Path) -> None:
    """Without a report gfx1100 is emulated; with two the newer one is the evidence; a damaged file stops the table."""
    target = BY_NAME["gfx1100"]
    assert state_of(target, [])[0] == "emulated"
    older = report(date=datetime.date(2026, 11, 1), gpu="an older card")
    accept(written(tmp_path, older), tmp_path / "accepted")
    accepted = accept(written(tmp_path, report()), tmp_path / "accepted")
    assert accepted.name == "gfx1100-2026-12-01.json" and read_report(accepted) == report()
    rows = {row.name: (state, evidence) for row, state, evidence in support_rows(tmp_path / "accepted")}
    state, evidence = rows["gfx1100"]
    assert (
        state == "verified on hardware"
        and "Radeon RX 7900 XTX, HIP 7.1.0" in evidence
        and "30 tests passed" in evidence
    )
    assert (rows["gfx1200"][0], rows["gfx1030"][0], rows["gfx90a"][0]) == ("emulated", "compiles", "refused")
    written(tmp_path / "accepted", b"{}", "bad.json")
    with pytest.raises(CuttleError, match=r"bad\.json"):
        support_rows(tmp_path / "accepted")


def test_markdown_does_not_interpret_reasons() -> None:
    text = markdown(report(parts=[PartReport("files", 0, 0, 1, 0, 0, 1, [Trouble("a", "fail", "<b>|[x](y)*")])]))
    assert "\\<b\\>\\|\\[x\\](y)\\*" in text and "A selection" not in text


def test_the_schema_is_closed() -> None:
    schema = msgspec.json.schema(SelftestReport)
    assert all(part.get("additionalProperties") is False for part in schema["$defs"].values())
