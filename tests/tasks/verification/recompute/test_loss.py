"""The auditor's recomputation: independent of the accountant, in agreement with it, bounded, sensitive to changes."""

import ast
import copy
import json
import math
import time
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from privacy.accounting.amounts import ATTO, PICO, AmountRefused, atto_to_text
from privacy.accounting.calculus import Calculus, PureCalculus, RenyiCalculus
from privacy.accounting.claim import pld_epsilon
from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    PoissonSampledGaussian,
    PrivacyEvent,
    Pure,
    ZeroConcentrated,
)
from privacy.accounting.renyi import best_epsilon, pure_total
from tasks.verification.recompute import decimal_curves, event_forms, loss_inversion
from tasks.verification.recompute import loss as module
from tasks.verification.recompute.adaptive_budget import check_budget
from tasks.verification.recompute.event_forms import MOST_TERMS, TooMuchWork, bounded, exact_sum, spend
from tasks.verification.recompute.loss import NotRecomputable, Recomputed, recompute
from tasks.verification.recompute.loss_inversion import delta_at

PURE, RENYI = {"kind": "pure"}, {"kind": "renyi", "order": "35"}
scales = st.one_of(
    st.fractions(min_value=Fraction(1, 10**9), max_value=20),
    st.sampled_from([Fraction(1, 10**9), Fraction(1, 10**5), Fraction(1, 10), Fraction(1), Fraction(1000)]),
)
moves = st.sampled_from([(1,), (-1,), (1, 1), (3,), (3, 3), (2, -5), (40, 40)])
events = st.one_of(
    st.builds(Pure, scales),
    st.builds(ZeroConcentrated, scales),
    st.builds(DiscreteLaplace, scales, moves),
    st.builds(DiscreteGaussian, scales, moves),
    st.builds(Gaussian, st.fractions(min_value=Fraction(1, 100), max_value=10**6)),
    st.builds(ExponentialMechanism, scales),
)
sampled = st.builds(
    PoissonSampledGaussian,
    st.floats(min_value=-0.5, max_value=3).map(lambda power: Fraction(10**power).limit_denominator(1000)),
    st.floats(min_value=-8, max_value=0).map(lambda power: Fraction(10**power).limit_denominator(10**10)),
    st.sampled_from([1, 500, 10**6]),
)
orders = st.fractions(min_value=Fraction(1001, 1000), max_value=10**4, max_denominator=1000)
SAMPLED = {"kind": "poisson_sampled_gaussian", "noise_multiplier": "2", "sampling_probability": "1/100", "steps": 100}
EXAMPLE: list[dict[str, Any]] = [
    {"kind": "discrete_laplace", "inverse_scale": "1/10", "moves": [1, 1]},
    {"kind": "discrete_gaussian", "sigma_squared": "50", "moves": [3]},
    {"kind": "pure", "epsilon": "1/4"},
    {"kind": "zero_concentrated", "rho": "1/100"},
    {"kind": "gaussian", "noise_multiplier": "10"},
    {"kind": "exponential_mechanism", "epsilon": "1/5"},
    SAMPLED,
]


def recorded(some: list[PrivacyEvent]) -> list[dict[str, Any]]:
    """Send events through a file's text."""
    return json.loads(json.dumps([event.to_json() for event in some]))


@cache
def untampered() -> Recomputed:
    return recompute(EXAMPLE, "1e-9", RENYI)


def test_it_shares_no_code_with_the_accountant():
    """Of our own modules it imports errors, the table of packages, and its own parts; no library of numerics."""
    imported: set[str | None] = set()
    for part in (module, decimal_curves, event_forms):
        tree = ast.parse(Path(part.__file__).read_text("utf-8"))
        imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    ours = {name for name in imported if name and name.split(".")[0] in {"privacy", "contracts", "tasks", "flows"}}
    own = {f"tasks.verification.recompute.{name}" for name in ("decimal_curves", "event_forms")}
    assert ours == {"contracts.errors", "contracts.plug_ins", *own}
    assert not {"math", "numpy", "scipy", "mpmath"} & imported


