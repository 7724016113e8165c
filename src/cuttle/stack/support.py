"""What may be said of a GPU under an engine. Detecting an architecture is never called proof.

*Verified on hardware* takes an accepted report (none yet), whose date and name are the evidence: for Cuttle that of `cuttle selftest`
(`verified/cuttle/`, `selftest_report.py`), for ZLUDA one of its own (`verified/zluda/`). *Emulated*: CI executes the code objects that
Cuttle makes for this target in its emulator. Everything else that could work is an *unverified candidate*.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Literal

import msgspec

from cuttle.abi.knobs import DEVICE
from cuttle.abi.targets import BY_NAME
from cuttle.errors import StackError
from cuttle.stack.machine import Support, Target, sentence
from cuttle.stack.selftest_report import accepted_reports

VERIFIED_FOLDER = Path(__file__).resolve().parent / "verified"


class VerifiedReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report of ZLUDA on somebody's machine that maintainers accepted: `correct` on the ladder or better."""

    engine_version: str
    target: Target
    gpu: str
    platform: Literal["windows", "linux"]
    date: datetime.date
    grade: Literal["correct", "fast"]


def zluda_reports(folder: Path) -> dict[str, tuple[str, VerifiedReport]]:
    """Target → (file name, report), the newest of each. Raises STK-0703."""
    found: dict[str, tuple[str, VerifiedReport]] = {}
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            report = msgspec.json.decode(path.read_bytes(), type=VerifiedReport)
        except (OSError, msgspec.DecodeError) as error:
            raise StackError("STK-0703", f"{path.name}: {error}") from None
        if report.target not in found or found[report.target][1].date < report.date:
            found[report.target] = (path.name, report)
    return found


def evidence(engine: str, target: str, folder: Path) -> str:
    """What was seen on a card, or an empty string. Raises STK-0703 and STS-0101."""
    if engine == "zluda":
        name, report = zluda_reports(folder / "zluda").get(target, ("", None))
        return f"{report.date}: {report.gpu}, {report.engine_version}, {name}" if report else ""
    for name, run in accepted_reports(folder / "cuttle").get(target, ()):
        return f"{run.date}: {run.gpu}, {run.library}, Cuttle {run.cuttle}, {name}"
    return ""


def emulated_targets() -> set[str]:
    """Targets of the emulator: the choices of CUTTLE_DEVICE."""
    return {choice.partition(":")[2] for choice in DEVICE.choices if choice.startswith("rdna:")}


def support(engine: str, target: str, folder: Path = VERIFIED_FOLDER) -> Support:
    """What is known of a target under an engine."""
    seen = evidence(engine, target, folder)
    if seen:
        return Support("verified on hardware", sentence(seen))
    row = BY_NAME.get(target)
    if not target:
        return Support("unverified candidate", "its target is not known")
    # gfx8xx and gfx9xx have waves of 64 lanes, whether there is a row for them or not.
    if (row.wave if row is not None else 64 if len(target) == len("gfx900") else 32) == 64:
        return Support("not supported", "its waves have 64 lanes, a CUDA warp has 32")
    if engine == "cuttle" and row is None:
        return Support("not supported", "no code objects are made for this target")
    if engine == "cuttle" and target in emulated_targets():
        return Support("emulated", "code objects run in the emulator, never on a card")
    return Support("unverified candidate", "nobody sent a report of this engine on this target")
