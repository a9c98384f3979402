"""Intake: what may be done before Prefect answers. The ledger is asked first, then the data are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Final

from contracts.errors import Finding, GateBroken
from contracts.periods.period import period_in, read_period
from contracts.release.engine_kinds import engine_kind
from contracts.release.spec import ReleaseSpec
from flows.order import OperatorDecision
from flows.periods.publications import check_intended
from flows.periods.state import check_snapshot_kept, check_unspent, goes_on, kept_snapshot
from flows.request import Request
from privacy.counting_engine import CountsUnavailable
from privacy.ledger.ledger import Ledger
from privacy.private_table import PrivateTable, snapshot_mark
from tasks.checkpoints import check_not_forgotten
from tasks.contract_succession import check_contract
from tasks.ingest import ingest
from tasks.products.charge_request import request_for, run_key
from tasks.storage.progress import step
from tasks.storage.source_engine import MARKER, SourceEngine
from tasks.storage.sources.days import days_of
from tasks.storage.workspace.run_folder import RunFolder, run_name
from tasks.storage.workspace.settings import Workspace
from tasks.validate import warm
from tasks.validation.clip_misfits import clip_misfits
from tasks.validation.misfits import Misfits, misfits, percent, write_misfits

DELIVERY_GATE: Final = "delivery"
PEOPLE_GATE: Final = "people"


def intake(run: RunFolder, request: Request, workspace: Workspace, *, supersede: bool = False) -> PrivateTable:
    """Ask the ledger, then ingest.

    Great Expectations takes seconds to load: it is loaded meanwhile, unless the release looks published already.

    Args:
        run: the run's folder, held by this process.
        request: what is asked for.
        workspace: gives the ledger, the snapshot key and the memory limit.
        supersede: whether a period or a release may be charged a second time.
    Returns:
        PrivateTable: the snapshot; of a period that was charged and not published the one that it was charged for.
    Raises:
        LedgerRefusal: the ledger will refuse the charge, so that reading the data would be in vain; or a period was
            charged and not published, its snapshot is gone, and what was read is another run; or a release has a
            version, and nobody asked for another.
        SudareError: as `tasks.ingest`.
    """
    # Not a daemon: a process that ends while libraries are being loaded in it is aborted by them.
    loading = Thread(target=warm, name="warm")
    in_engine = request.spec.source.engine is not None
    if not _published_before(run, request, workspace) and not in_engine:
        loading.start()
    with closing(workspace.open_ledger()) as ledger, gates_entered(ledger, request):
        kept = kept_snapshot(ledger, run, request, workspace)
        if kept is None and request.spec.source.engine is None:
            check_snapshot_kept(ledger, run, request, request.store(workspace))
        if kept is None and not supersede:
            check_unspent(ledger, run, request, workspace)
            check_intended(ledger, request, workspace)
        table = _taken_in(run, ledger, request, workspace) if kept is None else kept
        if not supersede:
            check_unspent(ledger, run, request, workspace, table)
            check_intended(ledger, request, workspace, table)
        _ask_gates_before_charge(request, ledger, table)
    if loading.ident is not None:
        with step("warm"):
            loading.join()
    return table


def source_rows(decision: OperatorDecision, run: RunFolder, request: Request, workspace: Workspace) -> PrivateTable:
    """Return the rows that were taken in before Prefect heard of the run, or take them in now.

    Raises:
        SudareError: as `intake`; what was refused before is refused here, in a step that Prefect shows.
    """
    if decision.refusal is not None:
        raise decision.refusal
    return decision.table or intake(run, request, workspace, supersede=decision.supersede)


def _taken_in(run: RunFolder, ledger: Ledger, request: Request, workspace: Workspace) -> PrivateTable:
    """Read the source, or take up what an earlier attempt made of the same one."""
    if request.spec.source.engine is not None:
        return _staged(run, ledger, request, workspace)
    return ingest(
        request.spec.source,
        request.contract,
        folder=run.path,
        key=workspace.snapshot_key(),
        memory_limit=workspace.memory_limit,
        days=days_of(request.spec),
        lattices=request.spec.product.lattices(request.contract),
        parents=request.spec.product.counts_parents,
        goes_on=lambda table: goes_on(ledger, request, table, request.store(workspace)),
    )


def _staged(run: RunFolder, ledger: Ledger, request: Request, workspace: Workspace) -> PrivateTable:
    """Stage the table in the engine that the spec names."""
    store = request.store(workspace)

    def charged(table: PrivateTable) -> bool:
        by_itself = request.spec.block is not None or request.spec.due is not None
        if by_itself and goes_on(ledger, request, table, store):
            return True
        check_snapshot_kept(ledger, run, request, store)
        return False

    if not (run.path / MARKER).is_file():
        check_snapshot_kept(ledger, run, request, store)
    table = take_in_engine(run, request, workspace, goes_on=charged)
    if not goes_on(ledger, request, table, store):
        check_snapshot_kept(ledger, run, request, store)
    return table


def take_in_engine(
    run: RunFolder,
    request: Request,
    workspace: Workspace,
    *,
    goes_on: Callable[[PrivateTable], bool] = lambda table: False,
) -> PrivateTable:
    """Take the rows in where the spec's engine counts them; the engine ends with the run."""
    source, contract = request.spec.source, request.contract
    engine: SourceEngine = engine_kind(str(source.engine), SourceEngine)
    beside = request.spec.product.lattices(contract)
    table = engine.ingest(
        source, contract, folder=run.path, workspace=workspace, beside=beside, lock=run.lock, goes_on=goes_on
    )
    run.close_with(table.engine)
    return table


