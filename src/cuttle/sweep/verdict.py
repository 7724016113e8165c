"""What a sweep finds out about one form, and about all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cuttle.abi.ptx_isa import OPCODES

# exact: every bit. ulp: within what the row admits. differs: beyond it. refused: the device does not run the form, and
# says so. failed: the device answered with another error. crashed: the device is gone. hung: no answer in time.
OUTCOMES = ("exact", "ulp", "differs", "refused", "failed", "crashed", "hung")
GOOD = ("exact", "ulp", "refused")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One item of a sweep: how a device did on one form over one domain.

    `elements` results were compared, `differing` of them (exhaustively: blocks of them) are not the expected bits, by up
    to `max_ulp` units in the last place (1 for anything that is no float; -1 where only digests were compared). `first` is
    the first failing input with both answers, `text` the error of a form that did not run.
    """

    domain: str
    form: str
    outcome: str
    elements: int = 0
    differing: int = 0
    max_ulp: float = 0
    first: str = ""
    text: str = ""
    seconds: float = 0.0


def admitted_ulp(opcode: str) -> int:
    """The ulp that the opcode's row admits: 0 if its status is `exact`."""
    found = re.fullmatch(r"ulp\((\d+)\)", OPCODES[opcode].status)
    return int(found[1]) if found else 0


def outcome_of(differing: int, max_ulp: float, admitted: float) -> str:
    """The verdict on compared results."""
    if not differing:
        return "exact"
    return "ulp" if 0 <= max_ulp <= admitted else "differs"
