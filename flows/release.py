"""The release flow: source tables → DuckDB snapshot → contract check → ε from the ledger → mechanism → refinement →
versioned Parquet + audit record.

Prefect is told names, states and what is public. Parameters are paths; results stay in this process. The way to these
steps is `flows.entrance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging import get_run_logger

from contracts.errors import StoreAway, SudareError
from contracts.release.terms import Publisher, declared
from flows import steps
from flows.order import OperatorDecision, ReleaseOrder
from flows.outcome import Outcome, outcome_of
from flows.periods.publications import is_withdrawn
from flows.prepare import check_contract_of, check_share, engine_failures_entered, gates_entered, looked, source_rows
from flows.request import Request, as_charged, check_capacity
from privacy.ledger.entries import LedgerConflict
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import VersionEntry
from privacy.private_table import PrivateTable
from tasks import charge as charging
from tasks import publish as publishing
from tasks import report as reporting
from tasks import validate as validating
from tasks.products.approvals import approved
from tasks.products.charge_request import run_key
from tasks.products.product_kind import Making, making_of
from tasks.products.tables.reference_version import earlier_version
from tasks.public_journal import show_journal
from tasks.publish import Publication, published
from tasks.records.ledger_facts import gather
from tasks.records.private_record import AuditorRecords
from tasks.records.software import software
from tasks.release_freshness import show_latest
from tasks.storage.sinks import copies as copying
from tasks.storage.workspace.run_folder import CHARGE_STATES, COMPLETE, RunFolder, now_to_the_second, sheltered
from tasks.storage.workspace.settings import Workspace
from tasks.verify import check_staged

ingest = steps.as_task(source_rows, name="ingest")
validate = steps.as_task(validating.validate, name="validate")
charge = steps.as_task(charging.charge, name="charge", retries=5, only_after=LedgerConflict)
report = steps.as_task(reporting.report, name="report")
publish = steps.as_task(publishing.publish, name="publish")
copy = steps.as_task(copying.copy_published, name="copy", retries=2, only_after=StoreAway)


def in_prefect(order: ReleaseOrder, workspace: Workspace, steps: Callable[[], Outcome]) -> Outcome:
    """Carry steps out as a flow run of their own; Prefect is told paths and options."""

    @flow(name="release", retries=0, persist_result=False, log_prints=False, validate_parameters=False)
    def release(
        spec_path: str,
        workspace_path: str,
        keep_snapshot: bool,
        period: str | None,
        supersede: bool,
        early: bool,
        timezone: str | None,
        due: str | None,
    ) -> Outcome:
        outcome = steps()
        show(outcome)
        return outcome

    options = order.keep_snapshot, order.period, order.supersede, order.early, order.timezone, order.due
    return release(str(order.spec.absolute()), str(workspace.root), *options)


@dataclass(frozen=True)
class Unattended:
    """Conducts a run that nobody watches, inside the flow run that is going on.

    Args:
        order: what is wanted.
    """

    order: ReleaseOrder

    def decide(self, run: RunFolder, request: Request) -> OperatorDecision:
        """Leave the rows to the step that takes them in, and go by the order."""
        return OperatorDecision(self.order.supersede, unattended=True)

    def carry_out(self, decision: OperatorDecision, steps: Callable[[], Outcome]) -> Outcome:
        """Carry the steps out here."""
        outcome = steps()
        show(outcome)
        return outcome

    def explained(self, error: BaseException, run: RunFolder, request: Request) -> BaseException:
        """Return the error as it is: it was made for Prefect."""
        return error


def release_steps(run: RunFolder, request: Request, workspace: Workspace, decision: OperatorDecision) -> Outcome:
    """Carry the steps of a run out; to be called inside a flow run of Prefect's."""
    with _charge_logged(run):
        return sheltered(lambda: _run(run, request, workspace, decision), lambda: run.error_log)


