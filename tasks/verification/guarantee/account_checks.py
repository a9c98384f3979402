"""Were all these people's accounts charged, each within its cap? For every account that the journal proves, in order.

1. it is of the population, for the unit and the neighbour relation of the charge
2. its cap, in its calculus, is the epsilon that it was opened with, recomputed by independent code, and holds what
   it took over then
3. what was taken is what the draws cost in its calculus, recomputed (planned ones that were not made as well, and
   for those that were chosen on the way what the budget for them costs); before and taken add up, within the cap;
   of what was on it before no more could be given back than there was
4. their blocks leave no day between them out; a unit whose scope is its lifetime has an account for it
5. every day that the charge says its rows are of lies in one of these blocks; of one period, these are its days
6. what the charge's selections of keys may fail with, recomputed, and those before, stay within the part of δ that
   the account has set aside for them (`failure_checks`)

Whether the people have further accounts, and that the source is about these days, only the whole journal tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, Final

from contracts.canonical import canonical_json
from contracts.errors import Finding
from contracts.periods.time_blocks import LIFETIME, BlockRefused, TimeBlock, gap, time_block
from privacy.accounting.amounts import PICO, pico_to_text
from tasks.records.model.journal_statements import AccountBody, ChargeBody, TakenStatement
from tasks.records.strict_json import printable, shown
from tasks.verification.guarantee.claim_checks import TOLERANCE
from tasks.verification.guarantee.failure_checks import check_failures
from tasks.verification.inclusion import JournalledRun
from tasks.verification.recompute.adaptive_budget import chosen, split, undrawn
from tasks.verification.recompute.loss import NotRecomputable, recompute, recompute_cap

_ROUNDED: Final = 2
"""10⁻¹²: a cap is what fits under its epsilon, rounded down."""
_OVERSPENT: Final = "the account was charged otherwise than its terms allow: ask the publisher for the journal"


def check_accounts(run: JournalledRun, *, where: str, complete: bool = True) -> list[Finding]:
    """Check every account that was charged; empty when all of it holds.

    Args:
        run: the run as the journal has it.
        where: the proof's file name.
        complete: all planned draws must have been made; else some may be missing, and are charged all the same.
    """
    findings: list[Finding] = []
    for part in run.charge.parts:
        account = run.accounts.get(part.account)
        if account is not None:
            findings += _check_people(account, run, where)
            findings += _check_cap(account, where)
            findings += _check_taken(account, part, run, where, complete=complete)
            findings += check_failures(account, part, run, where=where)
    accounts = list(run.accounts.values())
    return findings + _check_blocks(accounts, run.charge.scope, where) + _check_days(accounts, run.charge, where)


def _check_people(account: AccountBody, run: JournalledRun, where: str) -> list[Finding]:
    charge = run.charge
    return [
        Finding(where, _field(account, field), shown(found), f"{shown(expected)}, as the charge says", _OVERSPENT)
        for field, found, expected in (
            ("unit", account.unit, charge.unit),
            ("adjacency", account.adjacency, charge.adjacency),
            ("population", account.population, charge.population),
        )
        if found != expected
    ]


def _check_cap(account: AccountBody, where: str) -> list[Finding]:
    """Recompute which epsilon the cap amounts to."""
    field = _field(account, "cap")
    try:
        epsilon = recompute_cap(account.cap, account.calculus, account.delta)
    except NotRecomputable as error:
        return [Finding(where, field, printable(str(error)), "a cap in a known calculus", _OVERSPENT)]
    if epsilon is None or abs(epsilon * PICO - account.epsilon) > account.epsilon * TOLERANCE + _ROUNDED:
        found = "an infinite loss" if epsilon is None else f"a loss of epsilon {float(epsilon):.12g}"
        allowed = f"{pico_to_text(account.epsilon)}, with which the account was opened"
        return [Finding(where, field, found, allowed, _OVERSPENT)]
    if account.spent > account.cap:
        allowed = f"at most {pico_to_text(account.cap)}, its cap"
        return [Finding(where, _field(account, "spent"), pico_to_text(account.spent), allowed, _OVERSPENT)]
    return []


def _check_taken(
    account: AccountBody, part: TakenStatement, run: JournalledRun, where: str, *, complete: bool
) -> list[Finding]:
    findings = []
    draws = run.draws
    known: dict[bytes, Fraction | None] = {}
    for draw in draws:
        cost = draw.costs.get(account.name)
        event = canonical_json(draw.event)
        try:
            loss = known[event] if event in known else _loss(draw.event, account.calculus)
        except NotRecomputable as error:
            findings.append(
                Finding(where, _field(account, draw.key), printable(str(error)), "a known loss", _OVERSPENT)
            )
            continue
        known[event] = loss
        if loss is None or cost is None or not loss * PICO <= cost <= loss * PICO * (1 + TOLERANCE) + 1:
            found = "nothing" if cost is None else pico_to_text(cost)
            allowed = "a finite loss" if loss is None else f"{float(loss):.15g} rounded up, recomputed from the event"
            findings.append(Finding(where, _field(account, f"cost of {draw.key}"), found, allowed, _OVERSPENT))
    _, budget = split(run.charge.events)
    out = set(chosen(run.charge.events, [draw.event for draw in draws])) if budget else set()
    together = sum(draw.costs.get(account.name, 0) for place, draw in enumerate(draws) if place not in out)
    missing = [] if complete else undrawn(run.charge.events, [draw.event for draw in draws])
    unmade = [*missing, *([] if budget is None else [budget])]
    if unmade:
        together, wrong = _with_undrawn(account, part, together, unmade, where)
        findings += wrong
    for name, taken, expected, why in (
        ("amount", part.amount, together, "what its draws cost"),
        ("after", part.after, part.before + part.amount, "before and amount"),
        ("after", part.after, min(part.after, account.cap), "its cap: the account is overspent"),
        ("returnable", part.returnable, min(part.returnable, part.before), "all that was taken before"),
    ):
        if taken != expected:
            text = f"{pico_to_text(expected)}, {why}"
            findings.append(Finding(where, _field(account, name), pico_to_text(taken), text, _OVERSPENT))
    return findings


def _with_undrawn(
    account: AccountBody, part: TakenStatement, drawn: int, unmade: Sequence[Mapping[str, Any]], where: str
) -> tuple[int, list[Finding]]:
    """Add what a budget costs, whole, and planned draws that were not made: what the part says, if it says that."""
    least, spare = drawn, Fraction(0)
    for event in unmade:
        try:
            loss = _loss(event, account.calculus)
        except NotRecomputable as error:
            found = printable(str(error))
            return drawn, [Finding(where, _field(account, "budget"), found, "a known loss", _OVERSPENT)]
        if loss is None:
            found = "an infinite loss"
            return drawn, [Finding(where, _field(account, "budget"), found, "a finite loss", _OVERSPENT)]
        least += ceil(loss * PICO)
        spare += loss * PICO * TOLERANCE + 1
    return (part.amount if least <= part.amount <= least + spare else least), []


def _loss(event: Mapping[str, Any], calculus: Mapping[str, Any]) -> Fraction | None:
    """Recompute one event's loss in the calculus; None where it is infinite."""
    made = recompute([event], "0", calculus)
    if made.renyi_loss_at_order is not None:
        return Fraction(made.renyi_loss_at_order)
    return made.pure_epsilon


