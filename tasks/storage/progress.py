"""Progress for the person watching: steps report here, the console draws; nobody listens by default.

What is reported is a step's name and how far it is; never a count of private rows or a value.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol


class Bar(Protocol):
    """One step's progress."""

    def advance(self, fraction: float, doing: str = "") -> None:
        """Say that `fraction` (0 to 1) of the step is done, and what is being done now."""

    def outcome(self, passed: bool) -> None:
        """Say whether all that the step checks held. Private: a person at a terminal may see it, and nothing else."""


class Reporter(Protocol):
    """Draws steps: the console's Rich bars, or nothing."""

    def begin(self, name: str) -> Bar:
        """Start a step and return its bar."""

    def end(self, name: str, *, ok: bool) -> None:
        """Close the step's bar."""


@dataclass(frozen=True)
class StepTime:
    """When a step ran; private, since how long it takes may depend on the rows.

    Args:
        name: of the step.
        began: [ns since 1970, UTC].
        ended: the same.
    """

    name: str
    began: int
    ended: int


class _Silence:
    """The reporter when nobody watches; also its own bar."""

    def begin(self, name: str) -> Bar:
        return self

    def end(self, name: str, *, ok: bool) -> None:
        return None

    def advance(self, fraction: float, doing: str = "") -> None:
        return None

    def outcome(self, passed: bool) -> None:
        return None


_reporter: Reporter = _Silence()
_times: list[StepTime] | None = None


def watch(reporter: Reporter | None) -> None:
    """Send the progress of this process to `reporter`; None for silence."""
    global _reporter
    _reporter = reporter if reporter is not None else _Silence()


@contextmanager
def timed() -> Iterator[list[StepTime]]:
    """Yield a list that each step of the block is added to when it ends, whether it is reported or not."""
    global _times
    before, _times = _times, []
    try:
        yield _times
    finally:
        _times = before


@contextmanager
def quietly() -> Iterator[None]:
    """Report no step of the block: it is a part of a step that is reported."""
    before = _reporter
    watch(None)
    try:
        yield
    finally:
        watch(before)


@contextmanager
def step(name: str) -> Iterator[Bar]:
    """Report a named step around a block; an exception closes it as failed."""
    reporter, began = _reporter, time.time_ns()
    bar = reporter.begin(name)
    try:
        yield bar
    except BaseException:
        reporter.end(name, ok=False)
        raise
    reporter.end(name, ok=True)
    if _times is not None:
        _times.append(StepTime(name, began, time.time_ns()))
