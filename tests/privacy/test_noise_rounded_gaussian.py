"""Rounded normal noise: its exact law, one number, pairs and triples, and bytes that floats alone do not decide."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import pi

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from benchmarks.games import float32_noise
from privacy.noise import rounded_gaussian as module
from privacy.noise.box_muller import pair_from_bits, rounded_pair
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from privacy.noise.rounded_gaussian import LARGEST_DEVIATION, rounded_gaussian
from tests.privacy.noise_statistics import (
    FALSE_ALARM,
    ConstantBytes,
    ScriptedBytes,
    chi_square_p,
    dkw_rejects,
    lag_rejects,
    neighbours_p,
)

TRAINING = Fraction(13, 10) * 2**20
"""Lattice steps a standard deviation, as a training has them."""


def cdf_of(deviation: Fraction) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    return lambda x: np.asarray(norm.cdf((x + 0.5) / float(deviation)))


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


def words_for(along: int, across: int, deviation: Fraction) -> tuple[int, int]:
    """64 bits of U and of V in the middle of those that give this pair: Box and Muller's formula, backwards."""
    with mpmath.workprec(600):
        scale = mpmath.mpf(deviation.numerator) / deviation.denominator
        uniform = mpmath.exp(-(mpmath.mpf(along) ** 2 + mpmath.mpf(across) ** 2) / (2 * scale**2))
        turn = mpmath.atan2(across, along) / (2 * mpmath.pi) % 1
        return min(int(uniform * 2**64), 2**64 - 1), int(turn * 2**64)


@pytest.mark.parametrize("deviation", [TRAINING, Fraction(2) ** 28, Fraction(5, 4), Fraction(1, 8)])
def test_every_draw_is_what_its_bytes_give_in_400_bits(deviation: Fraction) -> None:
    """3,000 numbers against mpmath on the same bytes; with the factor (1 + 10^-6) two in three would differ."""
    pairs = 1_500
    words = SeededBytes(1).take(16 * pairs).view("<u8")
    drawn = rounded_gaussian(2 * pairs, standard_deviation=deviation, source=SeededBytes(1))
    differ = 0
    for place in range(pairs):
        found = int(drawn[place]), int(drawn[place + pairs])
        expected = exactly(int(words[place]), int(words[place + pairs]), 64, deviation)
        assert found in expected
        differ += found not in exactly(
            int(words[place]), int(words[place + pairs]), 64, deviation * Fraction(1_000_001, 1_000_000)
        )
    assert deviation < 2**20 or differ > pairs / 3


@pytest.mark.parametrize("deviation", [TRAINING, Fraction(2) ** 28, Fraction(1, 8)])
def test_floats_decide_nothing(deviation: Fraction) -> None:
    """All pairs in exact arithmetic (a margin wider than all numbers) are the very same draws."""
    made = np.empty(2_000, np.int64)
    module._fill(made, deviation, SeededBytes(2), margin=8.0)
    np.testing.assert_array_equal(made, rounded_gaussian(2_000, standard_deviation=deviation, source=SeededBytes(2)))


def test_numpy_is_far_more_exact_than_the_margin_allows_for() -> None:
    """Logarithm, cosine and sine of 20,000 numbers against mpmath: within 8 units of 2^-53, where 128 are allowed."""
    generator = np.random.default_rng(3)
    uniforms, angles = generator.random(20_000) + 1e-9, generator.uniform(-pi, pi, 20_000)
    worst = 0.0
    with mpmath.workprec(120):
        for u, log, a, cos, sin in zip(
            uniforms, np.log(uniforms), angles, np.cos(angles), np.sin(angles), strict=True
        ):
            exact = mpmath.log(mpmath.mpf(u))
            worst = max(worst, abs(float((exact - log) / exact)))
            worst = max(
                worst, abs(float(mpmath.cos(mpmath.mpf(a)) - cos)), abs(float(mpmath.sin(mpmath.mpf(a)) - sin))
            )
    assert worst < 8 * 2.0**-53


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


