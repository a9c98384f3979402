"""The same rows delivered for two periods: one of the two is a mistake, and would be charged to the wrong people."""

from __future__ import annotations

from contracts.errors import Finding, GateBroken
from contracts.periods.period import period_in, read_period
from contracts.release.spec import ReleaseSpec
from privacy.ledger.ledger import Ledger
from privacy.private_table import PrivateTable, snapshot_mark

GATE = "delivery"


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
            raise GateBroken([Finding("the source", GATE, found, allowed, remedy)])
