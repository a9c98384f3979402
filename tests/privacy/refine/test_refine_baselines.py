"""The paper's other methods: the nonnegative Lasso, clipping, and the difference-of-convex iteration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from benchmarks._baselines import clip_and_rescale, nonnegative_lasso, rescale_to_total
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import project_simplex

NOISY = arrays.arrays(np.int64, st.integers(1, 30), elements=st.integers(-50, 50))
Method = Callable[[NDArray[np.int64]], object]


@pytest.mark.parametrize("value", [-7, -1, 0, 1, 2, 9])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0, 4.0])
def test_the_closed_form_minimises_the_lasso_objective_as_printed(value: int, penalty: float) -> None:
    """Eq. 5 by a numerical search, one cell: the square has no factor 1/2, so the threshold is λ/2."""

    def objective(b: float) -> float:
        return (value - b) ** 2 + penalty * abs(b)

    above = minimize_scalar(objective, bounds=(0, 20), method="bounded", options={"xatol": 1e-9}).x
    assert nonnegative_lasso(np.array([value]), penalty=penalty)[0] == pytest.approx(above, abs=1e-5)


def test_the_correction_reaches_the_total_and_leaves_zeros_alone() -> None:
    shrunken = nonnegative_lasso(np.array([9, 2, 5, -4]), penalty=6)
    assert shrunken.tolist() == [6, 0, 2, 0]
    assert rescale_to_total(shrunken, 12).tolist() == [9, 0, 3, 0]


def test_clipping_and_rescaling_is_the_baseline_lm() -> None:
    assert clip_and_rescale(np.array([4, -1, 0, 4]), 2).tolist() == [1, 0, 0, 1]
    assert clip_and_rescale(np.array([-4, -1]), 0).tolist() == [0, 0]


@settings(max_examples=40, deadline=None)
@given(NOISY, st.integers(1, 300), st.floats(0, 0.9), st.integers(0, 2**32))
def test_the_iteration_converges_to_the_closed_form_from_any_start(
    values: NDArray[np.int64], total: int, lambda_: float, seed: int
) -> None:
    """A second derivation: β ← the projection of v + λβ (eq. 12 and 13) contracts by λ, and ends at eq. 14. The bound
    on the distance holds, and the closed form itself is a fixed point."""
    closed = negative_l2(values, total, lambda_=lambda_)
    start = np.random.default_rng(seed).dirichlet(np.full(values.size, 0.2)) * total
    point, distance = start, np.inf
    while distance > 1e-7:
        following = project_simplex(values + lambda_ * point, total)
        # Banach: the rest of the way is at most λ / (1 - λ) times the last step.
        distance = lambda_ / (1 - lambda_) * float(np.linalg.norm(following - point))
        point = following
    assert np.linalg.norm(point - closed) <= distance + 1e-8 * total
    np.testing.assert_allclose(project_simplex(values + lambda_ * closed, total), closed, atol=1e-9 * total)


@pytest.mark.parametrize(
    ("method", "named"),
    [
        (lambda v: nonnegative_lasso(v, penalty=-1), "penalty must be finite and at least 0, not -1"),
        (lambda v: nonnegative_lasso(v, penalty=float("inf")), "penalty must be finite"),
        (lambda v: nonnegative_lasso(v / 0.0, penalty=1), "values must be finite in every cell"),
        (lambda v: clip_and_rescale(v * float("nan"), 5), "values must be finite in every cell"),
        (lambda v: clip_and_rescale(v, -1), "total must be finite and at least 0, not -1"),
        (lambda v: clip_and_rescale(-v, 5), "values must have a sum above 0"),
        (lambda v: rescale_to_total(v - 9.0, 5), "values must have a sum above 0"),
        (lambda v: negative_l2(v, 5, lambda_=1.0), r"lambda must lie in \[0, 1\), not 1.0"),
        (lambda v: negative_l2(v, 5, lambda_=float("nan")), r"lambda must lie in \[0, 1\), not nan"),
        (lambda v: negative_l2(v, -5, lambda_=0.5), "total must be finite and at least 0, not -5"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_input_is_refused_by_name(method: Method, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        method(np.array([1, 2, 3]))


@pytest.mark.parametrize("total", [0, 0.0])
def test_a_total_of_zero_gives_zeros_everywhere(total: float) -> None:
    values = np.array([3, -1, 2])
    for refined in (
        project_simplex(values, total),
        negative_l2(values, total, lambda_=0.3),
        clip_and_rescale(values, total),
    ):
        assert not refined.any()
