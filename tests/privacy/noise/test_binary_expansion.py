"""The bytes of a probability are exact, however many are asked for."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privacy.noise import binary_expansion as module
from privacy.noise.binary_expansion import BinaryExpansion, exp_minus, odds_share
from privacy.noise.limits import NoiseRefused
from tests.privacy.noise.noise_statistics import exp_minus_digits

EXPONENTS = [Fraction(1, 10**9), Fraction(1, 1001), Fraction(1, 10), Fraction(1), Fraction(355, 113), Fraction(100)]


def prefix(expansion: BinaryExpansion, count: int) -> int:
    """The first bytes as one number, asked for one by one."""
    return int.from_bytes(bytes(expansion.byte(index) for index in range(count)), "big")


@pytest.mark.parametrize("x", EXPONENTS)
def test_forty_bytes_agree_with_the_exponential_series_in_fractions(x: Fraction) -> None:
    """A second derivation: alternating partial sums in exact fractions, no decimal arithmetic."""
    assert prefix(exp_minus(x), 40) == exp_minus_digits(x, 40, lambda r: r)
    assert prefix(odds_share(x), 40) == exp_minus_digits(x, 40, lambda r: r / (1 + r))
    assert prefix(odds_share(x, multiple=2), 40) == exp_minus_digits(x, 40, lambda r: 2 * r / (1 + r))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.fractions(min_value=Fraction(1, 10**6), max_value=20, max_denominator=10**6))
def test_any_rational_exponent_agrees_with_the_series(x: Fraction) -> None:
    assert prefix(exp_minus(x), 12) == exp_minus_digits(x, 12, lambda r: r)
    assert prefix(odds_share(x), 12) == exp_minus_digits(x, 12, lambda r: r / (1 + r))


@pytest.mark.long
@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.fractions(min_value=Fraction(1, 10**6), max_value=20, max_denominator=10**6), st.integers(1, 9))
def test_the_bounds_enclose_the_probability_at_any_precision(x: Fraction, digits: int) -> None:
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


def test_the_order_in_which_bytes_are_asked_for_does_not_matter() -> None:
    forwards, backwards = exp_minus(Fraction(1, 3)), exp_minus(Fraction(1, 3))
    expected = [forwards.byte(index) for index in range(100)]
    assert [backwards.byte(index) for index in reversed(range(100))] == expected[::-1]


def test_the_precision_rises_until_both_bounds_agree() -> None:
    """sqrt(1/2) within bounds that come closer slowly: the answer is exact, and several precisions were tried."""
    asked: list[int] = []

    def slow(digits: int) -> tuple[Decimal, Decimal]:
        asked.append(digits)
        root, error = Decimal("0.70710678118654752440084436210484903928483593768847"), Decimal(10) ** -(digits // 8)
        return root - error, root + error

    assert prefix(BinaryExpansion(slow), 8) == 0xB504F333F9DE6484
    assert len(asked) > 2


def test_extreme_exponents_are_expanded() -> None:
    """e^-2^20 begins with 189,000 zero bytes; 1 - 2^-60 < e^-2^-60 < 1 - 2^-61 begins with 60 ones."""
    assert exp_minus(Fraction(2**20)).byte(0) == 0
    assert odds_share(Fraction(2**20), multiple=2).byte(20) == 0
    assert prefix(exp_minus(Fraction(1, 2**60)), 8) == 2**64 - 2**4
    for huge in (2**50 - 1, 2**50 + 1, 2**170):
        assert exp_minus(Fraction(huge)).byte(1000) == 0


@pytest.mark.parametrize("x", [Fraction(0), Fraction(-1, 7)])
def test_an_exponent_that_is_not_positive_is_refused(x: Fraction) -> None:
    with pytest.raises(NoiseRefused, match="exponent is"):
        exp_minus(x)
    with pytest.raises(NoiseRefused, match="exponent is"):
        odds_share(x)


@pytest.mark.parametrize("bytes_of_zeros", [1, 2, 7])
@pytest.mark.parametrize("nats", ["5.54517", "5.545178", "5.5459", "5.546", "5.547"])
def test_leading_zeros_that_are_known_beforehand_are_there(bytes_of_zeros: int, nats: str) -> None:
    """Just below and above the exponents of 256^-k: the bytes are those that the bounds give."""
    exponent = bytes_of_zeros * Fraction(nats)
    slow = BinaryExpansion(lambda digits: module._exp_minus_bounds(exponent, digits))
    fast = exp_minus(exponent)
    assert [fast.byte(index) for index in range(10)] == [slow.byte(index) for index in range(10)]
