"""What right guesses prove, of coins and of a whole curve: against a linear program, and mechanisms of known law."""

from math import exp, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import binom, norm

from privacy.games.coin_guesses import allowed_advantage, chance_of, chance_over, least_epsilon
from privacy.games.one_run import chance_under, gaussian_deltas, least_shift

LOSSES = np.linspace(-4, 4, 33)


def program(right: int, guesses: int, coins: int, losses: NDArray[np.float64], deltas: NDArray[np.float64]) -> float:
    """The largest chance of `right` or more by linear programming: every inequality, every epsilon of the claim."""
    number = np.arange(guesses + 1)
    rows, most = [], []
    for least in range(1, guesses + 1):
        hits = np.where(number >= least, number, 0) / coins
        misses = np.where(number >= least - 1, guesses - number, 0) / coins
        rows += [hits - exp(loss) * misses for loss in losses]
        most += list(deltas)
    found = linprog(-(number >= right).astype(float), rows, most, np.ones((1, guesses + 1)), [1.0], bounds=(0, None))
    return float(-found.fun)


@pytest.mark.parametrize(("right", "guesses", "coins"), [(6, 6, 12), (8, 10, 10), (11, 12, 30), (7, 12, 20)])
@pytest.mark.parametrize("shift", [0.3, 1.0])
def test_the_bound_is_the_optimum_of_the_linear_program(right: int, guesses: int, coins: int, shift: float):
    deltas = gaussian_deltas(shift, LOSSES)
    bound = chance_under(right, guesses, coins=coins, losses=LOSSES, deltas=deltas)
    assert bound == pytest.approx(program(right, guesses, coins, LOSSES, deltas), rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_randomized_response_is_never_above_the_bound(epsilon: float):
    """Its right guesses are binomial, and it is a case of the claim."""
    losses = np.array([-epsilon, epsilon])
    deltas = np.array([1 - exp(-epsilon), 0.0])
    chance = 1 / (1 + exp(-epsilon))
    for right in range(41):
        bound = chance_under(right, 40, coins=40, losses=losses, deltas=deltas)
        assert binom.sf(right - 1, 40, chance) <= bound + 1e-9


@pytest.mark.long
def test_a_claim_that_holds_is_seldom_refuted_and_twice_the_claim_is_proven():
    """400 runs of 300 coins under Gaussian noise of shift 1; from a fixed seed, within five deviations of a share."""
    random, coins, each = np.random.default_rng(1), 300, 30
    rights = []
    for _ in range(400):
        signs = random.choice([-1, 1], coins)
        order = np.argsort(signs / 2 + random.normal(size=coins))
        rights.append(int((signs[order[-each:]] > 0).sum() + (signs[order[:each]] < 0).sum()))
    proven = {right: least_shift(right, 2 * each, coins=coins, unsure=0.05) for right in set(rights)}
    shifts = [proven[right] for right in rights]
    assert np.mean(np.array(shifts) > 1) < 0.05 + 5 * sqrt(0.05 * 0.95 / 400)
    assert np.median(shifts) > 0.3


def test_a_mechanism_that_tells_all_coins_with_a_chance_is_below_the_bound():
    """With chance delta all coins are told, else none: (0, delta)-private, and the worst that dependence can do."""
    delta = 1e-3
    losses = np.array([0.0])
    bound = chance_under(20, 20, coins=20, losses=losses, deltas=np.array([delta]))
    assert delta <= bound < 50 * delta


def test_a_whole_curve_proves_more_than_one_epsilon_and_delta_of_it():
    """950 of 1,000 guesses of 10,000 coins; the claim is a shift of 1, and its epsilon at delta 1e-5."""
    deltas = gaussian_deltas(1.0, LOSSES)
    epsilon = float(
        np.interp(-np.log(1e-5), -np.log(gaussian_deltas(1.0, np.linspace(0, 6, 601))), np.linspace(0, 6, 601))
    )
    whole = chance_under(950, 1000, coins=10_000, losses=LOSSES, deltas=deltas)
    assert whole < chance_of(950, 1000, coins=10_000, epsilon=epsilon, delta=1e-5)


def test_the_deltas_are_those_of_two_normal_laws():
    """Integrated on a grid, for losses of either sign."""
    points = np.linspace(-12, 12, 200_001)
    for loss in (-1.0, 0.0, 2.0):
        over = np.maximum(norm.pdf(points, 0.8) - exp(loss) * norm.pdf(points), 0)
        assert float(gaussian_deltas(0.8, np.array([loss]))[0]) == pytest.approx(
            float(over.sum() * (points[1] - points[0])), abs=1e-7
        )


def test_nothing_is_proven_by_guesses_that_are_half_right():
    assert least_shift(50, 100, coins=1000, unsure=0.001) == 0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomized_response_has_right_guesses_as_often_as_the_bound_says(epsilon: float):
    """Its guesses are right with chance e^eps / (1 + e^eps) each: the bound is its own tail, number by number."""
    chance = exp(epsilon) / (1 + exp(epsilon))
    for right in range(81):
        tail = sum(binom.pmf(k, 80, chance) for k in range(right, 81))
        assert chance_of(right, 80, coins=80, epsilon=epsilon, delta=0.0) == pytest.approx(tail, abs=1e-12)


@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.02])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_mechanism_that_tells_a_coin_with_chance_delta_stays_below_the_bound(epsilon: float, delta: float):
    """Each coin is told outright with chance delta, else by randomized response: it is (eps, delta)-DP."""
    chance = delta + (1 - delta) * exp(epsilon) / (1 + exp(epsilon))
    for right in range(61):
        bound = chance_of(right, 60, coins=60, epsilon=epsilon, delta=delta)
        assert binom.sf(right - 1, 60, chance) <= bound + 1e-12


