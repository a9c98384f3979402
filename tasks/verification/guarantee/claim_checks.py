"""Does the claimed guarantee follow from the events? In this order.

1. record and journal state the same amounts, calculus and cap for the account that the spec names
2. ε, recomputed by independent code from the events, is not above the claim, nor the claim above the spec's charge;
   by Rényi losses, or, of Gaussian noise that was fixed beforehand, by the δ of its loss distribution at the claim
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from contracts.errors import Finding
from contracts.reading.scalars import parse_decimal, plain_text
from privacy.accounting.amounts import ATTO, PICO, atto_to_text, pico_to_text
from tasks.records.model.version_statements import ReplayTerms
from tasks.records.strict_json import printable, shown
from tasks.verification.inclusion import JournalledRun
from tasks.verification.recompute.adaptive_budget import split
from tasks.verification.recompute.loss import NotRecomputable, recompute
from tasks.verification.recompute.loss_inversion import delta_at
from tasks.verification.record_identity import OTHER

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