def test_no_tail_is_cut_off() -> None:
    """A first word of 0 ends nowhere: 64 zero bits more give a radius of 13.3, which float64 uniforms never reach."""
    zeros, ones = [0] * 16, [255] * 16
    for zero_words, least, most in ((1, 9.4, 9.5), (2, 13.2, 13.4), (4, 18.8, 18.9)):
        script = [[0] * 8 + [0] * 8, *[zeros] * (zero_words - 1), ones, ones, ones]
        along, across = rounded_gaussian(2, standard_deviation=TRAINING, source=ScriptedBytes(*script)).tolist()
        assert least < along / TRAINING < most
        assert across >= 0


def test_a_broken_source_is_refused_and_gives_no_infinite_noise() -> None:
    with pytest.raises(OverflowError, match="4096"):
        rounded_gaussian(2, standard_deviation=TRAINING, source=ConstantBytes(0))
    assert not rounded_gaussian(2, standard_deviation=TRAINING, source=ConstantBytes(255)).any()


@pytest.mark.stat
@pytest.mark.parametrize("deviation", [Fraction(1, 2), Fraction(3), Fraction(1000), TRAINING, Fraction(2) ** 28])
def test_each_number_has_the_law_of_a_rounded_normal(deviation: Fraction) -> None:
    """n = 200,000, false alarm 1e-9 each: chi-square, DKW, lags, neighbours; a scale 10 % off, either way, fails."""
    drawn = rounded_gaussian(200_000, standard_deviation=deviation, source=SeededBytes(5))
    assert chi_square_p(drawn, cdf_of(deviation)) > FALSE_ALARM
    assert not dkw_rejects(drawn, cdf_of(deviation))
    assert dkw_rejects(drawn, cdf_of(deviation * Fraction(11, 10)))
    assert dkw_rejects(drawn, cdf_of(deviation * Fraction(10, 11)))
    assert not lag_rejects(drawn, (1, 2, module._PAIRS, 2 * module._PAIRS))
    assert neighbours_p(drawn) > FALSE_ALARM


@pytest.mark.stat
def test_a_pair_has_the_joint_law_of_two_independent_ones() -> None:
    """n = 400,000 pairs at s = 2, chi-square over 15 x 15 whole numbers, 1e-9; pairs in step with each other fail."""
    half, deviation = module._PAIRS, Fraction(2)
    drawn = rounded_gaussian(50 * 2 * half, standard_deviation=deviation, source=SeededBytes(6)).reshape(-1, 2, half)
    edges = np.arange(-7, 7) + 0.5
    mass = np.diff(np.concatenate([[0.0], norm.cdf(edges / 2), [1.0]]))

    def p_value(left: NDArray[np.int64], right: NDArray[np.int64]) -> float:
        cells = np.searchsorted(edges, left.ravel()) * 15 + np.searchsorted(edges, right.ravel())
        expected = np.outer(mass, mass).ravel() * left.size
        kept = expected > 5
        observed = np.bincount(cells, minlength=225)
        rest = [expected[~kept].sum()], [observed[~kept].sum()]
        expected, observed = np.append(expected[kept], rest[0]), np.append(observed[kept], rest[1])
        return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), kept.sum()))

    assert p_value(drawn[:, 0], drawn[:, 1]) > FALSE_ALARM
    assert p_value(drawn[:, 0], drawn[:, 0]) < FALSE_ALARM


