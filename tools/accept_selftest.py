"""Takes an owner's report of `cuttle selftest` into the repository: `python tools/accept_selftest.py REPORT.json`.

Checks it as a file from a stranger, says what it proves, and, if that is a target on hardware, puts it into `src/cuttle/stack/verified/cuttle/`.
`python tools/generate.py` then writes the support table.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src")]

from cuttle.errors import CuttleError  # noqa: E402  (the path is set above, so that it runs from a plain checkout)
from cuttle.stack.selftest_report import (  # noqa: E402
    ACCEPTED,  # noqa: E402
    SelftestReport,
    encode_report,
    read_report,
)


def reasons_against(report: SelftestReport) -> list[str]:
    """Why a report verifies nothing on hardware."""
    reasons = []
    if report.evidence != "hardware":
        reasons.append(f"its evidence is {report.evidence}")
    if not report.whole:
        reasons.append("it is a selection of the tests")
    if report.failed:
        reasons.append(f"{report.failed} tests failed")
    reasons += [f"no test of {part.name} passed" for part in report.parts if not part.passed]
    return reasons


def accept(path: Path, folder: Path = ACCEPTED) -> Path:
    """The accepted file. Raises CuttleError STS-0101 for a report that is none or proves nothing."""
    report = read_report(path)
    if not report.verifies:
        raise CuttleError("STS-0101", f"{path.name}: {', '.join(reasons_against(report))}")
    folder.mkdir(exist_ok=True)
    accepted = folder / f"{report.target}-{report.date}.json"
    accepted.write_bytes(encode_report(report))
    return accepted


def main() -> int:
    try:
        accepted = accept(Path(sys.argv[1]))
    except CuttleError as error:
        print(error.render(), file=sys.stderr)
        return 1
    print(f"{accepted.relative_to(ROOT)}: now run tools/generate.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
