"""Refinement: the projection, negative ℓ2, rounding, and whole tables."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from benchmarks._baselines import clip_and_rescale, nonnegative_lasso, rescale_to_total
from contracts.release.tables.tables import Refine
from privacy.accounting.events import DiscreteLaplace
from privacy.refine.methods import NO_NEIGHBOURS
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.posterior import refine_posterior
from privacy.refine.simplex import project_simplex, round_to_total
from privacy.refine.spatial import spatial_bayes
from privacy.refine.tables import ALL_ZERO, NO_SUM, Chosen, Refined, refine_table

EVENT = DiscreteLaplace(Fraction(1, 2), (1,))
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
def test_the_projection_agrees_with_the_sorting_procedure_of_the_paper(values: NDArray[np.int64], total: int):
    np.testing.assert_allclose(project_simplex(values, total), project_by_sorting(values, total), atol=1e-9)


@given(NOISY, TOTALS, LAMBDAS)
def test_refined_values_lie_on_the_simplex(values: NDArray[np.int64], total: int, lambda_: float):
    refined = negative_l2(values, total, lambda_=lambda_)
    assert refined.min() >= 0
    assert refined.sum() == pytest.approx(total, abs=1e-6)


@settings(max_examples=50)
@given(arrays.arrays(np.int64, 5, elements=st.integers(-20, 20)), st.integers(1, 40), LAMBDAS, st.integers(0, 2**32))
def test_no_random_point_of_the_simplex_has_a_lower_objective(
    values: NDArray[np.int64], total: int, lambda_: float, seed: int
):
    """The closed form is the global optimum of eq. 11, vertices and interior points included."""

    def objective(point: NDArray[np.float64]) -> float:
        return float(np.sum((values - point) ** 2) - lambda_ * np.sum(point**2))

    best = objective(negative_l2(values, total, lambda_=lambda_))
    random = np.random.default_rng(seed).dirichlet(np.full(5, 0.3), size=200) * total
    others = np.vstack([random, np.eye(5) * total])
    assert best <= min(objective(point) for point in others) + 1e-6


def test_the_difference_of_convex_iteration_has_the_closed_form_as_its_fixed_point():
    """Eq. 12 and 13: linearise -λ‖β‖² at β₀, project, repeat."""
    values = np.array([9, 4, 1, -2, 0, 3, -5, 12])
    closed = negative_l2(values, 20, lambda_=0.4)
    point = np.full(8, 2.5)
    for _ in range(400):
        point = project_simplex(values + 0.4 * point, 20)
    np.testing.assert_allclose(point, closed, atol=1e-9)


def test_a_larger_lambda_leaves_fewer_cells():
    values = np.arange(40)
    kept = [int(np.count_nonzero(negative_l2(values, 100, lambda_=lambda_))) for lambda_ in (0, 0.3, 0.6, 0.9)]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > kept[-1]


@given(NOISY, TOTALS, LAMBDAS)
def test_rounding_keeps_the_total_exactly_and_moves_no_cell_by_one(
    values: NDArray[np.int64], total: int, lambda_: float
):
    refined = negative_l2(values, total, lambda_=lambda_)
    rounded = round_to_total(refined, total)
    assert rounded.sum() == total
    assert rounded.min() >= 0
    assert np.abs(rounded - refined).max() < 1 + 1e-9


def test_rounding_is_the_nearest_lattice_point():
    values = np.array([0.2, 1.5, 0.7, 2.6])
    rounded = round_to_total(values, 5)
    grid = np.stack(np.meshgrid(*[np.arange(6)] * 4), -1).reshape(-1, 4)
    feasible = grid[grid.sum(axis=1) == 5]
    best = ((feasible - values) ** 2).sum(axis=1).min()
    assert ((rounded - values) ** 2).sum() == pytest.approx(best)


def test_equal_remainders_go_to_the_lower_cell_so_that_the_result_replays():
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
def test_what_has_no_solution_is_refused_by_name(values: list[float], total: float, lambda_: float, named: str):
    with pytest.raises(ValueError, match=named):
        negative_l2(np.array(values, dtype=np.float64), total, lambda_=lambda_)


def test_a_total_of_zero_gives_zeros():
    assert not negative_l2(np.array([5, -3]), 0, lambda_=0.5).any()


def refine(noisy: list[int], **changed: object) -> NDArray[np.int64]:
    values = np.array(noisy)
    terms = {"impossible": np.zeros(values.shape, bool), "total": 10, "method": "simplex", **changed}
    return refined(values, **terms).values  # type: ignore[arg-type, return-value]


def refined(
    noisy: NDArray[np.int64],
    *,
    total: int | None,
    impossible: NDArray[np.bool_] | None = None,
    ordered: tuple[int, ...] = (),
    **terms: object,
) -> Refined:
    """Refine a table by the terms of a spec; the noise has a standard deviation of about 2.8."""
    none = np.zeros(noisy.shape, bool)
    return refine_table(
        noisy,
        Refine.model_validate(terms),
        impossible=none if impossible is None else impossible,
        total=total,
        event=EVENT,
        ordered=ordered,
    )


def test_structural_zeros_stay_zero_and_the_rest_carries_the_total():
    impossible = np.array([True, False, False])
    assert refine([50, 3, 5], impossible=impossible).tolist() == [0, 4, 6]
    assert refine([50, 3, 5], impossible=impossible, method="none", total=None).tolist() == [0, 3, 5]


def test_a_negative_noisy_total_becomes_zero_with_a_note():
    made = refined(np.array([3, -4]), total=-2, method="simplex")
    assert (made.total, made.values.tolist()) == (0, [0, 0])
    assert "below zero" in made.notes[0]


def test_a_method_without_its_terms_is_refused():
    with pytest.raises(ValueError, match="needs a total"):
        refine([1, 2], total=None)
    with pytest.raises(ValueError, match="ordered"):
        refine([1, 2], method="neighbourhood")


def test_without_integers_the_values_are_the_real_solution():
    noisy = np.array([7, 1, -3])
    made = refined(noisy, total=6, method="negative_l2", **{"lambda": "0.25"}, integers=False)
    np.testing.assert_array_equal(made.values, negative_l2(noisy, 6, lambda_=0.25))
    assert (made.method, made.lambda_, made.chosen) == ("negative_l2", Decimal("0.25"), None)


COUNTS = np.zeros((12, 3, 10), np.int64)
COUNTS[4:8, 1, 3:7] = np.array([3, 40, 60, 12])
COUNTS[:, 2, :] = np.arange(12)[:, None]
NOISY_TABLE = COUNTS + np.random.default_rng(7).integers(-4, 5, COUNTS.shape)
IMPOSSIBLE = np.zeros(COUNTS.shape, bool)
IMPOSSIBLE[:, 0, ::2] = True
TOTAL = int(COUNTS.sum())
WAYS: list[dict[str, object]] = [
    {"method": "simplex"},
    {"method": "negative_l2", "lambda": "0.2"},
    {"method": "negative_l2", "lambda": "auto"},
    {"method": "negative_l2", "sparsity": "0.3"},
    {"method": "empirical_bayes"},
    {"method": "neighbourhood"},
    {"method": "auto"},
]


def named(way: dict[str, object]) -> str:
    return " ".join(map(str, way.values()))


@pytest.mark.parametrize("ordered", [(0,), (2,), (0, 2)])
@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("way", WAYS, ids=named)
def test_every_method_keeps_the_total_and_the_structural_zeros(
    way: dict[str, object], integers: bool, ordered: tuple[int, ...]
):
    """Whatever stands in an impossible cell, it becomes 0 and changes nothing else."""
    made = refined(NOISY_TABLE, total=TOTAL, impossible=IMPOSSIBLE, ordered=ordered, integers=integers, **way)
    assert made.values.dtype == (np.int64 if integers else np.float64)
    assert made.values.min() >= 0
    assert made.values.sum() == pytest.approx(TOTAL)
    assert not made.values[IMPOSSIBLE].any()
    spoilt = np.where(IMPOSSIBLE, 10**6, NOISY_TABLE)
    again = refined(spoilt, total=TOTAL, impossible=IMPOSSIBLE, ordered=ordered, integers=integers, **way)
    assert again.values.tobytes() == made.values.tobytes()
    assert again.lambda_ == made.lambda_


def test_a_table_is_refined_alike_whichever_way_its_axes_stand():
    """The ordered axes in front, or at the end as `spatial` wants them."""
    front = refined(NOISY_TABLE, total=TOTAL, ordered=(0, 2), method="neighbourhood", integers=False)
    laid = np.moveaxis(NOISY_TABLE, (0, 2), (1, 2))
    end = refined(laid, total=TOTAL, ordered=(1, 2), method="neighbourhood", integers=False)
    np.testing.assert_allclose(np.moveaxis(end.values, (1, 2), (0, 2)), front.values)
    direct = refine_posterior(spatial_bayes(laid.copy(), EVENT, axes=2), total=TOTAL, integers=False)
    np.testing.assert_allclose(end.values, direct)


@pytest.mark.parametrize("ordered", [(), (0,), (0, 2)])
@pytest.mark.parametrize("impossible", [None, IMPOSSIBLE], ids=["all", "some"])
def test_auto_gives_the_table_of_the_method_that_it_picks(
    ordered: tuple[int, ...], impossible: NDArray[np.bool_] | None
):
    """The least estimated error of those listed; asked for by name, that method gives the same bytes."""
    made = refined(NOISY_TABLE, total=TOTAL, ordered=ordered, impossible=impossible, method="auto")
    assert made.estimated_rmse[made.method] == min(made.estimated_rmse.values())
    judged = {"simplex", "negative_l2", "empirical_bayes"} | ({"neighbourhood"} if ordered else set())
    assert set(made.estimated_rmse) == judged
    assert made.chosen == Chosen("method", "auto")
    by_name = refined(NOISY_TABLE, total=TOTAL, ordered=ordered, impossible=impossible, method=made.method)
    assert by_name.values.tobytes() == made.values.tobytes()
    assert by_name.chosen is None


def test_a_chosen_lambda_can_be_written_down_and_used_again():
    for way in ({"lambda": "auto"}, {"sparsity": "0.3"}):
        made = refined(NOISY_TABLE, total=TOTAL, method="negative_l2", **way)
        again = refined(NOISY_TABLE, total=TOTAL, method="negative_l2", **{"lambda": str(made.lambda_)})
        assert again.values.tobytes() == made.values.tobytes()
        assert again.lambda_ == made.lambda_
    share = np.count_nonzero(made.values) / made.values.size
    assert share == pytest.approx(0.3, abs=0.02)


def test_the_neighbourhood_errs_less_than_the_projection_on_a_smooth_table():
    """Against the true counts, and by its own estimate."""
    plain = refined(NOISY_TABLE, total=TOTAL, method="simplex")
    smooth = refined(NOISY_TABLE, total=TOTAL, ordered=(0, 2), method="neighbourhood")
    errors = [float(np.sqrt(np.mean((made.values - COUNTS) ** 2))) for made in (plain, smooth)]
    assert errors[1] < errors[0]
    assert smooth.estimated_rmse["neighbourhood"] == pytest.approx(errors[1], rel=0.5)


@pytest.mark.parametrize("total", [0, -3])
@pytest.mark.parametrize("way", WAYS, ids=named)
def test_a_total_of_zero_leaves_zeros_and_nothing_to_choose(way: dict[str, object], total: int):
    made = refined(NOISY_TABLE, total=total, impossible=IMPOSSIBLE, ordered=(0,), **way)
    assert not made.values.any()
    assert made.total == 0
    assert (made.notes[:1] == (NO_SUM,)) == (total < 0)
    assert (ALL_ZERO in made.notes) == (made.chosen is not None)


@pytest.mark.parametrize("way", WAYS, ids=named)
def test_a_table_without_possible_cells_has_no_place_for_a_total(way: dict[str, object]):
    nowhere = np.ones(COUNTS.shape, bool)
    assert not refined(NOISY_TABLE, total=0, impossible=nowhere, ordered=(0,), **way).values.any()
    with pytest.raises(ValueError, match=r"."):
        refined(NOISY_TABLE, total=5, impossible=nowhere, ordered=(0,), **way)


@pytest.mark.parametrize("way", WAYS, ids=named)
def test_the_smallest_tables_are_refined_too(way: dict[str, object]):
    for shape in ((1,), (2,), (1, 1), (3, 1)):
        made = refined(np.full(shape, 4), total=9, ordered=tuple(range(len(shape))), **way)
        assert made.values.sum() == 9


@pytest.mark.parametrize("method", ["neighbourhood", "auto"])
def test_counts_far_larger_than_their_noise_are_refined_without_their_neighbours(method: str):
    """Each cell depends on the others by a singular system: the run goes on, and says so, since noise was drawn."""
    noisy = 10**9 * np.array([[1, 2], [2, 4], [4, 8], [8, 16], [16, 32]])
    made = refined(noisy, total=int(noisy.sum()), ordered=(0, 1), method=method)
    np.testing.assert_array_equal(made.values, noisy)
    if NO_NEIGHBOURS in made.notes:
        assert made.method != "neighbourhood"
    else:
        assert "neighbourhood" in made.estimated_rmse


@pytest.mark.parametrize("method", ["neighbourhood", "auto"])
def test_a_regression_without_a_solution_does_not_stop_a_run(method: str, monkeypatch: pytest.MonkeyPatch):
    def singular(*_: object) -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(np.linalg, "solve", singular)
    made = refined(NOISY_TABLE, total=TOTAL, ordered=(0, 2), method=method)
    assert NO_NEIGHBOURS in made.notes
    assert made.method in (
        {"empirical_bayes"} if method == "neighbourhood" else {"empirical_bayes", "simplex", "negative_l2"}
    )
    assert "neighbourhood" not in made.estimated_rmse
    assert made.values.sum() == TOTAL


WHOLE = arrays.arrays(np.int64, st.integers(1, 30), elements=st.integers(-50, 50))
Method = Callable[[NDArray[np.int64]], object]


@pytest.mark.parametrize("value", [-7, -1, 0, 1, 2, 9])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0, 4.0])
def test_the_closed_form_minimises_the_lasso_objective_as_printed(value: int, penalty: float):
    """Eq. 5 by a numerical search, one cell: the square has no factor 1/2, so the threshold is λ/2."""

    def objective(b: float) -> float:
        return (value - b) ** 2 + penalty * abs(b)

    above = minimize_scalar(objective, bounds=(0, 20), method="bounded", options={"xatol": 1e-9}).x
    assert nonnegative_lasso(np.array([value]), penalty=penalty)[0] == pytest.approx(above, abs=1e-5)


def test_the_correction_reaches_the_total_and_leaves_zeros_alone():
    shrunken = nonnegative_lasso(np.array([9, 2, 5, -4]), penalty=6)
    assert shrunken.tolist() == [6, 0, 2, 0]
    assert rescale_to_total(shrunken, 12).tolist() == [9, 0, 3, 0]


def test_clipping_and_rescaling_is_the_baseline_lm():
    assert clip_and_rescale(np.array([4, -1, 0, 4]), 2).tolist() == [1, 0, 0, 1]
    assert clip_and_rescale(np.array([-4, -1]), 0).tolist() == [0, 0]


@settings(max_examples=40, deadline=None)
@given(WHOLE, st.integers(1, 300), st.floats(0, 0.9), st.integers(0, 2**32))
def test_the_iteration_converges_to_the_closed_form_from_any_start(
    values: NDArray[np.int64], total: int, lambda_: float, seed: int
):
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
def test_bad_input_is_refused_by_name(method: Method, named: str):
    with pytest.raises(ValueError, match=named):
        method(np.array([1, 2, 3]))


@pytest.mark.parametrize("total", [0, 0.0])
def test_a_total_of_zero_gives_zeros_everywhere(total: float):
    values = np.array([3, -1, 2])
    for refined in (
        project_simplex(values, total),
        negative_l2(values, total, lambda_=0.3),
        clip_and_rescale(values, total),
    ):
        assert not refined.any()
