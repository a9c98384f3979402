"""Charge: the loss is reserved, and the grant opened (DESIGN laws 1 and 2)."""

from __future__ import annotations

import logging

from contracts.contract.contract import Contract
from contracts.release.spec import ReleaseSpec
from privacy.grant.grant import Grant, open_grant
from privacy.ledger.ledger import Ledger
from privacy.private_table import PrivateTable
from tasks.products.approvals import approved
from tasks.products.charge_request import mark_of, request_for, run_key
from tasks.records.outputs import Plan

logger = logging.getLogger(__name__)


def charge(ledger: Ledger, spec: ReleaseSpec, contract: Contract, plan: Plan, table: PrivateTable) -> Grant:
    """Reserve the cost of the planned release and open its grant; a run that resumes gets its grant again.

    Args:
        ledger: the ledger.
        spec: the release.
        contract: its contract.
        plan: what will be measured.
        table: the snapshot that will be measured.
    Returns:
        Grant: durable; `opened` is committed.
    Raises:
        ApprovalMissing: fewer approvals hold than the spec asks for; nothing is charged.
        LedgerRefusal: the ledger refuses, nothing was drawn and nothing is charged.
    Privacy: from the return on the charge is spent, whatever happens.
    """
    approved(spec, contract, plan)
    key = run_key(spec, contract, table)
    mark = mark_of(spec, table)
    request = request_for(spec, contract, plan, run_key=key, snapshot_hash=mark, source=table.source)
    reserved = ledger.reserve(request)
    logger.info("run %s: charge of %s pico units on %s", request.run_key, reserved.amount, request.account)
    return open_grant(ledger, request.run_key)
