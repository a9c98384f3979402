"""Counts, sums, means and variances from noisy moments: exact without noise, the boxes behind their intervals."""

from decimal import Decimal
from fractions import Fraction
from math import expm1

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from contracts.domains.addends import ValueMoments, moments_of
from contracts.domains.lattice import ValueLattice
from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SecureBytes
from privacy.statistics.estimates import (
    BOXES,
    LARGEST,
    Estimates,
    mean_margins,
    square_margins,
    three_noises,
    variance_intervals,
)
from privacy.statistics.moments import NoisyMoments
from privacy.statistics.noise_sums import PIECES, mixed_quantile, quantile

PAY = ValueLattice("pay", Decimal(-100), Decimal(300), Decimal("0.5"), counts_missing=False)
WIDE = ValueLattice("pay", Decimal(0), Decimal(10**6), Decimal(1), counts_missing=True)
RELEASES = 4000
RARE = 1e-9


def exact(moments: ValueMoments, offsets: NDArray[np.int64], missing: int = 0) -> NDArray[np.int64]:
    width, whole = moments.lattice.width, moments.whole
    ends = [
        sum(int(away) ** 2 * whole // width**2 for away in far) for far in (width - offsets.astype(object), offsets)
    ]
    parts = [ends[0], whole * len(offsets) - sum(ends), ends[1], whole * missing]
    return np.array(parts[: moments.parts], dtype=np.int64)


def event_of(moments: ValueMoments, noise: LaplaceNoise | GaussianNoise) -> CountNoise:
    return cell_sum_event(noise, moments, adjacency="add_remove", rows_per_unit=1)


def noisy(moments: ValueMoments, numbers: NDArray[np.int64], event: CountNoise) -> NoisyMoments:
    tiled = np.tile(numbers, (RELEASES, 1))
    drawn = SampledNoise(SecureBytes()).integers(tiled.size, event=event).reshape(tiled.shape)
    return NoisyMoments(tiled + drawn, moments, event, 0.95)


def holds(found: Estimates, true: float, slack: float = 1e-9) -> float:
    share = np.mean((found.lower <= true + slack) & (true - slack <= found.upper))
    assert (found.lower <= found.upper).all()
    return float(share)


@pytest.mark.parametrize("lattice", [PAY, WIDE], ids=["exact", "rounded"])
def test_without_noise_estimates_are_those_of_the_values(lattice: ValueLattice):
    """Each interval holds the true number, though the squares of the wide clip are rounded."""
    moments = moments_of(lattice, 1)
    event = event_of(moments, LaplaceNoise(Fraction(10**6)))
    random, low, step = np.random.default_rng(3), float(lattice.low), float(lattice.step)
    for size in (1, 2, 50):
        offsets = random.integers(0, lattice.width + 1, size)
        values, found = low + step * offsets, NoisyMoments(exact(moments, offsets, 3)[None], moments, event, 0.95)
        assert found.counts().values == pytest.approx([size + 3 * lattice.counts_missing])
        for estimates, true in (
            (found.sums(), values.sum()),
            (found.means(), values.mean()),
            (found.variances(), values.var()),
            (found.deviations(), values.std()),
        ):
            assert estimates.values == pytest.approx([true], rel=1e-6, abs=1e-3)
            assert holds(estimates, float(true), 1e-6 * max(1.0, abs(float(true)))) == 1


@pytest.mark.stat
@pytest.mark.parametrize(
    "noise", [LaplaceNoise(Fraction(1)), GaussianNoise(Fraction(1, 2))], ids=["laplace", "gauss"]
)
@pytest.mark.parametrize("size", [1, 3, 20, 200])
@pytest.mark.parametrize("kind", ["even", "zeros", "alike", "ends", "two points"])
def test_intervals_hold_in_cells_of_every_size(noise: LaplaceNoise | GaussianNoise, size: int, kind: str):
    """n = 4,000 releases; 95 % is below the floor with probability 1e-9 a test, 200 of them. 80 % would be seen."""
    moments, random = moments_of(PAY, 1), np.random.default_rng(size)
    width, even = PAY.width, random.integers(0, PAY.width + 1, size)
    offsets = {
        "even": even,
        "zeros": np.where(random.random(size) < 0.9, 0, even),
        "alike": np.full(size, width // 3),
        "ends": np.where(even < width // 2, 0, width),
        "two points": np.where(even < width // 5, width - 9, width - 1),
    }[kind]
    found = noisy(moments, exact(moments, offsets), event_of(moments, noise))
    values, floor = -100 + 0.5 * offsets, float(binom.ppf(RARE, RELEASES, 0.95)) / RELEASES
    assert floor > 0.92
    shares = {
        "count": holds(found.counts(), size),
        "sum": holds(found.sums(), float(values.sum())),
        "mean": holds(found.means(), float(values.mean())),
        "variance": holds(found.variances(), float(values.var()), 1e-6),
        "sd": holds(found.deviations(), float(values.std()), 1e-6),
    }
    assert min(shares.values()) >= floor, shares


@pytest.mark.stat
def test_half_the_noise_would_be_seen():
    """n = 4,000: intervals for noise of half the size hold far less often than 95 %, and the test above sees it."""
    moments = moments_of(PAY, 1)
    offsets = np.random.default_rng(5).integers(0, PAY.width + 1, 2000)
    drawn = noisy(moments, exact(moments, offsets), event_of(moments, LaplaceNoise(Fraction(1, 2))))
    told = NoisyMoments(drawn.values, moments, event_of(moments, LaplaceNoise(Fraction(1))), 0.95)
    values = -100 + 0.5 * offsets
    assert holds(told.variances(), float(values.var())) < 0.85
    assert holds(told.means(), float(values.mean())) < 0.85


def test_where_nothing_can_be_told_the_interval_is_all_that_is_possible():
    moments = moments_of(PAY, 1)
    numbers = np.array([[-5, -7, -9], [0, 0, 0], [10, -9, -1]], dtype=np.int64) * moments.whole
    found = NoisyMoments(numbers, moments, event_of(moments, LaplaceNoise(Fraction(1))), 0.95)
    assert found.variances().lower.tolist() == [0, 0, 0]
    assert found.variances().upper.tolist() == [40_000] * 3
    assert found.deviations().upper.tolist() == [200] * 3
    assert found.variances().values[:2].tolist() == [20_000] * 2
    assert (found.means().lower == -100).all()
    assert (found.means().upper == 300).all()


def test_noise_that_is_small_beside_a_cell_makes_short_intervals():
    """A million rows: the interval is that of the noise, 1.2 rows of it, over the size, and a tenth for the boxes."""
    moments = moments_of(PAY, 1)
    offsets = np.arange(PAY.width + 1).repeat(1000)
    event = event_of(moments, LaplaceNoise(Fraction(1)))
    found = NoisyMoments(exact(moments, offsets)[None], moments, event, 0.95).variances()
    length = float((found.upper - found.lower)[0]) / 400**2 * offsets.size
    # 0.95 quantile of |X/6 - Y/3 + Z/6|: 1.23 rows.
    assert 2 * 1.2 < length < 2 * 1.2 * 1.15
    assert found.values == pytest.approx([(0.5 * offsets).var()])


LAPLACE = DiscreteLaplace(Fraction(1, 5000), (5000,))
GAUSSIAN = DiscreteGaussian(Fraction(5000**2), (5000,))


@pytest.mark.parametrize("event", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
@settings(max_examples=60, deadline=None)
@given(weights=st.tuples(*[st.floats(1e-4, 1.5)] * 3), missed=st.sampled_from([0.044, 0.006, 0.05]))
def test_many_quantiles_at_once_are_those_that_are_found_one_by_one(
    event: DiscreteLaplace | DiscreteGaussian, weights: tuple[float, float, float], missed: float
):
    """By another module's search; never smaller but for last digits, and larger by 1 % at most."""
    (found,) = three_noises(event, np.array(weights)[:, None], 1 - missed)
    wanted = quantile(event, weights, 1 - missed)
    assert wanted * (1 - 1e-3) - 2 <= found <= wanted * 1.011 + 2
    terms = [(weight, event) for weight in weights]
    assert found == pytest.approx(mixed_quantile(terms, 1 - missed), rel=1e-6)


def test_equal_and_missing_weights_have_quantiles_too():
    weights = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [2.0, 0.0, 0.0]]).T
    found = three_noises(LAPLACE, weights, 0.95)
    for triple, one in zip(weights.T, found, strict=True):
        assert quantile(LAPLACE, [each for each in triple if each], 0.95) <= one * 1.0005
        assert one <= quantile(LAPLACE, [each for each in triple if each], 0.95) * 1.02


@given(mean=st.floats(0, 1), share=st.floats(0, 1))
def test_a_box_has_the_quantile_of_each_pair_in_it(mean: float, share: float):
    """Every pair that some numbers from 0 to 1 have; six digits are rounded up."""
    variance = share * mean * (1 - mean)
    weights = [mean**2 - variance, mean * (1 - mean) + variance, (1 - mean) ** 2 - variance]
    piece = min(int(mean * PIECES), PIECES - 1)
    box = min(int(variance / LARGEST * BOXES), BOXES - 1)
    sizes = np.abs(np.array(weights))[:, None]
    (wanted,) = three_noises(LAPLACE, np.maximum(sizes, 1e-9), 0.956)
    assert square_margins(LAPLACE, 0.956, 0.0)[piece, box] >= wanted * (1 - 1e-9)
    (contrast,) = three_noises(LAPLACE, np.maximum(np.abs([[mean], [0.5 - mean], [1 - mean]]), 1e-9), 0.994)
    assert mean_margins(LAPLACE, 0.994)[piece] >= contrast * (1 - 0.012)


def test_no_noise_at_all_leaves_the_variance_itself():
    """Exact moments of a billion rows, noise of one row: the interval is a millionth long."""
    event = DiscreteLaplace(Fraction(1), (1,))
    for mean, variance in ((0.5, 1 / 12), (0.1, 0.0), (0.9, 0.09), (0.0, 0.0), (0.5, 0.25)):
        second = variance + mean * mean
        parts = np.array([[1 - 2 * mean + second], [2 * mean - 2 * second], [second]]) * 1e9
        value, lower, upper = variance_intervals(parts, event=event, confidence=0.95, sink=0.0)[:, 0]
        assert lower <= value <= upper
        assert value == pytest.approx(variance, abs=1e-12)
        assert upper - lower < 1e-6


@given(parts=st.tuples(*[st.integers(-(10**12), 10**12)] * 3))
@settings(max_examples=200, deadline=None)
def test_whatever_was_drawn_values_and_ends_lie_in_what_is_possible(parts: tuple[int, int, int]):
    found = variance_intervals(np.array(parts, dtype=np.float64)[:, None], event=LAPLACE, confidence=0.95, sink=0.0)[
        :, 0
    ]
    assert np.isfinite(found).all()
    assert 0 <= found[1] <= found[0] <= found[2] <= LARGEST
    if sum(parts) <= 0:
        assert found[1:].tolist() == [0, LARGEST]


@pytest.mark.stat
@pytest.mark.parametrize("true", [(30_000, 0, 0), (7_500, 15_000, 7_500), (15_000, 0, 15_000)])
def test_intervals_at_the_ends_of_what_is_possible_are_never_short(true: tuple[int, int, int]):
    """n = 2,000 releases of 300 rows whose variance is 0 or 1/4: the shortest is two thirds of the median at least.
    Deterministic seed; the shortest interval that comes of a noisy number below the possible is that of the possible
    one next to it. Coverage is at least 95 % by the exact binomial, false-alarm rate 1e-10 of three decisions."""
    event = DiscreteLaplace(Fraction(1, 100), (100,))
    random, stop = np.random.default_rng(4), -expm1(-0.01)
    noise = random.geometric(stop, (3, 2000)) - random.geometric(stop, (3, 2000))
    parts = np.array(true, dtype=np.float64)[:, None] + noise
    _, lower, upper = variance_intervals(parts, event=event, confidence=0.95, sink=0.0)
    at_low, between, at_high = (each / sum(true) for each in true)
    variance = at_low * at_high - between**2 / 4
    assert np.min(upper - lower) >= 2 / 3 * np.median(upper - lower)
    assert np.count_nonzero((lower <= variance) & (variance <= upper)) >= binom.ppf(1e-10, 2000, 0.95)
