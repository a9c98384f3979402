"""What a charge must satisfy before it is admitted, and the refusals in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from contracts.errors import Finding
from privacy.accounting.amounts import pico_to_text
from privacy.accounting.calculus import Calculus, RenyiCalculus
from privacy.accounting.events import Event, UnsupportedEvent
from privacy.ledger.errors import BudgetExceeded, refusal
from privacy.ledger.rows import known_account, people_of
from privacy.ledger.terms import AccountTerms, Charge, ChargeRequest, terms_from_json


def same_release(charge: Charge, request: ChargeRequest) -> Charge:
    """Return the known charge of a run key if it is for the same release; refuse another one under that key."""
    if charge.request != request:
        raise refusal(
            f"run {request.run_key}",
            "run key",
            "a charge of another spec, contract, snapshot or plan under this key",
            "the same release again, or another key",
        )
    return charge


def check_terms(terms: AccountTerms, status: str, request: ChargeRequest, people: tuple[str, str] | None) -> None:
    """Refuse a charge against a closed account, an unbound source, other people, another adjacency or unit."""
    where = f"account {terms.name}"
    if status != "open":
        raise refusal(where, "status", status, "open")
    if people is None:
        raise refusal(
            where,
            "source",
            f"{request.source}, bound to nobody",
            f"a source that is bound to {terms.population}, block {terms.block}",
            f"bind it: sudare budget bind {request.source} --population {terms.population!r} --block {terms.block!r}",
        )
    for field, found, allowed in (
        ("population", people[0], terms.population),
        ("block", people[1], terms.block),
        ("adjacency", request.adjacency, terms.adjacency),
        ("unit", request.unit, terms.unit),
    ):
        if found != allowed:
            raise refusal(where, field, found, allowed, "use the account of these people and this unit")


def refuse_second_account(terms: AccountTerms, known: Sequence[AccountTerms]) -> None:
    """Refuse a second account for people of one time block that have one: two caps would add up to a higher one."""
    for other in known:
        if (other.population, other.block) == (terms.population, terms.block):
            raise refusal(
                f"account {terms.name}",
                "people",
                f"{terms.population}, block {terms.block}",
                f"people without an account; these have {other.name}",
                f"charge {other.name}: a second account would be a second cap on the same people",
            )


def exceeded(terms: AccountTerms, cap: int, spent: int, amount: int) -> BudgetExceeded:
    """Return the refusal of a charge that does not fit, with what is left in words."""
    loss = loss_name(terms.calculus)
    finding = Finding(
        f"account {terms.name}",
        "cap",
        f"a charge of {pico_to_text(amount)} ({loss})",
        f"at most {pico_to_text(cap - spent)}: {pico_to_text(spent)} of {pico_to_text(cap)} is spent",
        "ask for less, or wait for the next time block; nothing was charged",
    )
    return BudgetExceeded(terms.name, amount, cap - spent, [finding])


def loss_name(calculus: Calculus) -> str:
    """Return what an account's losses are called."""
    return f"Rényi loss of order {float(calculus.order):g}" if isinstance(calculus, RenyiCalculus) else "ε"


def cost_of(terms: AccountTerms, events: tuple[Event, ...]) -> int:
    """Return what planned events cost an account; refuse those that its calculus cannot hold."""
    try:
        return terms.calculus.cost(events)
    except UnsupportedEvent as error:
        raise refusal(
            f"account {terms.name}",
            "calculus",
            str(error),
            "Laplace noise (a pure account), or an account opened with a delta and --calculus renyi",
        ) from error


def admit(connection: Connection, request: ChargeRequest) -> tuple[Any, int]:
    """Return the account's row and the amount of a charge that fits it; refuse every other charge."""
    row = known_account(connection, request.account)
    terms = terms_from_json(json.loads(row.terms))
    check_terms(terms, row.status, request, people_of(connection, request.source))
    amount = cost_of(terms, request.events)
    if amount > row.cap - row.spent:
        raise exceeded(terms, row.cap, row.spent, amount)
    return row, amount
