"""Op forms compile for RDNA3 and RDNA4: op functions hold no intrinsics of another target.

By default an eighth of the forms; all of them: `pytest -m slow tests/ops/test_compile_amdgpu.py`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PARTS = 8
TARGETS = ("gfx1100", "gfx1200")


def compiled(target: str, part: int) -> int:
    """How many forms of a part compile; none may fail, or be refused but for what the device does not have."""
    script = str(Path(__file__).with_name("compile_amdgpu.py"))
    command = [sys.executable, script, target, str(part), str(PARTS)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    allowed = re.compile(
        "128-bit|matrix multiplication|a store to a kernel parameter|not there on this device|stores zeros only"
        "|clusters$|stacks of variable size"
    )
    refused = [line for line in result.stdout.splitlines() if line.startswith("refused") and not allowed.search(line)]
    assert not refused, refused
    found = re.search(r"compiled (\d+)", result.stdout)
    assert found, result.stdout
    return int(found[1])


@pytest.mark.parametrize("target", TARGETS)
def test_a_sample_of_forms_compiles(target: str) -> None:
    assert compiled(target, TARGETS.index(target)) > 200


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_forms_compile(target: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(lambda part: compiled(target, part), range(PARTS))) > 1500
