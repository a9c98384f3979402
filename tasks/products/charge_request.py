"""What a release asks of the ledger, and the keys that its runs have there; nothing is charged here."""

from __future__ import annotations

from contracts.contract.contract import Contract
from contracts.periods.period_rules import due_run_key, keyed
from contracts.release.spec import ReleaseSpec
from privacy.ledger.terms import ChargeRequest
from privacy.private_table import PrivateTable, snapshot_mark
from tasks.records.outputs import Plan


def run_key(spec: ReleaseSpec, contract: Contract, table: PrivateTable) -> str:
    """Return the key of a run: the same release of the same rows, or of the same due date, is the same run."""
    due = due_key(spec, contract)
    if due is not None:
        return due
    return keyed(spec.release, {"spec": spec.digest, "contract": contract.digest, "snapshot": table.keyed_hash})


def due_key(spec: ReleaseSpec, contract: Contract) -> str | None:
    """Return the key of the run of a due date, for which no row is read; None for a spec that goes by its rows."""
    if spec.due is None:
        return None
    return due_run_key(spec.release, spec_digest=spec.digest, contract_digest=contract.digest, due=spec.due)


def mark_of(spec: ReleaseSpec, table: PrivateTable) -> str:
    """Return the public mark of a snapshot in the runs of a spec."""
    return snapshot_mark(table.keyed_hash, spec.digest, spec.due)


def request_for(
    spec: ReleaseSpec,
    contract: Contract,
    plan: Plan,
    *,
    run_key: str = "",
    snapshot_hash: str = "",
    source: str | None = None,
) -> ChargeRequest:
    """Return the charge that a release asks for; without a snapshot it can be foreseen, but not reserved."""
    return ChargeRequest(
        run_key=run_key,
        account=spec.charge.account,
        source=spec.source.bound_name(contract) if source is None else source,
        release=spec.release,
        spec_digest=spec.digest,
        contract_digest=contract.digest,
        snapshot_hash=snapshot_hash,
        adjacency=contract.adjacency,
        unit=contract.unit.column or "row",
        scope=contract.unit.scope,
        rows_per_unit=contract.unit.max_rows_per_unit,
        events=plan.events,
        epsilon=plan.epsilon,
        delta=plan.delta,
        public_total=None if contract.total is None else contract.total.value,
        days=spec.block if spec.source.by is not None else None,
        due=spec.due,
        noise_epsilon=plan.noise_epsilon,
    )
