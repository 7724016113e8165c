"""`cuttle stack` as a person types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cuttle.cli.stack import STACK_VERBS
from tests.stack.release_server import ReleaseServer


def document(done: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["schema"] == "cuttle/1"
    assert found["exit_code"] == done.returncode
    return found


def manifest_file(server: ReleaseServer, folder: Path) -> Path:
    """A manifest whose Linux release is that of the test's server."""
    import msgspec

    from cuttle.stack.manifest import encode, load

    base = load("stable")
    path = folder / "mine.json"
    path.write_bytes(encode(msgspec.structs.replace(base, channel="mine", assets=[server.asset(platform="linux")])))
    return path


@pytest.mark.parametrize("name", sorted(STACK_VERBS))
def test_every_verb_has_help(cuttle, name: str) -> None:
    done = cuttle("stack", name, "--help")
    assert done.returncode == 0
    if name != "run":
        assert all(option in done.stdout for option in ("--json", "--quiet", "--verbose", "--color"))


def test_the_overview(cuttle) -> None:
    text = cuttle("stack", "--help").stdout
    assert all(f"  {name} " in text for name in STACK_VERBS)
    assert "  stack " in cuttle("--help").stdout
    assert cuttle("stack", "no-such-verb").returncode == 2


def test_a_life_of_an_installation(cuttle, server: ReleaseServer, tmp_path: Path) -> None:
    root = str(tmp_path / "stäck root")
    mine = str(manifest_file(server, tmp_path))
    scan = document(cuttle("stack", "scan", "--root", root, "--json"))
    assert scan["data"]["platform"] == "linux"
    assert [error["code"] for error in scan["errors"]] == ([] if scan["data"]["gpus"] else ["STK-0701"])
    plan = document(cuttle("stack", "plan", "--manifest", mine, "--root", root, "--json"))
    assert [asset["action"] for asset in plan["data"]["assets"]] == ["fetch"]
    assert plan["data"]["download_bytes"] == len(server.data)
    refused = cuttle("stack", "install", "--manifest", mine, "--root", root)
    assert refused.returncode == 1
    assert "error[STK-0407]" in refused.stderr
    installed = cuttle("stack", "install", "--manifest", mine, "--root", root, "--force")
    assert installed.returncode == 1, "the release of this test has text for a driver: the check afterwards says so"
    assert "error[STK-0801]: driver: failed after `found`" in installed.stderr
    assert "fetching release.zip" in installed.stderr
    again = document(cuttle("stack", "install", "--manifest", mine, "--root", root, "--force", "--no-check", "--json"))
    assert (again["exit_code"], again["data"]["check"]) == (0, None)
    assert again["data"]["changed"] == []
    assert document(cuttle("stack", "verify", "--root", root, "--json"))["data"]["differences"] == []
    (tmp_path / "stäck root/zluda-v6-preview.69/zluda/nvml.dll").write_bytes(b"bad")
    found = document(cuttle("stack", "verify", "--root", root, "--json"))
    assert (found["exit_code"], found["errors"][0]["code"]) == (1, "STK-0404")
    assert found["data"]["differences"] == [
        {"component": "zluda", "path": "zluda-v6-preview.69/zluda/nvml.dll", "what": "changed"}
    ]
    assert cuttle("stack", "uninstall", "--root", root).returncode == 0
    assert cuttle("stack", "verify", "--root", root).stderr.startswith("nothing is installed")


def test_what_has_no_hash_refuses(cuttle, tmp_path: Path) -> None:
    done = cuttle("stack", "install", "--root", str(tmp_path), "--force")
    assert done.returncode == 1
    assert "error[STK-0102]" in done.stderr
    assert "cuttle stack pin" in done.stderr


def test_pin_and_install(cuttle, server: ReleaseServer, tmp_path: Path) -> None:
    release = tmp_path / "release.zip"
    release.write_bytes(server.data)
    out = tmp_path / "pinned.json"
    made = cuttle(
        "stack", "pin", f"zluda={release}", "--url", f"zluda={server.url}", "--output", str(out), "--platform", "linux"
    )
    assert made.returncode == 0, made.stderr
    done = cuttle(
        "stack", "install", "--manifest", str(out), "--root", str(tmp_path / "root"), "--force", "--quiet", "--no-check"
    )
    assert done.returncode == 0, done.stderr
    assert (
        cuttle("stack", "pin", f"zluda={release}", "--url", f"zluda={server.url}", "--output", str(out)).returncode == 1
    )
    assert cuttle("stack", "pin", "zluda").returncode == 2
    served = len(server.requests)
    offline = (
        "stack",
        "install",
        "--manifest",
        str(out),
        "--root",
        str(tmp_path / "offline"),
        "--force",
        "--no-check",
        "--file",
    )
    assert cuttle(*offline, f"zluda={release}").returncode == 0
    assert len(server.requests) == served
    assert "error[STK-0104]" in cuttle(*offline, f"cudnn={release}").stderr


def test_the_folder_is_a_knob(cuttle, tmp_path: Path) -> None:
    done = cuttle("stack", "install", "--engine", "cuttle", env={"CUTTLE_STACK_DIR": str(tmp_path / "here")})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here/runtime-config.json").exists()


def test_a_scan_that_cannot_be_stored_still_answers(cuttle, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    done = cuttle("stack", "scan", "--root", str(tmp_path / "file/below"))
    assert "system" in done.stdout
    assert "not stored" in done.stderr


def test_json_is_one_document_also_on_errors(cuttle, tmp_path: Path) -> None:
    for arguments in (
        ("plan", "--channel", "nightly"),
        ("verify", "no-such-component"),
        ("install", "--manifest", "/nonexistent.json"),
    ):
        found = document(cuttle("stack", *arguments, "--root", str(tmp_path), "--json"))
        assert found["status"] == "error"
        assert found["errors"][0]["code"].startswith("STK-")
        assert found["command"] == f"stack {arguments[0]}"


HEAVY = {"httpx2", "stamina", "numpy", "llvmlite", "elftools", "rich", "asyncio", "ssl"}


@pytest.mark.parametrize("name", ["scan", "plan", "report", "stage"])
def test_answers_from_stored_results_import_nothing_heavy(tmp_path: Path, name: str) -> None:
    """What keeps them below 0.3 s: 0.1 to 0.25 s were measured."""
    (tmp_path / "program").mkdir()
    subprocess.run(
        [sys.executable, "-m", "cuttle", "stack", "scan", "--root", str(tmp_path)], capture_output=True, check=False
    )
    arguments = [
        "--root",
        str(tmp_path),
        *([str(tmp_path / "program"), "--engine", "cuttle"] if name == "stage" else []),
    ]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "cuttle", "stack", name, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr
    lines = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert len(lines) > 50
    assert not {line.partition(".")[0] for line in lines} & HEAVY


@pytest.mark.parametrize("name", ["scan", "plan", "install", "verify", "uninstall", "doctor", "check"])
def test_json_has_the_documented_form(cuttle, tmp_path: Path, name: str) -> None:
    """The page docs/reference/stack-json.md is generated from these types."""
    import msgspec

    from tools.generate_stack_docs import RESULTS

    engine = ["--engine", "cuttle"] if name in ("plan", "install", "doctor", "check") else []
    found = document(cuttle("stack", name, *engine, "--root", str(tmp_path), "--json"))
    kind = RESULTS[name][0]
    assert msgspec.to_builtins(msgspec.convert(found["data"], kind, strict=True)) == found["data"]


def test_every_verb_is_documented() -> None:
    from tools.generate_stack_docs import RESULTS

    assert set(RESULTS) == set(STACK_VERBS) - {"run"}
