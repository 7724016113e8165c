"""`cuttle selftest`: driver-API programs, PTX files with an H200's results, and instruction forms, on one device."""

from __future__ import annotations

import datetime
import platform
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from cuttle import __version__
from cuttle.selftest import file_runner
from cuttle.selftest.run_files import read_file
from cuttle.stack.configurations import Configuration
from cuttle.stack.probe import Setting, run_probe, select
from cuttle.stack.redaction import Identity, redact
from cuttle.stack.selftest_report import MOST_PROBLEMS, PARTS, SCHEMA, Evidence, PartReport, SelftestReport, Trouble
from cuttle.sweep.run import Choice, sweep

# (done, in all, what is in hand), for each part anew.
Watch = Callable[[int, int, str], None]

# Every nth test of a part: all, and what `--quick` takes.
WHOLE_STEPS = {"programs": 1, "files": 1, "forms": 20}
QUICK_STEPS = {"programs": 4, "files": 12, "forms": 400}
SECONDS_OF_ONE = 300.0
# Outcomes of forms: those that differ within what their row promises pass, too.
_PASSED_FORMS = ("exact", "ulp")


@dataclass(frozen=True, slots=True)
class About:
    """The device under test: its name, GPU target and library, and what a result on it proves."""

    device: str
    gpu: str
    target: str
    library: str
    evidence: Evidence

    @property
    def amd(self) -> bool:
        return self.device != "cpu"


def describe(device: str) -> About:
    """What stands behind a device name. Raises CuttleError if there is no such GPU here."""
    kind, _, which = device.partition(":")
    if kind == "cpu":
        return About(device, f"CPU ({platform.machine()})", "", "", "cpu")
    if kind == "rdna":
        return About(device, f"emulated {which}", which, "", "emulated")
    from cuttle.device.hip.device import choose_gpu
    from cuttle.device.hip.kernel_driver import kfd_gpus

    found = choose_gpu(which)
    seen = {gpu.target for gpu in kfd_gpus()[0]}
    evidence: Evidence = "hardware" if found.gpu["target"] in seen else "unconfirmed hardware"
    return About(device, clean(found.gpu["name"], 100), found.gpu["target"], f"HIP {found.version}", evidence)


def run_selftest(
    about: About, variables: dict[str, str], *, quick: bool, parts: Iterable[str] = PARTS, watch: Watch
) -> SelftestReport:
    """Runs the parts one after the other. `variables`: what makes programs find the client library and the device."""
    steps = QUICK_STEPS if quick else WHOLE_STEPS
    chosen = [name for name in PARTS if name in set(parts)]
    run: dict[str, Callable[[], PartReport]] = {
        "programs": lambda: programs(about, steps["programs"], watch),
        "files": lambda: files(about, variables, steps["files"], watch),
        "forms": lambda: forms(about, steps["forms"], watch),
    }
    done = [run[name]() for name in chosen]
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    whole = not quick and chosen == list(PARTS)
    return SelftestReport(
        SCHEMA, __version__, datetime.date.today(), about.device, about.gpu, about.target, about.library, about.evidence,
        clean(system, 100), platform.python_version(), whole, done,
    )  # fmt: skip


def clean(text: str, most: int = 500) -> str:
    """One printable line of bounded length that names nobody."""
    line = redact(" ".join(text.split()), Identity.here())
    return "".join(letter if letter.isprintable() else "?" for letter in line)[:most]


class Tally:
    """Counts and reasons of one part."""

    def __init__(self) -> None:
        self.counts = {"pass": 0, "refused": 0, "fail": 0, "left out": 0}
        self.results = 0
        self._troubles: list[Trouble] = []
        self._began = monotonic()

    def add(self, name: str, result: str, reason: str) -> None:
        self.counts[result] += 1
        if result == "fail" or result == "refused":
            self._troubles.append(Trouble(clean(name, 120), result, clean(reason)))  # type: ignore[arg-type]

    def report(self, name: Any) -> PartReport:
        # Beyond the limit of a report the device is beyond a report, too.
        troubles = sorted(self._troubles, key=lambda trouble: trouble.result)[:MOST_PROBLEMS]
        failed = sum(trouble.result == "fail" for trouble in troubles)
        return PartReport(
            name, self.counts["pass"], len(troubles) - failed, failed, self.counts["left out"], self.results,
            round(monotonic() - self._began, 1), troubles,
        )  # fmt: skip


def programs(about: About, step: int, watch: Watch) -> PartReport:
    """Capability tests of `cuttle stack probe` with kernels of our own: memory, streams, events, graphs, launches, numerics."""
    tally = Tally()
    setting = Setting(Configuration(f"cuttle:{about.device}", "cuttle", about.device), "own", SECONDS_OF_ONE)
    rows = select(())[::step]
    for number, row in enumerate(rows):
        watch(number, len(rows), row.name)
        found = run_probe(row, setting)
        result = {"pass": "pass", "refused": "refused", "not applicable": "left out"}.get(found.result, "fail")
        tally.add(row.name, result, found.reason or found.result)
    return tally.report("programs")


def files(about: About, variables: dict[str, str], step: int, watch: Watch) -> PartReport:
    """PTX files: every result must be what an H200 gave, bit for bit."""
    tally = Tally()
    every = file_runner.file_names()[::step]
    names = [name for name in every if not file_runner.left_out(name, about.amd)]
    tally.counts["left out"] = len(every) - len(names)
    done = 0

    def hand(name: str) -> None:
        nonlocal done
        done += 1
        watch(done, len(names), name)

    watch(0, len(names), names[0] if names else "")
    outcomes = file_runner.run(names, variables, SECONDS_OF_ONE if about.amd else file_runner.PATIENCE_SECONDS, hand)
    for name in names:
        test, outcome = read_file(file_runner.FOLDER / name), outcomes[name]
        result = file_runner.verdict(name, test, outcome, about.amd)
        if result == "pass" and isinstance(outcome, list):
            tally.results += len(outcome)
        tally.add(name, result, outcome if isinstance(outcome, str) else first_difference(outcome, test.expect))
    return tally.report("files")


def first_difference(outcome: list[int], expect: list[int] | str | None) -> str:
    if not isinstance(expect, list) or len(expect) != len(outcome):
        return f"results where {expect if isinstance(expect, str) else 'others'} were expected"
    number = sum(have != wanted for have, wanted in zip(outcome, expect, strict=True))
    at = next((n for n, pair in enumerate(zip(outcome, expect, strict=True)) if pair[0] != pair[1]), 0)
    return (
        f"{number} of {len(outcome)} results differ; the first, [{at}], is {outcome[at]:#x} instead of {expect[at]:#x}"
    )


def forms(about: About, step: int, watch: Watch) -> PartReport:
    """Instruction forms on operands for which an H200's answers are recorded: every nth of `cuttle sweep`."""
    tally = Tally()
    choice = Choice(about.device, ("golden",), shard=(1, step))
    with tempfile.TemporaryDirectory(prefix="cuttle-selftest-") as folder:
        report = sweep(
            choice, Path(folder) / "verdicts.sqlite", fresh=True, watch=lambda done, total, form, share: watch(done, total, form)
        )  # fmt: skip
    for verdict in report.verdicts:
        result = "pass" if verdict.outcome in _PASSED_FORMS else "refused" if verdict.outcome == "refused" else "fail"
        tally.results += verdict.elements
        tally.add(
            verdict.form, result, verdict.text or f"{verdict.differing} of {verdict.elements} differ: {verdict.first}"
        )
    return tally.report("forms")
