"""The facts of a finished run, collected from the ledger and from what the steps made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from contracts.release.terms import About
from privacy.accounting.amounts import ATTO
from privacy.accounting.claim import second_epsilon
from privacy.grant.measurement import Measurement, selected_texts
from privacy.ledger.entries import Entry, LedgerCorrupt
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import AccountState, Charge, VersionEntry
from privacy.table_plans.plan import TOTAL_KEY, TablesPlan
from tasks.records.facts import CheckOutcome, Outputs, RunFacts, reservation
from tasks.records.model.across_statements import ExecutionStatement
from tasks.records.outputs import EarlierVersion, Plan, WriteFiles
from tasks.records.software import Software
from tasks.records.totals import totals_of


def gather(
    ledger: Ledger,
    spec: ReleaseSpec,
    contract: Contract,
    plan: Plan,
    version: VersionEntry,
    outputs: Outputs,
    outcomes: tuple[CheckOutcome, ...],
    software: Software,
    earlier_version: EarlierVersion | None = None,
    about: About | None = None,
    flow_run: dict[str, str] | None = None,
    attempt: tuple[str, str] | None = None,
    execution: ExecutionStatement | None = None,
    write: WriteFiles | None = None,
) -> RunFacts:
    """Collect what the ledger and the steps know about a run.

    Public times are those of the run's journal entries, so that a run that resumes writes the same record again.

    Raises:
        LedgerCorrupt: the ledger has no charge for the run that it gave a version to.
    """
    charge = ledger.charge(version.run_key)
    if charge is None:
        raise LedgerCorrupt(f"run {version.run_key} has a version but no charge")
    entries = tuple(e for e in ledger.entries_of(version.run_key) if not e.kind.startswith("version_"))
    reserved = max(entry.sequence for entry in entries if entry.kind == "charge_reserved")
    named, *beside = _at_the_charge(ledger, charge, entries)
    if outputs.statistics is not None:
        contract = contract.with_keys(selected_texts(outputs.statistics.fitted.draws))
    return RunFacts(
        run_key=version.run_key,
        spec=spec,
        contract=contract,
        plan=plan,
        charge=charge,
        account=named,
        other_accounts=tuple(beside),
        earlier=ledger.charges_before(charge.request.account, sequence=reserved),
        entries=entries,
        total=next((m for m in outputs.measurements if m.key == TOTAL_KEY and isinstance(m, Measurement)), None),
        estimated_total=(
            totals_of(spec.tables_product, plan, contract, outputs.measurements).estimated
            if isinstance(plan, TablesPlan)
            else None
        ),
        measurements=outputs.measurements,
        tables=outputs.tables,
        synthesis=outputs.synthesis,
        outcomes=outcomes,
        version=replace(version, status="allocated", manifest=None),
        supersedes=_supersedes(ledger, version),
        started=entries[0].at,
        finished=entries[-1].at,
        software=software,
        pld_epsilon=second_epsilon(plan.events, Fraction(plan.delta, ATTO)) if plan.delta else None,
        earlier_version=earlier_version,
        about=spec.about if about is None else about,
        flow_run=flow_run,
        classifier=outputs.classifier,
        statistics=outputs.statistics,
        made=outputs.made,
        attempt=attempt,
        execution=execution,
        write=write,
    )


def _at_the_charge(ledger: Ledger, charge: Charge, entries: Sequence[Entry]) -> Iterator[AccountState]:
    """Yield the charged accounts as the charge left them, the named one first, so that a later record is the same."""
    taken = reservation(entries)
    for name in sorted(taken, key=lambda name: (name != charge.request.account, name)):
        yield replace(ledger.account(name), spent=taken[name]["after"], status="open")


def _supersedes(ledger: Ledger, version: VersionEntry) -> int | None:
    """Return the version that this one supersedes: the one its journal entry names, else the one that now stands."""
    entered = [entry for entry in ledger.entries_of(version.run_key) if entry.kind == "version_published"]
    if entered:
        named: int | None = entered[0].body["supersedes"]
        return named
    known = [each for each in ledger.versions(version.release) if each.status == "published"]
    return max((each.number for each in known if each.number < version.number), default=None)
