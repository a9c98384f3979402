"""Ingest: the snapshot, its keyed hash, resuming, and what interruptions and full disks leave behind."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import pickle
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from contracts.contract.odcs import load_contract
from contracts.domains.value_sql import identifier
from contracts.errors import Refused, SudareError
from contracts.release.spec import Source
from tasks.ingest import ingest
from tasks.storage import progress
from tasks.storage.duckdb_session import connect, run
from tasks.storage.snapshot import snapshot
from tasks.storage.snapshot.intake import ROW
from tasks.storage.snapshot.snapshot import PARTIAL, SNAPSHOT, discard, keyed_hash, private_folder, subkey
from tests.tasks.intake import HEADER, KEY, ROWS, make_contract, take_in, write_csv

NAMES = HEADER.split(",")


def contents(path: Path, table: str) -> list[tuple[object, ...]]:
    columns = f"* EXCLUDE ({identifier(ROW)})" if table == "raw" else "*"
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(f"SELECT {columns} FROM {table}").fetchall()


def large_csv(folder: Path, rows: int = 600_000) -> Source:
    """A CSV whose reading takes a while; the wages do not compress."""
    path = folder / "large.csv"
    duckdb.sql(
        f"SELECT i % 99 AS age, 'F' AS sex, (hash(i) % 10000019) / 1e4 AS wage, '2021-01-01' AS since "
        f"FROM range({rows}) t(i)"
    ).write_csv(str(path))
    return Source(path=path)


@pytest.mark.usefixtures("every_row_kept")
def test_a_csv_becomes_raw_texts_and_codes_in_its_order(tmp_path: Path):
    table = take_in(write_csv(tmp_path, *ROWS), make_contract(tmp_path), tmp_path)
    assert contents(table.path, "raw") == [tuple(value or None for value in row.split(",")) for row in ROWS]
    assert contents(table.path, "codes") == [(3, 0, 0, 1), (1, 1, 2, 0), (10, 0, 3, 4), (9, 2, 1, 0)]


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
    monkeypatch.setattr("tasks.storage.sources.table_reader.BATCH_ROWS", 2)
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


# Resuming


def test_a_finished_snapshot_of_the_same_source_is_taken_up(tmp_path: Path):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    first = take_in(source, contract, tmp_path)
    inode = first.path.stat().st_ino
    assert take_in(source, contract, tmp_path) == first
    assert first.path.stat().st_ino == inode


@pytest.mark.usefixtures("every_row_kept")
def test_a_changed_source_is_read_again(tmp_path: Path):
    contract = make_contract(tmp_path)
    first = take_in(write_csv(tmp_path, *ROWS), contract, tmp_path)
    second = take_in(write_csv(tmp_path, *ROWS[::-1]), contract, tmp_path)
    assert second.keyed_hash != first.keyed_hash
    assert contents(second.path, "raw")[0][0] == "120"


@pytest.mark.usefixtures("every_row_kept")
def test_another_select_contract_or_key_is_not_served_by_the_old_snapshot(tmp_path: Path):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    inodes = {take_in(source, contract, tmp_path).path.stat().st_ino}
    selecting = source.model_copy(update={"select": "SELECT * FROM source WHERE sex = 'F'"})
    inodes.add(take_in(selecting, contract, tmp_path).path.stat().st_ino)
    assert len(contents(tmp_path / "run" / SNAPSHOT, "raw")) == 2
    other = make_contract(tmp_path, gates=("nulls:age",))
    assert take_in(source, other, tmp_path).contract_digest == other.digest
    first = take_in(source, other, tmp_path).keyed_hash
    assert take_in(source, other, tmp_path, key=bytes(32)).keyed_hash != first


def test_a_damaged_or_altered_snapshot_is_made_again(tmp_path: Path):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    table = take_in(source, contract, tmp_path)
    with duckdb.connect(str(table.path)) as connection:
        connection.execute("UPDATE codes SET age = 0")
    assert take_in(source, contract, tmp_path) == table
    assert contents(table.path, "codes")[0][0] == 3
    table.path.write_bytes(b"no database")
    assert take_in(source, contract, tmp_path) == table
    assert len(contents(table.path, "codes")) == 4


@pytest.mark.usefixtures("every_row_kept")
def test_what_a_killed_ingest_left_is_not_taken_for_a_snapshot(tmp_path: Path):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    folder = tmp_path / "run"
    (folder / "spill").mkdir(parents=True)
    for name in (PARTIAL, f"{PARTIAL}.wal", "spill/left"):
        (folder / name).write_bytes(b"left")
    assert len(contents(take_in(source, contract, tmp_path).path, "raw")) == 4
    assert [path.name for path in folder.iterdir()] == [SNAPSHOT]
    discard(folder)
    assert not list(folder.iterdir())


def test_a_source_that_changes_meanwhile_is_refused(tmp_path: Path):
    source, contract = large_csv(tmp_path), make_contract(tmp_path)

    def write_more(fraction: float) -> None:
        with source.path.open("a") as file:
            file.write("1,F,2,2020-01-01\n")

    with watched(write_more), pytest.raises(Refused, match="a file that changed while it was read"):
        take_in(source, contract, tmp_path)
    assert not list((tmp_path / "run").iterdir())


def test_a_link_that_is_moved_meanwhile_is_refused(tmp_path: Path):
    """The people who pay are those of the file that was read, not of the one that the link names later."""
    source, contract = large_csv(tmp_path), make_contract(tmp_path)
    other = source.path.rename(tmp_path / "first.csv").with_name("second.csv")
    other.write_bytes((tmp_path / "first.csv").read_bytes())
    source.path.symlink_to("first.csv")

    def move(fraction: float) -> None:
        source.path.unlink()
        source.path.symlink_to("second.csv")

    with watched(move), pytest.raises(Refused, match="while it was read"):
        take_in(source, contract, tmp_path)
    assert not list((tmp_path / "run").iterdir())


# Interruptions, locks and full disks


@contextmanager
def watched(advance: object) -> Iterator[list[str]]:
    """Call `advance` with the fraction that a step reports, and note what begins and ends."""
    seen: list[str] = []

    class Watcher:
        def begin(self, name: str) -> Watcher:
            seen.append(name)
            return self

        def advance(self, fraction: float) -> None:
            advance(fraction)  # type: ignore[operator]

        def end(self, name: str, *, ok: bool) -> None:
            seen.append(f"{name} {'done' if ok else 'failed'}")

    progress.watch(Watcher())
    try:
        yield seen
    finally:
        progress.watch(None)


def test_the_progress_grows_from_nothing_to_all(tmp_path: Path):
    fractions: list[float] = []
    with watched(fractions.append) as seen:
        take_in(large_csv(tmp_path), make_contract(tmp_path), tmp_path)
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] < 0.7
    assert fractions[-1] == 1.0
    assert seen == ["ingest", "ingest done"]


@pytest.mark.parametrize("from_fraction", [0.0, 0.7, 0.9])
def test_ctrl_c_stops_the_ingest_and_leaves_nothing(tmp_path: Path, from_fraction: float):
    """While it reads, while it encodes, while it hashes."""

    def interrupt(fraction: float) -> None:
        if fraction >= from_fraction:
            signal.raise_signal(signal.SIGINT)

    source, contract = large_csv(tmp_path), make_contract(tmp_path)
    with watched(interrupt) as seen, pytest.raises(KeyboardInterrupt):
        take_in(source, contract, tmp_path)
    assert not list((tmp_path / "run").iterdir())
    assert seen == ["ingest", "ingest failed"]


def test_a_signal_inside_a_short_statement_is_a_keyboard_interrupt_too(tmp_path: Path):
    """DuckDB itself raises RuntimeError("Query interrupted")."""

    def interrupted() -> None:
        raise RuntimeError("Query interrupted")

    with connect(None, memory_limit="100MB", spill=tmp_path / "spill") as connection:
        with pytest.raises(KeyboardInterrupt):
            run(connection, interrupted, explain=lambda error: None)


def test_a_killed_ingest_leaves_no_finished_snapshot(tmp_path: Path):
    large_csv(tmp_path)
    make_contract(tmp_path)
    program = f"""
        import os, signal
        from pathlib import Path
        from contracts.contract.odcs import load_contract
        from contracts.release.spec import Source
        from tasks.storage import progress
        from tasks.ingest import ingest
        class Killer:
            def begin(self, name): return self
            def advance(self, fraction): os.kill(os.getpid(), signal.SIGKILL)
        progress.watch(Killer())
        folder = Path({str(tmp_path)!r})
        contract = load_contract(folder / "people.odcs.yaml")
        ingest(Source(path=folder / "large.csv"), contract, folder=folder / "run", key=bytes(32), memory_limit="1GB")
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "run" / PARTIAL).exists()
    assert not (tmp_path / "run" / SNAPSHOT).exists()


