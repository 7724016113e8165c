"""Environment variables: rows, values, refusals."""

from __future__ import annotations

import os
import subprocess
import sys

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


BAD = (
    ("CUTTLE_TIMEOUT", "nan"), ("CUTTLE_TIMEOUT", "inf"), ("CUTTLE_TIMEOUT", "-1"), ("CUTTLE_TIMEOUT", "1e300"),
    ("CUTTLE_COMPUTE_CAPABILITY", "86"), ("CUTTLE_COMPUTE_CAPABILITY", "8.65"), ("CUTTLE_COMPUTE_CAPABILITY", "²"),
    ("CUTTLE_DRIVER_VERSION", "0"), ("CUTTLE_DRIVER_VERSION", "99999.9"), ("CUTTLE_FAST_MATH", "ture"), ("CUTTLE_TIERS", "slow"),
    ("CUTTLE_CACHE_BYTES", "-1"), ("CUTTLE_COMPILE_WORKERS", "x"), ("CUTTLE_RDNA_SCHEDULE", "random:x"), ("CUTTLE_PRINTF_FIFO", "b"),
)  # fmt: skip
GOOD = (
    ("CUTTLE_TIMEOUT", "0.0001"), ("CUTTLE_COMPUTE_CAPABILITY", "12.1"), ("CUTTLE_DRIVER_VERSION", "13.3"), ("CUTTLE_CACHE", "No"),
    ("CUTTLE_RDNA_SCHEDULE", "random:7"), ("CUTTLE_DEVICE", "hip:3"), ("CUTTLE_THREADS", ""), ("CUDA_LAUNCH_BLOCKING", "3"),
)  # fmt: skip


@pytest.mark.parametrize("name,value", BAD)
def test_values_that_cannot_be(name: str, value: str) -> None:
    with pytest.raises(KnobError, match=f"{name}={value}: .* expected"):
        knobs.check_all({"PATH": "/bin", name: value})


def test_values_that_can_be() -> None:
    knobs.check_all(dict(GOOD))
    knobs.check_all({})


@pytest.mark.device
@pytest.mark.parametrize("name,value", [BAD[0], BAD[4], BAD[9], BAD[11], BAD[12], BAD[13]])
def test_a_start_with_a_bad_value_is_refused(name: str, value: str) -> None:
    """An error that names the variable; not a traceback when a kernel first needs it."""
    code = 'import ctypes; print(ctypes.CDLL("libcuda.so.1").cuInit(0))'
    done = subprocess.run(
        [sys.executable, "-m", "cuttle", "run", "--", sys.executable, "-c", code],
        env={**os.environ, name: value}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "1\n" and done.stderr.startswith(f"cuttle: error[CLI-0104]: {name}={value}: ")
    assert done.stderr.splitlines()[1:] == [f"  hint: `cuttle explain {name}`"]
