"""What people are told that an attacker can learn at most: computed again, by other code, from claim and draws.

The belief after a release follows from the loss by Bayes' rule, here in doubles about what is missing to certainty;
the loss about one column from the events of the draws that count it, with the moves of one unit's other value, by the
decimals of `recompute`. Losses may differ by the rounding of the record, beliefs by the digits that are stated.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from contracts.errors import Finding
from privacy.accounting.amounts import ATTO, PICO, atto_to_text
from tasks.records.model.version_statements import DrawStatement, Record, RecordTerms
from tasks.records.sentences import ANY_COLUMN, PRESENCE, ROWS, WHOLE, meaning
from tasks.records.strict_json import shown
from tasks.verification.recompute.effort import exact_sum
from tasks.verification.recompute.event_forms import read_event
from tasks.verification.recompute.loss import NotRecomputable, recompute

PRIORS: Final = {"1 %": 0.01, "10 %": 0.1, "50 %": 0.5}
_TOLERANCE: Final = 1e-6
_PERCENT: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,20})? %")
_NUMBER: Final = re.compile(r"[0-9]{1,20}(\.[0-9]{1,40})?(e[+-]?[0-9]{1,3})?")
_MISLEADING: Final = "people are told that less can be learned than follows: rely on the recomputed value"
_ALLOWANCE: Final = 10 / 9
_FINEST: Final = 10**40


def check_learnable(record: RecordTerms, columns: tuple[str, ...], *, where: str) -> list[Finding]:
    """Check the fields of the section guarantee that say what can be learned.

    Args:
        record: the record.
        columns: the columns of the contract, in its order.
        where: the record's file name.
    """
    group = record.groups.get("guarantee")
    told: dict[str, Any] = {} if group is None else {name: field.value for name, field in group.fields.items()}
    claim = record.replay.claim
    epsilon, delta = Fraction(claim.epsilon, PICO), claim.delta
    present = record.replay.adjacency == "add_remove"
    hypothesis = PRESENCE if present else ROWS
    field, whole = "groups.guarantee.largest_posterior", told.get("largest_posterior")
    findings = _check_factor(told.get("odds_factor"), epsilon, "groups.guarantee", where)
    findings += _check_beliefs(whole, epsilon, delta, field, where)
    findings += _check_largest(record, told, where)
    if not isinstance(whole, dict) or whole.get("hypothesis") != hypothesis:
        found = shown(whole.get("hypothesis")) if isinstance(whole, dict) else shown(whole)
        findings.append(Finding(where, f"{field}.hypothesis", found, hypothesis, _MISLEADING))
    synthetic = not isinstance(record, Record)
    means = meaning(record.replay.adjacency, record.replay.rows_per_unit, synthetic=synthetic)
    if told.get("per_attribute_means") != means:
        found = shown(told.get("per_attribute_means"))
        findings.append(Finding(where, "groups.guarantee.per_attribute_means", found, means, _MISLEADING))
    if not isinstance(record, Record):
        if told.get("per_attribute") != WHOLE:
            findings.append(
                Finding(where, "groups.guarantee.per_attribute", shown(told.get("per_attribute")), WHOLE, _MISLEADING)
            )
        return findings
    return findings + _check_attributes(record, told.get("per_attribute"), columns, where)


def _check_attributes(record: Record, told: Any, columns: tuple[str, ...], where: str) -> list[Finding]:
    """Check the loss about each column of the contract."""
    listed = (
        {str(each.get("column")): each for each in told if isinstance(each, dict)} if isinstance(told, list) else {}
    )
    findings = []
    if list(listed) != list(columns) or len(listed) != len(told if isinstance(told, list) else ()):
        found, allowed = ", ".join(map(shown, listed)), f"the columns of the contract: {', '.join(columns)}"
        findings.append(Finding(where, "groups.guarantee.per_attribute", found or "nothing", allowed, _MISLEADING))
    known: dict[Any, Fraction | None] = {}
    for column in columns:
        entry, at = listed.get(column, {}), f"groups.guarantee.per_attribute, {column}"
        counting = [draw for draw in record.replay.draws if column in draw.clique]
        events = moved(counting, record.replay.rows_per_unit)
        key = frozenset(Counter(str(sorted(event.items())) for event in events).items())
        if key not in known:
            known[key] = _epsilon(events, record.replay.claim.delta)
        expected, stated = known[key], _amount(entry.get("epsilon"))
        if expected is None:
            continue  # an event that cannot be read is a finding of rule 6
        if stated is None or not _alike(stated, expected) or entry.get("draws") != len(counting):
            found = f"{shown(entry.get('epsilon'))} by {shown(entry.get('draws'))} draws"
            allowed = f"{float(expected):.12g} by {len(counting)} draws, recomputed from the events"
            findings.append(Finding(where, at, found, allowed, _MISLEADING))
            continue
        findings += _check_beliefs(entry, stated, record.replay.claim.delta, at, where)
        findings += _check_factor(entry.get("odds_factor"), stated, at, where)
    return findings


def _check_largest(record: RecordTerms, told: Mapping[str, Any], where: str) -> list[Finding]:
    """Check what is said of the column that the release tells most of; of tables, it is one of those listed."""
    at, stated = "groups.guarantee.largest_attribute", told.get("largest_attribute")
    largest: Mapping[str, Any] = stated if isinstance(stated, dict) else {}
    claim = record.replay.claim
    if isinstance(record, Record):
        return _check_largest_of_tables(largest, told.get("per_attribute"), claim.delta, at, where)
    epsilon, delta = _about_a_row(claim.epsilon, claim.delta, record.replay.adjacency)
    found = (largest.get("column"), _amount(largest.get("epsilon")), _amount(largest.get("delta")))
    column, loss, excepted = found
    if column != ANY_COLUMN or loss != epsilon or excepted is None or not _four_digits(delta, excepted):
        allowed = f"{ANY_COLUMN}: {float(epsilon):.12g} at delta {delta / ATTO:.6g}"
        return [Finding(where, at, _brief(largest), allowed, _MISLEADING)]
    findings = _check_beliefs(largest, epsilon, int(excepted * ATTO), at, where)
    return findings + _check_factor(largest.get("odds_factor"), epsilon, at, where)


def _check_largest_of_tables(
    largest: Mapping[str, Any], listed: Any, delta: int, at: str, where: str
) -> list[Finding]:
    """Hold the largest attribute against the recomputed list: it is the first entry of the largest loss."""
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    losses = [_amount(each.get("epsilon")) or Fraction(0) for each in entries]
    if not entries:
        return []  # a finding about the list itself
    expected = {name: value for name, value in entries[losses.index(max(losses))].items() if name != "draws"}
    expected["delta"] = atto_to_text(delta)
    if dict(largest) == expected:
        return []
    return [Finding(where, at, _brief(largest), _brief(expected), _MISLEADING)]


def _brief(largest: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in _leaves(largest))


def _leaves(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """List what a statement says, one level of nesting taken apart."""
    return [
        (f"{name} {inner}", one) if inner else (name, one)
        for name, value in values.items()
        for inner, one in (value.items() if isinstance(value, dict) else [("", value)])
    ]


def _about_a_row(epsilon: int, delta: int, adjacency: str) -> tuple[Fraction, float]:
    """Return the loss about the rows of a unit known to be in the table: one removed and another added."""
    if adjacency != "add_remove":
        return Fraction(epsilon, PICO), float(delta)
    return Fraction(2 * epsilon, PICO), min(delta * (1 + math.exp(min(epsilon / PICO, 700.0))), float(ATTO - 1))


def moved(draws: list[DrawStatement], rows: int) -> list[dict[str, Any]]:
    """Return the events of draws for one unit's other value in a column: its rows leave cells and enter others.

    Gaussian noise of several draws is one event: its zero-concentrated losses add up.
    """
    events: list[dict[str, Any]] = []
    losses: list[Fraction] = []
    for draw in draws:
        try:
            kind, noise, *_ = read_event(draw.event)
        except NotRecomputable:
            return [dict(draw.event)]
        if kind == "discrete_gaussian":
            losses.append(Fraction(2 * rows * rows) / (2 * noise))
        else:
            events.append({**draw.event, "moves": [rows, rows]})
    rho = exact_sum(losses)
    total = Fraction(round(rho * _FINEST), _FINEST)
    return [*events, {"kind": "zero_concentrated", "rho": str(total)}] if rho else events


def _epsilon(events: list[dict[str, Any]], delta: int) -> Fraction | None:
    """Recompute the loss of events; None where they cannot be read."""
    if not events:
        return Fraction(0)
    try:
        best = recompute(events, atto_to_text(delta), {"kind": "pure"}).epsilon_best
    except NotRecomputable:
        return None
    return None if best is None else Fraction(best)


def _check_beliefs(told: Any, epsilon: Fraction, delta: int, at: str, where: str) -> list[Finding]:
    """Check the beliefs after a release, and with which probability they may be exceeded."""
    stated: Mapping[str, Any] = told if isinstance(told, dict) else {}
    beliefs = stated.get("at_most")
    given: Mapping[str, Any] = beliefs if isinstance(beliefs, dict) else {}
    findings = []
    factor = float(epsilon) + (math.log(_ALLOWANCE) if delta and epsilon else 0.0)
    for name, prior in PRIORS.items():
        missing = _missing(given.get(name))
        exact = 1 / (1 + prior / (1 - prior) * math.exp(min(factor, 700.0)))
        room = max(exact * 0.2, 2e-12) if exact < 0.011 else (1 - exact) * 2e-3
        if missing is None or not exact - room <= missing <= exact * (1 + 1e-9) + 1e-15:
            allowed = f"at least {100 * (1 - exact):.6g} %, and not much more"
            findings.append(Finding(where, f"{at}: {name}", shown(given.get(name)), allowed, _MISLEADING))
    if set(given) != set(PRIORS):
        findings.append(Finding(where, at, ", ".join(map(shown, given)), ", ".join(PRIORS), _MISLEADING))
    exceptions = min(10 * delta, ATTO) if epsilon else 0
    if stated.get("except_with_probability") != atto_to_text(exceptions):
        found = shown(stated.get("except_with_probability"))
        findings.append(Finding(where, f"{at}: exceptions", found, atto_to_text(exceptions), _MISLEADING))
    return findings


def _four_digits(exact: float, stated: Fraction) -> bool:
    """Say whether a probability is the exact one [10^-18], rounded up to four digits and a whole number."""
    return exact * (1 - 1e-9) <= stated * ATTO <= exact * (1 + 1.001e-3) + 1


def _check_factor(told: Any, epsilon: Fraction, at: str, where: str) -> list[Finding]:
    """Check the factor of the odds: exp(epsilon), rounded up to four digits."""
    exact = math.exp(min(float(epsilon), 700.0))
    stated = _amount(told)
    if float(epsilon) > 700 or (stated is not None and exact * (1 - 1e-9) <= stated <= exact * 1.002):
        return []
    return [Finding(where, f"{at}.odds_factor", shown(told), f"{exact:.6g}", _MISLEADING)]


def _missing(text: Any) -> float | None:
    """Read what a stated percentage leaves to certainty, as a probability."""
    if text == "almost 100 %":
        return 0.0
    if not isinstance(text, str) or not _PERCENT.fullmatch(text):
        return None
    return float(1 - Fraction(text.removesuffix(" %")) / 100)


def _amount(text: Any) -> Fraction | None:
    return Fraction(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None


def _alike(stated: Fraction, expected: Fraction) -> bool:
    """Say whether a stated loss is the recomputed one, rounded up."""
    return expected * (1 - Fraction(1, 10**9)) <= stated <= expected * (1 + Fraction(_TOLERANCE)) + Fraction(1, 10**9)
