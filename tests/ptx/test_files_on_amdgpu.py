"""The PTX file tests on emulated AMD GPUs: a part always, all of them with `pytest -m slow` (eight minutes on two cores).

What an AMD GPU does not do stands in `selftest/file_runner.py`, with what happens instead; everything else must give what an H200 gave.
"""

from __future__ import annotations

import os

import pytest

from cuttle.selftest.file_runner import FOLDER, left_out, verdict
from cuttle.selftest.run_files import read_file
from tests.ptx.test_files import FILES, run

TARGETS = ("rdna:gfx1100", "rdna:gfx1200")
PARTS = 10


def chosen(part: int, parts: int) -> list[str]:
    """Files that end, every `parts`th of them."""
    return [name for name in FILES if not left_out(name, amd=True)][part::parts]


def problems(names: list[str], device: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setitem(os.environ, "CUTTLE_DEVICE", device)
    outcomes = run(names, seconds=120.0)
    found = []
    for name in names:
        outcome = outcomes[name]
        if verdict(name, read_file(FOLDER / name), outcome, amd=True) == "fail":
            found.append(f"{name}: {outcome if isinstance(outcome, str) else 'other results'}")
    return found


@pytest.mark.parametrize("device", TARGETS)
def test_a_tenth_of_the_files(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not problems(chosen(5 * TARGETS.index(device) + 1, PARTS), device, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("device", TARGETS)
@pytest.mark.parametrize("part", range(4))
def test_all_files(part: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not problems(chosen(part, 4), device, monkeypatch)
