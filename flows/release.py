"""The release flow: source tables → DuckDB snapshot → contract check → ε from the ledger → mechanism → refinement →
versioned Parquet + audit record.

Prefect is told names, states and what is public. Parameters are paths; results stay in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import httpx
from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging import get_run_logger

from contracts.errors import SudareError
from contracts.release.about import Publisher, declared
from flows import steps
from flows.capacity import check_capacity
from flows.lineage_events import lineage_of
from flows.misfit_report import looked
from flows.outcome import Outcome, outcome_of
from flows.periods.clock import check_due, check_over, today
from flows.periods.publications import attempt_noted, settled
from flows.prepare import check_contract_of, engine_failures_entered, gates_entered, intake
from flows.request import Request, as_charged, check_recorded, read_request
from privacy.ledger.errors import LedgerConflict
from privacy.ledger.journal.signing import Signer
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import VersionEntry
from privacy.private_table import PrivateTable
from tasks import charge as charging
from tasks import publish as publishing
from tasks import report as reporting
from tasks import validate as validating
from tasks.products.charge_request import run_key
from tasks.products.product_kind import Making, making_of
from tasks.products.tables.reference_version import earlier_version
from tasks.publish import Publication, published
from tasks.records.auditor_copy import AuditorCopies
from tasks.records.ledger_facts import gather
from tasks.records.software import software
from tasks.storage.object_store import StoreAway
from tasks.storage.sinks import copies as copying
from tasks.storage.workspace.run_folder import CHARGE_STATES, RunFolder, hold, now_to_the_second, run_name, sheltered
from tasks.storage.workspace.settings import Workspace, switch_telemetry_off

ingest = steps.as_task(intake, name="ingest")
validate = steps.as_task(validating.validate, name="validate")
charge = steps.as_task(charging.charge, name="charge", retries=5, only_after=LedgerConflict)
report = steps.as_task(reporting.report, name="report")
publish = steps.as_task(publishing.publish, name="publish")
copy = steps.as_task(copying.copy_published, name="copy", retries=2, only_after=StoreAway)


@flow(name="release", retries=0, persist_result=False, log_prints=False, validate_parameters=False)
def release(
    spec_path: str,
    workspace_path: str,
    keep_snapshot: bool = False,
    period: str | None = None,
    supersede: bool = False,
    early: bool = False,
    timezone: str | None = None,
    due: str | None = None,
) -> Outcome:
    """Make one release, or resume it, or say that it is published.

    Args:
        spec_path: the release spec.
        workspace_path: the workspace.
        keep_snapshot: whether the private snapshot outlives the run.
        period: which period, for a spec with `period:` (2024-Q3).
        supersede: whether what is published gets another version if rows or spec have changed.
        early: whether a period is released that is not over.
        timezone: by whose days it is over (Europe/Oslo); UTC without it.
        due: the date that the run is due on, for a spec with `redraw: on_schedule`.
    Returns:
        Outcome: where it is, what it cost, what is left.
    Raises:
        SudareError: as the steps raise them; the message holds no value out of a row.
    Privacy: the plan's events, charged before the first is drawn.
    """
    switch_telemetry_off()
    workspace = Workspace.open(Path(workspace_path))
    request = read_request(Path(spec_path), workspace, period, due)
    check_recorded(request)
    check_capacity(request, workspace)
    name = run_name(request.spec.release, request.spec.run_digest)
    with hold(workspace.runs, name, keep_snapshot=keep_snapshot) as run:
        with attempt_noted(request, workspace, run), _charge_told(run), lineage_of(request, workspace) as tell:
            outcome = sheltered(
                lambda: _run(run, request, workspace, supersede, None if early else today(timezone)),
                lambda: run.error_log,
            )
            tell(Path(outcome.folder))
    _show(outcome)
    return outcome


def _show(outcome: Outcome) -> None:
    """Show the outcome on Prefect's page of the run; a server that is away now makes no release fail that is done."""
    try:
        create_markdown_artifact(outcome.to_markdown(), key=f"release-{outcome.release}")
    except (httpx.HTTPError, PrefectHTTPStatusError) as error:
        get_run_logger().warning(f"the outcome is not on Prefect's page of the run: {type(error).__name__}")


@contextmanager
def _charge_told(run: RunFolder) -> Iterator[None]:
    """Say in the run's log, where an error ends it, how its charge stands."""
    try:
        yield
    except SudareError:
        get_run_logger().error(f"charge: {CHARGE_STATES[run.charge]}")
        raise


def _run(run: RunFolder, request: Request, workspace: Workspace, supersede: bool, day: date | None) -> Outcome:
    """Ingest; then find the version of this run, or make it; nothing of a period that is published or not over."""
    check_due(request, day, supersede=supersede)
    standing = settled(request, workspace, run, supersede=supersede)
    if standing is not None:
        return standing
    check_over(request, day)
    with closing(workspace.open_ledger()) as ledger, run.charge_seen(ledger):
        run.of_period = request.spec.block is not None
        table = ingest(run, run, request, workspace, supersede=supersede)
        run.run_key = run_key(request.spec, request.contract, table)
        found = published(ledger, run.run_key, request.store(workspace))
        publication = _make(run, request, workspace, ledger, table) if found is None else found
        run.published = True
        copied = _copy(run, request, workspace, ledger, publication)
        return outcome_of(publication, ledger, workspace, repeated=found is not None, copied=copied)


def _copy(
    run: RunFolder, request: Request, workspace: Workspace, ledger: Ledger, publication: Publication
) -> str | None:
    """Copy what is whole here to the address that the spec publishes to, if it is one."""
    to, named, store = request.copy_to, request.spec.publish.credentials, request.store(workspace)
    if to is None:
        return None
    return copy(run, ledger, store, publication.release, publication.number, to, named)[1]


def _make(run: RunFolder, request: Request, workspace: Workspace, ledger: Ledger, table: PrivateTable) -> Publication:
    """Validate, look, charge, make the product by the steps of its kind, report and publish."""
    request = as_charged(request, None if run.run_key is None else ledger.charge(run.run_key))
    spec, contract, plan, ids = request.spec, request.contract, request.plan, steps.flow_run_ids()
    check_contract_of(request, workspace, ledger, run_key=run.run_key)
    earlier = earlier_version(spec, contract, ledger, request.store(workspace))
    with gates_entered(ledger, request):
        outcomes = validate(run, table, contract, folder=run.path, memory_limit=workspace.memory_limit)
    if not run.looked:
        looked(run, request, workspace, table)
    check_capacity(request, workspace)
    grant = charge(run, ledger, spec, contract, plan, table)
    key = run_key(spec, contract, table)
    with engine_failures_entered(ledger, key):
        making = Making(grant, spec, plan, table, contract, run.path, key, earlier)
        made: Any = None
        for each in making_of(spec.product.kind).steps:
            made = steps.as_task(each.make, name=each.name)(run, making, made)

    def write(folder: Path, version: VersionEntry) -> None:
        about = declared(spec.about, workspace.publisher or Publisher())
        when = run.began, now_to_the_second()
        facts = gather(ledger, spec, contract, plan, version, made, outcomes, software(), earlier, about, ids, when)
        report(run, facts, folder=folder, auditors=AuditorCopies(workspace.records, signer))

    signer = Signer(workspace.signing_seed())
    return publish(run, ledger, signer, key, request.store(workspace), write)
