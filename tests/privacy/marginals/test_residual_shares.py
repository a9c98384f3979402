"""The precision of each residual: the closed form against a numerical minimum, and what whole numbers cost."""

from fractions import Fraction
from itertools import combinations
from math import prod, sqrt

import numpy as np
import pytest
from scipy.optimize import minimize

from contracts.contract.contract import Adjacency
from privacy.marginals.residual_basis import residual_moves
from privacy.marginals.residuals import (
    TooManyResiduals,
    Workload,
    cell_covariance,
    cost_factor,
    expected_error,
    least_error,
    least_squares_of_one,
    optimal_residuals,
    residual_variances,
    subsets,
)

ADULT = {"age": 9, "work": 8, "edu": 16, "marital": 7, "job": 15, "race": 5, "sex": 2, "hours": 10, "income": 2}


def _workload(sizes: dict[str, int], ways: tuple[int, ...], weights: dict[int, Fraction] | None = None) -> Workload:
    tables = tuple(table for size in ways for table in combinations(sizes, size))
    chosen = tuple((weights or {}).get(len(table), Fraction(1)) for table in tables)
    return Workload(tuple(sizes.items()), tables, chosen)


def _matrices(workload: Workload) -> tuple[np.ndarray, list[np.ndarray]]:
    """The weighted tables by cells of all columns, and the Gram matrix of each marginal that is part of one."""

    def marginal(table: tuple[str, ...]) -> np.ndarray:
        matrix = np.ones((1, 1))
        for name, cells in workload.sizes.items():
            matrix = np.kron(matrix, np.eye(cells) if name in table else np.ones((1, cells)))
        return matrix

    weighted = zip(workload.tables, workload.weights, strict=True)
    measured = sorted({part for table in workload.tables for part in subsets(table)})
    grams = [marginal(part).T @ marginal(part) for part in measured]
    return np.concatenate([np.sqrt(float(weight)) * marginal(table) for table, weight in weighted]), grams


def _planned(
    workload: Workload, rho: Fraction, adjacency: Adjacency, *, public: bool
) -> dict[tuple[str, ...], Fraction]:
    residuals = optimal_residuals(workload, adjacency=adjacency, total_is_public=public)
    norm = sum(move**2 for move in residual_moves(residuals, adjacency, 1))
    return residual_variances(residuals, Fraction(norm) / (2 * rho))


@pytest.mark.parametrize(
    ("adjacency", "public"), [("add_remove", False), ("replace_one", False), ("replace_one", True)]
)
@pytest.mark.parametrize(
    ("sizes", "ways", "weights"),
    [
        (ADULT, (2,), None),
        (ADULT, (1, 2, 3), {1: Fraction(5), 3: Fraction(1, 7)}),
        ({"a": 2, "b": 3, "one": 1}, (1, 2), None),
        ({f"x{number}": 2 for number in range(12)}, (2,), None),
        ({"wide": 4000, "b": 300}, (1, 2), None),
    ],
)
def test_whole_numbers_cost_less_than_a_thousandth_of_the_least_error(
    sizes: dict[str, int],
    ways: tuple[int, ...],
    weights: dict[int, Fraction] | None,
    adjacency: Adjacency,
    public: bool,
):
    """The planned sum of variances lies above the least one, by less than a thousandth; at the same cost. Under
    replace_one the least is of plans of residuals that pay for each by its own largest move; no plan at all is below
    `least_error`."""
    workload, rho = _workload(sizes, ways, weights), Fraction(1, 10)
    found = expected_error(workload, _planned(workload, rho, adjacency, public=public))
    roots = sum(
        prod(1 - 1 / workload.sizes[name] for name in part)
        * sqrt(cost_factor([workload.sizes[name] for name in part], adjacency) * gain)
        for part, gain in workload.gains().items()
        if part or not public
    )
    paid = roots**2 / (2 * float(rho))
    least = least_error(workload, rho, adjacency=adjacency, rows_per_unit=1, total_is_public=public)
    assert 1 - 1e-9 <= found / paid <= 1.001
    assert least <= paid * (1 + 1e-9)
    assert adjacency == "replace_one" or least == pytest.approx(paid)


@pytest.mark.parametrize("public", [False, True])
def test_under_replace_one_no_plan_is_below_the_bound(public: bool):
    """300 plans of whole marginals with any noise, each paid for by its own worst pair of rows, or a row and none.
    With a public total the number of rows is known, and no row comes or goes."""
    source = np.random.default_rng(5)
    sizes, tables = {"a": 2, "b": 3, "c": 2}, (("a", "b"), ("b", "c"), ("a",))
    weights = (Fraction(1), Fraction(3), Fraction(2))
    workload = Workload(tuple(sizes.items()), tables, weights)
    least = least_error(workload, Fraction(1, 2), adjacency="replace_one", rows_per_unit=1, total_is_public=public)
    wanted, grams = _matrices(workload)
    nearest = np.inf
    for _ in range(300):
        shares = np.exp(source.normal(0, 1.5, len(grams)))
        gram = sum(share * each for share, each in zip(shares, grams, strict=True))
        own = np.diag(gram)
        moved = (own[:, None] + own[None, :] - 2 * gram).max()
        squared = moved if public else max(moved, own.max())
        known = gram + (1e9 if public else 0.0) * np.ones_like(gram)
        nearest = min(nearest, squared * np.trace(wanted @ np.linalg.pinv(known, rcond=1e-13) @ wanted.T))
    assert least <= nearest <= 2 * least