@pytest.mark.stat
def test_the_angles_of_pairs_lie_nowhere_denser_than_elsewhere() -> None:
    """About 3,000 pairs beyond 3.5 deviations, chi-square in 8 parts of float32's angle steps, false alarm 1e-9.

    Float32 has multiples of 2^-21 between 4 and 2 pi; the old noise lies on these, and p is below 10^-100.
    """
    half = 1 << 15

    def p_value(blocks: list[NDArray[np.int64]], scale: float) -> float:
        pairs = np.concatenate([block.reshape(2, half) for block in blocks], axis=1) / scale
        angles = np.mod(np.arctan2(pairs[1], pairs[0]), 2 * pi)
        far = angles[(np.hypot(*pairs) > 3.5) & (angles > 4)]
        observed = np.bincount((far * 2**21 % 1 * 8).astype(np.int64), minlength=8)
        return float(chi2.sf(((observed - far.size / 8) ** 2 / (far.size / 8)).sum(), 7))

    source = SeededBytes(7)
    old = [np.rint(float32_noise.normals(2 * half, source) * np.float32(2**21)).astype(np.int64) for _ in range(130)]
    new = [
        rounded_gaussian(2 * half, standard_deviation=Fraction(2**21), source=source)
        .reshape(-1, 2, module._PAIRS)
        .swapaxes(0, 1)
        .ravel()
        for _ in range(130)
    ]
    assert p_value(new, 2.0**21) > FALSE_ALARM
    assert p_value(old, 2.0**21) < 1e-100


@pytest.mark.parametrize("multiplier", [Fraction(1), Fraction(100)])
def test_no_pair_and_no_triple_of_outputs_is_out_of_reach_under_another_shift(multiplier: Fraction) -> None:
    """Outputs less random shifts are drawn from bytes that are worked out for them; the old noise cannot draw some.

    120 outputs of one vector, and 60 random shifts of the length of one clipped gradient. A triple is a pair and one
    number of another; all three come out together.
    """
    generator, size = np.random.default_rng(8), 120
    deviation = Fraction(3, 2) * 2**20
    drawn = rounded_gaussian(size, standard_deviation=deviation, source=SecureBytes())
    for _ in range(3):
        shifts = generator.normal(0, float(deviation / multiplier) / size**0.5, size)
        noise = drawn - np.rint(shifts).astype(np.int64)
        for place in range(0, 40, 2):
            wanted = [tuple(noise[place + 40 * k : place + 40 * k + 2].tolist()) for k in (0, 1)]
            uniforms, turns = zip(*(words_for(*pair, deviation) for pair in wanted), strict=True)
            source = ScriptedBytes([byte for word in (*uniforms, *turns) for byte in word.to_bytes(8, "little")])
            four = rounded_gaussian(4, standard_deviation=deviation, source=source).tolist()
            assert [(four[0], four[2]), (four[1], four[3])] == wanted


@pytest.mark.stat
@pytest.mark.parametrize("multiplier", [Fraction(1), Fraction(100)])
def test_the_old_noise_tells_which_of_two_vectors_it_was_added_to(multiplier: Fraction) -> None:
    """The wrong twin. 20,000 numbers: no pair less the right vector is unreachable, over 30 less another are."""
    size, norm_bound = 20_000, 1.7
    deviation = multiplier * Fraction(17, 10)
    lattice = float32_noise.lattice_of(deviation)
    other = np.full(size, norm_bound / size**0.5, np.float32)
    noisy = np.zeros(size, np.float32)
    float32_noise.add_noise(noisy, standard_deviation=deviation, source=SeededBytes(9))
    steps = np.rint(noisy.astype(np.float64) / lattice).astype(np.int64)
    assert float32_noise.unreachable(steps, deviation) == 0
    assert float32_noise.unreachable(steps - np.rint(other / lattice).astype(np.int64), deviation) > 30


def test_arguments_out_of_their_limits_are_refused() -> None:
    for wrong in (1.5, 2, Fraction(0), LARGEST_DEVIATION + 1, Fraction(1, 2**21)):
        with pytest.raises(NoiseRefused, match="standard_deviation"):
            rounded_gaussian(2, standard_deviation=wrong, source=SecureBytes())  # type: ignore[arg-type]
    with pytest.raises(NoiseRefused, match="size"):
        rounded_gaussian(-1, standard_deviation=TRAINING, source=SecureBytes())
    assert rounded_gaussian(0, standard_deviation=TRAINING, source=SecureBytes()).size == 0
    assert rounded_gaussian(7, standard_deviation=TRAINING, source=SecureBytes()).size == 7