@settings(max_examples=25, deadline=None)
@given(st.lists(events, min_size=1, max_size=4), orders, st.integers(min_value=1, max_value=ATTO // 2))
def test_the_two_computations_agree(some: list[PrivacyEvent], order: Fraction, delta: int):
    """Pure sums exactly; Rényi losses, claims and best epsilons within 10^-9, and the enforced ones never below."""
    calculus = RenyiCalculus(order)
    try:
        cost = calculus.cost(some)
    except AmountRefused:
        assume(False)
    result = recompute(recorded(some), atto_to_text(delta), calculus.to_json())
    assert result.pure_epsilon == pure_total(some)
    assert result.renyi_loss_at_order is not None
    assert result.epsilon_at_order is not None
    assert result.epsilon_best is not None
    # One unit for the rounding of each event, one for the offset's.
    units, loss = Decimal(len(some) + 1), result.renyi_loss_at_order
    assert 0 <= cost - loss * PICO <= units + loss * PICO / 10**9
    claim = calculus.claim(cost, delta)
    # -log(delta) is at most 42 for a whole number of 10^-18.
    terms = loss + 42 / (Decimal(float(order)) - 1)
    assert 0 <= claim - result.epsilon_at_order * PICO <= units + terms * PICO / 10**9
    best, _ = best_epsilon(some, Fraction(delta, ATTO))
    assert best == pytest.approx(float(result.epsilon_best), rel=1e-9, abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(sampled, st.floats(min_value=-3, max_value=6))
def test_the_sampled_gaussian_is_recomputed_at_any_order(event: PoissonSampledGaussian, log_order: float):
    """Lattice sums in doubles and Gauss's rule in decimals: never below, above by less than a relative 10^-9."""
    calculus = RenyiCalculus(min(1 + Fraction(10**log_order).limit_denominator(10**6), Fraction(10**6)))
    try:
        cost = calculus.cost([event])
    except AmountRefused:
        assume(False)
    loss = recompute(recorded([event]), "0", calculus.to_json()).renyi_loss_at_order
    assert loss is not None
    assert 0 <= cost - loss * PICO <= 1 + loss * PICO / 10**9


@settings(max_examples=6, deadline=None)
@given(st.lists(sampled, min_size=1, max_size=2), st.sampled_from([6, 9]))
def test_the_best_orders_of_sampled_gaussians_agree(some: list[PrivacyEvent], digits: int):
    """Two searches over two computations of the curve: the same least epsilon within 10^-9."""
    best, _ = best_epsilon(some, Fraction(1, 10**digits))
    result = recompute(recorded(some), f"1e-{digits}", RENYI)
    assert result.epsilon_best is not None
    assert best == pytest.approx(float(result.epsilon_best), rel=1e-9, abs=1e-12)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(events, st.sampled_from([1, 3, 30])), min_size=1, max_size=4), st.integers(2, 17))
def test_ten_times_as_many_orders_find_no_lesser_epsilon(some: list[tuple[PrivacyEvent, int]], digits: int):
    """A least of two bounds has a kink, and its conversion may have more than one dip: none is missed."""
    told = recorded([event for event, times in some for _ in range(times)])
    found = recompute(told, f"1e-{digits}", RENYI).epsilon_best
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PER_DECADE", 10 * module._PER_DECADE)
        finest = recompute(told, f"1e-{digits}", RENYI).epsilon_best
    assert found is not None
    assert finest is not None
    assert found <= finest * (1 + Decimal("1e-9")) + Decimal("1e-12")


@pytest.mark.long
def test_a_list_with_dp_sgd_is_recomputed_in_a_second_or_two():
    """The auditor waits for decimals, but not long."""
    start = time.process_time()
    recompute([SAMPLED] * 20 + EXAMPLE, "1e-9", RENYI)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("delta", ["0", "1e-9"])
def test_the_pure_calculus_is_recomputed_exactly(delta: str):
    """A sum of rationals, to the last digit; the accountant's cost covers it."""
    some: list[PrivacyEvent] = [Pure(Fraction(1, 3)), DiscreteLaplace(Fraction(1, 7), (2, -2))]
    result = recompute(recorded(some), delta, PureCalculus().to_json())
    assert result.pure_epsilon == Fraction(19, 21)
    assert result.renyi_loss_at_order is None
    assert result.epsilon_at_order == result.epsilon_best or delta != "0"
    assert 0 <= PureCalculus().cost(some) - Fraction(19, 21) * PICO <= 2


def test_infinite_losses_are_none():
    """A Gaussian has no pure sum, and nothing at delta zero."""
    result = recompute([EXAMPLE[1]], "0", PURE)
    assert result.pure_epsilon is result.epsilon_at_order is result.epsilon_best is None
    assert recompute([EXAMPLE[1]], "0", RENYI).epsilon_at_order is None


@pytest.mark.parametrize("calculus", [PureCalculus(), RenyiCalculus(Fraction(8))])
def test_no_events_cost_nothing(calculus: Calculus):
    """An empty record is zero in every figure."""
    result = recompute([], "1e-9", calculus.to_json())
    assert (result.pure_epsilon, result.epsilon_at_order, result.epsilon_best) == (0, 0, 0)


def test_a_wide_move_is_summed_as_a_series():
    """Beyond 4,096 cells' steps the sum is a geometric series, in agreement with the term by term sum's neighbour."""
    near, far = (
        recompute([{"kind": "discrete_laplace", "inverse_scale": "1/1000000", "moves": [move]}], "1e-9", RENYI)
        for move in (4096, 4097)
    )
    assert near.renyi_loss_at_order is not None
    assert far.renyi_loss_at_order is not None
    step = far.renyi_loss_at_order / near.renyi_loss_at_order
    assert 1 < step < Decimal("1.001")
    ours = RenyiCalculus(Fraction(35)).cost([DiscreteLaplace(Fraction(1, 10**6), (4097,))])
    assert 0 <= ours - far.renyi_loss_at_order * PICO < 2


TAMPERINGS = [
    (0, "inverse_scale", "1/11"),
    (0, "inverse_scale", "100000000000000001/1000000000000000000"),
    (0, "moves", [1]),
    (0, "moves", [1, 2]),
    (1, "sigma_squared", "51"),
    (1, "moves", [2]),
    (2, "epsilon", "251/1000"),
    (3, "rho", "99/10000"),
    (4, "noise_multiplier", "11"),
    (5, "epsilon", "1/6"),
    (6, "noise_multiplier", "201/100"),
    (6, "sampling_probability", "101/10000"),
    (6, "steps", 101),
]


@pytest.mark.parametrize(("place", "field", "value"), TAMPERINGS)
def test_a_tampered_event_changes_the_result(place: int, field: str, value: Any):
    """Any field of any event: the loss at the order and the best epsilon move."""
    tampered = copy.deepcopy(EXAMPLE)
    tampered[place][field] = value
    before, after = untampered(), recompute(tampered, "1e-9", RENYI)
    assert before.renyi_loss_at_order != after.renyi_loss_at_order
    assert before.epsilon_at_order != after.epsilon_at_order
    assert before.epsilon_best != after.epsilon_best


@pytest.mark.long
def test_a_removed_or_doubled_event_changes_the_result():
    """So does the length of the list, the delta, and the order."""
    before = untampered()
    others = [
        *(recompute(EXAMPLE[:place] + EXAMPLE[place + 1 :], "1e-9", RENYI) for place in range(len(EXAMPLE))),
        recompute([*EXAMPLE, EXAMPLE[0]], "1e-9", RENYI),
        recompute(EXAMPLE, "2e-9", RENYI),
        recompute(EXAMPLE, "1e-9", {"kind": "renyi", "order": "36"}),
    ]
    assert all(other.epsilon_at_order != before.epsilon_at_order for other in others)
    assert recompute(EXAMPLE[::-1], "1e-9", RENYI).epsilon_at_order == pytest.approx(before.epsilon_at_order)


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "mystery"},
        {"kind": "pure"},
        {"kind": "pure", "epsilon": "0"},
        {"kind": "pure", "epsilon": "-1"},
        {"kind": "pure", "epsilon": 1},
        {"kind": "pure", "epsilon": "nan"},
        {"kind": "pure", "epsilon": "1", "note": "free"},
        {"kind": "pure", "epsilon": "1", "moves": [1]},
        {"kind": "discrete_laplace", "inverse_scale": "1", "moves": []},
        {"kind": "discrete_laplace", "inverse_scale": "1", "moves": [0]},
        {"kind": "discrete_laplace", "inverse_scale": "1", "moves": [0.5]},
        {"kind": "discrete_laplace", "inverse_scale": "1", "moves": [True]},
        {"kind": "discrete_laplace", "inverse_scale": "1", "moves": "1"},
        {"kind": ["pure"], "epsilon": "1"},
        {"kind": "gaussian", "noise_multiplier": "0"},
        {"kind": "gaussian", "noise_multiplier": "1", "moves": [1]},
        {"kind": "exponential_mechanism", "epsilon": 1},
        {key: value for key, value in SAMPLED.items() if key != "steps"},
        {**SAMPLED, "moves": [1]},
        {**SAMPLED, "steps": 0},
        {**SAMPLED, "steps": "100"},
        {**SAMPLED, "steps": True},
        {**SAMPLED, "steps": 1.5},
        {**SAMPLED, "steps": 10**10},
        {**SAMPLED, "sampling_probability": "0"},
        {**SAMPLED, "sampling_probability": "3/2"},
        {**SAMPLED, "sampling_probability": 0.01},
        {**SAMPLED, "noise_multiplier": "1/100"},
        {**SAMPLED, "noise_multiplier": "1" + "0" * 20},
        "pure",
        None,
    ],
    ids=str,
)
def test_an_event_that_is_none_is_refused(event: Any):
    """A field that would make a draw free, or that is not understood, is an error and never zero."""
    with pytest.raises(NotRecomputable, match="event"):
        recompute([event], "1e-9", PURE)


