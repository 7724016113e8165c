"""Texture and surface references (`cuModuleGetTexRef` and what goes with it), as an NVIDIA H200 answered."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from cuttle.client import build

pytestmark = pytest.mark.device

SCRIPT = Path(__file__).parent / "references.py"
RECORDED = {
    "same": True,
    "no such": 500,
    "nearest": [
        0,
        8,
        1091567616,
        8,
        1099956224,
        8,
        1104674816,
        8,
        1108344832,
        8,
        1110704128,
        8,
        1113063424,
        8,
        1115422720,
        8,
    ],
    "linear": [
        0,
        8,
        1083179008,
        8,
        1096286208,
        8,
        1102315520,
        8,
        1107034112,
        8,
        1109524480,
        8,
        1111883776,
        8,
        1114243072,
        8,
    ],
    "wrapped": [
        1107034112,
        8,
        1107034112,
        8,
        1107034112,
        8,
        1107034112,
        8,
        1107034112,
        8,
        1107034112,
        8,
        1107034112,
        8,
        1107034112,
        8,
    ],
    "pitched": [
        0,
        8,
        1124139008,
        8,
        1132527616,
        8,
        1136754688,
        8,
        1140916224,
        8,
        1143029760,
        8,
        1145143296,
        8,
        1147256832,
        8,
    ],
    "offset": 0,
    "format": [1, 4],
    "painted": [
        1090519040,
        1090519041,
        1091567616,
        1091567617,
        1092616192,
        1092616193,
        1093664768,
        1093664769,
        1094713344,
        1094713345,
        1095761920,
        1095761921,
        1096810496,
        1096810497,
        1097859072,
        1097859073,
    ],
    "read back": [
        0,
        8,
        1091567617,
        8,
        1099956224,
        8,
        1104674816,
        8,
        1108344832,
        8,
        1110704128,
        8,
        1113063424,
        8,
        1115422720,
        8,
    ],
}


def linear_memory() -> list[int]:
    """Bytes 2 and 3 of eight floats, each as a part of 255."""
    data = struct.pack("<8f", *range(8))
    parts = [data[4 * i + k] / 255 for i in range(8) for k in (2, 3)]
    return list(struct.unpack("<16I", struct.pack("<16f", *parts)))


@pytest.mark.parametrize("knobs", [{}, {"CUTTLE_PLAIN": "1"}], ids=["warps", "plain"])
def test_references(knobs: dict[str, str]) -> None:
    build.build()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(build.LIB), "CUTTLE_PYTHON": sys.executable, **knobs}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert seen.pop("device").startswith("Cuttle")
    assert seen.pop("linear memory") == linear_memory()
    assert seen == RECORDED
