"""Refinement: the projection, negative ℓ2, rounding, and whole tables."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from privacy.refine.negative_l2 import negative_l2
from privacy.refine.rounding import round_to_total
from privacy.refine.simplex import project_simplex
from privacy.refine.tables import refine_table

NOISY = arrays.arrays(np.int64, st.integers(1, 60), elements=st.integers(-1000, 1000))
TOTALS = st.integers(0, 5000)
LAMBDAS = st.floats(0, 0.95)


def project_by_sorting(values: NDArray[np.int64], total: float) -> NDArray[np.float64]:
    """The paper's own procedure (eq. 9 and 10), as a second derivation."""
    descending = np.sort(values.astype(float))[::-1]
    sums = np.cumsum(descending)
    counts = np.arange(1, len(values) + 1)
    rho = int(np.max(counts[descending - (sums - total) / counts > 0]))
    theta = (sums[rho - 1] - total) / rho
    return np.maximum(values - theta, 0)


@given(NOISY, st.integers(1, 5000))
def test_the_projection_agrees_with_the_sorting_procedure_of_the_paper(values: NDArray[np.int64], total: int) -> None:
    np.testing.assert_allclose(project_simplex(values, total), project_by_sorting(values, total), atol=1e-9)


@given(NOISY, TOTALS, LAMBDAS)
def test_refined_values_lie_on_the_simplex(values: NDArray[np.int64], total: int, lambda_: float) -> None:
    refined = negative_l2(values, total, lambda_=lambda_)
    assert refined.min() >= 0
    assert refined.sum() == pytest.approx(total, abs=1e-6)


@settings(max_examples=50)
@given(arrays.arrays(np.int64, 5, elements=st.integers(-20, 20)), st.integers(1, 40), LAMBDAS, st.integers(0, 2**32))
def test_no_random_point_of_the_simplex_has_a_lower_objective(
    values: NDArray[np.int64], total: int, lambda_: float, seed: int
) -> None:
    """The closed form is the global optimum of eq. 11, vertices and interior points included."""

    def objective(point: NDArray[np.float64]) -> float:
        return float(np.sum((values - point) ** 2) - lambda_ * np.sum(point**2))

    best = objective(negative_l2(values, total, lambda_=lambda_))
    random = np.random.default_rng(seed).dirichlet(np.full(5, 0.3), size=200) * total
    others = np.vstack([random, np.eye(5) * total])
    assert best <= min(objective(point) for point in others) + 1e-6


def test_the_difference_of_convex_iteration_has_the_closed_form_as_its_fixed_point() -> None:
    """Eq. 12 and 13: linearise -λ‖β‖² at β₀, project, repeat."""
    values = np.array([9, 4, 1, -2, 0, 3, -5, 12])
    closed = negative_l2(values, 20, lambda_=0.4)
    point = np.full(8, 2.5)
    for _ in range(400):
        point = project_simplex(values + 0.4 * point, 20)
    np.testing.assert_allclose(point, closed, atol=1e-9)


def test_a_larger_lambda_leaves_fewer_cells() -> None:
    values = np.arange(40)
    kept = [int(np.count_nonzero(negative_l2(values, 100, lambda_=lambda_))) for lambda_ in (0, 0.3, 0.6, 0.9)]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > kept[-1]


@given(NOISY, TOTALS, LAMBDAS)
def test_rounding_keeps_the_total_exactly_and_moves_no_cell_by_one(
    values: NDArray[np.int64], total: int, lambda_: float
) -> None:
    refined = negative_l2(values, total, lambda_=lambda_)
    rounded = round_to_total(refined, total)
    assert rounded.sum() == total
    assert rounded.min() >= 0
    assert np.abs(rounded - refined).max() < 1 + 1e-9


def test_rounding_is_the_nearest_lattice_point() -> None:
    values = np.array([0.2, 1.5, 0.7, 2.6])
    rounded = round_to_total(values, 5)
    grid = np.stack(np.meshgrid(*[np.arange(6)] * 4), -1).reshape(-1, 4)
    feasible = grid[grid.sum(axis=1) == 5]
    best = ((feasible - values) ** 2).sum(axis=1).min()
    assert ((rounded - values) ** 2).sum() == pytest.approx(best)


def test_equal_remainders_go_to_the_lower_cell_so_that_the_result_replays() -> None:
    assert round_to_total(np.array([0.5, 0.5, 0.5, 0.5]), 2).tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("values", "total", "lambda_", "named"),
    [
        ([1, 2], -1, 0.0, "total"),
        ([1, 2], float("nan"), 0.0, "total"),
        ([1, 2], 3, 1.0, "lambda"),
        ([1, 2], 3, -0.1, "lambda"),
        ([1, float("inf")], 3, 0.0, "values"),
        ([1, float("nan")], 3, 0.0, "values"),
        ([], 3, 0.0, "total"),
    ],
)
def test_what_has_no_solution_is_refused_by_name(
    values: list[float], total: float, lambda_: float, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        negative_l2(np.array(values, dtype=np.float64), total, lambda_=lambda_)


def test_a_total_of_zero_gives_zeros() -> None:
    assert not negative_l2(np.array([5, -3]), 0, lambda_=0.5).any()


def refine(noisy: list[int], **changed: object) -> NDArray[np.int64]:
    values = np.array(noisy)
    terms: dict[str, object] = {
        "impossible": np.zeros(values.shape, bool),
        "total": 10,
        "method": "simplex",
        "lambda_": None,
        "integers": True,
        **changed,
    }
    return refine_table(values, **terms).values  # type: ignore[arg-type, return-value]


def test_structural_zeros_stay_zero_and_the_rest_carries_the_total() -> None:
    impossible = np.array([True, False, False])
    assert refine([50, 3, 5], impossible=impossible).tolist() == [0, 4, 6]
    assert refine([50, 3, 5], impossible=impossible, method="none", total=None).tolist() == [0, 3, 5]


def test_a_negative_noisy_total_becomes_zero_with_a_note() -> None:
    none = np.zeros(2, bool)
    refined = refine_table(
        np.array([3, -4]), impossible=none, total=-2, method="simplex", lambda_=None, integers=True
    )
    assert (refined.total, refined.values.tolist()) == (0, [0, 0])
    assert "below zero" in refined.notes[0]


def test_a_method_without_its_terms_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a total"):
        refine([1, 2], total=None)
    with pytest.raises(ValueError, match="needs lambda"):
        refine([1, 2], method="negative_l2")


def test_without_integers_the_values_are_the_real_solution() -> None:
    noisy = np.array([7, 1, -3])
    refined = refine_table(
        noisy,
        impossible=np.zeros(3, bool),
        total=6,
        method="negative_l2",
        lambda_=Decimal("0.25"),
        integers=False,
    )
    np.testing.assert_array_equal(refined.values, negative_l2(noisy, 6, lambda_=0.25))
