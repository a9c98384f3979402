"""Quantiles and bounds of weighted sums of noises, against convolution, Fourier inversion and simulation."""

import itertools
from collections import defaultdict
from fractions import Fraction
from functools import partial
from itertools import product
from math import erfc, exp, inf, nan, pi, sin, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom

from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.marginals.count_noise import half_width, tail, variance
from privacy.noise.random_bytes import SeededBytes
from privacy.statistics import noise_sums as noise_quantiles
from privacy.statistics.noise_sums import (
    PIECES,
    Counts,
    contrast_quantiles,
    even_quantile,
    mixed_quantile,
    quantile,
    weighted_bounds,
)
from tests.privacy.noise.noise_statistics import noise_of


def laplace(inverse_scale: str) -> DiscreteLaplace:
    return DiscreteLaplace(Fraction(inverse_scale), (1,))


def gaussian(sigma_squared: str) -> DiscreteGaussian:
    return DiscreteGaussian(Fraction(sigma_squared), (1,))


SMALL = [laplace("10"), laplace("4"), laplace("1"), laplace("0.4"), gaussian("0.01"), gaussian("1"), gaussian("30")]
WEIGHTS = ["1", "3 3 3", "1 -1", "1 1/2", "1 1/1000000000", "1 1 3/10", "1/3 1 1/3", "7/10 1 1/5", "99/7 0 100/7"]


def law(event: CountNoise, weights: list[Fraction], reach: int) -> dict[Fraction, float]:
    """The law of |sum w X| by convolving over exact places; what lies beyond the reach is left out."""
    sizes = np.abs(np.arange(-reach, reach + 1))
    chances = (
        np.exp(-float(event.inverse_scale) * sizes)
        if isinstance(event, DiscreteLaplace)
        else np.exp(-(sizes.astype(float) ** 2) / (2 * float(event.sigma_squared)))
    )
    chances /= chances.sum()
    sums: dict[Fraction, float] = {Fraction(0): 1.0}
    for weight in weights:
        longer: dict[Fraction, float] = defaultdict(float)
        for (place, mass), x in itertools.product(sums.items(), range(-reach, reach + 1)):
            longer[place + weight * x] += mass * float(chances[x + reach])
        sums = longer
    folded: dict[Fraction, float] = defaultdict(float)
    for place, mass in sums.items():
        folded[abs(place)] += mass
    return folded


def smallest(masses: dict[Fraction, float], confidence: float) -> float:
    total = 0.0
    for place in sorted(masses):
        total += masses[place]
        if total >= confidence + 1e-7:
            return float(place)
    raise AssertionError


