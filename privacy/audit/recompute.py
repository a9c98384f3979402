"""The auditor's own computation of a loss, from the JSON of the events alone.

It shares no code and no numerics with `privacy.accounting`: 80-digit decimals instead of doubles, sums over the
support instead of closed forms. So an error in one of the two shows as a disagreement. Nothing is rounded against
anybody here: a recorded loss is right if it is not below the recomputed one, and not above it by more than the
record's roundings (10^-12 an event, and a relative 10^-12 of the value).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any, Final

from contracts.errors import SudareError

_EXACT: Final = Context(prec=80, Emax=MAX_EMAX, Emin=MIN_EMIN)
_RATIONAL: Final = re.compile(r"[0-9]{1,61}(/[1-9][0-9]{0,60})?")
_DELTA: Final = re.compile(r"[0-9]{1,20}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,3})?")
_SUMMED_POINTS: Final = 4096
_PER_DECADE: Final = 10
_LOWEST_DECADE: Final = -3
_DECADES: Final = 9
_NARROWINGS: Final = 24


class NotRecomputable(SudareError):
    """The record's events, delta or calculus cannot be read as what they should be."""

    exit_code = 5


@dataclass(frozen=True)
class Recomputed:
    """What the events of a record cost, recomputed.

    Args:
        pure_epsilon: sum of the pure losses; None where it is infinite [dimensionless].
        renyi_loss_at_order: sum of the Rényi losses at the calculus' order; None for the pure calculus.
        epsilon_at_order: what the calculus makes of them at delta: the pure sum, or the converted Rényi loss; None
            where it is infinite.
        epsilon_best: the least of the pure sum and the conversions at all orders from 1 + 10^-3 to 1 + 10^6, valid
            for events that were fixed in advance; None where it is infinite.
        order_best: the order it is found at; None where it is the pure sum.
    """

    pure_epsilon: Fraction | None
    renyi_loss_at_order: Decimal | None
    epsilon_at_order: Decimal | None
    epsilon_best: Decimal | None
    order_best: Decimal | None


