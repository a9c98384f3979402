"""Rows for learning: laid out in vectors by the contract alone, and only behind a handle."""

import pickle
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from contracts.contract.contract import Contract
from contracts.errors import ContractRefused
from privacy.learning.layout import ColumnLayout, Head, PrivateRows, RowLayout, row_layout
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotRows, _read_codes
from tests.contracts.samples import column, contract_of

CELL = {"policy": "category"}


@pytest.fixture(scope="module")
def mixed() -> Contract:
    """A whole number with nulls, a decimal without, a day, and categories with `other` and nulls."""
    return contract_of(
        column("integer", "integer", "age", bounds=[0, 99], bins=[[0, 19], [20, 59], [60, 99]], nulls=CELL),
        column(
            "decimal", "number", "pay", bounds=[0, 8], bins={"edges": [0, 2, 8]}, nulls={"policy": "map", "to": "0"}
        ),
        column("date", "date", "day", bounds=["2024-01-01", "2024-03-31"], granularity="month", nulls=CELL),
        column("categories", "string", "sex", values=["F", "M"], other="other", nulls=CELL),
    )


def random_codes(contract: Contract, rows: int = 300) -> np.ndarray:
    random = np.random.default_rng(5)
    return np.stack([random.integers(0, each.size, rows) for each in contract.columns], axis=1).astype(np.uint16)


def snapshot(folder: Path, contract: Contract, codes: np.ndarray) -> PrivateTable:
    path = folder / "snapshot.duckdb"
    with duckdb.connect(str(path)) as connection:
        columns = ", ".join(f'"{each.name}" USMALLINT' for each in contract.columns)
        connection.execute(f"CREATE TABLE codes ({columns})")
        connection.executemany(f"INSERT INTO codes VALUES ({', '.join('?' * codes.shape[1])})", codes.tolist())
    return PrivateTable(path, "f" * 64, contract.digest, "people.csv")


def test_a_row_becomes_the_numbers_that_the_contract_says(mixed: Contract):
    """Middles of bins scaled by the bounds, a flag for nulls, one entry a category, nulls and `other` among them."""
    layout = row_layout(mixed)
    assert (layout.width, layout.code_width) == (2 + 1 + 2 + 4, 4)
    vectors = layout.vectors(np.array([[1, 1, 0, 2], [3, 0, 3, 3]], dtype=np.uint8))
    january = 15 / 90
    np.testing.assert_allclose(vectors[0], [39.5 / 99, 0, 5 / 8, january, 0, 0, 0, 1, 0], rtol=1e-6)
    np.testing.assert_allclose(vectors[1], [0, 1, 1 / 8, 0, 1, 0, 0, 0, 1], rtol=1e-6)
    assert vectors.dtype == np.float32
    assert layout.heads == (
        Head("age", "unit", 0, 1),
        Head("age", "flag", 1, 2),
        Head("pay", "unit", 2, 3),
        Head("day", "unit", 3, 4),
        Head("day", "flag", 4, 5),
        Head("sex", "choice", 5, 9),
    )


def test_a_rows_vector_does_not_depend_on_other_rows(mixed: Contract):
    """Bit for bit, whatever rows stand beside it."""
    layout, codes = row_layout(mixed), random_codes(mixed)
    order = np.random.default_rng(1).permutation(len(codes))[:101]
    assert layout.vectors(codes)[order].tobytes() == layout.vectors(codes[order]).tobytes()


def test_the_lattice_holds_the_vectors_in_whole_numbers(mixed: Contract):
    layout, codes = row_layout(mixed), random_codes(mixed)
    whole = layout.lattice(codes, bits=16)
    assert np.array_equal(whole, np.rint(whole))
    np.testing.assert_allclose(whole / 2**16, layout.vectors(codes), atol=2**-17 + 1e-7)


def test_an_array_takes_a_code_a_place():
    """Levels of an array lie beside each other, and columns after it follow."""
    pixels = ColumnLayout("pixels", "array", np.linspace(0, 1, 5)[:, None], length=3)
    layout = RowLayout((pixels, ColumnLayout("label", "category", np.eye(2))))
    codes = np.array([[0, 4, 2, 1], [1, 1, 3, 0]], dtype=np.uint8)
    np.testing.assert_allclose(layout.vectors(codes), [[0, 1, 0.5, 0, 1], [0.25, 0.25, 0.75, 1, 0]])
    assert layout.heads == (Head("pixels", "unit", 0, 3), Head("label", "choice", 3, 5))
    assert layout.code_place("label") == 3
    assert np.array_equal(layout.selected(codes, ["label", "pixels"]), codes[:, [3, 0, 1, 2]])
    assert layout.select(["label"]).width == 2


