"""Training across sites: what is summed, what it costs at each ledger, and what a lost site or attempt does."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom, norm

from benchmarks.games import float32_noise
from privacy.accounting.events import Gaussian, PoissonSampledGaussian
from privacy.accounting.renyi import best_epsilon, renyi
from privacy.coordination.coordinator import Attempts, replayed, train_across
from privacy.federation.plan import FederatedPlan, at_least_one
from privacy.federation.rounds import AttemptBroken, AttemptLost, Call, Collected, InProcessSites, lifted, residues_of
from privacy.grant.durable_draws import DurableDraws
from privacy.grant.grant import Grant, open_grant
from privacy.learning.layout import PrivateRows
from privacy.learning.learners import parameters_of
from privacy.learning.network import CannotTrain
from privacy.learning.training import Session, initial_state
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.noise.lattice_gaussian import normals_from
from privacy.noise.lattice_shares import noise_share
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SecureBytes
from tests.privacy.federation.sites import (
    BLIND,
    CPU,
    LAYOUT,
    LEARNER,
    NAMES,
    PLAN,
    SIZE,
    TRAINING,
    TRUSTED,
    Federation,
    a_ledger,
    call,
    contribute,
    sum_round,
)
from tests.privacy.learning.reference_learners import mixed_codes, p3gm
from tests.privacy.ledger.ledgers import KEYED_HASH, Place


def test_every_site_and_the_coordinator_pay_each_round_once(places: Callable[[str], Place]):
    federation = Federation(places)
    model = federation.train()
    assert federation.drawn() == ["fed/00000", "fed/00001", "fed/00002"]
    for site in federation.sites.values():
        assert [body["key"] for body in site.drawn()] == [f"fed/{n:05d}/{n:016x}" for n in range(3)]
        assert {str(body["event"]) for body in site.drawn()} == {str(TRAINING.event.to_json())}
        assert site.ledger.verify() == []
    assert federation.ledger.verify() == []
    assert all(each.present == (True, True, True) for each in model.rounds)
    np.testing.assert_array_equal(replayed(LEARNER, LAYOUT, PLAN, model.rounds, execution=CPU), model.parameters)


def test_the_sum_over_sites_is_the_pooled_sum_of_the_same_samples(places: Callable[[str], Place]):
    """All rows are sampled, and the trusted server would add the noise: contributions are exact on the lattice. Where
    sums are exact the sites' sum equals the clipped sum over all rows up to a lattice step a site and float32."""
    plan = FederatedPlan(replace(TRAINING, sampling_probability=Fraction(1)), NAMES, (40, 40, 40), TRUSTED)
    federation = Federation(places, plan)
    collected = InProcessSites(plan, federation.sites).collect(call())
    codes = np.concatenate([mixed_codes(40, seed=place) for place in range(3)])
    session = Session(LEARNER, LAYOUT, initial_state(LEARNER), step=0, steps=3, execution=CPU)
    pooled = session.clipped_sum(codes, bound=plan.clipped_to(SIZE), normals=normals_from(SecureBytes()))
    apart = np.abs(lifted(collected.residues) * plan.lattice - pooled).max()
    assert apart <= 1.5 * plan.lattice + 1e-4
    wrong = np.abs(lifted(collected.residues) * plan.lattice - 2 * pooled).max()
    assert wrong > 100 * plan.lattice


def test_the_decoder_of_p3gm_trains_across_sites(places: Callable[[str], Place]):
    """Any learner's loss is a sum over rows: each site's gradients of a latent model add up as a classifier's do."""
    learner = p3gm()
    sites = {}
    for place, name in enumerate(NAMES):
        grant = open_grant(a_ledger(places(name), PLAN.record_events), "run-1")
        rows = PrivateRows(LAYOUT, KEYED_HASH, "b" * 64, partial(mixed_codes, 40, seed=place))
        sites[name] = partial(contribute, grant, rows, learner)
    names = count()
    model = train_across(
        open_grant(a_ledger(places("coordinator"), PLAN.person_events), "run-1"),
        InProcessSites(PLAN, sites),
        learner,
        LAYOUT,
        plan=PLAN,
        key="fed",
        execution=CPU,
        attempts=Attempts(lambda: f"{next(names):016x}", AttemptLost),
    )
    assert model.parameters.size == parameters_of(learner)
    assert np.isfinite(model.parameters).all()
    assert not np.array_equal(model.parameters, initial_state(learner).parameters)


