"""What a spec with `period:` must say, and what one without may not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from contracts.contract.contract import Contract
from contracts.domains.calendar_periods import Granularity
from contracts.periods.period import PATTERNS, PLACEHOLDER
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
