"""Which day it is: one clock for whatever asks whether a period is over."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from contracts.errors import Finding, Refused
from flows.request import Request


class PeriodNotOver(Refused):
    """The period goes on: rows of its last days are not there yet, and would be charged for once more later."""


def today(timezone: str | None = None, at: datetime | None = None) -> date:
    """Return the day at a time.

    Args:
        timezone: where, such as Europe/Oslo; None for UTC.
        at: the time; None for now.
    """
    moment = datetime.now(UTC) if at is None else at
    return moment.astimezone(UTC if timezone is None else ZoneInfo(timezone)).date()


def check_over(request: Request, day: date | None) -> None:
    """Refuse a period that is not over; a spec of one release has none.

    Args:
        request: what is asked for.
        day: today; None where it is wanted all the same (`--early`).
    Raises:
        PeriodNotOver: its last day is today or later.
    """
    if request.days is None or day is None or request.days.ends <= day.toordinal():
        return
    last = date.fromordinal(request.days.ends - 1)
    found = f"{request.spec.block}, whose last day is {last}; today is {day}"
    remedy = (
        "run it when it is over; with --early it is released as it stands, and its later rows cost a second charge"
    )
    raise PeriodNotOver(
        [Finding(f"release {request.spec.release}", "period", found, "a period that is over", remedy)]
    )
