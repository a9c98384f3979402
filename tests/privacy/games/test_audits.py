"""Audits by likelihood and of one training: the attacker's ratios, claimed shifts, and small games with their twins.

Confidence of what is shipped is 1 - 1e-9 a game; that of the twins is 99.9 %, and they are found out with far less.
"""

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks._no_seed import no_seed
from benchmarks.games import likelihoods, one_training
from benchmarks.games.distinguishing import distinguish
from benchmarks.games.game import play
from benchmarks.games.generators import Source
from benchmarks.games.likelihoods import LikelihoodAudit, WeighingGrant, largest_shift
from benchmarks.games.one_training import OneRun, WatchedGrant, WatchedNotClipping
from privacy.accounting.events import PrivacyEvent
from privacy.accounting.renyi import concentrated_loss
from privacy.generators.calibration import generator
from privacy.grant.queries.choice import ChoiceQuery
from privacy.marginals.scores import Candidate, DistanceScore

AUDITS: dict[str, LikelihoodAudit] = {
    f"{audit.name}, {adjacency}": audit
    for adjacency in ("add_remove", "replace_one")
    for audit in likelihoods._audits(adjacency)  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", AUDITS)
def test_the_canary_moves_every_column_and_pair_by_its_whole_sensitivity(name: str):
    audit = AUDITS[name]
    one, other = (Source(audit.task, table) for table in audit.tables)
    square = 1 if audit.adjacency == "add_remove" else 2
    for clique in (("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")):
        assert int(((one.exact(clique) - other.exact(clique)) ** 2).sum()) == square


@pytest.mark.parametrize("name", AUDITS)
def test_a_fit_spends_its_whole_charge_on_draws_that_are_weighed(name: str):
    """The events of one fit add up to what is charged, but for a thousandth, and choices are among them."""
    audit, events = AUDITS[name], []

    class Listing(WeighingGrant):
        def draw(self, query: object, *, key: str, **more: object) -> object:
            drawn = super().draw(query, key=key)  # type: ignore[arg-type]
            events.append(drawn.event)
            return drawn

    made_by = generator(audit.name)
    options = made_by.options(**audit.options)
    plan, source = made_by.plan(audit.task, options), Source(audit.task, audit.tables[1])
    exact = lambda clique: tuple(Source(audit.task, each).exact(clique).ravel() for each in audit.tables)  # noqa: E731
    grant = Listing(audit.task, plan, exact, Fraction(1))
    with pytest.raises(likelihoods.AllDrawn):
        made_by.fit(audit.task, options, plan, source, grant, likelihoods.until_all_is_drawn, no_seed)
    assert grant.odds != 0
    spent = sum(float(concentrated_loss(event)) for event in events)
    assert 0.999 * audit.rho < spent <= audit.rho
    of_choices = sum(float(concentrated_loss(event)) for event in events if _chooses(event))
    assert 0 < of_choices <= audit.choice_share * audit.rho * (1 + 1e-9)


def _chooses(event: PrivacyEvent) -> bool:
    return event.kind == "exponential_mechanism"


@pytest.mark.parametrize("there", [False, True])
def test_the_ratios_of_a_choice_are_those_of_its_two_laws(there: bool):
    """P'(i) = P(i) e^odds(i) adds up to 1, for both tables' laws, which are computed here by hand."""
    audit = AUDITS["mst, add_remove"]
    made_by = generator(audit.name)
    plan = made_by.plan(audit.task, made_by.options())
    sources = [Source(audit.task, table) for table in audit.tables]
    grant = WeighingGrant(
        audit.task, plan, lambda clique: tuple(s.exact(clique).ravel() for s in sources), Fraction(1)
    )
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    predictions = [np.full((2, 2), 18 + place) for place in range(3)]
    candidates = tuple(
        Candidate(counts, DistanceScore(prediction, Fraction(1), Fraction(0)))
        for counts, prediction in zip(sources[0].marginals(pairs), predictions, strict=True)
    )
    query = ChoiceQuery(candidates, Fraction(3, 2))
    odds = np.array([grant._odds_of_choice(query, place) for place in range(3)])
    laws = []
    for source in sources:
        scores = [
            float(np.abs(source.exact(pair) - each).sum()) for pair, each in zip(pairs, predictions, strict=True)
        ]
        weights = np.exp(1.5 * np.array(scores) / 2 - 20)
        laws.append(weights / weights.sum())
    assert laws[0] * np.exp(odds) == pytest.approx(laws[1])
    sign = -1 if there else 1
    assert float((laws[there] * np.exp(sign * odds)).sum()) == pytest.approx(1)
    assert max(odds) - min(odds) == pytest.approx(1.5)


def test_the_largest_shift_is_that_of_the_worst_choice_among_all():
    """Without choices it is the noise's. With one it is the mean over the noise of the worst pair of that range, by
    brute force; and it is above what the same loss as noise would have."""
    assert largest_shift(1.3, ()) == pytest.approx(1.3, abs=1e-4)
    gaussian, epsilon = 1.5, 1.2
    losses = np.linspace(-12, 12, 4001)
    density = norm.pdf(losses, -(gaussian**2) / 2, gaussian)
    ends = np.linspace(0, epsilon, 801)[1:-1]
    without = (1 - np.exp(ends - epsilon)) / (np.exp(ends) - np.exp(ends - epsilon))
    worst = np.zeros(len(losses))
    for place, loss in enumerate(losses):
        up = without * np.maximum(np.exp(loss + ends) - 1, 0)
        worst[place] = (up + (1 - without) * np.maximum(np.exp(loss + ends - epsilon) - 1, 0)).max()
    variation = float((density * worst).sum() * (losses[1] - losses[0]))
    found = largest_shift(gaussian, (epsilon,))
    assert (1 + variation) / 2 == pytest.approx(norm.cdf(found / 2), abs=1e-4)
    assert found > sqrt(gaussian**2 + epsilon**2 / 4)


def test_right_guesses_prove_most_of_a_shift_and_no_more():
    """20,000 trials of two normal laws of shift 2, from a fixed seed; as many guesses of each table are asked for."""
    random = np.random.default_rng(3)
    odds = [2 * (random.normal(size=10_000) + sign) for sign in (1, -1)]
    bound = distinguish(*odds, delta=0.01, confidence=0.999, method="gaussian_guesses")
    assert bound.shift is not None
    assert 1.9 < bound.shift < 2
    with pytest.raises(ValueError, match="as many trials"):
        distinguish(odds[0], odds[1][1:], delta=0.01, confidence=0.999, method="gaussian_guesses")


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("name", ["mst, add_remove", "privbayes, replace_one"])
def test_a_generator_stays_below_its_charge_and_a_third_of_the_noise_does_not(name: str):
    """100 fits of each table; the shipped one is above with a chance below 1e-9. A third of the noise makes a shift
    of 6.3, so that a guess is wrong with a chance below 0.001. The twin is missed where 12 of 200 are, a chance below
    1e-17."""
    audit = AUDITS[name]
    game = likelihoods._game(audit, "a third of the noise", Fraction(1, 3))
    played = play(replace(game, trials=100), confidence=1 - 1e-9, control_confidence=0.999)
    assert played.holds
    assert played.caught
    assert game.shift is not None
    assert game.shift < audit.allowed < 1.03 * game.shift
    assert played.to_json()["proven_shift"] <= audit.allowed


@pytest.mark.stat
def test_scores_of_one_training_are_as_far_apart_as_its_plan_says():
    """800 canaries: the difference of means has a standard error of 0.07 deviations; six of them, false alarm 1e-8.
    Shift of a shipped score: sampling probability times the root of the steps over the noise multiplier, times the
    part of a gradient that is not the bias's. Hardly clipped, it is eight times as much."""
    training = one_training.Training(800)
    (event, *_), steps = training.plan.events, len(training.plan.events)
    expected = float(event.sampling_probability) * sqrt(steps) / float(event.noise_multiplier) * sqrt(8 / 9)  # type: ignore[union-attr]
    for grant, factor in ((WatchedGrant, 1), (WatchedNotClipping, 8)):
        run = OneRun(grant)
        there, not_there = run(True, 800), run(False, 800)
        assert len(there) + len(not_there) == 800
        seen = (there.mean() - not_there.mean()) / not_there.std()
        assert abs(seen - factor * expected) < 6 * 0.0707 * (1 + factor * expected / 2)


def test_the_claimed_shift_allows_what_the_loss_distribution_does():
    """One step over all rows is a Gaussian pair: the shift is one over the multiplier."""
    training = one_training.Training(800)
    (event, *_) = training.plan.events
    whole = replace(event, noise_multiplier=Fraction(2), sampling_probability=Fraction(1))  # type: ignore[type-var]
    assert one_training.claimed_shift(replace(training.plan, events=(whole,))) == pytest.approx(0.5, rel=1e-3)
