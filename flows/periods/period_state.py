"""In which states a period can be, and what leads from one to another: one type and one table.

The state follows from the ledger, the release store and the calendar, and is public. It is found anew each time that
somebody asks; nothing keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from flows.periods.unfinished_charges import unfinished
from flows.request import Request
from privacy.ledger.ledger import Ledger
from tasks.storage.workspace.settings import Workspace


class PeriodState(StrEnum):
    """How a period stands."""

    NOT_OVER = "not over"
    MISSING = "missing"
    REFUSED = "refused"
    RUNNING = "running"
    CHARGED = "charged"
    PUBLISHED = "published"
    WITHDRAWN = "withdrawn"


class PeriodChange(StrEnum):
    """What may happen to a period."""

    ENDS = "its last day passes"
    RUN = "a run begins that nobody asked for by name"
    SUPERSEDE = "a run begins that was asked to make another version"
    EARLY = "a run begins that was asked to release it as it stands"
    CHARGE = "the run is charged and stops"
    REFUSE = "the run stops, and the ledger would refuse the charge"
    STOP = "the run stops before it is charged"
    PUBLISH = "the run publishes a version"
    WITHDRAW = "its last version is withdrawn"
    ROOM = "an account gets room"


S, C = PeriodState, PeriodChange
TRANSITIONS: Final[Mapping[tuple[PeriodState, PeriodChange], PeriodState]] = {
    (S.NOT_OVER, C.ENDS): S.MISSING,
    (S.NOT_OVER, C.EARLY): S.RUNNING,
    (S.MISSING, C.RUN): S.RUNNING,
    (S.MISSING, C.SUPERSEDE): S.RUNNING,
    (S.REFUSED, C.ROOM): S.MISSING,
    (S.REFUSED, C.RUN): S.RUNNING,  # the cap may have been raised since anybody looked
    (S.REFUSED, C.SUPERSEDE): S.RUNNING,
    (S.RUNNING, C.STOP): S.MISSING,
    (S.RUNNING, C.REFUSE): S.REFUSED,
    (S.RUNNING, C.CHARGE): S.CHARGED,
    (S.RUNNING, C.PUBLISH): S.PUBLISHED,
    (S.CHARGED, C.RUN): S.RUNNING,  # it goes on with its snapshot and pays nothing more
    (S.CHARGED, C.SUPERSEDE): S.RUNNING,
    (S.PUBLISHED, C.SUPERSEDE): S.RUNNING,
    (S.PUBLISHED, C.WITHDRAW): S.WITHDRAWN,
    (S.WITHDRAWN, C.SUPERSEDE): S.RUNNING,
}
"""The state after a change. A change that is not listed for a state does nothing to it."""

WORDS: Final[Mapping[PeriodState, str]] = {
    S.PUBLISHED: "published",
    S.WITHDRAWN: "published and withdrawn; --supersede makes another version",
    S.CHARGED: "charged and not published: an attempt was interrupted; the next run goes on with its snapshot and "
    "pays nothing more",
    S.RUNNING: "a run of it is going on",
    S.REFUSED: "not published; the ledger refuses it as it stands",
    S.MISSING: "not published",
    S.NOT_OVER: "its last day is not over",
}


def may_run(state: PeriodState, *, supersede: bool = False) -> bool:
    """Say whether a run of a period in this state has something to do."""
    return (state, C.SUPERSEDE if supersede else C.RUN) in TRANSITIONS


def state_by_ledger(ledger: Ledger, request: Request, workspace: Workspace) -> tuple[PeriodState, int | None]:
    """Return the state by ledger and snapshot alone, and the newest published version; no run of it is looked for."""
    versions = ledger.versions(request.spec.release)
    published = [version.number for version in versions if version.status == "published"]
    newest = published[-1] if published else None
    if unfinished(ledger, request, workspace):
        return S.CHARGED, newest
    if newest is not None:
        return S.PUBLISHED, newest
    return (S.WITHDRAWN if any(version.status != "allocated" for version in versions) else S.MISSING), None
