"""Calibration and scales: the noise never costs more than the loss that it was calibrated to."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privacy.accounting.amounts import ATTO, PICO, AmountRefused
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus, best_order
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    PoissonSampledGaussian,
    PrivacyEvent,
    Pure,
    UnsupportedEvent,
    ZeroConcentrated,
    gaussian_sigma_squared,
    laplace_inverse_scale,
)
from privacy.accounting.renyi import best_epsilon, pure_loss, renyi, rho_for
from privacy.accounting.scale import largest_epsilon, scaled

losses = st.fractions(min_value=Fraction(1, 10**6), max_value=1000)
moves = st.lists(st.integers(min_value=-20, max_value=20).filter(bool), min_size=1, max_size=4).map(tuple)


@settings(deadline=None)
@given(losses, moves)
def test_laplace_noise_costs_at_most_epsilon_and_nearly_all_of_it(epsilon: Fraction, change: tuple[int, ...]) -> None:
    """The inverse scale is rounded down, by less than 10^-18."""
    inverse_scale = laplace_inverse_scale(epsilon, change)
    reach = sum(map(abs, change))
    loss = pure_loss(DiscreteLaplace(inverse_scale, change))
    assert loss is not None
    assert 0 <= epsilon - loss < Fraction(reach, ATTO)


@settings(deadline=None)
@given(losses, moves)
def test_gaussian_noise_costs_at_most_rho_and_nearly_all_of_it(rho: Fraction, change: tuple[int, ...]) -> None:
    """sigma^2 is rounded up, by less than 10^-12."""
    sigma_squared = gaussian_sigma_squared(rho, change)
    squares = sum(move * move for move in change)
    assert squares / (2 * sigma_squared) <= rho
    assert squares / (2 * (sigma_squared - Fraction(1, PICO))) > rho


def test_the_sensitivities_are_those_of_the_adjacencies() -> None:
    """k rows: L1 k and 2k, L2 k and sqrt(2) k."""
    assert laplace_inverse_scale(Fraction(1), (3,)) == Fraction(ATTO // 3, ATTO)
    assert laplace_inverse_scale(Fraction(1), (2, 2)) == Fraction(1, 4)
    assert gaussian_sigma_squared(Fraction(1, 2), (3,)) == 9
    assert gaussian_sigma_squared(Fraction(1, 2), (3, 3)) == 18


@pytest.mark.parametrize("loss", [Fraction(0), Fraction(-1), float("nan"), float("inf"), True])
@pytest.mark.parametrize("calibrate", [laplace_inverse_scale, gaussian_sigma_squared])
def test_a_loss_that_is_none_is_refused(calibrate: Any, loss: Any) -> None:
    """No noise is calibrated to nothing."""
    with pytest.raises(AmountRefused):
        calibrate(loss, (1,))


@pytest.mark.parametrize("change", [(), (0,)])
@pytest.mark.parametrize("calibrate", [laplace_inverse_scale, gaussian_sigma_squared])
def test_moves_that_move_nothing_are_refused(calibrate: Any, change: Any) -> None:
    """A sensitivity of zero would mean no noise at all."""
    with pytest.raises(AmountRefused, match="moves"):
        calibrate(Fraction(1), change)


def test_a_loss_too_small_for_its_moves_is_refused() -> None:
    """An inverse scale that rounds to zero is no noise that exists."""
    with pytest.raises(AmountRefused, match="1e-18"):
        laplace_inverse_scale(Fraction(1, 10**12), (10**9,))


DELTA = Fraction(1, 10**9)
NANO = ATTO // 10**9
ACCOUNT = RenyiCalculus(best_order(1, DELTA))
CAP = ACCOUNT.cap(PICO, NANO)
KINDS: list[PrivacyEvent] = [
    DiscreteLaplace(Fraction(1, 3), (1, 1)),
    DiscreteGaussian(Fraction(40, 3), (2,)),
    Pure(Fraction(1, 7)),
    ZeroConcentrated(Fraction(1, 70)),
    Gaussian(Fraction(10, 3)),
    ExponentialMechanism(Fraction(1, 7)),
    PoissonSampledGaussian(Fraction(4, 3), Fraction(1, 100), 50),
]
factors = st.fractions(min_value=Fraction(1, 100), max_value=4, max_denominator=10**4)
shares = st.lists(st.integers(min_value=1, max_value=9), min_size=1, max_size=4)
leftovers = st.fractions(min_value=Fraction(1, 50), max_value=1, max_denominator=10**6)
tried = st.sampled_from(["0.01", "0.1", "0.7", "1", "3", "20"]).map(Decimal)


def parameter(event: PrivacyEvent) -> float:
    match event:
        case DiscreteLaplace(inverse_scale, _):
            return float(inverse_scale)
        case DiscreteGaussian(sigma_squared, _):
            return 1 / math.sqrt(sigma_squared)
        case Pure(epsilon) | ExponentialMechanism(epsilon):
            return float(epsilon)
        case ZeroConcentrated(rho):
            return math.sqrt(rho)
    return 1 / float(event.noise_multiplier)


@pytest.mark.parametrize("event", KINDS, ids=lambda event: event.kind)
@settings(max_examples=30, deadline=None)
@given(factor=factors)
def test_a_scaled_event_is_the_same_draw_with_its_parameter_multiplied(event: PrivacyEvent, factor: Fraction) -> None:
    """The parameter is the exact product or less, by less than a relative 10^-6; nothing else changes."""
    assume(not isinstance(event, PoissonSampledGaussian) or factor < 13)
    other = scaled(event, factor)
    assert other.kind == event.kind
    product = parameter(event) * float(factor)
    assert product * (1 - 1e-6) <= parameter(other) <= product * (1 + 1e-12)
    kept = ("moves", "steps", "sampling_probability")
    assert all(getattr(other, name, None) == getattr(event, name, None) for name in kept)
    loss, whole = pure_loss(other), pure_loss(event)
    assert (loss is None) == (whole is None)
    assert loss is None or whole is None or loss <= whole * factor


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KINDS), factors, st.floats(min_value=1.01, max_value=100))
def test_more_of_a_factor_never_costs_less(event: PrivacyEvent, factor: Fraction, order: float) -> None:
    """Monotone, and factor one costs no more than the event itself."""
    less, more = renyi(scaled(event, factor), order), renyi(scaled(event, factor * Fraction(3, 2)), order)
    assert less <= more * (1 + 1e-11)
    assert renyi(scaled(event, Fraction(1)), order) <= renyi(event, order) * (1 + 1e-11)


@pytest.mark.parametrize("factor", [Fraction(0), Fraction(-1), Fraction(10**9)], ids=str)
def test_a_factor_that_is_none_or_leads_out_of_range_is_refused(factor: Fraction) -> None:
    """Zero would be no loss at all."""
    with pytest.raises(AmountRefused):
        scaled(PoissonSampledGaussian(Fraction(1), Fraction(1, 2), 1), factor)


Plan = Callable[[Decimal | Fraction, list[int]], list[PrivacyEvent]]


def laplace_plan(epsilon: Decimal | Fraction, weights: list[int]) -> list[PrivacyEvent]:
    """Plan Laplace tables as `privacy.table_plans.plan` does: shares of epsilon in whole units, rounded down."""
    parts = [math.floor(Fraction(epsilon) * PICO * weight / sum(weights)) for weight in weights]
    return [DiscreteLaplace(laplace_inverse_scale(Fraction(part, PICO), (1,)), (1,)) for part in parts]


def gaussian_plan(epsilon: Decimal | Fraction, weights: list[int]) -> list[PrivacyEvent]:
    rho = rho_for(epsilon, DELTA)
    parts = [math.floor(rho * PICO * weight / sum(weights)) for weight in weights]
    return [DiscreteGaussian(gaussian_sigma_squared(Fraction(part, PICO), (1, 1)), (1, 1)) for part in parts]


@pytest.mark.parametrize(
    ("plan", "calculus", "cap"),
    [
        (laplace_plan, PureCalculus(), PICO),
        (laplace_plan, ACCOUNT, CAP),
        (gaussian_plan, ACCOUNT, CAP),
        (gaussian_plan, RenyiCalculus(Fraction(8)), 2 * PICO),
    ],
)
@settings(max_examples=25, deadline=None)
@given(epsilon=tried, weights=shares, left=leftovers)
def test_a_release_planned_anew_at_the_largest_epsilon_fits(
    plan: Plan, calculus: Calculus, cap: int, epsilon: Decimal, weights: list[int], left: Fraction
) -> None:
    """Whatever was asked for first: the answer fits what is left, and 2 % more does not."""
    remaining = math.floor(cap * left)
    answer = largest_epsilon(plan(epsilon, weights), DELTA, calculus, remaining)
    assert answer is not None
    assert len(str(answer.numerator * 10**12 // answer.denominator).rstrip("0")) <= 4
    assert calculus.cost(plan(answer, weights)) <= remaining
    assert calculus.cost(plan(answer * Fraction(102, 100), weights)) > remaining


def test_a_whole_account_fits_exactly() -> None:
    """An untouched account of epsilon one says one, and not 0.9999."""
    assert largest_epsilon(laplace_plan(Decimal(3), [1, 1, 1]), 0, PureCalculus(), PICO) == 1
    assert largest_epsilon(gaussian_plan(Decimal(3), [1, 1, 1]), DELTA, ACCOUNT, CAP) == 1
    assert largest_epsilon([ExponentialMechanism(Fraction(1, 3))] * 3, 0, PureCalculus(), PICO) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "events",
    [[KINDS[6]] * 3, [PoissonSampledGaussian(Fraction(5), Fraction(1, 10), 2000)], [KINDS[2], KINDS[4], KINDS[6]]],
)
def test_sampled_and_mixed_lists_are_scaled_as_they_are(events: list[PrivacyEvent]) -> None:
    """The answer is the best epsilon of the largest scaled list that fits; 2 % more of it does not."""
    answer = largest_epsilon(events, DELTA, ACCOUNT, CAP // 2)
    assert answer is not None

    def at(epsilon: Fraction) -> list[PrivacyEvent]:
        low, high = Fraction(1, 100), Fraction(10)
        for _ in range(14):
            middle = (low + high) / 2
            above = best_epsilon([scaled(event, middle) for event in events], DELTA)[0] > epsilon
            low, high = (low, middle) if above else (middle, high)
        return [scaled(event, low) for event in events]

    assert ACCOUNT.cost(at(answer)) <= CAP // 2
    assert ACCOUNT.cost(at(answer * Fraction(102, 100))) > CAP // 2


def test_where_nothing_fits_it_says_none() -> None:
    """No room, or no delta for noise that has no pure loss."""
    assert largest_epsilon([KINDS[2]], 0, PureCalculus(), 0) is None
    assert largest_epsilon([KINDS[2]], 0, PureCalculus(), 10**6 - 1) is None
    assert largest_epsilon([KINDS[2]], 0, PureCalculus(), 10**6) == Fraction(1, 10**6)
    assert largest_epsilon([KINDS[6]], DELTA, ACCOUNT, 0) is None
    for event in (KINDS[1], KINDS[6]):
        assert largest_epsilon([event], 0, ACCOUNT, CAP) is None


def test_what_no_scale_can_fit_is_refused_by_name() -> None:
    """Gaussian noise in a pure account, and a plan without events."""
    for event in (KINDS[1], KINDS[6]):
        with pytest.raises(UnsupportedEvent, match=event.kind):
            largest_epsilon([event], DELTA, PureCalculus(), PICO)
    with pytest.raises(AmountRefused, match="events"):
        largest_epsilon([], DELTA, ACCOUNT, PICO)
