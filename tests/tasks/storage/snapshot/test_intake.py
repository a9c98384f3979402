"""What a snapshot keeps of the rows beside their codes: enough for every check, and nothing of those that fit."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.contract.column import Column
from contracts.contract.contract import Contract, checks
from contracts.domains.domain import DeclaredDomain
from contracts.domains.value_sql import identifier
from contracts.release.spec import Source
from contracts.sql.encoding import encode_select, violation_sql
from privacy.private_table import PrivateTable
from tasks.ingest import ingest
from tasks.storage.snapshot.snapshot import ROW
from tasks.validation.misfits import misfits
from tests.contracts.samples import column, contract_of
from tests.contracts.sql.test_storage_types import DATES, DOMAINS
from tests.tasks.intake import KEY, ROWS, make_contract, take_in, write_csv

TEXTS = (
    *(None, "", " ", "F", " F ", "f", "M", "X", "nan", "NaN", "inf", "-inf", "1", "01", " 1", "1.0", "1e1", "0x10"),
    *("17", "17.5", "99", "100", "-1", "-0", "1,5", "1.234,5", "true", "TRUE", "?", " ? ", "999", "0999", "(null)"),
    *("2020-02-29", "2020-02-30", "2021-01-01 10:00:00", "2021-12-31T23:30:00Z", "29.02.2020", "20200229"),
    *("infinity", "\u00a012", "\t12", "\u4e00", "tab\there", "it's", "2019-12-31", "2025-01-01"),
)
VALUES: dict[str, Sequence[Any]] = {
    "texts": TEXTS,
    "doubles": (
        None,
        math.nan,
        math.inf,
        -math.inf,
        0.0,
        -0.0,
        0.1,
        1.0,
        17.5,
        99.0,
        100.0,
        999.0,
        20200229.0,
        1e300,
    ),
    "floats": pa.array([None, math.nan, 0.1, 0.5, 1.0, 999.0, 16777216.0], pa.float32()),
    "wholes": (None, 0, 1, 2, 17, 99, 100, -1, 999, 20200229, 2**53 + 1, -(2**63)),
    "decimals": (None, *map(Decimal, ("0.1", "1.000", "0.5", "17.5", "99", "999", "-1"))),
    "flags": (None, True, False),
    "days": (None, date(2020, 2, 29), date(2019, 12, 31), date(2025, 1, 1), date(1, 1, 1), date(9999, 12, 31)),
    "moments": (None, datetime(2020, 2, 29), datetime(2020, 2, 29, 9), datetime(2024, 12, 31, 23, 59, 59)),
    "instants": pa.array([None, datetime(2021, 12, 31, 23, 30, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "edges of time": pa.array([None, -(2**63) + 1, 2**63 - 1, 0], pa.timestamp("us")),
    "nothing": (None, None),
}


MORE = {
    "mapped numbers": column(
        "integer", "integer", bounds=[0, 99], bins={"width": 10}, nulls={"policy": "map", "to": 17}
    ),
    "mapped words": column("categories", "string", values=["F", "M"], nulls={"policy": "map", "to": "F"}),
    "missing numbers": column(
        "decimal", "number", bounds=[2, 90], bins={"width": 8}, missing=["?", "999", "0.1", "1.000"]
    ),
    "missing and mapped": column(
        "integer", "integer", bounds=[0, 99], bins={"width": 10}, missing=["999"], nulls={"policy": "map", "to": 99}
    ),
    "missing days": column(
        "date",
        "date",
        bounds=["2020-01-01", "2024-12-31"],
        granularity="year",
        missing=["9999-12-31", "20250101", "?"],
    ),
    "words that are no numbers": column("categories", "string", values=["nan", "inf", "1"], missing=["?", "M"]),
    "words and others": column("categories", "string", values=["F", "17"], other="X"),
    "texts": column("text", "string", max_bytes=20, missing=["?"]),
}
COLUMNS: dict[str, Column] = DOMAINS | DATES | MORE


def contract_with(columns: Sequence[Column]) -> Contract:
    named = tuple(each.model_copy(update={"name": f"c{place}"}) for place, each in enumerate(columns))
    return contract_of(*named)


def taken(folder: Path, columns: Sequence[Column], values: Any) -> tuple[PrivateTable, Contract, Path]:
    """Take values in as several columns of a Parquet file, each in rows of its own, where the others are null."""
    path, contract = folder / "x.parquet", contract_with(columns)
    array = pa.array(values)
    blocks = [[pa.nulls(len(array), array.type)] * len(columns) for _ in columns]
    for place, block in enumerate(blocks):
        block[place] = array
    pq.write_table(pa.table(dict(zip(contract.source_columns, map(pa.chunked_array, blocks), strict=True))), path)
    texts = pa.types.is_string(array.type)
    source = Source(path=path, select=None if texts else f"SELECT {', '.join(contract.source_columns)} FROM source")
    return ingest(source, contract, folder=folder / "run", key=KEY, memory_limit="256MB"), contract, path


def by_hand(contract: Contract, path: Path) -> tuple[list[Any], dict[str, int]]:
    """The codes of all rows, and how many break each check, from the file itself."""
    rows, columns = f"read_parquet('{path}')", contract.source_columns
    asked = [check for check in checks(contract) if check.column]
    sums = ", ".join(
        f"count(*) FILTER (WHERE COALESCE(TRY({violation_sql(each, contract)}), TRUE))" for each in asked
    )
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        codes = connection.execute(encode_select(contract, columns_present=columns, relation=rows)).fetchall()
        [broken] = connection.execute(f"SELECT {sums} FROM {rows}").fetchall()
    return codes, dict(zip((each.name for each in asked), broken, strict=True))


def counted(table: PrivateTable, contract: Contract, folder: Path) -> dict[str, int]:
    """How many rows break each check, from the snapshot."""
    found = {each.column: each for each in misfits(table, contract, folder=folder, memory_limit="256MB").columns}
    parts = {"not_null": "null", "castable": "unfit", "in_set": "unfit", "between": "clipped"}
    asked = [check for check in checks(contract) if check.column]
    return {each.name: getattr(found[str(each.column)], parts[each.kind]) for each in asked}


@pytest.mark.long
@pytest.mark.parametrize("kind", VALUES)
def test_codes_and_checks_are_those_of_the_rows_themselves(tmp_path: Path, kind: str):
    """Weird values of every type, in every domain: nothing is lost that the codes do not say."""
    plain = [each for each in COLUMNS.values() if each.domain.nulls.to is None]
    groups = [plain, *([each] for each in COLUMNS.values() if each.domain.nulls.to is not None)]
    for place, columns in enumerate(groups):
        folder = tmp_path / str(place)
        folder.mkdir()
        table, contract, path = taken(folder, columns, VALUES[kind])
        codes, broken = by_hand(contract, path)
        with duckdb.connect(str(table.path), read_only=True) as connection:
            assert connection.execute("SELECT * FROM codes").fetchall() == codes
        assert counted(table, contract, folder) == broken


@pytest.mark.long
def test_rows_that_are_kept_for_one_column_are_counted_once_in_the_others(tmp_path: Path):
    """Columns whose nulls are mapped keep every row here."""
    table, contract, path = taken(tmp_path, list(COLUMNS.values()), TEXTS)
    assert counted(table, contract, tmp_path) == by_hand(contract, path)[1]


WORDS: Column = MORE["mapped words"]


def test_a_domain_that_calls_nothing_astray_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The wrong twin: a kind that keeps too little loses what breaks its checks."""
    monkeypatch.setattr(type(WORDS.domain), "stray_sql", lambda self, value, raw: "FALSE")
    table, contract, path = taken(tmp_path, [WORDS], TEXTS)
    assert counted(table, contract, tmp_path) != by_hand(contract, path)[1]


