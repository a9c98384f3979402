"""pMSE, Cramér's V and errors of cells: against two samples of one population, by hand, and where rows do differ."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from privacy.evaluation.cells import EncodedRows
from privacy.evaluation.rows import association, association_errors, logistic_propensity, pool
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
def test_two_samples_of_one_population_have_a_ratio_of_one(real: int, made: int) -> None:
    """Mean of 40 ratios of a chi-squared with 10 degrees: deviation 0.071; six of them: false alarm < 1e-8."""
    ratios = []
    for seed in range(40):
        found = logistic_propensity(pool(rows(real, seed), rows(made, 1000 + seed)))
        assert found is not None
        ratios.append(found.ratio)
    assert abs(np.mean(ratios) - 1) < 0.43


def test_rows_that_differ_are_told_apart() -> None:
    """One row in ten moved: both classifiers see it; the ratio of two samples of one population would be near 1."""
    pooled = pool(rows(2000, 1), rows(2000, 2, moved=0.2))
    regression, tree = logistic_propensity(pooled), tree_propensity(pooled)
    assert regression is not None
    assert regression.ratio > 5
    assert tree.ratio > 2
    same = tree_propensity(pool(rows(2000, 1), rows(2000, 2)))
    assert 0.5 < same.ratio < 1.7


def test_the_regression_is_the_one_of_scikit_learn() -> None:
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


def test_tables_that_share_no_label_are_wholly_told_apart() -> None:
    """A label that one table alone has: p is 0 or 1, and the pMSE c (1 - c)."""
    real = EncodedRows(("a",), (2,), np.zeros((30, 1), dtype=np.int64))
    made = EncodedRows(("a",), (2,), np.ones((10, 1), dtype=np.int64))
    found = logistic_propensity(pool(real, made))
    assert found is not None
    assert found.pmse == pytest.approx(0.25 * 0.75, rel=1e-3)


def test_equal_tables_are_not_told_apart() -> None:
    found = logistic_propensity(pool(rows(100, 1), rows(100, 1)))
    assert found is not None
    assert found.pmse < 1e-12
    alone = EncodedRows(("a",), (2,), np.zeros((30, 1), dtype=np.int64))
    same = logistic_propensity(pool(alone, alone))
    assert same is not None
    assert same.ratio == 1


def test_association_by_hand() -> None:
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


def test_errors_of_cells_by_hand() -> None:
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


def test_the_yardstick_of_a_table_is_what_drawing_its_rows_again_would_miss() -> None:
    """A second derivation, by drawing: 2,000 bootstraps of 1,000 rows in three cells, within 3 % (seeded)."""
    counts = np.array([700, 250, 50])
    drawn = np.random.default_rng(1).multinomial(1000, counts / 1000, size=2000)
    published = PublishedCells(np.arange(3)[:, None], counts.astype(np.float64), None)
    exact = dict(enumerate(counts.tolist()))
    labels = (("a", "b", "c"),)
    found = cell_errors(exact, np.arange(3), published, columns=("x",), labels=labels, cells=3)
    assert found.mean_absolute == 0
    assert found.bootstrap == pytest.approx(np.abs(drawn - counts).mean(), rel=0.03)
