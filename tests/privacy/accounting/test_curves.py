"""Curves of events, the exponential mechanism's too: against two-point pairs, in 80 digits, and themselves."""

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace, ExponentialMechanism, Pure, ZeroConcentrated
from privacy.accounting.renyi import RELATIVE_MARGIN, bounded_range_divergence, pure_loss, pure_total, renyi

ORDERS = (1.001, 1.5, 2.0, 12.6, 64.0)
INVERSE_SCALES = (Fraction(1, 4), Fraction(1), Fraction(7, 2))
SLACK = 3 * RELATIVE_MARGIN


def laplace(inverse_scale: Fraction | float, *moves: int) -> DiscreteLaplace:
    return DiscreteLaplace(Fraction(inverse_scale), moves)


def decimal(value: Fraction | float) -> Decimal:
    exact = Fraction(value)
    return Decimal(exact.numerator) / Decimal(exact.denominator)


@cache
def summed(inverse_scale: Fraction, move: int, order: float) -> float:
    """Sum the divergence of the discrete Laplace term by term, until both tails are below 10^-40 of the sum."""
    with localcontext(prec=60):
        t, alpha = decimal(inverse_scale), decimal(order)
        reach = math.ceil(95 / inverse_scale)
        support = range(-reach, reach + move + 1)
        terms = [(-t * (alpha * abs(x) + (1 - alpha) * abs(x - move))).exp() for x in support]
        normaliser = sum((-t * abs(x)).exp() for x in support)
        return float((sum(terms) / normaliser).ln() / (alpha - 1))


def with_tails(inverse_scale: Fraction, move: int, order: float) -> Decimal:
    """Sum the divergence with the two geometric tails written out; for scales whose support is too wide to walk."""
    t, alpha = decimal(inverse_scale), decimal(order)
    ratio = (-t).exp()
    scale = (alpha - 1) * t * move
    total = (1 + (-(2 * alpha - 1) * t * move).exp()) / (1 - ratio)
    total += sum((-(2 * alpha - 1) * t * x).exp() for x in range(1, move))
    return (scale + (total * (1 - ratio) / (1 + ratio)).ln()) / (alpha - 1)


