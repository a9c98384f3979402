"""Neighbouring tables whose writer stores a column differently: rows that both have keep their codes, each and every.

A neighbour has one row less. What a writer stores the column as is then another type for all rows: none at all, whole
numbers, doubles, decimals of another scale, dates or timestamps. The histogram of what is counted may change by that
one row. A `select:` is held to more than its codes: to the rows that it gives.
"""

import io
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.column import Column
from contracts.release.spec import Source
from contracts.sql.encoding import encode_select
from contracts.sql.select import VALUE_TYPES, ValueType, select_tree, types_of
from tasks.storage.sources.delivery import deliver, explanation
from tasks.storage.sources.files import read_csv, read_parquet
from tasks.storage.sources.folder import parts_of
from tasks.storage.sources.source import read_parts
from tasks.storage.sources.typed_rows import Reading
from tests.contracts.samples import column, contract_of
from tests.contracts.sql.test_storage_types import DATES, DOMAINS

Values = list[Any]
COLUMNS: dict[str, Column] = DOMAINS | DATES
FAMILIES: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.sampled_from([None, 0, 1, 2, 17, 99, -1, 20200229]),
    "decimal": st.sampled_from([None, *map(Decimal, ("0", "0.5", "1", "1.50", "2", "99", "0.125"))]),
    "text": st.sampled_from([None, "F", "M", "X", "1", "01", "0.50", "true", "2020-02-29", "2021-01-01 10:00:00"]),
    "flag": st.sampled_from([None, True, False]),
    "day": st.sampled_from([None, *(datetime(2020, 2, day, hour) for day in (28, 29) for hour in (0, 0, 0, 9))]),
}


def by_pandas(values: Values) -> pa.Array:
    """Doubles of whole numbers with a missing one, no type where nobody has a value, timestamps for every day."""
    return pa.Table.from_pandas(pd.DataFrame({"x": values}), preserve_index=False)["x"].combine_chunks()


def by_value(values: Values) -> pa.Array:
    """The type that all values together need: dates where none has an hour, decimals of the longest scale."""
    days = all(each is None or (isinstance(each, datetime) and not each.hour) for each in values)
    return pa.array([each and each.date() for each in values] if days else values)


def in_doubles(values: Values) -> pa.Array:
    """Doubles with NaN where nobody has a value, as pandas long did it, and dictionaries of texts."""
    if all(each is None for each in values):
        return pa.array([float("nan")] * len(values))
    array = by_value(values)
    if pa.types.is_string(array.type):
        return array.dictionary_encode()
    return array.cast(pa.float64()) if pa.types.is_integer(array.type) and None in values else array


def in_a_zone(values: Values) -> pa.Array:
    """Timestamps in UTC, in the widest unit that holds them."""
    array = by_pandas(values)
    return array.cast(pa.timestamp("ns", "UTC")) if pa.types.is_timestamp(array.type) else array


WRITERS: tuple[Callable[[Values], pa.Array], ...] = (by_pandas, by_value, in_doubles, in_a_zone)
PAIRS = st.sampled_from(sorted(FAMILIES)).flatmap(
    lambda family: st.tuples(
        st.lists(FAMILIES[family], min_size=1, max_size=9), FAMILIES[family], st.sampled_from(WRITERS)
    )
)
"""The rows that both tables have, the row that one has besides, and who writes them."""


def distance(one: Sequence[Any], other: Sequence[Any]) -> int:
    """The L1 distance of two histograms."""
    left, right = Counter(one), Counter(other)
    return (left - right).total() + (right - left).total()


def rows_of(reading: Reading, column: Column, select: str | None = None, **types: ValueType) -> list[Any]:
    """Read a column as ingest does; without a select its codes, with one the rows that it gives."""
    contract, outputs = contract_of(column), ["x"]
    if select is not None:
        outputs = [item["alias"] or "x" for item in select_tree(select)["select_list"]]
        types = types_of(select_tree(select), types, contract, date_column=None)[0]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        explain = explanation(reading, select, Path("/nowhere"))
        given: Any = {
            "types": types,
            "expected": outputs,
            "explain": explain,
            "advance": lambda fraction: None,
            "into": "raw",
        }
        deliver(connection, reading, select=select, **given)
        if select is None:
            return connection.execute(encode_select(contract, columns_present=["x"], relation="raw")).fetchall()
        return connection.execute("FROM raw").fetchall()


def in_a_file(folder: Path, array: pa.Array) -> Reading:
    pq.write_table(pa.table([array], names=["x"]), folder / "x.parquet")
    return read_parquet(folder / "x.parquet")


