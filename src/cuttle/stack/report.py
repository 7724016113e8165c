"""`report`: one bundle of what is known of a machine and its stack, redacted, and a compatibility report in Markdown made of the same facts.

The grade is derived from the stored results, never asked for: detected < loads < refuses safely < correct < fast.
"""

from __future__ import annotations

import datetime
import io
import platform
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec

from cuttle import __version__
from cuttle.errors import CuttleError, StackError
from cuttle.stack.check import BAD, CheckResult
from cuttle.stack.compare_runs import BenchReport
from cuttle.stack.configurations import parse_configuration
from cuttle.stack.engine import configuration
from cuttle.stack.journal import Root
from cuttle.stack.machine import Machine, select
from cuttle.stack.probe import LADDER as PROBE_LADDER
from cuttle.stack.probe import ProbeReport
from cuttle.stack.redaction import Identity, redact, redact_document

# `probe` decides all rungs but the last, for which `bench` is needed.
LADDER = (*PROBE_LADDER, "fast")
Rung = Literal["nothing", "detected", "loads", "refuses safely", "correct", "fast"]
MOST_RESULT_BYTES = 16 << 20

Result = TypeVar("Result")


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The data of `report`. What was not run is None; `dates` are those of the stored results (UTC)."""

    schema: int = 1
    engine: str
    grade: Rung
    reasons: list[str]
    versions: dict[str, str]
    installed: dict[str, str]
    config: dict[str, Any]
    dates: dict[str, str]
    scan: Machine | None
    check: CheckResult | None
    probe: ProbeReport | None
    bench: BenchReport | None


def _stored(root: Root, verb: str, kind: type[Result], dates: dict[str, str]) -> Result | None:
    """The stored result of a verb. Raises STK-0703."""
    path = root.results / f"{verb}.json"
    try:
        with path.open("rb") as file:
            data = file.read(MOST_RESULT_BYTES + 1)
        changed = path.stat().st_mtime
        result = msgspec.json.decode(data, type=kind)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StackError("STK-0703", f"{path.name}: {error}") from None
    except OSError as error:
        raise StackError("STK-0703", f"{path.name}: {error.strerror}") from None
    dates[verb] = datetime.datetime.fromtimestamp(changed, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return result


def gather(root: Root) -> Facts:
    """What is stored below the root; nothing is run. Raises STK-0901 if there is nothing, STK-0703."""
    dates: dict[str, str] = {}
    scan = _stored(root, "scan", Machine, dates)
    check = _stored(root, "check", CheckResult, dates)
    probe = _stored(root, "probe", ProbeReport, dates)
    bench = _stored(root, "bench", BenchReport, dates)
    if scan is None and check is None and probe is None:
        raise StackError("STK-0901", f"{root.path} holds no results")
    record = root.installed()
    config = configuration(root)
    engine = check.engine if check is not None else record.engine or "cuttle"
    grade, reasons = grade_of(engine, scan, check, probe, bench)
    kept: dict[str, Any] = {}
    if config is not None:
        # No paths: which folders somebody uses is nobody's business.
        kept = {"profile": config.profile, "zluda_cc": config.zluda_cc, "hip_sdk_target": config.hip_sdk_target, "gpu_target": config.gpu.arch,
                "hip_visible_device": config.gpu.hip_visible_device, "upstream": config.upstream}  # fmt: skip
    versions = {"cuttle": __version__, "python": platform.python_version(), "processor": platform.machine()}
    if check is not None:
        versions[check.engine] = check.version
    return Facts(
        engine=engine,
        grade=grade,
        reasons=reasons,
        versions=versions,
        installed={
            name: f"{component.version}, SHA-256 {component.asset_sha256}"
            for name, component in record.components.items()
        },
        config=kept,
        dates=dates,
        scan=scan,
        check=check,
        probe=probe,
        bench=bench,
    )


def grade_of(
    engine: str, scan: Machine | None, check: CheckResult | None, probe: ProbeReport | None, bench: BenchReport | None
) -> tuple[Rung, list[str]]:
    """The rung that the results prove, and the facts that prove it."""
    grade: Rung = "nothing"
    reasons = []
    gpu = select(scan) if scan is not None else None
    if gpu is not None:
        grade = "detected"
        reasons.append(f"detected: {gpu.name} {gpu.target}")
    if check is not None:
        driver = next((found for found in check.libraries if found.library == "driver"), None)
        if driver is not None and driver.grade not in ("absent", "detected"):
            # One right answer of one kernel is no proof of more: the matrix of `probe` decides what lies above.
            grade = "loads"
            reasons.append(f"loads: the driver came as far as `{driver.step}` ({driver.state})")
        reasons += [f"{found.library}: {found.state}: {found.text}" for found in check.libraries if found.state in BAD]
    if probe is not None and probe.rung in LADDER and _engine_of(probe.configuration) == engine:
        grade = cast(Rung, probe.rung)
        passed, total = probe.counts.get("pass", 0), sum(probe.counts.values())
        reasons.append(f"{probe.rung}: {passed} of {total} tests of `probe` passed ({probe.front_end} front end)")
    if check is not None and any(found.state in BAD for found in check.libraries) and LADDER.index(grade) > 2:
        grade = "loads"
    if grade == "correct" and bench is not None and is_faster(engine, bench):
        grade = "fast"
        reasons.append(f"fast: {bench.workload}, {bench.a.configuration} against {bench.b.configuration}")
    return grade, reasons  # fmt: skip


def _engine_of(configuration_text: str) -> str:
    """The engine of a configuration of `probe` or `bench`; empty if it is none."""
    try:
        return parse_configuration(configuration_text).engine
    except CuttleError:
        return ""


def is_faster(engine: str, bench: BenchReport) -> bool:
    """Whether a comparison with another engine says that this one is faster at something and slower at nothing."""
    a, b = _engine_of(bench.a.configuration), _engine_of(bench.b.configuration)
    if a == b or engine not in (a, b):
        return False
    own, other = ("A", "B") if a == engine else ("B", "A")
    verdicts = [found.verdict for found in bench.metrics]
    return f"{own} is faster" in verdicts and f"{other} is faster" not in verdicts and "different" not in verdicts


# -- Markdown -----------------------------------------------------------------------------------------------------


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") or " "


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return [*head, *(f"| {' | '.join(map(_cell, row))} |" for row in rows), ""]


def markdown(facts: Facts, identity: Identity) -> str:
    """The compatibility report, redacted."""
    steps = " < ".join(f"**{step}**" if step == facts.grade else step for step in LADDER[1:])
    lines = [f"# Compatibility report: engine {facts.engine}", "", f"Grade: {steps}", ""]
    lines += [f"* {reason}" for reason in facts.reasons]
    lines += [
        "",
        "The grade follows from the results below. A GPU that was detected is no GPU that was proven to work.",
        "",
    ]
    versions = [(name, version) for name, version in {**facts.versions, **facts.installed}.items()]
    lines += ["## Versions", "", *_table(("part", "version"), versions)]
    if facts.scan is not None:
        lines += _machine_section(facts.scan, facts.engine, facts.dates["scan"])
    if facts.check is not None:
        rows = [(found.library, found.state, found.step, found.file, found.text) for found in facts.check.libraries]
        lines += [
            f"## Libraries ({facts.dates['check']})",
            "",
            *_table(("library", "result", "step", "file", "reason"), rows),
        ]
    if facts.probe is not None:
        counts = ", ".join(f"{count} {name}" for name, count in facts.probe.counts.items() if count)
        lines += [
            f"## Capabilities ({facts.dates['probe']})",
            "",
            f"{facts.probe.configuration}, front end {facts.probe.front_end}: {counts}.",
            "",
        ]
        rest = [(found.name, found.result, found.reason) for found in facts.probe.tests if found.result != "pass"]
        if rest:
            lines += _table(("test", "result", "reason"), rest)
    if facts.bench is not None:
        bench = facts.bench
        lines += [f"## Comparison ({facts.dates['bench']})", ""]
        sides = f"A = {bench.a.configuration}, B = {bench.b.configuration}"
        counts = f"{bench.trials} trials of {bench.iterations} iterations"
        lines += [f"`{bench.workload}` ({bench.size}): {sides}; {counts}.", ""]
        lines += _table(
            ("metric", "A median", "B median", "B - A", "noise", "verdict"),
            [
                (
                    found.metric,
                    f"{found.a.median:.5g}",
                    f"{found.b.median:.5g}",
                    f"{found.percent:+.1f} %",
                    f"± {found.noise_percent:.1f} %",
                    found.verdict,
                )
                for found in bench.metrics
            ],
        )
    for verb in ("scan", "check", "probe", "bench"):
        if verb not in facts.dates:
            lines.append(f"Not run: `cuttle stack {verb}`.")
    return redact("\n".join(lines).rstrip() + "\n", identity)  # fmt: skip


def _machine_section(machine: Machine, engine: str, date: str) -> list[str]:
    lines = [f"## Machine ({date})", ""]
    lines += [f"{machine.platform} {machine.os_version}{' (WSL)' if machine.wsl else ''}; /dev/kfd {machine.kfd}.", ""]
    rows: list[tuple[object, ...]] = []
    for gpu in machine.gpus:
        support = gpu.support.get(engine)
        memory = f"{gpu.memory_bytes / (1 << 30):.1f} GiB" if gpu.memory_bytes else ""
        rows.append(
            (
                gpu.name,
                gpu.target,
                memory,
                gpu.driver_version,
                support.state if support else "",
                support.evidence if support else "",
            )
        )
    if rows:
        lines += _table(("GPU", "target", "memory", "driver", "support", "evidence"), rows)
    else:
        lines += ["No AMD GPU.", ""]
    hip = ", ".join(f"{found.version or found.major} ({found.origin})" for found in machine.hip) or "none"
    lines += [f"HIP: {hip}.", ""]
    libraries: list[tuple[object, ...]] = [
        (found.name, found.state, found.version, found.problem) for found in machine.math_libraries
    ]
    if libraries:
        lines += _table(("library", "state", "version", "reason"), libraries)
    lines += [f"* {problem}" for problem in machine.problems]
    return [*lines, ""] if machine.problems else lines  # fmt: skip


def bundle(facts: Facts, identity: Identity) -> bytes:
    """A zip archive: report.md, and every result as redacted JSON. The same facts give the same bytes."""
    document = redact_document(msgspec.to_builtins(facts), identity)
    parts: dict[str, bytes] = {"report.md": markdown(facts, identity).encode()}
    for name in ("scan", "check", "probe", "bench"):
        if document[name] is not None:
            parts[f"{name}.json"] = _json(document[name])
    parts["config.json"] = _json(document["config"])
    parts["versions.json"] = _json(
        {name: document[name] for name in ("engine", "grade", "reasons", "versions", "installed", "dates")}
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(parts.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def bundle_name(folder: Path) -> Path:
    """A name in `folder` that is free: `cuttle-stack-report-2026-12-01.zip`, then with -2, -3 ..."""
    day = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    path = folder / f"cuttle-stack-report-{day}.zip"
    number = 1
    while path.exists():
        number += 1
        path = folder / f"cuttle-stack-report-{day}-{number}.zip"
    return path
