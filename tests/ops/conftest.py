"""Puts this folder and the sources on the import path, wherever pytest was started."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).parent
for _folder in (_HERE, _HERE.parents[1] / "src"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))
