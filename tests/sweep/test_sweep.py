"""Sweeps on the CPU device: verdicts, wrong recordings that must be found, going on after a kill, the Dask farm."""

from __future__ import annotations

import json
import lzma
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cuttle.client import build
from cuttle.errors import SweepError
from cuttle.sweep import golden
from cuttle.sweep.device_runs import outcome_of_refusal
from cuttle.sweep.domains import Item
from cuttle.sweep.run import Choice, sweep
from cuttle.sweep.session import Session
from cuttle.sweep.store import Store

pytestmark = pytest.mark.device
SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture(autouse=True, scope="module")
def _client() -> None:
    build.build()


def tampered(folder: Path, name: str, form: str, byte: int) -> Path:
    """A folder with one recording in which the results of one form are wrong from a byte on."""
    head, _, body = lzma.decompress((golden.FOLDER / name).read_bytes()).partition(b"\n")
    at = 0
    for item in json.loads(head)["forms"]:
        if item["form"] == form:
            break
        at += item["bytes"]
    wrong = bytearray(body)
    wrong[at + byte] ^= 1
    (folder / name).write_bytes(lzma.compress(head + b"\n" + bytes(wrong), preset=0))
    return folder


def excerpt(folder: Path, name: str, pattern: str) -> Path:
    """A folder with the part of a recording whose forms match: workers read it at once."""
    head, _, body = lzma.decompress((golden.FOLDER / name).read_bytes()).partition(b"\n")
    header = json.loads(head)
    forms, results, at = [], b"", 0
    for item in header["forms"]:
        if re.search(pattern, item["form"]):
            forms.append(item)
            results += body[at : at + item["bytes"]]
        at += item["bytes"]
    text = json.dumps({**header, "forms": forms}).encode()
    (folder / name).write_bytes(lzma.compress(text + b"\n" + results, preset=0))
    return folder


def test_exact_forms(tmp_path: Path) -> None:
    choice = Choice(domains=("golden", "second"), pattern=r"^(add\.s32|mul\.hi\.u64|addc\.cc\.u32|ex2\.approx\.f32)$")
    seen: list[tuple[int, int]] = []
    report = sweep(choice, tmp_path / "r.sqlite", watch=lambda done, total, form, share: seen.append((done, total)))
    assert [verdict.outcome for verdict in report.verdicts] == ["exact"] * 8
    assert {verdict.elements for verdict in report.verdicts} == {512}
    assert report.good and report.known == 0 and seen[-1] == (8, 8)
    again = sweep(choice, tmp_path / "r.sqlite")
    assert again.known == 8 and again.verdicts == report.verdicts


def test_a_difference_is_found_and_named(tmp_path: Path) -> None:
    folder = tampered(tmp_path, "golden_ptx.xz", "fma.rn.f32", 40 * 4)
    choice = Choice(pattern=r"^fma\.rn(\.ftz)?\.f32$", folder=folder)
    report = sweep(choice, tmp_path / "r.sqlite")
    right, wrong = sorted(report.verdicts, key=lambda verdict: verdict.outcome == "differs")
    assert (right.form, right.outcome) == ("fma.rn.ftz.f32", "exact")
    assert (wrong.form, wrong.outcome, wrong.differing, wrong.max_ulp) == ("fma.rn.f32", "differs", 1, 1)
    assert wrong.first.startswith("(0x") and ", expected 0x" in wrong.first
    assert not report.good


def test_exhaustive(tmp_path: Path) -> None:
    names = r"^(cvt\.f32\.f16|tanh\.approx\.bf16|not\.b16|cvt\.f64\.f16|cvt\.rni\.u8\.f16)$"
    choice = Choice(domains=("exhaustive",), pattern=names)
    report = sweep(choice, tmp_path / "r.sqlite")
    assert {(v.outcome, v.elements) for v in report.verdicts} == {("exact", 65536)} and len(report.verdicts) == 5
    folder = tampered(tmp_path, "digests_ptx.xz", "not.b16", 3 * 8)
    wrong = sweep(
        Choice(domains=("exhaustive",), pattern=r"^not\.b16$", folder=folder), tmp_path / "w.sqlite"
    ).verdicts[0]
    assert (wrong.outcome, wrong.differing) == ("differs", 1)
    assert wrong.first == "between operands 0x3000 and 0x3fff"


def test_digest_of_known_results(tmp_path: Path) -> None:
    """The sums of `sweep/exhaustive.py`, computed here from its description."""
    from cuttle.sweep.exhaustive import recorded_digests

    record = next(item for item in recorded_digests() if item.form.name == "not.b16")
    x = y = 0
    for value in range(4096):
        result = ~value & 0xFFFF
        mixed = (result ^ value) * 0x9E3779B1 & 0xFFFFFFFF
        x += mixed ^ mixed >> 15
        y += result * (value | 1)
    assert record.blocks[0] == (y & 0xFFFFFFFF) << 32 | x & 0xFFFFFFFF