def _check_blocks(accounts: Sequence[AccountBody], scope: str, where: str) -> list[Finding]:
    """Check that the blocks join up, and that a lifetime has an account."""
    blocks: list[TimeBlock] = []
    for account in accounts:
        try:
            blocks.append(time_block(account.block))
        except BlockRefused:
            return [Finding(where, _field(account, "block"), shown(account.block), "a time block", _OVERSPENT)]
    if not blocks:
        return []
    hull = TimeBlock("", min(block.begins for block in blocks), max(block.ends for block in blocks))
    missing = gap(hull, blocks)
    findings = []
    if missing is not None:
        found = f"none for {missing[0]} to before {missing[1]}"
        findings.append(Finding(where, "blocks of the accounts", found, "blocks without a day between", _OVERSPENT))
    if scope == LIFETIME and not any(block.is_lifetime for block in blocks):
        allowed = "an account with block lifetime, which the contract's scope asks for"
        findings.append(Finding(where, "blocks of the accounts", "no lifetime", allowed, _OVERSPENT))
    return findings


def _check_days(accounts: Sequence[AccountBody], charge: ChargeBody, where: str) -> list[Finding]:
    """Check that the days of the charge were charged to somebody."""
    field = "charge_reserved, block"
    if charge.days is not None and charge.days != charge.block:
        allowed = f"{shown(charge.days)}, the days whose rows are measured"
        return [Finding(where, field, shown(charge.block), allowed, _OVERSPENT)]
    try:
        days, blocks = time_block(charge.block), [time_block(account.block) for account in accounts]
    except BlockRefused:
        return [Finding(where, field, shown(charge.block), "a time block", _OVERSPENT)]
    missing = gap(days, blocks)
    if missing is None or not blocks:
        return []
    found = f"{shown(charge.block)}, of which no account was charged for {missing[0]} to before {missing[1]}"
    return [Finding(where, field, found, "days that lie in the blocks of the accounts", _OVERSPENT)]


def _field(account: AccountBody, name: str) -> str:
    return printable(f"account {account.name}, {name}")
