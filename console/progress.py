"""Progress on the terminal: a bar while a step runs, one line when it has ended; all on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from tasks import progress
from tasks.progress import Bar

WORDS = {
    "warm": "loading Great Expectations",
    "prefect": "waiting for Prefect, which keeps the record of runs",
    "prefect database": "creating Prefect's database (once in a workspace)",
}
SHORT_SECONDS = 1.0


class _RichBar:
    """One step's bar."""

    def __init__(self, drawn: Progress, task: TaskID) -> None:
        self.drawn = drawn
        self.task = task
        self.began = time.monotonic()

    def advance(self, fraction: float) -> None:
        """Move the bar to `fraction` (0 to 1)."""
        self.drawn.update(self.task, total=1.0, completed=fraction)


class RichReporter:
    """Draws the steps with Rich.

    Args:
        drawn: the live display.
    """

    def __init__(self, drawn: Progress) -> None:
        self._drawn = drawn
        self._running: dict[str, _RichBar] = {}
        self._told: set[str] = set()

    def begin(self, name: str) -> Bar:
        """Start a step and return its bar; it pulses until the step says how far it is."""
        bar = _RichBar(self._drawn, self._drawn.add_task(WORDS.get(name, name), total=None))
        self._running[name] = bar
        return bar

    def end(self, name: str, *, ok: bool) -> None:
        """Replace the bar by a line; a step that is done again in an instant gets none."""
        bar = self._running.pop(name)
        self._drawn.remove_task(bar.task)
        seconds = time.monotonic() - bar.began
        if name in self._told and seconds < SHORT_SECONDS:
            return
        self._told.add(name)
        mark = "[green]✓[/]" if ok else "[red]✗[/]"
        self._drawn.console.print(f"{mark} {WORDS.get(name, name)} [dim]{seconds:.1f} s[/]", highlight=False)


@contextmanager
def shown() -> Iterator[None]:
    """Show the progress of the steps inside the block."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    terminal = Console(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as drawn:
        progress.watch(RichReporter(drawn))
        try:
            yield
        finally:
            progress.watch(None)
