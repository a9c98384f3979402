"""The auditor's own computation of a loss, from the JSON of the events alone.

It shares no code and no numerics with `privacy.accounting`: 50 to 80 digits of decimals instead of doubles, sums
over the support and integrals by Gauss's rule (`decimal_curves`) instead of closed forms and lattice sums. So an
error in one of the two shows as a disagreement. Nothing is rounded against anybody here: a recorded loss is right
if it is not below the recomputed one, and not above it by more than the record's roundings (10^-12 an event, and a
relative 10^-12 of the value).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any, Final

from tasks.verification.recompute.decimal_curves import SampledGaussian, bounded_range, laplace, two_points
from tasks.verification.recompute.event_forms import (
    NotRecomputable,
    exact_sum,
    positive,
    probability,
    read_event,
    registered_form,
    spend,
)

__all__ = ["NotRecomputable", "Recomputed", "recompute", "recompute_cap", "recompute_failure", "set_aside"]

_EXACT: Final = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)
_PER_DECADE: Final = 3
_LARGEST_ORDER: Final = 10**6
_LOWEST_DECADE: Final = -3
_DECADES: Final = 9
_NARROWINGS: Final = 44
_GOLDEN: Final = (Decimal(5).sqrt() - 1) / 2
_FORETOLD: Final = Decimal("1e-12")


_Curve = Callable[[Decimal], tuple[Decimal, Decimal]]
"""Of a power of ten that the order is above 1: epsilon there, and what it would be at delta 1."""


@dataclass(frozen=True)
class Recomputed:
    """What the events of a record cost, recomputed.

    Args:
        pure_epsilon: sum of the pure losses, beside which selections of keys may fail; None where it is infinite.
        renyi_loss_at_order: sum of the Rényi losses at the calculus' order; None for the pure calculus.
        epsilon_at_order: what the calculus makes of them at delta: the pure sum, or the converted Rényi loss; None
            where it is infinite.
        epsilon_best: the least of the pure sum and the conversions at all orders from 1 + 10^-3 to 1 + 10^6, valid
            for events that were fixed in advance; None where it is infinite.
    """

    pure_epsilon: Fraction | None
    renyi_loss_at_order: Decimal | None
    epsilon_at_order: Decimal | None
    epsilon_best: Decimal | None


@dataclass(frozen=True)
class _SampledStep:
    """One kind of event read from JSON, how often it occurs, its pure loss, its curve, and how likely it fails."""

    count: int
    pure: Fraction | None
    curve: Callable[[Decimal], Decimal]
    failure: Fraction = Fraction(0)


def recompute(events: Sequence[Mapping[str, Any]], delta: str, calculus: Mapping[str, Any]) -> Recomputed:
    """Recompute what events cost.

    Args:
        events: the events as the record has them.
        delta: the record's delta, as text: 0 <= delta < 1 [probability].
        calculus: the account's calculus, as the record has it.
    Returns:
        Recomputed: exact up to 10^-40, relative; the best order's epsilon up to 10^-10.
    Raises:
        NotRecomputable: an unknown kind, a missing or extra field, a value out of its range.
        TooMuchWork: the sums have more terms than the block around allows (`effort`).
    Source: conversion: Canonne, Kamath, Steinke 2020, Proposition 12; curves: docs/derivations.md.
    """
    with localcontext(_EXACT):
        chance, order = probability(delta), _calculus_order(calculus)
        steps = _steps(events)
        # What may fail beside its loss is taken off delta; where delta does not hold it, no epsilon is known.
        rest = Fraction(chance) - exact_sum(step.count * step.failure for step in steps)
        pure = None if any(step.pure is None for step in steps) else _pure_sum(steps)
        loss = None if order is None else _loss(steps, order)
        if rest < 0:
            return Recomputed(pure, loss, None, None)
        chance = Decimal(rest.numerator) / Decimal(rest.denominator)
        at_order = _decimal(pure) if loss is None or order is None else _converted(order, loss, chance)
        return Recomputed(pure, loss, at_order, _best(steps, pure, chance))


def recompute_cap(cap: int, calculus: Mapping[str, Any], delta: int) -> Fraction | None:
    """Recompute which epsilon a cap on an account's loss amounts to.

    Args:
        cap: most loss that the account admits [10^-12].
        calculus: the account's calculus.
        delta: delta of the account [10^-18].
    Returns:
        Fraction: epsilon, exact up to 10^-40, relative; None where it is infinite.
    Raises:
        NotRecomputable: an unknown calculus.
    """
    with localcontext(_EXACT):
        order, loss = _calculus_order(calculus), Decimal(cap).scaleb(-12)
        rest = Decimal(delta - set_aside(calculus)).scaleb(-18)
        if rest < 0:
            return None
        epsilon = loss if order is None else _converted(order, loss, rest)
        return None if epsilon is None else Fraction(epsilon)


def recompute_failure(events: Sequence[Mapping[str, Any]]) -> Fraction:
    """Recompute what events may fail with beside their loss: the sum of the selections' probabilities, exactly.

    Raises:
        NotRecomputable: an unknown kind, a missing or extra field, a value out of its range.
    """
    return exact_sum(step.count * step.failure for step in _steps(events))


def set_aside(calculus: Mapping[str, Any]) -> int:
    """Read which part of delta a calculus sets aside for selections of keys [10^-18].

    Raises:
        NotRecomputable: not a whole number above 0, where there is one.
    """
    if not isinstance(calculus, Mapping) or "selection_delta" not in calculus:
        return 0
    units = calculus["selection_delta"]
    if isinstance(units, bool) or not isinstance(units, int) or not 0 < units < 10**18:
        raise NotRecomputable(f"calculus: selection_delta is {str(units)[:60]}; allowed: 1 to 10^18 - 1")
    return units


def _pure_sum(steps: Iterable[_SampledStep]) -> Fraction:
    """Add up the pure losses, all of them finite."""
    return exact_sum(step.count * step.pure for step in steps if step.pure is not None)


def _loss(steps: Sequence[_SampledStep], order: Decimal) -> Decimal:
    """Add up the Rényi losses at one order."""
    spend(2 * len(steps))
    return sum((step.count * step.curve(order) for step in steps), Decimal(0))


def _converted(order: Decimal, loss: Decimal, delta: Decimal) -> Decimal | None:
    """Convert a Rényi loss to epsilon; None where it is infinite."""
    if loss == 0:
        return Decimal(0)
    if delta == 0:
        return None
    return max(Decimal(0), loss + ((order - 1) / order).ln() - (delta * order).ln() / (order - 1))


def _best(steps: Sequence[_SampledStep], pure: Fraction | None, delta: Decimal) -> Decimal | None:
    """Take the least of the pure sum and the conversions: scan the orders, then narrow every dip.

    (order - 1) times a Rényi divergence is convex in the order, and so is (order - 1) times its conversion: divided
    by order - 1, it has one dip. A few orders a decade find it; other bounds may have more.
    """
    best = _decimal(pure)
    if delta == 0 or not steps:
        return best
    log_delta = delta.ln()

    @cache
    def at(exponent: Decimal) -> tuple[Decimal, Decimal]:
        order = 1 + Decimal(10) ** exponent
        certain = _loss(steps, order) + (1 - 1 / order).ln() - order.ln() / (order - 1)
        return certain - log_delta / (order - 1), certain

    exponents = _scanned(at)
    values = [at(exponent)[0] for exponent in exponents]
    for place, value in enumerate(values):
        left, right = max(place - 1, 0), min(place + 1, len(values) - 1)
        if value > min(values[left], values[right]):
            continue
        for exponent in (exponents[place], _narrowed(at, exponents[left], exponents[place], exponents[right])):
            epsilon = max(Decimal(0), at(exponent)[0])
            best = epsilon if best is None else min(best, epsilon)
    return best


def _scanned(at: _Curve) -> list[Decimal]:
    """List the exponents to scan, up to one beyond which no order can be better: losses do not fall in the order."""
    exponents: list[Decimal] = []
    least: Decimal | None = None
    for step in range(_DECADES * _PER_DECADE + 1):
        exponent = _LOWEST_DECADE + Decimal(step) / _PER_DECADE
        exponents.append(exponent)
        epsilon, certain = at(exponent)
        least = epsilon if least is None else min(least, epsilon)
        if certain > max(least, Decimal(0)):
            break
    return exponents


def _narrowed(at: _Curve, left: Decimal, middle: Decimal, right: Decimal) -> Decimal:
    """Find the bottom of a dip, by parabolas and golden section in turn, until a parabola foretells the value.

    Parabolas meet a smooth bottom within a few orders; golden section closes in on every other one.
    """
    middle = middle if left < middle < right else (left + right) / 2
    for _ in range(_NARROWINGS):
        vertex, value = _vertex(at, left, middle, right)
        if abs(at(vertex)[0] - value) <= _FORETOLD * abs(value):
            return vertex
        left, middle, right = _closer(at, left, middle, right, vertex)
        end = right if right - middle > middle - left else left
        left, middle, right = _closer(at, left, middle, right, end - _GOLDEN * (end - middle))
    return middle


def _vertex(at: _Curve, left: Decimal, middle: Decimal, right: Decimal) -> tuple[Decimal, Decimal]:
    """Find the lowest point between two exponents, and its value, of the parabola through them and one between."""
    falls = (at(middle)[0] - at(left)[0]) / (middle - left)
    rises = (at(right)[0] - at(middle)[0]) / (right - middle)
    bend = (rises - falls) / (right - left)
    if bend <= 0:
        return middle, at(middle)[0]
    vertex = min(max((left + middle - falls / bend) / 2, left), right)
    return vertex, at(left)[0] + (vertex - left) * (falls + bend * (vertex - middle))


def _closer(
    at: _Curve, left: Decimal, middle: Decimal, right: Decimal, between: Decimal
) -> tuple[Decimal, Decimal, Decimal]:
    """Take one more exponent between, and leave out the end beyond the higher of the two."""
    low, high = sorted((middle, between))
    return (left, low, high) if at(low)[0] <= at(high)[0] else (low, high, right)


def _steps(events: Sequence[Mapping[str, Any]]) -> list[_SampledStep]:
    """Read the events, equal ones together."""
    if not isinstance(events, Sequence) or isinstance(events, str):
        raise NotRecomputable("events are not a list")
    counted: dict[tuple[Any, ...], int] = {}
    for event in events:
        key = read_event(event)
        counted[key] = counted.get(key, 0) + 1
    return [_step(kind, values, count) for (kind, *values), count in counted.items()]


def _step(kind: str, values: Sequence[Any], count: int) -> _SampledStep:
    """Give an event its pure loss and its curve."""
    parameter, *others = values
    value = Decimal(parameter.numerator) / Decimal(parameter.denominator)
    match kind, others:
        case "discrete_laplace", [moves]:
            return _SampledStep(count, parameter * sum(map(abs, moves)), lambda order: laplace(value, moves, order))
        case "discrete_laplace_vector", [move, times]:
            return _SampledStep(count * times, parameter * move, lambda order: laplace(value, [move], order))
        case "discrete_gaussian", [moves]:
            return _SampledStep(count, None, lambda order: order * sum(move * move for move in moves) / (2 * value))
        case "pure", []:
            return _SampledStep(count, parameter, lambda order: two_points(value, order))
        case "zero_concentrated", []:
            return _SampledStep(count, None, lambda order: order * value)
        case "gaussian", []:
            return _SampledStep(count, None, lambda order: order / (2 * value * value))
        case "exponential_mechanism", []:
            return _SampledStep(count, parameter, lambda order: bounded_range(value, order))
        case "key_selection", [chance, groups]:
            # Where it does not fail, each of the unit's keys is a pure step; it fails where one of them tells all.
            failure = 1 - (1 - chance) ** groups
            return _SampledStep(count, parameter * groups, lambda order: groups * two_points(value, order), failure)
        case "poisson_sampled_gaussian", [chance, steps]:
            return _SampledStep(count * steps, None, SampledGaussian(parameter, chance).divergence)
    form = registered_form(kind)
    if form is None:
        raise NotRecomputable(f"event kind {kind}")
    return _SampledStep(count, *form.loss(*values))


def _calculus_order(calculus: Mapping[str, Any]) -> Decimal | None:
    """Read the calculus: its order, or None if it is pure."""
    fields = dict(calculus) if isinstance(calculus, Mapping) else {}
    set_aside(fields)
    fields.pop("selection_delta", None)
    if fields == {"kind": "pure"}:
        return None
    if set(fields) != {"kind", "order"} or fields["kind"] != "renyi":
        raise NotRecomputable(f"calculus {str(calculus)[:60]!r}; allowed: kind pure, or kind renyi with its order")
    order = positive(fields["order"], "calculus: order")
    if not 1 < order <= _LARGEST_ORDER:
        raise NotRecomputable(f"calculus: order is {str(order)[:60]}; allowed: above 1 and at most {_LARGEST_ORDER}")
    return _decimal(order)


def _decimal(value: Fraction | None) -> Decimal | None:
    """Divide a rational out; None stays None."""
    return None if value is None else Decimal(value.numerator) / Decimal(value.denominator)