def check_people(ledger: Ledger, table: PrivateTable) -> None:
    """Break the gate of rows that were charged to other people, as those of a copied file are: a second cap on them.

    The mark of each of their charges is made again from the keyed hash of these rows.

    Raises:
        GateBroken: they are, encoded by this contract and in order, rows of another population.
    Privacy: the outcome is an exact answer about the data; the record lists it among the unprotected gates.
    """
    bound = ledger.sources().get(table.source)
    others = [each.terms.name for each in ledger.accounts() if bound and each.terms.population != bound[0]]
    asked = [each.request for name in others for each in ledger.charges(account=name) if each.status != "returned"]
    if any(each.snapshot_hash == snapshot_mark(table.keyed_hash, each.spec_digest, each.due) for each in asked):
        found, allowed = "rows that were charged to other people", "rows of the people that the source is bound to"
        remedy = (
            "bind a copy to the people of its origin; if these are others with equal rows, say so in the description "
            "of the contract"
        )
        raise GateBroken([Finding("the source", PEOPLE_GATE, found, allowed, remedy)])


def check_delivery(ledger: Ledger, spec: ReleaseSpec, table: PrivateTable) -> None:
    """Break the gate of a period whose rows were published as those of another period.

    Where a column tells the days (`by:`) a row is of one period only, so there is nothing to compare.

    Args:
        ledger: knows what was published.
        spec: of one period.
        table: its rows.
    Raises:
        GateBroken: they are, encoded and in order, the rows of another period of this release.
    Privacy: the outcome is an exact answer about the data; the record lists it among the unprotected gates.
    """
    if spec.block is None or spec.period is None or spec.source.by is not None:
        return
    own = read_period(spec.block, spec.period)
    for version in ledger.versions():
        if period_in(version.release, spec.release, own) in (None, own):
            continue
        charge = ledger.charge(version.run_key)
        if charge is None or charge.request.contract_digest != table.contract_digest:
            continue
        asked = charge.request
        if asked.snapshot_hash == snapshot_mark(table.keyed_hash, asked.spec_digest, asked.due):
            found, allowed = f"the rows that were published as {version.release}", "rows of this period"
            remedy = "deliver the period's own rows; or tell periods apart by a column of days (`by:`)"
            raise GateBroken([Finding("the source", DELIVERY_GATE, found, allowed, remedy)])


def _ask_gates_before_charge(request: Request, ledger: Ledger, table: PrivateTable) -> None:
    """Ask whose rows they are; what was charged goes on.

    Raises:
        GateBroken: as `check_people`, `check_delivery`.
    Privacy: an exact answer about the rows, which the record lists among the unprotected gates.
    """
    charged = ledger.charge(run_key(request.spec, request.contract, table))
    if charged is None or charged.status == "returned":
        check_people(ledger, table)
        check_delivery(ledger, request.spec, table)


def _published_before(run: RunFolder, request: Request, workspace: Workspace) -> bool:
    """Say whether this spec was published before; refuse now what the ledger would refuse after the data are read.

    A charge that an interrupted run left is noted: until another snapshot is known it is this run's, and the snapshot
    stays, whatever becomes of the source.
    """
    with closing(workspace.open_ledger()) as ledger:
        check_not_forgotten(ledger, workspace.releases, request.store(workspace))
        ledger.account(request.spec.charge.account)
        known = ledger.charges(spec_digest=request.spec.digest)
        charges = [charge for charge in known if charge.request.due == request.spec.due]
        left = [charge.status for charge in charges if charge.status in ("reserved", "opened")]
        run.charge = left[-1] if left else None
        if not any(charge.request.contract_digest == request.contract.digest for charge in charges):
            check_contract_of(request, workspace, ledger)
        path = request.spec.source.path
        if not charges and (not isinstance(path, Path) or path.exists()):
            ledger.foresee(request_for(request.spec, request.contract, request.plan))
    return any(charge.status == "published" for charge in charges)


