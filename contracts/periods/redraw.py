"""When a release is drawn again: only when somebody asks, whenever its rows change, or on each date that it is due.

    (nothing)      one version; another one, for other rows or another spec, is charged only with `--supersede`
    on_change      other rows are another version, and another charge, unasked; the same rows make none
    on_schedule    each due date is one run: charged once, one version, whatever the rows are. Whether there is a
                   version, and how often, tells nothing about the rows. Right for schedules

The key of a run says which of these it was: it is made of spec, contract and the private hash of the rows, or, on a
schedule, of spec, contract and due date, which anybody can work out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final, Literal

from contracts.canonical import digest
from contracts.periods.period import Period
from contracts.reading.scalars import Problem, show

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
