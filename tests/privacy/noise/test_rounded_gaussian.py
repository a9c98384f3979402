"""Rounded normal noise: its law, and by mpmath its boxes, slices and points, which floats alone do not decide."""

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
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from privacy.noise.rounded_gaussian import (
    BOX_BITS,
    LARGEST_DEVIATION,
    SLICE_BITS,
    Boxes,
    boxes_of,
    lies_below,
    pair_from_bits,
    rounded_gaussian,
    rounded_pair,
)
from tests.privacy.noise.noise_statistics import (
    FALSE_ALARM,
    ConstantBytes,
    ScriptedBytes,
    chi_square_p,
    dkw_rejects,
    lag_rejects,
    neighbours_p,
    point_bytes,
    word_bytes,
)


def exact(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def cell_area(deviation: Fraction, y: Fraction) -> mpmath.mpf:
    """The area of a cell as high as the density at y, with W the power of two of (s / 64, s / 32]."""
    width = 1
    while 64 * width <= deviation:
        width *= 2
    scaled = exact(y / deviation)
    return exact(width / deviation) * mpmath.exp(-scaled * scaled / 2) / mpmath.sqrt(2 * mpmath.pi)


DEVIATIONS = (
    Fraction(2**8),
    Fraction(1000, 3),
    Fraction(13, 10) * 2**20,
    Fraction(2**21) - Fraction(1, 7),
    Fraction(2**28),
    Fraction(2**32),
)
DIGITS = 60


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_boxes_lie_below_the_graph_and_slices_cover_what_is_left(deviation: Fraction):
    """Each cell against mpmath in 60 digits: not a box too many, not a slice too few, and not two of them amiss."""
    boxes = boxes_of(deviation)
    width = 1 << boxes.width_bits
    assert deviation / 64 < width <= deviation / 32
    assert boxes.cells.tolist() == list(range(-boxes.farthest, boxes.farthest, width))
    with mpmath.workdps(DIGITS):
        for place, first in enumerate(boxes.cells.tolist()):
            ends = (
                cell_area(deviation, Fraction(first) - Fraction(1, 2)),
                cell_area(deviation, Fraction(first + width) - Fraction(1, 2)),
            )
            top = cell_area(deviation, Fraction(0)) if first == 0 else max(ends)
            floor, cap = (mpmath.mpf(float(areas[place])) for areas in (boxes.floors, boxes.caps))
            assert 0 <= min(ends) - floor < mpmath.mpf(2) ** -BOX_BITS
            assert 0 < floor + cap - top < 2 * mpmath.mpf(2) ** -SLICE_BITS


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_tables_have_a_slot_for_each_box_and_each_slice(deviation: Fraction):
    """Counted slot after slot; all areas are whole multiples, and the one slice more is the tail's."""
    boxes = boxes_of(deviation)
    firsts, counts = np.unique(boxes.starts[boxes.starts != boxes.empty], return_counts=True)
    filled = boxes.floors > 0
    assert firsts.tolist() == boxes.cells[filled].tolist()
    assert (counts * 2.0**-BOX_BITS).tolist() == boxes.floors[filled].tolist()
    places, counts = np.unique(boxes.slices, return_counts=True)
    assert places.tolist() == list(range(-1, boxes.cells.size))
    assert counts[0] == 1
    assert (counts[1:] * 2.0**-SLICE_BITS).tolist() == boxes.caps.tolist()
    assert boxes.starts.size == 2**BOX_BITS
    assert 0.986 < boxes.floors.sum() < 0.993


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_the_slice_of_the_square_covers_the_tail(deviation: Fraction):
    """Beyond the last cell on either side, U = e^(-y^2 / (2 s^2)) is below 2^-25: far below the slice's 2^-22."""
    with mpmath.workdps(DIGITS):
        nearest = (mpmath.mpf(boxes_of(deviation).farthest) - mpmath.mpf(1) / 2) / (
            mpmath.mpf(deviation.numerator) / deviation.denominator
        )
        assert mpmath.exp(-(nearest**2) / 2) < mpmath.mpf(2) ** -25 < mpmath.mpf(2) ** -SLICE_BITS


def test_boxes_of_a_density_a_thousandth_wider_would_not_fit():
    """The wrong twin of the first test: of s (1 + 1/1000), far fewer than all cells pass."""
    deviation = Fraction(13, 10) * 2**20
    boxes, wider, passed = boxes_of(deviation), deviation * Fraction(1001, 1000), 0
    width = 1 << boxes.width_bits
    for place, first in enumerate(boxes.cells.tolist()):
        ends = [cell_area(wider, Fraction(edge) - Fraction(1, 2)) for edge in (first, first + width)]
        passed += bool(0 <= min(ends) - float(boxes.floors[place]) < 2.0**-BOX_BITS)
    assert passed < 0.95 * boxes.cells.size


@pytest.mark.parametrize("deviation", [Fraction(1000, 3), Fraction(13, 10) * 2**20, Fraction(2**28)])
def test_points_next_to_the_graph_are_decided_by_their_bits_and_by_no_fewer(deviation: Fraction):
    """Heights one unit of their last bit below, at and above the graph, of 64, 128 and 192 bits, in five cells. The
    bits at the graph leave it open; one unit less lies below; one more above. A y of as many bits is known too."""
    boxes, generator = boxes_of(deviation), np.random.default_rng(1)
    middle = boxes.cells.size // 2
    for cell in (0, middle // 2, middle - 1, middle, middle + 40):
        whole = int(boxes.cells[cell]) + int(generator.integers(1 << boxes.width_bits))
        for bits in (64, 128, 192):
            part = int(generator.integers(1 << 40)) << (bits - 40) | int(generator.integers(1 << 20))
            with mpmath.workprec(600):
                y = Fraction(whole) - Fraction(1, 2) + Fraction(2 * part + 1, 2 << bits)
                share = (cell_area(deviation, y) - float(boxes.floors[cell])) / float(boxes.caps[cell])
                height = int(share * 2**bits)
            y_bits = (part << 64) + (1 << 63), bits + 64
            assert lies_below(boxes, cell, whole, y_bits, (height - 1, bits)) is True
            assert lies_below(boxes, cell, whole, y_bits, (height, bits)) is None
            assert lies_below(boxes, cell, whole, y_bits, (height + 1, bits)) is False
            assert lies_below(boxes, cell, whole, (part >> (bits - 16), 16), (height - 1, bits)) is None


def test_a_y_that_may_be_0_has_the_top_of_the_graph_above_it():
    """The first bit of y - (m - 1/2) at m = 0: on both sides of y = 0 the graph's top is not an end's height."""
    deviation = Fraction(2**8)
    boxes = boxes_of(deviation)
    cell = boxes.cells.tolist().index(0)
    with mpmath.workprec(400):
        top = (cell_area(deviation, Fraction(0)) - float(boxes.floors[cell])) / float(boxes.caps[cell])
        end = (cell_area(deviation, Fraction(1, 2)) - float(boxes.floors[cell])) / float(boxes.caps[cell])
        between, above = int((top + end) / 2 * 2**80), int(top * 2**80) + 1
    assert lies_below(boxes, cell, 0, (0, 0), (between, 80)) is None
    assert lies_below(boxes, cell, 0, (0, 0), (above, 80)) is False
    assert lies_below(boxes, cell, 0, (0, 0), (int(end * 2**80) - 1, 80)) is True


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
def test_every_pair_is_what_its_bytes_give_in_400_bits(deviation: Fraction):
    """500 pairs against mpmath on the same bytes; with the factor (1 + 10^-6) one in three would differ."""
    differ = 0
    for first, second in SeededBytes(1).take(16 * 500).view("<u8").reshape(500, 2).tolist():
        found = rounded_pair(first, second, standard_deviation=deviation, source=ScriptedBytes())
        assert found in exactly(first, second, 64, deviation)
        differ += found not in exactly(first, second, 64, deviation * Fraction(1_000_001, 1_000_000))
    assert deviation < 2**20 or differ > 500 / 3


def test_bits_that_do_not_decide_are_followed_by_more():
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


def test_a_pair_of_a_broken_source_is_refused_and_gives_no_infinite_noise():
    with pytest.raises(OverflowError, match="4096"):
        rounded_pair(0, 0, standard_deviation=Fraction(2**20), source=ConstantBytes(0))


TRAINING = Fraction(13, 10) * 2**20
"""Lattice steps a standard deviation, as a training has them."""


def cdf_of(deviation: Fraction) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    return lambda x: np.asarray(norm.cdf((x + 0.5) / float(deviation)))


def words_for(wanted: list[int], boxes: Boxes) -> list[list[int]]:
    """Bytes that give these numbers: a box's word where the cell has one, else a point at the foot of the cap."""
    bits = boxes.width_bits
    words, points = [], []
    for number in wanted:
        slots = np.flatnonzero(boxes.starts == number >> bits << bits)
        low = number & (1 << bits) - 1
        if slots.size:
            words.append(int(slots[-1]) << 15 | low)
            continue
        words.append(2**32 - 1)
        cell = int(np.searchsorted(boxes.cells, number, side="right")) - 1
        points.append((int(np.flatnonzero(boxes.slices == cell)[0]), low << (64 - bits) | 1 << (63 - bits), 0))
    script = [[byte for word in words for byte in word.to_bytes(4, "little")]]
    return script if not points else [*script, point_bytes(points, 2 * len(points) + 32)]


@pytest.mark.parametrize("deviation", [TRAINING, Fraction(2) ** 28, Fraction(2) ** 8, Fraction(1000, 3)])
def test_every_draw_is_what_its_bytes_give_in_400_bits(deviation: Fraction):
    """3,000 numbers against mpmath on the same bytes; with the factor 1.02 some of the points would differ."""
    boxes, size = boxes_of(deviation), 3_000
    bits, word_bits = boxes.width_bits, 32 if deviation < 2**21 else 64
    source = SeededBytes(1)
    words = [int(word) for word in source.take(size * word_bits // 8).view(f"<u{word_bits // 8}")]
    expected = [int(boxes.starts[word >> (word_bits - 17)]) + word % 2**bits for word in words]
    missing = [place for place, word in enumerate(words) if boxes.starts[word >> (word_bits - 17)] == boxes.empty]
    tries, kept, differ = 2 * len(missing) + 32, [], 0
    assert tries > 50
    for choice, abscissa, height in source.take(24 * tries).view("<u8").reshape(3, -1).T.tolist():
        cell = int(boxes.slices[choice % boxes.slices.size])
        assert cell >= 0
        number = int(boxes.cells[cell]) + (abscissa >> (64 - bits))
        part = Fraction(abscissa % 2 ** (64 - bits), 2 ** (64 - bits)) - Fraction(1, 2)
        level = Fraction(float(boxes.floors[cell])) + Fraction(float(boxes.caps[cell])) * Fraction(height, 2**64)
        with mpmath.workprec(400):
            point = mpmath.mpf(level.numerator) / level.denominator
            below = point < cell_area(deviation, number + part)
            differ += below != (point < cell_area(deviation * Fraction(51, 50), number + part))
        kept += [number] if below else []
    for place, number in zip(missing, kept, strict=False):
        expected[place] = number
    assert differ
    assert len(kept) >= len(missing) > 0
    assert rounded_gaussian(size, standard_deviation=deviation, source=SeededBytes(1)).tolist() == expected


@pytest.mark.parametrize("deviation", [TRAINING, Fraction(2) ** 28, Fraction(2) ** 8])
def test_floats_decide_nothing(deviation: Fraction):
    """All points in exact arithmetic (a margin wider than all heights) are the very same draws."""
    boxes = boxes_of(deviation)
    floats = module._points(1_500, boxes, SeededBytes(2))
    np.testing.assert_array_equal(module._points(1_500, boxes, SeededBytes(2), margin=1e9), floats)
    assert 600 < floats.size < 1_000


def test_numpy_is_far_more_exact_than_the_margin_allows_for():
    """Exponentials of 20,000 numbers against mpmath: within 8 units of 2^-53, where 128 are allowed."""
    exponents = -np.random.default_rng(3).uniform(0, 18.6, 20_000)
    with mpmath.workprec(120):
        exact = [mpmath.exp(mpmath.mpf(exponent)) for exponent in exponents.tolist()]
        worst = max(
            abs(float(found / right - 1)) for found, right in zip(np.exp(exponents).tolist(), exact, strict=True)
        )
    assert worst < 8 * 2.0**-53


@pytest.mark.parametrize("deviation", [TRAINING, Fraction(2) ** 28])
def test_points_on_the_graph_are_decided_by_further_bits(deviation: Fraction):
    """Heights that agree with the graph in 128 bits: 64 bits more of y and of the height decide, either way. Bits of
    the height in the place of y's, or the other way round, would decide too early."""
    boxes = boxes_of(deviation)
    bits = boxes.width_bits
    for cell, low in ((40, 5), (boxes.cells.size // 2, 9), (boxes.cells.size // 2 + 70, 3)):
        number, abscissa = int(boxes.cells[cell]) + low, low << (64 - bits) | 12_345
        further = SeededBytes(4).take(16).view("<u8").tolist()
        y = number - Fraction(1, 2) + Fraction((12_345 << 64 | further[0]) << 64 | further[1], 2 ** (192 - bits))
        with mpmath.workprec(600):
            height = int((cell_area(deviation, y) - float(boxes.floors[cell])) / float(boxes.caps[cell]) * 2**192)
        for moved, found in ((height - 2**12, number), (height + 2**12, None)):
            heights = moved >> 128, moved >> 64 & 2**64 - 1, moved & 2**64 - 1
            script = [word_bytes(*pair) for pair in zip(further, heights[1:], strict=True)]
            source = ScriptedBytes(*script)
            assert module._decided(cell, abscissa, heights[0], boxes, source) == found
            assert not source.script
            point = (int(np.flatnonzero(boxes.slices == cell)[0]), abscissa, heights[0])
            source = ScriptedBytes(point_bytes([point], 1), *script)
            assert module._points(1, boxes, source).tolist() == ([] if found is None else [found])


def test_no_tail_is_cut_off():
    """First bits of 0 end nowhere: 64 zero bits more give a radius of 13.3, which float64 uniforms never reach."""
    boxes, zeros, ones = boxes_of(TRAINING), [0] * 16, [255] * 16
    tail = boxes.slices.size - 1
    for zero_words, least, most in ((1, 9.4, 9.5), (2, 13.2, 13.4), (4, 18.8, 18.9)):
        points = point_bytes([(tail, 0, 0)], 34)
        script = [[255] * 4, points, *[zeros] * (zero_words - 1), ones, ones, ones]
        (drawn,) = rounded_gaussian(1, standard_deviation=TRAINING, source=ScriptedBytes(*script)).tolist()
        assert least < drawn / TRAINING < most


def test_of_the_tails_slice_counts_what_lies_in_the_tail():
    """2^-22 is a radius of 5.5, short of the tail; at 2^-40 (7.4) the angle decides, in all four directions."""
    boxes, near, far = boxes_of(TRAINING), 2**64 - 2**40, 2**46
    turns = {eighth: eighth * 2**61 + 12_345 for eighth in range(8)}
    for eighth, turn in turns.items():
        assert module._decided(-1, near, turn, boxes, SeededBytes(5)) is None
        found = module._decided(-1, far, turn, boxes, SeededBytes(5))
        if eighth in (0, 4):
            assert found is not None
            assert 7.4 < (found if eighth == 0 else -found) / TRAINING < 7.5
        else:
            assert found is None


def test_the_tail_begins_where_the_cells_end():
    """The first numbers beyond the cells on either side, and the last ones within, from bits worked out for them."""
    boxes = boxes_of(TRAINING)
    ends = {boxes.farthest: True, boxes.farthest - 1: False, -boxes.farthest: False, -boxes.farthest - 1: True}
    for number, in_tail in ends.items():
        with mpmath.workprec(200):
            abscissa = int(mpmath.exp(-(exact(number / TRAINING) ** 2) / 2) * 2**86)
        found = module._decided(-1, abscissa, 0 if number > 0 else 2**63, boxes, ScriptedBytes())
        assert found == (number if in_tail else None)


def test_a_broken_source_is_refused_and_gives_no_infinite_noise():
    with pytest.raises(OverflowError, match="too few points"):
        rounded_gaussian(2, standard_deviation=TRAINING, source=ConstantBytes(255))
    with pytest.raises(OverflowError, match="4096"):
        module._decided(-1, 0, 0, boxes_of(TRAINING), ConstantBytes(0))
    zeros = rounded_gaussian(2, standard_deviation=TRAINING, source=ConstantBytes(0))
    assert (np.abs(zeros) < 6 * TRAINING).all()


def test_words_that_would_make_a_slice_likelier_are_drawn_again():
    """2^64 is no multiple of the number of slices: the last words belong to none."""
    boxes = boxes_of(TRAINING)
    fair = 2**64 // boxes.slices.size * boxes.slices.size
    assert fair < 2**64
    for choice, kept in ((fair - 2, 1), (fair, 0), (2**64 - 1, 0), (0, 1)):
        points = point_bytes([(choice, 0, 0)], 1)
        assert module._points(1, boxes, ScriptedBytes(points)).size == kept


@pytest.mark.stat
@pytest.mark.parametrize("deviation", [Fraction(2) ** 8, Fraction(1000), TRAINING, Fraction(2) ** 28])
def test_each_number_has_the_law_of_a_rounded_normal(deviation: Fraction):
    """n = 200,000, false alarm 1e-9 each: chi-square, DKW, lags, neighbours; a scale 10 % off, either way, fails."""
    drawn = rounded_gaussian(200_000, standard_deviation=deviation, source=SeededBytes(5))
    assert chi_square_p(drawn, cdf_of(deviation)) > FALSE_ALARM
    assert not dkw_rejects(drawn, cdf_of(deviation))
    assert dkw_rejects(drawn, cdf_of(deviation * Fraction(11, 10)))
    assert dkw_rejects(drawn, cdf_of(deviation * Fraction(10, 11)))
    assert not lag_rejects(drawn, (1, 2, module._CHUNK, module.BLOCK))
    assert neighbours_p(drawn) > FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize("deviation", [TRAINING, Fraction(2) ** 8])
def test_within_cells_and_between_them_the_masses_are_a_normals(deviation: Fraction):
    """n = 20 million, chi-square over all quarters of cells, 1e-9; boxes alone, without caps, fail."""
    boxes, deviations = boxes_of(deviation), float(deviation)
    step = 1 << (boxes.width_bits - 2)
    edges = np.arange(-boxes.farthest, boxes.farthest + 1, step)
    mass = np.diff(norm.cdf((edges - 0.5) / deviations))
    observed, alone, source = np.zeros(mass.size), np.zeros(mass.size), SeededBytes(6)
    for _ in range(20):
        drawn = rounded_gaussian(1_000_000, standard_deviation=deviation, source=source)
        observed += np.bincount((drawn + boxes.farthest) // step, minlength=mass.size)[: mass.size]
        missing = module._from_boxes(drawn, boxes, source)
        filled = np.delete(drawn, missing)
        alone += np.bincount((filled + boxes.farthest) // step, minlength=mass.size)

    def p_value(counts: NDArray[np.float64]) -> float:
        expected = mass * counts.sum()
        kept = expected > 50
        return float(chi2.sf(((counts - expected)[kept] ** 2 / expected[kept]).sum(), kept.sum()))

    assert p_value(observed) > FALSE_ALARM
    assert p_value(alone) < FALSE_ALARM


@pytest.mark.stat
@pytest.mark.parametrize("deviation", [TRAINING, Fraction(2) ** 8])
def test_what_boxes_leave_has_the_law_of_the_rest(deviation: Fraction):
    """n = 1 million draws from caps, chi-square over quarters of cells against P - boxes, 1e-9; neighbours, lags too.
    All points of slices, whether they lie below the graph or not, fail."""
    boxes, deviations = boxes_of(deviation), float(deviation)
    step = 1 << (boxes.width_bits - 2)
    edges = np.arange(-boxes.farthest, boxes.farthest + 1, step)
    rest = np.diff(norm.cdf((edges - 0.5) / deviations)) - np.repeat(boxes.floors, 4) / 4
    drawn = module._from_caps(1_000_000, boxes, SeededBytes(7))
    anywhere = boxes.slices[np.random.default_rng(8).integers(boxes.slices.size - 1, size=1_000_000)] * 4
    anywhere += np.random.default_rng(9).integers(4, size=anywhere.size)

    def p_value(counts: NDArray[np.int64]) -> float:
        expected = rest / rest.sum() * counts.sum()
        kept = expected > 50
        return float(chi2.sf(((counts - expected)[kept] ** 2 / expected[kept]).sum(), kept.sum()))

    assert p_value(np.bincount((drawn + boxes.farthest) // step, minlength=rest.size)[: rest.size]) > FALSE_ALARM
    assert p_value(np.bincount(anywhere, minlength=rest.size)) < FALSE_ALARM
    assert neighbours_p(drawn) > FALSE_ALARM
    assert not lag_rejects(drawn, (1, 2, 3))


@pytest.mark.long
@pytest.mark.stat
def test_pairs_and_triples_have_the_joint_law_of_independent_ones():
    """n = 6 million numbers at s = 2^8: chi-square over 15^2 cells of pairs and 9^3 of triples, 1e-9 each. Pairs of
    neighbours, of numbers a chunk apart, and of numbers that both come from caps. Copies fail."""
    deviation = Fraction(2**8)
    drawn = rounded_gaussian(6_000_000, standard_deviation=deviation, source=SeededBytes(6))
    caps = module._from_caps(400_000, boxes_of(deviation), SeededBytes(10))

    def p_value(*columns: NDArray[np.int64], parts: int) -> float:
        edges = np.quantile(columns[0], np.arange(1, parts) / parts).astype(np.int64)
        places = [np.searchsorted(edges, column, side="left") for column in columns]
        shares = [np.bincount(place, minlength=parts) / place.size for place in places]
        expected = shares[0] * columns[0].size
        for share in shares[1:]:
            expected = np.multiply.outer(expected, share)
        observed = np.bincount(np.ravel_multi_index(places, expected.shape), minlength=expected.size)
        statistic = ((observed - expected.ravel()) ** 2 / expected.ravel()).sum()
        return float(chi2.sf(statistic, expected.size - 1))

    chunk = module._CHUNK
    chunks = drawn[: drawn.size // (2 * chunk) * 2 * chunk].reshape(-1, 2, chunk)
    assert p_value(drawn[::2], drawn[1::2], parts=15) > FALSE_ALARM
    assert p_value(chunks[:, 0].ravel(), chunks[:, 1].ravel(), parts=15) > FALSE_ALARM
    assert p_value(caps[::2], caps[1::2], parts=15) > FALSE_ALARM
    assert p_value(drawn[::3], drawn[1::3], drawn[2::3], parts=9) > FALSE_ALARM
    assert p_value(drawn[::2], drawn[::2], parts=15) < FALSE_ALARM
    assert p_value(drawn[::3], drawn[1::3], drawn[1::3], parts=9) < FALSE_ALARM


@pytest.mark.long
@pytest.mark.stat
def test_the_angles_of_pairs_lie_nowhere_denser_than_elsewhere():
    """About 3,000 pairs beyond 3.5 deviations, chi-square in 8 parts of float32's angle steps, false alarm 1e-9.
    Float32 has multiples of 2^-21 between 4 and 2 pi; the old noise lies on these, and p is below 10^-100."""
    half = 1 << 15

    def p_value(blocks: list[NDArray[np.int64]], scale: float) -> float:
        pairs = np.concatenate([block.reshape(2, half) for block in blocks], axis=1) / scale
        angles = np.mod(np.arctan2(pairs[1], pairs[0]), 2 * pi)
        far = angles[(np.hypot(*pairs) > 3.5) & (angles > 4)]
        observed = np.bincount((far * 2**21 % 1 * 8).astype(np.int64), minlength=8)
        return float(chi2.sf(((observed - far.size / 8) ** 2 / (far.size / 8)).sum(), 7))

    source = SeededBytes(7)
    old = [np.rint(float32_noise.normals(2 * half, source) * np.float32(2**21)).astype(np.int64) for _ in range(130)]
    new = [rounded_gaussian(2 * half, standard_deviation=Fraction(2**21), source=source) for _ in range(130)]
    assert p_value(new, 2.0**21) > FALSE_ALARM
    assert p_value(old, 2.0**21) < 1e-100


@pytest.mark.parametrize("multiplier", [Fraction(1), Fraction(100)])
def test_no_pair_and_no_triple_of_outputs_is_out_of_reach_under_another_shift(multiplier: Fraction):
    """Outputs less random shifts are drawn from bytes that are worked out for them; the old noise cannot draw some.
    300 outputs of one vector and 20 shifts of the length of one clipped gradient; pairs, triples, and all
    together."""
    generator, size = np.random.default_rng(8), 300
    deviation = Fraction(3, 2) * 2**20
    boxes = boxes_of(deviation)
    drawn = rounded_gaussian(size, standard_deviation=deviation, source=SeededBytes(11))
    for _ in range(20):
        shifts = generator.normal(0, float(deviation / multiplier) / size**0.5, size)
        noise = drawn - np.rint(shifts).astype(np.int64)
        for count in (2, 3, size):
            wanted = noise[:count].tolist()
            source = ScriptedBytes(*words_for(wanted, boxes))
            assert rounded_gaussian(count, standard_deviation=deviation, source=source).tolist() == wanted
    far = [int(deviation * 5), int(-deviation * 9 / 2), 0, -1, boxes.farthest - 1, -boxes.farthest]
    source = ScriptedBytes(*words_for(far, boxes))
    assert rounded_gaussian(6, standard_deviation=deviation, source=source).tolist() == far


@pytest.mark.stat
@pytest.mark.parametrize("multiplier", [Fraction(1), Fraction(100)])
def test_the_old_noise_tells_which_of_two_vectors_it_was_added_to(multiplier: Fraction):
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


def test_arguments_out_of_their_limits_are_refused():
    for wrong in (1.5, 2, Fraction(0), LARGEST_DEVIATION + 1, Fraction(2**8) - Fraction(1, 9)):
        with pytest.raises(NoiseRefused, match="standard_deviation"):
            rounded_gaussian(2, standard_deviation=wrong, source=SecureBytes())  # type: ignore[arg-type]
    with pytest.raises(NoiseRefused, match="size"):
        rounded_gaussian(-1, standard_deviation=TRAINING, source=SecureBytes())
    assert rounded_gaussian(0, standard_deviation=TRAINING, source=SecureBytes()).size == 0
    assert rounded_gaussian(7, standard_deviation=TRAINING, source=SecureBytes()).size == 7
