"""The coins of a selection of keys: optimal, private in exact arithmetic, and tossed with exactly their chances."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.stats import binom

from privacy.accounting.key_selection import KeySelection, key_selection
from privacy.noise.key_coins import BITS, ONE, exponential_below, keep_chances, selected
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SeededBytes

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
    """So are amounts out of range, and negative numbers of units; nothing is drawn."""
    with pytest.raises(NoiseRefused, match="units"):
        keep_chances(Fraction(0), Fraction(1, 10**9))
    for epsilon, delta in (
        (Fraction(-1), Fraction(1, 2)),
        (Fraction(1), Fraction(0)),
        (Fraction(101), Fraction(1, 2)),
    ):
        with pytest.raises(NoiseRefused):
            keep_chances(epsilon, delta)
    source = SeededBytes(1)
    with pytest.raises(NoiseRefused):
        selected(np.array([-1]), epsilon=Fraction(1), delta=Fraction(1, 2), source=source)
    assert np.array_equal(source.take(8), SeededBytes(1).take(8))


class Scripted:
    """A source that hands out what a test says."""

    security = "seeded"

    def __init__(self, words: list[int]) -> None:
        self._bytes = b"".join(word.to_bytes(16, "big") for word in words)

    def take(self, n: int) -> NDArray[np.uint8]:
        assert n == len(self._bytes)
        return np.frombuffer(self._bytes, np.uint8).copy()


def test_a_coin_is_decided_by_the_last_of_its_bits() -> None:
    """A uniform number of 128 bits below the chance publishes, one that equals it does not."""
    epsilon, delta = Fraction(1), Fraction(1, 10**3)
    chances = keep_chances(epsilon, delta)
    for units in (1, 2, 5, len(chances) - 2):
        words = [chances[units] - 1, chances[units], chances[units] + 1]
        kept = selected(np.full(3, units), epsilon=epsilon, delta=delta, source=Scripted(words))  # type: ignore[arg-type]
        assert kept.tolist() == [True, False, False]
    sure, most = len(chances) - 1, ONE - 1
    units = np.array([0, sure, sure + 10**6])
    kept = selected(units, epsilon=epsilon, delta=delta, source=Scripted([0, most, most]))  # type: ignore[arg-type]
    assert kept.tolist() == [False, True, True]
    assert BITS == 128


def test_coins_fall_as_often_as_they_should() -> None:
    """stat: 200,000 keys of each of five sizes; two-sided binomial tests, false alarm 1e-9 each.

    The same number of published keys is no plausible one for a chance of 10 % more.
    """
    epsilon, delta, keys = Fraction(1, 2), Fraction(1, 100), 200_000
    chances = keep_chances(epsilon, delta)
    source = SeededBytes(20)
    for units in (2, 4, 6, 8, 10):
        chance = chances[units] / ONE
        kept = int(selected(np.full(keys, units), epsilon=epsilon, delta=delta, source=source).sum())
        assert _plausible(kept, keys, chance)
        assert not _plausible(kept, keys, min(0.999, 1.1 * chance))


def _plausible(kept: int, keys: int, chance: float) -> bool:
    return bool(min(binom.cdf(kept, keys, chance), binom.sf(kept - 1, keys, chance)) >= 0.5e-9)


@pytest.mark.parametrize("groups", [1, 3, 10, 100])
def test_the_planned_split_publishes_more_than_an_even_one(groups: int) -> None:
    """At no number of units less; of one unit by about (groups - 1) / (2 groups) times delta, relative."""
    planned = key_selection(Fraction(1), 10**15, groups)
    even = KeySelection(Fraction(1, groups), Fraction(1, 1000 * groups), groups)
    ours, theirs = (keep_chances(event.epsilon, event.delta) for event in (planned, even))
    assert len(ours) <= len(theirs)
    assert all(one >= other for one, other in zip(ours, theirs, strict=False))
    assert math.isclose(ours[1] / theirs[1] - 1, (groups - 1) / (2 * groups) * 1e-3, rel_tol=0.1, abs_tol=1e-15)
