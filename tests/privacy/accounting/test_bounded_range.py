"""The exponential mechanism's curve against two-point pairs in 80 digits, and against the mechanism itself."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting.events import ExponentialMechanism, Pure
from privacy.accounting.renyi import RELATIVE_MARGIN, bounded_range_divergence, pure_loss, renyi

SLACK = 3 * RELATIVE_MARGIN
epsilons = st.floats(min_value=-12, max_value=2).map(lambda power: Fraction(10**power))
log_orders = st.floats(min_value=-3, max_value=6)


def two_points(epsilon: Any, t: Any, order: Any) -> Any:
    """Compute the divergence of the pair whose log-ratios are t and t - epsilon."""
    high = mpmath.expm1(epsilon - t) / mpmath.expm1(epsilon)
    return mpmath.log(high * mpmath.exp(order * t) + (1 - high) * mpmath.exp(order * (t - epsilon))) / (order - 1)


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(epsilons, log_orders)
def test_the_curve_is_the_largest_of_all_two_point_pairs(epsilon: Fraction, log_order: float) -> None:
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
def test_the_curve_loses_no_digits_at_any_scale(log_epsilon: float, log_order: float) -> None:
    """The closed form in 80 digits, for epsilon from 10^-15 to almost 10^6."""
    epsilon, order = 10**log_epsilon, 1 + 10**log_order
    with mpmath.workdps(80):
        e, alpha = mpmath.mpf(epsilon), mpmath.mpf(order)
        k = [mpmath.log(2 * mpmath.sinh(x / 2) / x) for x in (alpha * e, (alpha - 1) * e, e)]
        exact = (alpha * k[0] - (alpha - 1) * k[1] - k[2]) / (alpha - 1)
        assert abs(bounded_range_divergence(epsilon, order) / exact - 1) < 1e-13


@settings(deadline=None)
@given(epsilons, log_orders)
def test_a_choice_costs_at_most_its_known_bounds(epsilon: Fraction, log_order: float) -> None:
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
def test_the_mechanism_itself_stays_below(scores: list[tuple[float, float]], epsilon: float, order: float) -> None:
    """Scores that move by at most the sensitivity 1: the divergence of the two choices is at most the curve."""
    p, q = (
        [math.exp(epsilon * value / 2) for value in values]
        for values in ([score for score, _ in scores], [score + move for score, move in scores])
    )
    moment = math.fsum(a / sum(p) * (a / sum(p) / (b / sum(q))) ** (order - 1) for a, b in zip(p, q, strict=True))
    assert math.log(moment) / (order - 1) <= renyi(ExponentialMechanism(Fraction(epsilon)), order) + 1e-12


def test_the_pure_loss_is_epsilon() -> None:
    """Exactly."""
    assert pure_loss(ExponentialMechanism(Fraction(1, 3))) == Fraction(1, 3)


@pytest.mark.parametrize("order", [1.001, 1e6])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**15), Fraction(10**6)])
def test_the_curve_is_finite_at_the_ends_of_its_range(epsilon: Fraction, order: float) -> None:
    """The extreme events that validation admits."""
    assert 0 < renyi(ExponentialMechanism(epsilon), order) <= float(epsilon) * (1 + SLACK) + 2e-15
