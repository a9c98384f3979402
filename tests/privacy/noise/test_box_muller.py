"""Box and Muller's pairs: what their bits give in 400 bits, and further bits where these do not decide."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from privacy.noise.random_bytes import SeededBytes
from privacy.noise.rounded_gaussian import pair_from_bits, rounded_pair
from tests.privacy.noise.noise_statistics import ConstantBytes, ScriptedBytes


def exactly(first: int, second: int, bits: int, deviation: Fraction) -> set[tuple[int, int]]:
    """What the ends of U's and V's intervals give, each in 400 bits."""
    with mpmath.workprec(400):
        scale, found = mpmath.mpf(deviation.numerator) / deviation.denominator, set()
        for a, b in ((first, second), (first + 1, second), (first, second + 1), (first + 1, second + 1)):
            radius = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(a) / 2**bits))
            angle = 2 * mpmath.pi * mpmath.mpf(b) / 2**bits
            along, across = scale * radius * mpmath.cos(angle), scale * radius * mpmath.sin(angle)
            found.add((int(mpmath.nint(along)), int(mpmath.nint(across))))
        return found


@pytest.mark.parametrize("deviation", [Fraction(13, 10) * 2**20, Fraction(2) ** 28, Fraction(5, 4), Fraction(1, 8)])
def test_every_pair_is_what_its_bytes_give_in_400_bits(deviation: Fraction) -> None:
    """500 pairs against mpmath on the same bytes; with the factor (1 + 10^-6) one in three would differ."""
    differ = 0
    for first, second in SeededBytes(1).take(16 * 500).view("<u8").reshape(500, 2).tolist():
        found = rounded_pair(first, second, standard_deviation=deviation, source=ScriptedBytes())
        assert found in exactly(first, second, 64, deviation)
        differ += found not in exactly(first, second, 64, deviation * Fraction(1_000_001, 1_000_000))
    assert deviation < 2**20 or differ > 500 / 3


def test_bits_that_do_not_decide_are_followed_by_more() -> None:
    """Words whose interval holds a half integer: what comes next decides, either way."""
    deviation, near = Fraction(2) ** 28, []
    for along, across in ((12_345_678, -401), (3, 987_654_321)):
        with mpmath.workprec(600):
            uniform = mpmath.exp(
                -((along + mpmath.mpf(1) / 2) ** 2 + mpmath.mpf(across) ** 2) / (2 * mpmath.mpf(2) ** 56)
            )
            turn = mpmath.atan2(across, along + mpmath.mpf(1) / 2) / (2 * mpmath.pi) % 1
            near.append((int(uniform * 2**192), int(turn * 2**192)))
    for first, second in near:
        words = first >> 128, second >> 128
        assert pair_from_bits(*words, 64, standard_deviation=deviation) is None
        found = set()
        for further in (0, 2**64 - 1):
            script = list(further.to_bytes(8, "little") + (second >> 64 & 2**64 - 1).to_bytes(8, "little"))
            tail = [list(SeededBytes(4).take(16)) for _ in range(3)]
            pair = rounded_pair(*words, standard_deviation=deviation, source=ScriptedBytes(script, *tail))
            assert {pair} == exactly(words[0] << 64 | further, second >> 64, 128, deviation)
            found.add(pair)
        assert len(found) == 2


def test_a_broken_source_is_refused_and_gives_no_infinite_noise() -> None:
    with pytest.raises(OverflowError, match="4096"):
        rounded_pair(0, 0, standard_deviation=Fraction(2**20), source=ConstantBytes(0))