def test_matrix_and_reference(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="the domain `reference` needs NumPy")
    choice = Choice(
        domains=("matrix", "matrix-second", "reference"),
        pattern=r"^(mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.f16\.f16\.f32|rcp\.approx\.ftz\.f32|sqrt\.rn\.f32)$",
    )
    verdicts = {(v.domain, v.form.split(".")[0]): v for v in sweep(choice, tmp_path / "r.sqlite").verdicts}
    assert verdicts["matrix", "mma"].outcome == verdicts["matrix-second", "mma"].outcome == "exact"
    assert verdicts["reference", "rcp"].outcome == "ulp" and 0.5 < verdicts["reference", "rcp"].max_ulp <= 1
    assert verdicts["reference", "sqrt"].outcome == "exact" and verdicts["reference", "sqrt"].max_ulp <= 0.5


def test_cells(tmp_path: Path) -> None:
    """Float atomics differed from the H200 in what they flush and in NaNs; loads, stores and the rest for good measure."""
    pattern = r"^(atom|red)(\.shared|\.global)?\.(add\.(f32|f64|v2\.f32|noftz\.bf16)|min\.noftz\.v4\.f16x2|max\.noftz\.v8\.bf16)$"
    choice = Choice(domains=("cells", "cells-second"), pattern=pattern + r"|^(ld|st)\.(v2\.s8|b128|shared\.v4\.u16)$")
    report = sweep(choice, tmp_path / "r.sqlite")
    assert {verdict.outcome for verdict in report.verdicts} == {"exact"} and len(report.verdicts) > 60
    folder = tampered(tmp_path, "cells_ptx.xz", "st.b32", 128 * 32 - 1)
    wrong = sweep(Choice(domains=("cells",), pattern=r"^st\.b32$", folder=folder), tmp_path / "w.sqlite").verdicts[0]
    assert (wrong.outcome, wrong.differing) == ("differs", 1) and "cell " in wrong.first


def test_refused_forms_say_so(tmp_path: Path) -> None:
    """A recording of a form that the list refuses."""
    head = {"seed": 1, "forms": [{"form": "fma.rz.bf16", "count": 512, "bytes": 1024}]}
    (tmp_path / "golden_ptx.xz").write_bytes(lzma.compress(json.dumps(head).encode() + b"\n" + bytes(1024)))
    report = sweep(Choice(folder=tmp_path), tmp_path / "r.sqlite")
    assert report.verdicts[0].outcome == "refused" and "PTX-0511" in report.verdicts[0].text
    assert report.good


def test_a_refusal_without_a_rule_is_a_failure() -> None:
    """Parts of registers in video instructions were once refused by mistake, and sweeps said nothing."""
    assert outcome_of_refusal("PTX-0304: vadd.s32.s32.s32: operand is not supported here") == "failed"
    assert outcome_of_refusal("PTX-0511: fma.rz.bf16 has no answer") == "refused"
    assert outcome_of_refusal("CUDA_ERROR_INVALID_PTX") == "refused"


def test_a_matrix_recording_with_too_many_calls_is_refused(tmp_path: Path) -> None:
    """The kernel would write a thousand calls' results into a buffer for one."""
    name = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
    head = {"seed": 1, "forms": [{"form": name, "calls": 1000, "bytes": 512}]}
    (tmp_path / "golden_mma.xz").write_bytes(lzma.compress(json.dumps(head).encode() + b"\n" + bytes(512)))
    with pytest.raises(SweepError) as error:
        sweep(Choice(domains=("matrix",), folder=tmp_path), tmp_path / "r.sqlite")
    assert error.value.code == "SWP-0101" and "number of calls" in error.value.message


def test_a_form_that_ends_the_worker_has_failed(tmp_path: Path) -> None:
    session = Session("cpu")
    try:
        session.start()
        assert session._process is not None
        session._process.kill()
        session._process.wait()
        verdicts = session.run([Item("golden", "add.s32"), Item("golden", "sub.s32")])
        assert [verdict.outcome for verdict in verdicts] == ["exact", "exact"]  # tried again alone, on a fresh worker
    finally:
        session.close()


