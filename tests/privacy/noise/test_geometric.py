"""Geometric variables have the exact distribution, whole and cut off."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest

from privacy.noise.discrete_laplace import CHUNK, SMALLEST_INVERSE_SCALE, geometric
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SeededBytes
from tests.privacy.noise.noise_statistics import (
    FALSE_ALARM,
    Cdf,
    ConstantBytes,
    chi_square_p,
    dkw_rejects,
    lag_rejects,
)

N = 200_000
CASES = [
    (Fraction(1, 1000), None),
    (Fraction(1, 3), None),
    (Fraction(4), None),
    (Fraction(1, 1000), 37),
    (Fraction(1, 7), 64),
    (Fraction(1, 7), 65),
    (Fraction(1), 3),
    (Fraction(2), 1000),
]


def geometric_cdf(t: float, below: int | None) -> Cdf:
    most = np.inf if below is None else below - 1
    whole = 1.0 if below is None else -np.expm1(-t * below)
    return lambda x: np.where(x < 0, 0.0, np.where(x >= most, 1.0, -np.expm1(-t * (np.maximum(x, -1) + 1)) / whole))


def draw(t: Fraction, below: int | None, *, seed: int, n: int = N) -> NDArray[np.int64]:
    return geometric(n, inverse_scale=t, below=below, source=SeededBytes(seed))


@pytest.mark.stat
@pytest.mark.parametrize(("t", "below"), CASES)
def test_the_draws_have_the_exact_distribution(t: Fraction, below: int | None) -> None:
    """Chi-square, n = 1,000,000, and lags 1-4, n = 200,000; false-alarm rate 1e-9 each (2 decisions, 8 cases)."""
    draws = draw(t, below, seed=1, n=1_000_000)
    assert draws.min() >= 0
    assert below is None or draws.max() < below
    assert chi_square_p(draws, geometric_cdf(float(t), below)) > FALSE_ALARM
    assert not lag_rejects(draws[:N], [1, 2, 3, 4])


@pytest.mark.stat
@pytest.mark.parametrize(("t", "below"), [(Fraction(1, 1000), None), (Fraction(1, 3), None), (Fraction(1, 7), 65)])
def test_a_scale_that_is_ten_per_cent_off_is_caught(t: Fraction, below: int | None) -> None:
    """DKW, rigorous; n = 200,000, false-alarm rate 1e-9 each (3 cases); the wrong scales must fail."""
    for share, wrong in ((Fraction(1), False), (Fraction(11, 10), True), (Fraction(9, 10), True)):
        assert dkw_rejects(draw(t * share, below, seed=2), geometric_cdf(float(t), below)) is wrong


@pytest.mark.stat
@pytest.mark.parametrize("below", [None, 10**6])
def test_draws_beyond_the_digits_are_as_frequent_as_they_should_be(below: int | None) -> None:
    """Exact binomial test; n = 1,000,000, rate 1e-9 each (4). t = 6/64: 2,479 reach 64, 6 reach 128."""
    draws = draw(Fraction(6, 64), below, seed=7, n=1_000_000)
    for reach in (64, 128):
        share = exp(-6 * reach / 64)
        assert binomtest(int((draws >= reach).sum()), draws.size, share).pvalue > FALSE_ALARM
    assert binomtest(0, draws.size, exp(-6)).pvalue < FALSE_ALARM


def test_a_cut_one_off_is_caught() -> None:
    """The wrong case: n = 200,000, cut at 3 where 4 was meant."""
    assert chi_square_p(draw(Fraction(1), 3, seed=3), geometric_cdf(1.0, 4)) < FALSE_ALARM


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    r=st.fractions(min_value=Fraction(1, 50), max_value=Fraction(49, 50), max_denominator=100),
    count=st.integers(0, 6),
    data=st.data(),
)
def test_the_digits_alone_are_the_variable_that_is_cut_off(r: Fraction, count: int, data: st.DataObject) -> None:
    """prod_j r^(g_j 2^j) / (1 + r^(2^j)) = (1 - r) r^g / (1 - r^(2^J)) in fractions, for every g below 2^J."""
    g = data.draw(st.integers(0, 2**count - 1))
    probability = Fraction(1)
    for digit in range(count):
        odds = r ** (2**digit)
        probability *= odds / (1 + odds) if g >> digit & 1 else 1 / (1 + odds)
    assert probability == (1 - r) * r**g / (1 - r ** (2**count))


def test_extreme_cuts_and_scales_are_drawn() -> None:
    assert not draw(Fraction(1), 1, seed=4).any()
    assert draw(SMALLEST_INVERSE_SCALE, 2**61, seed=5).max() < 2**61
    wide = draw(SMALLEST_INVERSE_SCALE, None, seed=6)
    assert not dkw_rejects(wide, geometric_cdf(float(SMALLEST_INVERSE_SCALE), None))
    for size in (0, 1, CHUNK, CHUNK + 1):
        assert geometric(size, inverse_scale=Fraction(1), source=SeededBytes(1)).shape == (size,)


def test_a_draw_that_would_wrap_is_stopped() -> None:
    with pytest.raises(OverflowError, match="2\\^62"):
        geometric(2, inverse_scale=SMALLEST_INVERSE_SCALE, source=ConstantBytes(0))


@pytest.mark.parametrize("below", [0, -1, 1.0, True])
def test_a_cut_that_leaves_nothing_is_refused_by_name(below: int) -> None:
    with pytest.raises(NoiseRefused) as refused:
        draw(Fraction(1), below, seed=1)
    assert refused.value.argument == "below"


def test_scales_and_sizes_out_of_their_limits_are_refused() -> None:
    with pytest.raises(NoiseRefused, match="inverse_scale"):
        draw(Fraction(0), None, seed=1)
    with pytest.raises(NoiseRefused, match="size"):
        draw(Fraction(1), None, seed=1, n=-1)


def test_the_cdf_that_judges_is_right() -> None:
    """At t = 1 and a cut at 3: masses 1, r, r^2 over their sum."""
    masses = np.array([1, exp(-1), exp(-2)])
    assert np.allclose(geometric_cdf(1.0, 3)(np.arange(-1.0, 4.0)), [0, *np.cumsum(masses) / masses.sum(), 1])
