"""Gaussian noise for vectors of floats: its law, its lattice, and outputs that do not tell what it was added to."""

from __future__ import annotations

from math import log, sqrt
from time import perf_counter

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from privacy.noise.lattice_gaussian import LATTICE_BITS, add_noise, rounding_slack, standard_normals
from privacy.noise.limits import NoiseRefused
from privacy.noise.random_bytes import SecureBytes, SeededBytes
from tests.privacy.noise_statistics import FALSE_ALARM, ConstantBytes

N = 400_000


def ks_rejects(draws: NDArray[np.float32], deviation: float) -> bool:
    """Dvoretzky-Kiefer-Wolfowitz at FALSE_ALARM against N(0, deviation^2)."""
    ordered = np.sort(draws.astype(np.float64))
    exact, n = norm.cdf(ordered / deviation), ordered.size
    distance = max((np.arange(1, n + 1) / n - exact).max(), (exact - np.arange(n) / n).max())
    return bool(distance > sqrt(log(2 / FALSE_ALARM) / (2 * n)))


@pytest.mark.stat
@pytest.mark.parametrize("deviation", [1.0, 0.013, 250.0])
def test_the_noise_has_its_scale(deviation: float) -> None:
    """n = 400,000, false alarm 1e-9; a scale that is 10 % off, either way, is rejected."""
    noisy = np.zeros(N, np.float32)
    add_noise(noisy, standard_deviation=deviation, source=SeededBytes(1))
    assert not ks_rejects(noisy, deviation)
    assert ks_rejects(noisy, deviation * 1.1)
    assert ks_rejects(noisy, deviation / 1.1)


@pytest.mark.stat
def test_tails_and_neighbours_are_those_of_independent_normals() -> None:
    """n = 2,000,000; tail counts, and 8 x 8 cells of a pair's two normals and of a draw and the next, 1e-9 each."""
    draws = standard_normals(2_000_000, source=SeededBytes(2)).astype(np.float64)
    for bound in (3.0, 4.0, 4.75):
        expected = draws.size * 2 * norm.sf(bound)
        assert abs((np.abs(draws) > bound).sum() - expected) < -norm.ppf(FALSE_ALARM / 2) * sqrt(expected) + 20
    edges = norm.ppf(np.arange(1, 8) / 8)
    half = (1 << 15) * (draws.size // (1 << 16))
    blocks = draws[: 2 * half].reshape(-1, 2, 1 << 15)
    pairs = {"a pair": (blocks[:, 0], blocks[:, 1]), "neighbours": (draws[::2], draws[1::2])}
    for left, right in pairs.values():
        cells = np.searchsorted(edges, left.ravel()) * 8 + np.searchsorted(edges, right.ravel())
        observed = np.bincount(cells, minlength=64)
        statistic = ((observed - cells.size / 64) ** 2 / (cells.size / 64)).sum()
        assert chi2.sf(statistic, 63) > FALSE_ALARM
    copied = np.concatenate([draws[:half], draws[:half]])
    assert abs(np.corrcoef(copied[:half], copied[half:])[0, 1]) > 0.9


def test_outputs_lie_on_one_lattice_whatever_the_noise_was_added_to() -> None:
    """The set of possible outputs is the same for every vector: whole multiples of 2^-21 at s = 0.75."""
    for start in (0.0, 0.1, 1 / 3, 12345.678):
        noisy = np.full(5_001, start, np.float32)
        add_noise(noisy, standard_deviation=0.75, source=SeededBytes(3))
        steps = noisy.astype(np.float64) / (0.5 / (1 << LATTICE_BITS))
        np.testing.assert_array_equal(steps, np.rint(steps))
    plain = np.full(5_001, 0.1, np.float32) + 0.75 * standard_normals(5_001, source=SeededBytes(3))
    steps = plain.astype(np.float64) / (0.5 / (1 << LATTICE_BITS))
    assert (steps != np.rint(steps)).any()


def test_rounding_moves_no_vector_farther_than_its_bound() -> None:
    """Each entry moves by half a step at most, so two vectors come at most g sqrt(n) farther apart."""
    generator = np.random.default_rng(4)
    exact = generator.normal(0, 3, 10_001).astype(np.float32)
    noisy = exact.copy()
    add_noise(noisy, standard_deviation=2.0, source=SeededBytes(5))
    zero = np.zeros_like(exact)
    add_noise(zero, standard_deviation=2.0, source=SeededBytes(5))
    moved = np.linalg.norm((noisy.astype(np.float64) - zero) - exact)
    assert moved <= rounding_slack(exact.size, 2.0) / 2 * (1 + 1e-3)


def test_a_broken_source_gives_no_infinite_noise() -> None:
    """Words of zeros or ones are the ends of the radius: finite, at most 9.5."""
    for value in (0, 255):
        draws = standard_normals(10, source=ConstantBytes(value))
        assert np.isfinite(draws).all()
        assert np.abs(draws).max() < 9.6


def test_what_is_not_a_float32_vector_is_refused() -> None:
    source = SecureBytes()
    for wrong in (np.zeros(3), np.zeros((2, 2), np.float32), np.zeros(6, np.float32)[::2]):
        with pytest.raises(NoiseRefused, match="float32"):
            add_noise(wrong, standard_deviation=1.0, source=source)
    for deviation in (0.0, float("inf"), float("nan"), 1e-45, -1.0):
        with pytest.raises(NoiseRefused, match="standard_deviation"):
            add_noise(np.zeros(3, np.float32), standard_deviation=deviation, source=source)
    with pytest.raises(NoiseRefused, match="finite") as refused:
        add_noise(np.array([1.0, np.inf, 77.5], np.float32), standard_deviation=1.0, source=source)
    assert "77" not in str(refused.value)


def test_noise_for_a_large_network_takes_milliseconds() -> None:
    """1.6 million entries take about 13 ms on one core; ten times that is allowed here."""
    source, noisy, times = SecureBytes(), np.zeros(1_600_000, np.float32), []
    for _ in range(5):
        start = perf_counter()
        add_noise(noisy, standard_deviation=1.0, source=source)
        times.append(perf_counter() - start)
    assert sorted(times)[2] < 0.15
