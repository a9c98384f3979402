"""Tables from residuals: unbiased, in agreement, with the stated covariance of any two cells."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from privacy.marginals.residual_basis import Residual, residual_of
from privacy.marginals.residuals import STEP, ResidualTables, cell_covariance, residual_variances, subsets

SIZES = {"a": 2, "b": 3, "one": 1, "c": 4}
ORDER = ("a", "b", "c")


def _residuals(tables: list[tuple[str, ...]]) -> list[Residual]:
    wanted = {part for table in tables for part in subsets(tuple(n for n in ORDER if n in table))}
    ordered = sorted(wanted, key=lambda part: (len(part), part))
    return [Residual(part, tuple(SIZES[n] for n in part), 3 + place) for place, part in enumerate(ordered)]


def _exact(rows: np.ndarray, residuals: list[Residual]) -> np.ndarray:
    parts = []
    for each in residuals:
        axes = tuple(axis for axis, name in enumerate(SIZES) if name not in each.columns)
        parts.append(each.multiplier * residual_of(rows.sum(axis=axes)).reshape(-1))
    return np.concatenate(parts)


def _rows() -> np.ndarray:
    return np.random.default_rng(3).integers(0, 50, tuple(SIZES.values()))


@pytest.mark.parametrize("table", [("a",), ("c", "a"), ("b", "one", "c"), ("c", "b", "a"), ("one",), ()])
def test_without_noise_a_table_is_the_exact_one(table: tuple[str, ...]) -> None:
    """In any order of its columns, and with a column of one cell."""
    rows, residuals = _rows(), _residuals([("a", "b", "c")])
    found = ResidualTables(residuals, _exact(rows, residuals), total=None).table(table, SIZES)
    kept = [list(SIZES).index(name) for name in table]
    exact = rows.sum(axis=tuple(axis for axis in range(4) if axis not in kept)).transpose(
        np.argsort(np.argsort(kept))
    )
    assert found.shape == tuple(SIZES[name] for name in table)
    assert np.abs(found - exact).max() <= STEP


def test_noisy_tables_agree_on_what_they_share() -> None:
    """Whatever the noise is; a public total is kept exactly."""
    rows, residuals = _rows(), [each for each in _residuals([("a", "b"), ("b", "c")]) if each.columns]
    exact = _exact(rows, residuals)
    noisy = exact + np.random.default_rng(4).integers(-500, 500, exact.size)
    tables = ResidualTables(residuals, noisy, total=int(rows.sum()))
    left, right = tables.table(("a", "b"), SIZES), tables.table(("b", "c"), SIZES)
    assert np.abs(left.sum(axis=0) - right.sum(axis=1)).max() <= 10 * STEP
    assert abs(left.sum() - rows.sum()) <= 10 * STEP
    assert tables.total == rows.sum()


@pytest.mark.parametrize("table", [("a",), ("b", "c"), ("c", "one", "a", "b")])
def test_the_covariance_of_any_two_cells_is_that_of_the_linear_map(table: tuple[str, ...]) -> None:
    """Column by column of the map from noise to the table, as the code makes it."""
    residuals = _residuals([("a", "b", "c")])
    size = sum(each.cells for each in residuals)
    unit = 10**6  # one noise of a million: the table is rounded to 2^-20
    columns = []
    for place in range(size):
        values = np.zeros(size, np.int64)
        values[place] = unit
        columns.append(ResidualTables(residuals, values, total=None).table(table, SIZES).reshape(-1) / unit)
    cells = np.stack(columns, axis=1)
    found = 7.0 * cells @ cells.T
    variances = residual_variances(residuals, Fraction(7))
    shape = tuple(SIZES[name] for name in table)
    for (i, one), (j, other) in product(enumerate(np.ndindex(*shape)), repeat=2):
        same = {name for name, a, b in zip(table, one, other, strict=True) if a == b}
        expected = cell_covariance(table, SIZES, variances, same=same)
        assert found[i, j] == pytest.approx(float(expected), rel=1e-9, abs=1e-9)


def test_the_covariance_of_all_cells_adds_up_to_the_variance_of_the_total() -> None:
    """A sum over all cells has the noise of the residual of no column alone."""
    residuals = _residuals([("a", "b", "c")])
    variances, table = residual_variances(residuals, Fraction(5)), ("a", "b", "c")
    cells = prod(SIZES[name] for name in table)
    total = Fraction(0)
    for shape in product((True, False), repeat=3):
        same = {name for name, alike in zip(table, shape, strict=True) if alike}
        pairs = cells * prod(SIZES[n] - 1 for n in table if n not in same)
        total += pairs * cell_covariance(table, SIZES, variances, same=same)
    assert total == variances[()]


def test_a_table_whose_residuals_were_not_measured_is_refused() -> None:
    """And so are more numbers than there are."""
    residuals = _residuals([("a", "b")])
    values = np.zeros(sum(each.cells for each in residuals), np.int64)
    with pytest.raises(KeyError, match="not all residuals"):
        ResidualTables(residuals, values, total=None).table(("a", "c"), SIZES)
    with pytest.raises(ValueError, match="one number for each"):
        ResidualTables(residuals, values[1:], total=None)
