"""What a spec with `period:` must say, and what one without may not."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final, Literal, get_args

from contracts.canonical import digest
from contracts.contract.contract import Contract
from contracts.domains.calendar_periods import Granularity
from contracts.periods.period import PATTERNS, PLACEHOLDER, Period
from contracts.reading.scalars import Problem, nearest, show, word_list

TOTAL_OF_ALL: Final = Problem(
    "the contract's public total beside `by`",
    "a total that is estimated: how many rows a period has is not what is declared of the whole table",
    "write total: noisy, or use a contract without a public total for the periods",
)
_LENGTHS: Final = get_args(Granularity)


def pattern_problems(written: Mapping[str, Any], period: str | None) -> list[Problem]:
    """List what is wrong between a spec's `period:`, its placeholders and the period that was asked for.

    Args:
        written: the spec as it stands in its file.
        period: which period was asked for; None for none.
    """
    length = written.get("period")
    if length is None:
        return _of_one(written, period)
    if length not in _LENGTHS:
        return [Problem(show(length), word_list(_LENGTHS), nearest(str(length), _LENGTHS), ("period",))]
    problems = []
    if period is None:
        remedy = "name one: --period; or the missing ones of a range: --backfill A..B"
        problems.append(Problem(f"a release of each {length}, and none named", "one period at a time", remedy))
    if not _has(written, ("release",)):
        remedy = f"write for instance release: visits-{PLACEHOLDER}; then a correction supersedes its period only"
        problems.append(Problem("one name for all periods", f"a name with {PLACEHOLDER} in it", remedy, ("release",)))
    source = written.get("source")
    by = source.get("by") if isinstance(source, dict) else None
    if by is None and not _has(written, ("source", "path")) and not _has(written, ("source", "table")):
        found = f"the same rows for every {length}"
        allowed = f"`by:` with the column of days that tells which {length} a row is of, or {PLACEHOLDER} in the path"
        problems.append(Problem(found, allowed, "add one of them", ("source",)))
    return problems


def _of_one(written: Mapping[str, Any], period: str | None) -> list[Problem]:
    """List what a spec of one release has that only a pattern can have."""
    remedy = f"add period: {', '.join(_LENGTHS[:-1])} or {_LENGTHS[-1]}"
    problems = [
        Problem(f"{PLACEHOLDER} in a spec without `period:`", "a spec with `period:`", remedy, place)
        for place in PATTERNS
        if _has(written, place)
    ]
    source = written.get("source")
    if isinstance(source, dict) and source.get("by") is not None:
        problems.append(Problem("`by` without `period:`", "a spec with `period:`", remedy, ("source", "by")))
    if period is not None and not problems:
        problems.append(Problem("a period for a spec without `period:`", "a spec with `period:`", remedy))
    return problems


def by_problems(date_column: str, contract: Contract) -> list[Problem]:
    """List why a column cannot tell periods apart.

    Args:
        date_column: the column.
        contract: must declare it with days or calendar periods as its domain.
    """
    dates = [column.name for column in contract.columns if column.domain.tells_days]
    if date_column in dates:
        return []
    allowed = word_list(dates) if dates else "a column whose domain is of dates; the contract has none"
    return [
        Problem(f"the column {show(date_column)}", allowed, nearest(date_column, dates) or "name a column of dates")
    ]


def _has(written: Mapping[str, Any], place: tuple[str, ...]) -> bool:
    """Say whether a text of the spec has the placeholder in it."""
    value: Any = written
    for key in place:
        value = value.get(key) if isinstance(value, dict) else None
    return isinstance(value, str) and PLACEHOLDER in value


# --- When a release is drawn again.


Redraw = Literal["on_change", "on_schedule"]
ON_SCHEDULE: Final = "on_schedule"


def due_problems(written: Mapping[str, Any], due: str | None) -> list[Problem]:
    """List what is wrong between a spec's `redraw:` and the due date that was asked for.

    Args:
        written: the spec as it stands in its file.
        due: the date; None for none.
    """
    if due is None:
        return []
    if written.get("redraw") != ON_SCHEDULE:
        found, allowed = "a due date for a spec without `redraw: on_schedule`", "a spec with `redraw: on_schedule`"
        return [Problem(found, allowed, "leave --due out, or add the key", ("redraw",))]
    if _date(due) is None:
        return [Problem(f"due date {show(due)}", "a day as YYYY-MM-DD", "for instance --due 2026-01-31", ("redraw",))]
    return []


def own_due(redraw: str | None, period: Period | None) -> str | None:
    """Return the due date that a period has by itself, the day after its last; None without schedule or period."""
    if redraw != ON_SCHEDULE or period is None:
        return None
    return date.fromordinal(period.block.ends).isoformat()


def due_run_key(release: str, *, spec_digest: str, contract_digest: str, due: str) -> str:
    """Return the key of the run that is due on a date. Nothing of the rows is in it."""
    return keyed(release, {"spec": spec_digest, "contract": contract_digest, "due": due})


def keyed(release: str, parts: Mapping[str, str]) -> str:
    """Return a run's key: the release's name, and a digest of what makes it this run."""
    return f"{release}-{digest(dict(parts))[:24]}"


def _date(text: str) -> date | None:
    try:
        read = date.fromisoformat(text)
    except ValueError:
        return None
    return read if read.isoformat() == text else None
