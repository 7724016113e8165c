"""Reports from stored results: grades that follow from facts, bundles that give nobody away."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import msgspec
import pytest

from cuttle.errors import StackError
from cuttle.stack.check import CheckResult, LibraryCheck, State
from cuttle.stack.compare import Comparison, Samples
from cuttle.stack.compare_runs import BenchReport, Side
from cuttle.stack.journal import Root
from cuttle.stack.machine import Machine
from cuttle.stack.probe import RESULTS, Finding, ProbeReport
from cuttle.stack.redaction import Identity
from cuttle.stack.report import bundle, bundle_name, gather, grade_of, is_faster, markdown
from cuttle.stack.scan import keep
from tests.stack.test_scan import scanned

SAMPLES = Samples(8, 10.0, 10.1, 0.2, 9.8, 10.3)


def checked(state: State = "correct", engine: str = "zluda", text: str = "") -> CheckResult:
    step = {"correct": "answer", "failed": "found", "wrong answer": "handle", "refused": "loads"}.get(state, "")
    driver = LibraryCheck("driver", state, step, "libcuda.so.1", text, 0.5)  # type: ignore[arg-type]
    return CheckResult(engine, "v6-preview.69", "linux", [driver])


def probed(rung: str, configuration: str = "zluda", reason: str = "") -> ProbeReport:
    counts = dict.fromkeys(RESULTS, 0) | {"pass": 40, "fail": 1}
    return ProbeReport(configuration, "own", rung, counts, [Finding("fft", "libraries", "fail", reason, 0.1)])


def benched(verdict: str, a: str = "zluda", b: str = "system") -> BenchReport:
    metric = Comparison("total_rate", SAMPLES, SAMPLES, 3.0, 1.0, verdict)
    return BenchReport("ppo", "full", 5, 2, Side(a, []), Side(b, []), [metric])


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return scanned("linux-9070xt", tmp_path / "machine")


@pytest.mark.parametrize(
    "check,probe,bench,grade",
    [
        (None, None, None, "detected"),
        (checked("failed"), None, None, "detected"),
        (checked("wrong answer"), None, None, "loads"),
        (checked(), None, None, "loads"),
        (checked(), probed("refuses safely"), None, "refuses safely"),
        (checked(), probed("correct"), None, "correct"),
        (checked(), probed("correct", "cuttle:cpu"), None, "loads"),
        (checked("wrong answer"), probed("correct"), None, "loads"),
        (checked(), probed("correct"), benched("noise"), "correct"),
        (checked(), probed("correct"), benched("A is faster"), "fast"),
        (checked(), probed("correct"), benched("B is faster"), "correct"),
        (checked(), probed("loads"), benched("A is faster"), "loads"),
    ],
)
def test_grades(
    machine: Machine, check: CheckResult | None, probe: ProbeReport | None, bench: BenchReport | None, grade: str
) -> None:
    found, reasons = grade_of("zluda", machine, check, probe, bench)
    assert found == grade
    assert reasons


def test_nothing_is_faster_than_itself() -> None:
    assert not is_faster("zluda", benched("A is faster", "zluda,ZLUDA_CC=8.0", "zluda"))
    assert not is_faster("cuttle", benched("A is faster"))
    assert is_faster("zluda", benched("B is faster", "system", "zluda"))
    assert not is_faster("zluda", benched("A is faster", "no such engine", "zluda"))


def store(root: Root, machine: Machine) -> None:
    secret = "/home/jane.doe/lib: token=abc123456"
    keep(root, "scan", machine)
    keep(root, "check", checked("wrong answer", text=secret))
    keep(root, "probe", probed("loads", reason=secret + " | with <b>markup</b>"))
    keep(root, "bench", benched("noise"))


def test_a_report(tmp_path: Path, machine: Machine) -> None:
    root = Root(tmp_path / "root")
    store(root, machine)
    text = markdown(gather(root), Identity())
    assert "Grade: detected < **loads** < refuses safely < correct < fast" in text
    assert "| AMD Radeon RX 9070 XT | gfx1201 | 15.9 GiB |" in text
    assert "unverified candidate" in text
    assert "`ppo` (full): A = zluda, B = system; 2 trials of 5 iterations." in text
    assert "jane" not in text and "abc123456" not in text
    assert "<b>" not in text, "what others wrote is text, not markup"
    assert "\\| with" in text


def test_a_bundle(tmp_path: Path, machine: Machine) -> None:
    root = Root(tmp_path / "root")
    store(root, machine)
    facts = gather(root)
    data = bundle(facts, Identity())
    assert data == bundle(facts, Identity()), "the same facts give the same bytes"
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        text = "\n".join(archive.read(name).decode() for name in names)
        versions = json.loads(archive.read("versions.json"))
    assert set(names) == {
        "report.md",
        "scan.json",
        "check.json",
        "probe.json",
        "bench.json",
        "config.json",
        "versions.json",
    }
    assert versions["grade"] == "loads"
    assert "jane" not in text and "abc123456" not in text and str(tmp_path) not in text


def test_results_of_others_are_checked(tmp_path: Path, machine: Machine) -> None:
    root = Root(tmp_path / "root")
    store(root, machine)
    for name, content in (("probe", b'{"rung": 5}'), ("check", b"{"), ("bench", b"\xff")):
        good = (root.results / f"{name}.json").read_bytes()
        (root.results / f"{name}.json").write_bytes(content)
        with pytest.raises(StackError) as caught:
            gather(root)
        assert caught.value.code == "STK-0703"
        (root.results / f"{name}.json").write_bytes(good)


def test_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(StackError) as caught:
        gather(Root(tmp_path))
    assert caught.value.code == "STK-0901"


def test_names_of_bundles(tmp_path: Path) -> None:
    first = bundle_name(tmp_path)
    first.touch()
    second = bundle_name(tmp_path)
    assert second.name == first.name.replace(".zip", "-2.zip")


def test_the_command(cuttle, tmp_path: Path, machine: Machine) -> None:
    root = tmp_path / "root"
    assert cuttle("stack", "report", "--root", str(root)).returncode == 1
    store(Root(root), machine)
    done = cuttle("stack", "report", "--root", str(root))
    assert done.stdout.startswith("# Compatibility report: engine zluda\n")
    out = tmp_path / "out.zip"
    document = json.loads(cuttle("stack", "report", "--root", str(root), "--output", str(out), "--json").stdout)
    assert document["data"]["grade"] == "loads"
    assert document["data"]["bundle"] == "out.zip"
    assert zipfile.is_zipfile(out)
    again = cuttle("stack", "report", "--root", str(root), "--output", str(out))
    assert "error[STK-0406]" in again.stderr
    msgspec.json.decode(json.dumps(document["data"]["scan"]), type=Machine)
