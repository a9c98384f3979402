"""Curves to (ε, δ), and compositions: by second computations, and as dp_accounting's accountants have them."""

import math
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from privacy.accounting.amounts import PICO, AmountRefused
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import (
    ComposableEvent,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    DiscreteLaplaceVector,
    Gaussian,
    PoissonSampled,
    PoissonSampledGaussian,
    Pure,
    SelfComposed,
    ZeroConcentrated,
    composition,
)
from privacy.accounting.renyi import best_epsilon, best_order, epsilon_at, pure_total, renyi, rho_for

orders = st.floats(min_value=1.001, max_value=1e6)
losses = st.floats(min_value=1e-9, max_value=1e3)
deltas = st.fractions(min_value=Fraction(1, 10**18), max_value=Fraction(1, 2))
epsilons = st.decimals(min_value="0.01", max_value=100, places=6)


def responses_delta(step: float, count: int, epsilon: float) -> float:
    """Compute delta(epsilon) of `count` randomized responses exactly: the sum of their losses is binomial."""
    truth = 1 / (1 + math.exp(-step))
    total = 0.0
    for lies in range(count + 1):
        mass = math.comb(count, lies) * truth ** (count - lies) * (1 - truth) ** lies
        total += mass * max(0.0, -math.expm1(epsilon - (count - 2 * lies) * step))
    return total


def gaussian_delta(noise_multiplier: float, epsilon: float) -> float:
    """Compute delta(epsilon) of the continuous Gaussian mechanism exactly (Balle and Wang 2018)."""
    a, b = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
    return float(norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b))


@settings(deadline=None)
@given(orders, losses, deltas)
def test_the_conversion_is_the_published_formula_rounded_up(order: float, loss: float, delta: Fraction):
    """Proposition 12 of Canonne, Kamath and Steinke, never negative, above the plain float by less than 10^-9."""
    plain = loss + math.log((order - 1) / order) - (math.log(delta) + math.log(order)) / (order - 1)
    epsilon = epsilon_at(order, loss, delta)
    size = loss + (abs(math.log(delta)) + math.log(order) + 1) / (order - 1) + 1
    assert epsilon >= 0
    assert plain - 1e-13 * size <= epsilon <= max(0.0, plain) + 1e-11 * size


@settings(deadline=None)
@given(orders, losses, st.floats(min_value=1, max_value=10), deltas)
def test_epsilon_grows_with_the_loss_and_falls_with_delta(order: float, loss: float, factor: float, delta: Fraction):
    """A larger loss never converts to less; a larger delta never to more, up to the margins."""
    epsilon = epsilon_at(order, loss, delta)
    assert epsilon_at(order, loss * factor, delta) >= epsilon
    assert epsilon_at(order, loss, delta / 2) * (1 + 1e-10) + 1e-10 >= epsilon


def test_delta_zero_is_infinite_unless_nothing_was_lost():
    """A Rényi loss alone says nothing at delta zero."""
    assert epsilon_at(8.0, 0.1, 0) == math.inf
    assert epsilon_at(8.0, 0.0, 0) == 0
    assert epsilon_at(8.0, 0.0, Fraction(1, 10**9)) == 0


@pytest.mark.parametrize("delta", [-0.1, 1, 1.5, math.nan, math.inf, True])
def test_a_delta_that_is_none_is_refused(delta: Any):
    """Everywhere the same amounts are refused."""
    with pytest.raises(AmountRefused):
        epsilon_at(2.0, 1.0, delta)
    with pytest.raises(AmountRefused):
        best_epsilon([Pure(Fraction(1))], delta)
    for function in (rho_for, best_order):
        with pytest.raises(AmountRefused):
            function(1, delta)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e309, True])
def test_an_epsilon_that_is_none_is_refused(epsilon: Any):
    """Everywhere the same amounts are refused."""
    for function in (rho_for, best_order):
        with pytest.raises(AmountRefused):
            function(epsilon, Fraction(1, 10**9))


@pytest.mark.parametrize("step", [Fraction(1, 50), Fraction(1, 3), Fraction(2)])
@pytest.mark.parametrize("count", [1, 7, 60])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_the_best_epsilon_covers_exact_randomized_response(step: Fraction, count: int, delta: float):
    """The true delta at the claimed epsilon is at most delta; the claim is at most the pure sum."""
    for event in (Pure(step), DiscreteLaplace(step, (1,))):
        epsilon, _ = best_epsilon([event] * count, delta)
        assert responses_delta(float(step), count, epsilon) <= delta * (1 + 1e-9)
        assert epsilon <= float(step * count) * (1 + 1e-12)