# Python imports `sitecustomize` from PYTHONPATH before anything else. This one puts another instruction into the kernels of
# some forms, or ends the device process when the kernel of one is made, in the worker alone.
PLANTED = """
import sys
if sys.orig_argv[1:3] == ["-m", "cuttle.sweep.worker"]:
    import os, signal
    from pathlib import Path
    from cuttle.sweep import device_runs

    def planted(form, name, right=device_runs.kernel):
        text = right(form, name)
        if form.name == "and.b32":
            return text.replace(form.text, "or.b32 %d0, %s0, %s1;")
        if form.name == "or.b32":
            return text.replace(form.text, "trap;")
        if form.name == "xor.b32":
            return text.replace(form.text, "$again: ld.volatile.global.b32 %d0, [%a]; bra $again;")
        if form.name == "not.b32":
            children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            assert children
            for child in children:
                os.kill(int(child), signal.SIGKILL)
        if form.name == "cnot.b32":
            os.kill(os.getpid(), signal.SIGKILL)
        return text

    device_runs.kernel = planted
"""


def test_what_hangs_fails_or_crashes_costs_its_own_form_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch with a wrong instruction, a trap, an endless loop, the death of the device process and of the worker."""
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    results = tmp_path / "r.sqlite"
    folder = excerpt(tmp_path, golden.PTX.name, r"^(and|or|xor|not|cnot)\.b(16|32)$")
    choice = Choice(folder=folder, timeout=20)
    report = sweep(choice, results)
    found = {verdict.form: verdict for verdict in report.verdicts}
    assert {form: verdict.outcome for form, verdict in found.items()} == {
        "and.b16": "exact", "or.b16": "exact", "xor.b16": "exact", "not.b16": "exact", "cnot.b16": "exact",
        "and.b32": "differs", "or.b32": "failed", "xor.b32": "hung", "not.b32": "crashed", "cnot.b32": "crashed",
    }  # fmt: skip
    assert not report.good
    wrong = found["and.b32"]
    given, answers = wrong.first.split("): ")
    left, right = (int(text, 16) for text in given[1:].split())
    ours, theirs = (int(text, 16) for text in answers.split(", expected "))
    assert ours == left | right and theirs == left & right and wrong.differing > 100
    assert "cuCtxSynchronize answered" in found["or.b32"].text and "20 s" in found["xor.b32"].text
    assert found["xor.b32"].seconds >= 20 and found["cnot.b32"].text
    # The device is well again: hung and crashed forms have another try, the others are known.
    monkeypatch.undo()
    again = sweep(choice, results)
    assert again.known == 7
    assert {verdict.form for verdict in again.verdicts if verdict.outcome != "exact"} == {"and.b32", "or.b32"}


def test_a_device_that_does_not_start_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\nif sys.orig_argv[1:3] == ['-m', 'cuttle.sweep.worker']: time.sleep(1000)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    with pytest.raises(SweepError) as error:
        Session("cpu", timeout=3).start()
    assert error.value.code == "SWP-0105" and "within 3 s" in error.value.message


def run_verb(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "cuttle", "sweep", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def test_a_killed_sweep_goes_on(tmp_path: Path) -> None:
    results = tmp_path / "r.sqlite"
    choice = ("--form", r"^(min|max)\.", "--results", str(results))
    first = run_verb(*choice, start_new_session=True)
    limit = time.monotonic() + 120
    known = 0
    while not known and first.poll() is None and time.monotonic() < limit:
        time.sleep(0.2)
        if results.exists():
            try:
                store = Store(results, {})
                known = len(store.verdicts())
                store.close()
            except Exception:
                continue  # it is being made
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert known >= 32
    second = run_verb(*choice, "--json")
    out, _ = second.communicate(timeout=300)
    document = json.loads(out)
    assert second.returncode == 0 and document["data"]["known"] >= known
    assert document["data"]["counts"]["exact"] == len(document["data"]["verdicts"]) > 60


def test_verb(tmp_path: Path) -> None:
    listed = run_verb("--list", "--form", r"^add\.s32$", "--json").communicate(timeout=60)[0]
    assert json.loads(listed)["data"]["items"] == [{"domain": "golden", "form": "add.s32"}]
    folder = tampered(tmp_path, "golden_ptx.xz", "add.s32", 0)
    results = str(tmp_path / "r.sqlite")
    process = run_verb("--form", r"^(add|sub)\.s32$", "--golden", str(folder), "--results", results)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1 and "1 exact" in out and "1 differs" in out and "expected" in out
    assert "error[SWP-0301]" in err
    for arguments, code in (
        (("--shard", "3/2"), "SWP-0104"),
        (("--device", "gpu"), "CLI-0104"),
        (("--form", "^x$"), "SWP-0102"),
    ):
        process = run_verb(*arguments, "--results", results)
        assert code in process.communicate(timeout=60)[1] and process.returncode in (1, 2)


def test_farm(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra `farm` is not installed")
    choice = Choice(domains=("golden",), pattern=r"^(and|or|xor|shl|shr)\.")
    report = sweep(choice, tmp_path / "r.sqlite", farm="local")
    assert len(report.verdicts) > 20 and {verdict.outcome for verdict in report.verdicts} == {"exact"}