@pytest.mark.parametrize("delta", ["", "nan", "-1e-9", "1", "1.5", "inf", "1e309", 1e-9, None], ids=str)
def test_a_delta_that_is_none_is_refused(delta: Any):
    """Delta is the text of a number in [0, 1)."""
    with pytest.raises(NotRecomputable, match="delta"):
        recompute(EXAMPLE, delta, PURE)


@pytest.mark.parametrize(
    "calculus",
    [
        {},
        {"kind": "any"},
        {"kind": "renyi"},
        {"kind": "renyi", "order": "1"},
        {"kind": "renyi", "order": "1000001"},
        {"kind": "pure", "order": "2"},
        None,
        [],
    ],
    ids=str,
)
def test_a_calculus_that_is_none_is_refused(calculus: Any):
    """Pure, or Rényi with an order above one."""
    with pytest.raises(NotRecomputable, match="calculus"):
        recompute(EXAMPLE, "1e-9", calculus)


def test_events_that_are_no_list_are_refused():
    """A text is a sequence too."""
    with pytest.raises(NotRecomputable, match="list"):
        recompute("pure", "1e-9", PURE)  # type: ignore[arg-type]


TENTH = Fraction(1, 10)


def inverted(events: list[PrivacyEvent], epsilon: Fraction) -> float | None:
    return delta_at([event.to_json() for event in events], epsilon)