def test_an_array_is_read_from_a_column_of_lists(tmp_path: Path):
    """A column of fixed-size lists gives its codes side by side."""
    path = tmp_path / "snapshot.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE codes (label UTINYINT, pixels UTINYINT[3])")
        connection.execute("INSERT INTO codes VALUES (1, [0, 4, 2]), (0, [1, 1, 3])")
    pixels = ColumnLayout("pixels", "array", np.linspace(0, 1, 5)[:, None], length=3)
    layout = RowLayout((ColumnLayout("label", "category", np.eye(2)), pixels))
    assert _read_codes(path, layout, threads=1).tolist() == [[1, 0, 4, 2], [0, 1, 1, 3]]


def test_a_layout_names_what_it_does_not_have(mixed: Contract):
    layout = row_layout(mixed)
    with pytest.raises(ValueError, match="no column 'height'; there are age, pay, day, sex"):
        layout.column("height")
    with pytest.raises(ValueError, match="each named once"):
        layout.select(["age", "age"])
    with pytest.raises(ContractRefused, match="height"):
        row_layout(mixed, ["height"])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"table": np.array([[0.5], [0.25]])}, "must not fall"),
        ({"table": np.array([[0.5], [1.25]])}, r"in \[0, 1\]"),
        ({"table": np.array([[0.5], [np.nan]])}, r"in \[0, 1\]"),
        ({"table": np.zeros((2, 3))}, "no table of a number"),
        ({"table": np.zeros((0, 1))}, "no table of a number"),
        ({"length": 2}, "only an array"),
    ],
)
def test_a_column_of_another_form_is_refused(changed: dict[str, Any], said: str):
    fine = ColumnLayout("x", "number", np.array([[0.25], [0.75]]))
    with pytest.raises(ValueError, match=said):
        replace(fine, **changed)


def test_layouts_differ_where_their_tables_do(mixed: Contract):
    """The digest tells two contracts apart, and nobody can change a table behind it."""
    layout = row_layout(mixed)
    assert layout.digest == row_layout(mixed).digest
    wider = ColumnLayout("age", "number", layout.column("age").table / 2)
    assert RowLayout((wider, *layout.columns[1:])).digest != layout.digest
    with pytest.raises(ValueError, match="read-only"):
        layout.column("age").table[0, 0] = 1


def test_bins_too_narrow_for_a_vector_are_no_error():
    """Bins of a nanosecond's share of the range fall on one number; the others keep theirs."""
    fine = column(
        "decimal",
        "number",
        "x",
        bounds=[0, Decimal("1e12")],
        bins={"edges": [0, "0.001", "0.002", "1e12"]},
        nulls=CELL,
    )
    layout = row_layout(contract_of(fine))
    assert np.unique(layout.vectors(np.array([[2], [3]]))[:, 0]).size == 2


def test_rows_are_read_once_and_only_when_the_handle_opens(tmp_path: Path, mixed: Contract):
    """Nothing is read when the handle is made; what is read is read-only, in the order asked for, and kept."""
    codes = random_codes(mixed)
    table = snapshot(tmp_path, mixed, codes)
    rows = SnapshotRows(table, mixed)
    handle, some = rows.rows(), rows.rows(["sex", "age"])
    assert np.array_equal(handle._read(), codes)
    assert np.array_equal(some._read(), codes[:, [3, 0]])
    table.path.unlink()
    assert handle._read() is rows.rows()._read()
    assert handle._read().dtype == np.uint8
    with pytest.raises(ValueError, match="read-only"):
        handle._read()[0, 0] = 1
    with pytest.raises(duckdb.IOException):
        SnapshotRows(table, mixed).rows()._read()


def test_rows_of_an_empty_table_have_their_shape(tmp_path: Path, mixed: Contract):
    path = tmp_path / "snapshot.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE codes (age UTINYINT, pay UTINYINT, day UTINYINT, sex UTINYINT)")
    assert _read_codes(path, row_layout(mixed), threads=1).shape == (0, 4)


def test_handles_show_nothing_and_refuse_pickling(tmp_path: Path, mixed: Contract):
    table = snapshot(tmp_path, mixed, random_codes(mixed))
    rows = SnapshotRows(table, mixed)
    assert repr(rows.rows()) == "PrivateRows(4 columns)"
    assert "people" not in repr(rows)
    for private in (rows, rows.rows()):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(private)


def test_rows_of_another_contract_are_refused(tmp_path: Path, mixed: Contract):
    table = replace(snapshot(tmp_path, mixed, random_codes(mixed)), contract_digest="0" * 64)
    with pytest.raises(ValueError, match="another contract"):
        SnapshotRows(table, mixed)
    assert isinstance(SnapshotRows(replace(table, contract_digest=mixed.digest), mixed).rows(), PrivateRows)