def test_a_claim_of_half_the_epsilon_is_refuted_by_many_guesses():
    """Randomized response of epsilon 2, of which 1 is claimed: of 500 guesses 440 are right on average."""
    right = round(500 * exp(2) / (1 + exp(2)))
    assert chance_of(right, 500, coins=500, epsilon=1.0, delta=1e-9) < 1e-7
    assert chance_of(right, 500, coins=500, epsilon=2.0, delta=1e-9) > 0.3


def test_the_least_epsilon_is_where_the_chance_is_what_may_be_unsure():
    for delta in (0.0, 1e-6):
        found = least_epsilon([450], [500], coins=2000, delta=delta, unsure=0.05)
        assert chance_of(450, 500, coins=2000, epsilon=found, delta=delta) == pytest.approx(0.05, rel=1e-2)
        assert 1.5 < found < 2.2
    assert least_epsilon([250], [500], coins=500, delta=0.0, unsure=0.05) == 0
    assert least_epsilon([0], [0], coins=500, delta=0.0, unsure=0.05) == 0


@pytest.mark.parametrize("delta", [1e-4, 1e-2])
def test_a_mechanism_that_tells_a_whole_release_with_chance_delta_is_seldom_refuted(delta: float):
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


def test_several_releases_refute_what_one_cannot_where_delta_is_not_small():
    """All coins of eight releases are told, at delta 1e-5."""
    right = [300] * 8
    assert chance_of(2400, 2400, coins=2400, epsilon=1.0, delta=1e-5) > 1e-5
    assert chance_over(right, right, coins=300, epsilon=1.0, delta=1e-5) < 1e-12
    assert chance_over([300], [300], coins=300, epsilon=1.0, delta=1e-5) > 1e-6


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-5), (2.0, 0.1), (800.0, 0.0)])
def test_the_allowed_advantage_is_the_largest_on_the_trade_off_curve(epsilon: float, delta: float):
    """The curve f(x) = max(0, 1 - delta - e^eps x, e^-eps (1 - delta - x)), at 200,001 points and at its corner."""
    grown = exp(min(epsilon, 700))
    corner = (1 - delta) / (1 + grown)
    rates = np.append(np.linspace(0, 1, 200_001), corner)
    misses = np.maximum(0, np.maximum(1 - delta - grown * rates, (1 - delta - rates) / grown))
    assert allowed_advantage(epsilon, delta) == pytest.approx(float((1 - misses - rates).max()), abs=1e-9)
