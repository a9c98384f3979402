"""The statistics of the games: bounds that hold as often as they say, and mechanisms whose epsilon is known."""

from math import exp, log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from benchmarks.games.distinguishing import distinguish, learned_direction
from benchmarks.games.lower_bound import at_least, at_most, epsilons, gaussian_epsilon, largest_certifiable, proven
from privacy.games.results import ROOT, code_digest, sources, stored

RARE = 1e-10


@pytest.mark.parametrize("chance", [0.001, 0.02, 0.5, 0.97])
@pytest.mark.parametrize("unsure", [0.001, 0.05])
def test_a_bound_on_a_chance_is_wrong_as_seldom_as_it_says(chance: float, unsure: float):
    """Exactly, by adding up the binomial: n = 400, both sides; and it is not needlessly wide."""
    counts = np.arange(401)
    mass = binom.pmf(counts, 400, chance)
    low, high = at_least(counts, 400, unsure=unsure), at_most(counts, 400, unsure=unsure)
    assert mass[low > chance].sum() <= unsure
    assert mass[high < chance].sum() <= unsure
    assert mass[at_least(counts, 400, unsure=20 * unsure) > chance].sum() > unsure or chance < 0.01


def test_the_ends_are_what_is_known_by_hand():
    """No success of n: at most 1 - unsure^(1/n); no failure: at least unsure^(1/n)."""
    assert at_most(0, 500, unsure=0.0005) == pytest.approx(1 - 0.0005 ** (1 / 500))
    assert at_least(500, 500, unsure=0.0005) == pytest.approx(0.0005 ** (1 / 500))
    assert (at_least(0, 500, unsure=0.1), at_most(500, 500, unsure=0.1)) == (0, 1)


def test_rates_prove_what_randomized_response_has():
    """At its exact rates the bound is its epsilon, from either side, and delta is taken off."""
    rate = exp(2.0) / (1 + exp(2.0))
    assert epsilons(np.array([rate]), np.array([1 - rate]), delta=0.0) == pytest.approx(2.0)
    assert epsilons(np.array([0.5]), np.array([0.05]), delta=0.1) == pytest.approx(log(0.85 / 0.5), abs=2)
    assert epsilons(np.array([0.5]), np.array([0.05]), delta=0.1) == pytest.approx(log(0.4 / 0.05))
    assert epsilons(np.array([0.2]), np.array([0.6]), delta=0.0) == 0
    assert epsilons(np.array([1.0]), np.array([0.0]), delta=0.0) > 100


@pytest.mark.parametrize("shift", [0.3, 1.0, 3.0])
def test_the_gaussian_s_epsilon_is_that_of_its_best_threshold(shift: float):
    """sup over S of P(S) - e^epsilon Q(S), on a fine grid, is delta."""
    epsilon = gaussian_epsilon(shift, 0.02)
    places = np.linspace(-10, 14, 200_001)
    missing = norm.sf(places - shift) - exp(epsilon) * norm.sf(places)
    assert missing.max() == pytest.approx(0.02, abs=1e-6) if epsilon > 0 else missing.max() <= 0.02
    assert gaussian_epsilon(0.0, 0.02) == 0


def test_the_largest_that_can_be_proven_grows_with_the_trials():
    """About log of the trials over log(2/unsure); nothing above it can come out."""
    sizes = [largest_certifiable((n, n), delta=0.0, unsure=0.001, method="clopper_pearson") for n in (100, 10_000)]
    assert sizes[0] == pytest.approx(log(0.0005 ** (1 / 100) / (1 - 0.0005 ** (1 / 100))))
    assert sizes[1] == pytest.approx(log(10_000 / log(2000)), abs=0.01)
    every = np.arange(101, dtype=np.float64)
    there, wrong = np.meshgrid(every, every)
    found = proven(there, wrong, (100, 100), delta=0.0, unsure=0.001, method="clopper_pearson")
    assert found.max() == pytest.approx(sizes[0])


