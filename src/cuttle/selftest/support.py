"""What is known of each GPU target: the reports of owners that maintainers accepted, in `reports/` (none yet)."""

from __future__ import annotations

from pathlib import Path

from cuttle.abi.targets import GPU_TARGETS, WAVE_LANES, GpuTarget
from cuttle.selftest.report import SelftestReport, read_report
from cuttle.stack.support import emulated_targets

FOLDER = Path(__file__).resolve().parent / "reports"


def accepted_reports(folder: Path = FOLDER) -> dict[str, list[tuple[str, SelftestReport]]]:
    """Target → (file name, report) of each report that verifies it, the newest first. Raises CuttleError STS-0101."""
    found: dict[str, list[tuple[str, SelftestReport]]] = {}
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        report = read_report(path)
        if report.verifies:
            found.setdefault(report.verifies, []).append((path.name, report))
    for reports in found.values():
        reports.sort(key=lambda row: row[1].date, reverse=True)
    return found


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


def support_rows(folder: Path = FOLDER) -> list[tuple[GpuTarget, str, str]]:
    """(target, state, evidence) for every target."""
    reports = accepted_reports(folder)
    return [(target, *state_of(target, reports.get(target.name, []))) for target in GPU_TARGETS]
