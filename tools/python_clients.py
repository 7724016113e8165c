"""Runs the test suites of Python CUDA packages on Cuttle's CPU device and writes docs/reference/python_clients.md.

    python tools/python_clients.py [--sources FOLDER] [--timeout SECONDS] [NAME ...]
    python tools/python_clients.py --page-only

Each package gets a virtual environment under build/python_clients and runs under `cuttle run`; tests that are not part of a
package come from its repository (git, the release's tag), or from FOLDER/NAME if --sources is given. What a run finds is kept
as build/python_clients/NAME.json; the page is written from all of these. Exit code 1: a failure without a known reason.

Nothing here belongs to Cuttle's own tests: the packages need the network, and some need compilers of NVIDIA's (NVRTC, NVVM).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.python_client_rows import BY_HAND, CLIENTS, Client

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "python_clients"
PAGE = ROOT / "docs" / "reference" / "python_clients.md"
UNEXPLAINED = "not explained yet"


def environment_of(client: Client) -> Path:
    """The client's virtual environment, made and filled if it is not there."""
    folder = BUILD / f"{client.name}-venv"
    done = folder / "installed.txt"
    wanted = "\n".join((*client.packages, *client.bare))
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return folder
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, *client.packages], check=True)
    if client.bare:
        subprocess.run([*pip, "--no-deps", *client.bare], check=True)
    done.write_text(wanted, encoding="utf-8")
    return folder


def tests_of(client: Client, sources: Path | None) -> Path:
    """The checkout with the client's tests."""
    if not client.repository:
        return BUILD
    if sources is not None:
        return sources / client.name
    folder = BUILD / f"{client.name}-{client.tag}"
    if not folder.exists():
        clone = ["git", "clone", "-q", "--depth", "1", "--branch", client.tag, client.repository, str(folder)]
        subprocess.run(clone, check=True)
    return folder


def run(client: Client, sources: Path | None, limit: float) -> dict[str, Any]:
    """Runs the client's tests; what they found."""
    venv = environment_of(client)
    site: Path = next((venv / "lib").glob("python3*")) / "site-packages"
    xml = BUILD / f"{client.name}.xml"
    xml.unlink(missing_ok=True)
    fields = {"tests": tests_of(client, sources), "site": site, "xml": xml, "build": BUILD, "tools": ROOT / "tools"}
    own = dict(os.environ, PYTHONPATH=str(ROOT / "src"))
    settings = [f"{name}={value.format(**fields)}" for name, value in client.environment.items()]
    inner = [str(venv / "bin" / "python"), *(part.format(**fields) for part in client.command)]
    # LD_LIBRARY_PATH belongs to `cuttle run`, which puts its own folder before.
    for setting in settings:
        if setting.startswith("LD_LIBRARY_PATH="):
            own["LD_LIBRARY_PATH"] = setting.partition("=")[2]
    inside = [
        "env",
        "-u",
        "PYTHONPATH",
        *(setting for setting in settings if not setting.startswith("LD_LIBRARY_PATH=")),
    ]
    command = [sys.executable, "-m", "cuttle", "run", *client.options, "--", *inside, *inner]
    start = time.monotonic()
    with (BUILD / f"{client.name}.log").open("w", encoding="utf-8") as log:
        folder = client.folder.format(**fields)
        stopped = False
        with subprocess.Popen(
            command, cwd=folder, env=own, stdout=log, stderr=subprocess.STDOUT, preexec_fn=heed_interrupts
        ) as process:
            try:
                process.wait(limit)
            except subprocess.TimeoutExpired:
                stopped = True
                process.send_signal(signal.SIGINT)  # pytest writes what it has
                try:
                    process.wait(120)
                except subprocess.TimeoutExpired:
                    process.kill()
    if not xml.exists():
        raise SystemExit(f"{client.name}: no result; see {BUILD / client.name}.log")
    return {**read(client, xml), "stopped": stopped, "seconds": round(time.monotonic() - start), **origin()}


