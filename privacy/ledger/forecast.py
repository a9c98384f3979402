"""How long an account lasts: how many more runs of a release fit, and when scheduled ones are refused."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from privacy.ledger.terms import ChargePart

_MOST_RUNS: Final = 100_000


@dataclass(frozen=True)
class ScheduledRun:
    """A release that is made again and again.

    Args:
        name: what it is called.
        parts: what each run takes from each account.
        times: when it runs, in order, without end or until the calendar ends.
    """

    name: str
    parts: tuple[ChargePart, ...]
    times: Iterator[datetime]


@dataclass(frozen=True)
class Refusal:
    """The first scheduled run that an account does not hold.

    Args:
        at: when.
        name: which release.
    """

    at: datetime
    name: str


def runs_left(parts: Sequence[ChargePart], remaining: Mapping[str, int]) -> int:
    """Return how many more runs fit, if nothing else is charged.

    Args:
        parts: what each run takes.
        remaining: what is left of each account [the units of its calculus].
    """
    return min(remaining[part.account] // part.amount for part in parts)


def times(number: int) -> str:
    """Say how often, in words."""
    return "once" if number == 1 else f"{number:,} times"


def first_refusals(
    scheduled: Sequence[ScheduledRun], remaining: Mapping[str, int], *, until: datetime
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
        over = [part.account for part in run.parts if part.amount > left[part.account]]
        if over:
            for account in over:
                refused.setdefault(account, Refusal(at, run.name))
            continue
        for part in run.parts:
            left[part.account] -= part.amount
        following = next(run.times, None)
        if following is not None:
            heapq.heappush(waiting, (following, place))
    return refused
