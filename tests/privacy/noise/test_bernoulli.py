"""Coins are decided by the first byte that differs; the bytes of a probability are exact, however many are asked."""

from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from privacy.noise import binary_expansion as module
from privacy.noise.bernoulli import below, bernoulli
from privacy.noise.binary_expansion import BinaryExpansion, exp_minus, odds_share
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SeededBytes
from tests.privacy.noise.noise_statistics import FALSE_ALARM, ConstantBytes, ScriptedBytes, exp_minus_digits

HALF_ISH = odds_share(Fraction(1, 7))
FIRST, SECOND, THIRD = (HALF_ISH.byte(index) for index in range(3))


def test_ties_go_on_with_further_bytes_for_the_tied_coins_only():
    source = ScriptedBytes(
        [FIRST - 1, FIRST, FIRST, FIRST, FIRST + 1, FIRST],
        [SECOND - 1, SECOND, SECOND + 1, SECOND],
        [THIRD - 1, THIRD + 1],
    )
    drawn = bernoulli(6, probability=HALF_ISH, source=source)
    assert drawn.tolist() == [True, True, True, False, False, False]
    assert source.script == []


def test_of_all_two_byte_beginnings_exactly_floor_65536_p_are_heads_before_the_tie():
    """Exhaustive: the 65,536 beginnings are equally likely, so P(heads) is off p by less than one tie, 2^-16."""
    beginnings = np.arange(65536)
    first, second = (beginnings >> 8).astype(np.uint8), (beginnings & 255).astype(np.uint8)
    source = ScriptedBytes(first.tolist(), second[first == FIRST].tolist(), [THIRD - 1])
    drawn = bernoulli(65536, probability=HALF_ISH, source=source)
    threshold = FIRST * 256 + SECOND
    assert np.array_equal(drawn, beginnings <= threshold)
    source = ScriptedBytes(first.tolist(), second[first == FIRST].tolist(), [THIRD + 1])
    assert np.array_equal(bernoulli(65536, probability=HALF_ISH, source=source), beginnings < threshold)


def test_a_number_that_begins_with_given_bytes_is_decided_like_a_coin():
    for first, second in product(range(FIRST - 1, FIRST + 2), range(SECOND - 1, SECOND + 2)):
        source = ScriptedBytes([THIRD + 1])
        decided = below(bytes([first, second]), probability=HALF_ISH, source=source)
        assert decided == ((first, second) < (FIRST, SECOND))
        assert bool(source.script) == ((first, second) != (FIRST, SECOND))


def test_a_byte_that_always_ties_first_is_followed_to_a_decision():
    """e^-1 = 0x5E2D58..: a source of 0x5E ties once, then 0x5E > 0x2D."""
    assert not bernoulli(3, probability=exp_minus(Fraction(1)), source=ConstantBytes(0x5E)).any()


@pytest.mark.stat
@pytest.mark.parametrize("x", [Fraction(1, 1000), Fraction(1, 3), Fraction(5), Fraction(9)])
def test_the_share_of_heads_is_p(x: Fraction):
    """Exact binomial test; n = 1,000,000 per exponent, false-alarm rate 1e-9 each (4); p off by 10 sd must fail."""
    n, p = 1_000_000, exp(-float(x))
    heads = int(bernoulli(n, probability=exp_minus(x), source=SeededBytes(11)).sum())
    assert binomtest(heads, n, p).pvalue > FALSE_ALARM
    shift = 10 * sqrt(p * (1 - p) / n) + 10 / n
    assert binomtest(heads, n, p - shift if p > 0.5 else p + shift).pvalue < FALSE_ALARM


def test_no_coins_take_no_decision():
    assert bernoulli(0, probability=HALF_ISH, source=SeededBytes(1)).size == 0


EXPONENTS = [Fraction(1, 10**9), Fraction(1, 1001), Fraction(1, 10), Fraction(1), Fraction(355, 113), Fraction(100)]


def prefix(expansion: BinaryExpansion, count: int) -> int:
    """The first bytes as one number, asked for one by one."""
    return int.from_bytes(bytes(expansion.byte(index) for index in range(count)), "big")


