"""Projection to a simplex, and rounding to the nearest lattice point: ties, memory, threads, and what is refused."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from privacy.refine import simplex as chunks
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import over_chunks, project_divided, project_simplex, round_to_total, threshold

LARGE = 700_000
"""Several chunks, and above the size from which a sample gives the bound."""


def exact_theta(values: list[int], total: int) -> Fraction:
    descending = sorted(values, reverse=True)
    candidates = [Fraction(sum(descending[:j]) - total, j) for j in range(1, len(values) + 1)]
    return [theta for value, theta in zip(descending, candidates, strict=True) if value > theta][-1]


def mesh(kind: str, seed: int = 1) -> tuple[NDArray[np.int64], int]:
    """A large noisy table: sparse and heavy-tailed, dense, with one giant cell, or of one repeated value."""
    generator = np.random.default_rng(seed)
    noise = np.rint(generator.laplace(0, 10, LARGE)).astype(np.int64)
    match kind:
        case "sparse":
            truth = np.where(generator.random(LARGE) < 0.02, generator.pareto(1.2, LARGE) * 50, 0).astype(np.int64)
        case "dense":
            truth = generator.poisson(400, LARGE)
        case "giant":
            truth = np.zeros(LARGE, np.int64)
            truth[123_456] = 10**12
        case _:
            truth, noise = np.full(LARGE, 7), np.zeros(LARGE, np.int64)
    return truth + noise, int(truth.sum())


def by_sorting(values: NDArray[np.int64], total: int) -> float:
    descending = np.sort(values)[::-1]
    thetas = (np.cumsum(descending) - total) / np.arange(1, values.size + 1)
    return float(thetas[np.flatnonzero(descending > thetas)[-1]])


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=40), st.integers(1, 10**15))
def test_the_threshold_is_the_exact_fraction_rounded_once(values: list[int], total: int):
    """Also where the cells are far larger than what a float resolves beside the total."""
    assert threshold(np.array(values), total) == float(exact_theta(values, total))


@given(
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=40),
    st.integers(1, 1000),
    st.sampled_from([2**62, -(2**62)]),
)
def test_cells_near_the_end_of_int64_are_projected_as_their_differences(values: list[int], total: int, far: int):
    """θ moves with the cells: what is left does not change, though no float tells 2^62 from its neighbours."""
    near, moved = np.array(values), np.array([value + far for value in values])
    np.testing.assert_array_equal(project_simplex(moved, total), project_simplex(near, total))


@pytest.mark.parametrize("kind", ["sparse", "dense", "giant", "repeated"])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_large_tables_agree_with_the_sorting_procedure(kind: str, dtype: type[np.int64 | np.float64]):
    noisy, total = mesh(kind)
    cells = noisy.astype(dtype)
    theta = by_sorting(noisy, total)
    assert threshold(cells, total) == pytest.approx(theta, abs=1e-6)
    projected = project_simplex(cells, total)
    assert projected.min() == 0 or kind != "sparse"
    np.testing.assert_allclose(projected, np.maximum(noisy - theta, 0), rtol=1e-12, atol=1e-6)


@pytest.mark.parametrize("total_share", [0.0001, 0.5, 3.0])
def test_a_total_far_from_the_sum_of_the_cells_is_reached_too(total_share: float):
    """The sampled bound may then be useless; the answer is the same."""
    noisy, total = mesh("sparse")
    wanted = max(1, round(total * total_share))
    assert project_simplex(noisy, wanted).sum() == pytest.approx(wanted, rel=1e-9)
    assert threshold(noisy, wanted) == pytest.approx(by_sorting(noisy, wanted), abs=1e-6)


@pytest.mark.parametrize("shift", [-3000, 0, 3000])
def test_hardly_any_noise_leaves_the_cells_at_zero_out(shift: int):
    """ε = 10: θ lies within a thousandth of 0, which nearly all cells hold, on one side or the other."""
    generator = np.random.default_rng(3)
    noisy = np.where(generator.random(LARGE) < 0.02, generator.integers(1, 500, LARGE), 0)
    noisy += np.where(generator.random(LARGE) < 1e-4, generator.choice([-1, 1], LARGE), 0)
    total = int(noisy.sum()) + shift
    assert threshold(noisy, total) == pytest.approx(by_sorting(noisy, total), abs=1e-9)
    assert project_simplex(noisy, total).sum() == pytest.approx(total, rel=1e-12)


def test_a_sample_that_misleads_changes_nothing():
    """Every 61st cell holds a million, all others 0 or 1: the sample sees only the former."""
    noisy = np.arange(LARGE) % 2
    noisy[::61] = 10**6
    assert threshold(noisy, 10_000_000) == pytest.approx(by_sorting(noisy, 10_000_000), rel=1e-12)
    noisy[::61] = -(10**6)
    assert threshold(noisy, 1000) == pytest.approx(by_sorting(noisy, 1000), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_the_number_of_threads_changes_no_byte(dtype: type[np.int64 | np.float64], monkeypatch: pytest.MonkeyPatch):
    noisy, total = mesh("sparse")
    cells = noisy.astype(dtype) if dtype is np.int64 else noisy + np.random.default_rng(2).random(LARGE)
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(chunks, "_cores", lambda cores=cores: cores)
        found.append(project_divided(cells, total, gamma=0.97).tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_in_place_gives_the_same_bytes(dtype: type[np.int64 | np.float64]):
    noisy, total = mesh("sparse")
    expected = project_simplex(noisy.astype(dtype).reshape(700, 1000), total)
    cells = noisy.astype(dtype).reshape(700, 1000)
    out = cells.view(np.float64)
    assert project_simplex(cells, total, out=out) is out
    assert out.tobytes() == expected.tobytes()
    assert project_simplex(cells.view(np.float64), 0, out=out).any() == np.False_


def test_a_result_array_that_does_not_fit_is_refused():
    cells = np.arange(10.0)
    for wrong in (np.empty(9), np.empty(10, np.float32), np.empty(20)[::2]):
        with pytest.raises(ValueError, match="out must be a contiguous float64 array of shape"):
            project_simplex(cells, 5, out=wrong)  # type: ignore[arg-type]
    memory = np.arange(11.0)
    with pytest.raises(ValueError, match="out must not overlap values"):
        project_simplex(memory[:10], 5, out=memory[1:])


@given(arrays.arrays(np.float64, st.integers(1, 50), elements=st.floats(-1e6, 1e6)), st.floats(1e-3, 1e7))
def test_float_cells_meet_the_conditions_of_the_optimum(values: NDArray[np.float64], total: float):
    """Kuhn-Tucker: positive cells lie θ below their value, the others are at or below θ, and the sum is the total."""
    projected, theta = project_simplex(values, total), threshold(values, total)
    scale = 1e-9 * max(total, float(np.abs(values).max()))
    np.testing.assert_allclose(projected, np.maximum(values - theta, 0), atol=scale)
    assert projected.sum() == pytest.approx(total, abs=scale * values.size)


def test_a_slice_with_steps_is_projected_as_what_it_holds():
    cells = np.arange(20)[::-3]
    np.testing.assert_array_equal(project_simplex(cells, 12), project_simplex(cells.copy(), 12))


def test_a_total_beyond_int64_still_gives_a_point_of_the_simplex():
    projected = project_simplex(np.array([1, 2, 3]), 1e30)
    assert projected.sum() == pytest.approx(1e30)
    assert np.isfinite(projected).all()


def test_chunks_cover_every_cell_once_and_in_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunks, "CHUNK", 8)
    for size in (0, 1, 8, 9, 100):
        for cores in (1, 3):
            monkeypatch.setattr(chunks, "_cores", lambda cores=cores: cores)
            spans = over_chunks(lambda cells: (cells.start, cells.stop), size)
            assert [cell for start, stop in spans for cell in range(start, stop)] == list(range(size))


def test_what_fails_in_a_thread_is_raised():
    noisy = np.zeros(LARGE)
    noisy[-1] = np.nan
    with pytest.raises(ValueError, match="values must be finite"):
        project_simplex(noisy, 5)


MANY = 300_000


def on_the_simplex(parts: list[int], total: int) -> NDArray[np.float64]:
    weights = np.array(parts)
    return weights * (total / weights.sum()) if weights.sum() > 0 else np.full(weights.size, total / weights.size)


def rounded_by_sorting(values: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    whole = np.floor(values).astype(np.int64)
    order = np.argsort(-(values - np.floor(values)), kind="stable")
    whole[order[: total - int(whole.sum())]] += 1
    return whole


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=4), st.integers(0, 7))
def test_no_lattice_point_of_the_simplex_is_nearer(parts: list[int], total: int):
    """Against every whole-number table with this total."""
    values = on_the_simplex(parts, total)
    rounded = round_to_total(values, total)
    grid = np.array([p for p in product(range(total + 1), repeat=values.size) if sum(p) == total])
    best = ((grid - values) ** 2).sum(axis=1).min()
    assert ((rounded - values) ** 2).sum() == pytest.approx(best, abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=4), st.integers(1, 7))
def test_rounding_the_projection_is_the_nearest_lattice_point_to_the_noisy_counts(noisy: list[int], total: int):
    """The paper's section 2.4 [13]: no whole-number table with this total lies nearer to the noisy counts."""
    counts = np.array(noisy)
    rounded = round_to_total(project_simplex(counts, total), total)
    grid = np.array([p for p in product(range(total + 1), repeat=counts.size) if sum(p) == total])
    assert ((rounded - counts) ** 2).sum() == ((grid - counts) ** 2).sum(axis=1).min()


