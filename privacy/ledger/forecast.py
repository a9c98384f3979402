"""How long an account lasts: how many more runs of a release fit, and when scheduled ones are refused.

An account has two sums: of losses, under its cap, and of what selections of keys may fail with, under the part of δ
that was set aside for them. A run has to fit both.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from privacy.ledger.terms import AccountState, ChargePart

_MOST_RUNS: Final = 100_000


@dataclass(frozen=True)
class Remaining:
    """What is left of an account.

    Args:
        loss: under its cap [the units of its calculus].
        selections: for selections of keys, of the part of δ that is set aside [10⁻¹⁸].
    """

    loss: int
    selections: int = 0


@dataclass(frozen=True)
class ScheduledRun:
    """A release that is made again and again.

    Args:
        name: what it is called.
        parts: what each run takes from each account.
        times: when it runs, in order, without end or until the calendar ends.
        failure: what the selections of keys of each run may fail with, taken from each of these accounts [10⁻¹⁸].
    """

    name: str
    parts: tuple[ChargePart, ...]
    times: Iterator[datetime]
    failure: int = 0


@dataclass(frozen=True)
class Refusal:
    """The first scheduled run that an account does not hold.

    Args:
        at: when.
        name: which release.
        for_selections: whether its loss would fit, and what is left for selections of keys does not hold it.
    """

    at: datetime
    name: str
    for_selections: bool = False


def remaining_of(accounts: Iterable[AccountState]) -> dict[str, Remaining]:
    """Return what is left of each account, by its name."""
    return {state.terms.name: Remaining(state.remaining, max(0, state.selections_left)) for state in accounts}


def runs_left(parts: Sequence[ChargePart], remaining: Mapping[str, Remaining], *, failure: int) -> int:
    """Return how many more runs fit, if nothing else is charged.

    Args:
        parts: what each run takes.
        remaining: what is left of each account.
        failure: what the selections of keys of each run may fail with [10⁻¹⁸].
    """
    left = [remaining[part.account].loss // part.amount for part in parts]
    return min([*left, *(remaining[part.account].selections // failure for part in parts if failure)])


def times(number: int) -> str:
    """Say how often, in words."""
    return "once" if number == 1 else f"{number:,} times"


def first_refusals(
    scheduled: Sequence[ScheduledRun], remaining: Mapping[str, Remaining], *, until: datetime
) -> dict[str, Refusal]:
    """Let the schedule run and return, by account, the first run that it refuses; a refused release runs no more.

    Args:
        scheduled: what runs when.
        remaining: what is left of each account now.
        until: how far to look.
    """
    left = dict(remaining)
    refused: dict[str, Refusal] = {}
    waiting = [(at, place) for place, each in enumerate(scheduled) if (at := next(each.times, None)) is not None]
    heapq.heapify(waiting)
    for _ in range(_MOST_RUNS):
        if not waiting or waiting[0][0] > until:
            break
        at, place = heapq.heappop(waiting)
        run = scheduled[place]
        over = {part.account: Refusal(at, run.name) for part in run.parts if part.amount > left[part.account].loss}
        unselectable = [part.account for part in run.parts if run.failure > left[part.account].selections]
        over = dict.fromkeys(unselectable, Refusal(at, run.name, for_selections=True)) | over
        if over:
            refused = over | refused
            continue
        for part in run.parts:
            before = left[part.account]
            left[part.account] = Remaining(before.loss - part.amount, before.selections - run.failure)
        following = next(run.times, None)
        if following is not None:
            heapq.heappush(waiting, (following, place))
    return refused
