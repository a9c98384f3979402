"""The periods of a release that is made again and again: one day, ISO week, month, quarter or year each.

A spec with `period: quarter` is a pattern. For one quarter `{period}` in it is that quarter's name, and the rows are
those of its days: either the source itself is named by period, or its column `by` says which day a row belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from contracts.domains.calendar_periods import Granularity, period_label
from contracts.errors import Finding, Refused
from contracts.periods.time_blocks import BlockRefused, TimeBlock, time_block

PLACEHOLDER: Final = "{period}"
PATTERNS: Final = (("release",), ("charge", "account"), ("source", "path"), ("source", "table"))
"""The fields of a spec in which the placeholder is filled in."""
MOST_PERIODS: Final = 4000
_EXAMPLES: Final[dict[Granularity, str]] = {
    "day": "2024-03-09",
    "week": "2024-W10",
    "month": "2024-03",
    "quarter": "2024-Q1",
    "year": "2024",
}
_SHORT: Final = re.compile(r"([0-9]{4})-?([QqWw])([0-9]{1,2})")


class PeriodRefused(Refused):
    """A text that names no period of the asked-for length."""


@dataclass(frozen=True)
class Period:
    """One period.

    Args:
        granularity: its length.
        block: its days, under its usual name (2024-Q1).
    """

    granularity: Granularity
    block: TimeBlock

    def __str__(self) -> str:
        """Show the name."""
        return self.block.text

    @property
    def first(self) -> date:
        """The first day."""
        return date.fromordinal(self.block.begins)

    @property
    def slug(self) -> str:
        """The name as it stands in the name of a release: lower case."""
        return self.block.text.lower()

    @property
    def following(self) -> Period:
        """The next period of this length."""
        return period_of(date.fromordinal(self.block.ends), self.granularity)

    @property
    def before(self) -> Period:
        """The period before it."""
        return period_of(self.first - timedelta(days=1), self.granularity)


def period_of(day: date, granularity: Granularity) -> Period:
    """Return the period that holds a day."""
    return Period(granularity, time_block(period_label(day, granularity)))


def last_complete(day: date, granularity: Granularity) -> Period:
    """Return the last period that has ended before a day begins."""
    return period_of(day, granularity).before


def read_period(text: str, granularity: Granularity) -> Period:
    """Read a period as a person types it: 2024-Q3, 2024Q3, 2024-W05, 2024-03, 2024-03-09 or 2024.

    Raises:
        PeriodRefused: it names none, or one of another length.
    """
    short = _SHORT.fullmatch(text.strip())
    name = text.strip()
    if short is not None:
        year, letter, number = short.groups()
        name = f"{year}-{letter.upper()}{int(number):0{1 if letter in 'Qq' else 2}d}"
    try:
        block = time_block(name)
    except BlockRefused:
        block = None
    if block is not None and not block.is_lifetime and block.ends <= date.max.toordinal():
        period = period_of(date.fromordinal(block.begins), granularity)
        if period.block == block:
            return period
    allowed = f"a {granularity}, such as {_EXAMPLES[granularity]}"
    raise PeriodRefused([Finding("the command", "period", repr(text[:40]), allowed, f"the spec says {granularity}")])


def read_periods(text: str, granularity: Granularity) -> tuple[Period, ...]:
    """Read one period, or all from A to B as A..B, both included.

    Raises:
        PeriodRefused: an end is none, they are in the wrong order, or there are more than 4000.
    """
    first, dots, last = text.partition("..")
    begin = read_period(first, granularity)
    end = read_period(last, granularity) if dots else begin
    found = tuple(_between(begin, end))
    if not found or len(found) > MOST_PERIODS:
        seen = f"{text!r}, {'more than ' + str(MOST_PERIODS) if found else 'no'} periods"
        raise PeriodRefused([Finding("the command", "period", seen, "A..B with A before B, both included")])
    return found


def _between(begin: Period, end: Period) -> Iterator[Period]:
    period, number = begin, 0
    while period.block.begins <= end.block.begins and number <= MOST_PERIODS:
        yield period
        period, number = period.following, number + 1


def read_any_periods(text: str) -> tuple[Period, ...]:
    """Read one period, or all from A to B as A..B, of whichever length A has.

    Raises:
        PeriodRefused: A has none, or as `read_periods`.
    """
    first = text.partition("..")[0]
    for granularity in _EXAMPLES:
        with suppress(PeriodRefused):
            read_period(first, granularity)
            return read_periods(text, granularity)
    allowed = "A..B, such as " + " or ".join(f"{each}..{each}" for each in _EXAMPLES.values())
    raise PeriodRefused([Finding("the command", "periods", repr(text[:40]), allowed)])


def period_in(release: str, like: str, period: Period) -> Period | None:
    """Return the period of which another release is; None if it is another product.

    Args:
        release: name of the other release.
        like: name of the release of a known period.
        period: that period.
    """
    before, _, after = like.rpartition(period.slug)
    if release == like or not (release.startswith(before) and release.endswith(after)):
        return period if release == like else None
    try:
        return read_period(release[len(before) : len(release) - len(after)], period.granularity)
    except PeriodRefused:
        return None


def filled(written: Mapping[str, Any], period: Period) -> dict[str, Any]:
    """Return what a spec's file says with the period's name in place of each placeholder.

    Args:
        written: the file's content; anything but a text under the fields of `PATTERNS` is left as it is.
        period: whose name is filled in; in the name of the release in lower case.
    """
    content = deepcopy(dict(written))
    for *outer, key in PATTERNS:
        holder: Any = content
        for name in outer:
            holder = holder.get(name) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(holder.get(key), str):
            name = period.slug if key == "release" else str(period)
            holder[key] = holder[key].replace(PLACEHOLDER, name)
    return content