@pytest.mark.parametrize(
    ("multiplier", "epsilon"), [("1", "1"), ("5", "1/2"), ("10", "1/10"), ("3/10", "20"), ("100", "1/20")]
)
def test_gaussian_noise_has_its_closed_profile(multiplier: str, epsilon: str):
    """delta = Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu), mu = 1 / multiplier (Balle, Wang 2018)."""
    mu, e = 1 / float(Fraction(multiplier)), float(Fraction(epsilon))
    exact = norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)
    assert inverted([Gaussian(Fraction(multiplier))], Fraction(epsilon)) == pytest.approx(exact, rel=1e-9)


def test_one_sampled_step_has_the_integral_of_its_densities():
    """A second derivation: the positive part of p - e^epsilon q, summed over a fine grid, in both directions."""
    s, q, epsilon = 0.8, 0.2, 0.7
    x = np.arange(-12, 14, 1e-4)
    outside = norm.pdf(x, 0, s)
    inside = (1 - q) * outside + q * norm.pdf(x, 1, s)
    both = [
        float(np.maximum(one - math.exp(epsilon) * other, 0).sum() * 1e-4)
        for one, other in ((inside, outside), (outside, inside))
    ]
    event = PoissonSampledGaussian(Fraction(4, 5), Fraction(1, 5), 1)
    assert inverted([event], Fraction(7, 10)) == pytest.approx(max(both), rel=1e-6)


@pytest.mark.parametrize("steps", [200, 20_000])
@pytest.mark.parametrize(("multiplier", "chance"), [("2", "1/100"), ("3/5", "1/200"), ("40", "1/20")])
def test_the_librarys_epsilon_has_the_delta_that_it_was_asked_for(multiplier: str, chance: str, steps: int):
    """Its pessimistic grid and our inversion agree to 0.4 %; half the noise would be off by orders of magnitude."""
    events: list[PrivacyEvent] = [PoissonSampledGaussian(Fraction(multiplier), Fraction(chance), steps)]
    epsilon = pld_epsilon(events, 1e-6)
    assert epsilon is not None
    assert inverted(events, Fraction(epsilon)) == pytest.approx(1e-6, rel=4e-3)
    less: list[PrivacyEvent] = [PoissonSampledGaussian(Fraction(multiplier) / 2, Fraction(chance), steps)]
    wrong = inverted(less, Fraction(epsilon))
    assert wrong is not None
    assert wrong > 1e-5