def test_a_full_disk_is_named_and_nothing_half_written_stays(tmp_path: Path):
    """A limit on the size of files stands for the full disk: writing fails in the same way."""
    source, contract = large_csv(tmp_path), make_contract(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        with pytest.raises(SudareError) as raised:
            take_in(source, contract, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert f"{tmp_path / 'run'}: writing the snapshot\n    found: no space left to write" in str(raised.value)
    assert raised.value.__context__ is None
    assert not list((tmp_path / "run").iterdir())


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "run").write_text("a file in the way")
    with pytest.raises(SudareError, match="run: making the run's folder"):
        take_in(write_csv(tmp_path, *ROWS), make_contract(tmp_path), tmp_path)


def test_a_second_ingest_into_the_same_folder_is_refused(tmp_path: Path):
    with private_folder(tmp_path / "run"):
        with pytest.raises(SudareError, match="another process is writing this snapshot"):
            take_in(write_csv(tmp_path, *ROWS), make_contract(tmp_path), tmp_path)


@pytest.mark.parametrize("limit", ["", "much", "-1GB"])
def test_a_memory_limit_that_means_nothing_is_refused(tmp_path: Path, limit: str):
    source, contract = write_csv(tmp_path, *ROWS), make_contract(tmp_path)
    with pytest.raises(Refused, match=r"ingest\.memory_limit"):
        ingest(source, contract, folder=tmp_path / "run", key=KEY, memory_limit=limit)


def wide_csv(folder: Path, rows: int) -> Source:
    """A CSV with 86 bytes a row that compress badly."""
    path = folder / "wide.csv"
    duckdb.sql(
        f"SELECT i % 99 AS age, sha256(i::VARCHAR) AS sex, i AS wage, '2021-01-01' AS since FROM range({rows}) t(i)"
    ).write_csv(str(path))
    return Source(path=path)


def test_a_table_larger_than_the_memory_is_worked_on_from_the_disk(tmp_path: Path):
    source, contract = wide_csv(tmp_path, 3_000_000), make_contract(tmp_path)
    assert source.path.stat().st_size > 245_000_000
    table = ingest(source, contract, folder=tmp_path / "run", key=KEY, memory_limit="230MB")
    assert contents(table.path, "(SELECT count(*) FROM codes)") == [(3_000_000,)]


def test_a_memory_limit_that_is_too_small_is_told(tmp_path: Path):
    source, contract = wide_csv(tmp_path, 500_000), make_contract(tmp_path)
    with pytest.raises(SudareError, match="the memory limit is too small"):
        ingest(source, contract, folder=tmp_path / "run", key=KEY, memory_limit="20MB")
    assert not list((tmp_path / "run").iterdir())
