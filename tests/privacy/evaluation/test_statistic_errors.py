"""Exact statistics of the auditor: a second derivation row by row, and errors that are what they are called."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import tree_key
from contracts.release.statistics import Statistic
from privacy.evaluation.statistic_errors import (
    OffsetCounts,
    PrivateStatisticErrors,
    exact_statistics,
    statistic_errors,
)

WEIGHT = ValueLattice("w", Decimal(0), Decimal(6), Decimal("0.5"), False)
_ENDS = Decimal(0), Decimal(6), Decimal(1)
AGE = ValueLattice("age", Decimal(-4), Decimal(16), Decimal(2), True)
SIZE = 5


def rows_of(weighed: bool, seed: int = 3) -> list[tuple[int, int, int]]:
    """Cell, offset plus 1, and weight of each row; the last cell has rows without a value only, the fourth none."""
    random = np.random.default_rng(seed)
    made = [
        (int(random.integers(0, 3)), int(random.integers(0, 12)), int(random.integers(0, 13))) for _ in range(400)
    ]
    return [(cell, offset, weight if weighed else 1) for cell, offset, weight in [*made, (4, 0, 3)]]


def counts_of(rows: list[tuple[int, int, int]], lattice: ValueLattice) -> OffsetCounts:
    cells, offsets, mass = (np.array(each, dtype=np.int64) for each in zip(*rows, strict=True))
    return OffsetCounts(cells, offsets, mass, SIZE, lattice)


@pytest.mark.parametrize("weighed", [False, True])
def test_exact_statistics_are_those_of_the_rows_one_by_one(weighed: bool) -> None:
    """By fractions: counts with missing values, sums, means, variances and quantiles without."""
    rows, lattice = rows_of(weighed), replace(AGE, weight=WEIGHT) if weighed else AGE
    counts = counts_of(rows, lattice)
    unit = Fraction(1, 2) if weighed else Fraction(1)
    shares = ("0.25", "0.5", "0.9")
    written = ["count", {"sum": "age"}, {"mean": "age"}, {"variance": "age"}, {"sd": "age"}]
    written.append({"quantiles": list(shares), "of": "age"})
    found = [
        exact_statistics(Statistic.model_validate(each), {"age": counts, tree_key("age"): counts, None: counts})
        for each in written
    ]
    for cell in range(SIZE):
        own = [(offset, weight) for at, offset, weight in rows if at == cell]
        valued = [(Fraction(-4 + 2 * (offset - 1)), weight) for offset, weight in own if offset > 0]
        mass = sum(weight for _, weight in valued)
        assert found[0][0][cell] == float(unit * sum(weight for _, weight in own))
        assert found[1][0][cell] == pytest.approx(float(unit * sum(value * weight for value, weight in valued)))
        if not mass:
            assert all(np.isnan(array[cell]) for each in found[2:] for array in each)
            continue
        mean = sum((value * weight for value, weight in valued), Fraction(0)) / mass
        spread = sum(((value - mean) ** 2 * weight for value, weight in valued), Fraction(0)) / mass
        assert found[2][0][cell] == pytest.approx(float(mean))
        assert found[3][0][cell] == pytest.approx(float(spread))
        assert found[4][0][cell] == pytest.approx(float(spread) ** 0.5)
        for share, array in zip(shares, found[5], strict=True):
            at_or_below = [
                value
                for value in sorted({value for value, weight in valued if weight})
                if sum(weight for other, weight in valued if other <= value) >= Fraction(share) * mass
            ]
            assert array[cell] == float(at_or_below[0])


def test_an_exact_effective_size_is_that_of_the_weights_one_by_one() -> None:
    """By fractions; a cell without weights has none, and steps cancel."""
    weight = replace(WEIGHT, weight=WEIGHT)
    rows = [(cell, steps + 1, steps) for cell, steps in ((0, 12), (0, 1), (0, 1), (1, 5), (1, 5), (2, 0))]
    (found,) = exact_statistics(Statistic.model_validate({"effective_size": "w"}), {"w": counts_of(rows, weight)})
    assert found.tolist() == [float(Fraction(14 * 14, 146)), 2.0, 0.0, 0.0, 0.0]


def test_a_narrower_lattice_clips_once_more() -> None:
    """Offsets beyond its steps count as its ends: what a private clip does."""
    counts = OffsetCounts(
        np.zeros(3, np.int64), np.array([1, 5, 11]), np.ones(3, np.int64), 1, ValueLattice("age", *_ENDS, True)
    )
    assert counts.sums().tolist() == [0 + 4 + 6]


def test_errors_are_over_cells_with_both_numbers() -> None:
    """A suppressed cell, an infinite one, one of nobody and an excluded one are none of them."""
    exact = np.array([10.0, 20.0, np.nan, 40.0, 50.0, 60.0])
    value = np.array([13.0, 16.0, 1.0, np.nan, np.inf, 99.0])
    low, high = value - 3, value + 3
    possible = np.array([True] * 5 + [False])
    errors = statistic_errors(exact, (value, low, high), lambda cell: (f"c{cell}",), possible, exact + 2)
    assert (errors.cells, errors.unpublished, errors.undefined) == (2, 2, 1)
    assert errors.rmse == pytest.approx(np.sqrt((9 + 16) / 2))
    assert (errors.bias, errors.largest, errors.relative) == (-0.5, 4.0, pytest.approx(7 / 30))
    assert errors.covered == 0.5
    assert errors.bias_unclipped == -2.5
    assert [(cell.labels, cell.exact) for cell in errors.worst] == [(("c1",), 20.0), (("c0",), 10.0)]
    nothing = statistic_errors(exact * np.nan, (value, low, high), lambda cell: (), possible)
    assert (nothing.cells, nothing.covered, nothing.rmse_unclipped) == (0, None, None)


def test_errors_show_no_number_and_are_not_pickled() -> None:
    private = PrivateStatisticErrors({"t": {}})
    assert "auditor" in repr(private)
    with pytest.raises(TypeError, match="stay with the auditor"):
        pickle.dumps(private)
