"""Marginal counts across sites: what is summed, what it costs at each ledger, and what noise in shares adds up to."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest

from privacy.accounting.events import DiscreteGaussian
from privacy.federation.plan import Trust
from privacy.federation.plans import FINEST_VARIANCE, CountingPlan
from privacy.federation.rounds import Call, Contribution, InProcessSites, RoundSum, SiteAnswers
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.across_sites import SiteShare, SumOverSites
from privacy.grant.queries.marginal import MarginalQuery
from privacy.learning.network import CannotTrain
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.ledger.ledger import Ledger
from privacy.marginals.counts import PrivateCounts
from tests.privacy.federation.sites import a_ledger
from tests.privacy.ledger.ledgers import Counted, Place

NAMES = ("north", "east", "south")
BLIND = Trust("sites", secure_aggregation=True, server=None, fewest=3, colluding=1, sites_per_person=1)
SERVER = replace(BLIND, noise="server", server="the office", colluding=0)
PLAN = CountingPlan((("age",), ("ward",)), Fraction(4), "add_remove", 1, NAMES, (40, 40, 40), BLIND, reserve=1)
EXACT = {name: np.arange(400).reshape(4, 100) * (place + 1) for place, name in enumerate(NAMES)}
NOTHING = np.zeros(0, np.float32)


def site(grant: Grant, exact: Any, plan: CountingPlan) -> Callable[[Call], Any]:
    return lambda call: counted(grant, Counted(exact, plan.cliques[call.number]).handle, call, plan)


def counted(grant: Grant, counts: PrivateCounts, call: Call, plan: CountingPlan = PLAN) -> Contribution:
    return grant.draw(SiteShare(MarginalQuery(counts, plan.noise(call.number)), plan, call), key="fed")


def released(places: Callable[[str], Place], plan: CountingPlan) -> tuple[RoundSum, dict[str, Ledger]]:
    ledgers = {name: a_ledger(places(name), plan.record_events) for name in NAMES}
    answers = {name: site(open_grant(ledger, "run-1"), EXACT[name], plan) for name, ledger in ledgers.items()}
    ledgers["coordinator"] = a_ledger(places("coordinator"), plan.person_events)
    sites, names = InProcessSites(plan, answers), count()

    def table() -> RoundSum:
        query = MarginalQuery(PrivateCounts.of_nobody(plan.cliques[0], (4, 100)), plan.noise(0))
        answers = SiteAnswers(f"{next(names):016x}", lambda attempt: sites.collect(Call(0, attempt, NOTHING)))
        grant = open_grant(ledgers["coordinator"], "run-1")
        return grant.draw(SumOverSites(query, plan, 0, answers), key="fed")

    first = table()
    np.testing.assert_array_equal(first.steps, table().steps)
    return first, ledgers


@pytest.mark.parametrize("trust", [BLIND, SERVER], ids=["shares", "server"])
def test_the_sum_over_sites_is_the_pooled_table_with_the_noise_that_is_charged(
    places: Callable[[str], Place], trust: Trust
):
    """n = 400 cells; the spread within 30 % is 8 standard errors: false alarm below 1e-14. Half of it must fail."""
    plan = replace(PLAN, trust=trust)
    table, ledgers = released(places, plan)
    noise = table.steps / 2**plan.fine_bits - sum(EXACT.values()).ravel()
    expected = 2.0 * (1.0 if trust.noise == "server" else (3 / 2) ** 0.5)
    assert abs(float(noise.std()) / expected - 1) < 0.3
    assert abs(float(noise.std()) / (expected / 2) - 1) > 0.3
    for name, ledger in ledgers.items():
        entered = [entry.body for entry in ledger.entries_of("run-1") if entry.kind == "noise_drawn"]
        assert [body["event"] for body in entered] == [DiscreteGaussian(Fraction(4), (1,)).to_json()], name
        assert ledger.verify() == []


def test_a_sum_of_shares_is_a_discrete_gaussian():
    """By convolution, out to 9 standard deviations; shares of a 64th of the least variance are not."""

    def apart(variance: float) -> float:
        grid = np.arange(-400, 401)
        share = np.exp(-(grid**2) / (2 * variance))
        share /= share.sum()
        total = np.convolve(share, share, mode="same")
        whole = np.exp(-(grid**2) / (4 * variance))
        whole /= whole.sum()
        near = np.abs(grid) <= 9 * np.sqrt(2 * variance)
        return float(np.abs(np.log(total[near] / whole[near])).max())

    assert apart(float(FINEST_VARIANCE)) < 1e-12
    assert apart(FINEST_VARIANCE / 64) > 1e-2
    assert PLAN.share_variance >= FINEST_VARIANCE


def test_people_at_several_sites_are_charged_for_all_their_rows():
    shared = replace(PLAN, trust=replace(BLIND, sites_per_person=3))
    assert shared.person_event(0).moves == (3,)
    assert shared.site_event(0) == PLAN.site_event(0)
    replaced = replace(PLAN, adjacency="replace_one", rows_per_unit=2, trust=replace(BLIND, sites_per_person=2))
    assert (replaced.site_event(0).moves, replaced.person_event(0).moves) == ((2, 2), (4, 4))


def test_a_table_leaves_a_site_once_and_no_more_often_than_it_is_charged(places: Callable[[str], Place]):
    ledger = a_ledger(places("north"), PLAN.record_events)
    grant = open_grant(ledger, "run-1")
    answer = site(grant, EXACT["north"], PLAN)
    answer(Call(0, "0" * 16, NOTHING))
    with pytest.raises(LedgerRefusal, match="leaves it once"):
        answer(Call(0, "0" * 16, NOTHING))
    answer(Call(1, "0" * 16, NOTHING))
    answer(Call(1, "1" * 16, NOTHING))
    with pytest.raises(GrantExceeded):
        answer(Call(1, "2" * 16, NOTHING))
    other = Counted(EXACT["north"], ("income",)).handle
    with pytest.raises(CannotTrain, match="of other columns"):
        counted(grant, other, Call(0, "3" * 16, NOTHING))
    with pytest.raises(CannotTrain, match="the charge's relation"):
        counted(grant, other, Call(0, "3" * 16, NOTHING), replace(PLAN, rows_per_unit=2))


@pytest.mark.parametrize("changed", [{"cliques": ()}, {"reserve": -1}, {"sigma_squared": Fraction(10**20)}])
def test_a_plan_that_cannot_be_counted_is_refused(changed: dict[str, Any]):
    with pytest.raises(CannotTrain):
        replace(PLAN, **changed)
