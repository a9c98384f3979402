"""Sums of bounded vectors across sites: what is summed, what it costs at each ledger, and how far rows move it."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import count
from typing import Any

import numpy as np
import pytest

from privacy.accounting.events import ZeroConcentrated
from privacy.accounting.renyi import concentrated_loss
from privacy.federation.plan import Trust
from privacy.federation.plans import SumBounds, SummingPlan
from privacy.federation.rounds import AttemptLost, Call, Contribution, InProcessSites, RoundSum, SiteAnswers, lifted
from privacy.grant.durable_draws import DurableDraws
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries import sums as federated_sums
from privacy.grant.queries.across_sites import SiteShare, SumOverSites
from privacy.grant.queries.sums import SumQuery
from privacy.learning.embedding import Embedding
from privacy.learning.layout import ColumnLayout, PrivateRows, RowLayout
from privacy.learning.moments import Everyone, LabelCodes, Moments
from privacy.learning.network import CannotTrain
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from tests.privacy.federation.sites import a_ledger
from tests.privacy.learning.learning_rows import LAYOUT, all_statistics, embedded, private, random_rows, whole
from tests.privacy.ledger.ledgers import Place

NAMES = ("north", "east", "south")
BLIND = Trust("sites", secure_aggregation=True, server=None, fewest=3, colluding=1, sites_per_person=1)
SERVER = replace(BLIND, noise="server", server="the office", colluding=0)
RHO = Fraction(1, 50)
NOTHING = np.zeros(0, np.float32)
WIDE = RowLayout((ColumnLayout("many", "category", np.eye(100)),))
SQUARES = Moments(Embedding(("many",), whole([0] * 100), None, Fraction(1), 6), Everyone(), ("full",))
"""5,050 numbers, of which a row moves one by 20,480 lattice units."""
WARDS = {name: np.full((200, 1), place, np.uint8) for place, name in enumerate(NAMES)}


def planned(*statistics: Moments, rho: Fraction = RHO, **changed: Any) -> SummingPlan:
    terms = {"adjacency": "add_remove", "rows_per_unit": 1, **changed}
    given = {"adjacency": terms["adjacency"], "rows_per_unit": terms["rows_per_unit"]}
    sums = tuple(SumBounds.of(each, rho=rho, **given) for each in statistics)
    made = {"sites": NAMES, "rows_about": (40_000, 200, 200), "trust": BLIND, "reserve": 1, **terms}
    return SummingPlan(sums, **made)


PLAN = planned(SQUARES)


def added(grant: Grant, rows: PrivateRows, statistic: Moments, call: Call, **changed: Any) -> Contribution:
    plan, key = changed.get("plan", PLAN), changed.get("key", "fed/sums")
    return grant.draw(SiteShare(SumQuery(rows, statistic, plan.noise(0)), plan, call), key=key)


class Parties:
    def __init__(self, places: Callable[[str], Place], plan: SummingPlan = PLAN) -> None:
        self.plan = plan
        self.ledgers = {name: a_ledger(places(name), plan.record_events) for name in NAMES}
        self.ledgers["coordinator"] = a_ledger(places("coordinator"), plan.person_events)
        self.grants = {name: open_grant(ledger, "run-1") for name, ledger in self.ledgers.items()}
        self.names, self.silent = count(), set[str]()

    def answer(self, name: str, call: Call) -> Any:
        if name in self.silent:
            return None
        rows = private(WARDS[name], WIDE)
        return added(self.grants[name], rows, SQUARES, call, plan=self.plan)

    def summed(self, number: int = 0, *, statistic: Moments = SQUARES) -> RoundSum:
        answers: dict[str, Any] = {name: lambda call, name=name: self.answer(name, call) for name in NAMES}
        sites = InProcessSites(self.plan, answers)
        query = SumQuery(PrivateRows.of_nobody(WIDE), statistic, self.plan.noise(number))
        name = f"{next(self.names):016x}"
        answers = SiteAnswers(name, lambda attempt: sites.collect(Call(number, attempt, NOTHING)))
        return self.grants["coordinator"].draw(SumOverSites(query, self.plan, number, answers), key="fed/sums")

    def drawn(self, name: str) -> list[dict[str, Any]]:
        return [e.body for e in self.ledgers[name].entries_of("run-1") if e.kind == "noise_drawn"]


@pytest.mark.parametrize("rows_about", [200, 40_000], ids=["exact", "rounded"])
@pytest.mark.parametrize("trust", [BLIND, SERVER], ids=["shares", "server"])
def test_the_sum_over_sites_is_the_pooled_sum_with_the_noise_that_is_charged(
    places: Callable[[str], Place], trust: Trust, rows_about: int
):
    """n = 5,050 numbers; the spread within 8 % is 8 standard errors: false alarm below 1e-14. The noise of one share
    fewer, sqrt(2/3) of it, and of one more, must fail. So must the mean of another pooled sum: numbers that rows move
    by 200 of their bounds."""
    plan = replace(PLAN, trust=trust, rows_about=(rows_about, 200, 200))
    assert (plan.unit(0) > 0) is (rows_about == 40_000)
    parties = Parties(places, plan)
    summed = parties.summed()
    np.testing.assert_array_equal(summed.steps, parties.summed().steps)
    pooled = SQUARES.total(np.concatenate(list(WARDS.values())), WIDE)
    noise = plan.received(0, summed.steps) - pooled
    spread = plan.variance(0, summed.present) ** 0.5
    away = noise / spread
    assert abs(float(away.std()) - 1) < 0.08
    assert np.abs(away).max() < 8
    assert abs(float(away.std()) * (2 / 3) ** 0.5 - 1) > 0.08
    assert abs(float(away.std()) * (4 / 3) ** 0.5 - 1) > 0.08
    assert np.abs((noise + pooled) / spread).max() > 8
    least = float(plan.sigma_squared(0)) ** 0.5 * 2.0 ** plan.unit(0)
    assert spread / least == pytest.approx(1.0 if trust.noise == "server" else (3 / 2) ** 0.5)
    for name, ledger in parties.ledgers.items():
        assert [body["event"] for body in parties.drawn(name)] == [plan.person_event(0).to_json()], name
        assert ledger.verify() == []


def test_what_is_charged_is_what_was_planned_whatever_the_unit():
    """The noise is as wide as that of sums in one place, but for what rounding adds: less than a tenth here."""
    for rows_about in (10, 200, 40_000, 80_000):
        plan = replace(PLAN, rows_about=(rows_about, 10, 10))
        assert 0.999 * RHO < concentrated_loss(plan.person_event(0)) <= RHO
        wide = float(plan.sigma_squared(0)) ** 0.5 * 2.0 ** plan.unit(0) * float(2 * RHO) ** 0.5 / SQUARES.move
        assert 1 <= wide < 1.1
        assert plan.share_variance(0) >= 16


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", sorted(all_statistics()))
def test_no_change_of_a_units_rows_moves_what_is_sent_by_more_than_the_event_says(name: str, adjacency: Any):
    """60 random changes of up to two rows, at one site and at two, on units from 2^-16 to those that round much."""
    statistic, random = all_statistics()[name], np.random.default_rng(5)
    for rows_about in (40, 10**5, 10**6):
        about = {"adjacency": adjacency, "rows_per_unit": 2, "rows_about": (rows_about, 40, 40)}
        try:
            plan = planned(statistic, **about, trust=replace(BLIND, sites_per_person=2))
        except CannotTrain:
            continue
        for turn in range(20):
            changes = []
            for site in range(2):
                codes = random_rows(40, seed=turn * 2 + site)
                other = codes[2:] if adjacency == "add_remove" else np.concatenate([random_rows(2, turn), codes[2:]])
                if random.random() < 0.3:
                    other = codes[1:] if adjacency == "add_remove" else np.concatenate([codes[-1:], codes[1:]])
                totals = [statistic.total(each, LAYOUT) for each in (codes, other)]
                changes.append(plan.sent(0, totals[0]) - plan.sent(0, totals[1]))
                assert squared(changes[-1]) <= sum(move**2 for move in plan.moves(0))
            assert squared(changes[0] + changes[1]) <= sum(move**2 for move in plan.person_event(0).moves)


def squared(change: np.ndarray[Any, Any]) -> int:
    return sum(int(each) ** 2 for each in change)


def test_rounding_is_counted():
    """Every number of a sum on the edge: a change of one lattice unit each moves all of them by a sent unit. Without
    the root of the length, which is the wrong bound, more is moved than the event says."""
    plan = replace(PLAN, rows_about=(10**5, 10, 10), sums=(SumBounds((2**12,), 3600, RHO),))
    unit = plan.unit(0)
    assert unit == 2
    below, edge = np.full(3600, (1 << (unit - 1)) - 1), np.full(3600, 1 << (unit - 1))
    assert squared(edge - below) == 3600 < 2**24
    moved = squared(plan.sent(0, edge) - plan.sent(0, below))
    assert (3600**0.5 / 2**unit) ** 2 < moved <= plan.moves(0)[0] ** 2
    assert plan.moves(0)[0] >= 2**12 / 2**unit + 3600**0.5


def test_people_at_several_sites_are_charged_for_all_their_rows():
    shared = replace(PLAN, trust=replace(BLIND, sites_per_person=3))
    assert shared.person_event(0).moves == (3 * shared.moves(0)[0],)
    assert concentrated_loss(shared.site_event(0)) < RHO / 8
    assert concentrated_loss(shared.person_event(0)) <= RHO
    assert shared.sigma_squared(0) == pytest.approx(9 * PLAN.sigma_squared(0))


def test_a_lost_attempt_of_any_sum_is_paid_out_of_the_reserve(places: Callable[[str], Place]):
    parties = Parties(places)
    assert parties.plan.person_events[-1] == ZeroConcentrated(parties.plan.person_events[-1].rho)  # type: ignore[union-attr]
    parties.silent = {"south"}
    with pytest.raises(AttemptLost, match=r"2 of 3 sites answered; needed: 3"):
        parties.summed()
    parties.silent = set()
    assert parties.summed().present == (True, True, True)
    assert [len(parties.drawn(name)) for name in (*NAMES, "coordinator")] == [2, 2, 1, 2]
    assert all(ledger.verify() == [] for ledger in parties.ledgers.values())
    with pytest.raises(GrantExceeded):
        parties.answer("north", Call(0, "f" * 16, NOTHING))


def test_no_more_attempts_are_made_than_the_reserve_pays_for(places: Callable[[str], Place]):
    parties = Parties(places)
    parties.silent = set(NAMES)
    for refused in (AttemptLost, AttemptLost, GrantExceeded):
        with pytest.raises(refused):
            parties.summed()


def test_sums_leave_a_site_once(places: Callable[[str], Place]):
    parties = Parties(places)
    sent = parties.answer("north", Call(0, "0" * 16, NOTHING))
    assert lifted(sent.residues).size == SQUARES.length
    with pytest.raises(LedgerRefusal, match="leaves it once"):
        parties.answer("north", Call(0, "0" * 16, NOTHING))
    assert len(parties.drawn("north")) == 1
    kept = list(parties.ledgers["north"]._draws._root.rglob("*.draw"))
    assert [path.stat().st_size < 2_000 for path in kept] == [True]


def test_a_site_killed_at_the_end_of_a_phase_pays_when_the_next_begins(
    places: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch
):
    """The keys of both phases begin alike; of a run whose keys begin otherwise the receipt is not taken."""

    class Killed(BaseException):
        pass

    def killed(*given: Any) -> None:
        raise Killed

    parties = Parties(places)
    with monkeypatch.context() as patched:
        patched.setattr(DurableDraws, "_enter", killed)
        with pytest.raises(Killed):
            parties.answer("north", Call(0, "0" * 16, NOTHING))
    grant, rows = open_grant(parties.ledgers["north"], "run-1"), private(WARDS["north"], WIDE)
    with pytest.raises(LedgerRefusal):
        added(grant, rows, SQUARES, Call(0, "1" * 16, NOTHING), key="other")
    added(grant, rows, SQUARES, Call(0, "1" * 16, NOTHING), key="fed/next")
    keys = [body["key"] for body in parties.drawn("north")]
    assert keys == [f"fed/sums/00000/{'0' * 16}", f"fed/next/00000/{'1' * 16}"]


def test_a_statistic_of_other_bounds_than_were_planned_is_refused(places: Callable[[str], Place]):
    parties = Parties(places)
    grant, rows = parties.grants["north"], private(WARDS["north"], WIDE)
    finer = replace(SQUARES, embedding=replace(SQUARES.embedding, bits=7))
    longer = replace(SQUARES, parts=("counts", "sums", "full"))
    for statistic in (finer, longer):
        with pytest.raises(CannotTrain, match="of other bounds"):
            added(grant, rows, statistic, Call(0, "0" * 16, NOTHING))
        with pytest.raises(CannotTrain, match="of other bounds"):
            parties.summed(statistic=statistic)
    with pytest.raises(ValueError, match="statistic must be"):
        added(grant, rows, "squares", Call(0, "0" * 16, NOTHING), key="f")  # type: ignore[arg-type]
    other = planned(SQUARES, rows_per_unit=2)
    with pytest.raises(CannotTrain, match="the charge's relation"):
        added(grant, rows, SQUARES, Call(0, "0" * 16, NOTHING), plan=other)
    with pytest.raises(CannotTrain, match="round"):
        added(grant, rows, SQUARES, Call(1, "0" * 16, NOTHING))
    assert parties.drawn("north") == []


def test_many_rows_are_added_up_exactly(monkeypatch: pytest.MonkeyPatch):
    """Block by block in whole numbers of any size; what is beyond a site's part of the range is clipped."""
    statistic, codes = all_statistics()["class moments"], random_rows(500)
    monkeypatch.setattr(federated_sums, "BLOCK", 64)
    total = federated_sums.exact_total(codes, statistic, LAYOUT)
    np.testing.assert_array_equal(total.astype(np.int64), statistic.total(codes, LAYOUT))
    huge = total * 10**30
    sent = PLAN.sent(0, huge)
    assert sent.dtype == np.int64
    assert set(np.abs(sent[np.asarray(total) != 0]).tolist()) == {PLAN.largest_entry}