def test_a_resumed_coordinator_replays_its_rounds_and_asks_no_site(places: Callable[[str], Place]):
    federation = Federation(places)
    first = federation.train()
    again = federation.train()
    np.testing.assert_array_equal(first.parameters, again.parameters)
    assert [site.asked for site in federation.sites.values()] == [3, 3, 3]


def test_training_goes_on_over_the_survivors_when_a_site_is_dropped(places: Callable[[str], Place]):
    federation = Federation(places)

    def drop(summed: Any) -> None:
        federation.sites["south"].silent = summed.number == 0

    model = federation.train(told=drop)
    assert [each.present for each in model.rounds] == [(True, True, True), (True, True, False), (True, True, True)]
    assert [len(site.drawn()) for site in federation.sites.values()] == [3, 3, 2]


def test_too_few_sites_are_never_summed_and_the_attempt_is_paid_once(places: Callable[[str], Place]):
    federation = Federation(places)
    for name in ("east", "south"):
        federation.sites[name].silent = True
    lost: list[str] = []

    def back(error: Exception) -> None:
        lost.append(str(error))
        for site in federation.sites.values():
            site.silent = False

    model = federation.train(waiting=back)
    assert len(lost) == 1
    assert "1 of 3 sites answered; needed: 2. Nothing was summed (east: no answer, south: no answer)" in lost[0]
    assert federation.drawn() == ["fed/00000/lost-0", "fed/00000", "fed/00001", "fed/00002"]
    assert [len(site.drawn()) for site in federation.sites.values()] == [4, 3, 3]
    assert len(model.rounds) == 3


def test_when_the_way_to_the_sites_breaks_the_run_ends_and_can_be_resumed(places: Callable[[str], Place]):
    federation = Federation(places)

    def cut(_call: Call) -> None:
        raise ConnectionResetError("the link is gone")

    whole, federation.sites["east"] = federation.sites["east"], cut  # type: ignore[assignment]
    with pytest.raises(AttemptBroken, match=r"the link is gone\); nothing was summed"):
        federation.train()
    federation.sites["east"] = whole
    assert len(federation.train().rounds) == 3
    assert federation.drawn() == ["fed/00000/lost-0", "fed/00000", "fed/00001", "fed/00002"]
    assert [len(site.drawn()) for site in federation.sites.values()] == [4, 3, 3]


def test_no_more_attempts_are_made_than_the_reserve_pays_for(places: Callable[[str], Place]):
    federation = Federation(places)
    for site in federation.sites.values():
        site.silent = True
    with pytest.raises(GrantExceeded, match="at most 2, which its reserve pays for"):
        federation.train()
    assert federation.drawn() == ["fed/00000/lost-0", "fed/00000/lost-1", "fed/00000/lost-2"]


def test_a_site_answers_an_attempt_once(places: Callable[[str], Place]):
    site = Federation(places).sites["north"]
    site(call())
    with pytest.raises(LedgerRefusal, match="what a site sends leaves it once"):
        site(call())
    assert len(site.drawn()) == 1


def test_a_site_that_is_killed_between_receipt_and_journal_pays_and_answers_again(
    places: Callable[[str], Place], monkeypatch: pytest.MonkeyPatch
):
    class Killed(BaseException):
        pass

    def killed(*given: Any) -> None:
        raise Killed

    site = Federation(places).sites["north"]
    site(call(0, 0))
    with monkeypatch.context() as patched:
        patched.setattr(DurableDraws, "_enter", killed)
        with pytest.raises(Killed):
            site(call(0, 1))
    site.grant = open_grant(site.ledger, "run-1")
    site(call(0, 2))
    assert [body["key"] for body in site.drawn()] == [f"fed/00000/{attempt:016x}" for attempt in range(3)]
    assert len(site.sent) == 2
    with pytest.raises(LedgerRefusal, match="what a site sends leaves it once"):
        site(call(0, 1))
    assert site.ledger.verify() == []


def test_a_site_whose_charge_is_used_up_refuses_and_is_left_out(places: Callable[[str], Place]):
    federation = Federation(places)
    for attempt in range(100, 105):
        federation.sites["east"](call(0, attempt))
    model = federation.train()
    assert all(each.present == (True, False, True) for each in model.rounds)
    collected = InProcessSites(PLAN, federation.sites).collect(call(0, 999))
    assert collected.absent == {"east": "its ledger refuses", "north": "its ledger refuses"} or collected.absent == {
        "east": "its ledger refuses"
    }


