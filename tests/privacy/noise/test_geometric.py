"""Geometric variables, whole and cut off, and gaps between successes: the exact distributions."""

from decimal import Decimal, localcontext
from fractions import Fraction
from math import exp
from time import thread_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, binomtest, chi2, kstest

from privacy.noise import sparse_laplace as module
from privacy.noise.binary_expansion import Bracket
from privacy.noise.discrete_laplace import CHUNK, SMALLEST_INVERSE_SCALE, geometric
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from privacy.noise.sparse_laplace import MOST_TRIALS, layer_probability, successes
from tests.privacy.noise.noise_statistics import (
    FALSE_ALARM,
    Cdf,
    ConstantBytes,
    chi_square_p,
    dkw_rejects,
    exp_minus_digits,
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
def test_the_draws_have_the_exact_distribution(t: Fraction, below: int | None):
    """Chi-square, n = 1,000,000, and lags 1-4, n = 200,000; false-alarm rate 1e-9 each (2 decisions, 8 cases)."""
    draws = draw(t, below, seed=1, n=1_000_000)
    assert draws.min() >= 0
    assert below is None or draws.max() < below
    assert chi_square_p(draws, geometric_cdf(float(t), below)) > FALSE_ALARM
    assert not lag_rejects(draws[:N], [1, 2, 3, 4])


@pytest.mark.stat
@pytest.mark.parametrize(("t", "below"), [(Fraction(1, 1000), None), (Fraction(1, 3), None), (Fraction(1, 7), 65)])
def test_a_scale_that_is_ten_per_cent_off_is_caught(t: Fraction, below: int | None):
    """DKW, rigorous; n = 200,000, false-alarm rate 1e-9 each (3 cases); the wrong scales must fail."""
    for share, wrong in ((Fraction(1), False), (Fraction(11, 10), True), (Fraction(9, 10), True)):
        assert dkw_rejects(draw(t * share, below, seed=2), geometric_cdf(float(t), below)) is wrong


@pytest.mark.stat
@pytest.mark.parametrize("below", [None, 10**6])
def test_draws_beyond_the_digits_are_as_frequent_as_they_should_be(below: int | None):
    """Exact binomial test; n = 1,000,000, rate 1e-9 each (4). t = 6/64: 2,479 reach 64, 6 reach 128."""
    draws = draw(Fraction(6, 64), below, seed=7, n=1_000_000)
    for reach in (64, 128):
        share = exp(-6 * reach / 64)
        assert binomtest(int((draws >= reach).sum()), draws.size, share).pvalue > FALSE_ALARM
    assert binomtest(0, draws.size, exp(-6)).pvalue < FALSE_ALARM


def test_a_cut_one_off_is_caught():
    """The wrong case: n = 200,000, cut at 3 where 4 was meant."""
    assert chi_square_p(draw(Fraction(1), 3, seed=3), geometric_cdf(1.0, 4)) < FALSE_ALARM


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    r=st.fractions(min_value=Fraction(1, 50), max_value=Fraction(49, 50), max_denominator=100),
    count=st.integers(0, 6),
    data=st.data(),
)
def test_the_digits_alone_are_the_variable_that_is_cut_off(r: Fraction, count: int, data: st.DataObject):
    """prod_j r^(g_j 2^j) / (1 + r^(2^j)) = (1 - r) r^g / (1 - r^(2^J)) in fractions, for every g below 2^J."""
    g = data.draw(st.integers(0, 2**count - 1))
    probability = Fraction(1)
    for digit in range(count):
        odds = r ** (2**digit)
        probability *= odds / (1 + odds) if g >> digit & 1 else 1 / (1 + odds)
    assert probability == (1 - r) * r**g / (1 - r ** (2**count))


def test_extreme_cuts_and_scales_are_drawn():
    assert not draw(Fraction(1), 1, seed=4).any()
    assert draw(SMALLEST_INVERSE_SCALE, 2**61, seed=5).max() < 2**61
    wide = draw(SMALLEST_INVERSE_SCALE, None, seed=6)
    assert not dkw_rejects(wide, geometric_cdf(float(SMALLEST_INVERSE_SCALE), None))
    for size in (0, 1, CHUNK, CHUNK + 1):
        assert geometric(size, inverse_scale=Fraction(1), source=SeededBytes(1)).shape == (size,)


def test_a_draw_that_would_wrap_is_stopped():
    with pytest.raises(OverflowError, match="2\\^62"):
        geometric(2, inverse_scale=SMALLEST_INVERSE_SCALE, source=ConstantBytes(0))


@pytest.mark.parametrize("below", [0, -1, 1.0, True])
def test_a_cut_that_leaves_nothing_is_refused_by_name(below: int):
    with pytest.raises(NoiseRefused) as refused:
        draw(Fraction(1), below, seed=1)
    assert refused.value.argument == "below"


