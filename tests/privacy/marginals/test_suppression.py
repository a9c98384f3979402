"""The minimum-frequency rule: tails against sums of the mass in fifty digits, thresholds, simulated shares."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm

from contracts.release.tables.tables import MinimumFrequency
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.marginals.count_noise import WIDEST_TABLE, least_margin, mean_above, tail
from privacy.marginals.suppression import Threshold, effect, published_below, rule_statement, threshold_for
from privacy.noise.random_bytes import SeededBytes
from tests.privacy.noise.noise_statistics import noise_of

EVENTS: list[CountNoise] = [
    DiscreteLaplace(Fraction(1, 10), (1,)),
    DiscreteLaplace(Fraction(3), (1,)),
    DiscreteGaussian(Fraction(1, 4), (1,)),
    DiscreteGaussian(Fraction(81), (1,)),
]


def mass(event: CountNoise, reach: int) -> dict[int, Decimal]:
    with localcontext() as context:
        context.prec = 50
        if isinstance(event, DiscreteLaplace):
            rate = Decimal(event.inverse_scale.numerator) / event.inverse_scale.denominator
            weights = {x: (-rate * abs(x)).exp() for x in range(-reach, reach + 1)}
        else:
            spread = 2 * Decimal(event.sigma_squared.numerator) / event.sigma_squared.denominator
            weights = {x: (-(x * x) / spread).exp() for x in range(-reach, reach + 1)}
        total = sum(weights.values())
        return {x: weight / total for x, weight in weights.items()}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("least", [-30, -3, 0, 1, 2, 11, 60])
def test_tails_and_means_are_the_sums_of_the_mass(event: CountNoise, least: int):
    masses = mass(event, 1500 if isinstance(event, DiscreteLaplace) else 400)
    above = sum((p for x, p in masses.items() if x >= least), Decimal(0))
    assert tail(event, least) == pytest.approx(float(above), rel=1e-9, abs=1e-300)
    if above > Decimal("1e-290"):
        mean = sum((x * p for x, p in masses.items() if x >= least), Decimal(0)) / above
        assert mean_above(event, least) == pytest.approx(float(mean), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("least", [1, 40_000, 10**5, 3 * 10**5])
def test_wide_gaussian_noise_is_bounded_from_above_and_closely(least: int):
    """Just below and above the width at which the table ends: the bound is above the sum, and near."""
    summed = DiscreteGaussian(Fraction(WIDEST_TABLE**2), (1,))
    bounded = DiscreteGaussian(Fraction(WIDEST_TABLE**2) + Fraction(1, 10**6), (1,))
    assert tail(bounded, least) >= tail(summed, least)
    assert tail(bounded, least) == pytest.approx(tail(summed, least), rel=1e-4)
    assert tail(bounded, least) == pytest.approx(float(norm.sf(least / WIDEST_TABLE)), rel=1e-4)
    assert mean_above(bounded, least) == pytest.approx(mean_above(summed, least), rel=1e-3)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("at_most", ["0.4", "0.01", "1e-6"])
def test_auto_is_the_least_margin_that_keeps_the_bound(event: CountNoise, at_most: str):
    terms = MinimumFrequency(k=10, t="auto", at_most=Decimal(at_most))
    threshold = threshold_for(terms, event)
    assert threshold.t == least_margin(event, float(at_most))
    assert tail(event, threshold.t + 1) <= float(at_most)
    assert threshold.t == 0 or tail(event, threshold.t) > float(at_most)
    assert Decimal(published_below(threshold, event)) <= Decimal(at_most)


def test_the_stated_probability_is_rounded_up():
    event = DiscreteLaplace(Fraction(1, 10), (1,))
    exact = sum(p for x, p in mass(event, 3000).items() if x >= 8)
    stated = Decimal(published_below(Threshold(10, 7), event))
    assert exact < stated < exact * Decimal("1.00002")


def test_a_written_margin_is_taken_as_it_is():
    assert threshold_for(MinimumFrequency(k=3, t=5), EVENTS[0]) == Threshold(3, 5)


def test_what_lies_below_the_threshold_cannot_be_told_apart():
    noisy = np.array([[-5, 0, 13], [14, 15, 400]])
    threshold = Threshold(10, 5)
    assert threshold.censored(noisy).tolist() == [[14, 14, 14], [14, 15, 400]]
    assert threshold.suppressed(threshold.censored(noisy)).tolist() == [[True, True, True], [True, False, False]]


@pytest.mark.stat
@pytest.mark.parametrize("event", [EVENTS[0], EVENTS[3]])
def test_cells_are_suppressed_and_biased_as_often_as_it_is_told(event: CountNoise):
    """n = 200,000 draws for each of seven exact counts, of each of two noises. A share has a standard error of at
    most 0.00112: eight of them are 0.009, false alarm below 2e-15 each. A mean of noise whose standard deviation is
    at most 14.2 has one of at most 0.21 where a fortieth of the draws is published: eight of them are 1.7. The wrong
    case, a threshold that is one too low, moves the share at the threshold by 0.04."""
    n, threshold = 200_000, Threshold(10, 12)
    source = SeededBytes(17)
    for row in effect(threshold, event):
        noise = noise_of(event, n, source=source)
        censored = threshold.censored(row["exact"] + noise)
        gone = threshold.suppressed(censored)
        assert gone.mean() == pytest.approx(float(row["suppressed"]), abs=0.009)
        if (~gone).mean() > 0.025:
            bias = float((censored[~gone] - row["exact"]).mean())
            assert bias == pytest.approx(float(row["bias_if_published"]), abs=1.7)
        if row["exact"] == threshold.value:
            wrong = Threshold(10, 11)
            assert wrong.suppressed(wrong.censored(row["exact"] + noise)).mean() != pytest.approx(
                float(row["suppressed"]), abs=0.009
            )


def test_the_record_s_words_have_the_numbers():
    told = rule_statement(MinimumFrequency(k=10, t="auto", at_most=Decimal("0.01")), EVENTS[0])
    assert (told["k"], told["t"], told["threshold"]) == (10, 39, 49)
    assert [row["exact"] for row in told["effect"]] == [0, 1, 9, 10, 49, 98, 196]
    shares = [float(row["suppressed"]) for row in told["effect"]]
    assert shares == sorted(shares, reverse=True)
    assert shares[2] == pytest.approx(1 - float(told["published_although_below_k"]), rel=1e-4)


@pytest.mark.parametrize("at_most", [0.0, 1.0, -0.1])
def test_a_bound_that_is_no_probability_is_refused(at_most: float):
    with pytest.raises(ValueError, match="at_most"):
        least_margin(EVENTS[0], at_most)
