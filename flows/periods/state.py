"""What was charged for a period and not published: completed on its own snapshot, or a second charge is asked for.

A source may change between a charge and its publication. Read anew it would be another run, and charged once more; so
the snapshot that the charge was made for is taken up, and where that is gone, somebody must want the second charge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from contracts.errors import Finding
from flows.request import Request
from privacy.accounting.amounts import pico_to_text
from privacy.ledger.entries import LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import Charge
from privacy.private_table import PrivateTable
from tasks.products.charge_request import due_key, mark_of, run_key
from tasks.publish import is_in_store, is_whole
from tasks.storage.snapshot.snapshot import SNAPSHOT, finished, private_folder
from tasks.storage.workspace.run_folder import LOST, SNAPSHOT_STEM, RunFolder, run_name
from tasks.storage.workspace.settings import Workspace

OPEN = ("reserved", "opened")


class DateSpent(LedgerRefusal):
    """A due date was charged, its version is not there, and its run cannot be gone on with."""


class PeriodSpent(LedgerRefusal):
    """The period was charged and not published, and would now be charged a second time."""


def left_charges(ledger: Ledger, request: Request, store: Path | None = None) -> tuple[Charge, ...]:
    """Return the charges of a release that are newer than its last publication, oldest first.

    Args:
        ledger: the ledger.
        request: names release and account.
        store: where given, a publication counts once it is whole in this release store.
    """
    left: list[Charge] = []
    for charge in ledger.charges(account=request.spec.charge.account):
        if charge.request.release != request.spec.release or _of_another_date(charge, request):
            continue
        if charge.status in OPEN or not (store is None or is_whole(ledger, charge.request.run_key, store)):
            left.append(charge)
        elif charge.status == "published":
            left = []
    return tuple(charge for charge in left if charge.status != "returned")


def unfinished(ledger: Ledger, request: Request, workspace: Workspace) -> bool:
    """Say whether a run of this spec is charged and not published: it goes on, and pays nothing more.

    Once a version is published, one that was charged after it (with `--supersede`) counts while its snapshot is kept.
    """
    spec = request.spec
    asked = (spec.digest, spec.due)
    left = left_charges(ledger, request)
    mine = [each for each in left if (each.request.spec_digest, each.request.due) == asked]
    standing = any(version.status in ("published", "withdrawn") for version in ledger.versions(spec.release))
    kept = any((workspace.runs / run_name(spec.release, spec.run_digest)).glob(f"{SNAPSHOT_STEM}*"))
    return bool(mine) and (kept or not standing)


def goes_on(ledger: Ledger, request: Request, table: PrivateTable, store: Path) -> bool:
    """Say whether a snapshot is that of a run which is charged and whose version is not whole yet."""
    key = run_key(request.spec, request.contract, table)
    charge = ledger.charge(key)
    if charge is None or charge.status == "returned":
        return False
    if charge.request.snapshot_hash != mark_of(request.spec, table):
        return False
    return charge.status in OPEN or not is_whole(ledger, key, store)


def kept_snapshot(ledger: Ledger, run: RunFolder, request: Request, workspace: Workspace) -> PrivateTable | None:
    """Return the snapshot of a run of a period or due date that was charged and not published; no source is read.

    Args:
        ledger: knows what was charged.
        run: the run's folder.
        request: what is asked for; of a spec of one release that goes by its rows nothing is taken up here.
        workspace: gives the snapshot key, the store and the memory limit.
    """
    if (request.spec.block is None and request.spec.due is None) or request.spec.source.engine is not None:
        return None
    key, limit, digest = workspace.snapshot_key(), workspace.memory_limit, request.contract.digest
    with private_folder(run.path):
        hashed = finished(run.path, made_from=None, contract_digest=digest, key=key, memory_limit=limit)
    if hashed is None:
        return None
    table = PrivateTable(run.path / SNAPSHOT, hashed, digest, request.spec.source.bound_name(request.contract))
    charge = ledger.charge(run_key(request.spec, request.contract, table))
    if charge is None or not goes_on(ledger, request, table, request.store(workspace)):
        return None
    return replace(table, source=charge.request.source)


def check_snapshot_kept(ledger: Ledger, run: RunFolder, request: Request, store: Path) -> None:
    """Refuse to go on with the charge of a due date whose snapshot is gone, or whose published version is.

    Whatever the rows are by now: whether a due date gets its version is not to depend on them. So nothing is read. A
    charge that was given back is no concern of this: nothing was drawn, and the date is charged again.

    Args:
        ledger: knows what was charged.
        run: the run's folder; learns that its charge cannot be gone on with.
        request: what is asked for; no snapshot of it is kept.
        store: the release store.
    Raises:
        DateSpent: the date was charged, and its version is not in the store.
    """
    key, due = due_key(request.spec, request.contract), request.spec.due
    charge = None if key is None else ledger.charge(key)
    if key is None or charge is None or charge.status == "returned":
        return
    if charge.status not in OPEN and is_in_store(ledger, key, store):
        return
    run.charge = LOST
    if charge.status in OPEN:
        found = f"charged for {due} and not published, and the snapshot that it was charged for is gone"
        allowed, lost = "the snapshot of the charge", "the run's private folder"
    else:
        found = f"published for {due}, and its version is not in the release store as it was published"
        allowed, lost = "the version that was published", "the version's folder"
    remedy = f"bring back {lost} from a copy; or take another date, which is charged: --due"
    raise DateSpent([Finding(f"release {request.spec.release}", "due date", found, allowed, remedy)])


def check_unspent(
    ledger: Ledger, run: RunFolder, request: Request, workspace: Workspace, table: PrivateTable | None = None
) -> None:
    """Refuse a second charge of a period that was charged and not published; `--supersede` asks for one.

    Args:
        ledger: knows what was charged.
        run: the run's folder; learns that its charge cannot be gone on with.
        request: what is asked for.
        workspace: gives the release store.
        table: what was read; without it, only another spec or contract tells that the run is another one.
    Raises:
        PeriodSpent: the run has another key than what was charged.
    """
    spec, contract = request.spec, request.contract
    if spec.block is None:
        return
    left = left_charges(ledger, request, request.store(workspace))
    if table is not None:
        another = all(each.request.run_key != run_key(spec, contract, table) for each in left)
    else:
        asked = (spec.digest, contract.digest)
        another = all((each.request.spec_digest, each.request.contract_digest) != asked for each in left)
    if left and another:
        if table is not None or run.charge is None:
            run.charge = LOST
        raise PeriodSpent([_finding(request, left)])


def _of_another_date(charge: Charge, request: Request) -> bool:
    """Say whether a charge is of another due date of a release without periods, which is no concern of this run."""
    spec = request.spec
    return spec.due is not None and spec.block is None and charge.request.due != spec.due


def _finding(request: Request, left: Sequence[Charge]) -> Finding:
    spec = request.spec
    spent = pico_to_text(sum(each.amount for each in left))
    found = (
        f"a loss of {spent} taken from account {spec.charge.account} by {len(left)} charge(s) without a published "
        f"version, and a run that cannot go on with them: rows, spec or contract are others, and no snapshot is kept"
    )
    remedy = (
        "bring back the rows, spec and contract that were charged, and it costs nothing more; "
        "or ask for a second charge with --supersede"
    )
    return Finding(
        f"release {spec.release}", "charge", found, "one charge of a period, unless more is asked for", remedy
    )


# --- In which states a period can be, and what leads from one to another.


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