def responses(epsilon: float, there: bool, trials: int, random: np.random.Generator) -> NDArray[np.float64]:
    return np.where(random.random(trials) < 1 / (1 + exp(-epsilon)), float(there), 1.0 - there)


@pytest.mark.stat
def test_randomized_response_is_bounded_from_below_and_closely():
    """n = 20,000 each, confidence 1 - 1e-10: above its epsilon with probability below 1e-10, and near it."""
    random = np.random.default_rng()
    scores = [responses(1.0, there, 20_000, random) for there in (True, False)]
    bound = distinguish(*scores, delta=0.0, confidence=1 - RARE)
    assert 0.7 < bound.epsilon <= 1.0
    assert bound.trials == 40_000
    assert bound.true_rate == pytest.approx(0.731, abs=0.03)


@pytest.mark.stat
def test_the_gaussian_bound_is_below_the_shift_and_closer_than_the_other():
    """n = 20,000 each, a shift of 2, delta 1e-5: above with probability below 1e-10; the other knows less there. The
    bound is 0.875 of the truth with a deviation of 0.014: below 0.75 with probability below 1e-15."""
    random = np.random.default_rng()
    there, not_there = random.normal(2, 1, 20_000), random.normal(0, 1, 20_000)
    exact = gaussian_epsilon(2.0, 1e-5)
    gaussian = distinguish(there, not_there, delta=1e-5, confidence=1 - RARE, method="gaussian")
    other = distinguish(there, not_there, delta=1e-5, confidence=1 - RARE)
    assert 0.75 * exact < gaussian.epsilon <= exact
    assert other.epsilon < gaussian.epsilon


@pytest.mark.stat
def test_outputs_that_say_nothing_prove_nothing():
    """n = 4,000 each of 20 numbers that do not depend on the table: above 0.05 with probability below 1e-10."""
    random = np.random.default_rng()
    bound = distinguish(
        random.normal(size=(4000, 20)), random.normal(size=(4000, 20)), delta=0.05, confidence=1 - RARE
    )
    assert bound.epsilon <= 0.05


@pytest.mark.stat
def test_a_learned_direction_finds_what_is_hidden_in_many_numbers():
    """A difference of two correlated numbers among 30: the learned weights tell nearly as well as the best ones. n =
    4,000 each; the best shift is 2, that of any number alone below 0.3. It fails with probability below 1e-9: the
    weights' relative error is about sqrt(30 / 2000), and the bound is six standard deviations of its estimate
    away."""
    random = np.random.default_rng()

    def outputs(there: bool) -> NDArray[np.float64]:
        numbers = random.normal(size=(4000, 30))
        numbers[:, 1] = 10 * numbers[:, 0] + numbers[:, 1] + 2 * there
        return numbers

    there, not_there = outputs(True), outputs(False)
    direction = learned_direction(there[:1000], not_there[:1000])
    shift = (there[1000:] @ direction).mean() - (not_there[1000:] @ direction).mean()
    assert shift / (there[1000:] @ direction).std() > 1.6
    assert distinguish(there, not_there, delta=0.05, confidence=1 - RARE, method="gaussian").epsilon > 1


@pytest.mark.parametrize("scores", [np.zeros(4), np.full(100, np.nan)])
def test_what_is_no_game_is_refused(scores: NDArray[np.float64]):
    with pytest.raises(ValueError, match="at least eight trials"):
        distinguish(scores, np.zeros(100), delta=0.0, confidence=0.999)


def test_the_digest_is_of_the_sources_and_the_stored_results_name_one():
    assert len(code_digest()) == 64
    told = stored()
    assert told is None or len(told["code_digest"]) == 64


def test_the_digest_covers_all_that_draws_noise_and_all_that_derives_how_much():
    """No file of noise and none of the grant is left out, in whichever folder below them it lies."""
    drawing = {path for room in ("noise", "grant") for path in (ROOT / room).rglob("*.py")}
    assert drawing
    assert drawing <= set(sources())