def heed_interrupts() -> None:
    """A shell's background jobs ignore SIGINT, and so would the tests."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def read(client: Client, xml: Path) -> dict[str, Any]:
    """Counts and reasons from a JUnit file."""
    counts: Counter[str] = Counter()
    reasons: dict[str, list[str]] = {}
    for case in ElementTree.parse(xml).iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        bad = [child for child in case if child.tag in ("failure", "error")]
        if bad:
            counts["failed"] += 1
            text = " ".join([name, *(f"{child.get('message', '')} {child.text or ''}" for child in bad)])
            found = next((reason.text for reason in client.reasons if re.search(reason.pattern, text)), UNEXPLAINED)
            reasons.setdefault(found, []).append(name)
        elif case.find("skipped") is not None:
            counts["skipped"] += 1
        else:
            counts["passed"] += 1
    return {"counts": {name: counts[name] for name in ("passed", "failed", "skipped")}, "reasons": reasons}


def origin() -> dict[str, str]:
    """Day and commit of a run."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {"date": datetime.now(UTC).date().isoformat(), "commit": commit.stdout.strip()}


def page(results: dict[str, dict[str, Any]]) -> str:
    """The page, from the results of all clients that have one."""
    lines = [
        "<!-- written by tools/python_clients.py; do not edit -->",
        "# Python packages that nobody here wrote",
        "",
        "Public Python packages for CUDA, as released, with their own tests on Cuttle's CPU device. `python",
        "tools/python_clients.py` makes the environments, runs everything and writes this page.",
        "",
        "| package | tests | passed | failed | skipped | run |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    notes = []
    for client in CLIENTS:
        result = results.get(client.name)
        if result is None:
            continue
        counts = result["counts"]
        duration = f"stopped after {result['seconds']} s" if result["stopped"] else f"{result['seconds']} s"
        lines.append(
            f"| {client.package} | {client.selection} | {counts['passed']} | {counts['failed']} | {counts['skipped']} | "
            f"{result['date']}, commit {result['commit']}, {duration} |"
        )
        if result["reasons"]:
            notes += ["", f"**{client.package}**", ""]
            notes += [f"* {len(names)}: {reason}" for reason, names in sorted(result["reasons"].items())]
    lines += [
        "",
        "Skipped tests are skipped by the suites themselves (other back ends, packages that are not installed).",
    ]
    if notes:
        lines += ["", "## Why tests fail", *notes]
    lines += ["", "## Commands", ""]
    for client in CLIENTS:
        settings = "".join(f"{name}={value} " for name, value in client.environment.items())
        options = "".join(f"{option} " for option in client.options)
        quoted = " ".join(f"'{part}'" if " " in part else part for part in client.command)
        lines.append(f"* **{client.name}**: `{settings}cuttle run {options}-- python {quoted}`")
    lines += ["", "## Built and run by hand", ""]
    for one in BY_HAND:
        lines.append(f"* **{one.package}**, {one.built}: {one.result}. `{one.command}`")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Runs what is asked for, writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, help="folder with checkouts, named as the clients, instead of git")
    parser.add_argument("--timeout", type=float, default=7200, help="seconds for one client")
    parser.add_argument("--page-only", action="store_true", help="run nothing, write the page from earlier results")
    parser.add_argument("names", nargs="*", choices=[*(client.name for client in CLIENTS), []], help="default: all")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    wanted = [] if options.page_only else [c for c in CLIENTS if not options.names or c.name in options.names]
    for client in wanted:
        result = run(client, options.sources, options.timeout)
        (BUILD / f"{client.name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(
            client.name,
            result["counts"],
            {reason: len(names) for reason, names in result["reasons"].items()},
            flush=True,
        )
    kept = {client.name: BUILD / f"{client.name}.json" for client in CLIENTS}
    results = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in kept.items() if path.exists()}
    PAGE.write_text(page(results), encoding="utf-8")
    return int(any(UNEXPLAINED in results[client.name]["reasons"] for client in wanted))


if __name__ == "__main__":
    sys.exit(main())
