"""What is known of each GPU target: the reports of owners that maintainers accepted, in `stack/verified/cuttle/` (none yet)."""

from __future__ import annotations

from pathlib import Path

from cuttle.abi.targets import GPU_TARGETS, WAVE_LANES, GpuTarget
from cuttle.stack.selftest_report import ACCEPTED, SelftestReport, accepted_reports
from cuttle.stack.support import emulated_targets


def state_of(target: GpuTarget, reports: list[tuple[str, SelftestReport]]) -> tuple[str, str]:
    """(state, evidence) in the words of the support table."""
    if target.wave != WAVE_LANES:
        return "refused", "its waves have 64 lanes, a CUDA warp has 32 (DEV-0021)"
    if reports:
        name, report = reports[0]
        passed = sum(part.passed for part in report.parts)
        refused = sum(part.refused for part in report.parts)
        return (
            "verified on hardware",
            f"{report.date}: {report.gpu}, {report.library}, Cuttle {report.cuttle}: {passed} tests passed, {refused} refused ({name})",
        )
    if target.name in emulated_targets():
        return "emulated", "PTX files, instruction forms and programs pass in the emulator; not verified on hardware"
    return "compiles", "code objects are made and linked; neither emulated nor verified on hardware"


def support_rows(folder: Path = ACCEPTED) -> list[tuple[GpuTarget, str, str]]:
    """(target, state, evidence) for every target."""
    reports = accepted_reports(folder)
    return [(target, *state_of(target, reports.get(target.name, []))) for target in GPU_TARGETS]
