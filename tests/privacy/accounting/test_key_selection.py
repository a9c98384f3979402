"""Selections of keys as events: their failure beside their loss, in claims, caps and filters."""

import json
import math
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.accounting.amounts import ATTO, PICO, AmountRefused, atto_to_text
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus, calculus_from_json
from privacy.accounting.claim import pld_epsilon, release_claim
from privacy.accounting.events import (
    DiscreteGaussian,
    KeySelection,
    Pure,
    UnsupportedEvent,
    ZeroConcentrated,
    entered_failures,
    event_from_json,
    failures,
    key_selection,
)
from privacy.accounting.renyi import best_epsilon, offset, pure_loss, renyi, share
from privacy.accounting.scale import largest_epsilon, scaled
from tasks.verification.recompute.loss import NotRecomputable, recompute, recompute_cap, recompute_failure
from tests.privacy.accounting import test_adaptive

EPSILONS = st.fractions(min_value=Fraction(1, 1000), max_value=5, max_denominator=10**6)
FAILURES = st.integers(min_value=1, max_value=ATTO // 1000)
GROUPS = st.integers(min_value=1, max_value=60)
SELECTION = key_selection(Fraction(1), 10**10, 1)
GAUSSIAN = DiscreteGaussian(Fraction(200), (1,))


@settings(deadline=None)
@given(EPSILONS, FAILURES, GROUPS)
def test_a_selection_costs_what_it_was_planned_for(epsilon: Fraction, failure: int, groups: int):
    """All of the epsilon, at most the failure, and less than 10^-34 below the largest delta that one key may have."""
    event = key_selection(epsilon, failure, groups)
    assert pure_loss(event) == epsilon
    assert event.failure <= Fraction(failure, ATTO) < 1 - (1 - event.delta - Fraction(1, 10**36)) ** groups
    assert failures([event]) <= failure
    assert event.delta >= Fraction(failure, ATTO * groups) - Fraction(1, 10**36)
    assert entered_failures([json.loads(json.dumps(event.to_json()))]) == failures([event])
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_the_product_of_its_coins_keeps_loss_and_failure(groups: int):
    """The worst pair of coins, four outcomes each, composed: its delta at the whole epsilon is the failure."""
    epsilon, delta = 0.7, 1e-3
    kept = (1 - delta) / (1 + math.exp(epsilon))
    one = {"told": (delta, 0.0), "yes": (kept * math.exp(epsilon), kept), "no": (kept, kept * math.exp(epsilon))}
    one["other"] = (0.0, delta)
    for least in (groups * epsilon, (groups - 1) * epsilon):
        true = sum(
            max(0.0, math.prod(p for p, _ in way) - math.exp(least) * math.prod(q for _, q in way))
            for way in product(one.values(), repeat=groups)
        )
        failure = float(KeySelection(Fraction(7, 10), Fraction(1, 1000), groups).failure)
        assert (true == pytest.approx(failure, rel=1e-12)) if least == groups * epsilon else (true > failure)


def test_its_curve_is_that_of_a_pure_step_for_each_key():
    """At every order the bound of randomized response, so often."""
    event = key_selection(Fraction(2), 10**9, 5)
    for order in (1.5, 35.0, 900.0):
        assert renyi(event, order) == pytest.approx(5 * renyi(Pure(Fraction(2, 5)), order), rel=1e-11)


@settings(deadline=None, max_examples=30)
@given(EPSILONS, FAILURES, GROUPS)
def test_a_claim_takes_the_failure_off_its_delta(epsilon: Fraction, failure: int, groups: int):
    """At less delta than the failure there is none; at the failure the pure sum; above, what is left converts."""
    event = key_selection(epsilon, failure, groups)
    least = failures([event])
    with pytest.raises((AmountRefused, UnsupportedEvent)):
        release_claim([event], least - 1)
    assert release_claim([event], least).epsilon == math.ceil(epsilon * PICO)
    twice = [event, GAUSSIAN]
    assert best_epsilon(twice, Fraction(least, ATTO))[0] == math.inf
    rest = Fraction(10**9, ATTO)
    with_rest = best_epsilon(twice, Fraction(least, ATTO) + rest)[0]
    pure = [Pure(event.epsilon)] * groups
    assert with_rest == pytest.approx(best_epsilon([*pure, GAUSSIAN], rest)[0], rel=1e-9)


@settings(deadline=None, max_examples=20)
@given(EPSILONS, FAILURES, GROUPS, st.integers(min_value=0, max_value=10**15))
def test_the_auditor_agrees(epsilon: Fraction, failure: int, groups: int, more: int):
    """Losses, failures and claims by independent code, and none of the enforced ones below."""
    some = [key_selection(epsilon, failure, groups), GAUSSIAN]
    recorded = [json.loads(json.dumps(event.to_json())) for event in some]
    exact = recompute_failure(recorded) * ATTO
    assert 0 <= failures(some) - exact < 1
    delta = failures(some) + more
    result = recompute(recorded, atto_to_text(delta), {"kind": "renyi", "order": "35", "selection_delta": failure})
    assert result.renyi_loss_at_order is not None
    cost = RenyiCalculus(Fraction(35), failure).cost(some)
    assert 0 <= cost - result.renyi_loss_at_order * PICO <= 3 + float(result.renyi_loss_at_order) * PICO / 10**9
    best = best_epsilon(some, Fraction(delta, ATTO))[0]
    assert (result.epsilon_best is None) == (best == math.inf) or more == 0
    if more > 10**3 and result.epsilon_best is not None:
        assert best == pytest.approx(float(result.epsilon_best), rel=1e-6)


@pytest.mark.parametrize(("field", "value"), [("delta", "0"), ("delta", "1"), ("groups", 0), ("groups", 5000)])
def test_the_auditor_refuses_what_is_no_selection(field: str, value: Any):
    """Fields out of range, and a missing one."""
    event = {**SELECTION.to_json(), field: value}
    with pytest.raises(NotRecomputable):
        recompute([event], "1e-6", {"kind": "pure"})
    del event[field]
    with pytest.raises(NotRecomputable):
        recompute([event], "1e-6", {"kind": "pure"})


@pytest.mark.parametrize("calculus", [PureCalculus(10**9), RenyiCalculus(Fraction(35), 10**9)])
def test_a_calculus_with_a_part_set_aside_survives_json(calculus: Calculus):
    """It is one more field; without it the calculus is what it always was."""
    assert calculus_from_json(json.loads(json.dumps(calculus.to_json()))) == calculus
    assert calculus.to_json()["selection_delta"] == 10**9
    assert "selection_delta" not in type(calculus)(*list(vars(calculus).values())[:-1]).to_json()


@pytest.mark.parametrize("units", [0, -1, 10**18, True, "5", 1.5])
def test_a_part_that_is_none_is_refused(units: Any):
    """Nothing set aside has one form, no field; and what is no probability is refused by both who read it."""
    for made in ({"kind": "pure"}, {"kind": "renyi", "order": "35"}):
        with pytest.raises((UnsupportedEvent, AmountRefused)):
            calculus_from_json({**made, "selection_delta": units})
        with pytest.raises(NotRecomputable):
            recompute([], "1e-6", {**made, "selection_delta": units})


@pytest.mark.parametrize("calculus", [PureCalculus(), RenyiCalculus(Fraction(35))])
def test_an_account_that_sets_nothing_aside_has_no_cost_for_it(calculus: Calculus):
    """It is refused by name, alone and among others."""
    with pytest.raises(UnsupportedEvent, match="set aside"):
        calculus.cost([SELECTION])
    with pytest.raises(UnsupportedEvent, match="set aside"):
        calculus.cost([Pure(Fraction(1, 10)), SELECTION])


def test_losses_convert_at_the_rest_of_delta():
    """The cap and the claim are those of an account of the rest; more aside than there is, or all of it, is none."""
    aside, rest = 10**10, 3 * 10**10
    calculus, plain = RenyiCalculus(Fraction(35), aside), RenyiCalculus(Fraction(35))
    assert calculus.cap(PICO, aside + rest) == plain.cap(PICO, rest) < plain.cap(PICO, aside + rest)
    assert calculus.claim(PICO, aside + rest) == plain.claim(PICO, rest) > plain.claim(PICO, aside + rest)
    recomputed = recompute_cap(calculus.cap(PICO, aside + rest), calculus.to_json(), aside + rest)
    assert recomputed is not None
    assert 0 <= PICO - recomputed * PICO <= 2
    for delta in (aside, aside - 1):
        with pytest.raises(AmountRefused):
            calculus.cap(PICO, delta)
    with pytest.raises(AmountRefused):
        PureCalculus(aside).cap(PICO, aside - 1)
    assert PureCalculus(aside).cap(PICO, aside) == PICO


def test_no_budget_pays_for_what_may_fail():
    """A budget for draws that are chosen on the way is a loss, and has no part of delta."""
    for budget in (Pure(Fraction(5)), ZeroConcentrated(Fraction(5))):
        with pytest.raises(UnsupportedEvent):
            share(budget, SELECTION)


def test_other_accountants_do_not_take_it_for_less():
    """No loss distribution is claimed for it."""
    assert pld_epsilon([SELECTION], 1e-6) is None


def test_less_of_it_keeps_its_delta_and_fits():
    """Scaled, its loss shrinks; what still fits an account is found."""
    assert scaled(SELECTION, Fraction(1, 4)) == KeySelection(Fraction(1, 4), SELECTION.delta, 1)
    fits = largest_epsilon([SELECTION], Fraction(10**10, ATTO), PureCalculus(10**10), PICO // 2)
    assert fits == Fraction(1, 2)


# --- the filter with two sums -------------------------------------------------------------------------------------


def delta_of_the_whole(order: float, *, aside: float, converted_at: float) -> float:
    """Compute the true delta at the cap's epsilon of a selection, and then the first and second charge of the filter.
    The selection tells all with probability `aside`, and is a pure step else; who sees its outcome, and that of the
    first charge, chooses the worst second charge that fits at the order, under a cap converted at `converted_at`."""
    pure = 0.05
    told = (1 - aside) * math.exp(pure) / (1 + math.exp(pure)), (1 - aside) / (1 + math.exp(pure))
    charged = pure_divergence(pure, order) + test_adaptive.divergence(*test_adaptive.FIRST, order)
    left = test_adaptive.CAP - offset(order, converted_at) - charged
    p, q = test_adaptive.FIRST
    total = aside
    for one, other in (told, told[::-1]):
        for first, second in ((p, q), (1 - p, 1 - q)):
            loss = math.log(one / other) + math.log(first / second)
            total += one * first * second_charge(order, left, test_adaptive.CAP - loss)
    return total


def pure_divergence(epsilon: float, order: float) -> float:
    chance = 1 / (1 + math.exp(epsilon))
    return test_adaptive.divergence(chance, 1 - chance, order)


def second_charge(order: float, left: float, epsilon: float) -> float:
    """Give the largest hockey-stick divergence, at what epsilon is left, of a two-outcome step that fits."""
    worst = 0.0
    for power in range(120):
        p = 10 ** (-7 + 6.7 * power / 119)
        low, high = math.log(p) - 20, math.log(p)
        for _ in range(60):
            middle = (low + high) / 2
            over = test_adaptive.divergence(p, math.exp(middle), order) > left
            low, high = (middle, high) if over else (low, middle)
        q = math.exp(high)
        price = math.exp(epsilon)
        worst = max(worst, max(0.0, p - price * q) + max(0.0, (1 - p) - price * (1 - q)), 1 - price)
    return worst


@pytest.mark.parametrize("order", test_adaptive.ORDERS)
def test_two_sums_hold_the_cap_and_one_does_not(order: float):
    """A selection that may fail with a third of delta: converted at the rest the whole keeps delta, and not by far.
    The twin, which adds up the losses alone and converts at the whole delta, loses a third more."""
    delta = test_adaptive.DELTA
    held = delta_of_the_whole(order, aside=delta / 3, converted_at=delta * 2 / 3)
    assert 0.8 * delta < held <= delta
    assert delta_of_the_whole(order, aside=delta / 3, converted_at=delta) > 1.1 * delta
