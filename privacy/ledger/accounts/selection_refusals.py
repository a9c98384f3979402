"""The refusals, in words, of selections of keys: an account without δ for them, or with too little of it left."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from contracts.errors import Finding
from privacy.accounting.amounts import atto_to_text, pico_to_text
from privacy.ledger.errors import BudgetExceeded, LedgerRefusal, refusal
from privacy.ledger.terms import AccountState, AccountTerms, ChargeRequest


def nothing_set_aside(terms: AccountTerms, request: ChargeRequest, *, unused: bool) -> LedgerRefusal:
    """Return the refusal of a selection of keys on an account that sets no part of its δ aside for any.

    Args:
        terms: the account's.
        request: the charge, with a selection.
        unused: nothing was ever charged to the account, so that it may be opened again.
    """
    found = f"{request.release} with a selection of keys that may fail with {atto_to_text(request.failure)}"
    allowed = "an account that sets a part of its δ aside for selections when it is opened: this one sets none"
    remedy = "release it for people or days whose account does: sudare budget open --help, --selection-delta"
    if unused:
        # Losses need a part of δ too, except pure ones.
        pure = terms.calculus.kind == "pure"
        delta = max(terms.delta, request.failure if pure else 2 * request.failure)
        remedy = (
            "nothing was ever charged to it, so it can be opened again: sudare budget open "
            f"{shlex.quote(terms.name)} --reopen --population {shlex.quote(terms.population)} --block {terms.block} "
            f"--unit {shlex.quote(terms.unit)} --adjacency {terms.adjacency} --calculus {terms.calculus.kind} "
            f"--epsilon {pico_to_text(terms.epsilon)} --delta {atto_to_text(delta)} "
            f"--selection-delta {atto_to_text(request.failure)}"
        )
    return refusal(f"account {terms.name}", "selection_delta", found, allowed, remedy)


def failures_exceeded(accounts: Sequence[AccountState], failure: int) -> BudgetExceeded:
    """Return the refusal of selections of keys that may fail with more than what is left for them.

    Args:
        accounts: those whose δ for selections does not hold it; at least one.
        failure: what the charge's selections may fail with [10⁻¹⁸].
    """
    findings = [
        Finding(
            f"account {state.terms.name}",
            "selection_delta",
            f"selections of keys that may fail with {atto_to_text(failure)}",
            f"at most {atto_to_text(state.selections_left)}: {atto_to_text(state.failure)} of "
            f"{atto_to_text(state.terms.calculus.selection_delta)}, which is set aside for them, is spent",
            "ask for a smaller δ of the selection; nothing was charged",
        )
        for state in accounts
    ]
    return BudgetExceeded(accounts[0].terms.name, failure, accounts[0].selections_left, findings)
