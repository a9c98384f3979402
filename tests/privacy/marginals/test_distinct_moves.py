"""How far a unit moves distinct counts: by brute force over tables, rows, cells and both relations."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

from contracts.contract.contract import Adjacency
from contracts.domains.addends import DistinctCount
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.accounting.renyi import renyi
from privacy.marginals.cell_sums import cell_sum_event
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise, distinct_moves

Change = tuple[int, ...]
VALUES = 2
UNITS = DistinctCount(None, None, True)


def counts(rows: tuple[tuple[int, int], ...], cells: int) -> Change:
    """Count the different values in each cell; a row is a cell and a value."""
    return tuple(len({value for place, value in rows if place == cell}) for cell in range(cells))


def changes(counted: DistinctCount, rows: int, adjacency: Adjacency, cells: int) -> set[Change]:
    """All changes that one unit of up to so many rows can make, beside all tables of others."""
    places = list(product(range(cells), range(VALUES)))
    of_unit = [each for number in range(rows + 1) for each in combinations_with_replacement(places, number)]
    if counted.column is None:
        seen = {tuple(int(any(place == cell for place, _ in own)) for cell in range(cells)) for own in of_unit}
        pairs = product(seen, seen) if adjacency == "replace_one" else ((each, (0,) * cells) for each in seen)
        return {tuple(a - b for a, b in zip(*pair, strict=True)) for pair in pairs}
    beside = [each for number in range(cells * VALUES + 1) for each in combinations_with_replacement(places, number)]
    others = {frozenset(each) for each in beside}
    found = set()
    for other in others:
        whole = {counts((*other, *own), cells) for own in of_unit}
        left = whole if adjacency == "replace_one" else {counts(tuple(other), cells)}
        found |= {tuple(a - b for a, b in zip(one, two, strict=True)) for one in whole for two in left}
    return found


@pytest.mark.parametrize("cells", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("counted", [UNITS, DistinctCount("note", None, True), DistinctCount("sex", VALUES, True)])
def test_no_change_is_worse_than_the_moves(
    counted: DistinctCount, adjacency: Adjacency, rows: int, cells: int
) -> None:
    """L1 for pure losses, L2 for Gaussian noise, Rényi losses of Laplace noise; declared values reach. Two values are
    all that there is, so texts, of which nobody knows how many, may stay below."""
    terms = {"adjacency": adjacency, "rows_per_unit": rows, "cells": cells}
    laplace = cell_sum_event(LaplaceNoise(Fraction(1)), counted, **terms)  # type: ignore[arg-type]
    gaussian = cell_sum_event(GaussianNoise(Fraction(1, 2)), counted, **terms)  # type: ignore[arg-type]
    assert isinstance(laplace, DiscreteLaplace)
    assert isinstance(gaussian, DiscreteGaussian)
    found = {
        tuple(sorted((abs(each) for each in change if each), reverse=True)) for change in changes_of(counted, terms)
    }
    assert max(map(sum, found)) <= sum(laplace.moves)
    assert max(sum(each * each for each in change) for change in found) <= sum(each**2 for each in gaussian.moves)
    for order in (Fraction(3, 2), Fraction(4), Fraction(40)):
        most = renyi(laplace, order)
        for change in found - {()}:
            assert renyi(DiscreteLaplace(laplace.inverse_scale, change), order) <= most * (1 + 1e-9)
    if counted.values is not None and adjacency == "add_remove":
        assert laplace.moves in found


def changes_of(counted: DistinctCount, terms: dict[str, object]) -> set[Change]:
    return changes(counted, terms["rows_per_unit"], terms["adjacency"], terms["cells"])  # type: ignore[arg-type]


@pytest.mark.parametrize("counted", [UNITS, DistinctCount("note", None, True)])
def test_a_bound_of_one_row_less_is_exceeded(counted: DistinctCount) -> None:
    """The comparison above finds it: three rows in three cells, priced as two."""
    event = cell_sum_event(LaplaceNoise(Fraction(1)), counted, adjacency="add_remove", rows_per_unit=2, cells=3)
    assert isinstance(event, DiscreteLaplace)
    assert max(sum(map(abs, change)) for change in changes(counted, 3, "add_remove", 3)) > sum(event.moves)


@pytest.mark.parametrize(
    ("adjacency", "rows", "most", "cells", "moves"),
    [
        ("add_remove", 5, None, None, (5,)),
        ("replace_one", 5, None, None, (5, 5)),
        ("replace_one", 5, None, 1, (5,)),
        ("add_remove", 5, 1, None, (1,) * 5),
        ("add_remove", 5, 1, 3, (1,) * 3),
        ("replace_one", 5, 1, 30, (1,) * 10),
        ("add_remove", 5, 2, None, (2, 2, 1)),
        ("replace_one", 5, 2, 3, (2, 2, 2)),
        ("add_remove", 5, 9, 1, (5,)),
        ("add_remove", 4096, 1, None, (1,) * 4096),
        ("add_remove", 10**6, 1, None, (245,) * 4081 + (155,)),
    ],
)
def test_moves_by_hand(
    adjacency: Adjacency, rows: int, most: int | None, cells: int | None, moves: tuple[int, ...]
) -> None:
    """The last is a list of 4,096 entries at most: fewer cells that move farther, and the same L1."""
    assert distinct_moves(adjacency, rows, most_per_cell=most, cells=cells) == moves


def test_cells_that_are_not_declared_bound_nothing() -> None:
    """Of selected keys nobody knows the number before: the event is that of the plan, whatever was selected."""
    counted = DistinctCount(None, None, False)
    events = {
        cell_sum_event(LaplaceNoise(Fraction(1)), counted, adjacency="add_remove", rows_per_unit=4, cells=cells)
        for cells in (1, 2, None)
    }
    assert [event.moves for event in events] == [(1,) * 4]
