"""The optimal rule of a selection of keys: optimal by a second computation, and private in exact arithmetic."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import pytest
from mpmath import mp, mpf

from privacy.accounting import key_law as module
from privacy.accounting.amounts import AmountRefused
from privacy.accounting.events import KeySelection, key_selection
from privacy.accounting.key_law import ONE, exponential_below, keep_chances

PAIRS = [
    (Fraction(1), Fraction(1, 10**8)),
    (Fraction(1, 10), Fraction(1, 10**12)),
    (Fraction(1, 1000), Fraction(1, 10**6)),
    (Fraction(5), Fraction(1, 3)),
    (Fraction(99), Fraction(1, 10**30)),
    (Fraction(0), Fraction(1, 7)),
    (Fraction(1, 3), Fraction(123456789, 10**36)),
]
BOUNDS = Context(prec=120)


def above(epsilon: Fraction) -> Fraction:
    """An upper bound of exp(epsilon), by another library."""
    value = BOUNDS.exp(BOUNDS.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    return Fraction(Context(prec=110, rounding=ROUND_CEILING).next_plus(value))


def optimum(epsilon: Fraction, delta: Fraction, units: int) -> mpf:
    """Compute the largest chance by the paper's closed form, in 60 digits.

    With n1 = 1 + floor(log((exp(e) + 2 d - 1) / ((exp(e) + 1) d)) / e), for n <= n1 it is
        d (exp(n e) - 1) / (exp(e) - 1),
    and after that, with m = n - n1, and at most 1,
        (1 - exp(-m e)) (1 + d / (exp(e) - 1)) + exp(-m e) p(n1).
    """
    with mp.workdps(60):
        e, d = mpf(epsilon.numerator) / epsilon.denominator, mpf(delta.numerator) / delta.denominator
        if not epsilon:
            return min(mpf(1), units * d)
        crossing = 1 + int(mp.floor(mp.log((mp.exp(e) + 2 * d - 1) / ((mp.exp(e) + 1) * d)) / e))

        def rising(n: int) -> mpf:
            return mp.expm1(n * e) / mp.expm1(e) * d

        if units <= crossing:
            return min(mpf(1), rising(units))
        rest = mp.exp(-(units - crossing) * e)
        return min(mpf(1), (1 - rest) * (1 + d / mp.expm1(e)) + rest * rising(crossing))


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_the_chances_are_the_optimum(epsilon: Fraction, delta: Fraction) -> None:
    """Of every number of units: never above the paper's closed form, and less than 2^-126 / delta of it below."""
    for units, chance in enumerate(keep_chances(epsilon, delta)):
        with mp.workdps(60):
            exact, ours = optimum(epsilon, delta, units), mpf(chance) / ONE
            assert ours <= exact * (1 + mpf(10) ** -50)
            assert exact - ours <= exact * delta.denominator / delta.numerator * mpf(2) ** -126


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_neighbouring_chances_keep_epsilon_and_delta_exactly(epsilon: Fraction, delta: Fraction) -> None:
    """Both outcomes, both directions, in rationals: a lower bound of exp(epsilon) would do for the inequalities."""
    growth = Fraction(exponential_below(epsilon), 2**192)
    assert growth <= above(epsilon)
    assert above(epsilon) - growth <= above(epsilon) / 2**170
    chances = [Fraction(chance, ONE) for chance in keep_chances(epsilon, delta)]
    assert (chances[0], chances[-1]) == (0, 1)
    for one, other in zip(chances, [*chances[1:], Fraction(1)], strict=True):
        assert one <= other
        assert other <= growth * one + delta
        assert 1 - one <= growth * (1 - other) + delta


def test_a_chance_that_is_one_unit_larger_is_not_private() -> None:
    """The check above can fail: raised by 10^-20 of it, the chance of two units breaks a bound."""
    epsilon, delta = PAIRS[0]
    _, first, second, *_ = (Fraction(chance, ONE) for chance in keep_chances(epsilon, delta))
    assert second * (1 + Fraction(1, 10**20)) > above(epsilon) * first + delta


def test_chances_that_never_reach_one_in_reason_are_refused() -> None:
    """So are amounts out of range."""
    with pytest.raises(AmountRefused, match="units"):
        keep_chances(Fraction(0), Fraction(1, 10**9))
    for epsilon, delta in (
        (Fraction(-1), Fraction(1, 2)),
        (Fraction(1), Fraction(0)),
        (Fraction(101), Fraction(1, 2)),
    ):
        with pytest.raises(AmountRefused):
            keep_chances(epsilon, delta)


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 10**5), Fraction(1, 100), Fraction(1, 2)])
def test_what_is_refused_at_once_would_be_refused_at_the_last_unit(
    epsilon: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 300 units: each power of ten that is refused at once is refused by the chances themselves; some are."""
    monkeypatch.setattr(module, "MOST_UNITS", 300)
    deltas = [Fraction(1, 10**power) for power in range(1, 100)]
    refused_at_once = [delta for delta in deltas if module._far_below_one(float(epsilon), float(delta))]
    assert 0 < len(refused_at_once) < len(deltas)
    monkeypatch.setattr(module, "_far_below_one", lambda epsilon, delta: False)
    for delta in refused_at_once:
        with pytest.raises(AmountRefused, match="300 units"):
            keep_chances.__wrapped__(epsilon, delta)


@pytest.mark.parametrize("groups", [1, 3, 10, 100])
def test_the_planned_split_publishes_more_than_an_even_one(groups: int) -> None:
    """At no number of units less; of one unit by about (groups - 1) / (2 groups) times delta, relative."""
    planned = key_selection(Fraction(1), 10**15, groups)
    even = KeySelection(Fraction(1, groups), Fraction(1, 1000 * groups), groups)
    ours, theirs = (keep_chances(event.epsilon, event.delta) for event in (planned, even))
    assert len(ours) <= len(theirs)
    assert all(one >= other for one, other in zip(ours, theirs, strict=False))
    assert math.isclose(ours[1] / theirs[1] - 1, (groups - 1) / (2 * groups) * 1e-3, rel_tol=0.1, abs_tol=1e-15)
