"""Ids of units and keys: what a row's id is depends on that row alone, whatever type another row or file brings."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.domains.text import KeyColumn
from contracts.domains.value_sql import exact_sql, id_sql
from contracts.errors import GateBroken, Refused
from contracts.release.source import Source
from contracts.sql.encoding import unit_sql
from tasks.ingest import ingest
from tasks.storage.sources.folder import parts_of
from tasks.storage.sources.gate_words import TYPED, delivered, readable, readable_somehow
from tasks.storage.sources.source import read_parts

KEY = bytes(range(32))
HEAD = "id: c\nversion: 1.0.0\ntable: t\nadjacency: add_remove\n"
DEFAULTS = "defaults: {nulls: {policy: category}, provenance: {kind: declared}}\n"
WARD = "columns:\n  ward: {kind: categories, type: string, values: [surgery, medicine]}\n"
SMALL, LARGE = range(1, 9), range(10**17, 10**17 + 8)
STORED: dict[str, Any] = {
    "int64": lambda ids: pa.array(ids, pa.int64()),
    "uint64": lambda ids: pa.array(ids, pa.uint64()),
    "text": lambda ids: pa.array(map(str, ids)),
    "spaced text": lambda ids: pa.array([f" {each} " for each in ids]),
    "text of decimals": lambda ids: pa.array([f"{each}.0" for each in ids]),
    "labels": lambda ids: pa.array(map(str, ids)).dictionary_encode(),
    "decimal": lambda ids: pa.array(map(Decimal, ids), pa.decimal128(20, 0)),
    "cents": lambda ids: pa.array(map(Decimal, ids), pa.decimal128(38, 2)),
}
OTHERS: dict[str, Any] = STORED | {
    "words": lambda ids: pa.array([f"p{each}" for each in ids]),
    "noughts": lambda ids: pa.array([f"00{each}" for each in ids]),
    "flags": lambda ids: pa.array([True] * len(ids)),
    "int8": lambda ids: pa.array([each % 100 for each in ids], pa.int8()),
    "doubles": lambda ids: pa.array(map(float, ids)),
}


def read_contract(folder: Path, text: str) -> Contract:
    (folder / "c.yaml").write_text(text)
    return load_contract(folder / "c.yaml")


def contract_of(folder: Path, *, largest: int | None = None, rows: int = 1) -> Contract:
    most = "" if largest is None else f", numbers_up_to: {largest}"
    unit = f"unit: {{kind: id, scope: block, column: pid, max_rows_per_unit: {rows}{most}}}\n"
    return read_contract(folder, HEAD + unit + DEFAULTS + WARD)


def write(folder: Path, **files: pa.Array) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    for name, ids in files.items():
        table = pa.table({"pid": ids, "ward": ["surgery"] * len(ids)})
        pq.write_table(table.replace_schema_metadata({"file": name}), folder / f"{name}.parquet")
    return folder


def units(folder: Path, source: Source, contract: Contract) -> list[str]:
    table = ingest(source, contract, folder=folder / "run", key=KEY, memory_limit="256MB")
    with duckdb.connect(str(table.path), read_only=True) as connection:
        return [row[0] for row in connection.execute("SELECT unit FROM units").fetchall()]


def read_ids(folder: Path, contract: Contract) -> list[str]:
    reading = read_parts(folder, parts_of(folder, "parquet"), Source(path=folder, files="parquet"), contract)
    text = unit_sql("pid", contract.unit.numbers_up_to)
    return [row[0] for row in duckdb.execute(f"SELECT {text} FROM {reading.relation}").fetchall()]


@pytest.mark.parametrize("stored", STORED)
def test_no_file_of_another_type_changes_an_id(tmp_path: Path, stored: str):
    """All pairs of storage types, ids of one digit and of eighteen: beside another file as in one file alone."""
    for other in OTHERS:
        ids = [*SMALL] if other == "doubles" else [*SMALL, *LARGE]
        contract = contract_of(tmp_path, largest=10**15 if other == "doubles" else None, rows=9)
        folder = write(tmp_path / "f", a=STORED[stored](ids), b=OTHERS[other](ids[-1:]))
        found = read_ids(folder, contract)
        assert found[:-1] == list(map(str, ids)), other
        if other in STORED or other == "doubles":
            assert found[-1] == found[-2], other
    single = Source(path=write(tmp_path / "f", a=STORED[stored]([*SMALL, *LARGE])) / "a.parquet")
    assert units(tmp_path, single, contract_of(tmp_path)) == [*map(str, SMALL), *map(str, LARGE)]


@pytest.mark.parametrize("other", ["text", "decimal", "flags"])
def test_one_more_person_in_a_file_of_another_type_moves_no_other_row(tmp_path: Path, other: str):
    """300 people of 18 digits in one file, one more in another: 301 rows of 301 units, and not 61."""
    ours = pa.array([10**17 + each for each in range(300)], pa.int64())
    folder = write(tmp_path / "f", a=ours, b=OTHERS[other]([1]))
    found = units(tmp_path, Source(path=folder, files="parquet"), contract_of(tmp_path))
    assert found == [*map(str, ours.to_pylist()), "true" if other == "flags" else "1"]


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5), st.sampled_from([None, 1000, 10**15]))
def test_duckdb_reads_an_id_by_its_digits_alone(ids: list[int], largest: int | None):
    """Every type; beyond the declared largest it is missing."""
    expected = [str(each) if largest is None or abs(each) <= largest else None for each in ids]
    for name, stored in STORED.items():
        if name == "uint64" and min(ids) < 0:
            continue
        with duckdb.connect() as connection:
            connection.register("given", pa.table({"pid": stored(ids)}))
            found = connection.execute(f"SELECT {id_sql('pid', largest)} FROM given").fetchall()
            assert [row[0] for row in found] == expected, name


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("9007199254740991::DOUBLE", "9007199254740991"),
        ("9007199254740992::DOUBLE", None),
        ("16777216::FLOAT", None),
        ("-0.0::DOUBLE", "0"),
        ("1.5::DOUBLE", "1.5"),
        ("'inf'::DOUBLE", None),
        ("'1.0000000000000000e+17'", None),
        ("'1E50'", "1E50"),
        ("'007'", "007"),
        ("'12.10'", "12.10"),
        ("NULL", None),
    ],
)
def test_what_has_no_exact_digits_is_missing(value: str, text: str | None):
    """Doubles from 2^53 on, and what writers of doubles make of them; codes stay what they are."""
    assert duckdb.execute(f"SELECT {id_sql('x')} FROM (SELECT {value} AS x)").fetchone() == (text,)
    assert duckdb.execute(f"SELECT {exact_sql('x')} FROM (SELECT '2.0' AS x)").fetchone() == ("2.0",)


@pytest.mark.parametrize(
    ("select", "types"),
    [
        (None, None),
        ("SELECT pid, ward FROM source WHERE pid IS NOT NULL", {"pid": "text"}),
        ("SELECT 'p' || pid AS pid, ward FROM source", {"pid": "text"}),
        ("SELECT CAST(pid AS BIGINT) AS pid, ward FROM source", {"pid": "number"}),
        ("SELECT CAST(pid AS DOUBLE) AS pid, ward FROM source", {"pid": "id"}),
    ],
)
def test_ids_that_pandas_made_doubles_are_refused_by_their_type(tmp_path: Path, select: str | None, types: Any):
    """One missing id makes doubles of all; a select that drops that row, or writes texts, hides nothing."""
    folder = write(tmp_path / "f", a=pa.array([1e17, None]))
    for source in (
        Source(path=folder / "a.parquet", select=select, types=types),
        Source(path=folder, files="parquet", select=select, types=types),
    ):
        with pytest.raises(Refused, match=r"numbers_up_to|types: \{pid: id\}"):
            units(tmp_path, source, contract_of(tmp_path))


def test_a_declared_largest_reads_doubles_row_by_row(tmp_path: Path):
    """Ids as doubles below it are read; a larger one is missing, which is the gate that every row has an id."""
    contract = contract_of(tmp_path, largest=10**6)
    source = Source(path=write(tmp_path / "f", a=pa.array([7.0, 8.0])) / "a.parquet")
    assert units(tmp_path, source, contract) == ["7", "8"]
    source = Source(path=write(tmp_path / "f", a=pa.array([7, 10**7])) / "a.parquet")
    with pytest.raises(GateBroken, match=r"(?s)rows without an id.*above a declared `numbers_up_to:`"):
        units(tmp_path, source, contract)
    assert "every row has a pid, none of them above 1000000" in delivered(contract)
    assert "every row has a pid" in delivered(contract_of(tmp_path))


@pytest.mark.parametrize("select", [None, "SELECT pid, ward FROM source"])
def test_that_ids_are_not_stored_as_doubles_is_a_gate_of_its_own(tmp_path: Path, select: str | None):
    """Whether a writer makes doubles, and whether a column of doubles has a value, follows from rows."""
    stored = "no id or key in pid is stored as a floating-point number"
    parquet = Source(path=tmp_path / "a.parquet", select=select, types=None if select is None else {})
    assert stored in readable(parquet, contract_of(tmp_path))
    assert stored not in readable(parquet, contract_of(tmp_path, largest=10**6))
    assert stored not in readable(Source(path=tmp_path / "a.csv"), contract_of(tmp_path))
    assert (TYPED in readable(parquet, contract_of(tmp_path))) == (select is None)
    assert any(stored in each for each in readable_somehow(contract_of(tmp_path)))


@pytest.mark.parametrize(
    ("select", "types"), [(None, None), ("SELECT pid, ward FROM source WHERE pid > 0", {"pid": "number"})]
)
@pytest.mark.parametrize("largest", [None, 10**15])
def test_decimals_of_more_than_38_digits_are_refused_by_their_type(
    tmp_path: Path, select: str | None, types: Any, largest: int | None
):
    """DuckDB reads them as doubles, of 39 digits even as other numbers, so that no declared largest helps."""
    for digits in (39, 76):
        wide = pa.array([Decimal(each) for each in LARGE], pa.decimal256(digits, 0))
        folder = write(tmp_path / "f", a=wide, b=pa.array(SMALL))
        for source in (
            Source(path=folder / "a.parquet", select=select, types=types),
            Source(path=folder, files="parquet", select=select, types=types),
        ):
            with pytest.raises(GateBroken, match=r"(?s)column 'pid'.*decimals of more than 38 digits"):
                units(tmp_path, source, contract_of(tmp_path, largest=largest))
    exact = pa.array([Decimal(each) for each in LARGE], pa.decimal256(38, 0))
    source = Source(path=write(tmp_path / "f", a=exact) / "a.parquet", select=select, types=types)
    if select is None and largest is None:
        assert units(tmp_path, source, contract_of(tmp_path)) == [*map(str, LARGE)]


def test_a_left_out_column_of_long_decimals_stops_nothing(tmp_path: Path):
    contract = read_contract(tmp_path, HEAD + "left_out: [note]\nunit: {kind: row, scope: block}\n" + DEFAULTS + WARD)
    rows = {"note": pa.array([Decimal(1)], pa.decimal256(60, 0)), "ward": ["surgery"]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    for select in (None, "SELECT ward FROM source"):
        source = Source(path=tmp_path / "a.parquet", select=select)
        assert ingest(source, contract, folder=tmp_path / "run", key=KEY, memory_limit="256MB")


def test_an_id_computed_by_a_select_has_all_its_digits(tmp_path: Path):
    source = Source(
        path=write(tmp_path / "f", a=pa.array(LARGE, pa.int64())) / "a.parquet",
        select="SELECT 'p' || pid AS pid, ward FROM source",
        types={"pid": "text"},
    )
    assert units(tmp_path, source, contract_of(tmp_path)) == [f"p{each}" for each in LARGE]


@pytest.mark.parametrize("other", [None, "text", "decimal", "flags"])
def test_large_numbers_are_different_texts(tmp_path: Path, other: str | None):
    """What `{distinct: x}` and selected keys count: 300 numbers of 18 digits are 300, whatever other files bring."""
    text = HEAD + "unit: {kind: row, scope: block}\n" + DEFAULTS + "columns:\n"
    contract = read_contract(
        tmp_path, text + "  pid: {kind: text, type: string, max_bytes: 40}\n" + WARD.split("\n", 1)[1]
    )
    files = {"a": pa.array([10**17 + each for each in range(300)], pa.int64())}
    if other is not None:
        files["b"] = OTHERS[other](LARGE[:1])
    source, keys = Source(path=write(tmp_path / "f", **files), files="parquet"), KeyColumn("pid")
    given: Any = {"folder": tmp_path / "run", "key": KEY, "memory_limit": "256MB", "lattices": (keys,)}
    table = ingest(source, contract, **given)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        [[number]] = connection.execute(f'SELECT count(DISTINCT "{keys.name}") FROM codes').fetchall()
    assert number == 300 + (other == "flags")
    source = Source(path=write(tmp_path / "f", a=pa.array([1e17])), files="parquet")
    with pytest.raises(GateBroken, match="numbers_up_to: N in the domain of pid"):
        ingest(source, contract, **given)
