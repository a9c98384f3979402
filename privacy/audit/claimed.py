"""Does the claimed guarantee follow from the events? In this order.

1. record and journal state the same amounts, and amount, before, after and cap add up
2. each draw's cost, recomputed by independent code, is what was entered; together they are the amount
3. ε, recomputed by independent code from the events, is not above the claim, nor the claim above the spec's charge
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from contracts.canonical import canonical_json
from contracts.errors import Finding
from contracts.written import parse_decimal
from privacy.accounting.amounts import ATTO, PICO, atto_to_text, pico_to_text
from privacy.audit.identity import OTHER
from privacy.audit.inclusion import JournalledRun
from privacy.audit.readable import printable, shown
from privacy.audit.recompute import NotRecomputable, recompute
from privacy.audit.statements import Replay

TOLERANCE: Final = Fraction(1, 10**9)
_OVERSTATED: Final = "the guarantee is weaker than stated: rely on the recomputed value, not on the claim"
_ACCOUNT: Final = "the account was charged otherwise than stated: ask the publisher for the journal"


def check_amounts(replay: Replay, run: JournalledRun, *, where: str) -> list[Finding]:
    """Check that the amounts agree with the journal and add up."""
    charge = run.charge
    pairs = [
        ("replay.claim.epsilon", replay.claim.epsilon, charge.epsilon),
        ("replay.claim.delta", replay.claim.delta, charge.delta),
        ("replay.amount", replay.amount, charge.amount),
        ("replay.before", replay.before, charge.before),
        ("replay.after", replay.after, charge.after),
    ]
    findings = [
        Finding(where, field, str(found), f"{expected}, as the charge in the journal says", _ACCOUNT)
        for field, found, expected in pairs
        if found != expected
    ]
    if replay.before + replay.amount != replay.after:
        allowed = f"{replay.before + replay.amount}, before + amount"
        findings.append(Finding(where, "replay.after", str(replay.after), allowed, _ACCOUNT))
    if replay.after > replay.cap:
        allowed = f"at most {replay.cap}, the account's cap"
        findings.append(Finding(where, "replay.after", str(replay.after), allowed, "the account is overspent"))
    return findings


def check_costs(replay: Replay, *, where: str) -> list[Finding]:
    """Check each draw's cost in the account's calculus against an independent recomputation."""
    findings = []
    known: dict[bytes, Fraction | None] = {}
    for place, draw in enumerate(replay.draws):
        field = f"replay.draws[{place}].cost"
        event = canonical_json(draw.event)
        try:
            loss = known[event] if event in known else _loss(draw.event, replay.calculus)
        except NotRecomputable as error:
            findings.append(Finding(where, field, printable(str(error)), "an event with a loss", _OVERSTATED))
            continue
        known[event] = loss
        if loss is None:
            found = "a loss that is infinite in the account's calculus"
            findings.append(Finding(where, field, found, "a finite loss", _OVERSTATED))
        elif not loss * PICO <= draw.cost <= loss * PICO * (1 + TOLERANCE) + 1:
            found, allowed = pico_to_text(draw.cost), f"{_text(loss)} rounded up, recomputed from the event"
            findings.append(Finding(where, field, found, allowed, _OVERSTATED))
    together = sum(draw.cost for draw in replay.draws)
    if together != replay.amount:
        allowed = f"{together}, the sum of the draws' costs"
        findings.append(Finding(where, "replay.amount", str(replay.amount), allowed, _ACCOUNT))
    return findings


def _loss(event: Mapping[str, Any], calculus: Mapping[str, Any]) -> Fraction | None:
    """Recompute one event's loss in the calculus; None where it is infinite."""
    made = recompute([event], "0", calculus)
    if made.renyi_loss_at_order is not None:
        return Fraction(made.renyi_loss_at_order)
    return made.pure_epsilon


def check_claim(replay: Replay, *, where: str) -> list[Finding]:
    """Check the claimed ε against the recomputed one, and claim and charge against each other."""
    claim = replay.claim
    findings = _check_terms(replay, where)
    try:
        delta = atto_to_text(claim.delta)
        epsilon = recompute([draw.event for draw in replay.draws], delta, replay.calculus).epsilon_best
    except NotRecomputable as error:
        return [*findings, Finding(where, "replay.claim", printable(str(error)), "events with a loss", _OVERSTATED)]
    if epsilon is None:
        allowed = f"a finite ε at δ = {atto_to_text(claim.delta)}"
        findings.append(Finding(where, "replay.claim.epsilon", "an infinite loss", allowed, _OVERSTATED))
    elif Fraction(epsilon) * PICO > claim.epsilon * (1 + TOLERANCE):
        found, allowed = (
            pico_to_text(claim.epsilon),
            f"at least {_text(Fraction(epsilon))}, recomputed from the events",
        )
        findings.append(Finding(where, "replay.claim.epsilon", found, allowed, _OVERSTATED))
    return findings


def _check_terms(replay: Replay, where: str) -> list[Finding]:
    """Check that the claim is not above what the spec was allowed to cost."""
    findings = []
    for name, claimed, unit in (("epsilon", replay.claim.epsilon, PICO), ("delta", replay.claim.delta, ATTO)):
        written = _number(getattr(replay.charge, name))
        if written is None:
            found = shown(getattr(replay.charge, name))
            findings.append(Finding(where, f"replay.charge.{name}", found, "a number from 0 to 1000", OTHER))
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
