"""What is measured of ranges: near a bound that nothing is below, and found alike by another search."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import pytest
from scipy.optimize import minimize

from privacy.marginals.blocks import TooManyRanges
from privacy.marginals.ordered.design import RangeTable, RangeWorkload, best_design
from privacy.marginals.ordered.strategies import answer_variances, strategies_of, strategy_moves
from tests.privacy.marginals.ordered.workloads import ONE, alone, crossed, two_columns


def over_bound(workload: RangeWorkload, adjacency: str, *, worst: bool) -> float:
    """The objective of what is measured, in whole numbers, over the bound; for one unit of one row."""
    design = best_design(workload, adjacency=adjacency, worst=worst)  # type: ignore[arg-type]
    strategies = strategies_of(workload.residuals, design)
    norm = sum(move**2 for move in strategy_moves(strategies, adjacency, 1))  # type: ignore[arg-type]
    rows = [(t, answer_variances(t, workload, strategies, Fraction(norm))) for t in workload.tables]
    if worst:
        return max(float(table.weight) * float(each.max()) for table, each in rows) / design.bound
    cells = [prod(workload.sizes[name] for name in table.columns) for table, _ in rows]
    pairs = zip(cells, rows, strict=True)
    return sum(float(table.weight) * n * float(each.sum()) for n, (table, each) in pairs) / design.bound


@pytest.mark.long
@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize(
    "workload",
    [alone("prefix", 16), alone("prefix", 101), alone("range", 40), alone("hierarchy", 75), crossed(), two_columns()],
    ids=["16 prefixes", "101 prefixes", "ranges", "hierarchy", "crossed", "two columns"],
)
def test_whole_numbers_are_within_a_part_in_a_hundred_of_the_bound(workload: RangeWorkload, worst: bool) -> None:
    """Under add_remove; the rounding of the search and of the numbers is in it."""
    assert 1 - 1e-9 <= over_bound(workload, "add_remove", worst=worst) <= 1.005


@pytest.mark.parametrize("workload", [alone("prefix", 16), alone("range", 16), crossed()])
def test_under_replace_one_the_bound_is_farther_away(workload: RangeWorkload) -> None:
    """Nothing is below it, and what is measured is within a factor of 1.5."""
    assert 1 <= over_bound(workload, "replace_one", worst=False) <= 1.5


@pytest.mark.parametrize("workload", [alone("prefix", 16), alone("range", 16), two_columns()])
def test_the_number_of_rows_is_measured_as_precisely_as_costs_nothing(workload: RangeWorkload) -> None:
    """Under replace_one: a row that comes or goes moves as far as one that goes to another cell, within 1 in 1,000.
    Without that, pairs of rows would be nearly twice as far apart as a row and none."""
    design = best_design(workload, adjacency="replace_one", worst=False)
    strategies = strategies_of(workload.residuals, design)
    replaced, alone_moves = (
        sum(move**2 for move in strategy_moves(strategies, adjacency, 1))
        for adjacency in ("replace_one", "add_remove")
    )
    assert 0.999 <= alone_moves / replaced <= 1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["prefix", "range", "identity"])
def test_a_search_over_all_strategies_finds_nothing_below_the_bound(kind: str) -> None:
    """Any square matrix on four cells, by a search that knows nothing of Gram matrices or weights of cells."""
    workload = alone(kind, 4)
    design = best_design(workload, adjacency="add_remove", worst=False)
    queries = workload.queries(workload.tables[0], ("age",))

    def error(entries: np.ndarray) -> float:
        matrix = entries.reshape(4, 4)
        known = queries @ np.linalg.pinv(matrix)
        return float((known**2).sum() * (matrix**2).sum(axis=0).max())

    source = np.random.default_rng(5)
    starts = [np.eye(4), np.linalg.cholesky(design.grams[0]).T, *(source.normal(size=(4, 4)) for _ in range(3))]
    found = []
    for start in starts:
        best = start.reshape(-1)
        for _ in range(4):
            best = minimize(error, best, method="Nelder-Mead", options={"maxiter": 20_000, "fatol": 1e-9}).x
        found.append(error(best))
    assert design.bound * (1 - 1e-9) <= min(found) <= design.bound * 1.01


def test_of_plain_columns_alone_the_bound_is_that_of_residuals() -> None:
    """Ranges that are single cells of a column that is symmetric: the closed form of marginals."""
    cells, tables = 6, (RangeTable(("sex",), (("age", tuple((i, i) for i in range(6))),), ONE),)
    workload = RangeWorkload((("sex", 2),), (("age", cells),), tables)
    bound = best_design(workload, adjacency="add_remove", worst=False).bound
    # The identity on 12 cells: one number a cell, of variance one.
    assert bound == pytest.approx(12.0, rel=1e-9)


def test_the_ordinary_residuals_of_prefixes_cost_a_twelfth_more() -> None:
    """The total apart from what the cells say beyond it, each at its best: what is measured here does better."""
    workload = alone("prefix", 75)
    bound = best_design(workload, adjacency="add_remove", worst=False).bound
    gram = (queries := workload.queries(workload.tables[0], ("age",))).T @ queries
    off = np.eye(75) - 1 / 75
    apart = np.sqrt(np.maximum(np.linalg.eigvalsh(off @ gram @ off / 75), 0)).sum() + np.sqrt(gram.sum()) / 75
    assert apart**2 > 1.05 * bound


def test_columns_that_no_table_asks_together_are_refused() -> None:
    """And so are too many cells; both say what to do."""
    age, hours = ("age", ((0, 0), (0, 1))), ("hours", ((0, 0), (0, 1)))
    apart = RangeWorkload(
        (), (("age", 2), ("hours", 2)), (RangeTable((), (age,), ONE), RangeTable((), (hours,), ONE))
    )
    with pytest.raises(TooManyRanges, match="releases of their own"):
        best_design(apart, adjacency="add_remove", worst=False)
    with pytest.raises(TooManyRanges, match="at most 256"):
        best_design(alone("prefix", 300), adjacency="add_remove", worst=False)
