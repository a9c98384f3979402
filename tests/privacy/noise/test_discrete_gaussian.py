"""Discrete Gaussian noise has the exact distribution, and the float64 filter never makes a decision of its own."""

import tracemalloc
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from math import exp, sqrt, tanh

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from privacy.noise import discrete_gaussian as module
from privacy.noise.binary_expansion import exp_minus
from privacy.noise.discrete_gaussian import LARGEST_SIGMA_SQUARED, SMALLEST_SIGMA_SQUARED, discrete_gaussian
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from tests.privacy.noise.noise_statistics import (
    FALSE_ALARM,
    ScriptedBytes,
    chi_square_p,
    dkw_rejects,
    gaussian_cdf,
    lag_rejects,
    neighbours_p,
)

N = 200_000
SIGMAS = [Fraction(1, 2), Fraction(99, 100), Fraction(1), Fraction(7, 3), Fraction(10), Fraction(1000)]


def draw(sigma: Fraction, *, seed: int, n: int = N) -> NDArray[np.int64]:
    return discrete_gaussian(n, sigma_squared=sigma * sigma, source=SeededBytes(seed))


@pytest.mark.stat
@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_draws_have_the_exact_distribution(sigma: Fraction):
    """Chi-square; n = 1,000,000 per sigma, nominal false-alarm rate 1e-9 each (7 sigmas)."""
    assert chi_square_p(draw(sigma, seed=1, n=1_000_000), gaussian_cdf(float(sigma))) > FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize("sigma", SIGMAS)
def test_a_sigma_that_is_ten_per_cent_off_is_caught(sigma: Fraction):
    """DKW, rigorous; n = 200,000, false-alarm rate 1e-9 each (7 sigmas); the wrong sigmas must fail."""
    for share, wrong in ((Fraction(1), False), (Fraction(11, 10), True), (Fraction(9, 10), True)):
        assert dkw_rejects(draw(sigma * share, seed=2), gaussian_cdf(float(sigma))) is wrong


@pytest.mark.stat
@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(5), Fraction(10**4)])
def test_mean_and_variance_are_those_of_the_distribution(sigma: Fraction):
    """Normal limit; n = 1,000,000, two decisions of 1e-9 for each of 3 sigmas. Moments summed from the mass."""
    draws, s = draw(sigma, seed=3, n=1_000_000).astype(np.float64), float(sigma)
    support = np.arange(-int(12 * s) - 12, int(12 * s) + 13, dtype=np.float64)
    mass = np.exp(-(support**2) / (2 * s * s))
    variance, fourth = ((support**k * mass).sum() / mass.sum() for k in (2, 4))
    allowed = norm.isf(FALSE_ALARM / 2) / sqrt(draws.size)
    assert abs(draws.mean()) < allowed * sqrt(variance)
    assert abs((draws**2).mean() - variance) < allowed * sqrt(fourth - variance**2)


@pytest.mark.stat
@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(100)])
def test_neighbouring_draws_are_independent(sigma: Fraction):
    """Lags and a contingency table; n = 200,000, two decisions of 1e-9 for each of 2 sigmas; a copy must fail."""
    draws = draw(sigma, seed=4)
    assert not lag_rejects(draws, [*range(1, 9), 1 << 15])
    assert neighbours_p(draws) > FALSE_ALARM
    draws[::10] = draws[1::10]
    assert lag_rejects(draws, [1])
    assert neighbours_p(draws) < FALSE_ALARM


@pytest.mark.parametrize("sigma", [Fraction(1, 3), Fraction(1), Fraction(22, 7), Fraction(1000), Fraction(10**8)])
def test_the_exact_way_decides_as_the_filter_does(sigma: Fraction):
    """With the margin at 1 nothing is accepted by floats, and half of the rest is decided by expansions."""
    target = module._Target.of(sigma * sigma)
    proposed = discrete_laplace(4000, inverse_scale=target.inverse_scale, source=SeededBytes(5))
    quick = module._keep(proposed, target, SeededBytes(6))
    exact = module._keep(proposed, target, SeededBytes(6), margin=1.0)
    assert np.array_equal(quick, exact)
    assert 0 < quick.sum() < quick.size


@pytest.mark.long
@pytest.mark.stat
def test_draws_that_all_went_the_exact_way_have_the_same_distribution(monkeypatch: pytest.MonkeyPatch):
    """DKW; n = 20,000, false-alarm rate 1e-9; the same seed also gives the very same draws."""
    sigma, decided = Fraction(3), []
    expected = draw(sigma, seed=7, n=20_000)
    original = module._exactly
    monkeypatch.setattr(module, "_keep", partial(module._keep, margin=1.0))
    monkeypatch.setattr(module, "_exactly", lambda *given: decided.append(1) or original(*given))
    draws = draw(sigma, seed=7, n=20_000)
    assert len(decided) > draws.size
    assert np.array_equal(draws, expected)
    assert not dkw_rejects(draws, gaussian_cdf(3.0))


