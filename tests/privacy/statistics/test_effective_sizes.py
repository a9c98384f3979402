"""Effective sample sizes: how often their intervals cover, and what they never do."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from contracts.domains.lattice import ValueLattice
from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.grant.sampled_noise import SampledNoise
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from privacy.noise.random_bytes import SeededBytes
from privacy.statistics.estimates import estimate_effective_sizes

RELEASES = 2000
FALSE_ALARM = 1e-10


def event_of(largest: int, noise: LaplaceNoise | GaussianNoise) -> CountNoise:
    weight = ValueLattice("w", Decimal(0), Decimal(largest), Decimal(1), False)
    return cell_sum_event(noise, replace(weight, weight=weight), adjacency="add_remove", rows_per_unit=1)


def samples(largest: int) -> list[NDArray[np.int64]]:
    """Weights of nobody, of one row, of few and of many; alike, even, small beside the clip, and with some of 0."""
    random = np.random.default_rng(largest)
    small = np.minimum(largest, 1 + random.exponential(largest / 20, 5000).astype(np.int64))
    alike = [np.full(rows, max(1, largest // 4)) for rows in (0, 1, 300)]
    return [*alike, np.full(1, largest), random.integers(0, largest + 1, 10), small, random.integers(0, 2, 500)]


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("largest", [1, 10, 400])
@pytest.mark.parametrize("noise", [LaplaceNoise(Fraction(1)), GaussianNoise(Fraction(1, 2))])
def test_intervals_hold_in_every_size_and_would_not_with_a_fifth_of_the_noise_stated(
    noise: LaplaceNoise | GaussianNoise, largest: int
) -> None:
    """stat: n = 2,000 releases of seven cells, exact binomial, false alarm 1e-10 each: below 1e-8 in all. The noise
    of one cell, five times as large as stated, must fail in some cell."""
    event = event_of(largest, noise)
    few, wrong = binom.ppf(FALSE_ALARM, RELEASES, 0.95), []
    drawn = SampledNoise(SeededBytes(2)).integers(2 * RELEASES, event=event).reshape(2, RELEASES)
    for weights in samples(largest):
        squares, rest = int((weights * weights).sum()), int((weights * (largest - weights)).sum())
        true = float(weights.sum()) ** 2 / squares if squares else 0.0
        for scale in (1, 5):
            sums = squares + scale * drawn[0], rest + scale * drawn[1]
            found = estimate_effective_sizes(*sums, width=largest, event=event, confidence=0.95)
            assert np.all((found.lower <= found.values) & (found.values <= found.upper) & (found.lower >= 0))
            held = np.count_nonzero((found.lower <= true) & (true <= found.upper))
            assert scale > 1 or held >= few
            wrong += [held < few] if scale > 1 else []
    assert any(wrong)


def test_without_noise_the_size_is_that_of_the_rows() -> None:
    """Equal weights: as many as there are rows; a weight of 9 and nine of 1: 324 / 90."""
    event = DiscreteLaplace(Fraction(100), (100,))
    weights = [np.full(7, 5), np.array([9, *[1] * 9]), np.zeros(4, dtype=np.int64)]
    squares, rest = (np.array([int((each * other).sum()) for each, other in pairs]) for pairs in _pairs(weights))
    found = estimate_effective_sizes(squares, rest, width=10, event=event, confidence=0.95)
    assert found.values.tolist() == pytest.approx([7.0, 324 / 90, 0.0])
    np.testing.assert_allclose(found.upper, found.lower, rtol=1e-9)


def _pairs(weights: list[NDArray[np.int64]]) -> tuple[list[tuple[NDArray[np.int64], NDArray[np.int64]]], ...]:
    return [(each, each) for each in weights], [(each, 10 - each) for each in weights]


@pytest.mark.long
@given(st.lists(st.tuples(*[st.integers(-(2**40), 2**60)] * 2), min_size=1, max_size=9), st.sampled_from([1, 2, 400]))
@settings(max_examples=100, deadline=None)
def test_any_noisy_sums_give_finite_numbers_in_their_intervals(pairs: list[tuple[int, int]], largest: int) -> None:
    squares, rest = np.array(pairs, dtype=np.int64).T
    event = event_of(largest, LaplaceNoise(Fraction(1, 10)))
    found = estimate_effective_sizes(squares, rest, width=largest, event=event, confidence=0.95)
    assert np.isfinite([found.values, found.lower, found.upper]).all()
    assert np.all((found.lower >= 0) & (found.lower <= found.values) & (found.values <= found.upper))


def test_sums_that_fit_no_table_are_refused() -> None:
    event, one = event_of(4, LaplaceNoise(Fraction(1))), np.array([1])
    for squares, rest, width in ((one, one, 0), (one.astype(np.float64), one, 4), (one, np.array([1, 2]), 4)):
        with pytest.raises(ValueError, match="int64 of one shape"):
            estimate_effective_sizes(squares, rest, width=width, event=event, confidence=0.95)  # type: ignore[arg-type]