def test_what_a_site_keeps_of_a_round_is_a_receipt(places: Callable[[str], Place]):
    site = Federation(places).sites["north"]
    sent = site(call())
    assert sent is not None
    kept = list(site.ledger._draws._root.rglob("*.draw"))
    assert [path.stat().st_size < 2_000 for path in kept] == [True]
    assert repr(sent) == "Contribution(fed/00000/0000000000000000)"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(sent)


@pytest.mark.stat
def test_the_noise_of_a_sum_is_what_the_fewest_survivors_leave():
    """Shares alone, n = 30,000 numbers: the threshold of 7 % is 17 standard errors (1/sqrt(2 n) = 0.0041). False
    alarm below 1e-60. The noise of one share fewer (sqrt(1/2), sqrt(2/3)) must fail."""
    sizes = 30_000
    for sites, expected in ((2, 1.0), (3, (3 / 2) ** 0.5)):
        shares = [
            noise_share(sizes, standard_deviation=PLAN.share_deviation, source=SecureBytes()) for _ in range(sites)
        ]
        measured = float(np.std(np.sum(shares, axis=0))) / PLAN.deviation
        assert abs(measured / expected - 1) < 0.07
        assert abs(measured / expected - (1 - 1 / sites) ** 0.5) > 0.1


def test_a_trusted_server_adds_all_of_the_noise(places: Callable[[str], Place]):
    plan = FederatedPlan(TRAINING, NAMES, (40, 40, 40), TRUSTED)
    federation = Federation(places, plan)
    exact = Collected((True, True, True), np.zeros(SIZE, np.uint32))
    grant = open_grant(federation.ledger, "run-1")
    summed = sum_round(grant, lambda attempt: exact, plan=plan)
    assert 0.5 < float(np.std(summed.steps)) / plan.deviation < 1.5
    assert federation.plan.share_deviation == 0


@pytest.mark.parametrize(
    "collected",
    [
        Collected((True, True), np.zeros(SIZE, np.uint32)),
        Collected((True, True, True), np.zeros(SIZE + 1, np.uint32)),
        Collected((True, True, True), np.zeros(SIZE, np.int64)),  # type: ignore[arg-type]
    ],
)
def test_what_no_round_can_have_brought_is_not_released(places: Callable[[str], Place], collected: Collected):
    grant = open_grant(Federation(places).ledger, "run-1")
    with pytest.raises(LedgerRefusal, match="failed while noise was drawn"):
        sum_round(grant, lambda attempt: collected)


@pytest.mark.parametrize(
    "changed",
    [
        {"fewest": 4},
        {"fewest": 1},
        {"colluding": 2},
        {"sites_per_person": 4},
        {"noise": "nobody"},
        {"server": "x"},
        {"noise": "server"},
        {"secure_aggregation": False},
        {"noise": "server", "server": "x", "colluding": 1},
    ],
)
def test_trust_that_contradicts_itself_is_refused(changed: dict[str, Any]):
    with pytest.raises(CannotTrain):
        FederatedPlan(TRAINING, NAMES, (40, 40, 40), replace(BLIND, **changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"sites": ("a", "a", "b")},
        {"rows_about": (40, 40)},
        {"rows_about": (40, 40, 0)},
        {"training": replace(TRAINING, checkpoint_every=3)},
        {"training": replace(TRAINING, noise_multiplier=Fraction(10**6))},
    ],
)
def test_a_plan_that_does_not_fit_together_is_refused(changed: dict[str, Any]):
    with pytest.raises(CannotTrain):
        replace(PLAN, **changed)


def test_a_person_at_several_sites_is_charged_for_all_of_their_rows():
    """Against a second derivation: with every row sampled, m rows are one Gaussian of multiplier s / m."""
    shared = replace(PLAN, trust=replace(BLIND, sites_per_person=3))
    assert shared.person_event(0) == PoissonSampledGaussian(Fraction(2, 3), at_least_one(Fraction(1, 2), 3), 1)
    assert Fraction(7, 8) <= at_least_one(Fraction(1, 2), 3) <= Fraction(7, 8) + Fraction(1, 2**40)
    whole = replace(shared, training=replace(TRAINING, sampling_probability=Fraction(1)))
    delta = Fraction(1, 10**6)
    ours, known = best_epsilon(whole.person_events, delta)[0], best_epsilon([Gaussian(Fraction(2, 3))] * 5, delta)[0]
    assert ours == pytest.approx(known, rel=1e-6)
    assert best_epsilon(shared.person_events, delta)[0] > best_epsilon(PLAN.person_events, delta)[0]


