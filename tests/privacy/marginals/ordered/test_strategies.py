"""How far one unit moves strategies: against every neighbour of small tables; and what may be no strategy."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from contracts.contract.contract import Adjacency
from privacy.marginals.ordered.design import RangeResidual, RangeWorkload
from privacy.marginals.ordered.strategies import (
    LEAST_BITS,
    RangeStrategy,
    column_moves,
    measured_numbers,
    strategies_digest,
    strategy_moves,
)
from tests.privacy.marginals.ordered.workloads import alone, crossed, measured, two_columns


def vectors(workload: RangeWorkload, strategies: tuple[RangeStrategy, ...]) -> dict[tuple[int, ...], np.ndarray]:
    names = [name for name in workload.sizes if workload.sizes[name] > 1]
    sizes = [workload.sizes[name] for name in names]
    found = {}
    for row in product(*map(range, sizes)):
        counts = np.zeros(sizes, np.int64)
        counts[row] = 1
        parts = []
        for each in strategies:
            kept = counts.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in each.columns))
            # The ordered columns stand last in the tests' workloads, in their order.
            parts.append(measured_numbers(each, kept).astype(object))
        found[row] = np.concatenate(parts)
    return found


def bound(strategies: tuple[RangeStrategy, ...], adjacency: Adjacency, rows: int) -> int:
    return sum(move**2 for move in strategy_moves(strategies, adjacency, rows))


@pytest.mark.parametrize("workload", [alone("prefix", 7), crossed(4), two_columns()])
def test_under_add_remove_the_bound_is_the_farthest_row(workload: RangeWorkload) -> None:
    """It is reached; a row of an average cell moves less, so that no cheaper sensitivity would do."""
    strategies = measured(workload)
    norms = [int((each**2).sum()) for each in vectors(workload, strategies).values()]
    assert max(norms) == bound(strategies, "add_remove", 1)


@pytest.mark.parametrize("workload", [alone("prefix", 7), alone("hierarchy", 5), crossed(4), two_columns()])
def test_under_replace_one_no_two_rows_are_farther_apart(workload: RangeWorkload) -> None:
    """All pairs; of an ordered column alone the bound is reached; the sensitivity of add_remove would not do."""
    strategies = measured(workload, "replace_one")
    rows = list(vectors(workload, strategies).values())
    apart = max(int(((one - other) ** 2).sum()) for one, other in product(rows, rows))
    alone_ = max(int((each**2).sum()) for each in rows)
    assert apart <= bound(strategies, "replace_one", 1)
    if len(strategies) == 1:
        assert max(apart, alone_) == bound(strategies, "replace_one", 1)
    assert bound(strategies, "add_remove", 1) == alone_


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_rows_of_one_unit_move_by_the_square_of_their_number(adjacency: Adjacency) -> None:
    """Two rows at most, for any two or fewer others."""
    workload = two_columns()
    strategies = measured(workload, adjacency)
    rows = list(vectors(workload, strategies).values())[:14]
    none = np.zeros_like(rows[0])
    units = [none, *rows, *(one + other for one, other in combinations_with_replacement(rows, 2))]
    others = units if adjacency == "replace_one" else [none]
    worst = max(int(((one - other) ** 2).sum()) for one, other in product(units, others))
    assert worst <= bound(strategies, adjacency, 2) == 4 * bound(strategies, adjacency, 1)


@pytest.mark.parametrize("column", ["sex", "age", "trade"])
def test_another_value_in_one_column_moves_no_further(column: str) -> None:
    """All pairs of rows that differ in that column alone; less than another row altogether."""
    workload = crossed(4)
    strategies = measured(workload)
    names = [name for name in workload.sizes if workload.sizes[name] > 1]
    rows, place = vectors(workload, strategies), names.index(column)
    apart = [
        int(((rows[one] - rows[other]) ** 2).sum())
        for one, other in product(rows, rows)
        if one[:place] + one[place + 1 :] == other[:place] + other[place + 1 :]
    ]
    found = sum(move**2 for move in column_moves(strategies, column, 1))
    assert max(apart) <= found
    assert found <= bound(strategies, "replace_one", 1)


def test_a_column_that_is_not_measured_moves_nothing() -> None:
    assert column_moves(measured(alone("prefix", 4)), "sex", 1) == ()


def test_a_broken_sensitivity_is_found() -> None:
    """The norm of an average cell, and the norm of all but one residual, are below what some row does."""
    workload = crossed(4)
    strategies = measured(workload)
    norms = [int((each**2).sum()) for each in vectors(workload, strategies).values()]
    spoilt = tuple(
        replace(each, matrix=np.triu(each.matrix + np.arange(each.matrix.shape[1], dtype=np.int64) ** 3 * 40))
        for each in strategies
    )
    uneven = [int((each**2).sum()) for each in vectors(workload, spoilt).values()]
    assert sum(uneven) // len(uneven) < max(uneven) == bound(spoilt, "add_remove", 1)
    assert bound(strategies[:-1], "add_remove", 1) < max(norms)


def test_numbers_are_as_fine_as_they_must_be_and_told_apart_by_their_digest() -> None:
    """The largest entry of each matrix; one number more is another strategy."""
    strategies = measured(crossed())
    assert min(int(np.abs(each.matrix).max()) for each in strategies) >= 1 << LEAST_BITS
    first = strategies[0]
    other = replace(first, matrix=first.matrix + np.eye(len(first.matrix), dtype=np.int64))
    assert strategies_digest((first,)) != strategies_digest((other,))
    assert strategies_digest(strategies) == strategies_digest(measured(crossed()))


@pytest.mark.parametrize(
    "matrix", [np.ones((2, 2), np.int64), np.zeros((2, 2), np.int64), np.eye(2), np.eye(3, dtype=np.int64)]
)
def test_what_is_no_strategy_is_refused(matrix: np.ndarray) -> None:
    """Full below the diagonal, singular, fractions, another number of cells."""
    with pytest.raises(ValueError, match=r"allowed|must"):
        RangeStrategy(RangeResidual((), (), ("age",), (2,)), matrix)


def test_a_plain_column_of_one_cell_is_refused() -> None:
    """Its residual is nothing; and so is a column twice."""
    with pytest.raises(ValueError, match="at least 2 cells"):
        RangeStrategy(RangeResidual(("one",), (1,), (), ()), np.eye(1, dtype=np.int64))
    with pytest.raises(ValueError, match="once"):
        RangeStrategy(RangeResidual(("age",), (2,), ("age",), (2,)), np.eye(2, dtype=np.int64))
