"""Intake: what may be done before Prefect answers. The ledger is asked first, then the data are read."""

from __future__ import annotations

from contextlib import closing
from threading import Thread

from flows.request import Request
from privacy.ledger.admission import check_terms, exceeded
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import ChargeRequest
from privacy.private_table import PrivateTable
from tasks.ingest import ingest
from tasks.progress import step
from tasks.run_state import RunFolder
from tasks.settings import Workspace
from tasks.validate import warm


def intake(run: RunFolder, request: Request, workspace: Workspace) -> PrivateTable:
    """Ingest, unless this process has made the run's snapshot already.

    Great Expectations takes seconds to load: it is loaded meanwhile, unless the release looks published already.

    Args:
        run: the run's folder, held by this process; learns the snapshot.
        request: what is asked for.
        workspace: gives the ledger, the snapshot key and the memory limit.
    Returns:
        PrivateTable: the snapshot.
    Raises:
        LedgerRefusal: the ledger will refuse the charge, so that reading the data would be in vain.
        SudareError: as `tasks.ingest`.
    """
    if run.table is None:
        loading = Thread(target=warm, name="warm", daemon=True)
        if not _published_before(request, workspace):
            loading.start()
        run.table = ingest(
            request.spec.source,
            request.contract,
            folder=run.path,
            key=workspace.snapshot_key(),
            memory_limit=workspace.memory_limit,
        )
        if loading.ident is not None:
            with step("warm"):
                loading.join()
    return run.table


def _published_before(request: Request, workspace: Workspace) -> bool:
    """Say whether this spec was published before; refuse now what the ledger would refuse after the data are read."""
    with closing(Ledger(workspace.ledger_url, draws=workspace.draws)) as ledger:
        account = ledger.account(request.spec.charge.account)
        population = ledger.sources().get(request.spec.source.name)
    charges = [charge for charge in account.charges if charge.request.spec_digest == request.spec.digest]
    if not charges and request.spec.source.path.exists():
        foreseen = _foreseen(request)
        check_terms(account.terms, account.status, foreseen, population)
        amount = sum(account.terms.calculus.cost((event,)) for event in foreseen.events)
        if amount > account.remaining:
            raise exceeded(account.terms, account.cap, account.spent, amount)
    return any(charge.status == "published" for charge in charges)


def _foreseen(request: Request) -> ChargeRequest:
    """Return the charge that the run will ask for, but for what only the data can tell."""
    spec, contract, plan = request.spec, request.contract, request.plan
    return ChargeRequest(
        run_key="",
        account=spec.charge.account,
        source=spec.source.name,
        release=spec.release,
        spec_digest=spec.digest,
        contract_digest=contract.digest,
        snapshot_hash="",
        adjacency=contract.adjacency,
        unit=contract.unit.column or "row",
        rows_per_unit=contract.unit.max_rows_per_unit,
        events=plan.events,
        epsilon=plan.epsilon,
        delta=plan.delta,
    )
