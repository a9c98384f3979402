"""Losses add up in each calculus, and the scale of noise is calibrated to a loss, always against the spender."""

import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privacy.accounting.amounts import ATTO, LARGEST, PICO, AmountRefused
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus, best_order, calculus_from_json
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
from privacy.accounting.renyi import best_epsilon, epsilon_at, pure_loss, renyi, rho_for
from privacy.accounting.scale import largest_epsilon, scaled

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
def test_the_pure_calculus_is_the_identity(epsilon: int, delta: int):
    """Cap and claim change nothing, whatever delta is."""
    assert PureCalculus().cap(epsilon, delta) == PureCalculus().claim(epsilon, delta) == epsilon
    assert PureCalculus().claim(0, 0) == 0


@settings(deadline=None)
@given(orders, amounts, deltas)
def test_the_claim_of_a_full_account_is_its_cap(order: Fraction, epsilon: int, delta: int):
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
def test_the_cap_of_a_claim_is_what_was_spent(order: Fraction, spent: int, delta: int):
    """cap(claim(spent)) is spent exactly, wherever the claim is positive."""
    calculus = RenyiCalculus(order)
    claim = calculus.claim(spent, delta)
    assume(0 < claim <= LARGEST * PICO)
    assert calculus.cap(claim, delta) == spent


@settings(deadline=None)
@given(orders, amounts, amounts, deltas)
def test_claims_are_monotone_and_cover_the_conversion(order: Fraction, one: int, other: int, delta: int):
    """More spent never claims less; the claim is at least the plain conversion, to within its last digits."""
    calculus = RenyiCalculus(order)
    less, more = sorted((one, other))
    assert 0 <= calculus.claim(less, delta) <= calculus.claim(more, delta)
    converted = epsilon_at(float(order), less / PICO, Fraction(delta, ATTO))
    assert calculus.claim(less, delta) >= Fraction(converted) * PICO - 2 - Fraction(converted) * PICO / 10**11


def test_nothing_spent_claims_nothing():
    """An account that has lost nothing says zero."""
    assert RenyiCalculus(Fraction(8)).claim(0, NANO) == 0


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(orders, st.lists(events, max_size=5), st.lists(events, max_size=5))
def test_costs_are_additive_and_know_no_order(order: Fraction, one: list[PrivacyEvent], other: list[PrivacyEvent]):
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
def test_a_cost_is_never_below_the_loss(order: Fraction, some: list[PrivacyEvent]):
    """Rounded up, by at most one unit an event."""
    losses = [Fraction(renyi(event, float(order))) for event in some]
    assume(sum(losses) < LARGEST - 1)
    assert 0 <= RenyiCalculus(order).cost(some) - sum(losses) * PICO <= len(some)


@settings(deadline=None)
@given(st.lists(pure_events, max_size=5))
def test_a_pure_cost_is_never_below_the_exact_sum(some: list[PrivacyEvent]):
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
def test_an_infinite_loss_is_refused_by_name(event: PrivacyEvent):
    """A pure account has no room for Gaussian noise, and the refusal names both."""
    with pytest.raises(UnsupportedEvent, match=rf"{event.kind} .* pure calculus; allowed: .* delta"):
        PureCalculus().cost([event])


def test_a_sum_that_no_account_could_hold_is_refused():
    """Costs stay inside 64-bit columns."""
    with pytest.raises(AmountRefused, match="sum of losses"):
        PureCalculus().cost([Pure(Fraction(600_000))] * 2)


@pytest.mark.parametrize("calculus", [PureCalculus(), RenyiCalculus(Fraction(8))])
@pytest.mark.parametrize("amount", [-1, 1.0, True, "1", 10**19, None])
def test_amounts_are_integers_in_range(calculus: Any, amount: Any):
    """Nothing but an int of the right size is taken, in either place."""
    for call in (calculus.cap, calculus.claim):
        with pytest.raises(AmountRefused):
            call(amount, NANO)
        with pytest.raises(AmountRefused):
            call(PICO, amount)
    with pytest.raises(AmountRefused):
        calculus.cap(0, NANO)


def test_a_renyi_account_needs_a_delta():
    """At delta zero a Rényi loss bounds nothing."""
    for call in (RenyiCalculus(Fraction(8)).cap, RenyiCalculus(Fraction(8)).claim):
        with pytest.raises(AmountRefused, match="delta"):
            call(PICO, 0)


