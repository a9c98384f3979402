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

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any, Final

from contracts.canonical import canonical_json
from contracts.errors import Finding
from contracts.periods.time_blocks import LIFETIME, BlockRefused, TimeBlock, gap, time_block
from contracts.reading.scalars import parse_decimal, plain_text
from privacy.accounting.amounts import ATTO, PICO, atto_to_text, pico_to_text
from tasks.records.model.journal_statements import AccountBody, ChargeBody, TakenStatement
from tasks.records.model.version_statements import ReplayTerms
from tasks.records.strict_json import printable, shown
from tasks.verification.inclusion import JournalledRun
from tasks.verification.recompute.adaptive_budget import chosen, split, undrawn
from tasks.verification.recompute.loss import NotRecomputable, recompute, recompute_cap, recompute_failure, set_aside
from tasks.verification.recompute.loss_inversion import delta_at
from tasks.verification.record_identity import OTHER

# --- Does the claimed guarantee follow from the events? In this order.


TOLERANCE: Final = Fraction(1, 10**9)
_INVERTED: Final = 1e-5
"""Of δ: more than the inversion may be off by."""
_OVERSTATED: Final = "the guarantee is weaker than stated: rely on the recomputed value, not on the claim"
_ACCOUNT: Final = "the account was charged otherwise than stated: ask the publisher for the journal"


def check_amounts(replay: ReplayTerms, run: JournalledRun, *, where: str) -> list[Finding]:
    """Check that the amounts agree with the journal and add up."""
    charge = run.charge
    taken = {part.account: part for part in charge.parts}.get(charge.account)
    account = run.accounts.get(charge.account)
    if taken is None or account is None:
        found = f"no part or no opening of {shown(charge.account)}"
        return [Finding(where, "replay.charge.account", found, "an account that was charged", _ACCOUNT)]
    pairs: list[tuple[str, object, object]] = [
        ("replay.claim.epsilon", replay.claim.epsilon, charge.epsilon),
        ("replay.claim.delta", replay.claim.delta, charge.delta),
        ("replay.amount", replay.amount, taken.amount),
        ("replay.before", replay.before, taken.before),
        ("replay.after", replay.after, taken.after),
        ("replay.cap", replay.cap, account.cap),
        ("replay.calculus", replay.calculus, account.calculus),
        ("replay.charge.noise_epsilon", replay.charge.noise_epsilon, charge.noise_epsilon),
    ]
    return [
        Finding(where, field, shown(found), f"{shown(expected)}, as the charge in the journal says", _ACCOUNT)
        for field, found, expected in pairs
        if found != expected
    ]


def check_claim(replay: ReplayTerms, run: JournalledRun | None, *, where: str) -> list[Finding]:
    """Check the claimed ε against the recomputed one, and claim and charge against each other.

    Where draws were chosen on the way, the loss is that of the charge's events, which were fixed before the first
    draw, with the budget among them; a best order may be picked for nothing else.
    """
    claim = replay.claim
    findings = _check_terms(replay, where)
    try:
        delta = atto_to_text(claim.delta)
        fixed = [draw.event for draw in replay.draws]
        if run is not None and split(run.charge.events)[1] is not None:
            fixed = list(run.charge.events)
        epsilon = recompute(fixed, delta, replay.calculus).epsilon_best
    except NotRecomputable as error:
        return [*findings, Finding(where, "replay.claim", printable(str(error)), "events with a loss", _OVERSTATED)]
    if epsilon is None:
        allowed = f"a finite ε at δ = {atto_to_text(claim.delta)}"
        findings.append(Finding(where, "replay.claim.epsilon", "an infinite loss", allowed, _OVERSTATED))
    elif Fraction(epsilon) * PICO > claim.epsilon * (1 + TOLERANCE) and not _distributed(fixed, replay):
        found, allowed = (
            pico_to_text(claim.epsilon),
            f"at least {_text(Fraction(epsilon))}, recomputed from the events",
        )
        findings.append(Finding(where, "replay.claim.epsilon", found, allowed, _OVERSTATED))
    return findings


