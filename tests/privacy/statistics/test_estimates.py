"""Counts, sums and means per cell: how often intervals cover, how long they are, and their digits."""

import itertools
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from math import exp, expm1, isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.statistics.estimates import Estimates, bounded_estimates, estimate_counts, estimate_means, estimate_sums
from privacy.statistics.noise_sums import quantile
from privacy.statistics.table import published_digits

LOW, HIGH = Fraction(-10), Fraction(90)
ROWS = (1, 2, 5, 20, 100, 1000, 10_000)
SHAPES = ("lowest", "highest", "half", "uniform", "heavy zeros")
REPEATS = 4000
CASES = list(itertools.product(("laplace", "gaussian"), (Fraction(1, 10), Fraction(1)), (1, 100, 10**6)))
RATE = 1e-10
"""False alarms of one decision; there are 12 cases of 35 cells and 4 statistics: below 2e-7 in all."""
FEWEST = int(binom.ppf(RATE, REPEATS, 0.95))


def declared(kind: str, epsilon: Fraction, width: int) -> CountNoise:
    """One row moves the sums by `width` in all: pure epsilon, or epsilon^2 / 2 concentrated."""
    if kind == "laplace":
        return DiscreteLaplace(epsilon / width, (width,))
    return DiscreteGaussian((width / epsilon) ** 2, (width,))


