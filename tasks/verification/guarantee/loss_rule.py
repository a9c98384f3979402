"""Rule 7: do the amounts of the record follow from its events, and the accounts from the journal?"""

from __future__ import annotations

from typing import Final

from contracts.errors import Finding
from privacy.accounting.amounts import pico_to_text
from tasks.verification.draws.charged_noise import MOST_MOVES
from tasks.verification.guarantee.loss import check_accounts, check_amounts, check_claim
from tasks.verification.inclusion import JournalledRun
from tasks.verification.product_checks import ProductChecks

_LEFT_OUT: Final = "releases of these people are kept from you: ask the publisher for the journal"


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
        findings += _check_earlier(product, run, where=record)
    if not priced:
        skipped.append(f"the loss: an event moves more than {MOST_MOVES} cells")
    else:
        findings += check_claim(replay, run, where=record)
    return findings, skipped


def _check_earlier(product: ProductChecks, run: JournalledRun, *, where: str) -> list[Finding]:
    """Check that the charges that are listed as earlier are not fewer than what the account had lost by then.

    More may be listed: older versions have those that were given back before.
    """
    record = product.record
    told = sum(each.amount for each in record.declarations.earlier_charges)
    had = [part.before - part.returnable for part in run.charge.parts if part.account == record.replay.charge.account]
    if not had or told >= had[0]:
        return []
    found, allowed = pico_to_text(told), f"at least {pico_to_text(had[0])}, which its account had lost before"
    return [Finding(where, "declarations.earlier_charges", found, allowed, _LEFT_OUT)]