@pytest.mark.parametrize("noise_multiplier", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_the_best_epsilon_covers_the_exact_gaussian(noise_multiplier: float, delta: float):
    """Gaussian: the true delta at the claimed epsilon is at most delta, and within two orders of magnitude of it."""
    event = ZeroConcentrated(1 / (2 * Fraction(noise_multiplier) ** 2))
    epsilon, order = best_epsilon([event], delta)
    exact = gaussian_delta(noise_multiplier, epsilon)
    assert delta / 100 <= exact <= delta
    assert 1 < order < math.inf


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.fractions(min_value=Fraction(1, 1000), max_value=3), min_size=1, max_size=4),
    st.lists(st.fractions(min_value=Fraction(1, 2), max_value=1000), max_size=3),
    deltas,
)
def test_the_best_epsilon_is_the_least_of_many_orders(
    steps: list[Fraction], variances: list[Fraction], delta: Fraction
):
    """No order of a fine grid, and no pure sum, converts to less by more than 10^-9; the events' order is nothing."""
    events = [
        *(DiscreteLaplace(step, (1,)) for step in steps),
        *(DiscreteGaussian(variance, (1, 1)) for variance in variances),
    ]
    epsilon, _ = best_epsilon(events, delta)
    assert best_epsilon(events[::-1], delta)[0] == pytest.approx(epsilon, rel=1e-12)
    pure = pure_total(events)
    assert pure is None or epsilon <= float(pure) * (1 + 1e-12)
    for place in range(-60, 121):
        order = 1 + 10 ** (place / 20)
        at_order = epsilon_at(order, sum(renyi(event, order) for event in events), delta)
        assert epsilon <= at_order * (1 + 1e-9) + 1e-12


def test_at_delta_zero_only_pure_losses_count():
    """Delta zero: the pure sum, rounded up to a double; infinite with a Gaussian in the list."""
    third = Pure(Fraction(1, 3))
    epsilon, order = best_epsilon([third, third], 0)
    assert (Fraction(epsilon) >= Fraction(2, 3), order) == (True, math.inf)
    assert epsilon == pytest.approx(2 / 3, rel=1e-15)
    assert best_epsilon([third, ZeroConcentrated(Fraction(1))], 0) == (math.inf, math.inf)
    assert best_epsilon([], 0) == best_epsilon([], 0.5) == (0, math.inf)


@settings(max_examples=60, deadline=None)
@given(epsilons, st.integers(min_value=3, max_value=15))
def test_rho_is_what_fits_and_nearly_all_of_it(epsilon: Any, digits: int):
    """rho converts to at most epsilon; a relative 10^-5 more, and one unit, does not."""
    delta = Fraction(1, 10**digits)
    rho = rho_for(epsilon, delta)
    assert rho * PICO == int(rho * PICO)
    assert Fraction(best_epsilon([ZeroConcentrated(rho)], delta)[0]) <= Fraction(epsilon)
    more = rho * (1 + Fraction(1, 10**5)) + Fraction(1, PICO)
    assert Fraction(best_epsilon([ZeroConcentrated(more)], delta)[0]) > Fraction(epsilon)


def test_a_rho_below_one_unit_is_refused():
    """An epsilon too small for its delta buys nothing."""
    with pytest.raises(AmountRefused, match=r"rho of 1e-12|some loss to fit"):
        rho_for(Fraction(1, 10**7), Fraction(1, 10**18))


@settings(max_examples=60, deadline=None)
@given(epsilons, st.integers(min_value=3, max_value=15))
def test_the_best_order_is_short_and_gives_up_next_to_nothing(epsilon: Any, digits: int):
    """The denominator is a power of two, and no order of a fine grid fits a relative 10^-5 more Gaussian loss."""
    delta = Fraction(1, 10**digits)
    order = best_order(epsilon, delta)
    assert order.denominator & (order.denominator - 1) == 0
    assert order.denominator <= 2**20

    def room(at: float) -> float:
        return (float(epsilon) - epsilon_at(at, 1e3, delta) + 1e3) / at

    assert room(float(order)) > 0
    for place in range(-60, 121):
        assert room(1 + 10 ** (place / 20)) <= room(float(order)) * (1 + 1e-5) + 1e-9