def test_an_order_at_which_nothing_fits_is_refused_with_the_numbers():
    """Order 2 at delta 1e-9 adds about 19.3 to every loss: a cap of one has no room."""
    with pytest.raises(AmountRefused, match=r"order is 2; allowed: .* epsilon 1$"):
        RenyiCalculus(Fraction(2)).cap(PICO, NANO)


@pytest.mark.parametrize(
    "order", [Fraction(1), Fraction(0), Fraction(-2), 8, 8.0, Fraction(10**6 + 1), "8", Fraction(10**16 + 1, 10**16)]
)
def test_an_order_out_of_range_is_refused(order: Any):
    """Orders are Fractions from 1.001 to a million."""
    with pytest.raises(AmountRefused, match="order"):
        RenyiCalculus(order)


@pytest.mark.long
@settings(deadline=None)
@given(orders)
def test_a_calculus_survives_json(order: Fraction):
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
def test_json_of_another_form_is_refused(data: Any):
    """Unknown kinds and fields are not guessed at."""
    with pytest.raises(UnsupportedEvent, match="allowed"):
        calculus_from_json(data)


@pytest.mark.parametrize("delta", ["1e-6", "1e-12"])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "100"])
@pytest.mark.parametrize("moves", [(1,), (7, 7)])
@pytest.mark.parametrize("draws", [1, 3, 4000])
def test_a_release_of_an_accounts_whole_cap_fits_it(epsilon: str, delta: str, moves: tuple[int, ...], draws: int):
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
def test_a_laplace_release_of_a_pure_accounts_whole_cap_fits_it(moves: tuple[int, ...], parts: int):
    """Shares rounded down to whole units, then calibrated, cost together at most the cap."""
    share = Fraction(PICO // parts, PICO)
    draws = [DiscreteLaplace(laplace_inverse_scale(share, moves), moves)] * parts
    cost = PureCalculus().cost(draws)
    assert PICO - 2 * parts <= cost <= PureCalculus().cap(PICO, 0)


def test_one_order_is_nearly_the_best_of_all_for_what_it_was_chosen_for():
    """For Gaussian noise that fills an account at its order, the best of all orders claims at most 0.1 % less."""
    order = best_order(1, Fraction(1, 10**9))
    calculus = RenyiCalculus(order)
    draws = [DiscreteGaussian(gaussian_sigma_squared(rho_for(1, Fraction(1, 10**9)) / 10, (1,)), (1,))] * 10
    claimed = calculus.claim(calculus.cost(draws), NANO) / PICO
    best, _ = best_epsilon(draws, Fraction(1, 10**9))
    assert best <= claimed <= best * 1.001


def test_every_interleaving_of_charges_stays_under_the_cap():
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


losses = st.fractions(min_value=Fraction(1, 10**6), max_value=1000)
moves = st.lists(st.integers(min_value=-20, max_value=20).filter(bool), min_size=1, max_size=4).map(tuple)


@settings(deadline=None)
@given(losses, moves)
def test_laplace_noise_costs_at_most_epsilon_and_nearly_all_of_it(epsilon: Fraction, change: tuple[int, ...]):
    """The inverse scale is rounded down, by less than 10^-18."""
    inverse_scale = laplace_inverse_scale(epsilon, change)
    reach = sum(map(abs, change))
    loss = pure_loss(DiscreteLaplace(inverse_scale, change))
    assert loss is not None
    assert 0 <= epsilon - loss < Fraction(reach, ATTO)


@settings(deadline=None)
@given(losses, moves)
def test_gaussian_noise_costs_at_most_rho_and_nearly_all_of_it(rho: Fraction, change: tuple[int, ...]):
    """sigma^2 is rounded up, by less than 10^-12."""
    sigma_squared = gaussian_sigma_squared(rho, change)
    squares = sum(move * move for move in change)
    assert squares / (2 * sigma_squared) <= rho
    assert squares / (2 * (sigma_squared - Fraction(1, PICO))) > rho


def test_the_sensitivities_are_those_of_the_adjacencies():
    """k rows: L1 k and 2k, L2 k and sqrt(2) k."""
    assert laplace_inverse_scale(Fraction(1), (3,)) == Fraction(ATTO // 3, ATTO)
    assert laplace_inverse_scale(Fraction(1), (2, 2)) == Fraction(1, 4)
    assert gaussian_sigma_squared(Fraction(1, 2), (3,)) == 9
    assert gaussian_sigma_squared(Fraction(1, 2), (3, 3)) == 18


@pytest.mark.parametrize("loss", [Fraction(0), Fraction(-1), float("nan"), float("inf"), True])
@pytest.mark.parametrize("calibrate", [laplace_inverse_scale, gaussian_sigma_squared])
def test_a_loss_that_is_none_is_refused(calibrate: Any, loss: Any):
    """No noise is calibrated to nothing."""
    with pytest.raises(AmountRefused):
        calibrate(loss, (1,))


@pytest.mark.parametrize("change", [(), (0,)])
@pytest.mark.parametrize("calibrate", [laplace_inverse_scale, gaussian_sigma_squared])
def test_moves_that_move_nothing_are_refused(calibrate: Any, change: Any):
    """A sensitivity of zero would mean no noise at all."""
    with pytest.raises(AmountRefused, match="moves"):
        calibrate(Fraction(1), change)


def test_a_loss_too_small_for_its_moves_is_refused():
    """An inverse scale that rounds to zero is no noise that exists."""
    with pytest.raises(AmountRefused, match="1e-18"):
        laplace_inverse_scale(Fraction(1, 10**12), (10**9,))


DELTA = Fraction(1, 10**9)
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
def test_a_scaled_event_is_the_same_draw_with_its_parameter_multiplied(event: PrivacyEvent, factor: Fraction):
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
def test_more_of_a_factor_never_costs_less(event: PrivacyEvent, factor: Fraction, order: float):
    """Monotone, and factor one costs no more than the event itself."""
    less, more = renyi(scaled(event, factor), order), renyi(scaled(event, factor * Fraction(3, 2)), order)
    assert less <= more * (1 + 1e-11)
    assert renyi(scaled(event, Fraction(1)), order) <= renyi(event, order) * (1 + 1e-11)


@pytest.mark.parametrize("factor", [Fraction(0), Fraction(-1), Fraction(10**9)], ids=str)
def test_a_factor_that_is_none_or_leads_out_of_range_is_refused(factor: Fraction):
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
):
    """Whatever was asked for first: the answer fits what is left, and 2 % more does not."""
    remaining = math.floor(cap * left)
    answer = largest_epsilon(plan(epsilon, weights), DELTA, calculus, remaining)
    assert answer is not None
    assert len(str(answer.numerator * 10**12 // answer.denominator).rstrip("0")) <= 4
    assert calculus.cost(plan(answer, weights)) <= remaining
    assert calculus.cost(plan(answer * Fraction(102, 100), weights)) > remaining


def test_a_whole_account_fits_exactly():
    """An untouched account of epsilon one says one, and not 0.9999."""
    assert largest_epsilon(laplace_plan(Decimal(3), [1, 1, 1]), 0, PureCalculus(), PICO) == 1
    assert largest_epsilon(gaussian_plan(Decimal(3), [1, 1, 1]), DELTA, ACCOUNT, CAP) == 1
    assert largest_epsilon([ExponentialMechanism(Fraction(1, 3))] * 3, 0, PureCalculus(), PICO) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "events",
    [[KINDS[6]] * 3, [PoissonSampledGaussian(Fraction(5), Fraction(1, 10), 2000)], [KINDS[2], KINDS[4], KINDS[6]]],
)
def test_sampled_and_mixed_lists_are_scaled_as_they_are(events: list[PrivacyEvent]):
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


def test_where_nothing_fits_it_says_none():
    """No room, or no delta for noise that has no pure loss."""
    assert largest_epsilon([KINDS[2]], 0, PureCalculus(), 0) is None
    assert largest_epsilon([KINDS[2]], 0, PureCalculus(), 10**6 - 1) is None
    assert largest_epsilon([KINDS[2]], 0, PureCalculus(), 10**6) == Fraction(1, 10**6)
    assert largest_epsilon([KINDS[6]], DELTA, ACCOUNT, 0) is None
    for event in (KINDS[1], KINDS[6]):
        assert largest_epsilon([event], 0, ACCOUNT, CAP) is None


def test_what_no_scale_can_fit_is_refused_by_name():
    """Gaussian noise in a pure account, and a plan without events."""
    for event in (KINDS[1], KINDS[6]):
        with pytest.raises(UnsupportedEvent, match=event.kind):
            largest_epsilon([event], DELTA, PureCalculus(), PICO)
    with pytest.raises(AmountRefused, match="events"):
        largest_epsilon([], DELTA, ACCOUNT, PICO)
