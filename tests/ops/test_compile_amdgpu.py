"""Every op form compiles for RDNA3 and RDNA4: op functions hold no intrinsics of another target."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PARTS = 2


@pytest.mark.parametrize("target", ["gfx1100", "gfx1200"])
def test_forms_compile(target: str) -> None:
    script = str(Path(__file__).with_name("compile_amdgpu.py"))
    workers = [
        subprocess.Popen(
            [sys.executable, script, target, str(part), str(PARTS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for part in range(PARTS)
    ]
    total = 0
    for worker in workers:
        output, errors = worker.communicate(timeout=300)
        assert worker.returncode == 0, errors[-2000:]
        found = re.search(r"compiled (\d+)", output)
        assert found, output
        total += int(found[1])
        refused = [line for line in output.splitlines() if line.startswith("refused") and "128-bit" not in line]
        assert not refused, refused
    assert total > 1500
