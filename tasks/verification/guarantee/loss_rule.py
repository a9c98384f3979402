"""Rule 7: do the amounts of the record follow from its events, and the accounts from the journal?"""

from __future__ import annotations

from contracts.errors import Finding
from tasks.verification.draws.charged_noise import MOST_MOVES
from tasks.verification.guarantee.account_checks import check_accounts
from tasks.verification.guarantee.claim_checks import check_amounts, check_claim
from tasks.verification.inclusion import JournalledRun
from tasks.verification.product_checks import ProductChecks


def check_loss(
    product: ProductChecks, run: JournalledRun | None, *, priced: bool, record: str, proof: str
) -> tuple[list[Finding], list[str]]:
    """Compute the loss again.

    Args:
        product: the record's checks.
        run: what the journal says of the run; None where it cannot be read.
        priced: whether every event can be computed again.
        record, proof: names of the files.
    Returns:
        tuple: what is wrong, and what could not be checked.
    """
    replay, skipped = product.record.replay, list[str]()
    findings: list[Finding] = []
    if run is None:
        skipped.append("the amounts against the journal: no readable run")
    else:
        findings += check_amounts(replay, run, where=record)
        findings += check_accounts(run, where=proof, complete=product.draws_complete) if priced else []
    if not priced:
        skipped.append(f"the loss: an event moves more than {MOST_MOVES} cells")
    else:
        findings += check_claim(replay, run, where=record)
    return findings, skipped
