"""Time blocks: half-open ranges of days under calendar names, by which accounts and sources know their people."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Final

from contracts.errors import Finding, Refused

if TYPE_CHECKING:
    from contracts.contract.contract import Contract


LIFETIME: Final = "lifetime"
GRAMMAR: Final = (
    "a year (2026), half-year (2026-H2), quarter (2026-Q4), month (2026-10), ISO week (2026-W05), day (2026-10-05), "
    "days from A to before B (2025-04-01..2026-04-01), or lifetime"
)
_FIRST_DAY: Final = date.min.toordinal()
_END_OF_TIME: Final = date.max.toordinal() + 1


class BlockRefused(Refused):
    """A text that names no time block."""


@dataclass(frozen=True)
class TimeBlock:
    """A half-open range of days: `begins` belongs to it, `ends` does not.

    Two blocks are equal if they are the same days, however they are written.

    Args:
        text: its name, as it was written.
        begins: first day [proleptic ordinal].
        ends: the day after the last [proleptic ordinal].
    """

    text: str = field(compare=False)
    begins: int
    ends: int

    def __str__(self) -> str:
        """Show the name."""
        return self.text

    @property
    def is_lifetime(self) -> bool:
        """Whether it holds every day there is."""
        return (self.begins, self.ends) == (_FIRST_DAY, _END_OF_TIME)

    def overlaps(self, other: TimeBlock) -> bool:
        """Say whether some day lies in both."""
        return self.begins < other.ends and other.begins < self.ends


def time_block(text: str) -> TimeBlock:
    """Read a time block from its name.

    Raises:
        BlockRefused: the text names none.
    """
    if text == LIFETIME:
        return TimeBlock(text, _FIRST_DAY, _END_OF_TIME)
    try:
        span = _span(text)
    except (ValueError, OverflowError):
        span = None
    if span is None or span[0] >= span[1]:
        raise BlockRefused(
            [
                Finding(
                    "the time block",
                    "block",
                    repr(text[:60]),
                    GRAMMAR,
                    "write --block with one of these, such as --block 2026-Q4",
                )
            ]
        )
    return TimeBlock(text, *span)


def gap(block: TimeBlock, parts: list[TimeBlock]) -> tuple[date, date] | None:
    """Return the first days of a block (first, and the one after the last) that no part covers; None if all are."""
    reached = block.begins
    for part in sorted(parts, key=lambda part: part.begins):
        if part.begins > reached:
            break
        reached = max(reached, part.ends)
    if reached >= block.ends:
        return None
    following = [part.begins for part in parts if part.begins > reached]
    return _day(reached), _day(min([block.ends, *following]))


def _day(ordinal: int) -> date:
    return date.fromordinal(min(ordinal, date.max.toordinal()))


def _span(text: str) -> tuple[int, int] | None:
    """Return the days of a written block; None where it has none of the forms."""
    first, dots, end = text.partition("..")
    if dots:
        return _iso(first), _iso(end)
    for form, read in _FORMS:
        found = form.fullmatch(text)
        if found:
            return read(*map(int, found.groups()))
    return None


def _iso(text: str) -> int:
    """Return an ISO day in its one written form."""
    day = date.fromisoformat(text)
    if day.isoformat() != text:
        raise ValueError(text)
    return day.toordinal()


def _months(year: int, first: int, count: int) -> tuple[int, int]:
    """Return the days of `count` months from month `first` of a year."""
    if not 1 <= first <= 12:
        raise ValueError(first)
    end = year * 12 + first - 1 + count
    after = date(end // 12, end % 12 + 1, 1) if end < 120_000 else None
    return date(year, first, 1).toordinal(), _END_OF_TIME if after is None else after.toordinal()


def _week(year: int, week: int) -> tuple[int, int]:
    monday = date.fromisocalendar(year, week, 1)
    return monday.toordinal(), (monday + timedelta(days=7)).toordinal()


_FORMS: Final[tuple[tuple[re.Pattern[str], Callable[..., tuple[int, int]]], ...]] = (
    (re.compile(r"([0-9]{4})"), lambda year: _months(year, 1, 12)),
    (re.compile(r"([0-9]{4})-H([12])"), lambda year, half: _months(year, 6 * half - 5, 6)),
    (re.compile(r"([0-9]{4})-Q([1-4])"), lambda year, quarter: _months(year, 3 * quarter - 2, 3)),
    (re.compile(r"([0-9]{4})-([0-9]{2})"), lambda year, month: _months(year, month, 1)),
    (re.compile(r"([0-9]{4})-W([0-9]{2})"), _week),
    (
        re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})"),
        lambda *day: (date(*day).toordinal(), date(*day).toordinal() + 1),
    ),
)


# --- Names of sources whose rows are told apart by the day in a column.


_OPENS: Final = " [by "


def day_of_row(date_column: str, contract: Contract) -> str:
    """Return what tells the day of a row: the column, and its declared `format:` and `time_zone:`."""
    domain = next((column.domain for column in contract.columns if column.name == date_column), None)
    form, zone = (getattr(domain, key, None) for key in ("format", "time_zone"))
    return date_column + ("" if form is None else f" as {form}") + ("" if zone is None else f" in {zone}")


def divided_name(name: str, date_column: str | None) -> str:
    """Return the name of a source whose rows are told apart by the day in a column; its own name without one."""
    return name if date_column is None else f"{name}{_OPENS}{date_column}]"


def division_of(name: str) -> tuple[str, str] | None:
    """Return the source and the column of such a name; None for any other name."""
    source, opens, rest = name.rpartition(_OPENS)
    return (source, rest[:-1]) if opens and rest.endswith("]") else None


def is_divided(name: str) -> bool:
    """Say whether a name is one of a source whose rows are told apart by a column."""
    return division_of(name) is not None
