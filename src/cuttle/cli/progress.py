"""A progress bar on stderr for work that consists of steps."""

from __future__ import annotations

import sys

from cuttle.cli.render import Style


class StepBar:
    """Shown while stderr is a terminal and neither `--quiet` nor `--json` was given; else nothing."""

    def __init__(self, style: Style) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True, no_color=not style.colored(sys.stderr))
        hidden = style.quiet or style.json or not console.is_terminal
        columns = (TextColumn("{task.description:40.40}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=console, disable=hidden, transient=True)
        self._task = self.progress.add_task("", total=None)

    def watch(self, done: int, total: int, text: str) -> None:
        self.progress.update(self._task, completed=done, total=total, description=text)