def drawn(event: CountNoise, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    """The event's own law, but for Gaussian noise above sigma = 2000: a rounded normal, within 1e-7 of it."""
    if isinstance(event, DiscreteLaplace):
        stop = -expm1(-float(event.inverse_scale))
        return rng.geometric(stop, shape) - rng.geometric(stop, shape)
    sigma = float(event.sigma_squared) ** 0.5
    if sigma > 2000:
        return np.rint(rng.normal(scale=sigma, size=shape)).astype(np.int64)
    reach = 12 * (isqrt(int(event.sigma_squared)) + 1)
    chances = [exp(-(x**2) / (2 * sigma**2)) for x in range(-reach, reach + 1)]
    return rng.choice(np.arange(-reach, reach + 1), p=np.array(chances) / sum(chances), size=shape)


@dataclass(frozen=True)
class Cells:
    """Noisy sums of 35 cells, drawn 4000 times, and what is true of them."""

    width: int
    event: CountNoise
    rows: NDArray[np.int64]
    exact_above: NDArray[np.int64]
    above: NDArray[np.int64]
    below: NDArray[np.int64]
    missing: NDArray[np.int64]

    def covered(self, estimates: Estimates, truth: np.ndarray) -> NDArray[np.int64]:
        # Counts are exact numbers; the truth of the others is itself rounded.
        near = 0.0 if truth.dtype == np.int64 else 1e-12 * np.abs(truth)[:, None]
        inside = (estimates.lower <= truth[:, None] + near) & (truth[:, None] - near <= estimates.upper)
        return np.count_nonzero(inside, axis=1)

    def estimates(self, confidence: float) -> dict[str, tuple[Estimates, np.ndarray]]:
        noise = {"width": self.width, "event": self.event, "confidence": confidence}
        scale = {"low": LOW, "high": HIGH, **noise}
        step = float(HIGH - LOW) / self.width
        sums = float(LOW) * self.rows + step * self.exact_above
        return {
            "counts": (estimate_counts(self.above, self.below, self.missing, **noise), self.rows + 3),
            "value counts": (estimate_counts(self.above, self.below, None, **noise), self.rows),
            "sums": (estimate_sums(self.above, self.below, **scale), sums),
            "means": (estimate_means(self.above, self.below, **scale), sums / self.rows),
        }


def simulate(kind: str, epsilon: Fraction, width: int, *, repeats: int = REPEATS) -> Cells:
    rng = np.random.default_rng([width, epsilon.denominator, len(kind)])
    event = declared(kind, epsilon, width)
    rows, exact = [], []
    for number, shape in itertools.product(ROWS, SHAPES):
        steps = rng.integers(0, width, number, endpoint=True)
        if shape == "heavy zeros":
            steps[rng.random(number) < 0.9] = 0
        fixed = {"lowest": 0, "highest": number * width, "half": number // 2 * width}
        rows.append(number)
        exact.append(fixed.get(shape, int(steps.sum())))
    number, above = np.array(rows), np.array(exact)
    noise = drawn(event, (3, len(rows), repeats), rng)
    return Cells(
        width,
        event,
        number,
        above,
        above[:, None] + noise[0],
        (number * width - above)[:, None] + noise[1],
        3 * width + noise[2],
    )


@pytest.mark.stat
@pytest.mark.parametrize(("kind", "epsilon", "width"), CASES)
def test_intervals_cover_the_truth_as_often_as_stated(kind: str, epsilon: Fraction, width: int):
    """n = 4000 per cell and statistic, exact binomial, false-alarm rate 1e-10 each, below 2e-7 in all. Intervals at
    90 % must fail: the sums and counts wherever a table of the noise is fine enough to tell, and the means of 1000
    rows and more with half the values at each end, where the noise is small beside them."""
    cells = simulate(kind, epsilon, width)
    for name, (estimates, truth) in cells.estimates(0.95).items():
        assert np.min(cells.covered(estimates, truth)) >= FEWEST, name
    if width > 1:
        for name, (estimates, truth) in cells.estimates(0.9).items():
            covered = cells.covered(estimates, truth)
            half = np.array([shape == "half" for _, shape in itertools.product(ROWS, SHAPES)])
            tried = covered[half & (cells.rows >= 1000)] if name == "means" else covered[cells.rows >= 100]
            assert np.max(tried) < FEWEST, name


@pytest.mark.parametrize(("kind", "width"), list(itertools.product(("laplace", "gaussian"), (1, 100, 10**6))))
def test_a_mean_is_nearly_as_exact_as_if_the_number_of_rows_were_known(kind: str, width: int):
    """The oracle divides A by the true number of rows; medians of 500 cells, whose ratio is at most 1.3."""
    cells = simulate(kind, Fraction(1), width, repeats=500)
    means, _ = cells.estimates(0.95)["means"]
    oracle = 2 * quantile(cells.event, [1 / width], 0.95) * float(HIGH - LOW) / cells.rows
    ratios = np.median(means.upper - means.lower, axis=1) / oracle
    assert np.max(ratios[cells.rows >= 20]) <= 1.3
    # In the middle both noises count by half: shorter than the oracle's, which uses one of them.
    half = np.array([shape == "half" for _, shape in itertools.product(ROWS, SHAPES)])
    assert np.max(ratios[half & (cells.rows >= 100)]) < 0.95


@pytest.mark.stat
@pytest.mark.parametrize(("kind", "epsilon", "width"), CASES)
def test_counts_and_sums_are_unbiased(kind: str, epsilon: Fraction, width: int):
    """n = 4000 per cell; 8 standard errors of the values themselves: false alarm below 1e-12 of 1260 decisions."""
    cells = simulate(kind, epsilon, width)
    for name, (estimates, truth) in cells.estimates(0.95).items():
        if name != "means":
            error = np.std(estimates.values, axis=1) / REPEATS**0.5
            assert np.all(np.abs(np.mean(estimates.values, axis=1) - truth) <= 8 * error), name


@pytest.mark.stat
def test_an_empty_cell_is_near_zero_as_often_as_stated_and_a_large_one_never():
    """n = 4000 cells, exact binomial, false-alarm rate 1e-10; ten times the margin away from zero the other."""
    event = declared("laplace", Fraction(1), 100)
    noise = drawn(event, (3, REPEATS), np.random.default_rng(3))
    settled = {"width": 100, "event": event, "confidence": 0.95}
    empty = estimate_counts(noise[0], noise[1], noise[2], **settled)  # type: ignore[arg-type]
    large = estimate_counts(noise[0] + 10_000, noise[1], None, **settled)  # type: ignore[arg-type]
    assert np.count_nonzero(empty.lower <= 0) >= FEWEST
    assert not np.any(large.lower <= 0)


SUMS = st.integers(-(10**4), 10**4) | st.integers(-(2**62), 2**62)
EVENTS = st.builds(
    declared, st.sampled_from(["laplace", "gaussian"]), st.just(Fraction(1, 3)), st.sampled_from([1, 50])
)
CLIPS = st.sampled_from([(Fraction(-1), Fraction(3)), (0.1, 0.3), (1e9, 1e9 + 1), (-7.5, -2.25), (Fraction(0), 1e-9)])


@pytest.mark.long
@given(st.lists(st.tuples(SUMS, SUMS), min_size=1, max_size=20), EVENTS, CLIPS, st.sampled_from([0.5, 0.8, 0.95]))
@settings(max_examples=150, deadline=None)
def test_intervals_contain_their_value_and_widen_with_the_confidence(
    pairs: list[tuple[int, int]], event: CountNoise, clip: tuple[float, float], confidence: float
):
    """A value that no true table can have is cut as the ends are; an empty set of means is the whole clip."""
    above, below = np.array(pairs, dtype=np.int64).T
    low, high = map(float, clip)

    def estimates(confidence: float) -> list[Estimates]:
        noise = {"width": 50, "event": event, "confidence": confidence}
        scale = {"low": clip[0], "high": clip[1], **noise}
        return [
            estimate_counts(above, below, above, **noise),
            estimate_sums(above, below, **scale),
            estimate_means(above, below, **scale),
        ]

    ends = [(0.0, np.inf), (0.0 if low >= 0 else -np.inf, 0.0 if high <= 0 else np.inf), (low, high)]
    for found, more, (least, most) in zip(estimates(confidence), estimates((1 + confidence) / 2), ends, strict=True):
        np.testing.assert_array_equal(found.values, more.values)
        held = np.clip(found.values, least, most)
        assert np.all((least <= found.lower) & (found.lower <= held) & (held <= found.upper) & (found.upper <= most))
        whole = (found.lower == low) & (found.upper == high)
        assert np.all(whole | ((more.lower <= found.lower) & (found.upper <= more.upper)))
    means = found
    assert np.all((low <= means.values) & (means.values <= high))


@pytest.mark.parametrize("event", [declared("laplace", Fraction(1), 20), declared("laplace", Fraction(1), 10**6)])
def test_the_interval_of_a_mean_is_the_hull_of_every_share_that_the_noise_allows(event: CountNoise):
    """By trying 641 shares: those within the exact quantile lie inside, and those within 1.1 of it reach the ends. A
    sum below 0 is taken as 0: so the ends are those of possible sums, and all that the raw ones allow lies inside."""
    unit = round(1 / event.inverse_scale)
    sums = np.array([-8, -3, -1, 0, 1, 2, 4, 9, 30, 200]) * unit
    above, below = (grid.ravel() for grid in np.meshgrid(sums, sums))
    means = estimate_means(above, below, low=0, high=1, width=unit, event=event, confidence=0.9)
    shares = np.linspace(0, 1, 641)
    margins = np.array([quantile(event, [1 - q, q], 0.9) for q in shares])
    for a, b, lower, upper in zip(above, below, means.lower, means.upper, strict=True):
        raw = shares[np.abs((1 - shares) * a - shares * b) <= margins]
        sizes = np.abs((1 - shares) * max(a, 0) - shares * max(b, 0))
        certain, possible = shares[sizes <= margins], shares[sizes <= 1.1 * margins + 1]
        if a + b > 0:
            assert lower <= min([certain[0], *raw])
            assert max([certain[-1], *raw]) <= upper
            assert possible[0] - 1 / 640 <= lower
            assert upper <= possible[-1] + 1 / 640
        else:
            assert (lower, upper) == (0, 1)


def test_sums_of_billions_of_rows_keep_the_difference_of_the_two():
    """At 4 * 10^18 a float is off by 512 steps: the intervals allow for it, and the mean is off by 10^-16."""
    event, width = declared("laplace", Fraction(1), 1), 1
    above, below = np.array([4 * 10**18 + 1]), np.array([4 * 10**18])
    sums = estimate_sums(above, below, low=-1, high=1, width=width, event=event, confidence=0.95)
    assert sums.lower[0] <= 1 <= sums.upper[0]
    means = estimate_means(above, below, low=-1, high=1, width=width, event=event, confidence=0.95)
    assert means.lower[0] <= 1 / (8 * 10**18) <= means.upper[0]
    assert means.upper[0] - means.lower[0] < 1e-13


def test_an_interval_reaches_the_truth_that_lies_exactly_at_its_end():
    """Forty-nine times the float 1/49 is below 1, by rounding alone; and no sum widens an interval around zero."""
    event, zero = DiscreteLaplace(Fraction(1, 10), (1,)), np.array([0])
    largest = int(quantile(event, [1.0], 0.95))
    for width in range(1, 200):
        sums = estimate_sums(zero, zero, low=0, high=1, width=width, event=event, confidence=0.95)
        assert Fraction(float(sums.upper[0])) >= Fraction(largest, width)


def test_sums_that_are_only_noise_tell_nothing_of_a_mean():
    event = declared("laplace", Fraction(1), 10)
    above, below = np.array([[0, -500], [3, 20]]), np.array([[0, -500], [-4, -20]])
    means = estimate_means(above, below, low=0, high=10, width=10, event=event, confidence=0.95)
    np.testing.assert_array_equal(means.values, [[5, 5], [10, 10]])
    np.testing.assert_array_equal(means.lower, np.zeros((2, 2)))
    np.testing.assert_array_equal(means.upper, np.full((2, 2), 10.0))


def test_without_noise_to_speak_of_the_estimates_are_the_truth():
    """Values 2, 3 and 7 on 0 to 10, and one row without a value."""
    event = DiscreteLaplace(Fraction(50), (10,))
    above, below, missing = np.array([12]), np.array([18]), np.array([10])
    noise = {"width": 10, "event": event, "confidence": 0.95}
    for found, truth in (
        (estimate_counts(above, below, missing, **noise), 4),
        (estimate_counts(above, below, None, **noise), 3),
        (estimate_sums(above, below, low=0, high=10, **noise), 12),
        (estimate_means(above, below, low=0, high=10, **noise), 4),
    ):
        np.testing.assert_allclose([found.values, found.lower, found.upper], truth, rtol=1e-12)


@pytest.mark.parametrize(
    ("above", "low", "width", "match"),
    [
        (np.array([1.0]), 0, 1, "int64"),
        (np.array([1, 2]), 0, 1, "one shape"),
        (np.array([1]), 1, 1, "low"),
        (np.array([1]), 0, 0, "width"),
    ],
)
def test_what_is_no_noisy_sum_is_refused(above: NDArray[np.int64], low: int, width: int, match: str):
    scale = {"low": low, "high": 1, "width": width, "event": declared("laplace", Fraction(1), 1), "confidence": 0.95}
    for estimate in (estimate_sums, estimate_means):
        with pytest.raises(ValueError, match=match):
            estimate(above, np.array([1]), **scale)


@pytest.mark.parametrize("event", [declared("laplace", Fraction(1, 5), 1), declared("gaussian", Fraction(1, 4), 1)])
@pytest.mark.parametrize("most", [np.inf, 30.0])
def test_intervals_of_bounded_numbers_cover_by_the_noise_itself_and_are_never_short(event: CountNoise, most: float):
    """No simulation: the probabilities of all noise add up to 95 % at least, at every true number. Not so at 90 %."""
    reach = np.arange(-400, 401)
    chances = np.exp(-np.abs(reach) * float(event.inverse_scale)) if isinstance(event, DiscreteLaplace) else None
    if isinstance(event, DiscreteGaussian):
        chances = np.exp(-(reach**2) / (2 * float(event.sigma_squared)))
    chances = chances / np.sum(chances)  # type: ignore[operator]

    def coverage(truth: int, margin: float) -> float:
        found = bounded_estimates((truth + reach).astype(np.float64), margin, least=0.0, most=most)
        assert np.all(found.upper - found.lower >= min(margin, most))
        return float(np.sum(chances[(found.lower <= truth) & (truth <= found.upper)]))

    margin, narrow = quantile(event, [1.0], 0.95), quantile(event, [1.0], 0.9)
    truths = range(31 if most < np.inf else 120)
    assert min(coverage(truth, margin) for truth in truths) >= 0.95 - 1e-12
    assert most < np.inf or min(coverage(truth, narrow) for truth in truths) < 0.95


def test_noise_far_below_the_possible_is_no_certainty():
    """Counts, sums and means have the interval of the least possible noisy number, and not 0 to 0."""
    event = declared("laplace", Fraction(1), 100)
    above, below = np.array([-(10**5), 0]), np.array([10**6, 10**6])
    terms = {"low": 0, "high": 5, "width": 100, "event": event, "confidence": 0.95}
    for found in (estimate_sums(above, below, **terms), estimate_means(above, below, **terms)):  # type: ignore[arg-type]
        np.testing.assert_allclose(found.lower, 0.0)
        np.testing.assert_allclose(found.upper[0], found.upper[1], rtol=1e-9)
        assert found.upper[0] > 0.001
    counts = estimate_counts(-below, -below, None, width=100, event=event, confidence=0.95)
    assert counts.upper.tolist() == pytest.approx([quantile(event, [0.01, 0.01], 0.95)] * 2, rel=1e-5)


NUMBERS = st.floats(-(2.0**30), 2.0**30, allow_subnormal=False)
WIDTHS = st.floats(1e-3, 2.0**30)


def rounded(value: float, low: float, high: float) -> tuple[float, float, float]:
    ends: dict[str, Any] = {"least": -np.inf, "most": np.inf}
    return tuple(float(each[0]) for each in published_digits(*map(np.array, ([value], [low], [high])), **ends))  # type: ignore[return-value]


@given(NUMBERS, WIDTHS, WIDTHS)
def test_no_digit_is_finer_than_a_tenth_of_the_standard_error(value: float, below: float, above: float):
    """By decimals: the unit is the power of ten at or below a tenth of the error; ends are rounded outwards."""
    low, high = value - below, value + above
    middle, first, last = rounded(value, low, high)
    tenth = Decimal(high - low) / 2 / Decimal("1.96") / 10
    unit = Decimal(1).scaleb(tenth.adjusted())
    near = abs(tenth / unit - 10) < Decimal("1e-9") or abs(tenth / unit - 1) < Decimal("1e-9")
    if not near:  # a double may fall on the other side of a power of ten
        for number in (middle, first, last):
            steps = Decimal(repr(number)) / unit
            assert steps == steps.to_integral_value()
        assert Decimal(repr(first)) >= (Decimal(low) / unit).to_integral_value(ROUND_FLOOR) * unit - unit
        assert Decimal(repr(last)) <= (Decimal(high) / unit).to_integral_value(ROUND_CEILING) * unit + unit
    assert first <= low <= high <= last
    assert first <= middle <= last
    assert abs(middle - value) <= float(unit) * 5.001


def test_examples_of_published_digits():
    """A mean of income within 2,100 has whole hundreds; what has no error, or no end, keeps what it has."""
    assert rounded(50909.94012993079, 48809.94, 53009.94) == (50900.0, 48800.0, 53100.0)
    assert rounded(37.25, 37.25, 37.25) == (37.25, 37.25, 37.25)
    assert rounded(12.3456, 11.0, np.inf) == (12.35, 11.0, np.inf)
    assert rounded(np.inf, 3.25, np.inf) == (np.inf, 3.25, np.inf)
    value, low, high = published_digits(
        np.array([98.0]), np.array([70.0]), np.array([99.0]), least=17.0, most=99.0, precision=100.0
    )
    assert (value[0], low[0], high[0]) == (99.0, 70.0, 99.0)