def test_a_claim_that_is_a_thousandth_too_small_has_a_larger_delta():
    events: list[PrivacyEvent] = [PoissonSampledGaussian(Fraction(2), Fraction(1, 100), 2000), Gaussian(Fraction(8))]
    epsilon = pld_epsilon(events, 1e-9)
    assert epsilon is not None
    at, below = (inverted(events, Fraction(epsilon) * Fraction(each)) for each in ("1.0001", "0.999"))
    assert at is not None
    assert below is not None
    assert at < 1e-9 < below


def test_discrete_noise_counts_as_continuous_noise_of_a_variance_less_by_four():
    """However its change is spread; the discrete noise's own profile is never above that."""
    for moves in ((6,), (4, 4, 2), (1,) * 36):
        one = inverted([DiscreteGaussian(Fraction(904), moves)], Fraction(1))
        assert one == pytest.approx(inverted([Gaussian(Fraction(5))], Fraction(1)), rel=1e-9)


@pytest.mark.parametrize(("variance", "move"), [(8, 1), (8, 3), (20, 5), (60, 1), (100, 10)])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_no_discrete_noise_loses_more_than_that(variance: int, move: int, epsilon: float):
    """Exact sums over the support; continuous noise of the full variance would not do for all of them."""
    x = np.arange(-40 * variance, 40 * variance + 1, dtype=float)
    p = np.exp(-x * x / (2 * variance))
    q = np.exp(-((x - move) ** 2) / (2 * variance))
    exact = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() / p.sum())
    bound = inverted([DiscreteGaussian(Fraction(variance), (move,))], Fraction(epsilon))
    assert bound is not None
    assert exact <= bound * (1 + 1e-9)


def test_the_four_is_needed():
    """At some epsilon discrete noise loses more than continuous noise of the same variance."""
    x, worse = np.arange(-400, 401, dtype=float), 0
    for epsilon in np.arange(0.05, 3, 0.05):
        p, q = np.exp(-x * x / 16), np.exp(-((x - 1) ** 2) / 16)
        exact = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() / p.sum())
        mu = 1 / math.sqrt(8)
        same = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        worse += exact > same
    assert worse > 0


@pytest.mark.parametrize(
    "event",
    [
        DiscreteLaplace(TENTH, (1,)),
        ZeroConcentrated(TENTH),
        ExponentialMechanism(TENTH),
        DiscreteGaussian(Fraction(4), (1,)),
    ],
)
def test_what_is_no_gaussian_noise_has_none(event: PrivacyEvent):
    assert inverted([event], Fraction(1)) is None
    assert inverted([Gaussian(Fraction(1)), event], Fraction(1)) is None
    assert inverted([], Fraction(1)) == 0


def test_an_event_that_cannot_be_read_is_refused():
    with pytest.raises(NotRecomputable):
        delta_at([{"kind": "gaussian", "noise_multiplier": "-1"}], Fraction(1))


def test_next_to_no_noise_is_refused_and_is_no_small_delta():
    """Rounding made negative deltas of so large a loss, and those kept every claim."""
    for inverse in range(40, 400):
        event = {"kind": "gaussian", "noise_multiplier": f"1/{inverse}"}
        with pytest.raises(NotRecomputable, match="far above"):
            delta_at([event], Fraction(1))
    for inverse in range(8, 30):
        delta = delta_at([{"kind": "gaussian", "noise_multiplier": f"1/{inverse}"}], Fraction(1))
        assert delta is not None
        assert 0.99 < delta <= 1 + 1e-5


RENYI_EFFORT = {"kind": "renyi", "order": "607/64"}


def sampled_event(multiplier: str, chance: str, steps: int) -> dict[str, Any]:
    return {
        "kind": "poisson_sampled_gaussian",
        "noise_multiplier": multiplier,
        "sampling_probability": chance,
        "steps": steps,
    }


def laplace(scale: str, moves: list[int]) -> dict[str, Any]:
    return {"kind": "discrete_laplace", "inverse_scale": scale, "moves": moves}


