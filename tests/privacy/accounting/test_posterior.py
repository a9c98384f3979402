"""What can be learned at most: against sums over the noise, the worst mechanism, every change of an attribute."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from privacy.accounting.amounts import ATTO, PICO, loss_up
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.accounting.posterior import (
    PRIORS,
    MarginalNoise,
    epsilon_of_attribute,
    exceptions,
    largest_posterior,
    loss_about_a_row,
    odds_bound,
    right_of_100,
)
from tasks.verification.recompute.loss import recompute

SHAPE = {"a": 3, "b": 2, "c": 2}
TABLES: dict[tuple[str, ...], Fraction] = {
    ("a",): Fraction(1, 4),
    ("a", "b"): Fraction(1, 3),
    ("b", "c"): Fraction(1, 7),
    (): Fraction(1, 50),
}


def percent(text: str) -> float:
    return 100.0 if text == "almost 100 %" else float(text.removesuffix(" %"))


def marginal(rows: list[tuple[int, ...]], clique: tuple[str, ...]) -> Counter[tuple[int, ...]]:
    places = [list(SHAPE).index(name) for name in clique]
    return Counter(tuple(row[place] for place in places) for row in rows)


def worst_ratio(column: str, rows_per_unit: int) -> Fraction:
    """The largest log ratio of the noisy tables' probabilities, over every unit and every other value of a column. A
    discrete Laplace's log ratio between two counts is at most t times their distance, and reaches it in the tail, in
    every cell at once: so the sum over the cells of all tables is the supremum, exactly."""
    rows = list(itertools.product(*map(range, SHAPE.values())))
    place, worst = list(SHAPE).index(column), Fraction(0)
    for unit in itertools.combinations_with_replacement(rows, rows_per_unit):
        for values in itertools.product(range(SHAPE[column]), repeat=rows_per_unit):
            other = [(*row[:place], value, *row[place + 1 :]) for row, value in zip(unit, values, strict=True)]
            loss = Fraction(0)
            for clique, inverse in TABLES.items():
                before, after = marginal(list(unit), clique), marginal(other, clique)
                loss += inverse * sum(abs(before[cell] - after[cell]) for cell in {*before, *after})
            worst = max(worst, loss)
    return worst


@pytest.mark.parametrize("rows_per_unit", [1, 2])
@pytest.mark.parametrize("column", ["a", "b", "c"])
def test_the_loss_about_a_column_is_that_of_the_worst_other_value(column: str, rows_per_unit: int):
    """Every unit of one or two rows, every other value: the bound holds, and some unit reaches it."""
    events: list[MarginalNoise] = [
        DiscreteLaplace(inverse, (rows_per_unit,)) for clique, inverse in TABLES.items() if column in clique
    ]
    bound = epsilon_of_attribute(events, rows_per_unit=rows_per_unit, delta=0)
    assert bound == loss_up(worst_ratio(column, rows_per_unit))
    too_little = sum(
        (event.inverse_scale * rows_per_unit for event in events if isinstance(event, DiscreteLaplace)), Fraction(0)
    )
    assert loss_up(too_little) < bound  # the moves of add_remove, taken as they are, would promise too much


def test_a_column_that_no_draw_counts_is_not_told_of():
    """No event, no loss, no exception: the belief stays what it was."""
    assert epsilon_of_attribute([], rows_per_unit=3, delta=10**9) == 0
    assert [largest_posterior(prior, odds_bound(0, 10**9)) for prior in PRIORS] == ["1 %", "10 %", "50 %"]
    assert exceptions(0, 10**9) == 0


def test_gaussian_draws_of_a_column_are_composed_at_the_release_s_delta():
    """By the auditor's decimals, which share nothing with it: two draws of sigma² 9 and 16, k = 2, delta = 1e-8."""
    events: list[MarginalNoise] = [DiscreteGaussian(Fraction(9), (2,)), DiscreteGaussian(Fraction(16), (2,))]
    found = epsilon_of_attribute(events, rows_per_unit=2, delta=ATTO // 10**8)
    rho = Fraction(8) / 18 + Fraction(8) / 32
    best = recompute([{"kind": "zero_concentrated", "rho": str(rho)}], "1e-8", {"kind": "pure"}).epsilon_best
    assert best is not None
    assert float(best) * (1 - 1e-9) <= found / PICO <= float(best) * (1 + 1e-7)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0])
