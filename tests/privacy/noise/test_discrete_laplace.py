"""Discrete Laplace noise has the exact distribution, cell by cell independently, at every scale."""

import tracemalloc
from fractions import Fraction
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare, norm

from privacy.noise import discrete_laplace as module
from privacy.noise.binary_expansion import odds_share
from privacy.noise.discrete_laplace import LARGEST_INVERSE_SCALE, SMALLEST_INVERSE_SCALE, discrete_laplace
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from tests.privacy.noise.noise_statistics import (
    FALSE_ALARM,
    ConstantBytes,
    ScriptedBytes,
    chi_square_p,
    dkw_rejects,
    lag_rejects,
    laplace_cdf,
    neighbours_p,
)

N = 200_000
SCALES = [
    Fraction(1, 10**9),
    Fraction(1, 1001),
    Fraction(1, 10),
    Fraction(2, 3),
    Fraction(1),
    Fraction(3),
    Fraction(7),
]


def draw(t: Fraction, *, seed: int, n: int = N) -> NDArray[np.int64]:
    return discrete_laplace(n, inverse_scale=t, source=SeededBytes(seed))


@pytest.mark.stat
@pytest.mark.parametrize("t", SCALES)
def test_the_draws_have_the_exact_distribution(t: Fraction):
    """Chi-square; n = 1,000,000 per scale, nominal false-alarm rate 1e-9 each (7 scales)."""
    assert chi_square_p(draw(t, seed=1, n=1_000_000), laplace_cdf(float(t))) > FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize("t", SCALES[:5])
def test_a_scale_that_is_ten_per_cent_off_is_caught(t: Fraction):
    """DKW, rigorous; n = 200,000, false-alarm rate 1e-9 each (5 scales); the wrong scales must fail."""
    for share, wrong in ((Fraction(1), False), (Fraction(11, 10), True), (Fraction(9, 10), True)):
        assert dkw_rejects(draw(t * share, seed=2), laplace_cdf(float(t))) is wrong


@pytest.mark.stat
@pytest.mark.parametrize("t", [Fraction(1, 10**4), Fraction(1, 2), Fraction(2)])
def test_mean_and_variance_are_the_formulas(t: Fraction):
    """Normal limit; n = 1,000,000, two decisions of 1e-9 for each of 3 scales. Variance 2 r / (1 - r)^2."""
    draws, r = draw(t, seed=3, n=1_000_000).astype(np.float64), exp(-t)
    variance = 2 * r / (1 - r) ** 2
    fourth = 2 * r * (1 + 10 * r + r * r) / (1 - r) ** 4
    allowed = norm.isf(FALSE_ALARM / 2) / sqrt(draws.size)
    assert abs(draws.mean()) < allowed * sqrt(variance)
    assert abs((draws**2).mean() - variance) < allowed * sqrt(fourth - variance**2)


@pytest.mark.stat
def test_the_low_digits_of_a_wide_draw_are_a_geometric_number_too():
    """(|X| - 1) mod 256 is k with probability ~ r^k; chi-square, n = 1,000,000, false-alarm rate 1e-9."""
    t = Fraction(1, 200)
    magnitude = np.abs(draw(t, seed=4, n=1_000_000))
    low = (magnitude[magnitude > 0] - 1) & 255
    share = np.exp(-float(t) * np.arange(256))
    counts = np.bincount(low, minlength=256)
    assert chisquare(counts, share / share.sum() * low.size).pvalue > FALSE_ALARM
    assert chisquare(counts).pvalue < FALSE_ALARM  # the wrong case: uniform digits


@pytest.mark.stat
@pytest.mark.parametrize("t", [Fraction(1, 1000), Fraction(1), Fraction(4)])
def test_neighbouring_draws_are_independent(t: Fraction):
    """Lags 1-8 and the chunk's, and a contingency table; n = 200,000, 2 decisions of 1e-9 for each of 3 scales."""
    draws = draw(t, seed=5)
    assert not lag_rejects(draws, [*range(1, 9), 1 << 16])
    assert neighbours_p(draws) > FALSE_ALARM


def test_correlated_draws_are_caught():
    """The wrong cases: each tenth draw copied from its neighbour, or with its neighbour's sign only."""
    for t in (Fraction(1, 1000), Fraction(1)):
        copied = draw(t, seed=6)
        copied[::10] = copied[1::10]
        assert lag_rejects(copied, [1])
        assert neighbours_p(copied) < FALSE_ALARM
        signs = draw(t, seed=6)
        signs[::10] = np.abs(signs[::10]) * np.sign(signs[1::10])
        assert lag_rejects(signs, [1])


