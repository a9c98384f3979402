"""How the periods of a release stand: which are published, which are missing, and why.

What the ledger and the calendar decide is public. Why an attempt ended may be a fact about the data (a gate, a source
without rows), so that stands in a part of its own, which is private.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from contracts.domains.calendar_periods import Granularity
from contracts.errors import Refused
from contracts.periods.period import Period, period_in, period_of
from flows.periods.period_state import WORDS, PeriodState, state_by_ledger
from flows.request import Request, read_request
from privacy.ledger.errors import LedgerRefusal
from privacy.ledger.ledger import Ledger
from tasks.products.charge_request import request_for
from tasks.storage.workspace.attempts import BEGUN, PUBLISHED, Attempt, last_attempt
from tasks.storage.workspace.run_folder import is_locked, run_name
from tasks.storage.workspace.settings import Workspace

_KINDS: Final = {
    "BudgetExceeded": "the ledger refused the charge",
    "LedgerRefusal": "the ledger refused the charge",
    "SourceUnreadable": "the source could not be read",
    "OperatorDecides": "the operator has not accepted how the rows fit the contract",
    "KeyboardInterrupt": "it was interrupted",
    "Interrupted": "it was interrupted",
    BEGUN: "it was killed before it could say why",
}


@dataclass(frozen=True)
class PeriodStanding:
    """How one period stands.

    Args:
        period: which.
        release: name of its product.
        state: by ledger and calendar alone; public.
        version: the newest published version, if there is one.
        refusal: why the ledger would refuse it; public.
        attempt: how the last attempt ended; private.
    """

    period: Period
    release: str
    state: PeriodState
    version: int | None = None
    refusal: str | None = None
    attempt: Attempt | None = None

    @property
    def description(self) -> str:
        """The state in words; public."""
        published = self.state is PeriodState.PUBLISHED
        words = f"{WORDS[self.state]} v{self.version}" if published else WORDS[self.state]
        return f"{words}: {self.refusal}" if self.refusal else words

    @property
    def private_reason(self) -> str:
        """How the last attempt ended, in words; private."""
        if self.attempt is None:
            return "never run"
        ended, fields = self.attempt.ended, ", ".join(field.removeprefix("gate ") for field in self.attempt.fields)
        if ended == PUBLISHED:
            return "-"
        if ended == "GateBroken":
            found = "no rows" if fields == "rows" else f"failed at the gate {fields}"
            return f"{found}, {self.attempt.at}"
        return f"{_KINDS.get(ended, f'{ended} ({fields})' if fields else ended)}, {self.attempt.at}"


def standings(
    spec: Path, periods: Sequence[Period], workspace: Workspace, *, today: date, foresee: bool = True
) -> list[PeriodStanding]:
    """Return how periods stand. Reads no data.

    Args:
        spec: a release spec with `period:`.
        periods: which periods.
        workspace: gives the ledger and the notes of attempts.
        today: periods that end later are not over.
        foresee: whether to ask the ledger what it would refuse.
    Raises:
        SpecRefused: the spec cannot be followed.
    """
    with closing(workspace.open_ledger()) as ledger:
        return [_standing(ledger, spec, period, workspace, today, foresee) for period in periods]


def first_published(spec: Path, granularity: Granularity, workspace: Workspace) -> Period | None:
    """Return the first period of which the ledger knows a version; None for no period."""
    sample = period_of(date(2000, 1, 1), granularity)
    like = read_request(spec, workspace, str(sample)).spec.release
    with closing(workspace.open_ledger()) as ledger:
        names = {version.release for version in ledger.versions()}
    found = (period_in(name, like, sample) for name in names)
    return min((each for each in found if each is not None), key=lambda each: each.block.begins, default=None)


def _standing(
    ledger: Ledger, spec: Path, period: Period, workspace: Workspace, today: date, foresee: bool
) -> PeriodStanding:
    request = read_request(spec, workspace, str(period))
    release = request.spec.release
    state, version = state_by_ledger(ledger, request, workspace)
    if is_locked(workspace.runs, run_name(release, request.spec.run_digest)):
        state = PeriodState.RUNNING
    if state is PeriodState.MISSING and period.block.ends > today.toordinal():
        state = PeriodState.NOT_OVER
    refusal = _refusal(ledger, request) if state is PeriodState.MISSING and foresee else None
    attempt = last_attempt(workspace.attempts, release)
    return PeriodStanding(period, release, PeriodState.REFUSED if refusal else state, version, refusal, attempt)


def _refusal(ledger: Ledger, request: Request) -> str | None:
    """Return why the ledger would refuse the charge now, in one line."""
    try:
        ledger.foresee(request_for(request.spec, request.contract, request.plan))
    except LedgerRefusal as refused:
        return _in_a_line(refused)
    return None


def _in_a_line(refused: Refused) -> str:
    first = refused.findings[0]
    return f"{first.where}, {first.field}: {first.found}; allowed: {first.allowed}"
