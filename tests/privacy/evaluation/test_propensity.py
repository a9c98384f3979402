"""pMSE, Cramér's V, errors of cells and exact statistics: by hand, row by row, and where rows do differ."""

import math
import pickle
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import tree_key
from contracts.release.statistics import Statistic
from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import association, association_errors, logistic_propensity, pool
from privacy.evaluation.statistic_errors import (
    OffsetCounts,
    PrivateStatisticErrors,
    exact_statistics,
    statistic_errors,
)
from privacy.evaluation.table_errors import PrivateTableErrors, PublishedCells, cell_errors
from tasks.evaluation.scores import tree_propensity

SHAPE = (3, 2, 5, 4)
COLUMNS = ("a", "b", "c", "d")


def rows(number: int, seed: int, *, moved: float = 0.0) -> EncodedRows:
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(0, size, number) for size in SHAPE], axis=1)
    codes[random.random(number) < moved, 2] = 0
    return EncodedRows(COLUMNS, SHAPE, codes)


@pytest.mark.parametrize(("real", "made"), [(2000, 2000), (3000, 1000)])
def test_two_samples_of_one_population_have_a_ratio_of_one(real: int, made: int):
    """Mean of 40 ratios of a chi-squared with 10 degrees: deviation 0.071; six of them: false alarm < 1e-8."""
    ratios = []
    for seed in range(40):
        found = logistic_propensity(pool(rows(real, seed), rows(made, 1000 + seed)))
        assert found is not None
        ratios.append(found.ratio)
    assert abs(np.mean(ratios) - 1) < 0.43


def test_rows_that_differ_are_told_apart():
    """One row in ten moved: both classifiers see it; the ratio of two samples of one population would be near 1."""
    pooled = pool(rows(2000, 1), rows(2000, 2, moved=0.2))
    regression, tree = logistic_propensity(pooled), tree_propensity(pooled)
    assert regression is not None
    assert regression.ratio > 5
    assert tree.ratio > 2
    same = tree_propensity(pool(rows(2000, 1), rows(2000, 2)))
    assert 0.5 < same.ratio < 1.7


def test_the_regression_is_the_one_of_scikit_learn():
    """The same propensities as a fit on the full one-hot matrix, without penalty."""
    real, made = rows(700, 3), rows(500, 4, moved=0.3)
    both = np.concatenate([real.codes, made.codes])
    one_hot = np.concatenate([np.eye(size)[both[:, place]] for place, size in enumerate(SHAPE)], axis=1)
    labels = np.repeat([0, 1], [700, 500])
    fitted = LogisticRegression(C=1e8, max_iter=5000, tol=1e-10).fit(one_hot, labels)
    expected = np.mean((fitted.predict_proba(one_hot)[:, 1] - 500 / 1200) ** 2)
    found = logistic_propensity(pool(real, made))
    assert found is not None
    assert found.pmse == pytest.approx(expected, rel=1e-4)
    assert found.expected == pytest.approx(10 * (500 / 1200) * (700 / 1200) / 1200)


def test_tables_that_share_no_label_are_wholly_told_apart():
    """A label that one table alone has: p is 0 or 1, and the pMSE c (1 - c)."""
    real = EncodedRows(("a",), (2,), np.zeros((30, 1), dtype=np.int64))
    made = EncodedRows(("a",), (2,), np.ones((10, 1), dtype=np.int64))
    found = logistic_propensity(pool(real, made))
    assert found is not None
    assert found.pmse == pytest.approx(0.25 * 0.75, rel=1e-3)


def test_equal_tables_are_not_told_apart():
    found = logistic_propensity(pool(rows(100, 1), rows(100, 1)))
    assert found is not None
    assert found.pmse < 1e-12
    alone = EncodedRows(("a",), (2,), np.zeros((30, 1), dtype=np.int64))
    same = logistic_propensity(pool(alone, alone))
    assert same is not None
    assert same.ratio == 1