def _distributed(events: Sequence[Mapping[str, Any]], replay: ReplayTerms) -> bool:
    """Say whether the loss distribution of the events, Gaussian noise and nothing else, keeps the claim."""
    claim = replay.claim
    if claim.epsilon == 0 or claim.delta == 0:
        return False
    try:
        delta = delta_at(events, Fraction(claim.epsilon, PICO))
    except NotRecomputable:
        return False
    return delta is not None and delta * ATTO <= claim.delta * (1 - _INVERTED)


def _check_terms(replay: ReplayTerms, where: str) -> list[Finding]:
    """Check that the claim is not above what the spec was allowed to cost."""
    findings = []
    claims = ("epsilon", replay.claim.epsilon, PICO, 1000), ("delta", replay.claim.delta, ATTO, 1)
    for name, claimed, unit, most in claims:
        stated = getattr(replay.charge, name)
        written = _number(stated)
        if written is None or written > most:
            findings.append(
                Finding(where, f"replay.charge.{name}", shown(stated), f"a number from 0 to {most}", OTHER)
            )
        elif stated != (text := plain_text(Decimal(stated))):
            allowed = f"{text}, the one form that is written"
            findings.append(Finding(where, f"replay.charge.{name}", shown(stated), allowed, OTHER))
        elif claimed > written * unit * (1 + TOLERANCE):
            found, allowed = _text(Fraction(claimed, unit)), f"at most {_text(written)}, the spec's charge"
            findings.append(Finding(where, f"replay.claim.{name}", found, allowed, _OVERSTATED))
    return findings


def _number(text: str) -> Fraction | None:
    """Read an amount from its text; None where it is none."""
    try:
        value = parse_decimal(text)
    except ValueError:
        return None
    return Fraction(value) if value == 0 or Decimal("1e-60") <= value <= 1000 else None


def _text(value: Fraction) -> str:
    """Write a number with fifteen digits."""
    return f"{float(value):.15g}"


# --- Do selections of keys stay within what each account has set aside for them? For every account that was charged.


_OVERSPENT: Final = (
    "more selections of keys were charged than the account's terms allow: ask the publisher for the journal"
)


def check_failures(account: AccountBody, part: TakenStatement, run: JournalledRun, *, where: str) -> list[Finding]:
    """Check the second sum of one account; empty where it holds, or has nothing to hold.

    Args:
        account: as it was opened.
        part: what the charge took from it.
        run: the run as the journal has it.
        where: the proof's file name.
    """
    field = printable(f"account {account.name}, failures")
    try:
        aside = set_aside(account.calculus)
        # Each event is rounded up by itself, as it is charged.
        failure = sum(ceil(recompute_failure([event]) * ATTO) for event in run.charge.events)
    except NotRecomputable as error:
        return [Finding(where, field, printable(str(error)), "selections of a known failure", _OVERSPENT)]
    wrong = _wrong(part.failure_before, part.failure_after, failure=failure, aside=aside, delta=account.delta)
    return [Finding(where, field, found, allowed, _OVERSPENT) for found, allowed in wrong]


def _wrong(
    before: int | None, after: int | None, *, failure: int, aside: int, delta: int
) -> Iterator[tuple[str, str]]:
    """Yield what does not hold: found and allowed."""
    if not aside:
        if failure:
            yield f"selections that may fail with {atto_to_text(failure)}", "none: it sets nothing aside for them"
        if (before, after) != (None, None):
            yield "a sum of failures", "none: it sets nothing aside for them"
        return
    if aside > delta:
        yield f"{atto_to_text(aside)} set aside", f"at most {atto_to_text(delta)}, its δ"
    if before is None or after is None:
        yield "none stated", "the sums before and after, as it sets a part of δ aside"
        return
    if after != before + failure:
        yield (
            f"{atto_to_text(after)} after",
            f"{atto_to_text(before + failure)}: before, and what the events fail with",
        )
    if after > aside:
        yield f"{atto_to_text(after)} after", f"at most {atto_to_text(aside)}, which is set aside"