def test_partition_and_sort_agree_on_many_ties():
    generator = np.random.default_rng(1)
    values = generator.integers(0, 40, MANY) / 8
    values[0] += np.ceil(values.sum()) - values.sum()
    total = round(float(values.sum()))
    np.testing.assert_array_equal(round_to_total(values, total), rounded_by_sorting(values, total))


def test_threads_and_memory_change_no_byte(monkeypatch: pytest.MonkeyPatch):
    noisy = np.random.default_rng(2).geometric(0.3, MANY) - 4
    values = negative_l2(noisy, 90_000, lambda_=0.1)
    monkeypatch.setattr(chunks, "_cores", lambda: 1)
    expected = round_to_total(values, 90_000)
    monkeypatch.setattr(chunks, "_cores", lambda: 3)
    assert expected.tobytes() == round_to_total(values, 90_000).tobytes()
    place = values.view(np.int64)
    assert round_to_total(values, 90_000, out=place) is place
    assert place.tobytes() == expected.tobytes()


def test_whole_numbers_with_a_float_sum_that_is_off_stay_near():
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
def test_what_cannot_be_rounded_is_refused(values: list[float], total: int, named: str):
    with pytest.raises(ValueError, match=named):
        round_to_total(np.array(values), total)


def test_a_rounded_array_that_does_not_fit_is_refused():
    for wrong in (np.empty(3, np.int64), np.empty(2), np.empty(4, np.int64)[::2]):
        with pytest.raises(ValueError, match="out must be a contiguous int64 array of shape"):
            round_to_total(np.array([1.0, 1.0]), 2, out=wrong)  # type: ignore[arg-type]
