"""Ingest: the snapshot, its keyed hash, resuming, and what interruptions and full disks leave behind."""

import gzip
import hashlib
import hmac
import json
import pickle
import sqlite3
import stat
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from contracts.contract.odcs import load_contract
from contracts.domains.value_sql import identifier
from contracts.errors import SudareError
from contracts.release.spec import Source
from tasks.storage.snapshot import snapshot
from tasks.storage.snapshot.snapshot import ROW, SNAPSHOT, keyed_hash, subkey
from tests.tasks.intake import HEADER, KEY, ROWS, contents, large_csv, make_contract, take_in, write_csv

NAMES = HEADER.split(",")


@pytest.mark.usefixtures("every_row_kept")
def test_a_csv_becomes_raw_texts_and_codes_in_its_order(tmp_path: Path):
    table = take_in(write_csv(tmp_path, *ROWS), make_contract(tmp_path), tmp_path)
    assert contents(table.path, "raw") == [tuple(value or None for value in row.split(",")) for row in ROWS]
    assert contents(table.path, "codes") == [(3, 0, 0, 1), (1, 1, 2, 0), (10, 0, 3, 4), (9, 2, 1, 0)]


@pytest.mark.long
@pytest.mark.usefixtures("every_row_kept")
def test_a_large_file_read_by_several_threads_keeps_its_order(tmp_path: Path):
    table = take_in(large_csv(tmp_path), make_contract(tmp_path), tmp_path)
    moved = f"(SELECT count(*) FROM raw WHERE age::BIGINT <> rowid % 99 OR rowid <> {identifier(ROW)})"
    assert contents(table.path, moved) == [(0,)]


