"""Gaussian noise for vectors of floats and latent vectors: laws and lattices; outputs tell not what is beneath."""

from fractions import Fraction
from math import log, sqrt
from time import process_time

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import norm

from privacy.learning.plan import Execution
from privacy.learning.training import Session, initial_state
from privacy.noise.lattice_gaussian import (
    LARGEST_STEPS,
    LATTICE_BITS,
    add_noise,
    lattice_of,
    normals_from,
    on_lattice,
    row_normals,
)
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import RandomBytes, SecureBytes, SeededBytes
from privacy.noise.rounded_gaussian import BLOCK, rounded_gaussian
from tests.privacy.learning.reference_learners import mixed_codes, mixed_layout, p3gm
from tests.privacy.noise.noise_statistics import FALSE_ALARM, ScriptedBytes

N = 400_000
THREE_QUARTERS = Fraction(3, 4)


def ks_rejects(draws: NDArray[np.float32], deviation: float) -> bool:
    """Dvoretzky-Kiefer-Wolfowitz at FALSE_ALARM against N(0, deviation^2)."""
    ordered = np.sort(draws.astype(np.float64))
    exact, n = norm.cdf(ordered / deviation), ordered.size
    distance = max((np.arange(1, n + 1) / n - exact).max(), (exact - np.arange(n) / n).max())
    return bool(distance > sqrt(log(2 / FALSE_ALARM) / (2 * n)))


@pytest.mark.stat
@pytest.mark.parametrize("deviation", [Fraction(1), Fraction(13, 1000), Fraction(250)])
def test_the_noise_has_its_scale(deviation: Fraction):
    """n = 400,000, false alarm 1e-9; a scale that is 10 % off, either way, is rejected."""
    noisy = np.zeros(N, np.float32)
    add_noise(noisy, standard_deviation=deviation, source=SeededBytes(1))
    assert not ks_rejects(noisy, float(deviation))
    assert ks_rejects(noisy, float(deviation) * 1.1)
    assert ks_rejects(noisy, float(deviation) / 1.1)


@pytest.mark.parametrize("exact", [0.0, 0.1, -1 / 3, 12345.678, 3e9])
def test_an_output_is_a_function_of_whole_numbers_that_are_added_up_exactly(exact: float):
    """Rounded entry plus rounded normal, in whole numbers of Python, then one rounding to float32; two blocks."""
    size, deviation = BLOCK + 40_001, THREE_QUARTERS
    noisy, lattice = np.full(size, exact, np.float32), Fraction(1, 2 << LATTICE_BITS)
    add_noise(noisy, standard_deviation=deviation, source=SeededBytes(3))
    whole, source = [], SeededBytes(3)
    for start in range(0, size, BLOCK):
        part = min(BLOCK, size - start)
        whole += rounded_gaussian(part, standard_deviation=deviation / lattice, source=source).tolist()
    start_at = round(Fraction(float(np.float32(exact))) / lattice)
    expected = np.array([np.float32((start_at + each) * float(lattice)) for each in whole])
    np.testing.assert_array_equal(noisy, expected)


def test_the_lattice_is_the_largest_power_of_two_that_is_fine_enough():
    """Also where the nearest double of the deviation is a power of two and the deviation is below it."""
    below = 1 - Fraction(1, 2**80)
    assert float(below) == 1
    for deviation in (Fraction(1), below, Fraction(13, 10), Fraction(1, 10**20), Fraction(10**20), Fraction(2, 3)):
        lattice = Fraction(lattice_of(deviation))
        assert lattice <= deviation / 2**LATTICE_BITS < 2 * lattice


def test_entries_far_off_are_cut_and_never_moved_apart():
    """No entry that float32 holds overflows; and cutting keeps every difference or makes it smaller."""
    exact = np.array([3e38, -3e38, 1e9, 0.0, 1.0], np.float32)
    steps = on_lattice(exact, lattice_of(Fraction(1)))
    assert steps.tolist() == [int(LARGEST_STEPS), -int(LARGEST_STEPS), 10**9 << LATTICE_BITS, 0, 1 << LATTICE_BITS]
    add_noise(exact, standard_deviation=Fraction(1), source=SeededBytes(4))
    assert np.isfinite(exact).all()


def test_rounding_moves_no_vector_farther_than_its_bound():
    """Each entry moves by half a step at most, so two vectors come at most g sqrt(n) farther apart."""
    generator = np.random.default_rng(4)
    exact = generator.normal(0, 3, 10_001).astype(np.float32)
    moved = on_lattice(exact, lattice_of(Fraction(2))) * lattice_of(Fraction(2)) - exact
    assert 0 < np.linalg.norm(moved) <= lattice_of(Fraction(2)) * sqrt(exact.size) / 2


