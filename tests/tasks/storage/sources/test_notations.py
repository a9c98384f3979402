"""Declared notations through the reading of a source: every form gives the codes of the usual notation."""

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from html import unescape
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from console.check import print_misfits
from contracts.contract.column import Column
from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.domains.notation import FORMATS
from contracts.errors import GateBroken
from contracts.periods.time_blocks import time_block
from contracts.release.spec import Source, load_spec
from contracts.release.spec_checks import check_spec
from tasks.ingest import ingest
from tasks.storage.sources.days import SourceDays
from tasks.storage.sources.files import read_duckdb, read_parquet
from tasks.storage.sources.folder import parts_of
from tasks.storage.sources.source import read_parts
from tasks.validation.misfits import ColumnMisfits, Misfits, misfits, misfits_page, to_json
from tests.contracts.samples import SPEC, column, contract_of, loaded, replaced, write
from tests.tasks.intake import KEY, make_contract, take_in, write_csv
from tests.tasks.storage.postgres_server import PostgresServer
from tests.tasks.storage.sources.test_storage_neighbours import COLUMNS, COMMA, LATE, TOKYO, codes_behind, rows_of

PLAIN = ("34,F,10.5,2021-03-01", "17,M,700,2020-01-01", "?,F,,2024-12-31", "120,X,12.5,1999-01-01", "5,F,1234.5,x")
GERMAN = {
    "age": ["34", "17", "?", "120", "5,0"],
    "sex": ["F", "M", "F", "X", "F"],
    "wage": ["10,5", "700", None, " 12,50 ", "1.234,5"],
    "since": ["01.03.2021", "1.1.2020", "31.12.2024 23:59", "1.1.1999", "31.02.2024"],
}
SELECT = "SELECT age, upper(sex) AS sex, wage, since FROM source WHERE sex IS NOT NULL"
TYPES = {"sex": "text"}


def german(folder: Path, *more: tuple[str, str]) -> Contract:
    """The contract whose numbers and days are written as in Germany."""
    make_contract(folder)
    path = folder / "people.odcs.yaml"
    marks = [(f"kind: {kind}\n", f'kind: {kind}\n              decimal: ","\n') for kind in ("integer", "decimal")]
    grouped = ("kind: decimal\n", 'kind: decimal\n              grouping: "."\n')
    form = ("kind: date\n", 'kind: date\n              format: "%d.%m.%Y"\n')
    path.write_text(replaced(path.read_text(), *marks, grouped, form, *more))
    return load_contract(path)


def codes(source: Source, contract: Contract, folder: Path, days: SourceDays | None = None) -> list[tuple[int, ...]]:
    folder.mkdir(exist_ok=True)
    table = ingest(source, contract, folder=folder / "run", key=KEY, memory_limit="256MB", days=days)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return connection.execute("SELECT * FROM codes").fetchall()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, ...]]:
    """The codes of the same rows in the usual notation."""
    folder = tmp_path_factory.mktemp("plain")
    return codes(write_csv(folder, *PLAIN), make_contract(folder), folder)


def _csv(folder: Path, name: str = "people.csv", rows: slice = slice(None)) -> Path:
    lines = ["age;sex;wage;since"]
    for row in list(zip(*GERMAN.values(), strict=True))[rows]:
        lines.append(";".join("" if value is None else value for value in row))
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def _parquet(folder: Path) -> Source:
    pq.write_table(pa.table(GERMAN), folder / "people.parquet")
    return Source(path=folder / "people.parquet")


def _folder(folder: Path) -> Source:
    (folder / "parts").mkdir()
    _csv(folder / "parts", "a.csv", slice(0, 2))
    _csv(folder / "parts", "b.csv", slice(2, None))
    return Source(path=folder / "parts", files="csv", delimiter=";")


def _duckdb(folder: Path) -> Source:
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.register("given", pa.table(GERMAN))
        connection.execute("CREATE TABLE people AS FROM given")
    return Source(path=folder / "people.duckdb", table="people")


FORMS: dict[str, Callable[[Path], Source]] = {
    "csv": lambda folder: Source(path=_csv(folder), delimiter=";"),
    "csv behind a select": lambda folder: Source(path=_csv(folder), delimiter=";", select=SELECT, types=TYPES),
    "parquet": _parquet,
    "parquet behind a select": lambda folder: _parquet(folder).model_copy(update={"select": SELECT, "types": TYPES}),
    "folder": _folder,
    "duckdb": _duckdb,
}


