"""Calculi: integer filters whose cap and claim are inverse and never in the spender's favour."""

from __future__ import annotations

import itertools
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privacy.accounting.amounts import ATTO, LARGEST, PICO, AmountRefused
from privacy.accounting.calculus import PureCalculus, RenyiCalculus, best_order, calculus_from_json
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
from privacy.accounting.renyi import best_epsilon, epsilon_at, renyi, rho_for

NANO = ATTO // 10**9
amounts = st.integers(min_value=1, max_value=1000 * PICO)
deltas = st.integers(min_value=1, max_value=ATTO - 1)
orders = st.fractions(min_value=Fraction(1001, 1000), max_value=10**6, max_denominator=10**6)
scales = st.fractions(min_value=Fraction(1, 10**6), max_value=20)
pure_events = st.one_of(
    st.builds(Pure, scales),
    st.builds(DiscreteLaplace, scales, st.sampled_from([(1,), (1, 1), (3,), (3, 3)])),
    st.builds(ExponentialMechanism, scales),
)
events = st.one_of(
    pure_events,
    st.builds(ZeroConcentrated, scales),
    st.builds(DiscreteGaussian, scales, st.sampled_from([(1,), (1, 1), (3,), (3, 3)])),
    st.builds(Gaussian, scales),
    st.builds(
        PoissonSampledGaussian,
        st.fractions(min_value=Fraction(1, 2), max_value=20, max_denominator=100),
        st.fractions(min_value=Fraction(1, 1000), max_value=1, max_denominator=1000),
        st.integers(min_value=1, max_value=1000),
    ),
)


@settings(deadline=None)
@given(amounts, deltas)
def test_the_pure_calculus_is_the_identity(epsilon: int, delta: int) -> None:
    """Cap and claim change nothing, whatever delta is."""
    assert PureCalculus().cap(epsilon, delta) == PureCalculus().claim(epsilon, delta) == epsilon
    assert PureCalculus().claim(0, 0) == 0


@settings(deadline=None)
@given(orders, amounts, deltas)
def test_the_claim_of_a_full_account_is_its_cap(order: Fraction, epsilon: int, delta: int) -> None:
    """claim(cap(epsilon)) is epsilon exactly, or cap refuses because nothing fits; one unit more claims more."""
    calculus = RenyiCalculus(order)
    try:
        cap = calculus.cap(epsilon, delta)
    except AmountRefused:
        assert calculus.claim(1, delta) > epsilon
        return
    assume(cap < LARGEST * PICO)
    assert cap >= 1
    assert calculus.claim(cap, delta) == epsilon
    assert calculus.claim(cap + 1, delta) > epsilon


@settings(deadline=None)
@given(orders, amounts, deltas)
def test_the_cap_of_a_claim_is_what_was_spent(order: Fraction, spent: int, delta: int) -> None:
    """cap(claim(spent)) is spent exactly, wherever the claim is positive."""
    calculus = RenyiCalculus(order)
    claim = calculus.claim(spent, delta)
    assume(0 < claim <= LARGEST * PICO)
    assert calculus.cap(claim, delta) == spent


@settings(deadline=None)
@given(orders, amounts, amounts, deltas)
def test_claims_are_monotone_and_cover_the_conversion(order: Fraction, one: int, other: int, delta: int) -> None:
    """More spent never claims less; the claim is at least the plain conversion, to within its last digits."""
    calculus = RenyiCalculus(order)
    less, more = sorted((one, other))
    assert 0 <= calculus.claim(less, delta) <= calculus.claim(more, delta)
    converted = epsilon_at(float(order), less / PICO, Fraction(delta, ATTO))
    assert calculus.claim(less, delta) >= Fraction(converted) * PICO - 2 - Fraction(converted) * PICO / 10**11