def partitions(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
    for part in range(min(total, largest or total), 0, -1):
        for rest in partitions(total - part, part):
            yield (part, *rest)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("inverse_scale", INVERSE_SCALES)
@pytest.mark.parametrize("move", [1, 2, 5, 8])
def test_the_laplace_curve_is_the_sum_over_the_support(inverse_scale: Fraction, move: int, order: float):
    """The closed form is an upper bound of the sum and exact up to its stated margin."""
    exact = summed(inverse_scale, move, order)
    bound = renyi(laplace(inverse_scale, move), order)
    assert exact <= bound <= exact * (1 + SLACK) + 2e-15


@settings(max_examples=300, deadline=None)
@given(
    st.floats(min_value=-12, max_value=3), st.sampled_from([1, 1, 2, 3, 8, 40]), st.floats(min_value=-3, max_value=6)
)
def test_the_laplace_curve_loses_no_digits_at_any_scale(log_scale: float, move: int, log_order: float):
    """From t = 1e-12 to 1e3 and order 1.001 to a million: no overflow, no cancellation, never below the exact one."""
    inverse_scale, order = Fraction(10**log_scale), 1 + 10**log_order
    bound = renyi(laplace(inverse_scale, move), order)
    with localcontext(prec=60):
        exact = with_tails(inverse_scale, move, order)
        assert exact <= Decimal(bound) <= exact * (1 + Decimal(SLACK)) + Decimal("2e-15")


@pytest.mark.parametrize(("log_scale", "move"), [(-15, 10**9), (6, 10**9), (-15, 1), (6, 1), (-9, 5_000)])
@pytest.mark.parametrize("order", [1.001, 1e6])
def test_the_curve_is_finite_at_the_ends_of_every_range(log_scale: int, move: int, order: float):
    """The extreme events that validation admits have a finite bound, not above the pure loss and its margin."""
    event = laplace(Fraction(10) ** log_scale, move)
    pure = pure_loss(event)
    assert pure is not None
    assert 0 < renyi(event, order) <= float(pure) * (1 + SLACK) + 2e-15


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("inverse_scale", INVERSE_SCALES)
def test_a_laplace_move_of_one_is_randomized_response(inverse_scale: Fraction, order: float):
    """At sensitivity one the event costs what the worst pure step costs, computed from its two points."""
    epsilon = float(inverse_scale)
    truth, lie = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    two_points = math.log(truth**order * lie ** (1 - order) + lie**order * truth ** (1 - order)) / (order - 1)
    for event in (laplace(inverse_scale, 1), laplace(inverse_scale, -1), Pure(inverse_scale)):
        assert renyi(event, order) == pytest.approx(two_points, rel=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("inverse_scale", INVERSE_SCALES)
def test_the_continuous_curve_undercounts_the_discrete_noise(inverse_scale: Fraction, order: float):
    """At sensitivity one the continuous Laplace's curve is below the exact one: it may not be used for counts."""
    t = float(inverse_scale)
    mixed = order * math.exp((order - 1) * t) + (order - 1) * math.exp(-order * t)
    continuous = math.log(mixed / (2 * order - 1)) / (order - 1)
    assert continuous < summed(inverse_scale, 1, order) * (1 - 1e-4)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("inverse_scale", INVERSE_SCALES)
def test_the_concentrated_move_is_the_worst_of_all_partitions(inverse_scale: Fraction, order: float):
    """However a change of L1 size up to 8 is spread over cells, its divergence is at most that of one cell's move."""
    for parts in itertools.chain.from_iterable(map(partitions, range(1, 9))):
        worst = renyi(laplace(inverse_scale, sum(parts)), order)
        exact = sum(summed(inverse_scale, part, order) for part in parts)
        assert exact <= worst
        assert renyi(laplace(inverse_scale, *parts), order) == pytest.approx(exact, rel=SLACK, abs=1e-14)


def changes(rows: int, cells: int) -> set[tuple[int, ...]]:
    """List what one unit's rows, at most `rows` of them, can add to `cells` cells."""
    return {tuple(counts) for counts in itertools.product(range(rows + 1), repeat=cells) if sum(counts) <= rows}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("inverse_scale", INVERSE_SCALES)
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_moves_k_k_dominate_every_replacement(inverse_scale: Fraction, order: float, rows: int):
    """Replacing a unit's rows by others: no change of up to four cells costs more than (k, k), by direct sums."""
    laplace_bound = renyi(laplace(inverse_scale, rows, rows), order)
    gaussian_bound = renyi(DiscreteGaussian(inverse_scale, (rows, rows)), order)
    contributions = changes(rows, 4)
    vectors = {
        tuple(sorted(abs(new - old) for new, old in zip(after, before, strict=True) if new != old))
        for after, before in itertools.product(contributions, repeat=2)
    }
    assert (rows, rows) in vectors
    for vector in vectors:
        assert sum(summed(inverse_scale, move, order) for move in vector) <= laplace_bound
        if vector:
            assert renyi(DiscreteGaussian(inverse_scale, vector), order) <= gaussian_bound


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_moves_k_dominate_every_addition(order: float, rows: int):
    """Adding a unit's rows: no change of up to three cells costs more than (k), by direct sums."""
    bound = renyi(laplace(1, rows), order)
    for vector in changes(rows, 3):
        assert sum(summed(Fraction(1), move, order) for move in vector if move) <= bound


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("sigma_squared", [Fraction(1, 10), Fraction(1), Fraction(30)])
@pytest.mark.parametrize("move", [1, 3])
def test_the_gaussian_bound_holds_over_the_support(sigma_squared: Fraction, move: int, order: float):
    """The discrete Gaussian's divergence, summed term by term, is at most order * move^2 / (2 sigma^2), and that at
    an integer order exactly."""
    with localcontext(prec=60):
        alpha, twice = decimal(order), 2 * decimal(sigma_squared)
        reach = math.ceil(20 * math.sqrt(sigma_squared)) + math.ceil(order) * move + 5
        support = range(-reach, reach + 1)
        terms = sum((-(alpha * x * x + (1 - alpha) * (x - move) ** 2) / twice).exp() for x in support)
        normaliser = sum((-Decimal(x * x) / twice).exp() for x in support)
        exact = float((terms / normaliser).ln() / (alpha - 1))
    bound = renyi(DiscreteGaussian(sigma_squared, (move,)), order)
    assert exact <= bound
    if order.is_integer():
        assert bound == pytest.approx(exact, rel=1e-9)


@settings(deadline=None)
@given(st.fractions(min_value=Fraction(1, 10**6), max_value=50), st.floats(min_value=1.01, max_value=1e4))
def test_a_pure_step_costs_at_most_its_known_bounds(epsilon: Fraction, order: float):
    """The exact pure curve is below both epsilon and order * epsilon^2 / 2."""
    loss = renyi(Pure(epsilon), order)
    assert 0 < loss <= min(float(epsilon), order * float(epsilon) ** 2 / 2) * (1 + SLACK) + 2e-15


@settings(deadline=None)
@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=50),
    st.integers(min_value=1, max_value=30),
    st.floats(min_value=1.01, max_value=1e4),
    st.floats(min_value=1.001, max_value=10),
)
def test_a_curve_grows_with_order_scale_and_move(inverse_scale: Fraction, move: int, order: float, factor: float):
    """Divergences do not fall in the order; less noise or a larger move never costs less."""
    loss = renyi(laplace(inverse_scale, move), order)
    room = 1 + SLACK
    assert renyi(laplace(inverse_scale, move), order * factor) * room >= loss
    assert renyi(laplace(inverse_scale * Fraction(factor), move), order) * room >= loss
    assert renyi(laplace(inverse_scale, move + 1), order) * room >= loss