def simulated(event: CountNoise, shape: tuple[int, int], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if isinstance(event, DiscreteLaplace):
        return rng.laplace(scale=1 / float(event.inverse_scale), size=shape)
    return rng.normal(scale=sqrt(event.sigma_squared), size=shape)


@pytest.mark.parametrize("event", SMALL, ids=lambda event: event.kind + str(float(next(iter(vars(event).values())))))
@pytest.mark.parametrize("weights", WEIGHTS)
def test_small_noise_gets_the_smallest_quantile_of_its_exact_law(event: CountNoise, weights: str):
    """A place with a cumulated chance within 1e-7 of the confidence would be ambiguous; none of these is."""
    exact = [Fraction(weight) for weight in weights.split()]
    present = [weight for weight in exact if weight]
    masses = law(event, present, 60 if len(present) < 3 else 25)
    for confidence in (0.5, 0.95):
        wanted = smallest(masses, confidence)
        found = quantile(event, [float(weight) for weight in exact], confidence)
        assert wanted <= found * (1 + 1e-15) + 1e-15
        assert found == pytest.approx(wanted, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize(
    "event", [laplace("0.1"), laplace("0.03"), laplace("0.5"), gaussian("100"), gaussian("2000")]
)
@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0], [2.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1e-6], [1.0, 0.999, 0.3]])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999999])
def test_the_bound_for_large_noise_holds_for_noise_that_can_be_enumerated(
    event: CountNoise, weights: list[float], confidence: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(noise_quantiles, "_WIDEST", {1: 2**13, 2: 2**13, 3: 2**10})
    exact = quantile(event, weights, confidence)
    monkeypatch.setattr(noise_quantiles, "_WIDEST", {1: 0, 2: 0, 3: 0})
    bound = quantile(event, weights, confidence)
    assert exact <= bound <= exact * 1.002 + 2 * sum(weights)


@pytest.mark.parametrize("sigma_squared", [64, 81, 10_000])
def test_a_discrete_gaussian_lies_within_one_of_a_normal_at_the_same_rank(sigma_squared: int):
    event, sigma = gaussian(str(sigma_squared)), sqrt(sigma_squared)
    for least in range(1, int(12 * sigma)):
        chance = tail(event, least)
        assert 0.5 * erfc(least / sigma / sqrt(2)) <= chance * (1 + 1e-9)
        assert chance <= 0.5 * erfc((least - 1) / sigma / sqrt(2)) * (1 + 1e-9)


SCALES = [
    [1.0],
    [1.0, 1.0],
    [1.0, 0.5],
    [1.0, 0.9985],
    [1.0, 0.9995],
    [1.0, 1.0, 1.0],
    [1.0, 1.0, 0.4],
    [1.0, 0.4, 0.4],
    [1.0, 0.998, 0.996],
    [1.0, 0.9985, 0.9984],
    [1.0, 0.3, 0.001],
    [1.0, 1e-300],
]


@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_the_tail_of_a_laplace_sum_agrees_with_its_fourier_inversion(scales: list[float]):
    """P(|sum| > q) = 1 - 2/pi int sin(q s) / s prod 1 / (1 + b^2 s^2) ds; the raise of close scales is one way."""
    over = noise_quantiles._laplace_tail(list(scales))
    for q in (0.1, 1.0, 3.0, 6.0):

        def integrand(s: float, q: float = q) -> float:
            return (sin(q * s) / s if s else q) * float(np.prod([1 / (1 + (b * s) ** 2) for b in scales]))

        inverted = 1 - 2 / pi * quad(integrand, 0, 400, limit=4000)[0]
        assert inverted - 1e-5 <= over(q) <= inverted * 1.006 + 1e-5


def test_equal_and_nearly_equal_scales_give_nearly_equal_tails():
    for q in (0.5, 4.0, 30.0):
        for near in (1 - 1e-12, 1 - 1e-4, 1 - 2e-3):
            for scales, equal in (([1.0, near], [1.0] * 2), ([1.0, near, near**2], [1.0] * 3)):
                ratio = noise_quantiles._laplace_tail(scales)(q) / noise_quantiles._laplace_tail(equal)(q)
                assert exp(-0.01 * (1 + q)) <= ratio <= 1 + 1e-6


HUGE = [laplace("1e-12"), laplace("1e-4"), gaussian("1e24"), gaussian("1e8")]


@pytest.mark.stat
@pytest.mark.parametrize("event", HUGE, ids=lambda event: event.kind + str(float(next(iter(vars(event).values())))))
@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.7], [3.0, 3.0, 3.0], [1.0, 1.0, 0.2], [1e9, 1.0, 1e-9]])
def test_large_noise_stays_within_the_quantile_as_often_as_stated(event: CountNoise, weights: list[float]):
    """n = 200,000, exact binomial, false-alarm rate 1e-10 on either side of 20 decisions; 10 % less must fail. The
    continuous law stands for the discrete one: within 1 of it, which is a relative 10^-4 at most."""
    rows = 200_000
    sizes = np.abs(simulated(event, (rows, len(weights)), seed=7) @ np.array(weights))
    bound = quantile(event, weights, 0.95)
    fewest, most = binom.ppf(1e-10, rows, 0.95), binom.ppf(1 - 1e-10, rows, 0.9502)
    assert fewest <= np.count_nonzero(sizes <= bound) <= most
    assert np.count_nonzero(sizes <= 0.9 * bound) < fewest


@pytest.mark.parametrize("event", [*SMALL, laplace("0.1"), gaussian("400")], ids=str)
def test_every_share_of_a_piece_keeps_to_its_bound(event: CountNoise):
    """The exact quantile at single shares, ends and insides of pieces, is never above the bound, nor far below it."""
    bounds = contrast_quantiles(event, 0.95)
    assert bounds.shape == (PIECES,)
    slack = 2.0 if quantile(event, [1.0], 0.95) > 20 else 0.07 * quantile(event, [1.0], 0.95) + 0.05
    for piece in range(0, PIECES, 5):
        inside = [
            quantile(event, [1 - q, q], 0.95) for q in (piece + np.array([0, 0.1, 0.31, 0.5, 0.77, 1])) / PIECES
        ]
        assert max(inside) <= bounds[piece] + 1e-9
        assert bounds[piece] <= max(inside) + slack


