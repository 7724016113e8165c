"""Runs the command line as a person does: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cuttle = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cuttle(tmp_path: Path) -> Cuttle:
    """`cuttle("run", "--", "true")` → the finished process. Its cache folder is empty."""

    def run(*arguments: str, env: dict[str, str] | None = None, **settings: Any) -> subprocess.CompletedProcess[str]:
        variables = {name: value for name, value in os.environ.items() if not name.startswith("CUTTLE_")}
        variables["CUTTLE_CACHE_DIR"] = str(tmp_path / "cache")
        variables.update(env or {})
        return subprocess.run(
            [sys.executable, "-m", "cuttle", *arguments],
            capture_output=True,
            text=True,
            env=variables,
            timeout=120,
            check=False,
            **settings,
        )

    return run


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Makes an executable shell script and returns its path."""

    def make(text: str, name: str = "program") -> str:
        path = tmp_path / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return str(path)

    return make