@pytest.mark.parametrize("x", EXPONENTS)
def test_forty_bytes_agree_with_the_exponential_series_in_fractions(x: Fraction):
    """A second derivation: alternating partial sums in exact fractions, no decimal arithmetic."""
    assert prefix(exp_minus(x), 40) == exp_minus_digits(x, 40, lambda r: r)
    assert prefix(odds_share(x), 40) == exp_minus_digits(x, 40, lambda r: r / (1 + r))
    assert prefix(odds_share(x, multiple=2), 40) == exp_minus_digits(x, 40, lambda r: 2 * r / (1 + r))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.fractions(min_value=Fraction(1, 10**6), max_value=20, max_denominator=10**6))
def test_any_rational_exponent_agrees_with_the_series(x: Fraction):
    assert prefix(exp_minus(x), 12) == exp_minus_digits(x, 12, lambda r: r)
    assert prefix(odds_share(x), 12) == exp_minus_digits(x, 12, lambda r: r / (1 + r))


@pytest.mark.long
@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.fractions(min_value=Fraction(1, 10**6), max_value=20, max_denominator=10**6), st.integers(1, 9))
def test_the_bounds_enclose_the_probability_at_any_precision(x: Fraction, digits: int):
    """Few digits show each rounding: both bounds lie on their side of 16 exact bytes of the series."""
    one = 256**16
    for share, bounds in (
        (lambda r: r, module._exp_minus_bounds(x, digits)),
        (lambda r: r / (1 + r), module._odds_share_bounds(x, 1, digits)),
        (lambda r: 2 * r / (1 + r), module._odds_share_bounds(x, 2, digits)),
    ):
        exact = exp_minus_digits(x, 16, share)
        assert Fraction(bounds[0]) * one <= exact
        assert Fraction(bounds[1]) * one >= exact + 1
        assert bounds[1] - bounds[0] <= bounds[1] * (2 + int(x)) * 8 * Decimal(10) ** (1 - digits)


def test_the_order_in_which_bytes_are_asked_for_does_not_matter():
    forwards, backwards = exp_minus(Fraction(1, 3)), exp_minus(Fraction(1, 3))
    expected = [forwards.byte(index) for index in range(100)]
    assert [backwards.byte(index) for index in reversed(range(100))] == expected[::-1]


def test_the_precision_rises_until_both_bounds_agree():
    """sqrt(1/2) within bounds that come closer slowly: the answer is exact, and several precisions were tried."""
    asked: list[int] = []

    def slow(digits: int) -> tuple[Decimal, Decimal]:
        asked.append(digits)
        root, error = Decimal("0.70710678118654752440084436210484903928483593768847"), Decimal(10) ** -(digits // 8)
        return root - error, root + error

    assert prefix(BinaryExpansion(slow), 8) == 0xB504F333F9DE6484
    assert len(asked) > 2


def test_extreme_exponents_are_expanded():
    """e^-2^20 begins with 189,000 zero bytes; 1 - 2^-60 < e^-2^-60 < 1 - 2^-61 begins with 60 ones."""
    assert exp_minus(Fraction(2**20)).byte(0) == 0
    assert odds_share(Fraction(2**20), multiple=2).byte(20) == 0
    assert prefix(exp_minus(Fraction(1, 2**60)), 8) == 2**64 - 2**4
    for huge in (2**50 - 1, 2**50 + 1, 2**170):
        assert exp_minus(Fraction(huge)).byte(1000) == 0


@pytest.mark.parametrize("x", [Fraction(0), Fraction(-1, 7)])
def test_an_exponent_that_is_not_positive_is_refused(x: Fraction):
    with pytest.raises(NoiseRefused, match="exponent is"):
        exp_minus(x)
    with pytest.raises(NoiseRefused, match="exponent is"):
        odds_share(x)


@pytest.mark.parametrize("bytes_of_zeros", [1, 2, 7])
@pytest.mark.parametrize("nats", ["5.54517", "5.545178", "5.5459", "5.546", "5.547"])
def test_leading_zeros_that_are_known_beforehand_are_there(bytes_of_zeros: int, nats: str):
    """Just below and above the exponents of 256^-k: the bytes are those that the bounds give."""
    exponent = bytes_of_zeros * Fraction(nats)
    slow = BinaryExpansion(lambda digits: module._exp_minus_bounds(exponent, digits))
    fast = exp_minus(exponent)
    assert [fast.byte(index) for index in range(10)] == [slow.byte(index) for index in range(10)]
