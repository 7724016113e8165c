"""The report of a self-test: one JSON file that says what a device can do, and the same as Markdown for people.

Nothing in it says who somebody is: what Cuttle writes is listed here, and messages of other programs go through `stack/redaction.py`. Reports come
from strangers: `read_report` checks everything before anybody believes it.
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from cuttle.abi.targets import BY_NAME
from cuttle.errors import CuttleError

ACCEPTED = Path(__file__).resolve().parent / "verified" / "cuttle"
SCHEMA: Literal["cuttle-selftest/1"] = "cuttle-selftest/1"
MOST_BYTES = 4 << 20
MOST_PROBLEMS = 2000
PARTS = ("programs", "files", "forms")

Line = Annotated[str, msgspec.Meta(max_length=600)]
Word = Annotated[str, msgspec.Meta(max_length=120)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Evidence = Literal["hardware", "unconfirmed hardware", "emulated", "cpu"]


class Trouble(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A test that did not pass, and why. `result`: `fail`, or `refused` (it says itself that it is not done)."""

    name: Word
    result: Literal["fail", "refused"]
    reason: Line


class PartReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One part: `programs` (driver-API programs), `files` (PTX file tests), `forms` (instruction forms). `left_out`: tests that do not
    apply there. `results`: values that were compared bit by bit, where they are counted."""

    name: Literal["programs", "files", "forms"]
    passed: Count
    refused: Count
    failed: Count
    left_out: Count
    results: Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e7)]
    troubles: Annotated[list[Trouble], msgspec.Meta(max_length=MOST_PROBLEMS)]


class SelftestReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run. `evidence`: `hardware` if HIP and the kernel driver name the same GPU target. `whole`: all of all parts was run."""

    schema: Literal["cuttle-selftest/1"]
    cuttle: Word
    date: datetime.date
    device: Word
    gpu: Word
    target: Word
    library: Word
    evidence: Evidence
    system: Word
    python: Word
    whole: bool
    parts: Annotated[list[PartReport], msgspec.Meta(max_length=len(PARTS))]

    @property
    def failed(self) -> int:
        return sum(part.failed for part in self.parts)

    @property
    def verifies(self) -> str:
        """The GPU target that this report verifies on hardware; empty if it does not."""
        complete = self.whole and [part.name for part in self.parts] == list(PARTS)
        good = complete and not self.failed and all(part.passed for part in self.parts)
        return self.target if good and self.evidence == "hardware" else ""


def encode_report(report: SelftestReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def read_report(path: Path) -> SelftestReport:
    """A report from a file that anybody may have written. Raises CuttleError STS-0101."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"it is longer than {MOST_BYTES} bytes")
        report = msgspec.json.decode(data, type=SelftestReport)
        check_report(report)
    except (OSError, ValueError, RecursionError) as error:
        raise CuttleError("STS-0101", f"{path.name}: {error}") from None
    return report


def check_report(report: SelftestReport) -> None:
    """What types do not say. Raises ValueError."""
    names = [part.name for part in report.parts]
    if len(set(names)) != len(names):
        raise ValueError("a part stands twice")
    for text in texts(report):
        if not text.isprintable():
            raise ValueError("a text has control characters")
    if report.evidence in ("hardware", "unconfirmed hardware", "emulated") and report.target not in BY_NAME:
        raise ValueError(f"there is no GPU target {report.target}")
    if not re.fullmatch(r"cpu|hip(:\d{1,3})?|rdna:gfx[0-9a-f]{3,5}", report.device):
        raise ValueError(f"there is no device {report.device}")
    kinds = {"cpu": ("cpu",), "rdna": ("emulated",), "hip": ("hardware", "unconfirmed hardware")}
    if report.evidence not in kinds[report.device.partition(":")[0]]:
        raise ValueError(f"{report.evidence} is no evidence of the device {report.device}")
    for part in report.parts:
        told = [sum(trouble.result == result for trouble in part.troubles) for result in ("fail", "refused")]
        if told != [part.failed, part.refused]:
            raise ValueError(f"the numbers of {part.name} do not fit its list")


def texts(report: SelftestReport) -> list[str]:
    found = [report.cuttle, report.device, report.gpu, report.target, report.library, report.system, report.python]
    return found + [
        text for part in report.parts for trouble in part.troubles for text in (trouble.name, trouble.reason)
    ]


def markdown(report: SelftestReport) -> str:
    """The report for people."""
    target = f", {report.target}" if report.target else ""
    lines = [
        f"# Self-test of Cuttle {report.cuttle}: {report.gpu}{target}", "",
        f"{report.date}, device `{report.device}`, {report.library or 'no library'}, {report.system}, Python {report.python}. "
        f"Evidence: {report.evidence}. " + ("All tests were run." if report.whole else "A selection of tests was run."), "",
        "| part | passed | refused | failed | left out | values compared | seconds |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for part in report.parts:
        lines.append(
            f"| {part.name} | {part.passed} | {part.refused} | {part.failed} | {part.left_out} | {part.results:,} | {part.seconds:.0f} |"
        )
    for part in report.parts:
        if part.troubles:
            lines += ["", f"## {part.name}", ""]
            worst_first = sorted(part.troubles, key=lambda trouble: (trouble.result, trouble.name))
            lines += [f"* {trouble.result}: `{trouble.name}`: {escaped(trouble.reason)}" for trouble in worst_first]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown does not interpret."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", text)


def accepted_reports(folder: Path = ACCEPTED) -> dict[str, list[tuple[str, SelftestReport]]]:
    """Target → (file name, report) of each report that verifies it, the newest first. Raises CuttleError STS-0101."""
    found: dict[str, list[tuple[str, SelftestReport]]] = {}
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        report = read_report(path)
        if report.verifies:
            found.setdefault(report.verifies, []).append((path.name, report))
    for reports in found.values():
        reports.sort(key=lambda row: row[1].date, reverse=True)
    return found