def test_scales_and_sizes_out_of_their_limits_are_refused():
    with pytest.raises(NoiseRefused, match="inverse_scale"):
        draw(Fraction(0), None, seed=1)
    with pytest.raises(NoiseRefused, match="size"):
        draw(Fraction(1), None, seed=1, n=-1)


def test_the_cdf_that_judges_is_right():
    """At t = 1 and a cut at 3: masses 1, r, r^2 over their sum."""
    masses = np.array([1, exp(-1), exp(-2)])
    assert np.allclose(geometric_cdf(1.0, 3)(np.arange(-1.0, 4.0)), [0, *np.cumsum(masses) / masses.sum(), 1])


ODDS = [(Fraction(1, 10), 1), (Fraction(1, 3), 4), (Fraction(1), 6), (Fraction(5), 1)]


def tail(t: Fraction, tau: int) -> tuple[Bracket, float]:
    """The probability r^tau / (1 + r), as bounds and as a float."""
    return layer_probability(t, tau, None), exp(-float(t) * tau) / (1 + exp(-float(t)))


def gap_cdf(p: float) -> Cdf:
    return lambda x: np.where(x < 0, 0.0, -np.expm1((np.maximum(x, -1) + 1) * np.log1p(-p)))


def gaps(t: Fraction, tau: int, *, seed: int) -> NDArray[np.int64]:
    """The first N gaps; twice as many trials as they need, so that the end is not seen."""
    bounds, p = tail(t, tau)
    ranks = successes(int(2 * N / p), probability=bounds, source=SeededBytes(seed))
    return np.diff(ranks[:N], prepend=-1) - 1


def patterns_p(ranks: NDArray[np.int64], trials: int, p: float, *, together: int = 5) -> float:
    """Chi-square of which of 5 neighbouring trials succeed, all 32 patterns, patterns of few pooled."""
    hit = np.zeros(trials, np.int64)
    hit[ranks] = 1
    rows = hit.reshape(-1, together)
    observed = np.bincount(rows @ (1 << np.arange(together)), minlength=1 << together)
    ones = np.array([pattern.bit_count() for pattern in range(1 << together)])
    expected = rows.shape[0] * p**ones * (1 - p) ** (together - ones)
    rare = expected < 25
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), expected.size - 1))


def binomial_p(numbers: NDArray[np.int64], trials: int, p: float) -> float:
    """Chi-square against the binomial distribution; numbers of few are pooled."""
    expected = numbers.size * binom.pmf(np.arange(60), trials, p)
    observed, common = np.bincount(numbers, minlength=60), expected >= 10
    expected = np.append(expected[common], numbers.size - expected[common].sum())
    observed = np.append(observed[common], numbers.size - observed[common].sum())
    return float(chi2.sf(((observed - expected) ** 2 / np.maximum(expected, 1)).sum(), expected.size - 1))


@pytest.mark.stat
@pytest.mark.parametrize(("t", "tau"), ODDS)
def test_the_gaps_are_geometric_and_independent(t: Fraction, tau: int):
    """DKW, n = 200,000, and lags 1-4; false-alarm rate 1e-9 each (2 decisions, 4 cases); p off by 10 % must fail."""
    drawn, p = gaps(t, tau, seed=1), tail(t, tau)[1]
    assert not dkw_rejects(drawn, gap_cdf(p))
    assert not lag_rejects(drawn, [1, 2, 3, 4])
    assert dkw_rejects(drawn, gap_cdf(1.1 * p))
    assert dkw_rejects(drawn, gap_cdf(0.9 * p))