def test_only_the_owner_can_look_at_the_snapshot(tmp_path: Path):
    table = take_in(write_csv(tmp_path, *ROWS), make_contract(tmp_path), tmp_path)
    assert stat.S_IMODE(table.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(table.path.parent.stat().st_mode) == 0o700
    assert [path.name for path in table.path.parent.iterdir()] == [SNAPSHOT]


def test_the_reference_shows_and_pickles_nothing(tmp_path: Path):
    table = take_in(write_csv(tmp_path, *ROWS), make_contract(tmp_path), tmp_path)
    assert repr(table) == f"PrivateTable({table.keyed_hash[:12]}…)"
    with pytest.raises(TypeError):
        pickle.dumps(table)


def as_csv(folder: Path) -> Source:
    return write_csv(folder, *ROWS)


def as_shuffled_csv(folder: Path) -> Source:
    path = folder / "other.csv"
    duckdb.read_csv(str(as_csv(folder).path), all_varchar=True).select("since, wage, age, sex").write_csv(
        str(path), sep="\t"
    )
    return Source(path=path, delimiter="\t")


def as_csv_of_windows(folder: Path) -> Source:
    path = folder / "windows.csv"
    path.write_bytes(b"\xef\xbb\xbf" + as_csv(folder).path.read_bytes().replace(b"\n", b"\r\n"))
    return Source(path=path)


def as_csv_in_quotes(folder: Path) -> Source:
    path = folder / "quoted.csv"
    rows = [HEADER, *ROWS]
    path.write_text("\n\n".join('"' + row.replace(",", '","') + '"' for row in rows))
    return Source(path=path)


def as_gzip(folder: Path) -> Source:
    path = folder / "people.csv.gz"
    path.write_bytes(gzip.compress(as_csv(folder).path.read_bytes()))
    return Source(path=path)


def as_parquet(folder: Path) -> Source:
    path = folder / "people.parquet"
    duckdb.sql(typed(as_csv(folder).path)).write_parquet(str(path))
    return Source(path=path)


def as_duckdb(folder: Path) -> Source:
    path = folder / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA survey")
        connection.execute(f'CREATE TABLE survey."the people" AS {typed(as_csv(folder).path)}')
    return Source(path=path, table="survey.the people")


def as_sqlite(folder: Path) -> Source:
    path = folder / "people.sqlite"
    file = sqlite3.connect(path)
    file.execute('CREATE TABLE "the people" (age INTEGER, sex TEXT, wage REAL, since TEXT)')
    rows = [[value or None for value in row.split(",")] for row in ROWS]
    file.executemany('INSERT INTO "the people" VALUES (?, ?, ?, ?)', rows)
    file.commit()
    file.close()
    return Source(path=path, table="the people")


def typed(path: Path) -> str:
    return (
        "SELECT TRY_CAST(age AS INTEGER) AS age, sex, CAST(wage AS DOUBLE) AS wage, CAST(since AS DATE) AS since "
        f"FROM read_csv('{path}', all_varchar = true)"
    )


@pytest.mark.parametrize(
    "make", [as_shuffled_csv, as_csv_of_windows, as_csv_in_quotes, as_gzip, as_parquet, as_duckdb, as_sqlite]
)
def test_the_same_rows_give_the_same_codes_and_hash_in_every_format(tmp_path: Path, make: object):
    contract = make_contract(tmp_path)
    expected = take_in(as_csv(tmp_path), contract, tmp_path / "csv")
    table = take_in(make(tmp_path), contract, tmp_path / "other")  # type: ignore[operator]
    assert contents(table.path, "codes") == contents(expected.path, "codes")
    assert table.keyed_hash == expected.keyed_hash


@pytest.mark.usefixtures("every_row_kept")
def test_a_path_with_signs_of_patterns_and_quotes_means_one_file(tmp_path: Path):
    """DuckDB would read people1.csv for people[1].csv."""
    write_csv(tmp_path, *ROWS, name="people1.csv")
    source = write_csv(tmp_path, ROWS[0], name="people[1].csv")
    assert len(contents(take_in(source, make_contract(tmp_path), tmp_path).path, "raw")) == 1
    source = write_csv(tmp_path, *ROWS[:2], name="the people's *.csv")
    assert len(contents(take_in(source, make_contract(tmp_path), tmp_path).path, "raw")) == 2


@pytest.mark.usefixtures("every_row_kept")
def test_a_select_projects_filters_and_maps(tmp_path: Path):
    source = write_csv(tmp_path, *[f"{row},x" for row in ROWS], header="Age,sex,wage,since,town").model_copy(
        update={
            "select": "SELECT Age AS age, upper(sex) AS sex, wage, since FROM source WHERE sex = 'F'",
            "types": {"sex": "text"},
        }
    )
    table = take_in(source, make_contract(tmp_path), tmp_path)
    assert [row[1] for row in contents(table.path, "raw")] == ["F", "F"]


@pytest.mark.usefixtures("every_row_kept")
def test_a_select_works_on_batches_from_sqlite_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tasks.storage.sources.files.BATCH_ROWS", 2)
    source = as_sqlite(tmp_path).model_copy(update={"select": "SELECT * FROM source WHERE sex <> 'F'"})
    table = take_in(source, make_contract(tmp_path), tmp_path)
    assert [row[1] for row in contents(table.path, "raw")] == ["M", "X"]


@pytest.mark.usefixtures("every_row_kept")
def test_a_cast_that_fails_on_a_row_does_not_stop_the_run(tmp_path: Path):
    """Law 3: a release does not fail because of one person's row."""
    select = "SELECT CAST(age AS INTEGER) AS age, sex, wage, since FROM source"
    source = write_csv(tmp_path, *ROWS).model_copy(update={"select": select, "types": {"age": "text"}})
    ages = [row[0] for row in contents(take_in(source, make_contract(tmp_path), tmp_path).path, "raw")]
    assert ages == [34, 17, None, 120]


def test_no_row_stops_a_select_that_computes_with_it(tmp_path: Path):
    """A square that overflows is null, and the release goes on (law 3)."""
    select = "SELECT CAST(age AS INTEGER) * CAST(age AS INTEGER) AS age, sex, wage, since FROM source"
    hostile = "2147483647,F,2,2020-01-01"
    source = write_csv(tmp_path, *ROWS, hostile).model_copy(update={"select": select, "types": {"age": "text"}})
    assert len(contents(take_in(source, make_contract(tmp_path), tmp_path).path, "codes")) == 5


def test_no_value_that_duckdb_cannot_write_down_stops_the_encoding(tmp_path: Path):
    """The smallest timestamp has no text: in a column of categories it is one more misfit."""
    source = Source(path=tmp_path / "people.parquet", select="SELECT age, sex, wage, since FROM source")
    columns = "30 AS age, make_timestamp(-9223372036854775808) AS sex, 2 AS wage, DATE '2020-01-01' AS since"
    duckdb.sql(f"COPY (SELECT {columns}) TO '{source.path}'")
    assert len(contents(take_in(source, make_contract(tmp_path), tmp_path).path, "codes")) == 1


def test_whether_a_select_keeps_a_row_does_not_show(tmp_path: Path):
    select = "SELECT * FROM source WHERE sex = 'nobody'"
    table = take_in(
        write_csv(tmp_path, *ROWS).model_copy(update={"select": select}), make_contract(tmp_path), tmp_path
    )
    assert contents(table.path, "codes") == []


SELECTS_THAT_FOLLOWED_THE_TYPE = [
    "SELECT age, CASE WHEN CAST(code AS VARCHAR) = '1' THEN 'F' ELSE 'M' END AS sex, wage, since FROM source",
    "SELECT age, CASE 'c' || code WHEN 'c1' THEN 'F' ELSE 'M' END AS sex, wage, since FROM source",
    "SELECT code // 2 AS age, 'F' AS sex, wage, since FROM source",
    "SELECT code * 100 AS age, 'F' AS sex, wage, since FROM source WHERE code & 1 = 1",
    "SELECT age, 'F' AS sex, code / 2 AS wage, make_date(2020 + code, 1, 1) AS since FROM source",
]


@pytest.mark.long
@pytest.mark.parametrize("select", SELECTS_THAT_FOLLOWED_THE_TYPE)
def test_a_select_sees_one_type_of_numbers(tmp_path: Path, select: str):
    """Whole numbers, and the doubles, decimals and narrower integers that a writer may make of them for one row."""
    contract, seen = make_contract(tmp_path), {}
    for kind in ("TINYINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)", "HUGEINT", "DECIMAL(38,4)"):
        source = Source(path=tmp_path / "people.parquet", select=select, types={"code": "number"})
        row = f"30 AS age, code::{kind} AS code, 2.5 AS wage, DATE '2020-01-01' AS since"
        duckdb.sql(f"COPY (SELECT {row} FROM (VALUES (1), (2), (3), (NULL), (99)) t(code)) TO '{source.path}'")
        seen[kind] = contents(take_in(source, contract, tmp_path / kind).path, "codes")
    assert len({str(codes) for codes in seen.values()}) == 1, seen


def test_a_missing_value_that_makes_doubles_of_codes_changes_one_row(tmp_path: Path):
    """Pandas stores whole numbers with a missing one as doubles; the codes of all others stay."""
    make_contract(tmp_path)
    text = (tmp_path / "people.odcs.yaml").read_text()
    (tmp_path / "codes.yaml").write_text(text.replace("values: [F, M]", "values: ['1', '2']"))
    contract = load_contract(tmp_path / "codes.yaml")
    base = pd.DataFrame({"age": 34, "sex": [1, 2, 1, 1], "wage": 10.5, "since": pd.Timestamp("2021-03-01")})
    more = pd.concat([base, base.head(1).assign(sex=float("nan"))], ignore_index=True)
    assert [str(each["sex"].dtype) for each in (base, more)] == ["int64", "float64"]
    for form in ("parquet", "csv"):
        codes = []
        for frame in (base, more):
            path = tmp_path / f"people.{form}"
            frame.to_parquet(path) if form == "parquet" else frame.to_csv(path, index=False)
            codes.append(contents(take_in(Source(path=path), contract, tmp_path / form).path, "codes"))
        assert codes[1] == [*codes[0], (3, 2, 0, 1)]


@pytest.mark.usefixtures("every_row_kept")
def test_files_that_store_a_column_differently_round_no_number(tmp_path: Path):
    """Among 4-byte floats DuckDB would make 16,777,216 of 16,777,217; a decimal's scale is another file's affair."""
    folder = tmp_path / "files"
    folder.mkdir()
    rows = "30 AS age, 'F' AS sex, {}, DATE '2020-01-01' AS since"
    kinds = (
        "16777217::BIGINT",
        "0.5::FLOAT",
        "12.5::DECIMAL(38,30)",
        "99999999::HUGEINT",
        "12.5::DECIMAL(4,1)",
        "NULL",
    )
    for place, wage in enumerate(kinds):
        duckdb.sql(f"COPY (SELECT {rows.format(f'{wage} AS wage')}) TO '{folder}/{place}.parquet'")
    table = take_in(Source(path=folder, files="parquet"), make_contract(tmp_path), tmp_path)
    assert [row[2] for row in contents(table.path, "raw")] == [16777217, 0.5, 12.5, 99999999, 12.5, None]
    assert [row[2] for row in contents(table.path, "codes")] == [2, 0, 1, 2, 1, 3]


@pytest.mark.usefixtures("every_row_kept")
def test_the_id_column_is_bounded_and_not_encoded(tmp_path: Path):
    rows = [f"p{number % 3},{row}" for number, row in enumerate(ROWS * 3)]
    source = write_csv(tmp_path, *rows, header=f"person,{HEADER}")
    table = take_in(source, make_contract(tmp_path, rows_per_unit=2), tmp_path)
    people = [row[0] for row in contents(table.path, "raw")]
    assert sorted(people) == ["p0", "p0", "p1", "p1", "p2", "p2"]
    assert [len(row) for row in contents(table.path, "codes")] == [4] * 6


# The keyed hash


def by_hand(path: Path, digest: str, key: bytes) -> str:
    """A second derivation of the keyed hash, from the values in Python."""
    rows = contents(path, "codes")
    header = {"contract": digest, "columns": [[name, "UTINYINT"] for name in NAMES], "rows": len(rows)}
    outer = hmac.new(subkey(key, "table"), json.dumps(header).encode(), hashlib.sha256)
    for column in zip(*rows, strict=True):
        outer.update(hmac.digest(subkey(key, "columns"), bytes(column), "sha256"))  # type: ignore[arg-type]
    return outer.hexdigest()


def test_the_keyed_hash_is_the_documented_one(tmp_path: Path):
    contract = make_contract(tmp_path)
    table = take_in(write_csv(tmp_path, *ROWS), contract, tmp_path)
    assert table.keyed_hash == by_hand(table.path, contract.digest, KEY)


def test_the_keyed_hash_does_not_depend_on_threads_or_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    contract = make_contract(tmp_path)
    table = take_in(large_csv(tmp_path, 300_000), contract, tmp_path)
    for threads, rows in ((1, 1 << 20), (2, 7_777), (2, 1 << 20)):
        monkeypatch.setattr(snapshot, "HASH_ROWS", rows)
        with duckdb.connect(str(table.path), read_only=True, config={"threads": threads}) as connection:
            assert keyed_hash(connection, contract.digest, key=KEY) == table.keyed_hash


def test_the_keyed_hash_follows_order_values_key_and_contract(tmp_path: Path):
    contract = make_contract(tmp_path)
    sources = {
        "as it is": write_csv(tmp_path, *ROWS, name="a.csv"),
        "another order": write_csv(tmp_path, *reversed(ROWS), name="b.csv"),
        "a row less": write_csv(tmp_path, *ROWS[1:], name="c.csv"),
        "another value": write_csv(tmp_path, *ROWS[:3], "120,F,12.5,1999-01-01", name="d.csv"),
    }
    hashes = {take_in(source, contract, tmp_path).keyed_hash for source in sources.values()}
    hashes.add(take_in(sources["as it is"], contract, tmp_path, key=bytes(32)).keyed_hash)
    hashes.add(take_in(sources["as it is"], make_contract(tmp_path, gates=("nulls:age",)), tmp_path).keyed_hash)
    assert len(hashes) == 6


def test_a_short_key_is_refused(tmp_path: Path):
    with pytest.raises(SudareError, match="16 bytes"):
        take_in(write_csv(tmp_path, *ROWS), make_contract(tmp_path), tmp_path, key=bytes(16))
