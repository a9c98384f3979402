"""A finished run of a kind of product that is made by its own steps, for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from contracts.contract.check_terms import checks
from privacy.grant.grant import open_grant
from privacy.noise.random_bytes import SeededBytes
from privacy.private_table import snapshot_mark
from tasks.products.charge_request import request_for
from tasks.products.product_kind import Making, making_of
from tasks.records.facts import CheckOutcome, RunFacts
from tasks.records.ledger_facts import gather
from tests.worlds.tables import first

if TYPE_CHECKING:
    from tests.worlds.statistics import StatisticsScenario


def planned_run(scenario: StatisticsScenario, folder: Path, kind: str) -> RunFacts:
    """Make a run for real: plan, ingest, reserve, open, all steps of the kind, number the version, gather."""
    spec, contract, plan, ledger = scenario.prepared_of(folder, object)
    table = scenario.taken(folder, spec, contract)
    key = scenario.run_key(spec)
    ledger.reserve(
        request_for(spec, contract, plan, run_key=key, snapshot_hash=snapshot_mark(table.keyed_hash, spec.digest))
    )
    grant = open_grant(ledger, key, seeded=SeededBytes(7) if scenario.seeded else None)
    making, made = Making(grant, spec, plan, table, contract, folder / "private", key), None
    for step in making_of(kind).steps:
        made = step.make(making, made)
    assert made is not None
    version = ledger.allocate_version(key)
    outcomes = tuple(CheckOutcome(check.name, True, check.gate) for check in checks(contract))
    facts = gather(ledger, spec, contract, plan, version, made, outcomes, first().software)
    ledger.close()
    return facts
