"""Choices: the exponential mechanism, over runs too, the coins of keys and their noisy counts, by exact laws."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2

from privacy.accounting.key_law import ONE, KeyCountLaw, keep_chances, key_count_law
from privacy.noise.choice import exponential_mechanism, noisy_key_counts, selected, weighted_choice
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SecureBytes, SeededBytes

SCORES = [Fraction(score) for score in (10, 7, 10, -5, Fraction(17, 2))]
DRAWS = 8_000
FALSE_ALARM = 1e-9


def expected(epsilon: float, sensitivity: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = np.array([math.exp(epsilon * float(score) / (2 * sensitivity)) for score in SCORES])
    result: np.ndarray[tuple[int], np.dtype[np.float64]] = weights / weights.sum()
    return result


def statistic(counts: NDArray[np.int64], assumed: float) -> float:
    wanted = expected(assumed, 2.0) * DRAWS
    return float(((counts - wanted) ** 2 / wanted).sum())


@pytest.mark.long
@pytest.mark.stat
def test_each_candidate_is_chosen_with_its_probability():
    """n = 8,000 choices of 5, chi-square with 4 degrees of freedom: false alarm 1e-9. The wrong case, an epsilon
    twice as large (the factor 2 forgotten), is missed with less: its noncentrality is 2,640, the threshold 48."""
    most, source = float(chi2.isf(FALSE_ALARM, len(SCORES) - 1)), SeededBytes(20)
    drawn = [
        exponential_mechanism(SCORES, epsilon=Fraction(1), sensitivity=Fraction(2), source=source)
        for _ in range(DRAWS)
    ]
    counts = np.bincount(drawn, minlength=len(SCORES))
    assert statistic(counts, assumed=1.0) < most
    assert statistic(counts, assumed=2.0) > most


def test_scores_that_are_far_below_are_never_chosen_and_one_candidate_always_is():
    far = [Fraction(0), Fraction(10**30)]
    source = SeededBytes(1)
    one = Fraction(1)
    assert {exponential_mechanism(far, epsilon=one, sensitivity=one, source=source) for _ in range(50)} == {1}
    assert exponential_mechanism([Fraction(-3)], epsilon=one, sensitivity=one, source=source) == 0


@pytest.mark.long
def test_many_candidates_of_one_score_are_equally_likely():
    """300 candidates need two bytes a proposal; n = 12,000, each within 6 standard deviations of 40; one that is
    proposed twice as often is found, and one that no single byte proposes."""
    source = SeededBytes(2)
    same = [Fraction(1)] * 300
    drawn = [
        exponential_mechanism(same, epsilon=Fraction(1), sensitivity=Fraction(1), source=source)
        for _ in range(12_000)
    ]
    counts = np.bincount(drawn, minlength=300)
    assert counts.size == 300
    assert abs(counts - 40).max() < 38


@pytest.mark.parametrize(
    ("scores", "epsilon", "sensitivity", "name"),
    [([], 1, 1, "candidates"), ([1], 0, 1, "epsilon"), ([1], 1, -1, "sensitivity")],
)
def test_bad_arguments_are_refused_by_name(scores: list[int], epsilon: int, sensitivity: int, name: str):
    with pytest.raises(NoiseRefused, match=name):
        exponential_mechanism(
            [Fraction(score) for score in scores],
            epsilon=Fraction(epsilon),
            sensitivity=Fraction(sensitivity),
            source=SeededBytes(3),
        )


DISTANCES = np.array([3, 0, 9, 4, 40, 2, 7])
WEIGHTS = np.array([5, 1, 900, 0, 10**9, 40, 100])
RATE = Fraction(3, 7)
RUN_DRAWS = 5_000


def run_statistic(counts: NDArray[np.int64], assumed: float) -> float:
    wanted = WEIGHTS * np.exp(-assumed * DISTANCES)
    wanted, some = wanted / wanted.sum() * RUN_DRAWS, WEIGHTS > 0
    assert counts[~some].sum() == 0
    return float(((counts - wanted)[some] ** 2 / wanted[some]).sum())


@pytest.mark.long
@pytest.mark.stat
def test_each_run_is_chosen_with_its_probability():
    """n = 5,000 choices of 6, chi-square with 5 degrees of freedom: false alarm 1e-9. The wrong cases, a rate 10 %
    higher or lower, are missed with less: their noncentrality is 3,300, the threshold 52."""
    threshold, source = float(chi2.isf(FALSE_ALARM, int((WEIGHTS > 0).sum()) - 1)), SeededBytes(20)
    drawn = [weighted_choice(DISTANCES, WEIGHTS, rate=RATE, source=source)[0] for _ in range(RUN_DRAWS)]
    counts = np.bincount(drawn, minlength=len(WEIGHTS))
    assert run_statistic(counts, float(RATE)) < threshold
    for wrong in (1.1, 0.9):
        assert run_statistic(counts, wrong * float(RATE)) > threshold


@pytest.mark.stat
def test_the_number_beside_a_run_is_uniform_below_its_weight():
    """n = 5,000 numbers below 10, chi-square with 9 degrees of freedom: false alarm 1e-9."""
    source, distances, weights = SeededBytes(4), np.array([1, 3]), np.array([10, 3])
    drawn = [weighted_choice(distances, weights, rate=Fraction(1), source=source) for _ in range(5000)]
    counts = np.bincount([number for place, number in drawn if place == 0], minlength=10)
    assert counts.size == 10
    wanted = counts.sum() / 10
    assert float(((counts - wanted) ** 2 / wanted).sum()) < chi2.isf(FALSE_ALARM, 9)


def test_runs_far_away_are_never_chosen():
    """Gaps of 10^15 nats cost no time, and the nearest run with a weight has no gap, however far it is."""
    distances, weights = np.array([0, 10**15, 10**12]), np.array([0, 7, 3])
    source = SeededBytes(1)
    assert {weighted_choice(distances, weights, rate=Fraction(1), source=source)[0] for _ in range(50)} == {2}


@pytest.mark.parametrize(
    ("distances", "weights", "rate"),
    [
        (DISTANCES, WEIGHTS, Fraction(0)),
        (DISTANCES, np.zeros_like(WEIGHTS), RATE),
        (DISTANCES, -WEIGHTS, RATE),
        (-DISTANCES, WEIGHTS, RATE),
        (DISTANCES[1:], WEIGHTS, RATE),
        (DISTANCES, WEIGHTS * 2**33, RATE),
    ],
)
def test_what_is_out_of_range_is_refused(distances: NDArray[np.int64], weights: NDArray[np.int64], rate: Fraction):
    with pytest.raises(NoiseRefused):
        weighted_choice(distances, weights, rate=rate, source=SeededBytes(1))


def test_a_negative_number_of_units_is_refused():
    """Nothing is drawn."""
    source = SeededBytes(1)
    with pytest.raises(NoiseRefused):
        selected(np.array([-1]), epsilon=Fraction(1), delta=Fraction(1, 2), source=source)
    assert np.array_equal(source.take(8), SeededBytes(1).take(8))


class WrittenBytes:
    """Bytes that a test writes down: one whole number of 128 bits for each key."""

    security = "seeded"

    def __init__(self, numbers: list[int]) -> None:
        self._bytes = np.frombuffer(b"".join(each.to_bytes(16, "big") for each in numbers), dtype=np.uint8)

    def take(self, size: int) -> NDArray[np.uint8]:
        assert size == self._bytes.size
        return self._bytes


def test_a_coin_is_decided_by_the_last_of_its_bits():
    """A uniform number of 128 bits below the chance publishes, one that equals it does not."""
    epsilon, delta = Fraction(1), Fraction(1, 10**3)
    chances = keep_chances(epsilon, delta)
    for units in (1, 2, 5, len(chances) - 2):
        words = [chances[units] - 1, chances[units], chances[units] + 1]
        kept = selected(np.full(3, units), epsilon=epsilon, delta=delta, source=WrittenBytes(words))
        assert kept.tolist() == [True, False, False]
    sure, most = len(chances) - 1, ONE - 1
    units = np.array([0, sure, sure + 10**6])
    kept = selected(units, epsilon=epsilon, delta=delta, source=WrittenBytes([0, most, most]))
    assert kept.tolist() == [False, True, True]


def test_coins_fall_as_often_as_they_should():
    """stat: 200,000 keys of each of five sizes; two-sided binomial tests, false alarm 1e-9 each. The same number of
    published keys is no plausible one for a chance of 10 % more."""
    epsilon, delta, keys = Fraction(1, 2), Fraction(1, 100), 200_000
    chances = keep_chances(epsilon, delta)
    source = SeededBytes(20)
    for units in (2, 4, 6, 8, 10):
        chance = chances[units] / ONE
        kept = int(selected(np.full(keys, units), epsilon=epsilon, delta=delta, source=source).sum())
        assert _plausible(kept, keys, chance)
        assert not _plausible(kept, keys, min(0.999, 1.1 * chance))


def _plausible(kept: int, keys: int, chance: float) -> bool:
    return bool(min(binom.cdf(kept, keys, chance), binom.sf(kept - 1, keys, chance)) >= 0.5e-9)


LAW = key_count_law(Fraction(1), Fraction(1, 100), rows_per_unit=1)


def test_each_place_begins_exactly_at_its_chance():
    """The number below a chance has its index, the chance itself the next one; also where first words are equal."""
    narrow = KeyCountLaw((5, 7, 2**64 - 1, 2**64, 2**64 + 3, ONE), 3, Fraction(1))
    for law in (LAW, narrow):
        numbers = [each + off for each in law.chances[:-1] for off in (-1, 0)] + [0, ONE - 1]
        rows = np.full(len(numbers), 10**6)
        kept, noisy = noisy_key_counts(rows, law=law, source=WrittenBytes(numbers))
        expected = [1 + sum(each <= number for each in law.chances) for number in numbers]
        assert (10**6 + law.least - noisy).tolist() == expected
        assert kept.all()


@pytest.mark.stat
@pytest.mark.parametrize("rows", [1, 4, 9, 30])
def test_counts_have_the_law(rows: int):
    """n = 200,000; by DKW at alpha = 1e-9 no distribution function is off by more than 0.00732. A threshold that is
    one row off is seen where it matters most: near the crossing chances differ by 0.2 a row."""
    kept, noisy = noisy_key_counts(np.full(200_000, rows), law=LAW, source=SecureBytes())
    index = rows + LAW.least - noisy
    found = np.array([(index <= place).mean() for place in range(1, len(LAW.chances) + 1)])
    chances = np.array(LAW.chances) / ONE
    assert np.abs(found - chances).max() < 0.00732
    assert np.abs(found[1:] - chances[:-1]).max() > 0.02
    assert (kept == (noisy >= LAW.least)).all()
    assert abs(kept.mean() - chances[min(rows, len(chances)) - 1]) < 0.00732


def test_a_key_that_nobody_has_is_never_published_and_a_common_one_always():
    rows = np.array([0] * 1000 + [len(LAW.chances)] * 1000)
    kept, _ = noisy_key_counts(rows, law=LAW, source=SecureBytes())
    assert not kept[:1000].any()
    assert kept[1000:].all()
    with pytest.raises(NoiseRefused, match="0 or more"):
        noisy_key_counts(np.array([-1]), law=LAW, source=SecureBytes())