def in_two_files(
    folder: Path, values: Values, writer: Callable[[Values], pa.Array], column: Column, **given: Any
) -> Reading:
    """The first row is in a file of its own, whose writer knows of no other row."""
    for name, part in (("1", values[:1]), ("2", values[1:])):
        table = pa.table([writer(part)], names=["x"]).replace_schema_metadata({"file": name})
        pq.write_table(table, folder / f"{name}.parquet")
    source = Source(path=folder, files="parquet", **given)
    return read_parts(folder, parts_of(folder, "parquet"), source, contract_of(column))


def in_csv(folder: Path, values: Values) -> Reading:
    """As pandas writes it; a second column, since an empty line is no row."""
    buffer = io.StringIO()
    pd.DataFrame({"x": values, "y": 1}).to_csv(buffer, index=False)
    (folder / "x.csv").write_text(buffer.getvalue())
    return read_csv(folder / "x.csv", delimiter=None, expected=["x"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("neighbours")


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=6, deadline=None)
@given(pair=PAIRS)
def test_one_row_changes_one_code_whatever_it_makes_of_the_type(folder: Path, name: str, pair: Any):
    """One file, and a folder in which the row lies with others or alone; nothing is refused."""
    values, extra, writer = pair
    column = COLUMNS[name]
    here, there = (rows_of(in_a_file(folder, writer(each)), column) for each in (values, [*values, extra]))
    assert distance(here, there) == 1
    inside = folder / "files"
    inside.mkdir(exist_ok=True)
    assert rows_of(in_two_files(inside, [extra, *values], writer, column), column) == [there[-1], *here]
    turned = [*values[1:], extra]
    assert distance(rows_of(in_two_files(inside, [values[0], *turned], writer, column), column), here) == 1


EXPRESSIONS: dict[ValueType, tuple[str, ...]] = {
    "text": ("upper(x)", "x || '-'", "CASE WHEN x = '1.0' OR x = '01' THEN 'one' END", "TRY_CAST(x AS DOUBLE) / 7"),
    "id": ("upper(x)", "x || '-'", "CASE WHEN x = '01' THEN 'one' END"),
    "number": ("x // 2", "CAST(x AS VARCHAR)", "x & 1", "CAST(x AS INTEGER)", "concat(x, 'a')", "x IN (1, '2')"),
    "flag": ("CAST(x AS VARCHAR)", "CASE WHEN x THEN 'y' ELSE 'n' END", "x IS NULL"),
    "day": ("CAST(x AS VARCHAR)", "year(x)", "x - DATE '2020-01-01'", "CAST(x AS VARCHAR) = '2020-02-29'"),
    "moment": ("CAST(x AS VARCHAR)", "hour(x)", "x < TIMESTAMP '2020-02-28 08:00:00'", "CAST(x AS DATE)"),
    "numbers": ("x IS NULL", "length(x)"),
}
CONDITIONS = (
    "x IS NULL OR CAST(x AS VARCHAR) <> 'X'",
    "CAST(x AS DOUBLE) < 20",
    "x IS NOT NULL",
    "CAST('a' AS INT) = 1",
)


@pytest.mark.long
@pytest.mark.parametrize("kind", VALUE_TYPES)
@settings(max_examples=10, deadline=None)
@given(pair=PAIRS, condition=st.sampled_from(CONDITIONS), form=st.sampled_from(["file", "files", "csv"]))
def test_behind_a_select_one_row_changes_one_row(folder: Path, kind: ValueType, pair: Any, condition: str, form: str):
    """Each type, over values of each kind, in expressions and in the condition; none of them is an error."""
    values, extra, writer = pair
    outputs = ", ".join(f"{each} AS o{place}" for place, each in enumerate(EXPRESSIONS[kind]))
    select = f"SELECT {outputs} FROM source" + (f" WHERE {condition}" if kind != "numbers" else "")
    inside = folder / "behind"
    inside.mkdir(exist_ok=True)
    found = []
    for each in (values, [*values, extra]):
        if form == "files" and len(each) > 1:
            reading = in_two_files(inside, each, writer, COLUMNS["words"], select=select, types={"x": kind})
        else:
            reading = in_csv(folder, each) if form == "csv" else in_a_file(folder, writer(each))
        found.append(rows_of(reading, COLUMNS["words"], select, x=kind))
    assert distance(*found) <= 1


COMMA = column("decimal", "number", decimal=",", bounds=[0, 10], bins={"width": "0.5"})
GROUPED = column("decimal", "number", decimal=",", grouping=".", bounds=[0, 10000], bins={"width": 500})
GERMAN = column("date", "date", format="%d.%m.%Y", bounds=["2020-01-01", "2024-12-31"], granularity="year")
TOKYO = column("date", "date", time_zone="Asia/Tokyo", bounds=["2020-01-01", "2024-12-31"], granularity="year")
LATE = datetime(2021, 12, 31, 23, 30, tzinfo=UTC)
MIXED: dict[str, tuple[Column, list[Any], Any]] = {
    "decimal comma": (COMMA, [1.5, 2.5, 3.5], "1,5"),
    "groups of digits": (GROUPED, [1.234, 2345.678], "1.234,5"),
    "german days": (GERMAN, [date(2021, 1, 1), date(2023, 5, 6)], "31.12.2024"),
    "instants": (TOKYO, [LATE, LATE], "2021-12-31 23:30:00"),
    "texts beside an instant": (TOKYO, ["2021-12-31 23:30:00", "2020-01-01 10:00Z"], LATE),
    "words beside an instant": (DATES["listed texts"], ["2020-02-29", "no day"], LATE),
}


def codes_behind(reading: Reading, column: Column, select: str | None, types: Any) -> list[Any]:
    """Read a column as ingest does; its codes, behind the select if there is one."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        how: Any = {"types": types, "expected": ["x"], "advance": lambda _: None, "into": "raw"}
        deliver(connection, reading, select=select, explain=explanation(reading, select, Path("/nowhere")), **how)
        codes = encode_select(contract_of(column), columns_present=["x"], relation="raw")
        return connection.execute(codes).fetchall()


@pytest.mark.parametrize("selected", [False, True])
@pytest.mark.parametrize("name", MIXED)
def test_one_person_whose_file_writes_texts_changes_no_other_code(tmp_path: Path, name: str, selected: bool):
    """A declared notation or zone: beside one text, or one instant, the values of all other files are what they were.

    With a select the column is also computed with, as the type that the contract's has; it is handed on all the same.
    """
    column, values, extra = MIXED[name]
    select = "SELECT x FROM source WHERE x IS NOT NULL OR true" if selected else None
    found = []
    for person in (None, extra):
        given: dict[str, Any] = {} if select is None else {"select": select}
        reading = in_two_files(tmp_path, [person, *values], pa.array, column, **given)
        types = Source(path=tmp_path, files="parquet", **given).select_types(contract_of(column))[0]
        found.append(codes_behind(reading, column, select, types))
    assert found[0][1:] == found[1][1:]
    assert found[0][0] != found[1][0]


@pytest.mark.parametrize("kind", ["text", "day", "moment"])
def test_a_select_sees_each_file_s_values_as_its_types_say(tmp_path: Path, kind: ValueType):
    """The column has a notation, too, by which it is handed on; one person's text changes nothing of what is kept."""
    select, found = "SELECT x FROM source WHERE CAST(x AS VARCHAR) > '2020-12-31 12:00:00'", []
    days = [datetime(2021, 1, 1, 9), datetime(2020, 12, 31, 13)]
    for person in (None, "31.12.1999"):
        reading = in_two_files(tmp_path, [person, *days], pa.array, GERMAN, select=select, types={"x": kind})
        found.append(len(rows_of(reading, GERMAN, select, x=kind)))
    kept = 1 if kind == "day" else 2
    assert found == [kept, kept + (kind == "text")]


@pytest.mark.parametrize("micros", [2**63 - 2, -(2**63) + 10**9])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo", "America/Los_Angeles"])
def test_no_instant_stops_the_reading_however_far_it_is(tmp_path: Path, micros: int, zone: str | None):
    keys = {} if zone is None else {"time_zone": zone}
    column_ = column("date", "date", **keys, bounds=["2020-01-01", "2024-12-31"], granularity="year")
    array = pa.array([int(LATE.timestamp()) * 10**6, micros], pa.int64()).cast(pa.timestamp("us", "UTC"))
    assert rows_of(in_a_file(tmp_path, array), column_)[1] == ((4,) if micros > 0 else (0,))
    assert len(rows_of(in_a_file(tmp_path, array), column_, "SELECT hour(x) AS h FROM source", x="moment")) == 2


def test_the_property_finds_a_select_that_sees_stored_types():
    """The wrong case: one moment with an hour makes moments of a thousand days, and the condition means another."""
    days, kept = [datetime(2021, 1, 1)] * 1000, []
    for values in (days, [*days, datetime(2021, 1, 1, 9)]):
        with duckdb.connect() as connection:
            connection.register("source", pa.table([by_value(values)], names=["x"]))
            sql = "FROM source WHERE CAST(x AS VARCHAR) = '2021-01-01'"
            kept.append(connection.execute(sql).fetchall())
    assert distance(*kept) == 1000
