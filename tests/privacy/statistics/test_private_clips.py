"""The rule from a noisy histogram to a clip: the least expected error, by brute force; and where nothing is found."""

from decimal import Decimal
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.domains.addends import ValueMagnitudes
from contracts.domains.lattice import ValueLattice
from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SeededBytes
from privacy.statistics.clips import FALSE_ALARM, FoundClip, LaterDraw, find_clip, occupied

TENTH, ONE = Fraction(1, 10), Fraction(1)
TRIALS = 2000


def over(low: int, high: int) -> ValueMagnitudes:
    return ValueMagnitudes(ValueLattice("pay", Decimal(low), Decimal(high), Decimal(1), counts_missing=False))


def counted(values: NDArray[np.int64], magnitudes: ValueMagnitudes) -> NDArray[np.int64]:
    offsets = np.clip(values - int(magnitudes.lattice.low), 0, magnitudes.lattice.width)
    lasts = np.array([last for _, last in magnitudes.bins])
    return np.bincount(np.searchsorted(lasts, offsets), minlength=magnitudes.parts)


def laplace(magnitudes: ValueMagnitudes, epsilon: Fraction = TENTH) -> DiscreteLaplace:
    event = cell_sum_event(LaplaceNoise(epsilon), magnitudes, adjacency="add_remove", rows_per_unit=1)
    assert isinstance(event, DiscreteLaplace)
    return event


def found(
    values: NDArray[np.int64],
    magnitudes: ValueMagnitudes,
    *,
    cells: int = 10,
    means: bool = True,
    event: CountNoise | None = None,
    seed: int | None = None,
) -> FoundClip:
    """Find a clip in exact counts, or with a seed in noisy ones; the later draw has an epsilon of one."""
    counts, own = counted(values, magnitudes), laplace(magnitudes)
    if seed is not None:
        counts = counts + discrete_laplace(counts.size, inverse_scale=own.inverse_scale, source=SeededBytes(seed))
    return find_clip(
        [int(each) for each in counts], magnitudes, event=event or own, later=LaterDraw(cells, Fraction(2), means)
    )


def ends(clip: FoundClip) -> tuple[int, int]:
    return int(clip.lattice.low), int(clip.lattice.high)


@pytest.mark.parametrize("means", [True, False])
@pytest.mark.parametrize("cells", [1, 10, 1000])
def test_the_clip_is_the_best_of_all(means: bool, cells: int):
    """By floats, over all pairs of bins, without rows that may hide: the last bin is full."""
    random = np.random.default_rng(4)
    values = np.concatenate([np.abs(random.normal(0, 300, 4000)).astype(np.int64), np.full(2000, 4096)])
    magnitudes = over(-64, 4096)
    counts, best = counted(values, magnitudes), []
    for first, (low, _) in enumerate(magnitudes.bins):
        for _, high in magnitudes.bins[first:]:
            below = sum(n * (low - (a + b) / 2) for n, (a, b) in zip(counts, magnitudes.bins, strict=True) if b < low)
            above = sum(
                n * ((a + b) / 2 - high) for n, (a, b) in zip(counts, magnitudes.bins, strict=True) if a > high
            )
            start, end = low - 64.0, high - 64.0
            size = (end - start) ** 2 / 2 if means else start**2 + end**2
            if high > low:
                best.append((cells * 2 * size + (below + above) ** 2 / cells, start, end))
    nearly_exact = laplace(magnitudes, Fraction(50))
    assert ends(found(values, magnitudes, cells=cells, means=means, event=nearly_exact)) == min(best)[1:]


@pytest.mark.long
def test_bounds_that_are_far_too_wide_cost_nearly_nothing_more():
    """Values up to some thousands within bounds of 1e9, on both sides: the clip is below 1e5 in 50 of 50 releases."""
    random = np.random.default_rng(5)
    values = random.exponential(2000, 20_000).astype(np.int64) * random.choice([1, 1, 1, -1], 20_000)
    magnitudes = over(-(10**8), 9 * 10**8)
    for seed in range(50):
        low, high = ends(found(values, magnitudes, seed=seed))
        assert -100_000 < low <= -500
        assert 3000 <= high < 100_000


def test_a_clip_far_from_0_has_two_ends():
    values = np.random.default_rng(6).normal(70_000, 500, 5000).astype(np.int64)
    low, high = ends(found(values, over(0, 10**9), cells=100, seed=1))
    assert 32_769 <= low <= 65_537
    assert 73_728 < high <= 10**6


def test_negative_values_alone_have_a_clip_of_their_own():
    values = -np.random.default_rng(7).integers(0, 200, 5000)
    low, high = ends(found(values, over(-(10**6), 10**6), seed=1))
    assert (low >= -5000, high <= 1) == (True, True)


@pytest.mark.parametrize("values", [[], [5, 7, 900], [0] * 100_000])
def test_where_nothing_but_zeros_is_found_the_clip_is_the_bounds(values: list[int]):
    """No rows, a few, or zeros alone, which tell nothing of where other values lie."""
    magnitudes = over(-50, 1000)
    assert ends(found(np.array(values, dtype=np.int64), magnitudes)) == (-50, 1000)


def test_rows_outside_are_those_of_the_bins_outside():
    values = np.concatenate([np.full(5000, 3), np.full(5000, 100), np.full(40, 5000)])
    clip = found(values, over(-10, 10**4), cells=100)
    low, high = ends(clip)
    assert (clip.rows, clip.below, clip.above) == (10_040, int((values < low).sum()), int((values > high).sum()))
    assert high < 5000 < 10**4


def test_more_cells_take_a_narrower_clip_and_more_noise_too():
    values = np.random.default_rng(8).pareto(1.5, 50_000).astype(np.int64)
    widths = [found(values, over(0, 10**6), cells=cells).lattice.width for cells in (1, 10, 100, 1000)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 2 * widths[-1]


@pytest.mark.long
@pytest.mark.stat
def test_empty_bins_are_taken_for_rows_as_seldom_as_it_says():
    """2,000 histograms without rows: at most FALSE_ALARM of them, but for 6 standard errors (1e-9)."""
    magnitudes = over(0, 10**9)
    event = laplace(magnitudes)
    noise = discrete_laplace(TRIALS * magnitudes.parts, inverse_scale=event.inverse_scale, source=SeededBytes(3))
    rows = noise.reshape(TRIALS, magnitudes.parts)
    alarms = sum(bool(occupied([int(each) for each in row], event, magnitudes.parts)) for row in rows)
    assert alarms <= TRIALS * FALSE_ALARM + 6 * sqrt(TRIALS * FALSE_ALARM)
    assert alarms > 0


def test_a_run_of_bins_is_found_where_none_of_them_is():
    """Eight bins of half of what one needs."""
    magnitudes = over(0, 10**6)
    event = laplace(magnitudes)
    single = next(n for n in range(1000) if occupied([n], event, magnitudes.parts))
    counts = [0] * 10 + [single // 2 + 1] * 8 + [0] * 10
    runs = occupied(counts, event, magnitudes.parts)
    assert runs
    assert all(run > 1 and 10 - run < start < 18 for start, run in runs)
    assert occupied([0] * 10 + [single - 1] + [0] * 10, event, magnitudes.parts) == []


def test_gaussian_noise_is_judged_by_its_own_margins():
    magnitudes = over(0, 10**6)
    event = cell_sum_event(GaussianNoise(Fraction(1, 200)), magnitudes, adjacency="replace_one", rows_per_unit=2)
    values = np.random.default_rng(9).integers(0, 900, 20_000)
    assert 700 < ends(found(values, magnitudes, event=event))[1] < 10**4