def test_the_expected_error_is_the_sum_of_every_cell_s_variance():
    """Added up cell by cell from the covariance of the tables."""
    workload = _workload({"a": 2, "b": 3, "c": 4}, (1, 2), {2: Fraction(3)})
    variances = _planned(workload, Fraction(1), "add_remove", public=False)
    total = sum(
        weight
        * prod(workload.sizes[n] for n in table)
        * cell_covariance(table, workload.sizes, variances, same=set(table))
        for table, weight in zip(workload.tables, workload.weights, strict=True)
    )
    assert expected_error(workload, variances) == pytest.approx(float(total), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_no_other_linear_plan_found_by_a_search_has_less_error(seed: int):
    """A numerical minimum over the precision of every residual, and over whole marginals too, is no less. The second
    search is independent of residuals: noise of any variance on each marginal of the closure, and least squares on
    all rows of the domain. ResidualPlanner says that neither has less error."""
    source = np.random.default_rng(seed)
    sizes = dict(zip("abc", map(int, source.integers(2, 4, 3)), strict=True))
    tables = (("a", "b"), ("b", "c"), ("a",))
    weights = tuple(Fraction(int(each)) for each in source.integers(1, 6, 3))
    workload = Workload(tuple(sizes.items()), tables, weights)
    least = least_error(workload, Fraction(1, 2), adjacency="add_remove", rows_per_unit=1, total_is_public=False)
    wanted, grams = _matrices(workload)

    def error(logs: np.ndarray) -> float:
        shares = np.exp(logs) / np.exp(logs).sum()  # rho of 1/2: each marginal has noise of variance 1 / share
        gram = sum(share * each for share, each in zip(shares, grams, strict=True))
        return float(np.trace(wanted @ np.linalg.pinv(gram, rcond=1e-10) @ wanted.T))

    found = minimize(error, np.zeros(len(grams)), method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-6})
    assert found.fun >= least * (1 - 1e-6)
    # Marginals are no residuals: what they can reach lies near, and never below.
    assert found.fun <= least * 1.6


def test_multipliers_are_fourth_roots_in_whole_numbers():
    """Few columns first; each is the root that floats give, rounded down, and the least is from 64 to 127."""
    workload = _workload({"a": 2, "b": 3, "c": 4}, (2,))
    made = optimal_residuals(workload, adjacency="add_remove", total_is_public=False)
    assert [each.columns for each in made] == [(), ("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]
    roots = []
    for each in made:
        inside, size = set(each.columns), prod(each.shape)
        cells = [prod(workload.sizes[name] for name in table) for table in workload.tables if inside <= set(table)]
        roots.append(sum(size * size / other for other in cells) ** 0.25 / size)
    scale = made[0].multiplier / roots[0]
    assert [each.multiplier for each in made] == pytest.approx([scale * root for root in roots], abs=1.5)
    assert 64 <= min(each.multiplier for each in made) < 128


def test_tables_with_too_many_residuals_are_refused():
    """A table of 18 columns has 262,144 of them."""
    sizes = {f"x{number}": 2 for number in range(18)}
    with pytest.raises(TooManyResiduals):
        Workload(tuple(sizes.items()), (tuple(sizes),), (Fraction(1),)).gains()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_no_linear_plan_with_laplace_noise_is_below_the_bound(seed: int):
    """A search over matrices, each row with Laplace noise for the largest sum of sizes in a column."""
    source = np.random.default_rng(seed)
    sizes = {"a": 2, "b": 3}
    tables = (("a", "b"), ("a",), ("b",))
    workload = Workload(tuple(sizes.items()), tables, (Fraction(2), Fraction(1), Fraction(3)))
    bound = least_squares_of_one(workload, adjacency="add_remove")
    whole = np.eye(6)
    margins = [whole, np.kron(np.eye(2), np.ones((1, 3))), np.kron(np.ones((1, 2)), np.eye(3))]
    wanted = np.concatenate([float(w) ** 0.5 * margin for w, margin in zip(workload.weights, margins, strict=True)])

    def error(entries: np.ndarray) -> float:
        matrix = entries.reshape(8, 6)
        return float(((wanted @ np.linalg.pinv(matrix)) ** 2).sum() * np.abs(matrix).sum(axis=0).max() ** 2)

    start = np.concatenate([whole, source.normal(size=(2, 6)) / 4]).reshape(-1)
    found = minimize(error, start, method="Nelder-Mead", options={"maxiter": 20_000, "fatol": 1e-9})
    assert found.fun >= bound * (1 - 1e-9)
    assert error(start) >= bound


def test_the_bound_of_laplace_noise_is_the_least_error_where_one_table_is_asked():
    """Its cells by themselves: one number a cell."""
    workload = Workload((("a", 4),), (("a",),), (Fraction(1),))
    assert least_squares_of_one(workload, adjacency="add_remove") == pytest.approx(4)
    assert least_squares_of_one(workload, adjacency="replace_one") <= 8
