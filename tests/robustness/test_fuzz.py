"""A short run of the fuzzer, always the same cases. The long one is a command: see `fuzz.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness import fuzz

CASES = {"ptx": 150, "words": 15, "forms": 80, "containers": 500, "images": 1000, "wire": 3}


@pytest.mark.parametrize("name", CASES)
def test_no_case_is_a_finding(name: str) -> None:
    assert set(CASES) == set(fuzz.TARGETS)
    findings = fuzz.Findings(None)
    fuzz.run_cases(name, range(CASES[name]), findings)
    assert findings.cases == {name: CASES[name]}
    assert not findings.reasons


class Broken:
    """Raises, hangs or dies at some numbers."""

    def make(self, number: int) -> bytes:
        return b"padding " * 8 + b"x%d" % number

    def feed(self, case: bytes) -> None:
        if b"x3" in case:
            raise KeyError("three")
        if b"x5" in case:
            fuzz.os.abort()
        while b"x7" in case:
            pass


def test_what_raises_dies_or_hangs_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fuzz.TARGETS, "broken", fuzz.Kind(Broken, 10))
    monkeypatch.setattr(fuzz, "SECONDS", 0.5)
    findings = fuzz.Findings(tmp_path)
    fuzz.run_cases("broken", range(10), findings)
    assert findings.cases == {"broken": 10}
    assert [reason.split(":")[0] for reason in findings.reasons] == ["broken 3", "broken 5", "broken 7"]
    assert (tmp_path / "broken-3.case").read_bytes() == b"x3", "reduced to what matters"
    assert (tmp_path / "broken-7.txt").read_text().startswith("more than")