def show(outcome: Outcome) -> None:
    """Show the outcome on Prefect's page of the run; a server that is away now makes no release fail that is done."""
    try:
        create_markdown_artifact(outcome.to_markdown(), key=f"release-{outcome.release}")
    except (httpx.HTTPError, PrefectHTTPStatusError) as error:
        get_run_logger().warning(f"the outcome is not on Prefect's page of the run: {type(error).__name__}")


@contextmanager
def _charge_logged(run: RunFolder) -> Iterator[None]:
    """Say in the run's log, where an error ends it, how its charge stands."""
    try:
        yield
    except SudareError:
        get_run_logger().error(f"charge: {CHARGE_STATES[run.charge]}")
        raise


def _run(run: RunFolder, request: Request, workspace: Workspace, decision: OperatorDecision) -> Outcome:
    """Ingest; then find the version of this run, or make it."""
    with closing(workspace.open_ledger()) as ledger:
        table = ingest(run, decision, run, request, workspace)
        key = run_key(request.spec, request.contract, table)
        known = ledger.charge(key)
        with run.charge_seen(ledger, key):
            found = published(ledger, key, request.store(workspace))
            publication = _make(run, request, workspace, ledger, table, decision, key) if found is None else found
        run.charge = COMPLETE
        show_journal(workspace, ledger)
        show_latest(workspace, ledger, publication.release, request.store(workspace))
        copied = _copy(run, request, workspace, ledger, publication)
        repeated = known is not None and known.status == "published"  # into another store too, or of a lost folder
        return outcome_of(publication, ledger, workspace, repeated=repeated, copied=copied)


def _copy(
    run: RunFolder, request: Request, workspace: Workspace, ledger: Ledger, publication: Publication
) -> str | None:
    """Copy what is whole here to the address that the spec publishes to, if it is one."""
    to, named, store = request.copy_to, request.spec.publish.credentials, request.store(workspace)
    if to is None or is_withdrawn(ledger, publication):
        return None
    return copy(run, ledger, store, publication.release, publication.number, to, named)[1]


def _make(
    run: RunFolder,
    request: Request,
    workspace: Workspace,
    ledger: Ledger,
    table: PrivateTable,
    decision: OperatorDecision,
    key: str,
) -> Publication:
    """Validate, look, charge, make the product by the steps of its kind, report and publish."""
    # before the charge: a token that is missing, or a policy that nobody can meet, costs nothing
    signer, witnesses = workspace.signer(), workspace.witnesses()
    standing = ledger.charge(key)
    request = as_charged(request, standing)
    spec, contract, plan, ids = request.spec, request.contract, request.plan, steps.flow_run_ids()
    check_contract_of(request, workspace, ledger, run_key=key)
    earlier = earlier_version(spec, contract, ledger, request.store(workspace))
    with gates_entered(ledger, request):
        outcomes = validate(run, table, contract, folder=run.path, memory_limit=workspace.memory_limit)
        if not decision.page_written:
            found = looked(run, request, workspace, table)
            if decision.unattended and (standing is None or standing.status == "returned"):
                check_share(found, workspace.schedule_stops_above)
    check_capacity(request, workspace)
    publishing.probe_store(request.store(workspace), spec.release)
    grant = charge(run, ledger, spec, contract, plan, table)
    with engine_failures_entered(ledger, key):
        making = Making(grant, spec, plan, table, contract, run.path, key, earlier)
        made: Any = None
        for each in making_of(spec.product.kind).steps:
            made = steps.as_task(each.make, name=each.name)(run, making, made)

    def write(folder: Path, version: VersionEntry) -> None:
        about = declared(spec.about, workspace.publisher or Publisher())
        when = run.began, now_to_the_second()
        facts = gather(ledger, spec, contract, plan, version, made, outcomes, software(), earlier, about, ids, when)
        facts = replace(facts, approvals=approved(spec, contract, plan))
        report(run, facts, folder=folder, auditors=AuditorRecords(workspace.records, signer))

    return publish(run, ledger, signer, key, request.store(workspace), write, witnesses, check=check_staged)