def test_what_is_not_a_float32_vector_is_refused():
    source = SecureBytes()
    for wrong in (np.zeros(3), np.zeros((2, 2), np.float32), np.zeros(6, np.float32)[::2]):
        with pytest.raises(NoiseRefused, match="float32"):
            add_noise(wrong, standard_deviation=Fraction(1), source=source)
    for deviation in (Fraction(0), Fraction(-1), Fraction(1, 10**21), Fraction(10**21), 1.0, float("nan")):
        with pytest.raises(NoiseRefused, match="standard_deviation"):
            add_noise(np.zeros(3, np.float32), standard_deviation=deviation, source=source)  # type: ignore[arg-type]
    given = np.array([1.0, np.inf, 77.5], np.float32)
    with pytest.raises(NoiseRefused, match="finite") as refused:
        add_noise(given, standard_deviation=Fraction(1), source=source)
    assert "77" not in str(refused.value)
    np.testing.assert_array_equal(given, np.array([1.0, np.inf, 77.5], np.float32))


@pytest.mark.long
def test_noise_for_a_large_network_takes_a_fraction_of_a_tenth_of_a_second():
    """1.6 million entries take about 13 ms of one core's time; ten times that is allowed to the quickest of ten."""
    source, noisy, times = SecureBytes(), np.zeros(1_600_000, np.float32), []
    for _ in range(10):
        start = process_time()
        add_noise(noisy, standard_deviation=Fraction(1), source=source)
        times.append(process_time() - start)
    assert min(times) < 0.13


BOUND = 0.5
ROWS = 60


def clipped_sum(codes: NDArray[np.uint8], source: RandomBytes) -> NDArray[np.float64]:
    learner = p3gm()
    session = Session(
        learner, mixed_layout(), initial_state(learner), step=0, steps=1, execution=Execution("cpu", 4096)
    )
    return session.clipped_sum(codes, bound=BOUND, normals=normals_from(source)).astype(np.float64)


def bytes_a_row() -> int:
    numbers = p3gm().samples * p3gm().latent
    return 8 * ((numbers + 1) // 2)


def test_with_the_same_latents_for_the_same_rows_a_row_more_moves_a_sum_by_its_own_gradient():
    """The coupling of the proof. The wrong case: latents by place from a seed move it by several bounds."""
    codes = mixed_codes(ROWS)
    script = SeededBytes(1).take(bytes_a_row() * ROWS)
    with_first = clipped_sum(codes, ScriptedBytes(script.tolist()))
    without = clipped_sum(codes[1:], ScriptedBytes(script[bytes_a_row() :].tolist()))
    assert 0.1 * BOUND < np.linalg.norm(with_first - without) < BOUND * (1 + 1e-4)
    seeded = clipped_sum(codes[1:], ScriptedBytes(script[: -bytes_a_row()].tolist()))
    assert np.linalg.norm(with_first - seeded) > 2 * BOUND


def test_a_seed_of_torch_has_32_bits():
    """Why no seed makes latents: another one by 2^32 is the same."""
    one, other = (torch.randn(4, generator=torch.Generator().manual_seed(5 + add)) for add in (0, 2**32))
    assert torch.equal(one, other)


@pytest.mark.stat
def test_latents_are_independent_normals():
    """n = 400,000 by DKW and neighbours in a row and from row to row, false alarm 1e-9; 10 % off is rejected."""
    drawn = row_normals(100_000, 4, source=SeededBytes(2)).astype(np.float64)
    ordered = np.sort(drawn.ravel())
    steps = np.arange(ordered.size + 1) / ordered.size

    def rejects(deviation: float) -> bool:
        exact = norm.cdf(ordered / deviation)
        distance = max((steps[1:] - exact).max(), (exact - steps[:-1]).max())
        return bool(distance > (np.log(2 / FALSE_ALARM) / (2 * ordered.size)) ** 0.5)

    assert not rejects(1.0)
    assert rejects(1.1)
    assert rejects(1 / 1.1)
    most = norm.isf(FALSE_ALARM / 20) / 100_000**0.5
    together = np.corrcoef(np.concatenate([drawn[1:], drawn[:-1]], axis=1).T) - np.eye(8)
    assert np.abs(together).max() < most
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 0] + 0.1 * drawn[:, 1])[0, 1]) > most


def test_a_row_s_latents_are_a_function_of_its_own_bytes():
    """Also where an odd number is asked for; other rows' bytes change nothing."""
    for size in (1, 4, 5):
        width = 8 * ((size + 1) // 2)
        script = SeededBytes(3).take(width * 9).reshape(9, width)
        whole = row_normals(9, size, source=ScriptedBytes(script.ravel().tolist()))
        turned = row_normals(9, size, source=ScriptedBytes(script[::-1].ravel().tolist()))
        assert whole.shape == (9, size)
        np.testing.assert_allclose(turned[::-1], whole, rtol=1e-6, atol=1e-7)
    assert row_normals(0, 3, source=SeededBytes(4)).shape == (0, 3)
