"""Residuals: whole numbers, how far a unit moves them, and unbiased tables from them with their covariance."""

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.contract import Adjacency
from privacy.marginals.residual_basis import Residual, residual_moves, residual_of, squared_change, squares_of
from privacy.marginals.residuals import STEP, ResidualTables, cell_covariance, residual_variances, subsets

SHAPES = [(2,), (3,), (2, 2), (2, 3), (3, 4), (4, 4), (2, 2, 2), (2, 3, 4), (3, 3, 3), (2, 2, 2, 3)]


def _single_rows(shape: tuple[int, ...]) -> list[np.ndarray]:
    found = []
    for cell in product(*map(range, shape)):
        counts = np.zeros(shape, np.int64)
        counts[cell] = 1
        found.append(residual_of(counts))
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_one_row_moves_a_residual_by_the_closed_form(shape: tuple[int, ...]):
    """Under both relations the largest squared norm over all pairs of cells is what is charged, no more."""
    rows = _single_rows(shape)
    assert {int((row**2).sum()) for row in rows} == {squared_change(shape, "add_remove")}
    pairs = [int(((one - other) ** 2).sum()) for one, other in product(rows, rows)]
    assert max(pairs) == squared_change(shape, "replace_one")


@pytest.mark.parametrize("shape", [(2,), (3,), (2, 2), (2, 3)])
@pytest.mark.parametrize("rows_per_unit", [1, 2, 3])
def test_rows_of_one_unit_move_it_by_the_square_of_their_number(shape: tuple[int, ...], rows_per_unit: int):
    """All ways in which up to k rows come, or leave for up to k others, stay within k² times the bound of one."""
    rows = [np.zeros(shape, np.int64), *_single_rows(shape)]  # a row may also be missing
    units = [sum(chosen) for chosen in combinations_with_replacement(rows, rows_per_unit)]
    for adjacency, changes in (
        ("add_remove", units),
        ("replace_one", [one - other for one, other in product(units, units)]),
    ):
        worst = max(int((np.asarray(change) ** 2).sum()) for change in changes)
        assert worst == rows_per_unit**2 * squared_change(shape, adjacency)  # type: ignore[arg-type]


def test_the_number_of_rows_is_a_residual_that_a_unit_moves_by_its_rows():
    """Under replace_one, too: k rows may go for fewer."""
    for adjacency in ("add_remove", "replace_one"):
        assert residual_moves([Residual((), (), 1)], adjacency, 3) == (3,)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_residuals_that_are_drawn_together_move_by_the_sum_of_their_squares(adjacency: Adjacency):
    """Against every neighbour of one row: at most the bound, and under add_remove just that."""
    sizes, sets = (2, 3, 2), [(), (0,), (1,), (2,), (0, 1), (1, 2)]
    residuals = [Residual(tuple("abc"[i] for i in own), tuple(sizes[i] for i in own), 2 + len(own)) for own in sets]

    def vector(row: tuple[int, ...]) -> np.ndarray:
        parts = []
        for own, residual in zip(sets, residuals, strict=True):
            counts = np.zeros(residual.shape, np.int64)
            counts[tuple(row[i] for i in own)] = 1
            parts.append(residual.multiplier * residual_of(counts).reshape(-1))
        return np.concatenate(parts)

    vectors = [vector(row) for row in product(*map(range, sizes))]
    bound = sum(move**2 for move in residual_moves(residuals, adjacency, 1))
    if adjacency == "add_remove":
        assert {int((each**2).sum()) for each in vectors} == {bound}
    else:
        assert max(int(((a - b) ** 2).sum()) for a, b in product(vectors, vectors)) <= bound


def test_residuals_add_up_to_zero_along_every_column_and_are_exact():
    """They hold nothing of their margins; they are the integer tensor product."""
    counts = np.random.default_rng(1).integers(0, 100, (3, 4, 2))
    found = residual_of(counts)
    matrix = np.ones((1, 1), np.int64)
    for cells in counts.shape:
        matrix = np.kron(matrix, cells * np.eye(cells, dtype=np.int64) - 1)
    assert (found.reshape(-1) == matrix @ counts.reshape(-1)).all()
    assert all((found.sum(axis=axis) == 0).all() for axis in range(3))


@given(st.integers(1, 10**22))
@settings(max_examples=200)
def test_squares_add_up_exactly(norm: int):
    """The event states the squared norm itself, rounded neither up nor down, in a dozen numbers at most."""
    roots = squares_of(norm)
    assert sum(root**2 for root in roots) == norm
    assert len(roots) <= 12
    assert min(roots) >= 1


def test_what_is_no_residual_is_refused():
    """A column of one cell, sizes for other columns, a column twice, a multiplier below 1."""
    for columns, shape, multiplier in (
        (("a",), (1,), 1),
        (("a",), (2, 2), 1),
        (("a", "a"), (2, 2), 1),
        (("a",), (2,), 0),
    ):
        with pytest.raises(ValueError, match="allowed"):
            Residual(columns, shape, multiplier)


def test_wrapping_around_is_a_function_of_the_whole_numbers():
    """Numbers beyond 64 bits are those of exact arithmetic, modulo 2^64: so is their sum with noise."""
    counts = np.array([[2**61, 5], [7, 2**60]])
    exact = [[0, 0], [0, 0]]
    for i, j in product(range(2), range(2)):
        exact[i][j] = sum(
            (1 if i == a else -1) * (1 if j == b else -1) * int(counts[a, b]) for a, b in product(range(2), range(2))
        )
    found = residual_of(counts)
    assert [[int(x) % 2**64 for x in row] for row in found] == [[x % 2**64 for x in row] for row in exact]
    assert prod(counts.shape) == 4


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
def test_without_noise_a_table_is_the_exact_one(table: tuple[str, ...]):
    """In any order of its columns, and with a column of one cell."""
    rows, residuals = _rows(), _residuals([("a", "b", "c")])
    found = ResidualTables(residuals, _exact(rows, residuals), total=None).table(table, SIZES)
    kept = [list(SIZES).index(name) for name in table]
    exact = rows.sum(axis=tuple(axis for axis in range(4) if axis not in kept)).transpose(
        np.argsort(np.argsort(kept))
    )
    assert found.shape == tuple(SIZES[name] for name in table)
    assert np.abs(found - exact).max() <= STEP


def test_noisy_tables_agree_on_what_they_share():
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
def test_the_covariance_of_any_two_cells_is_that_of_the_linear_map(table: tuple[str, ...]):
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


def test_the_covariance_of_all_cells_adds_up_to_the_variance_of_the_total():
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


def test_a_table_whose_residuals_were_not_measured_is_refused():
    """And so are more numbers than there are."""
    residuals = _residuals([("a", "b")])
    values = np.zeros(sum(each.cells for each in residuals), np.int64)
    with pytest.raises(KeyError, match="not all residuals"):
        ResidualTables(residuals, values, total=None).table(("a", "c"), SIZES)
    with pytest.raises(ValueError, match="one number for each"):
        ResidualTables(residuals, values[1:], total=None)
