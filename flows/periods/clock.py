"""Which day it is: one clock for whatever asks whether a period is over, or a run due."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from contracts.errors import Finding, Refused
from contracts.periods.period import read_period
from contracts.periods.period_rules import ON_SCHEDULE, own_due
from flows.request import Request
from privacy.ledger.entries import LedgerRefusal
from privacy.ledger.ledger import Ledger


class PeriodNotOver(Refused):
    """The period goes on: rows of its last days are not there yet, and would be charged for once more later."""


def today(timezone: str | None = None, at: datetime | None = None) -> date:
    """Return the day at a time.

    Args:
        timezone: where, such as Europe/Oslo; None for UTC.
        at: the time; None for the present one.
    """
    moment = datetime.now(UTC) if at is None else at
    return moment.astimezone(UTC if timezone is None else ZoneInfo(timezone)).date()


class ClockAhead(LedgerRefusal):
    """The clock is far ahead of the journal's last entry: whoever runs the command says whether it is right."""


def check_clock(ledger: Ledger, days: int, *, accepted: bool = False) -> None:
    """Refuse a wrong clock before a charge: what is entered by it stands in the journal for good.

    Args:
        ledger: has a clock, and the time of its last entry.
        days: how far the clock may be ahead of that (`clock.ahead`).
        accepted: whether the operator has said that a clock further ahead is right.
    Raises:
        ClockBehind: it is more than a day behind.
        ClockAhead: it is further ahead, and nobody said that it is right.
    """
    now, last = ledger.times()
    if accepted or datetime.fromisoformat(now) - datetime.fromisoformat(last) <= timedelta(days=days):
        return
    allowed = f"at most {days} days after {last}, the time of the journal's last entry (clock.ahead in sudare.toml)"
    remedy = "set the clock; if it is right, as nothing was entered for so long, add --accept-clock to sudare run, "
    remedy += "or raise clock.ahead"
    raise ClockAhead([Finding("this machine", "clock", now, allowed, remedy)])


class DateMissing(Refused):
    """A run of a spec with `redraw: on_schedule` that nobody gave a due date, or one that it cannot have."""


def check_due(request: Request, day: date | None, *, supersede: bool) -> None:
    """Refuse a run on a schedule without its due date, one that is not due yet, and a period's under another date.

    Args:
        request: what is asked for; of a spec without `redraw: on_schedule` nothing is checked.
        day: today; None where a date that is not reached is wanted all the same (`--early`).
        supersede: whether another version of a period is wanted, which has a due date of its own.
    Raises:
        DateMissing: see above.
    """
    spec = request.spec
    if spec.redraw != ON_SCHEDULE:
        return
    if spec.due is None:
        found, remedy = "no due date", f"name the date that this run is due on: --due {today()} for today"
        raise _no_date(request, found, remedy)
    if spec.block is not None and not supersede and spec.due != _own_date(request):
        found = f"{spec.due} for {spec.block}, which is due on {_own_date(request)}"
        raise _no_date(request, found, "leave --due out; with --supersede it is the date of another version")
    if spec.block is None and day is not None and date.fromisoformat(spec.due) > day:
        raise _no_date(request, f"{spec.due}; today is {day}", "wait for it, or release it today with --early")


def check_own_date(request: Request, ledger: Ledger) -> None:
    """Refuse another version of a period on the due date of its first, which would be the same run.

    Raises:
        DateMissing: it is the period's own date, and a version of the period is there.
    """
    there = any(each.status != "allocated" for each in ledger.versions(request.spec.release))
    if there and request.spec.block is not None and request.spec.due == _own_date(request):
        found = f"{request.spec.due}, on which the period's first version was due"
        raise _no_date(request, found, f"name the date of the new one: --due {today()} for today")


def _own_date(request: Request) -> str | None:
    spec = request.spec
    period = None if spec.block is None or spec.period is None else read_period(spec.block, spec.period)
    return own_due(spec.redraw, period)


def _no_date(request: Request, found: str, remedy: str) -> DateMissing:
    allowed = "the date that the run is due on; each date is charged once and has one version"
    return DateMissing([Finding(f"release {request.spec.release}", "due date", found, allowed, remedy)])


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