TENTH, TWO = Fraction(1, 10), Fraction(2)
ORDERS = [2.0, 5.0, 12.0, 40.0]
STEP = PoissonSampled(TENTH, Gaussian(TWO))


def to_dp_event(event: ComposableEvent) -> DpEvent:
    match event:
        case SelfComposed(repeated, count):
            return dp_event.SelfComposedDpEvent(to_dp_event(repeated), count)
        case Composed(events):
            return dp_event.ComposedDpEvent([to_dp_event(each) for each in events])
        case PoissonSampled(sampling_probability, sampled):
            return dp_event.PoissonSampledDpEvent(float(sampling_probability), to_dp_event(sampled))
        case Gaussian(noise_multiplier):
            return dp_event.GaussianDpEvent(float(noise_multiplier))
        case ZeroConcentrated(rho):
            return dp_event.ZCDpEvent(float(rho))
        case Pure(epsilon):  # randomized response is the worst of them: Kairouz, Oh, Viswanath 2015
            return dp_event.DiscreteLaplaceDpEvent(float(epsilon), 1)
        case DiscreteLaplace(inverse_scale, moves):
            # The noises of the cells are independent: each move is a mechanism of its own.
            each = [dp_event.DiscreteLaplaceDpEvent(float(inverse_scale), abs(move)) for move in moves]
            return each[0] if len(each) == 1 else dp_event.ComposedDpEvent(each)
        case PoissonSampledGaussian() | DiscreteLaplaceVector():
            return to_dp_event(composition(event))
    raise AssertionError(f"dp_accounting has no event of {event.kind}")


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(TWO),
        ZeroConcentrated(TENTH),
        STEP,
        SelfComposed(STEP, 50),
        PoissonSampledGaussian(TWO, TENTH, 50),
        Composed((SelfComposed(STEP, 7), Gaussian(Fraction(3)), Composed((ZeroConcentrated(TENTH), STEP)))),
        SelfComposed(Composed((Gaussian(TWO), STEP)), 3),
    ],
)
def test_the_library_s_renyi_accountant_agrees_at_whole_orders(event: ComposableEvent):
    """Within 1e-9; of one step fewer it would not be."""
    accountant = RdpAccountant(ORDERS)
    accountant.compose(to_dp_event(event))
    for order, theirs in zip(ORDERS, accountant._rdp, strict=True):
        assert renyi(event, order) == pytest.approx(theirs, rel=1e-9)
        assert renyi(Composed((event, STEP)), order) > theirs * (1 + 1e-6)


@pytest.mark.parametrize(
    "event", [Pure(TENTH), DiscreteLaplace(TENTH, (1, 1)), PoissonSampledGaussian(TWO, TENTH, 20), Gaussian(TWO)]
)
def test_the_library_s_loss_distributions_agree_with_ours_of_it(event: ComposableEvent):
    """Its own accountant of the event, against our second accountant of the books' event: within 1 %."""
    accountant = PLDAccountant()
    accountant.compose(to_dp_event(SelfComposed(event, 5)))
    assert pld_epsilon([event] * 5, 1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-2)  # type: ignore[list-item]


def test_an_event_of_the_books_costs_what_its_composition_does():
    for event in (PoissonSampledGaussian(TWO, TENTH, 50), DiscreteLaplaceVector(Fraction(1, 7), 3, 40)):
        made = composition(event)
        assert isinstance(made, SelfComposed)
        for order in (1.5, *ORDERS):
            assert renyi(event, order) == pytest.approx(renyi(made, order), rel=1e-12)
            assert renyi(event, order) < renyi(SelfComposed(made.event, made.count + 1), order)
    assert composition(Pure(TENTH)) == Pure(TENTH)


def test_compositions_that_are_none_are_refused():
    for count in (0, True, 1.5):
        with pytest.raises(AmountRefused):
            SelfComposed(STEP, count)  # type: ignore[arg-type]
    for probability in (Fraction(0), Fraction(3, 2)):
        with pytest.raises(AmountRefused):
            PoissonSampled(probability, Gaussian(TWO))