@pytest.mark.parametrize(
    ("statistic", "rows"), [(Moments(embedded(), LabelCodes("label", 3), ("counts",)), 40), (SQUARES, 10**5)]
)
def test_what_is_released_comes_back_in_lattice_units(statistic: Moments, rows: int):
    plan = planned(statistic, rows_about=(rows, 10, 10))
    exact = np.arange(-50, 50) * (1 if plan.unit(0) <= 0 else 1 << plan.unit(0))
    np.testing.assert_array_equal(plan.received(0, plan.sent(0, exact)), exact)


@pytest.mark.parametrize(
    "changed",
    [
        {"sums": ()},
        {"sums": (SumBounds((0,), 1, RHO),)},
        {"sums": (SumBounds((1,), 0, RHO),)},
        {"sums": (SumBounds((1,), 1, Fraction(0)),)},
        {"sums": (SumBounds((2**20,), 10**8, RHO),), "rows_about": (10**5, 10, 10)},
        {"sums": (SumBounds((2**20,), 10, Fraction(1, 10**18)),)},
        {"rows_about": (10**12, 1, 1)},
        {"reserve": -1},
        {"rows_per_unit": 0},
        {"trust": replace(BLIND, fewest=4)},
    ],
)
def test_a_plan_that_cannot_be_summed_is_refused(changed: dict[str, Any]):
    with pytest.raises(CannotTrain):
        replace(PLAN, **changed)