@pytest.mark.stat
def test_gaps_beyond_the_digits_are_as_frequent_as_they_should_be():
    """Exact binomial tests; n = 200,000, false-alarm rate 1e-9 (2 decisions): 2^J is reached by 119, 3/2 2^J by 3.
    Without the quotient there would be none."""
    t, tau = Fraction(1), 6
    drawn, (bounds, p) = gaps(t, tau, seed=5), tail(t, tau)
    step = 1 << len(module._coins(bounds, int(2 * N / p)).digits)
    for reach in (step, step * 3 // 2):
        share = (1 - p) ** reach
        assert binomtest(int((drawn >= reach).sum()), N, share).pvalue > FALSE_ALARM
    assert binomtest(0, N, (1 - p) ** step).pvalue < FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize(("t", "tau"), ODDS)
def test_every_pattern_of_neighbouring_trials_is_as_frequent_as_it_should_be(t: Fraction, tau: int):
    """Chi-square, 5,000,000 trials, 32 patterns, false-alarm rate 1e-9 each (4 cases); correlated hits must fail."""
    trials, (bounds, p) = 5_000_000, tail(t, tau)
    ranks = successes(trials, probability=bounds, source=SeededBytes(2))
    assert patterns_p(ranks, trials, p) > FALSE_ALARM
    assert patterns_p(ranks, trials, 1.1 * p) < FALSE_ALARM
    paired = ranks[ranks < trials // 2]
    assert patterns_p(np.concatenate([2 * paired, 2 * paired + 1]), trials, p) < FALSE_ALARM


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize(
    ("trials", "t", "tau"), [(7, Fraction(1, 2), 1), (40, Fraction(1), 3), (10**12, Fraction(1), 27)]
)
def test_the_number_of_successes_is_binomial(trials: int, t: Fraction, tau: int):
    """Chi-square, n = 4,000 calls, false-alarm rate 1e-9 each (3 cases); p off by 20 % must fail; few each."""
    calls, (bounds, p) = 4_000, tail(t, tau)
    source = SeededBytes(3)
    numbers = np.array([successes(trials, probability=bounds, source=source).size for _ in range(calls)])
    assert binomial_p(numbers, trials, p) > FALSE_ALARM
    assert binomial_p(numbers, trials, 1.2 * p) < FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize("trials", [10**9, 10**12, MOST_TRIALS])
def test_ranks_are_distinct_ascending_and_uniform(trials: int):
    """Kolmogorov-Smirnov, n about 100,000, false-alarm rate 1e-9 each (3 cases); 95 % of the range must fail."""
    tau = round(np.log(trials / 100_000 / (1 + exp(-1))))
    ranks = successes(trials, probability=tail(Fraction(1), tau)[0], source=SeededBytes(4))
    assert ranks.size > 50_000
    assert ranks[0] >= 0
    assert ranks[-1] < trials
    assert np.all(np.diff(ranks) > 0)
    assert kstest(ranks / trials, "uniform").pvalue > FALSE_ALARM
    assert kstest(ranks / trials * 0.95, "uniform").pvalue < FALSE_ALARM


@pytest.mark.parametrize(("t", "tau"), [(Fraction(1, 10), 1), (Fraction(1, 3), 4), (Fraction(2), 9)])
def test_the_coins_agree_with_fractions_from_the_series(t: Fraction, tau: int):
    """A second derivation of 1 - q^n and q^n / (1 + q^n): partial sums of e^-x; monotone in r."""
    bounds = tail(t, tau)[0]
    for doublings in range(3):
        n = 2**doublings

        def failed(r: Fraction, n: int = n) -> Fraction:
            return (1 - r**tau / (1 + r)) ** n

        def succeeded(r: Fraction) -> Fraction:
            return 1 - failed(r)

        def complement(r: Fraction) -> Fraction:
            return 1 / (1 + failed(r))

        some, share = module._some_success(bounds, doublings), module._failures_share(bounds, doublings)
        for shift in (1, 5, 12):
            assert some._prefix(shift) == exp_minus_digits(t, shift, succeeded).to_bytes(shift, "big")
            assert share._prefix(shift) == (256**shift - 1 - exp_minus_digits(t, shift, complement)).to_bytes(
                shift, "big"
            )


@pytest.mark.parametrize(("s", "tau"), [(1, 2), (3, 10), (1, 500)])
def test_the_bounds_of_a_layer_enclose_it_and_close_in(s: int, tau: int):
    """Against 80 digits of (r^s - r^tau) / (1 + r - r^tau), at t = 1/7."""
    with localcontext(prec=80):
        r = (Decimal(-1) / 7).exp()
        exact = (r**s - r**tau) / (1 + r - r**tau)
        for digits in (5, 20, 50):
            least, most = layer_probability(Fraction(1, 7), s, tau)(digits)
            assert least <= exact <= most
            assert most - least < Decimal(10) ** (3 - digits)


@pytest.mark.long
def test_a_probability_too_small_for_any_number_succeeds_never_and_takes_no_time():
    began = thread_time()
    for t, tau in ((Fraction(2**20), 2**61), (Fraction(1), 10_000), (Fraction(1, 1000), 2**61)):
        assert successes(MOST_TRIALS, probability=tail(t, tau)[0], source=SecureBytes()).size == 0
    assert thread_time() - began < 5


@pytest.mark.long
def test_extreme_bytes_end():
    """0xFF.. is above every probability: no block holds a success. 0x00.. below: each gap is 2^J - 1."""
    bounds = tail(Fraction(1), 3)[0]
    assert successes(10**6, probability=bounds, source=ConstantBytes(255)).size == 0
    ranks = successes(10**6, probability=bounds, source=ConstantBytes(0))
    assert set(np.diff(ranks).tolist()) == {1 << len(module._coins(bounds, 10**6).digits)}


def test_no_trials_take_no_bytes_and_one_is_a_coin():
    bounds = tail(Fraction(1), 1)[0]
    assert successes(0, probability=bounds, source=ConstantBytes(0)).size == 0
    assert {successes(1, probability=bounds, source=SeededBytes(seed)).size for seed in range(50)} == {0, 1}


@pytest.mark.parametrize("trials", [-1, MOST_TRIALS + 1, 1.0])
def test_a_number_of_trials_out_of_its_limits_is_refused(trials: int):
    with pytest.raises(NoiseRefused) as refused:
        successes(trials, probability=tail(Fraction(1), 1)[0], source=SeededBytes(1))
    assert refused.value.argument == "trials"