def terms_of(events: list[dict[str, Any]], epsilon: Fraction | None = None) -> int:
    """Count the terms of a recomputation, and of an inversion where an epsilon is given."""
    left = [10 * MOST_TERMS]
    token = event_forms._left.set(left)
    try:
        recompute(events, "1e-9", RENYI_EFFORT)
        if epsilon is not None:
            delta_at(events, epsilon)
    finally:
        event_forms._left.reset(token)
    return 10 * MOST_TERMS - left[0]


def test_a_block_bounds_what_is_spent_inside_it_and_nothing_outside():
    spend(10 * MOST_TERMS)
    with bounded(5):
        spend(5)
        with bounded(1), pytest.raises(TooMuchWork):
            spend(2)
        with pytest.raises(TooMuchWork):
            spend(1)
    spend(1)


@pytest.mark.parametrize(
    ("events", "epsilon"),
    [
        ([sampled_event("3/2", "1/100", 3000)], Fraction(2)),
        ([sampled_event("3/5", "1/100", 300)], Fraction(8)),
        ([sampled_event("20", "1/100", 100)], Fraction(1, 100)),
        ([sampled_event("2", "1/2", 10), {"kind": "gaussian", "noise_multiplier": "7"}], Fraction(3)),
        ([laplace("1/20", [1])] * 2000, None),
        ([laplace("1/20", [4000])], None),
        ([{"kind": "exponential_mechanism", "epsilon": "1/20"}], None),
    ],
)
def test_an_honest_record_takes_a_small_part_of_the_bound(events: list[dict[str, Any]], epsilon: Fraction | None):
    """The trainings of the manual, 2,000 tables of one noise, and the largest move that is added up."""
    assert terms_of(events, epsilon) < MOST_TERMS // 20


@pytest.mark.parametrize(
    "events",
    [
        [laplace(str(Fraction(1, n)), [4096, -4096]) for n in range(1, 1000)],
        [sampled_event(str(Fraction(1, n)), "1/2", 1) for n in range(1, 11)],
        [sampled_event("1/10", "1/1000000000000", 10**9)],
        [laplace(f"1/{10**50 + 2 * n + 1}", [1]) for n in range(3000)],
    ],
    ids=["many long sums", "many integrals", "a far peak", "a common denominator of a million digits"],
)
def test_events_that_would_be_added_up_for_hours_are_refused_before(events: list[dict[str, Any]]):
    """At a thousandth of the bound, so that the test itself is short: the count is the same on every machine."""
    with bounded(MOST_TERMS // 1000), pytest.raises(TooMuchWork):
        recompute(events, "1e-9", RENYI_EFFORT)


def test_a_common_denominator_without_end_is_refused_wherever_rationals_are_added_up():
    values = [Fraction(1, 10**50 + 2 * n + 1) for n in range(3000)]
    with bounded(10**6), pytest.raises(TooMuchWork):
        exact_sum(values)
    drawn = [laplace(str(value), [1]) for value in values]
    with bounded(10**6), pytest.raises(TooMuchWork):
        check_budget([{"kind": "pure", "epsilon": "1"}], drawn, where="record.json")
    large = [Fraction(10**50 + 2 * n + 1, 3) for n in range(3000)]
    noise = [{"kind": "discrete_gaussian", "sigma_squared": str(value), "moves": [1]} for value in large]
    with bounded(10**6), pytest.raises(TooMuchWork):
        delta_at(noise, Fraction(1))


@pytest.mark.long
def test_an_inversion_that_would_fill_all_memory_is_refused_before_it_allots_any(monkeypatch: pytest.MonkeyPatch):
    """Little noise, and a claim far below its loss: the peak lies at millions, or the integrand oscillates."""
    sizes: list[int] = []
    arange = loss_inversion.np.arange

    def counted(*bounds: float) -> Any:
        made = arange(*bounds)
        sizes.append(made.size)
        return made

    monkeypatch.setattr(loss_inversion.np, "arange", counted)
    for chance in ("1/1000000000000", "1/1000", "999/1000"):
        for epsilon in (Fraction(1, 10**12), Fraction(1), Fraction(50), Fraction(10**6)):
            for steps in (1, 1000, 10**9):
                with suppress(NotRecomputable, TooMuchWork), bounded(10**7):
                    delta_at([sampled_event("1/10", chance, steps)], epsilon)
    assert max(sizes) <= loss_inversion._MOST_POINTS + 1
