"""Progress on the terminal: a bar while a step runs, one line when it has ended; all on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from console.render import seen_by_a_person
from tasks.storage import progress
from tasks.storage.progress import Bar

WORDS = {
    "warm": "loading Great Expectations",
    "look": "how the rows fit the contract",
    "prefect": "waiting for Prefect, which keeps the record of runs",
    "prefect database": "creating Prefect's database (once in a workspace)",
}
SHORT_SECONDS = 1.0
_shown: list[Progress] = []
SURE_SECONDS = 3.0


class TimeLeftColumn(ProgressColumn):
    """Says about how long a step still takes, once it has run for some seconds and knows how far it is."""

    def render(self, task: Task) -> Text:
        """Estimate from the share that is done."""
        elapsed, share = task.elapsed or 0.0, task.percentage / 100
        if task.total is None or elapsed < SURE_SECONDS or not 0 < share < 1:
            return Text("")
        left = timedelta(seconds=round(elapsed * (1 - share) / share))
        return Text(f"about {left} left", style="dim")


class _RichBar:
    """One step's bar."""

    def __init__(self, drawn: Progress, task: TaskID) -> None:
        self.drawn = drawn
        self.task = task
        self.began = time.monotonic()
        self.held: bool | None = None

    def advance(self, fraction: float, doing: str = "") -> None:
        """Move the bar to `fraction` (0 to 1), and say what is being done."""
        self.drawn.update(self.task, total=1.0, completed=fraction, doing=doing and f"{doing} ")

    def outcome(self, passed: bool) -> None:
        """Keep whether all that the step checks held."""
        self.held = passed


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
        bar = _RichBar(self._drawn, self._drawn.add_task(WORDS.get(name, name), total=None, doing=""))
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
        mark = self._mark(bar) if ok else "[red]✗[/]"
        self._drawn.console.print(f"{mark} {WORDS.get(name, name)} [dim]{seconds:.1f} s[/]", highlight=False)

    def _mark(self, bar: _RichBar) -> str:
        """Mark a step that ended; what it found of the rows is for a person's eyes, never for a file or a pipe."""
        if bar.held is None:
            return "[green]✓[/]"
        if not seen_by_a_person(self._drawn.console):
            return "·"
        return "[green]✓[/]" if bar.held else "[yellow]![/]"


@contextmanager
def shown() -> Iterator[None]:
    """Show the progress of the steps inside the block."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[doing]}[/]"),
        TimeLeftColumn(),
    )
    terminal = Console(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as drawn:
        progress.watch(RichReporter(drawn))
        _shown.append(drawn)
        try:
            yield
        finally:
            _shown.pop()
            progress.watch(None)


@contextmanager
def paused() -> Iterator[None]:
    """Stop drawing inside the block, for a question on the terminal."""
    drawn = _shown[-1] if _shown else None
    if drawn is None or drawn.disable:
        yield
        return
    drawn.stop()
    try:
        yield
    finally:
        drawn.start()
