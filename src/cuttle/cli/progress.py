"""Progress on stderr for work that consists of steps: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
from time import monotonic

from cuttle.cli.render import Style
from cuttle.errors import visible

SECONDS_BETWEEN_LINES = 10.0


class StepBar:
    """A bar while stderr is a terminal; elsewhere (a file, a pipe) a line every ten seconds. Neither with `--quiet` or `--json`.

    `remaining`: the bar shows the time that remains instead of the time that has gone; for steps that take about as long.
    """

    def __init__(self, style: Style, remaining: bool = False) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True, no_color=not style.colored(sys.stderr))
        self._talks = not style.quiet and not style.json
        self._writes_lines = self._talks and not console.is_terminal
        self._began = self._last_line = monotonic()
        clock = TimeRemainingColumn() if remaining else TimeElapsedColumn()
        columns = (TextColumn("{task.description:40.40}", markup=False), BarColumn(), MofNCompleteColumn(), clock)
        hidden = not self._talks or not console.is_terminal
        self.progress = Progress(*columns, console=console, disable=hidden, transient=True)
        self._task = self.progress.add_task("", total=None)

    def remark(self, text: str) -> None:
        """A line that is shown at once."""
        if self._talks:
            sys.stderr.write(f"cuttle: {visible(text)}\n")
            sys.stderr.flush()

    def watch(self, done: int, total: int, text: str) -> None:
        self.progress.update(self._task, completed=done, total=total, description=visible(text))
        now = monotonic()
        if self._writes_lines and now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self.remark(f"{done} of {total} after {now - self._began:.0f} s: {text}")