def check_contract_of(request: Request, workspace: Workspace, ledger: Ledger, *, run_key: str | None = None) -> None:
    """Refuse a contract that breaks with the last published version without saying so; a charged run goes on.

    Args:
        request: what is asked for.
        workspace: gives the registry of contracts and the release store.
        ledger: knows what was published, and what was charged.
        run_key: the run, once its snapshot is known; what it was charged for was admitted before.
    Raises:
        ContractRefused: see `tasks.contract_succession`.
    """
    charged = None if run_key is None else ledger.charge(run_key)
    if charged is None or charged.status == "returned":
        store = request.store(workspace)
        check_contract(request.spec, request.contract, ledger, store, workspace.contracts)


@contextmanager
def gates_entered(ledger: Ledger, request: Request) -> Iterator[None]:
    """Enter in the journal that a gate stopped the release; an exact answer about the data must leave a trace."""
    try:
        yield
    except GateBroken as broken:
        asked = request_for(request.spec, request.contract, request.plan)
        ledger.record_gate_failure(asked, sorted({finding.field for finding in broken.findings}))
        raise


@contextmanager
def engine_failures_entered(ledger: Ledger, run_key: str) -> Iterator[None]:
    """Enter in the journal that an engine failed a charged run: it died, or did not find every row."""
    try:
        yield
    except CountsUnavailable:
        charge = ledger.charge(run_key)
        if charge is not None:
            ledger.record_engine_failure(charge.request)
        raise


# --- The operator's look.


MISFITS_GATE: Final = "misfits"
"""What the journal calls a run that nobody watched, and that rows which do not fit have stopped."""


def checked(run: RunFolder, request: Request, workspace: Workspace) -> Misfits:
    """Take the rows in and look at them, for `sudare check`: nothing is charged, and nothing is entered anywhere.

    Args:
        run: a private folder of its own (see `check_name`), so that no snapshot of a charged run is touched.
        request: what would be released.
        workspace: gives the snapshot key, the memory limit and the share.
    Raises:
        SudareError: as `tasks.ingest`; that a gate broke is not entered in the journal, since nothing was released.
    Privacy: private; the page lies in the run's folder.
    """
    source, contract, key = request.spec.source, request.contract, workspace.snapshot_key()
    if source.engine is not None:
        table = take_in_engine(run, request, workspace)
    else:
        beside = request.spec.product.lattices(contract)
        limit, days = workspace.memory_limit, days_of(request.spec)
        table = ingest(source, contract, folder=run.path, key=key, memory_limit=limit, days=days, lattices=beside)
    return looked(run, request, workspace, table)


def check_name(request: Request) -> str:
    """Return the name of the private folder of `sudare check`."""
    return f"check-{run_name(request.spec.release, request.spec.run_digest)}"


def before_charge(run: RunFolder, request: Request, workspace: Workspace, table: PrivateTable) -> Misfits | None:
    """Look at the rows of a run that is not charged yet; None for one that is, which only goes on."""
    with closing(workspace.open_ledger()) as ledger:
        charge = ledger.charge(run_key(request.spec, request.contract, table))
    if charge is not None and charge.status != "returned":
        return None
    return looked(run, request, workspace, table)


def check_share(found: Misfits, share: Fraction) -> None:
    """Stop a run that nobody watches where too many rows do not fit: nothing is charged.

    Raises:
        GateBroken: more than this share of the rows of a column do not fit, are clipped, or repeat an id.
    Privacy: that it stopped is an exact bit about the rows; no column is named (derivations, section 11).
    """
    if found.asks(share):
        stated = "more rows of a column do not fit the contract than a scheduled run lets pass"
        remedy = (
            "sudare check SPEC shows you alone which; correct the contract, or set [run] schedule_stops_above in "
            "sudare.toml, at which every later run stops"
        )
        allowed = f"at most {percent(share)} of the rows of a column"
        raise GateBroken([Finding("the source", MISFITS_GATE, stated, allowed, remedy)])


def looked(run: RunFolder, request: Request, workspace: Workspace, table: PrivateTable) -> Misfits:
    """Count how the rows fit and what the spec's clips cut, and write the private page."""
    found = misfits(table, request.contract, folder=run.path, memory_limit=workspace.memory_limit)
    cut = clip_misfits(table, request.contract, request.spec.product, workspace.asks_above)
    found = replace(found, clips=cut)
    write_misfits(found, release=request.spec.release, share=workspace.asks_above, folder=run.path)
    return found
