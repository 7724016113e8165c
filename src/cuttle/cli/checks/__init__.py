"""The checks of `cuttle doctor`: each is a function `check_<name>(context) -> Finding` in one of the modules here.

A check only looks; it changes nothing. What it raises is shown as a crash of the check, not of the doctor.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cuttle.abi.knobs import KnobError

AREAS = ("machine", "installation", "device", "amd", "cache", "program")

OK, WARNING, FAILURE, CRASH = "ok", "warning", "failure", "crash"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check saw. `mark`: ok, warning (works, but), failure (will not work), crash (of the check itself)."""

    mark: str
    text: str
    hint: str = ""
    details: tuple[str, ...] = ()


@dataclass
class Context:
    """What checks share: the program asked about, and the report of the probe, which is made once."""

    program: str | None = None
    prefer_ours: bool = False
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    asked: frozenset[str] = frozenset()  # checks that were asked for by name

    def missed(self, check: str) -> str:
        """The mark of a part of AMD's software that is not there: who asks for it, or runs on it, is not well without."""
        return FAILURE if self.on_hip else WARNING if check in self.asked else OK

    @property
    def on_hip(self) -> bool:
        """Whether programs will run on an AMD GPU, as the user's variables stand."""
        return self.environment.get("CUTTLE_DEVICE", "").partition(":")[0] == "hip"

    @cached_property
    def client_environment(self) -> dict[str, str]:
        from cuttle.cli import environment

        added = environment.client_variables(self.environment, prefer_ours=self.prefer_ours)
        return {**self.environment, **added}

    @cached_property
    def report(self) -> dict[str, Any]:
        from cuttle.cli import probe

        return probe.ask("--kernel", environment=self.client_environment)

    @cached_property
    def amd(self) -> dict[str, Any]:
        from cuttle.device.hip import report

        return report.amd_report()


Check = Callable[[Context], Finding]


def all_checks() -> dict[str, Check]:
    """Name → function, in the order of `AREAS` and of the source."""
    checks: dict[str, Check] = {}
    for area in AREAS:
        module = importlib.import_module(f"cuttle.cli.checks.{area}")
        checks.update(
            (name.removeprefix("check_"), function)
            for name, function in vars(module).items()
            if name.startswith("check_") and callable(function)
        )
    return checks


def run_check(check: Check, context: Context) -> Finding:
    try:
        return check(context)
    except KnobError as error:
        return Finding(FAILURE, str(error), f"`cuttle explain {str(error).partition('=')[0]}`")
    except Exception as error:  # a broken check is a finding of its own kind
        return Finding(CRASH, f"the check itself failed: {type(error).__name__}: {error}", "Please report this.")