def test_the_contrast_of_large_noise_lies_near_the_continuous_quantile():
    for event in HUGE:
        bounds = contrast_quantiles(event, 0.95)
        for piece in (0, 20, 31, 32, 63):
            exact = quantile(event, [1 - (piece + 0.5) / PIECES, (piece + 0.5) / PIECES], 0.95)
            assert exact <= bounds[piece] <= 1.02 * exact
        np.testing.assert_array_equal(bounds, bounds[::-1])


@given(
    st.sampled_from([*SMALL, *HUGE]),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=3),
    st.floats(0.01, 0.99),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=60, deadline=None)
def test_a_quantile_scales_with_the_weights_and_grows_with_the_confidence(
    event: CountNoise, weights: list[float], confidence: float, factor: float
):
    found = quantile(event, weights, confidence)
    allowed = 1e-6 * (found + max(map(abs, weights))) + 1e-300
    assert abs(quantile(event, [factor * weight for weight in weights], confidence) / factor - found) <= allowed
    assert found <= quantile(event, weights, (1 + confidence) / 2) + allowed
    assert found == quantile(event, [-weight for weight in reversed(weights)], confidence)


def test_one_noise_has_the_half_width_of_its_count():
    for event in SMALL:
        assert quantile(event, [1.0], 0.95) == half_width(event, 0.95)
        assert quantile(event, [0.0, 0.0], 0.95) == 0.0


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.5, nan])
def test_a_confidence_outside_zero_and_one_is_refused(confidence: float):
    with pytest.raises(ValueError, match="confidence"):
        quantile(SMALL[0], [1.0], confidence)
    with pytest.raises(ValueError, match="confidence"):
        contrast_quantiles(SMALL[0], confidence)


@pytest.mark.parametrize("weights", [[], [1.0] * 4, [nan], [1.0, inf]])
def test_weights_that_are_none_too_many_or_not_finite_are_refused(weights: list[float]):
    with pytest.raises(ValueError, match="weights"):
        quantile(SMALL[0], weights, 0.95)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_even_quantile_is_that_of_equal_weights(times: int):
    """Against the closed forms for up to three; the scale is so large that a step does not matter."""
    event = DiscreteLaplace(Fraction(1, 10**6), (1,))
    assert even_quantile([(1.0, event)] * times, 0.95) == pytest.approx(
        quantile(event, [1.0] * times, 0.95), rel=1e-4
    )


@pytest.mark.parametrize("times", [4, 9, 30])
def test_an_even_quantile_holds_for_many_noises(times: int):
    """n = 200,000 sums: a share of 0.95 is off by 0.004 with probability below 1e-15; 10 % less is found out."""
    rng = np.random.default_rng(times)
    event = DiscreteLaplace(Fraction(1, 10**6), (1,))
    sums = np.abs((rng.exponential(1e6, (200_000, times)) - rng.exponential(1e6, (200_000, times))).sum(axis=1))
    found = even_quantile([(1.0, event)] * times, 0.95)
    held = np.mean(sums <= found)
    assert abs(held - 0.95) < 0.004
    assert abs(np.mean(sums <= 0.9 * found) - 0.95) > 0.008


def test_even_noises_are_one_family():
    laplace, gaussian = DiscreteLaplace(Fraction(1, 5), (1,)), DiscreteGaussian(Fraction(25), (1,))
    assert even_quantile([(1.0, gaussian)] * 4, 0.95) == pytest.approx(1.96 * 10 + 4, rel=1e-3)
    for terms in ([], [(1.0, laplace), (1.0, gaussian)]):
        with pytest.raises(ValueError, match="one family"):
            even_quantile(terms, 0.95)


def test_an_even_quantile_is_of_at_most_100_noises():
    event = DiscreteLaplace(Fraction(1, 1000), (1,))
    assert even_quantile([(1.0, event)] * 100, 0.95) == pytest.approx(1.96 * sqrt(200) * 1000, rel=0.01)
    with pytest.raises(ValueError, match="one to 100"):
        even_quantile([(1.0, event)] * 101, 0.95)


@pytest.mark.parametrize("small", [1e-13, 1e-12, 1e-6, 0.999])
def test_mixed_noises_may_spread_as_differently_as_they_like(small: float):
    """Tiny scales are raised, and no two of them onto each other."""
    event = DiscreteLaplace(Fraction(1, 10**9), (1,))
    found = mixed_quantile([(weight, event) for weight in (1, 0.9, small, small)], 0.95)
    alone = quantile(event, [1, 0.9], 0.95)
    assert alone * (1 - 1e-6) <= found <= quantile(event, [1, 1, 1], 0.95) * 1.5