def test_a_kind_that_says_nothing_of_strays_has_all_its_rows_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(type(WORDS.domain), "stray_sql", DeclaredDomain.stray_sql)
    table, contract, path = taken(tmp_path, [WORDS], TEXTS)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        assert connection.execute(f"SELECT {identifier(ROW)} FROM raw").fetchall() == [
            (i,) for i in range(len(TEXTS))
        ]
    assert counted(table, contract, tmp_path) == by_hand(contract, path)[1]


def test_rows_that_fit_leave_no_value_in_the_snapshot(tmp_path: Path):
    """Only the row with a sex that is no category, an age and a day out of bounds lies there as delivered."""
    table = take_in(write_csv(tmp_path, *ROWS), make_contract(tmp_path), tmp_path)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        assert connection.execute("SELECT * FROM raw").fetchall() == [(3, *ROWS[3].split(","))]
        tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        assert connection.execute("FROM seen").fetchall() == []
    assert tables == {"codes", "raw", "seen", "snapshot"}


def test_rows_that_are_dropped_leave_nothing_and_no_gap(tmp_path: Path):
    """Ids stand beside the codes in their order, and `raw` names the rows that stayed by their places."""
    rows = [f" p{number % 3} ,{row}" for number, row in enumerate(ROWS * 3)]
    source = write_csv(tmp_path, *rows, header="person,age,sex,wage,since")
    table = take_in(source, make_contract(tmp_path, rows_per_unit=2), tmp_path)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        kept = connection.execute("SELECT codes.rowid, unit, age, sex FROM codes POSITIONAL JOIN units").fetchall()
        strays = connection.execute(f"SELECT {identifier(ROW)}, person, age FROM raw").fetchall()
    assert [place for place, *_ in kept] == list(range(6))
    assert sorted(unit for _, unit, *_ in kept) == ["p0", "p0", "p1", "p1", "p2", "p2"]
    assert [place for place, *_ in strays] == [place for place, _, age, _ in kept if age == 9 and kept[place][3] == 2]
    assert all(person.strip() == kept[place][1] and age == "120" for place, person, age in strays)
