"""A budget for draws that are chosen on the way."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privacy.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    PoissonSampledGaussian,
    PrivacyEvent,
    Pure,
    UnsupportedEvent,
    ZeroConcentrated,
)
from privacy.accounting.renyi import budget_of, limit, renyi, share, unplanned
from tasks.verification.recompute.adaptive_budget import check_budget

RHO, EPSILON = ZeroConcentrated(Fraction(1, 2)), Pure(Fraction(2))
numbers = st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(50), max_denominator=1000)
moves = st.sampled_from([(1,), (1, 1), (3,), (2, 2)])
events = st.one_of(
    st.builds(DiscreteGaussian, numbers, moves),
    st.builds(DiscreteLaplace, numbers, moves),
    st.builds(ExponentialMechanism, numbers),
)


@given(events, st.sampled_from([1.01, 1.5, 2.0, 7.0, 33.0, 1000.0]))
def test_an_events_share_of_a_zcdp_budget_is_a_bound_on_its_curve_at_every_order(
    event: PrivacyEvent, order: float
) -> None:
    """What makes the sum of shares a filter: D_order(event) <= order * share."""
    assert renyi(event, order) <= order * float(share(RHO, event)) * (1 + 1e-9) + 1e-14


@pytest.mark.long
@given(st.lists(events, max_size=6), st.sampled_from([RHO, EPSILON, ZeroConcentrated(Fraction(30))]))
def test_the_auditor_computes_the_same_shares(drawn: list[PrivacyEvent], budget: PrivacyEvent) -> None:
    """Two derivations: the ledger's sum of shares is over the limit exactly where the auditor finds something."""
    assert isinstance(budget, ZeroConcentrated | Pure)
    try:
        over = sum((share(budget, event) for event in drawn), Fraction(0)) > limit(budget)
    except UnsupportedEvent:
        over = True
    findings = check_budget([budget.to_json()], [event.to_json() for event in drawn], where="PROOF.json")
    assert bool(findings) == over


def test_shares_are_those_of_the_textbook() -> None:
    assert share(RHO, DiscreteGaussian(Fraction(2), (1, 1))) == Fraction(1, 2)
    assert share(RHO, ExponentialMechanism(Fraction(2))) == Fraction(1, 2)
    assert share(RHO, DiscreteLaplace(Fraction(1, 2), (2,))) == Fraction(1, 2)
    assert share(EPSILON, ExponentialMechanism(Fraction(2))) == 2
    assert share(EPSILON, DiscreteLaplace(Fraction(1, 2), (1, 1))) == 1


def test_noise_without_a_finite_share_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedEvent, match="discrete_gaussian takes no share of a pure budget"):
        share(EPSILON, DiscreteGaussian(Fraction(2), (1,)))
    sampled = PoissonSampledGaussian(Fraction(1), Fraction(1, 2), 3)
    with pytest.raises(UnsupportedEvent, match="poisson_sampled_gaussian takes no share of a zCDP budget"):
        share(RHO, sampled)


def test_a_plan_has_one_budget_at_most_and_planned_draws_take_nothing_from_it() -> None:
    planned = DiscreteGaussian(Fraction(2), (1,))
    assert budget_of([planned]) is None
    assert budget_of([planned, RHO]) == RHO
    with pytest.raises(UnsupportedEvent, match="2 budgets in one plan; allowed: one"):
        budget_of([RHO, EPSILON])
    chosen = ExponentialMechanism(Fraction(1, 10))
    assert unplanned([planned, RHO], [planned, chosen, planned]) == [chosen, planned]


def test_the_auditor_counts_what_comes_after_the_planned_draws() -> None:
    planned = DiscreteGaussian(Fraction(1), (1,)).to_json()
    charge = [planned, RHO.to_json()]
    assert check_budget(charge, [planned, planned], where="x") == []
    [finding] = check_budget(
        charge, [planned, planned, ExponentialMechanism(Fraction(1, 10**6)).to_json()], where="x"
    )
    assert finding.allowed == "at most 0.5"
    [finding] = check_budget(charge, [planned, {"kind": "gaussian", "noise_multiplier": "9"}], where="x")
    assert "gaussian from a zero_concentrated budget" in finding.found