def test_association_by_hand():
    """Equal columns 1, independent ones 0, and a 2 x 2 table whose V is |ad - bc| over the root of its margins."""
    counts = np.array([[30, 10], [20, 40]])
    codes = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], counts.reshape(-1), axis=0)
    table = EncodedRows(("a", "b"), (3, 2), codes)
    assert association(table, 0, 1) == pytest.approx((30 * 40 - 10 * 20) / math.sqrt(40 * 60 * 50 * 50))
    assert association(table, 0, 0) == pytest.approx(1)
    single = EncodedRows(("a", "b"), (3, 2), np.array([[0, 0], [0, 1]]))
    assert association(single, 0, 1) == 0
    assert association_errors(table, single) == {(0, 1): association(table, 0, 1)}
    with pytest.raises(ValueError, match="made-up row"):
        association_errors(table, EncodedRows(("a", "b"), (3, 2), np.empty((0, 2), dtype=np.int64)))


def test_errors_of_cells_by_hand():
    """Three of six cells are published, one suppressed; the exact counts are 4, 0, 6 and 5 elsewhere."""
    published = PublishedCells(
        codes=np.array([[0, 0], [0, 1], [0, 2], [1, 0]]),
        counts=np.array([5.0, 2.0, math.nan, 2.0]),
        bounds=np.array([[3.0, 1.0, math.nan, 5.0], [7.0, 4.0, math.nan, 9.0]]),
    )
    found = cell_errors(
        {0: 4, 2: 5, 3: 6},
        np.array([0, 1, 2, 3]),
        published,
        columns=("a", "b"),
        labels=(("x", "y"), ("p", "q", "r")),
        cells=6,
    )
    assert (found.cells, found.unpublished, found.rows_unpublished) == (3, 3, 5)
    assert (found.mean_absolute, found.largest) == (pytest.approx(7 / 3), 4)
    assert found.bootstrap > 0
    assert found.rmse == pytest.approx(math.sqrt((1 + 4 + 16) / 3))
    assert found.relative == pytest.approx(7 / 15)
    assert found.covered == pytest.approx(2 / 3)
    assert next((cell.labels, cell.exact, cell.published) for cell in found.worst) == (("y", "p"), 6, 2.0)
    private = PrivateTableErrors({"t": found})
    assert "2.0" not in repr(private)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(private)


def test_the_yardstick_of_a_table_is_what_drawing_its_rows_again_would_miss():
    """A second derivation, by drawing: 2,000 bootstraps of 1,000 rows in three cells, within 3 % (seeded)."""
    counts = np.array([700, 250, 50])
    drawn = np.random.default_rng(1).multinomial(1000, counts / 1000, size=2000)
    published = PublishedCells(np.arange(3)[:, None], counts.astype(np.float64), None)
    exact = dict(enumerate(counts.tolist()))
    labels = (("a", "b", "c"),)
    found = cell_errors(exact, np.arange(3), published, columns=("x",), labels=labels, cells=3)
    assert found.mean_absolute == 0
    assert found.bootstrap == pytest.approx(np.abs(drawn - counts).mean(), rel=0.03)


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
def test_exact_statistics_are_those_of_the_rows_one_by_one(weighed: bool):
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


def test_an_exact_effective_size_is_that_of_the_weights_one_by_one():
    """By fractions; a cell without weights has none, and steps cancel."""
    weight = replace(WEIGHT, weight=WEIGHT)
    rows = [(cell, steps + 1, steps) for cell, steps in ((0, 12), (0, 1), (0, 1), (1, 5), (1, 5), (2, 0))]
    (found,) = exact_statistics(Statistic.model_validate({"effective_size": "w"}), {"w": counts_of(rows, weight)})
    assert found.tolist() == [float(Fraction(14 * 14, 146)), 2.0, 0.0, 0.0, 0.0]


def test_a_narrower_lattice_clips_once_more():
    """Offsets beyond its steps count as its ends: what a private clip does."""
    counts = OffsetCounts(
        np.zeros(3, np.int64), np.array([1, 5, 11]), np.ones(3, np.int64), 1, ValueLattice("age", *_ENDS, True)
    )
    assert counts.sums().tolist() == [0 + 4 + 6]


def test_errors_are_over_cells_with_both_numbers():
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


def test_errors_show_no_number_and_are_not_pickled():
    private = PrivateStatisticErrors({"t": {}})
    assert "auditor" in repr(private)
    with pytest.raises(TypeError, match="stay with the auditor"):
        pickle.dumps(private)