def test_nothing_spent_claims_nothing() -> None:
    """An account that has lost nothing says zero."""
    assert RenyiCalculus(Fraction(8)).claim(0, NANO) == 0


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(orders, st.lists(events, max_size=5), st.lists(events, max_size=5))
def test_costs_are_additive_and_know_no_order(
    order: Fraction, one: list[PrivacyEvent], other: list[PrivacyEvent]
) -> None:
    """The cost of a list is the sum of its parts' costs, in every order: a grant that counts draws agrees."""
    calculus = RenyiCalculus(order)
    try:
        whole = calculus.cost([*one, *other])
    except AmountRefused:
        assume(False)
    assert whole == calculus.cost([*other, *one]) == calculus.cost(one) + calculus.cost(other)
    assert whole == sum(calculus.cost([event]) for event in [*one, *other])
    assert whole >= len(one) + len(other)


@settings(max_examples=60, deadline=None)
@given(orders, st.lists(events, min_size=1, max_size=5))
def test_a_cost_is_never_below_the_loss(order: Fraction, some: list[PrivacyEvent]) -> None:
    """Rounded up, by at most one unit an event."""
    losses = [Fraction(renyi(event, float(order))) for event in some]
    assume(sum(losses) < LARGEST - 1)
    assert 0 <= RenyiCalculus(order).cost(some) - sum(losses) * PICO <= len(some)


@settings(deadline=None)
@given(st.lists(pure_events, max_size=5))
def test_a_pure_cost_is_never_below_the_exact_sum(some: list[PrivacyEvent]) -> None:
    """Pure losses are exact rationals, rounded up by at most one unit each."""
    exact = sum(
        (
            event.epsilon
            if isinstance(event, Pure | ExponentialMechanism)
            else event.inverse_scale * sum(event.moves)  # type: ignore[union-attr]
            for event in some
        ),
        Fraction(0),
    )
    assert 0 <= PureCalculus().cost(some) - exact * PICO <= len(some)


@pytest.mark.parametrize(
    "event",
    [
        DiscreteGaussian(Fraction(1), (1,)),
        ZeroConcentrated(Fraction(1)),
        Gaussian(Fraction(1)),
        PoissonSampledGaussian(Fraction(1), Fraction(1, 100), 10),
    ],
    ids=lambda event: event.kind,
)
def test_an_infinite_loss_is_refused_by_name(event: PrivacyEvent) -> None:
    """A pure account has no room for Gaussian noise, and the refusal names both."""
    with pytest.raises(UnsupportedEvent, match=rf"{event.kind} .* pure calculus; allowed: .* delta"):
        PureCalculus().cost([event])


def test_a_sum_that_no_account_could_hold_is_refused() -> None:
    """Costs stay inside 64-bit columns."""
    with pytest.raises(AmountRefused, match="sum of losses"):
        PureCalculus().cost([Pure(Fraction(600_000))] * 2)


@pytest.mark.parametrize("calculus", [PureCalculus(), RenyiCalculus(Fraction(8))])
@pytest.mark.parametrize("amount", [-1, 1.0, True, "1", 10**19, None])
def test_amounts_are_integers_in_range(calculus: Any, amount: Any) -> None:
    """Nothing but an int of the right size is taken, in either place."""
    for call in (calculus.cap, calculus.claim):
        with pytest.raises(AmountRefused):
            call(amount, NANO)
        with pytest.raises(AmountRefused):
            call(PICO, amount)
    with pytest.raises(AmountRefused):
        calculus.cap(0, NANO)


def test_a_renyi_account_needs_a_delta() -> None:
    """At delta zero a Rényi loss bounds nothing."""
    for call in (RenyiCalculus(Fraction(8)).cap, RenyiCalculus(Fraction(8)).claim):
        with pytest.raises(AmountRefused, match="delta"):
            call(PICO, 0)


def test_an_order_at_which_nothing_fits_is_refused_with_the_numbers() -> None:
    """Order 2 at delta 1e-9 adds about 19.3 to every loss: a cap of one has no room."""
    with pytest.raises(AmountRefused, match=r"order is 2; allowed: .* epsilon 1$"):
        RenyiCalculus(Fraction(2)).cap(PICO, NANO)


@pytest.mark.parametrize(
    "order", [Fraction(1), Fraction(0), Fraction(-2), 8, 8.0, Fraction(10**6 + 1), "8", Fraction(10**16 + 1, 10**16)]
)
def test_an_order_out_of_range_is_refused(order: Any) -> None:
    """Orders are Fractions from 1.001 to a million."""
    with pytest.raises(AmountRefused, match="order"):
        RenyiCalculus(order)