@dataclass(frozen=True)
class _Step:
    """One kind of event read from JSON, how often it occurs, its pure loss, and its curve."""

    count: int
    pure: Fraction | None
    curve: Callable[[Decimal], Decimal]


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
    Source: conversion: Canonne, Kamath, Steinke 2020, Proposition 12; curves: docs/privacy_model.md.
    """
    with localcontext(_EXACT):
        probability, order = _probability(delta), _calculus_order(calculus)
        steps = _steps(events)
        pure = None if any(step.pure is None for step in steps) else _pure_sum(steps)
        loss = None if order is None else _loss(steps, order)
        at_order = _decimal(pure) if loss is None or order is None else _converted(order, loss, probability)
        best, best_at = _best(steps, pure, probability)
        return Recomputed(pure, loss, at_order, best, best_at)


def _pure_sum(steps: Iterable[_Step]) -> Fraction:
    """Add up the pure losses, all of them finite."""
    return sum((step.count * step.pure for step in steps if step.pure is not None), Fraction(0))


def _loss(steps: Iterable[_Step], order: Decimal) -> Decimal:
    """Add up the Rényi losses at one order."""
    return sum((step.count * step.curve(order) for step in steps), Decimal(0))


def _converted(order: Decimal, loss: Decimal, delta: Decimal) -> Decimal | None:
    """Convert a Rényi loss to epsilon; None where it is infinite."""
    if loss == 0:
        return Decimal(0)
    if delta == 0:
        return None
    return max(Decimal(0), loss + ((order - 1) / order).ln() - (delta * order).ln() / (order - 1))


def _best(steps: Sequence[_Step], pure: Fraction | None, delta: Decimal) -> tuple[Decimal | None, Decimal | None]:
    """Take the least of the pure sum and the conversions: scan the orders, then narrow every dip by thirds."""
    best: tuple[Decimal | None, Decimal | None] = (_decimal(pure), None)
    if delta == 0 or not steps:
        return best

    def at(exponent: Decimal) -> Decimal:
        order = 1 + Decimal(10) ** exponent
        return _loss(steps, order) + (1 - 1 / order).ln() - (delta.ln() + order.ln()) / (order - 1)

    exponents = [_LOWEST_DECADE + Decimal(step) / _PER_DECADE for step in range(_DECADES * _PER_DECADE + 1)]
    values = [at(exponent) for exponent in exponents]
    for place, value in enumerate(values):
        left, right = max(place - 1, 0), min(place + 1, len(values) - 1)
        if value > min(values[left], values[right]):
            continue
        for exponent in (exponents[place], _narrowed(at, exponents[left], exponents[right])):
            epsilon = max(Decimal(0), at(exponent))
            if best[0] is None or epsilon < best[0]:
                best = (epsilon, 1 + Decimal(10) ** exponent)
    return best


def _narrowed(at: Callable[[Decimal], Decimal], left: Decimal, right: Decimal) -> Decimal:
    """Find the bottom of a dip by cutting off a third at a time."""
    for _ in range(_NARROWINGS):
        third = (right - left) / 3
        if at(left + third) < at(right - third):
            right -= third
        else:
            left += third
    return (left + right) / 2


def _laplace(inverse_scale: Decimal, moves: Sequence[int], order: Decimal) -> Decimal:
    """Sum the divergence of discrete Laplace noise over its support, cell by cell.

    At a shift by d the terms exp(-t (order |x| + (1 - order) |x - d|)) are, in units of the largest, 1 at x = 0 and
    g^x up to x = d with g = exp(-(2 order - 1) t); outside, both tails are geometric with ratio r = exp(-t).
    """
    ratio, inner = (-inverse_scale).exp(), (-(2 * order - 1) * inverse_scale).exp()
    total = Decimal(0)
    for move in map(abs, moves):
        tails = (1 + (-(2 * order - 1) * inverse_scale * move).exp()) / (1 - ratio)
        terms = (tails + _between(inner, move)) * (1 - ratio) / (1 + ratio)
        total += (order - 1) * inverse_scale * move + terms.ln()
    return total / (order - 1)


def _between(inner: Decimal, move: int) -> Decimal:
    """Sum g^x over 0 < x < d: term by term, or as a geometric series where d is large."""
    if move > _SUMMED_POINTS:
        return (inner - inner**move) / (1 - inner)
    total, term = Decimal(0), Decimal(1)
    for _ in range(move - 1):
        term *= inner
        total += term
    return total


def _two_points(epsilon: Decimal, order: Decimal) -> Decimal:
    """Sum the divergence of randomized response, the worst pure step, over its two answers."""
    truth = 1 / (1 + (-epsilon).exp())
    lie = (-epsilon).exp() * truth
    # In units of exp((order - 1) epsilon): truth^order lie^(1 - order) and its mirror image.
    terms = truth + lie * (-2 * (order - 1) * epsilon).exp()
    return epsilon + terms.ln() / (order - 1)


def _steps(events: Sequence[Mapping[str, Any]]) -> list[_Step]:
    """Read the events, equal ones together."""
    if not isinstance(events, Sequence) or isinstance(events, str):
        raise NotRecomputable("events are not a list")
    counted: dict[tuple[Any, ...], int] = {}
    for event in events:
        key = _event(event)
        counted[key] = counted.get(key, 0) + 1
    return [_step(kind, parameter, moves, count) for (kind, parameter, moves), count in counted.items()]


def _step(kind: str, parameter: Fraction, moves: tuple[int, ...], count: int) -> _Step:
    """Give an event its pure loss and its curve."""
    value = Decimal(parameter.numerator) / Decimal(parameter.denominator)
    if kind == "discrete_laplace":
        return _Step(count, parameter * sum(map(abs, moves)), lambda order: _laplace(value, moves, order))
    if kind == "discrete_gaussian":
        return _Step(count, None, lambda order: order * sum(move * move for move in moves) / (2 * value))
    if kind == "pure":
        return _Step(count, parameter, lambda order: _two_points(value, order))
    return _Step(count, None, lambda order: order * value)


# kind -> (its parameter, whether it has moves)
_FORMS: Final = {
    "discrete_laplace": ("inverse_scale", True),
    "discrete_gaussian": ("sigma_squared", True),
    "pure": ("epsilon", False),
    "zero_concentrated": ("rho", False),
}


def _event(event: Mapping[str, Any]) -> tuple[str, Fraction, tuple[int, ...]]:
    """Read one event: its kind, its one parameter, its moves."""
    kind = event.get("kind") if isinstance(event, Mapping) else None
    if not isinstance(kind, str) or kind not in _FORMS:
        raise NotRecomputable(f"event kind {str(kind)[:60]!r}; allowed: {', '.join(sorted(_FORMS))}")
    name, moved = _FORMS[kind]
    if set(event) != {"kind", name, *(["moves"] if moved else [])}:
        raise NotRecomputable(f"event {kind}: fields {sorted(map(str, event))}")
    parameter = _positive(event[name], f"event {kind}: {name}")
    moves = event["moves"] if moved else ()
    if moved and (not isinstance(moves, list | tuple) or not moves or not all(map(_is_move, moves))):
        raise NotRecomputable(f"event {kind}: moves {str(moves)[:60]}; allowed: non-zero integers, at least one")
    return kind, parameter, tuple(moves)


def _is_move(move: Any) -> bool:
    """Tell whether a value is a non-zero integer of a size that counts have."""
    return isinstance(move, int) and not isinstance(move, bool) and 0 < abs(move) <= 10**9


def _positive(text: Any, what: str) -> Fraction:
    """Read a positive rational from text."""
    if not isinstance(text, str) or not _RATIONAL.fullmatch(text) or Fraction(text) == 0:
        raise NotRecomputable(f"{what} is {str(text)[:60]!r}; allowed: a positive rational such as '1/2'")
    return Fraction(text)


def _probability(text: str) -> Decimal:
    """Read delta from text."""
    if not isinstance(text, str) or not _DELTA.fullmatch(text) or not 0 <= Decimal(text) < 1:
        raise NotRecomputable(f"delta is {str(text)[:60]!r}; allowed: a number >= 0 and < 1")
    return Decimal(text)


def _calculus_order(calculus: Mapping[str, Any]) -> Decimal | None:
    """Read the calculus: its order, or None if it is pure."""
    fields = dict(calculus) if isinstance(calculus, Mapping) else {}
    if fields == {"kind": "pure"}:
        return None
    if set(fields) != {"kind", "order"} or fields["kind"] != "renyi":
        raise NotRecomputable(f"calculus {str(calculus)[:60]!r}; allowed: kind pure, or kind renyi with its order")
    order = _positive(fields["order"], "calculus: order")
    if order <= 1:
        raise NotRecomputable(f"calculus: order is {order}; allowed: above 1")
    return _decimal(order)


def _decimal(value: Fraction | None) -> Decimal | None:
    """Divide a rational out; None stays None."""
    return None if value is None else Decimal(value.numerator) / Decimal(value.denominator)