SOURCE = SeededBytes(31)
noise = partial(noise_of, source=SOURCE)
DRAWS = 40_000
EXCEEDING = 0.025
MOST = float(binom.ppf(1 - 1e-10, DRAWS, EXCEEDING)) / DRAWS
"""A share of 2.5 % is above it with probability 1e-10; all cases together below 1e-7."""
LEAST = float(binom.ppf(1e-10, DRAWS, 0.02)) / DRAWS
"""A bound that 2 % exceed has a share below it with probability 1e-10: bounds are not much too large."""
EVENTS = [DiscreteLaplace(Fraction(1) / scale, (1,)) for scale in (Fraction(1, 3), Fraction(4), Fraction(3000))]


EVENTS += [DiscreteGaussian(Fraction(sigma) ** 2, (1,)) for sigma in (1, 20, 900)]  # type: ignore[list-item]
NUMBERS: list[Counts] = [(1, 1, 0), (3, 20, 0), (12, 1, 7), (0, 0, 2)]


@pytest.mark.stat
@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_a_sum_exceeds_its_bound_as_often_as_stated_and_a_smaller_one_more_often(event: CountNoise):
    """n = 40,000 sums a case, 32 cases; false alarms below 1e-7. 15 % less is found out where noise is not tiny."""
    cases = list(product(NUMBERS, ((0.5, 0.5, 1.0), (0.9, 0.1, 1.0))))
    for numbers, weights in cases:
        (bound,) = weighted_bounds(event, [numbers], weights, EXCEEDING)
        parts = [
            w * noise(event, n * DRAWS).reshape(n, DRAWS).sum(axis=0)
            for n, w in zip(numbers, weights, strict=True)
            if n
        ]
        sums = sum(parts, np.zeros(DRAWS))
        assert (sums > bound).mean() <= MOST
        assert (sums < -bound).mean() <= MOST
        if variance(event) > 10:
            assert (sums > 0.85 * bound).mean() > MOST
            assert (sums > bound).mean() > LEAST - 0.002


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_one_noise_has_its_own_quantile(event: CountNoise):
    """By the closed form of the two-sided quantile: above it by 3 % and one step at most, never below."""
    (bound,) = weighted_bounds(event, [(1, 0, 0)], (1.0, 0.5, 0.5), EXCEEDING)
    exact = half_width(event, 1 - 2 * EXCEEDING)
    assert exact <= bound <= 1.03 * exact + 1.1


def test_a_law_that_is_added_up_by_hand_gives_the_same_bound():
    """Three noises of weight 0.9 and two of 0.1: all values enumerated by plain convolution."""
    event = DiscreteLaplace(Fraction(1, 2), (1,))
    places = np.arange(-80, 81)
    mass = np.exp(-0.5 * np.abs(places))
    mass /= mass.sum()
    first = np.convolve(np.convolve(mass, mass), mass)
    second = np.convolve(mass, mass)
    sums = np.add.outer(0.9 * np.arange(-240, 241), 0.1 * np.arange(-160, 161)).ravel()
    chances = np.multiply.outer(first, second).ravel()
    (bound,) = weighted_bounds(event, [(3, 2, 0)], (0.9, 0.1, 1.0), EXCEEDING)
    assert chances[sums > bound + 1e-9].sum() <= EXCEEDING
    assert chances[sums > bound * 0.97].sum() > EXCEEDING


def test_bounds_of_several_sums_are_those_of_each_alone_up_to_the_lattice():
    """Sums share one lattice, by the smallest deviation; alone each has a finer one at most."""
    event = DiscreteLaplace(Fraction(1, 20), (1,))
    together = weighted_bounds(event, NUMBERS, (0.9, 0.1, 1.0), EXCEEDING)
    alone = np.concatenate([weighted_bounds(event, [each], (0.9, 0.1, 1.0), EXCEEDING) for each in NUMBERS])
    assert np.abs(together / alone - 1).max() < 0.03
    digits = [f"{bound:.6g}" for bound in together]
    assert [float(text) for text in digits] == list(together)


@pytest.mark.parametrize(
    ("numbers", "weights", "exceeding"),
    [((0, 0, 0), (1, 1, 1), 0.1), ((-1, 2, 0), (1, 1, 1), 0.1), ((1, 0, 0), (0, 1, 1), 0.1)]
    + [((1, 0, 0), (1, 1, 1), exceeding) for exceeding in (0, 0.5, 1)],
)
def test_what_is_no_sum_or_no_probability_is_refused(numbers: Counts, weights: tuple, exceeding: float):
    with pytest.raises(ValueError, match="noises, weights"):
        weighted_bounds(EVENTS[0], [numbers], weights, exceeding)
