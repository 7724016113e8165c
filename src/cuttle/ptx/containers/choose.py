"""Which PTX of a fat binary to translate for the compute capability that Cuttle reports.

NVIDIA's driver takes the highest target that does not exceed the device. Cuttle does the same, but is not bound by
hardware: if every PTX is for newer targets, it takes the lowest of them and says so (design facts `clients.md`,
section 1, rule 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cuttle.errors import ContainerError
from cuttle.ptx.containers.fatbin import FatbinEntry


@dataclass(frozen=True, slots=True)
class Choice:
    """The entry to translate. `exceeds_device`: its target is above the reported compute capability."""

    entry: FatbinEntry
    exceeds_device: bool
    reason: str


def choose_ptx(entries: Iterable[FatbinEntry], compute_capability: tuple[int, int]) -> Choice:
    """The best PTX entry for `compute_capability` (8, 0). Raises ContainerError CON-0201 if there is no PTX.

    Entries for one architecture or family only (`sm_90a`, `sm_100f`) may use instructions that exist nowhere else,
    so a plain target of the same number is preferred, and they are taken below their number's capability last.
    """
    wanted = compute_capability[0] * 10 + compute_capability[1]
    all_entries = list(entries)
    ptx = [entry for entry in all_entries if entry.kind == "ptx"]
    if not ptx:
        held = ", ".join(sorted({entry.target for entry in all_entries})) or "nothing"
        raise ContainerError("CON-0201", f"the fat binary holds no PTX, only {held}")
    fitting = [entry for entry in ptx if entry.architecture <= wanted]
    usual = [e for e in fitting if not e.suffix or e.architecture == wanted]
    if usual:
        best = max(usual, key=lambda e: (e.architecture, not e.suffix, e.version))
        return Choice(best, False, f"{best.target} is the highest target up to sm_{wanted}")
    if fitting:
        best = max(fitting, key=lambda e: (e.architecture, e.suffix == "f", e.version))
        return Choice(best, False, f"only architecture-specific PTX up to sm_{wanted}; took {best.target}")
    best = min(ptx, key=lambda e: (e.architecture, bool(e.suffix), e.version))
    return Choice(best, True, f"all PTX is above sm_{wanted}; took the lowest, {best.target}")
