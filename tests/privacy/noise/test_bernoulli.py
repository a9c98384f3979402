"""The coins are decided by the first byte that differs, and by nothing else."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, sqrt

import numpy as np
import pytest
from scipy.stats import binomtest

from privacy.noise.bernoulli import below, bernoulli
from privacy.noise.binary_expansion import exp_minus, odds_share
from privacy.noise.random_bytes import SeededBytes
from tests.privacy.noise.noise_statistics import FALSE_ALARM, ConstantBytes, ScriptedBytes

HALF_ISH = odds_share(Fraction(1, 7))
FIRST, SECOND, THIRD = (HALF_ISH.byte(index) for index in range(3))


def test_ties_go_on_with_further_bytes_for_the_tied_coins_only() -> None:
    source = ScriptedBytes(
        [FIRST - 1, FIRST, FIRST, FIRST, FIRST + 1, FIRST],
        [SECOND - 1, SECOND, SECOND + 1, SECOND],
        [THIRD - 1, THIRD + 1],
    )
    drawn = bernoulli(6, probability=HALF_ISH, source=source)
    assert drawn.tolist() == [True, True, True, False, False, False]
    assert source.script == []


def test_of_all_two_byte_beginnings_exactly_floor_65536_p_are_heads_before_the_tie() -> None:
    """Exhaustive: the 65,536 beginnings are equally likely, so P(heads) is off p by less than one tie, 2^-16."""
    beginnings = np.arange(65536)
    first, second = (beginnings >> 8).astype(np.uint8), (beginnings & 255).astype(np.uint8)
    source = ScriptedBytes(first.tolist(), second[first == FIRST].tolist(), [THIRD - 1])
    drawn = bernoulli(65536, probability=HALF_ISH, source=source)
    threshold = FIRST * 256 + SECOND
    assert np.array_equal(drawn, beginnings <= threshold)
    source = ScriptedBytes(first.tolist(), second[first == FIRST].tolist(), [THIRD + 1])
    assert np.array_equal(bernoulli(65536, probability=HALF_ISH, source=source), beginnings < threshold)


def test_a_number_that_begins_with_given_bytes_is_decided_like_a_coin() -> None:
    for first, second in product(range(FIRST - 1, FIRST + 2), range(SECOND - 1, SECOND + 2)):
        source = ScriptedBytes([THIRD + 1])
        decided = below(bytes([first, second]), probability=HALF_ISH, source=source)
        assert decided == ((first, second) < (FIRST, SECOND))
        assert bool(source.script) == ((first, second) != (FIRST, SECOND))


def test_a_byte_that_always_ties_first_is_followed_to_a_decision() -> None:
    """e^-1 = 0x5E2D58..: a source of 0x5E ties once, then 0x5E > 0x2D."""
    assert not bernoulli(3, probability=exp_minus(Fraction(1)), source=ConstantBytes(0x5E)).any()


@pytest.mark.stat
@pytest.mark.parametrize("x", [Fraction(1, 1000), Fraction(1, 3), Fraction(5), Fraction(9)])
def test_the_share_of_heads_is_p(x: Fraction) -> None:
    """Exact binomial test; n = 1,000,000 per exponent, false-alarm rate 1e-9 each (4); p off by 10 sd must fail."""
    n, p = 1_000_000, exp(-float(x))
    heads = int(bernoulli(n, probability=exp_minus(x), source=SeededBytes(11)).sum())
    assert binomtest(heads, n, p).pvalue > FALSE_ALARM
    shift = 10 * sqrt(p * (1 - p) / n) + 10 / n
    assert binomtest(heads, n, p - shift if p > 0.5 else p + shift).pvalue < FALSE_ALARM


def test_no_coins_take_no_decision() -> None:
    assert bernoulli(0, probability=HALF_ISH, source=SeededBytes(1)).size == 0