@pytest.mark.long
@settings(deadline=None)
@given(orders)
def test_a_calculus_survives_json(order: Fraction) -> None:
    """Written and read back it is equal."""
    for calculus in (PureCalculus(), RenyiCalculus(order)):
        assert calculus_from_json(calculus.to_json()) == calculus


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "zcdp"},
        {"kind": "pure", "order": "2"},
        {"kind": "renyi"},
        {"kind": "renyi", "order": 2},
        {"kind": "renyi", "order": "2.5"},
        {"kind": "renyi", "order": "2/0"},
        {"kind": "renyi", "order": "2", "delta": "0"},
        None,
        "pure",
    ],
    ids=str,
)
def test_json_of_another_form_is_refused(data: Any) -> None:
    """Unknown kinds and fields are not guessed at."""
    with pytest.raises(UnsupportedEvent, match="allowed"):
        calculus_from_json(data)


@pytest.mark.parametrize("delta", ["1e-6", "1e-12"])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "100"])
@pytest.mark.parametrize("moves", [(1,), (7, 7)])
@pytest.mark.parametrize("draws", [1, 3, 4000])
def test_a_release_of_an_accounts_whole_cap_fits_it(
    epsilon: str, delta: str, moves: tuple[int, ...], draws: int
) -> None:
    """Gaussian noise calibrated to the cap's (epsilon, delta), in uneven draws, fills 99.99 % of it and fits."""
    cap_epsilon, cap_delta = Decimal(epsilon), Decimal(delta)
    calculus = RenyiCalculus(best_order(cap_epsilon, cap_delta))
    cap = calculus.cap(int(cap_epsilon * PICO), int(cap_delta * ATTO))
    share = rho_for(cap_epsilon, cap_delta) / (draws * (draws + 1) // 2)
    variances = [gaussian_sigma_squared(share * (draw + 1), moves) for draw in range(draws)]
    cost = calculus.cost([DiscreteGaussian(variance, moves) for variance in variances])
    assert cost <= cap
    assert cost >= cap * 0.9999


@pytest.mark.parametrize("moves", [(1,), (1, 1), (7,), (7, 7)])
@pytest.mark.parametrize("parts", [1, 3, 7])
def test_a_laplace_release_of_a_pure_accounts_whole_cap_fits_it(moves: tuple[int, ...], parts: int) -> None:
    """Shares rounded down to whole units, then calibrated, cost together at most the cap."""
    share = Fraction(PICO // parts, PICO)
    draws = [DiscreteLaplace(laplace_inverse_scale(share, moves), moves)] * parts
    cost = PureCalculus().cost(draws)
    assert PICO - 2 * parts <= cost <= PureCalculus().cap(PICO, 0)


def test_one_order_is_nearly_the_best_of_all_for_what_it_was_chosen_for() -> None:
    """For Gaussian noise that fills an account at its order, the best of all orders claims at most 0.1 % less."""
    order = best_order(1, Fraction(1, 10**9))
    calculus = RenyiCalculus(order)
    draws = [DiscreteGaussian(gaussian_sigma_squared(rho_for(1, Fraction(1, 10**9)) / 10, (1,)), (1,))] * 10
    claimed = calculus.claim(calculus.cost(draws), NANO) / PICO
    best, _ = best_epsilon(draws, Fraction(1, 10**9))
    assert best <= claimed <= best * 1.001


def test_every_interleaving_of_charges_stays_under_the_cap() -> None:
    """The filter's arithmetic: whatever is admitted while the sum stays within the cap claims at most epsilon."""
    calculus = RenyiCalculus(best_order(1, Fraction(1, 10**9)))
    cap = calculus.cap(PICO, NANO)
    offers = [Pure(Fraction(1, 20)), ZeroConcentrated(Fraction(1, 300)), DiscreteLaplace(Fraction(1, 10), (1,))] * 2
    for sequence in set(itertools.permutations(offers)):
        spent = 0
        for event in sequence * 3:
            cost = calculus.cost([event])
            spent += cost if spent + cost <= cap else 0
        assert spent <= cap
        assert calculus.claim(spent, NANO) <= PICO