def test_the_belief_is_the_one_that_the_noise_leads_to(epsilon: float):
    """Bayes' rule over the support of discrete Laplace noise on a count of 0 or 1: the largest belief, to digits."""
    support = np.arange(-200, 201)
    noise = np.exp(-np.abs(support) * epsilon)
    for prior in PRIORS:
        with_unit, without = np.roll(noise, 1), noise
        p = float(prior)
        belief = (p * with_unit / (p * with_unit + (1 - p) * without))[1:].max()
        told = percent(largest_posterior(prior, odds_bound(loss_up(Fraction(epsilon)), 0)))
        assert 100 * belief * (1 - 1e-9) <= told <= 100 * belief + 0.1 * belief


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-3), (1.0, 1e-5), (3.0, 0.02)])
def test_no_mechanism_exceeds_the_belief_more_often_than_stated(epsilon: float, delta: float):
    """The mechanism that every (epsilon, delta) mechanism follows from, and one that spreads delta thin. Four
    outcomes (Kairouz, Oh, Viswanath 2015) reveal the truth with probability delta, and elsewhere stay below
    e^epsilon. The worst for a threshold c e^epsilon has a ratio just above it with probability delta / (1 - 1/c)."""
    bound = float(odds_bound(loss_up(Fraction(epsilon)), 1))
    allowed = exceptions(PICO, int(delta * ATTO)) / ATTO
    revealing = delta
    assert revealing <= allowed
    for excess in (1.0001, 1.2, 3.0):
        ratio = bound * excess
        mass = delta / (1 - math.exp(epsilon) / ratio)  # f(B) = ratio Q(B) and f(B) - e^epsilon Q(B) = delta
        assert mass <= allowed * (1 + 1e-9)
    below = math.exp(epsilon) * 1.05  # a bound that is too close to e^epsilon is exceeded more often than stated
    assert delta / (1 - math.exp(epsilon) / below) > allowed


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.0), (0.1, 0.0), (1.0, 0.0), (1.0, 0.3), (3.0, 0.02), (12.0, 0.0)]
)
def test_a_guess_is_right_as_often_as_the_worst_mechanism_lets_it(epsilon: float, delta: float):
    """It shows the truth with probability delta, and else answers by randomized response; no guess of it does better.
    The best guess takes, of each outcome, the hypothesis under which it is likelier. Less than the bound is
    broken."""
    tell = math.exp(epsilon) / (1 + math.exp(epsilon))
    one = np.array([delta, 0, (1 - delta) * tell, (1 - delta) * (1 - tell)])
    other = one[[1, 0, 3, 2]]
    right = 50 * np.maximum(one, other).sum()
    told = right_of_100(round(epsilon * PICO), round(delta * ATTO))
    assert told - 1 < right * (1 + 1e-9)
    assert right <= told * (1 + 1e-9)
    assert told == min(100, math.ceil(right - 1e-7))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-3), (1.0, 1e-4), (3.0, 1e-5)])
@pytest.mark.parametrize("weight", [0.0, 0.01, 0.3, 0.9])
def test_a_third_hypothesis_that_is_true_has_no_more_exceptions(epsilon: float, delta: float, weight: float):
    """Linear programming over the masses of B under three laws: the true third one reaches 10 delta, never more.
    Where the third is a neighbour of the first alone, and not of the second, it would reach (10 e^epsilon + 1)
    delta."""
    stated = exceptions(loss_up(Fraction(epsilon)), int(delta * ATTO)) / ATTO
    bound = float(odds_bound(loss_up(Fraction(epsilon)), 1))
    reached = most_exceptions(epsilon, delta, bound, weight, neighbours=((0, 1), (0, 2), (1, 2)))
    assert reached <= (10 - weight) * delta / (1 + weight * math.expm1(epsilon)) * (1 + 1e-9) <= stated * (1 + 2e-9)
    if weight == 0:
        assert reached == pytest.approx(stated, rel=1e-6)
        star = most_exceptions(epsilon, delta, bound, weight, neighbours=((0, 1), (0, 2)))
        assert star == pytest.approx((10 * math.exp(epsilon) + 1) * delta, rel=1e-6)


def most_exceptions(
    epsilon: float, delta: float, bound: float, weight: float, *, neighbours: tuple[tuple[int, int], ...]
) -> float:
    """The largest mass of B under the third law, where B is a set in which odds of the first rise to the bound."""
    growth, rows, limits = math.exp(epsilon), [], []
    for pair in neighbours:
        for one, other in (pair, pair[::-1]):
            rows.append([float(place == one) - growth * (place == other) for place in range(3)])
            limits.append(delta)
            rows.append([growth * (place == other) - float(place == one) for place in range(3)])
            limits.append(delta + growth - 1)
    rows.append([-1.0, bound * (1 - weight), bound * weight])
    limits.append(0.0)
    solved = linprog([0, 0, -1], A_ub=np.array(rows), b_ub=np.array(limits), bounds=[(0, 1)] * 3)
    assert solved.success
    return float(-solved.fun)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-2])
def test_another_row_of_somebody_in_the_table_costs_two_steps(epsilon: float, delta: float):
    """One removed, another added: the worst (epsilon, delta) mechanism, twice in a chain, against the stated loss.
    Along the chain the laws are reached: from the table with a row to the one without to the one with another row."""
    loss = loss_about_a_row(loss_up(Fraction(epsilon)), int(delta * ATTO), adjacency="add_remove")
    assert loss.epsilon == 2 * loss_up(Fraction(epsilon))
    assert loss.delta / ATTO >= delta * (1 + math.exp(epsilon)) * (1 - 1e-9)
    noise = np.exp(-np.abs(np.arange(-300, 301)) * epsilon) * math.tanh(epsilon / 2)
    one, other = (
        np.outer(np.roll(noise, 1), noise),
        np.outer(noise, np.roll(noise, 1)),
    )  # the row counts in either cell
    beyond = np.maximum(one - math.exp(loss.epsilon / PICO) * other, 0).sum()
    assert beyond <= loss.delta / ATTO + 1e-12
    assert np.maximum(one - math.exp(1.9 * epsilon) * other, 0).sum() > 1e-3 * min(epsilon, 1)  # not less than two
    assert loss_about_a_row(5, 7, adjacency="replace_one") == (5, 7)


@pytest.mark.parametrize(
    ("prior", "epsilon", "told"),
    [
        (Fraction(1, 2), 0.0, "50 %"),
        (Fraction(1, 2), 1.0, "73.11 %"),  # 0.731058…
        (Fraction(1, 100), 1.0, "2.673 %"),  # 0.026727…
        (Fraction(1, 2), 10.0, "99.9955 %"),  # 1 - 4.5398e-5
        (Fraction(1, 2), 1000.0, "almost 100 %"),
    ],
)
def test_beliefs_are_rounded_up_and_never_certain(prior: Fraction, epsilon: float, told: str):
    """Four digits; near certainty, two digits of what is missing, rounded down."""
    assert largest_posterior(prior, odds_bound(int(epsilon * PICO), 0)) == told
