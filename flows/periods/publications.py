"""What is published already: another version is made only when somebody asks for one, or the spec says when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

from contracts.domains.calendar_periods import Granularity
from contracts.errors import Finding, Refused
from contracts.periods.period import Period, period_in, period_of
from flows.outcome import Outcome, outcome_of
from flows.periods.clock import check_own_date
from flows.periods.state import WORDS, PeriodState, left_charges, may_run, state_by_ledger
from flows.request import Request, read_request
from privacy.accounting.amounts import pico_to_text
from privacy.ledger.entries import LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import VersionEntry
from privacy.private_table import PrivateTable
from tasks.products.charge_request import due_key, request_for, run_key
from tasks.publish import Publication, published
from tasks.storage.sinks.copies import copy_published
from tasks.storage.workspace.run_folder import (
    BEGUN,
    COMPLETE,
    PUBLISHED,
    Attempt,
    RunFolder,
    is_locked,
    last_attempt,
    note_attempt,
    run_name,
)
from tasks.storage.workspace.settings import Workspace


class VersionWithdrawn(LedgerRefusal):
    """What is asked for was published and withdrawn; nothing brings it back unasked."""


class SecondVersion(LedgerRefusal):
    """The release has a version or a charge already, and this run would be another one."""


def settled(request: Request, workspace: Workspace, run: RunFolder, *, supersede: bool) -> Outcome | None:
    """Return the outcome of a period or due date that is published; None where there is something to do.

    Reads no data. A spec of one release without due dates looks at its rows first. A period's rows may change as well
    (late data, corrections), but what that costs is for a person to decide.

    Args:
        request: what is asked for.
        workspace: gives ledger and store.
        run: held by this process; learns that the period is charged and published, whatever becomes of a copy.
        supersede: whether another version is wanted if the rows have changed.
    Raises:
        VersionWithdrawn: all its versions were withdrawn.
        DateMissing: another version of a period is wanted, on the due date of the first.
    """
    spec = request.spec
    of_its_rows = spec.block is None or supersede
    if spec.due is None and of_its_rows:
        return None
    with closing(workspace.open_ledger()) as ledger:
        key = due_key(spec, request.contract)
        if key is not None and supersede:
            check_own_date(request, ledger)
        done = None if key is None else _standing(ledger, key, request, workspace, run)
        if done is not None or of_its_rows:
            return done
        state, newest = state_by_ledger(ledger, request, workspace)
        if may_run(state):
            return None
        entered = [version for version in ledger.versions(spec.release) if version.status != "allocated"]
        if newest is None:
            raise withdrawal(spec.release, entered[-1].number)
        [standing] = [version for version in entered if version.number == newest]
        return _standing(ledger, standing.run_key, request, workspace, run)


def _standing(ledger: Ledger, run_key: str, request: Request, workspace: Workspace, run: RunFolder) -> Outcome | None:
    """Return the outcome of a run whose version is whole, copied where the spec publishes to; None of any other."""
    store = request.store(workspace)
    found = published(ledger, run_key, store)
    if found is None:
        return None
    run.charge = COMPLETE
    copied = None
    if request.copy_to is not None and not is_withdrawn(ledger, found):
        named = request.spec.publish.credentials
        copied = copy_published(ledger, store, found.release, found.number, request.copy_to, named)[1]
    return outcome_of(found, ledger, workspace, repeated=True, copied=copied)


def check_intended(ledger: Ledger, request: Request, workspace: Workspace, table: PrivateTable | None = None) -> None:
    """Refuse a second version, and a second charge, that nobody asked for.

    A period asks in ways of its own (`settled`, `spent`); `redraw:` in a spec says when it is wanted.

    Args:
        ledger: knows what was charged and published.
        request: what is asked for.
        workspace: gives the release store.
        table: what was read; without it, only another spec or contract tells that the run is another one.
    Raises:
        SecondVersion: it would be one.
    """
    spec, contract = request.spec, request.contract
    if spec.block is not None or spec.redraw is not None:
        return
    entered = [each for each in ledger.versions(spec.release) if each.status != "allocated"]
    left = left_charges(ledger, request, request.store(workspace))
    if not entered and not left:
        return
    known = [each for each in ledger.charges(spec_digest=spec.digest) if each.status != "returned"]
    if table is None:
        same = any(each.request.contract_digest == contract.digest for each in known)
    else:
        same = any(each.request.run_key == run_key(spec, contract, table) for each in known)
    if not same:
        raise _second(request, entered, len(left), read=table is not None)


def _second(request: Request, entered: Sequence[VersionEntry], left: int, *, read: bool) -> SecondVersion:
    spec = request.spec
    there = f"v{entered[-1].number} is there" if entered else f"{left} charge(s) without a version are there"
    found = f"{there}, and this run is another one: its {'rows, ' if read else ''}spec or contract differ"
    cost = f"epsilon {pico_to_text(request.plan.epsilon)} of account {spec.charge.account}"
    remedy = (
        f"add --supersede for another version, which is charged {cost}; for a schedule write into the spec "
        "redraw: on_schedule (a version on each due date, recommended) or redraw: on_change"
    )
    allowed = "one version and one charge, unless more is asked for"
    return SecondVersion([Finding(f"release {spec.release}", "version", found, allowed, remedy)])


def is_withdrawn(ledger: Ledger, version: Publication) -> bool:
    """Say whether the journal says that a version was withdrawn."""
    entered = ledger.versions(version.release)
    return any(each.status == "withdrawn" for each in entered if each.number == version.number)


def withdrawal(release: str, number: int) -> VersionWithdrawn:
    """Return the refusal of a run that would make a version that was withdrawn."""
    found = f"v{number}, which was withdrawn; nothing was drawn or charged"
    remedy = (
        "a new version needs other rows or another spec, and is charged: correct what was wrong, then run again with "
        "--supersede"
    )
    allowed = "a version that was not withdrawn"
    return VersionWithdrawn([Finding(f"release {release}", "version", found, allowed, remedy)])


@contextmanager
def attempt_noted(request: Request, workspace: Workspace, run: RunFolder) -> Iterator[None]:
    """Keep a private note of how the attempt at a period ends."""
    if request.spec.block is None:
        yield
        return
    folder, release = workspace.attempts, request.spec.release
    try:
        note_attempt(folder, release, BEGUN, error=None, charge=None)
        yield
        note_attempt(folder, release, PUBLISHED, error=None, charge="published")
    except BaseException as error:
        told = run.refusal if run.refusal is not None else error
        note_attempt(folder, release, type(told).__name__, error=told, charge=run.charge)
        raise


# --- How the periods of a release stand.


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
        return [_period_standing(ledger, spec, period, workspace, today, foresee) for period in periods]


def first_published(spec: Path, granularity: Granularity, workspace: Workspace) -> Period | None:
    """Return the first period of which the ledger knows a version; None for no period."""
    sample = period_of(date(2000, 1, 1), granularity)
    like = read_request(spec, workspace, str(sample)).spec.release
    with closing(workspace.open_ledger()) as ledger:
        names = {version.release for version in ledger.versions()}
    found = (period_in(name, like, sample) for name in names)
    return min((each for each in found if each is not None), key=lambda each: each.block.begins, default=None)


def _period_standing(
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