@pytest.mark.parametrize("form", FORMS)
def test_texts_of_the_notation_get_the_codes_of_the_usual_one(
    tmp_path: Path, expected: list[tuple[int, ...]], form: str
):
    assert codes(FORMS[form](tmp_path), german(tmp_path), tmp_path / "in") == expected


def test_stored_values_are_what_they_are_whatever_the_notation(tmp_path: Path, expected: list[tuple[int, ...]]):
    """Numbers and days of a typed file under the German contract."""
    typed = "age::DOUBLE AS age, sex, wage::DECIMAL(9, 2) AS wage, since::TIMESTAMP AS since"
    csv = write_csv(tmp_path, *(row.replace("?", "").replace(",x", ",") for row in PLAIN))
    read = f"SELECT {typed} FROM read_csv('{csv.path}', all_varchar = true)"
    duckdb.sql(f"COPY ({read}) TO '{tmp_path}/typed.parquet'")
    assert codes(Source(path=tmp_path / "typed.parquet"), german(tmp_path), tmp_path / "in") == expected


def test_texts_of_postgresql_are_read_by_the_notation(
    tmp_path: Path, expected: list[tuple[int, ...]], postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PGUSER", "postgres")
    rows = ", ".join(
        "(" + ", ".join("NULL" if value is None else f"'{value}'" for value in row) + ")"
        for row in zip(*GERMAN.values(), strict=True)
    )
    database = postgres.database(
        "CREATE TABLE people (age text, sex text, wage varchar(9), since text)", f"INSERT INTO people VALUES {rows}"
    )
    assert codes(postgres.source(database), german(tmp_path), tmp_path / "in") == expected


def test_instants_of_postgresql_are_of_the_day_of_the_declared_zone(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PGUSER", "postgres")
    table = (
        "CREATE TABLE people (age int, sex text, wage int, since timestamptz)",
        "INSERT INTO people VALUES (34, 'F', 1, '2020-12-31 23:30+00'), (34, 'F', 1, '2020-12-31 18:30-05')",
    )
    source = postgres.source(postgres.database(*table))
    zone = ("kind: date\n", "kind: date\n              time_zone: Europe/Berlin\n")
    utc = codes(source, make_contract(tmp_path), tmp_path / "utc")
    make_contract(tmp_path)
    path = tmp_path / "people.odcs.yaml"
    path.write_text(replaced(path.read_text(), zone))
    berlin = codes(source, load_contract(path), tmp_path / "berlin")
    assert [row[3] for row in utc] == [0, 0]
    assert [row[3] for row in berlin] == [1, 1]


def test_numbers_among_texts_of_sqlite_are_refused_in_the_plan(tmp_path: Path):
    """SQLite's 1.5 arrives as a text: by a decimal comma it would be no number."""
    marked = ("kind: integer\n", 'kind: integer\n              decimal: ","\n')
    text = replaced(SPEC, ("path: people.csv", "path: people.sqlite, table: people"))
    (finding,) = check_spec(load_spec(write(tmp_path, "people.yaml", text)), loaded(tmp_path, marked))
    assert "SQLite" in finding.found
    assert "by `select:`" in finding.remedy


# --- periods ------------------------------------------------------------------------------------------------------
def test_a_period_takes_the_rows_whose_days_are_written_so(tmp_path: Path):
    days = SourceDays("since", time_block("2021-Q1"))
    assert len(codes(FORMS["csv"](tmp_path), german(tmp_path), tmp_path / "in", days)) == 1


def test_a_period_takes_instants_by_the_declared_zone_and_refuses_them_without_one(tmp_path: Path):
    instants = [datetime(2020, 12, 31, hour, 30) for hour in (22, 23)]
    columns: dict[str, Any] = {"age": [1, 1], "sex": ["F", "F"], "wage": [1, 1]}
    pq.write_table(
        pa.table({**columns, "since": pa.array(instants, pa.timestamp("us", "UTC"))}), tmp_path / "people.parquet"
    )
    source, days = Source(path=tmp_path / "people.parquet"), SourceDays("since", time_block("2021-Q1"))
    with pytest.raises(GateBroken, match="time_zone"):
        codes(source, make_contract(tmp_path), tmp_path / "none", days)
    path = tmp_path / "people.odcs.yaml"
    path.write_text(
        replaced(path.read_text(), ("kind: date\n", "kind: date\n              time_zone: Europe/Berlin\n"))
    )
    assert len(codes(source, load_contract(path), tmp_path / "in", days)) == 1


def test_a_source_is_bound_with_the_reading_of_its_day(tmp_path: Path):
    """By another notation a row is of another day, and each would be charged where the other is not looked at."""
    source = Source(path=tmp_path / "a.csv", by="x")
    days = {"bounds": ["2020-01-01", "2024-12-31"], "granularity": "day"}
    names = [
        source.bound_name(contract_of(column("date", "date", **days, **keys)))
        for keys in ({}, {"format": "%d/%m/%Y"}, {"format": "%m/%d/%Y"}, {"time_zone": "Asia/Tokyo"})
    ]
    assert [name.rpartition(" [")[2] for name in names] == [
        "by x]",
        "by x as %d/%m/%Y]",
        "by x as %m/%d/%Y]",
        "by x in Asia/Tokyo]",
    ]
    whole = source.model_copy(update={"by": None})
    assert whole.bound_name(contract_of(column("date", "date", **days))) == source.name


# --- hints --------------------------------------------------------------------------------------------------------
LOOKS = [
    (["1,5", "0,25", "1"], {"kind": "decimal", "logical_type": "number"}, ('decimal: ","',)),
    (["1.234,5", "1,5"], {"kind": "decimal", "logical_type": "number"}, ('decimal: ",", grouping: "."',)),
    (["1,234", "2,345"], {"kind": "integer", "logical_type": "integer"}, ('grouping: ","',)),
    (["1,234", "0.5"], {"kind": "decimal", "logical_type": "number"}, ('decimal: ","', 'grouping: ","')),
    (
        ["1.5", "2.5"],
        {"kind": "decimal", "logical_type": "number", "decimal": ","},
        ("no `decimal:` and no `grouping:`",),
    ),
    (["a", "b", "1,5"], {"kind": "decimal", "logical_type": "number"}, ()),
    (["31.12.2024", "1.1.2024"], {"kind": "date", "logical_type": "date"}, ('format: "%d.%m.%Y"',)),
    (["3/4/2024"], {"kind": "date", "logical_type": "date"}, ('format: "%d/%m/%Y"', 'format: "%m/%d/%Y"')),
    (["12/31/2024"], {"kind": "date", "logical_type": "date"}, ('format: "%m/%d/%Y"',)),
    (["20241231"], {"kind": "date", "logical_type": "date"}, ('format: "%Y%m%d"',)),
]
BOUNDS: dict[str, dict[str, Any]] = {
    "decimal": {"bounds": [0, 9000], "bins": {"width": 1000}},
    "integer": {"bounds": [0, 9000], "bins": {"width": 1000}},
    "date": {"bounds": ["2020-01-01", "2024-12-31"], "granularity": "year"},
}


@pytest.mark.parametrize(("values", "keys", "hint"), LOOKS)
def test_the_look_says_which_notation_values_look_like(
    tmp_path: Path, values: list[str], keys: dict[str, Any], hint: tuple[str, ...]
):
    """In private only; two that are as good are both named."""
    contract = contract_of(column(**{**keys, **BOUNDS[keys["kind"]]}))
    (tmp_path / "a.csv").write_text("x\n" + "".join(f'"{value}"\n' for value in values))
    table = take_in(Source(path=tmp_path / "a.csv"), contract, tmp_path)
    found = misfits(table, contract, folder=tmp_path / "run", memory_limit="256MB")
    assert found.columns[0].notations == hint
    assert "notations" not in repr(found.columns[0])
    assert replace(found.columns[0], notations=()).share == found.columns[0].share


def test_the_private_pages_and_the_terminal_say_it(tmp_path: Path):
    """What is escaped on the page is plain on the terminal."""
    looks = ('format: "%d/%m/%Y"', 'format: "%m/%d/%Y"')
    found = Misfits(10, (ColumnMisfits("since", 10, 10, 0, 0, "(null)", "(null)", False, looks),), ())
    page = unescape(misfits_page(found, release="r", share=Fraction(1, 100)))
    assert "that do not fit look like" in page
    assert all(look in page for look in looks)
    assert to_json(found, Fraction(1, 100))["columns"][0]["looks_like"] == list(looks)
    console = Console(record=True, width=200, file=io.StringIO())
    print_misfits(console, found, Fraction(1, 100), tmp_path / "page")
    assert f"looks like {' or '.join(looks)}" in console.export_text()


def test_every_format_of_a_hint_is_one_that_a_contract_takes():
    for form in FORMATS:
        assert column("date", "date", **BOUNDS["date"], format=form).domain.format == form


NESTED = {"a list": pa.array([["F"]]), "a record": pa.array([{"a": "F"}]), "a list of texts": pa.array([["1,5"]])}
FLAT: dict[str, tuple[Column, list[Any]]] = {
    "words": (COLUMNS["words"], ["F", "M", "F"]),
    "texts as numbers": (COMMA, ["1,5", "2,5"]),
    "numbers": (COMMA, [1.5, 2.5]),
    "days": (TOKYO, ["2021-12-31", "2020-01-01"]),
    "instants": (TOKYO, [LATE, LATE]),
}


@pytest.mark.parametrize("select", ["SELECT x FROM source", "SELECT x FROM source WHERE x IS NOT NULL OR true"])
@pytest.mark.parametrize(
    ("name", "nested"), [(n, k) for n in FLAT for k in NESTED if (n, k) != ("instants", "a record")]
)
def test_behind_a_select_one_file_of_lists_or_records_changes_no_other_code(
    tmp_path: Path, name: str, nested: str, select: str
):
    """No gate is at the types behind a select, so they are missing values; a record beside
    instants is the gate on files that are alike."""
    column, values = FLAT[name]
    source = Source(path=tmp_path, files="parquet", select=select)
    found = []
    for first in (pa.nulls(1), NESTED[nested]):
        for file, array in (("1", first), ("2", pa.array(values))):
            table = pa.table([array], names=["x"]).replace_schema_metadata({"file": file})
            pq.write_table(table, tmp_path / f"{file}.parquet")
        reading = read_parts(tmp_path, parts_of(tmp_path, "parquet"), source, contract_of(column))
        found.append(codes_behind(reading, column, select, source.select_types(contract_of(column))[0]))
    assert found[0] == found[1]
    assert len(set(found[0])) > 1


@pytest.mark.parametrize("select", [None, "SELECT x FROM source"])
@pytest.mark.parametrize("far", [2**62, -(2**62)])
@pytest.mark.parametrize("form", ["file", "folder"])
def test_an_instant_that_duckdb_cannot_read_is_the_gate_on_the_last_row(
    tmp_path: Path, form: str, far: int, select: str | None
):
    """Parquet's milliseconds reach 292 million years, and DuckDB decodes them before any expression sees them."""
    for file in ("1", "2"):
        array = pa.array([0, far if file == "2" else 0], pa.int64()).cast(pa.timestamp("ms", "UTC"))
        table = pa.table([array], names=["x"]).replace_schema_metadata({"file": file})
        pq.write_table(table, tmp_path / f"{file}.parquet")
    if form == "file":
        reading = read_parquet(tmp_path / "2.parquet")
    else:
        source = Source(path=tmp_path, files="parquet", select=select)
        reading = read_parts(tmp_path, parts_of(tmp_path, "parquet"), source, contract_of(TOKYO))
    with pytest.raises(GateBroken, match="a timestamp that does not fit into microseconds") as raised:
        rows_of(reading, TOKYO, select)
    assert str(far) not in str(raised.value)


@pytest.mark.parametrize("kind", ["TIMESTAMP_S", "TIMESTAMP_MS"])
def test_a_far_moment_of_a_duckdb_table_is_missing(tmp_path: Path, kind: str):
    path, unit = tmp_path / "x.duckdb", {"TIMESTAMP_S": "s", "TIMESTAMP_MS": "ms"}[kind]
    stored = pa.table({"x": pa.array([0, 2**62, -(2**62)]).cast(pa.timestamp(unit))})
    with duckdb.connect(str(path)) as connection:
        connection.register("given", stored)
        connection.execute("CREATE TABLE t AS FROM given")
        assert connection.execute("DESCRIBE t").fetchall()[0][1] == kind
    reading = read_duckdb(path, table="t")
    codes = rows_of(reading, TOKYO)
    assert codes[0] != codes[1] == codes[2]
    assert rows_of(reading, TOKYO, "SELECT x FROM source WHERE year(x) = 1970", x="moment") != []
