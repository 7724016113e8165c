"""A whole sweep: what is chosen and not yet known is run, and everything known about what was chosen comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuttle import __version__
from cuttle.errors import SweepError
from cuttle.sweep.domains import Item, chosen_items
from cuttle.sweep.farm import run_on_farm
from cuttle.sweep.golden import FOLDER
from cuttle.sweep.session import TIMEOUT, Session, batches
from cuttle.sweep.store import Store, identity
from cuttle.sweep.verdict import GOOD, OUTCOMES, Verdict


@dataclass(frozen=True, slots=True)
class Choice:
    """What to sweep. `pattern` is a regular expression on names, `shard` (k, n) every nth item from the kth on, `timeout` how
    many seconds without an answer make a form one that hangs."""

    device: str = "cpu"
    domains: tuple[str, ...] = ("golden",)
    pattern: str = ""
    shard: tuple[int, int] = (1, 1)
    folder: Path = FOLDER
    timeout: float = TIMEOUT

    def items(self) -> list[Item]:
        """What is chosen; raises SweepError (`SWP-0102`) if that is nothing."""
        found = list(chosen_items(self.domains, self.pattern, self.shard, self.folder))
        if not found:
            raise SweepError("SWP-0102", f"no form of {', '.join(self.domains)} matches {self.pattern or 'this shard'}")
        return found


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome: verdicts in the order of the items, of which `known` were there before."""

    device: str
    verdicts: tuple[Verdict, ...]
    known: int

    def counts(self) -> dict[str, int]:
        """Outcome → how many."""
        found = Counter(verdict.outcome for verdict in self.verdicts)
        return {outcome: found[outcome] for outcome in OUTCOMES}

    @property
    def good(self) -> bool:
        """Whether every form that runs gives what its row promises."""
        return all(verdict.outcome in GOOD for verdict in self.verdicts)


# Called with items done, items in all, and the form in hand with the share of it that is done.
Watch = Callable[[int, int, str, float], None]


def sweep(
    choice: Choice, results: Path, *, fresh: bool = False, farm: str = "", watch: Watch = lambda *state: None
) -> Report:
    """Run a sweep; results are kept in the SQLite file after each batch. Raises SweepError."""
    items = choice.items()
    session = Session(choice.device, choice.folder, choice.timeout)
    try:
        name = session.start()
        store = Store(results, identity(name, __version__, choice.domains, choice.folder), fresh)
        try:
            before = store.verdicts()
            # What hung or crashed may have met a busy machine: it has another try.
            missing = [item for item in items if item not in before or before[item].outcome in ("hung", "crashed")]
            done = len(items) - len(missing)

            def hand(form: str, share: float) -> None:
                watch(done, len(items), form, share)

            watch(done, len(items), "", 0.0)
            for verdicts in _verdicts(choice, session, missing, farm, hand):
                store.add(verdicts)
                done += len(verdicts)
                watch(done, len(items), verdicts[-1].form, 1.0)
            known = store.verdicts()
        finally:
            store.close()
    finally:
        session.close()
    return Report(name, tuple(known[item] for item in items), len(items) - len(missing))


def _verdicts(
    choice: Choice, session: Session, items: Sequence[Item], farm: str, hand: Callable[[str, float], None]
) -> Iterator[list[Verdict]]:
    if farm:
        yield from run_on_farm(farm, choice.device, items, choice.folder, choice.timeout)
        return
    for batch in batches(items):
        hand(batch[0].name, 0.0)
        yield session.run(batch, lambda share, name=batch[0].name: hand(name, share))  # type: ignore[misc]