_ROUNDED: Final = 2
"""10⁻¹²: a cap is what fits under its epsilon, rounded down."""
_OVERSPENT_BY_ACCOUNT: Final = (
    "the account was charged otherwise than its terms allow: ask the publisher for the journal"
)


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
        Finding(
            where,
            _field(account, field),
            shown(found),
            f"{shown(expected)}, as the charge says",
            _OVERSPENT_BY_ACCOUNT,
        )
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
        return [Finding(where, field, printable(str(error)), "a cap in a known calculus", _OVERSPENT_BY_ACCOUNT)]
    if epsilon is None or abs(epsilon * PICO - account.epsilon) > account.epsilon * TOLERANCE + _ROUNDED:
        found = "an infinite loss" if epsilon is None else f"a loss of epsilon {float(epsilon):.12g}"
        allowed = f"{pico_to_text(account.epsilon)}, with which the account was opened"
        return [Finding(where, field, found, allowed, _OVERSPENT_BY_ACCOUNT)]
    if account.spent > account.cap:
        allowed = f"at most {pico_to_text(account.cap)}, its cap"
        return [Finding(where, _field(account, "spent"), pico_to_text(account.spent), allowed, _OVERSPENT_BY_ACCOUNT)]
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
                Finding(
                    where, _field(account, draw.key), printable(str(error)), "a known loss", _OVERSPENT_BY_ACCOUNT
                )
            )
            continue
        known[event] = loss
        if loss is None or cost is None or not loss * PICO <= cost <= loss * PICO * (1 + TOLERANCE) + 1:
            found = "nothing" if cost is None else pico_to_text(cost)
            allowed = "a finite loss" if loss is None else f"{float(loss):.15g} rounded up, recomputed from the event"
            findings.append(
                Finding(where, _field(account, f"cost of {draw.key}"), found, allowed, _OVERSPENT_BY_ACCOUNT)
            )
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
            findings.append(Finding(where, _field(account, name), pico_to_text(taken), text, _OVERSPENT_BY_ACCOUNT))
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
            return drawn, [Finding(where, _field(account, "budget"), found, "a known loss", _OVERSPENT_BY_ACCOUNT)]
        if loss is None:
            found = "an infinite loss"
            return drawn, [Finding(where, _field(account, "budget"), found, "a finite loss", _OVERSPENT_BY_ACCOUNT)]
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
            return [
                Finding(where, _field(account, "block"), shown(account.block), "a time block", _OVERSPENT_BY_ACCOUNT)
            ]
    if not blocks:
        return []
    hull = TimeBlock("", min(block.begins for block in blocks), max(block.ends for block in blocks))
    missing = gap(hull, blocks)
    findings = []
    if missing is not None:
        found = f"none for {missing[0]} to before {missing[1]}"
        findings.append(
            Finding(where, "blocks of the accounts", found, "blocks without a day between", _OVERSPENT_BY_ACCOUNT)
        )
    if scope == LIFETIME and not any(block.is_lifetime for block in blocks):
        allowed = "an account with block lifetime, which the contract's scope asks for"
        findings.append(Finding(where, "blocks of the accounts", "no lifetime", allowed, _OVERSPENT_BY_ACCOUNT))
    return findings


def _check_days(accounts: Sequence[AccountBody], charge: ChargeBody, where: str) -> list[Finding]:
    """Check that the days of the charge were charged to somebody."""
    field = "charge_reserved, block"
    if charge.days is not None and charge.days != charge.block:
        allowed = f"{shown(charge.days)}, the days whose rows are measured"
        return [Finding(where, field, shown(charge.block), allowed, _OVERSPENT_BY_ACCOUNT)]
    try:
        days, blocks = time_block(charge.block), [time_block(account.block) for account in accounts]
    except BlockRefused:
        return [Finding(where, field, shown(charge.block), "a time block", _OVERSPENT_BY_ACCOUNT)]
    missing = gap(days, blocks)
    if missing is None or not blocks:
        return []
    found = f"{shown(charge.block)}, of which no account was charged for {missing[0]} to before {missing[1]}"
    return [Finding(where, field, found, "days that lie in the blocks of the accounts", _OVERSPENT_BY_ACCOUNT)]


def _field(account: AccountBody, name: str) -> str:
    return printable(f"account {account.name}, {name}")
