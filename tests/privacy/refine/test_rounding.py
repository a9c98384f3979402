"""Rounding: nearest lattice point, ties, memory, threads, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privacy.refine import simplex as chunks
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import project_simplex, round_to_total

LARGE = 300_000


def on_the_simplex(parts: list[int], total: int) -> NDArray[np.float64]:
    weights = np.array(parts)
    return weights * (total / weights.sum()) if weights.sum() > 0 else np.full(weights.size, total / weights.size)


def by_sorting(values: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    whole = np.floor(values).astype(np.int64)
    order = np.argsort(-(values - np.floor(values)), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=4), st.integers(0, 7))
def test_no_lattice_point_of_the_simplex_is_nearer(parts: list[int], total: int) -> None:
    """Against every whole-number table with this total."""
    values = on_the_simplex(parts, total)
    rounded = round_to_total(values, total)
    grid = np.array([p for p in product(range(total + 1), repeat=values.size) if sum(p) == total])
    best = ((grid - values) ** 2).sum(axis=1).min()
    assert ((rounded - values) ** 2).sum() == pytest.approx(best, abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=4), st.integers(1, 7))
def test_rounding_the_projection_is_the_nearest_lattice_point_to_the_noisy_counts(
    noisy: list[int], total: int
) -> None:
    """The paper's section 2.4 [13]: no whole-number table with this total lies nearer to the noisy counts."""
    counts = np.array(noisy)
    rounded = round_to_total(project_simplex(counts, total), total)
    grid = np.array([p for p in product(range(total + 1), repeat=counts.size) if sum(p) == total])
    assert ((rounded - counts) ** 2).sum() == ((grid - counts) ** 2).sum(axis=1).min()


def test_partition_and_sort_agree_on_many_ties() -> None:
    generator = np.random.default_rng(1)
    values = generator.integers(0, 40, LARGE) / 8
    values[0] += np.ceil(values.sum()) - values.sum()
    total = round(float(values.sum()))
    np.testing.assert_array_equal(round_to_total(values, total), by_sorting(values, total))


def test_threads_and_memory_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    noisy = np.random.default_rng(2).geometric(0.3, LARGE) - 4
    values = negative_l2(noisy, 90_000, lambda_=0.1)
    monkeypatch.setattr(chunks, "_cores", lambda: 1)
    expected = round_to_total(values, 90_000)
    monkeypatch.setattr(chunks, "_cores", lambda: 3)
    assert expected.tobytes() == round_to_total(values, 90_000).tobytes()
    place = values.view(np.int64)
    assert round_to_total(values, 90_000, out=place) is place
    assert place.tobytes() == expected.tobytes()


def test_whole_numbers_with_a_float_sum_that_is_off_stay_near() -> None:
    assert round_to_total(np.array([2.0, 3.0, 0.0]), 5).tolist() == [2, 3, 0]
    assert round_to_total(np.array([1.9999999999999998, 3.0]), 5).tolist() == [2, 3]
    assert round_to_total(np.zeros((0,)), 0).tolist() == []


@pytest.mark.parametrize(
    ("values", "total", "named"),
    [
        ([0.5, -0.5], 0, "values must be finite and not negative"),
        ([0.5, float("nan")], 1, "values must be finite and not negative"),
        ([0.5, float("inf")], 1, "values must be finite and not negative"),
        ([1.0, 1.0], 5, "values must sum to total = 5"),
        ([1.5, 1.5], 1, "values must sum to total = 1"),
        ([0.0, 0.0], 1, "values must sum to total = 1"),
        ([1.0], -1, "total must be at least 0"),
    ],
)
def test_what_cannot_be_rounded_is_refused(values: list[float], total: int, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        round_to_total(np.array(values), total)


def test_a_result_array_that_does_not_fit_is_refused() -> None:
    for wrong in (np.empty(3, np.int64), np.empty(2), np.empty(4, np.int64)[::2]):
        with pytest.raises(ValueError, match="out must be a contiguous int64 array of shape"):
            round_to_total(np.array([1.0, 1.0]), 2, out=wrong)  # type: ignore[arg-type]