def test_a_zero_concentrated_budget_is_linear_in_the_order():
    """rho-zCDP is order * rho."""
    assert renyi(ZeroConcentrated(Fraction(1, 8)), 4.0) == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize("order", [1.0, 0.5, 0.0, -2.0, math.inf, math.nan])
def test_an_order_that_is_none_is_refused(order: float):
    """Orders are above one and finite."""
    with pytest.raises(ValueError, match="order is"):
        renyi(Pure(Fraction(1)), order)


def test_pure_losses_are_exact():
    """The pure loss is a rational: L1 change times inverse scale; Gaussian noise and zCDP have none."""
    assert pure_loss(laplace(Fraction(1, 3), 2, -2)) == Fraction(4, 3)
    assert pure_loss(Pure(Fraction(1, 3))) == Fraction(1, 3)
    assert pure_loss(DiscreteGaussian(Fraction(1), (1,))) is None
    assert pure_loss(ZeroConcentrated(Fraction(1))) is None
    assert pure_total([laplace(Fraction(1, 3), 1), Pure(Fraction(2, 3))]) == 1
    assert pure_total([]) == 0
    assert pure_total([Pure(Fraction(1)), ZeroConcentrated(Fraction(1))]) is None


epsilons = st.floats(min_value=-12, max_value=2).map(lambda power: Fraction(10**power))
log_orders = st.floats(min_value=-3, max_value=6)


