"""What right guesses of coins prove: against mechanisms whose law of right guesses is known exactly."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from scipy.stats import binom

from privacy.games.coin_guesses import allowed_advantage, chance_of, chance_over, least_epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomized_response_has_right_guesses_as_often_as_the_bound_says(epsilon: float) -> None:
    """Its guesses are right with chance e^eps / (1 + e^eps) each: the bound is its own tail, number by number."""
    chance = exp(epsilon) / (1 + exp(epsilon))
    for right in range(81):
        tail = sum(binom.pmf(k, 80, chance) for k in range(right, 81))
        assert chance_of(right, 80, coins=80, epsilon=epsilon, delta=0.0) == pytest.approx(tail, abs=1e-12)


@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.02])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_mechanism_that_tells_a_coin_with_chance_delta_stays_below_the_bound(epsilon: float, delta: float) -> None:
    """Each coin is told outright with chance delta, else by randomized response: it is (eps, delta)-DP."""
    chance = delta + (1 - delta) * exp(epsilon) / (1 + exp(epsilon))
    for right in range(61):
        bound = chance_of(right, 60, coins=60, epsilon=epsilon, delta=delta)
        assert binom.sf(right - 1, 60, chance) <= bound + 1e-12


def test_a_claim_of_half_the_epsilon_is_refuted_by_many_guesses() -> None:
    """Randomized response of epsilon 2, of which 1 is claimed: of 500 guesses 440 are right on average."""
    right = round(500 * exp(2) / (1 + exp(2)))
    assert chance_of(right, 500, coins=500, epsilon=1.0, delta=1e-9) < 1e-7
    assert chance_of(right, 500, coins=500, epsilon=2.0, delta=1e-9) > 0.3


def test_the_least_epsilon_is_where_the_chance_is_what_may_be_unsure() -> None:
    for delta in (0.0, 1e-6):
        found = least_epsilon([450], [500], coins=2000, delta=delta, unsure=0.05)
        assert chance_of(450, 500, coins=2000, epsilon=found, delta=delta) == pytest.approx(0.05, rel=1e-2)
        assert 1.5 < found < 2.2
    assert least_epsilon([250], [500], coins=500, delta=0.0, unsure=0.05) == 0
    assert least_epsilon([0], [0], coins=500, delta=0.0, unsure=0.05) == 0


@pytest.mark.parametrize("delta", [1e-4, 1e-2])
def test_a_mechanism_that_tells_a_whole_release_with_chance_delta_is_seldom_refuted(delta: float) -> None:
    """With chance delta a release tells all of its 40 coins, else each by randomized response: (1, delta)-DP. 800
    times six releases, from a fixed seed: a bound at or below a chance comes no more often than that chance, within
    five deviations of a share (false alarm over seeds < 1e-6)."""
    random, coins = np.random.default_rng(1), 40
    full = random.random((800, 6)) < delta
    right = np.where(full, coins, random.binomial(coins, exp(1) / (1 + exp(1)), full.shape))
    guesses = [coins] * 6
    bounds = np.array([chance_over(each, guesses, coins=coins, epsilon=1.0, delta=delta) for each in right.tolist()])
    for said in (0.5, 0.1, 0.01):
        assert (bounds <= said).mean() <= said + 5 * (said * (1 - said) / 800) ** 0.5


def test_several_releases_refute_what_one_cannot_where_delta_is_not_small() -> None:
    """All coins of eight releases are told, at delta 1e-5."""
    right = [300] * 8
    assert chance_of(2400, 2400, coins=2400, epsilon=1.0, delta=1e-5) > 1e-5
    assert chance_over(right, right, coins=300, epsilon=1.0, delta=1e-5) < 1e-12
    assert chance_over([300], [300], coins=300, epsilon=1.0, delta=1e-5) > 1e-6


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-5), (2.0, 0.1), (800.0, 0.0)])
def test_the_allowed_advantage_is_the_largest_on_the_trade_off_curve(epsilon: float, delta: float) -> None:
    """The curve f(x) = max(0, 1 - delta - e^eps x, e^-eps (1 - delta - x)), at 200,001 points and at its corner."""
    grown = exp(min(epsilon, 700))
    corner = (1 - delta) / (1 + grown)
    rates = np.append(np.linspace(0, 1, 200_001), corner)
    misses = np.maximum(0, np.maximum(1 - delta - grown * rates, (1 - delta - rates) / grown))
    assert allowed_advantage(epsilon, delta) == pytest.approx(float((1 - misses - rates).max()), abs=1e-9)