def test_a_tie_in_all_32_bits_is_decided_by_the_next_bytes():
    """sigma = 1, y = 2: loss (2 - 1/2)^2 / 2 = 9/8. The bytes of e^-9/8 themselves tie; the fifth one decides."""
    target = module._Target.of(Fraction(1))
    expansion = exp_minus(Fraction(9, 8))
    first = [expansion.byte(index) for index in range(6)]
    little_endian = first[3::-1]
    for fifth, kept in ((first[4] - 1, True), (first[4] + 1, False)):
        source = ScriptedBytes(little_endian, [fifth])
        assert module._keep(np.array([-2]), target, source).tolist() == [kept]
        assert source.script == []
    source = ScriptedBytes(little_endian, [first[4]], [first[5] + 1])
    assert module._keep(np.array([2]), target, source).tolist() == [False]


def test_a_proposal_with_loss_zero_is_always_kept():
    """sigma^2 = 2, t = 1/2: |y| = 1 has loss 0; the largest word is the only one that the filter leaves open."""
    target = module._Target.of(Fraction(2))
    for byte in (0, 255):
        source = ScriptedBytes([byte] * 8)
        assert module._keep(np.array([1, -1]), target, source).all()


def test_a_proposal_far_out_is_kept_only_by_bytes_of_zero():
    """Loss 1e6 underflows in float64; the word 1 rejects it, the word 0 goes on to the next byte."""
    target = module._Target.of(Fraction(1))
    assert not module._keep(np.array([1415]), target, ScriptedBytes([1, 0, 0, 0])).any()
    source = ScriptedBytes([0, 0, 0, 0], [0], [0], [3])
    assert not module._keep(np.array([1415]), target, source).any()
    assert source.script == []


@settings(max_examples=300, deadline=None, derandomize=True)
@given(numerator=st.integers(1, 10**16), denominator=st.integers(1, 10**4), share=st.floats(0, 1))
def test_the_float_is_within_the_margin_that_the_docstring_proves(numerator: int, denominator: int, share: float):
    """|F - E| <= 2^-42 E where loss <= 64, against 60 decimal digits; and F < 1/2 beyond."""
    sigma_squared = Fraction(numerator, denominator)
    target = module._Target.of(sigma_squared)
    magnitude = int(share * 13 * sqrt(sigma_squared)) + 1
    loss = target.loss(magnitude)
    gap = np.float64(magnitude) - target.centre
    computed = float(np.exp(gap * gap * -target.half_precision) * 2.0**32)
    with localcontext(prec=60):
        exact = (Decimal(-loss.numerator) / Decimal(loss.denominator)).exp() * 2**32
        if loss <= 64:
            assert abs(Decimal(computed) / exact - 1) <= Decimal(2) ** -42
        else:
            assert computed < 0.5


def test_the_share_of_proposals_that_are_kept_is_what_the_docstring_says():
    """tanh(t/2) e^(-sigma^2 t^2 / 2) sum_k e^(-k^2 / (2 sigma^2)): between 44 % and 76.1 % at every sigma."""
    for sigma in np.geomspace(1e-3, 1e3, 400):
        t = 1 / (int(sigma) + 1)
        k = np.arange(-int(40 * sigma) - 3, int(40 * sigma) + 4)
        share = tanh(t / 2) * exp(-((sigma * t) ** 2) / 2) * np.exp(-(k**2) / (2 * sigma**2)).sum()
        assert 0.44 < share < 0.761


@pytest.mark.stat
@pytest.mark.parametrize("sigma_squared", [SMALLEST_SIGMA_SQUARED, Fraction(1, 100), LARGEST_SIGMA_SQUARED])
def test_extreme_variances(sigma_squared: Fraction):
    """DKW; n = 200,000, false-alarm rate 1e-9 each (3 variances)."""
    draws = discrete_gaussian(N, sigma_squared=sigma_squared, source=SeededBytes(8))
    assert not dkw_rejects(draws, gaussian_cdf(sqrt(sigma_squared)))


def test_every_size_is_filled_and_memory_stays_bounded():
    for size in (0, 1, 7, (1 << 15) - 1, (1 << 15) + 1, 100_000):
        draws = discrete_gaussian(size, sigma_squared=Fraction(17), source=SecureBytes())
        assert draws.shape == (size,)
        assert draws.dtype == np.int64
    tracemalloc.start()
    discrete_gaussian(1_000_000, sigma_squared=Fraction(17), source=SeededBytes(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 1_000_000 + (4 << 20)


@pytest.mark.parametrize(
    "sigma_squared", [Fraction(0), Fraction(-4), SMALLEST_SIGMA_SQUARED / 2, LARGEST_SIGMA_SQUARED + 1]
)
def test_a_variance_out_of_its_limits_is_refused_by_name(sigma_squared: Fraction):
    with pytest.raises(NoiseRefused, match=r"sigma_squared is .*9\.09495E-13 to 1\.26765E\+30"):
        discrete_gaussian(3, sigma_squared=sigma_squared, source=SeededBytes(1))


def test_floats_and_negative_sizes_are_refused():
    with pytest.raises(NoiseRefused, match="of type float"):
        discrete_gaussian(1, sigma_squared=1.0, source=SeededBytes(1))  # type: ignore[arg-type]
    with pytest.raises(NoiseRefused, match="size is -3"):
        discrete_gaussian(-3, sigma_squared=Fraction(1), source=SeededBytes(1))