def two_points(epsilon: Any, t: Any, order: Any) -> Any:
    """Compute the divergence of the pair whose log-ratios are t and t - epsilon."""
    high = mpmath.expm1(epsilon - t) / mpmath.expm1(epsilon)
    return mpmath.log(high * mpmath.exp(order * t) + (1 - high) * mpmath.exp(order * (t - epsilon))) / (order - 1)


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(epsilons, log_orders)
def test_the_curve_is_the_largest_of_all_two_point_pairs(epsilon: Fraction, log_order: float):
    """Golden section over t in 80 digits finds the same supremum: never above the bound, nor far below."""
    order = 1 + 10**log_order
    bound = renyi(ExponentialMechanism(epsilon), order)
    with mpmath.workdps(80):
        e, alpha = mpmath.mpf(epsilon.numerator) / epsilon.denominator, mpmath.mpf(order)
        left, right, golden = mpmath.mpf(0), e, (mpmath.sqrt(5) - 1) / 2
        for _ in range(70):
            lower, upper = right - golden * (right - left), left + golden * (right - left)
            if two_points(e, lower, alpha) < two_points(e, upper, alpha):
                left = lower
            else:
                right = upper
        exact = two_points(e, (left + right) / 2, alpha)
        assert exact <= bound <= exact * (1 + SLACK) + 2e-15
        assert abs(bounded_range_divergence(float(epsilon), order) / exact - 1) < 1e-13


@settings(max_examples=200, deadline=None)
@given(st.floats(min_value=-15, max_value=5.9), log_orders)
def test_the_curve_loses_no_digits_at_any_scale(log_epsilon: float, log_order: float):
    """The closed form in 80 digits, for epsilon from 10^-15 to almost 10^6."""
    epsilon, order = 10**log_epsilon, 1 + 10**log_order
    with mpmath.workdps(80):
        e, alpha = mpmath.mpf(epsilon), mpmath.mpf(order)
        k = [mpmath.log(2 * mpmath.sinh(x / 2) / x) for x in (alpha * e, (alpha - 1) * e, e)]
        exact = (alpha * k[0] - (alpha - 1) * k[1] - k[2]) / (alpha - 1)
        assert abs(bounded_range_divergence(epsilon, order) / exact - 1) < 1e-13


@settings(deadline=None)
@given(epsilons, log_orders)
def test_a_choice_costs_at_most_its_known_bounds(epsilon: Fraction, log_order: float):
    """At most order * epsilon^2 / 8 (Cesar and Rogers), at most epsilon, at most any pure step of epsilon."""
    order = 1 + 10**log_order
    loss = renyi(ExponentialMechanism(epsilon), order)
    assert 0 < loss <= min(float(epsilon), order * float(epsilon) ** 2 / 8) * (1 + SLACK) + 2e-15
    assert loss <= renyi(Pure(epsilon), order) * (1 + SLACK) + 2e-15
    assert renyi(ExponentialMechanism(epsilon), 1 + (order - 1) * 2) * (1 + SLACK) + 2e-15 >= loss


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-1, 1)), min_size=2, max_size=6),
    st.floats(min_value=0.01, max_value=5),
    st.floats(min_value=1.01, max_value=50),
)
def test_the_mechanism_itself_stays_below(scores: list[tuple[float, float]], epsilon: float, order: float):
    """Scores that move by at most the sensitivity 1: the divergence of the two choices is at most the curve."""
    p, q = (
        [math.exp(epsilon * value / 2) for value in values]
        for values in ([score for score, _ in scores], [score + move for score, move in scores])
    )
    moment = math.fsum(a / sum(p) * (a / sum(p) / (b / sum(q))) ** (order - 1) for a, b in zip(p, q, strict=True))
    assert math.log(moment) / (order - 1) <= renyi(ExponentialMechanism(Fraction(epsilon)), order) + 1e-12


def test_the_pure_loss_is_epsilon():
    """Exactly."""
    assert pure_loss(ExponentialMechanism(Fraction(1, 3))) == Fraction(1, 3)


@pytest.mark.parametrize("order", [1.001, 1e6])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**15), Fraction(10**6)])
def test_the_curve_is_finite_at_the_ends_of_its_range(epsilon: Fraction, order: float):
    """The extreme events that validation admits."""
    assert 0 < renyi(ExponentialMechanism(epsilon), order) <= float(epsilon) * (1 + SLACK) + 2e-15
