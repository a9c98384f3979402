"""Counts, sums, means and variances from noisy moments: exact where nothing is noisy, and intervals that hold."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from contracts.domains.addends import ValueMoments, moments_of
from contracts.domains.lattice import ValueLattice
from privacy.accounting.events import CountNoise
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SecureBytes
from privacy.statistics.estimates import Estimates
from privacy.statistics.moments import NoisyMoments

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
def test_without_noise_estimates_are_those_of_the_values(lattice: ValueLattice) -> None:
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
def test_intervals_hold_in_cells_of_every_size(noise: LaplaceNoise | GaussianNoise, size: int, kind: str) -> None:
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
def test_half_the_noise_would_be_seen() -> None:
    """n = 4,000: intervals for noise of half the size hold far less often than 95 %, and the test above sees it."""
    moments = moments_of(PAY, 1)
    offsets = np.random.default_rng(5).integers(0, PAY.width + 1, 2000)
    drawn = noisy(moments, exact(moments, offsets), event_of(moments, LaplaceNoise(Fraction(1, 2))))
    told = NoisyMoments(drawn.values, moments, event_of(moments, LaplaceNoise(Fraction(1))), 0.95)
    values = -100 + 0.5 * offsets
    assert holds(told.variances(), float(values.var())) < 0.85
    assert holds(told.means(), float(values.mean())) < 0.85


def test_where_nothing_can_be_told_the_interval_is_all_that_is_possible() -> None:
    moments = moments_of(PAY, 1)
    numbers = np.array([[-5, -7, -9], [0, 0, 0], [10, -9, -1]], dtype=np.int64) * moments.whole
    found = NoisyMoments(numbers, moments, event_of(moments, LaplaceNoise(Fraction(1))), 0.95)
    assert found.variances().lower.tolist() == [0, 0, 0]
    assert found.variances().upper.tolist() == [40_000] * 3
    assert found.deviations().upper.tolist() == [200] * 3
    assert found.variances().values[:2].tolist() == [20_000] * 2
    assert (found.means().lower == -100).all()
    assert (found.means().upper == 300).all()


def test_noise_that_is_small_beside_a_cell_makes_short_intervals() -> None:
    """A million rows: the interval is that of the noise, 1.2 rows of it, over the size, and a tenth for the boxes."""
    moments = moments_of(PAY, 1)
    offsets = np.arange(PAY.width + 1).repeat(1000)
    event = event_of(moments, LaplaceNoise(Fraction(1)))
    found = NoisyMoments(exact(moments, offsets)[None], moments, event, 0.95).variances()
    length = float((found.upper - found.lower)[0]) / 400**2 * offsets.size
    # 0.95 quantile of |X/6 - Y/3 + Z/6|: 1.23 rows.
    assert 2 * 1.2 < length < 2 * 1.2 * 1.15
    assert found.values == pytest.approx([(0.5 * offsets).var()])
