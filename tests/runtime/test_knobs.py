"""Environment variables: rows, values, refusals."""

from __future__ import annotations

import pytest

from cuttle.abi import knobs
from cuttle.abi.knobs import KNOBS, Knob, KnobError


def test_rows_are_sound() -> None:
    assert len({row.name for row in KNOBS}) == len(KNOBS)
    kinds = {"text", "path", "whole", "bytes", "seconds", "switch", "version", "choice"}
    assert all(row.kind in kinds and row.meaning for row in KNOBS)
    rows = {value for value in vars(knobs).values() if isinstance(value, Knob)}
    assert rows == set(KNOBS)
    with pytest.raises(AttributeError):
        KNOBS[0].name = "X"


@pytest.mark.parametrize(
    "text,value",
    [("", 0), ("5", 5), ("4g", 4 << 30), ("4G", 4 << 30), ("4GiB", 4 << 30), ("1.5g", 3 << 29), ("64k", 65536)],
)
def test_sizes(text: str, value: int) -> None:
    assert knobs.MEMORY.whole({"CUTTLE_MEMORY": text}) == value


@pytest.mark.parametrize("text", ["lots", "-1", "1.5", "g", "0x10"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(KnobError, match="CUTTLE_MEMORY"):
        knobs.MEMORY.whole({"CUTTLE_MEMORY": text})


def test_other_kinds() -> None:
    assert knobs.COMPUTE_CAPABILITY.version({}) == (8, 0)
    assert knobs.COMPUTE_CAPABILITY.version({"CUTTLE_COMPUTE_CAPABILITY": "9"}) == (9, 0)
    with pytest.raises(KnobError):
        knobs.COMPUTE_CAPABILITY.version({"CUTTLE_COMPUTE_CAPABILITY": "sm_80"})
    assert knobs.CACHE.switch({}) and not knobs.CACHE.switch({"CUTTLE_CACHE": "0"})
    assert knobs.TIMEOUT.seconds({"CUTTLE_TIMEOUT": "2.5"}) == 2.5
    with pytest.raises(KnobError):
        knobs.TIMEOUT.seconds({"CUTTLE_TIMEOUT": "soon"})