def test_no_mixture_of_a_persons_sampled_rows_tells_more_than_the_event_says():
    """By quadrature: the Renyi divergence of the mixture over K ~ binomial(m, q) of shifts K, in both directions. Of
    one row alone, which is the wrong case, it is less than the mixture's."""
    step = 0.001
    grid = np.arange(-60, 60, step)
    for rows, probability, multiplier in ((2, 0.1, 2.0), (3, 0.5, 3.0), (5, 0.02, 1.5)):
        without = norm.logpdf(grid, 0, multiplier)
        shifts = binom.logpmf(np.arange(rows + 1), rows, probability)
        each = [share + norm.logpdf(grid, shift, multiplier) for shift, share in enumerate(shifts)]
        with_person = np.logaddexp.reduce(each)
        sampled = at_least_one(Fraction(str(probability)), rows)
        event = PoissonSampledGaussian(Fraction(str(multiplier)) / rows, sampled, 1)
        alone = PoissonSampledGaussian(Fraction(str(multiplier)), Fraction(str(probability)), 1)
        for order in (2.0, 4.0, 12.0):
            for left, right in ((with_person, without), (without, with_person)):
                told = (logsumexp(order * left + (1 - order) * right) + np.log(step)) / (order - 1)
                assert told <= renyi(event, order) + 1e-9
                assert told > renyi(alone, order)


def test_colluding_sites_take_their_shares_out_of_the_noise():
    assert replace(PLAN, trust=replace(BLIND, fewest=3, colluding=1)).share_deviation == pytest.approx(
        PLAN.share_deviation
    )


def test_whole_numbers_come_back_from_their_residues():
    numbers = np.array([-(2**31), -1, 0, 1, 2**31 - 1])
    np.testing.assert_array_equal(lifted(residues_of(numbers)), numbers)


@pytest.mark.stat
def test_wide_shares_reach_every_whole_number():
    """Of numbers beyond a standard deviation of 2^24 steps half are odd; float32 makes none of them. About 20,000 of
    n = 2^16 lie beyond; 7 standard deviations of a binomial: false alarm below 10^-11. And their distribution is the
    normal one: by the inequality of Dvoretzky, Kiefer, Wolfowitz below 10^-9."""
    size, wide = 1 << 16, 2.0**24
    noise = noise_share(size, standard_deviation=wide, source=SecureBytes())
    beyond = noise[np.abs(noise) > wide]
    assert abs(np.mean(beyond % 2) - 0.5) < 7 * 0.5 / np.sqrt(beyond.size)
    skipping = np.rint(float32_noise.normals(size, SecureBytes()).astype(np.float64) * wide)
    assert not np.any(skipping[np.abs(skipping) > wide] % 2)
    apart = np.abs(norm.cdf(np.sort(noise) / wide) - (np.arange(size) + 0.5) / size).max()
    assert apart < (np.log(2 / 1e-9) / (2 * size)) ** 0.5 + 0.5 / size
    with pytest.raises(NoiseRefused, match="standard_deviation"):
        noise_share(3, standard_deviation=2.0**29, source=SecureBytes())


def test_a_share_too_fine_for_its_lattice_is_not_drawn():
    with pytest.raises(NoiseRefused, match="steps"):
        noise_share(3, standard_deviation=255.0, source=SecureBytes())


def test_only_the_parts_themselves_are_let_in(places: Callable[[str], Place]):
    class Other(FederatedPlan):
        pass

    site = Federation(places).sites["north"]
    grant: Grant = site.grant
    other = Other(TRAINING, NAMES, (40, 40, 40), BLIND)
    with pytest.raises(ValueError, match="FederatedPlan itself, not Other"):
        contribute(grant, site.rows, LEARNER, call(), plan=other)
    wrong = Call(0, "0" * 16, np.zeros(3, np.float32))
    with pytest.raises(CannotTrain, match="float32 of shape"):
        contribute(grant, site.rows, LEARNER, wrong)
    with pytest.raises(CannotTrain, match="attempt"):
        contribute(grant, site.rows, LEARNER, replace(call(), attempt="again"))
    with pytest.raises(CannotTrain, match="round"):
        contribute(grant, site.rows, LEARNER, replace(call(), number=3))
    assert site.drawn() == []
