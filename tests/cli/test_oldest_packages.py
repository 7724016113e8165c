"""The command line with the oldest packages that pyproject.toml promises. `tools/test.sh` installs them to build/oldest-packages."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from cuttle.cli.command_line import VERBS
from cuttle.cli.stack import STACK_VERBS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "oldest-packages"


@pytest.fixture
def oldest() -> dict[str, str]:
    if not (FOLDER / "done").exists():
        pytest.skip(f"the oldest packages are not in {FOLDER}: tools/test.sh installs them")
    return {"PYTHONPATH": os.pathsep.join((str(FOLDER), os.environ.get("PYTHONPATH", "")))}


def test_what_is_installed_is_what_is_promised() -> None:
    promised = dict(
        re.findall(r'"([\w.-]+)>=([\d.]+)"', (ROOT / "pyproject.toml").read_text().partition("[project.optional")[0])
    )
    installed = dict(
        re.findall(
            r"([\w-]+)==([\d.]+)", re.search(r'--target "\$oldest" (.*)', (ROOT / "tools/test.sh").read_text())[1]
        )
    )  # type: ignore[index]
    assert installed and all(f"{version}.0".startswith(f"{promised[name]}.") for name, version in installed.items())


def test_every_verb_loads(cuttle: Any, oldest: dict[str, str]) -> None:
    for arguments in (*((name,) for name in VERBS), *(("stack", name) for name in STACK_VERBS)):
        done = cuttle(*arguments, "--help", env=oldest)
        assert done.returncode == 0 and done.stderr == "" and "Usage: cuttle" in done.stdout, arguments


def test_usage_results_and_tables(cuttle: Any, oldest: dict[str, str]) -> None:
    code = "import click, rich, importlib.metadata as m; print(m.version('click'), m.version('rich'))"
    assert cuttle("run", "--", "python3", "-c", code, env=oldest).stdout == "8.1.0 13.7.0\n"
    for arguments in (
        ("nosuch",),
        ("explain", "--nosuch"),
        ("info", "--query", "x"),
        ("compile", "x", "--block-shape", "a"),
    ):
        done = cuttle(*arguments, env=oldest)
        assert done.returncode == 2 and done.stderr.startswith("error[CLI-"), done.stderr
        assert json.loads(cuttle(*arguments, "--json", env=oldest).stdout)["exit_code"] == 2
    assert "PTX-0101  unexpected text" in cuttle("explain", env=oldest).stdout
    assert "click" not in cuttle("explain", "--color", "always", "PTX-0101", env=oldest).stderr
    assert cuttle("doctor", "python", env=oldest).returncode == 0
    julia = str(ROOT / "src" / "cuttle" / "cli" / "julia.ptx")
    assert "entry draw" in cuttle("compile", julia, "--emit", "ir", "--block-shape", "16,16", env=oldest).stdout
