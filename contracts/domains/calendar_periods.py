"""Calendar periods: the cells of a date column (days, ISO weeks from Monday, months, quarters, years)."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal

Granularity = Literal["day", "week", "month", "quarter", "year"]
MONTHS: dict[str, int] = {"month": 1, "quarter": 3, "year": 12}
_EPOCH_MONDAY = 719_163 - 3  # 1969-12-29 as a proleptic ordinal


def period_index(day: date, granularity: Granularity) -> int:
    """Number the period that holds a day; neighbouring periods have neighbouring numbers."""
    if granularity == "day":
        return day.toordinal()
    if granularity == "week":
        return (day.toordinal() - _EPOCH_MONDAY) // 7
    return (day.year * 12 + day.month - 1) // MONTHS[granularity]


def count_periods(first: date, last: date, granularity: Granularity) -> int:
    """Count the periods that a range of days touches, both ends included."""
    return period_index(last, granularity) - period_index(first, granularity) + 1


def _start(index: int, granularity: Granularity) -> date:
    """Return the first day of a numbered period (which must lie in the years 1 to 9999)."""
    if granularity == "day":
        return date.fromordinal(index)
    if granularity == "week":
        return date.fromordinal(max(1, index * 7 + _EPOCH_MONDAY))
    month = index * MONTHS[granularity]
    return date(month // 12, month % 12 + 1, 1)


def periods(first: date, last: date, granularity: Granularity) -> tuple[tuple[date, date], ...]:
    """List the periods of a range of days as (first day, last day), cut at the ends of the range."""
    begin = period_index(first, granularity)
    indices = range(begin, period_index(last, granularity) + 1)
    starts = [first] + [_start(index, granularity) for index in indices[1:]]
    ends = [start - timedelta(days=1) for start in starts[1:]] + [last]
    return tuple(zip(starts, ends, strict=True))


def period_label(day: date, granularity: Granularity) -> str:
    """Name the period that holds a day: 2024-03-09, 2024-W10, 2024-03, 2024-Q1 or 2024."""
    if granularity == "day":
        return day.isoformat()
    if granularity == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04d}-W{week:02d}"
    if granularity == "month":
        return f"{day.year:04d}-{day.month:02d}"
    return f"{day.year:04d}-Q{(day.month + 2) // 3}" if granularity == "quarter" else f"{day.year:04d}"