def test_a_source_that_repeats_itself_is_caught():
    """The wrong case: the same bytes for every chunk, the fault of a counter that wraps."""

    class Repeating:
        security = "seeded"

        def take(self, n: int) -> NDArray[np.uint8]:
            return SeededBytes(7).take(n)

    draws = discrete_laplace(N, inverse_scale=Fraction(1, 10), source=Repeating())
    assert lag_rejects(draws, [1 << 16])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    r=st.fractions(min_value=Fraction(1, 50), max_value=Fraction(49, 50), max_denominator=100),
    count=st.integers(0, 6),
    g=st.integers(0, 300),
)
def test_the_identity_of_the_digits_holds_in_fractions(r: Fraction, count: int, g: int):
    """(1 - r) r^g = the product of its digits' probabilities and the quotient's, as the docstring says."""
    probability = Fraction(1)
    for digit in range(count):
        odds = r ** (2**digit)
        probability *= odds / (1 + odds) if g >> digit & 1 else 1 / (1 + odds)
    ratio = r ** (2**count)
    assert probability * (1 - ratio) * ratio ** (g >> count) == (1 - r) * r**g


def test_every_pair_of_first_bytes_gives_the_magnitude_that_its_coins_say():
    """Exhaustive at t = 3 (one digit): 65,536 pairs of bytes for the digit and for zero; ties go on with 0xFF."""
    pairs = np.arange(1 << 16)
    high, low = pairs >> 8, pairs & 255
    digit, nonzero = odds_share(Fraction(3)).byte(0), odds_share(Fraction(3), multiple=2).byte(0)
    ties, signs, quotient = [255] * 256, [0] * (1 << 13), [255] * (1 << 16)
    source = ScriptedBytes(high.tolist(), ties, signs, low.tolist(), ties, quotient)
    drawn = discrete_laplace(1 << 16, inverse_scale=Fraction(3), source=source)
    assert np.array_equal(drawn, np.where(low < nonzero, np.where(high < digit, 2, 1), 0))
    assert source.script == []


def test_the_type_that_holds_a_chunk_is_never_too_narrow():
    """With J digits a magnitude without quotient is 2^J at most; every number of digits from 0 to 53."""
    for count in range(54):
        coins = module._coins(Fraction(6, 2**count))
        assert len(coins.digits) == count
        assert np.iinfo(coins.dtype).max >= 2**count


def test_the_largest_byte_draws_zero_and_the_smallest_is_stopped_before_it_wraps():
    """0xFF.. is above every probability: no coin shows heads. 0x00.. never shows tails: an error."""
    t = Fraction(1, 10)
    assert not discrete_laplace(100, inverse_scale=t, source=ConstantBytes(255)).any()
    with pytest.raises(OverflowError, match="2\\^62"):
        discrete_laplace(2, inverse_scale=SMALLEST_INVERSE_SCALE, source=ConstantBytes(0))


@pytest.mark.stat
@pytest.mark.parametrize("t", [SMALLEST_INVERSE_SCALE, Fraction(1, 2**33), Fraction(100), LARGEST_INVERSE_SCALE])
def test_extreme_scales(t: Fraction):
    """DKW; n = 200,000, false-alarm rate 1e-9 each (4 scales); at t = 100 every draw is 0."""
    draws = draw(t, seed=9)
    assert not dkw_rejects(draws, laplace_cdf(float(t)))
    assert draws.any() == (t < 1)


def test_every_size_is_filled_and_memory_stays_bounded():
    for size in (0, 1, 7, 8, 9, (1 << 16) - 1, 1 << 16, (1 << 16) + 1):
        draws = discrete_laplace(size, inverse_scale=Fraction(1, 50), source=SecureBytes())
        assert draws.shape == (size,)
        assert draws.dtype == np.int64
    tracemalloc.start()
    discrete_laplace(2_000_000, inverse_scale=Fraction(1, 50), source=SeededBytes(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2_000_000 + (4 << 20)


def test_the_same_seed_draws_the_same_and_secure_draws_differ():
    assert np.array_equal(draw(Fraction(1, 9), seed=10, n=100_000), draw(Fraction(1, 9), seed=10, n=100_000))
    first, second = (discrete_laplace(1000, inverse_scale=Fraction(1, 99), source=SecureBytes()) for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("t", [Fraction(0), Fraction(-1), SMALLEST_INVERSE_SCALE / 2, LARGEST_INVERSE_SCALE + 1])
def test_a_scale_out_of_its_limits_is_refused_by_name(t: Fraction):
    with pytest.raises(NoiseRefused, match=r"inverse_scale is .*8\.88178E-16 to 1\.04858E\+6"):
        draw(t, seed=1)


def test_floats_and_sizes_that_are_no_numbers_are_refused():
    for wrong in (0.1, 1, float("nan")):
        with pytest.raises(NoiseRefused, match="a Fraction from"):
            discrete_laplace(1, inverse_scale=wrong, source=SeededBytes(1))  # type: ignore[arg-type]
    for size in (-1, 2.0, True):
        with pytest.raises(NoiseRefused) as refused:
            discrete_laplace(size, inverse_scale=Fraction(1), source=SeededBytes(1))  # type: ignore[arg-type]
        assert refused.value.argument == "size"
