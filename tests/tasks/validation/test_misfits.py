"""The look of the operator at ids: rows beyond the bound of a unit, and ids that repeat where each row is one."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.release.source import Source
from contracts.release.statistics import statistics_product
from privacy.private_table import PrivateTable
from tasks.ingest import ingest
from tasks.validation.clip_misfits import clip_misfits
from tasks.validation.misfits import Misfits, misfits, misfits_page, to_json
from tests.worlds.statistics import StatisticsScenario, of_tables

KEY, SHARE, ROWS = bytes(range(32)), Fraction(1, 100), 3000
CONTRACT = """\
id: c
version: 1.0.0
table: t
adjacency: add_remove
defaults: {nulls: {policy: category}, provenance: {kind: declared}}
columns:
  ward: {kind: categories, type: string, values: [surgery, medicine]}
"""
ROW = "unit: {kind: row, scope: block}\n"
PEOPLE: list[int] = [each % 100 for each in range(ROWS)]
Take = Callable[[Source, Contract, Path], PrivateTable]


def look(
    folder: Path,
    terms: str,
    columns: dict[str, list[Any]],
    form: str = "parquet",
    *,
    take: Take = lambda source, contract, folder: ingest(
        source, contract, folder=folder, key=KEY, memory_limit="256MB"
    ),
    **given: Any,
) -> Misfits:
    (folder / "c.yaml").write_text(CONTRACT + terms)
    contract, path = load_contract(folder / "c.yaml"), folder / f"t.{form}"
    table = pa.table({**columns, "ward": ["surgery"] * ROWS})
    if form == "csv":
        pa.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    taken = take(Source(path=path, **given), contract, folder / "run")
    return misfits(taken, contract, folder=folder / "run", memory_limit="256MB")


def test_the_look_says_how_many_rows_the_bound_of_a_unit_drops(tmp_path: Path):
    """Two rows are kept of the thirty of each of a hundred people: 200 rows, and 2,800 that nobody else tells of."""
    unit = "unit: {kind: id, scope: block, column: pid, max_rows_per_unit: 2}\n"
    found = look(tmp_path, unit, {"pid": PEOPLE})
    assert (found.rows, found.dropped, found.clean, found.asks(SHARE)) == (200, 2800, False, False)
    assert [str(each) for each in found.notes] == [
        "2,800 of 3,000 rows are left out: their unit has more rows than max_rows_per_unit"
    ]
    assert to_json(found, SHARE)["left_out_beyond_the_bound"] == 2800
    assert "2,800 of 3,000 rows" in misfits_page(found, release="r", share=SHARE)


@pytest.mark.services
@pytest.mark.parametrize(
    ("terms", "name", "form", "given"),
    [
        ("left_out: [pid]\n", "pid", "parquet", {}),
        ("left_out: [pid]\n", "pid", "csv", {}),
        ("left_out: [klant]\n", "klant", "parquet", {}),
        ("  client_id: {kind: integer, type: integer, bounds: [0, 9], bins: {width: 1}}\n", "client_id", "csv", {}),
        ("", "pid", "parquet", {"select": "SELECT ward FROM source"}),
        ("", "pid", "csv", {"select": "SELECT s.ward FROM source AS s"}),
    ],
)
def test_ids_that_repeat_where_rows_are_units_want_a_yes(
    tmp_path: Path, terms: str, name: str, form: str, given: Any
):
    """Named like an id, or left out with values that come like ids; behind a select too."""
    found = look(tmp_path, terms + ROW, {name: PEOPLE}, form, **given)
    assert [str(each) for each in found.notes] == [f"30 rows per {name}; a row is not a person"]
    assert found.asks(SHARE)
    assert not to_json(found, SHARE)["fits"]
    assert "a row is not a person" in misfits_page(found, release="r", share=SHARE)


NO_IDS: list[tuple[str, list[Any]]] = [
    ("pid", [*range(ROWS)]),
    ("pid", [None] * ROWS),
    ("sex", [each % 2 for each in range(ROWS)]),
    ("town", [each if each < 500 else 500 + each % 40 if each < 1000 else 7 for each in range(ROWS)]),
    ("weight", [int(each**0.95) for each in range(ROWS)]),
]


@pytest.mark.parametrize(("name", "values"), NO_IDS)
def test_no_yes_is_wanted_for_ids_of_rows_and_columns_that_are_no_ids(tmp_path: Path, name: str, values: Any):
    """Ids that do not repeat; few values, one value that most have, and values of which most come once."""
    found = look(tmp_path, f"left_out: [{name}]\n" + ROW, {name: values})
    assert (found.notes, found.asks(SHARE), found.clean) == ([], False, True)


def test_a_code_list_that_is_named_like_an_id_is_none(tmp_path: Path):
    domain = "  ward_id: {kind: integer, type: integer, bounds: [0, 9], bins: {width: 1}}\n"
    found = look(tmp_path, domain + ROW, {"ward_id": [each % 10 for each in range(ROWS)]})
    assert (found.notes, found.asks(SHARE)) == ([], False)


@pytest.mark.parametrize("given", [{}, {"select": "SELECT ward FROM source"}])
def test_large_ids_in_files_of_two_types_are_counted_by_their_digits(tmp_path: Path, given: Any):
    (tmp_path / "c.yaml").write_text(CONTRACT + ("" if given else "left_out: [pid]\n") + ROW)
    (tmp_path / "f").mkdir()
    large = pa.array([10**17 + each for each in range(300)], pa.int64())
    for name, ids in (("a", large), ("b", large.cast(pa.string()))):
        pq.write_table(pa.table({"pid": ids, "ward": ["surgery"] * 300}), tmp_path / "f" / f"{name}.parquet")
    source, contract = Source(path=tmp_path / "f", files="parquet", **given), load_contract(tmp_path / "c.yaml")
    taken = ingest(source, contract, folder=tmp_path / "run", key=KEY, memory_limit="256MB")
    found = misfits(taken, contract, folder=tmp_path / "run", memory_limit="256MB")
    assert found.repeated == (("pid", 600, 300),)


@pytest.mark.parametrize("given", [{}, {"select": "SELECT ward FROM source"}], ids=["left out", "select"])
def test_bytes_that_are_no_text_in_a_column_that_is_not_released_stop_no_run(tmp_path: Path, given: dict[str, Any]):
    """Law 3: such a column is read to be counted only, and then it is not counted."""
    broken = pa.Array.from_buffers(pa.string(), ROWS, pa.array([b"\xff\xfe"] * ROWS).buffers())
    found = look(tmp_path, ("" if given else "left_out: [pid]\n") + ROW, {"pid": broken}, **given)
    assert (found.rows, found.repeated) == (ROWS, ())


def test_a_select_or_a_condition_decides_which_rows_count(tmp_path: Path):
    """One row of each person is taken: an id that repeats in the source only is none that repeats."""
    select = "SELECT ward FROM source WHERE wave = 3"
    columns = {"pid": PEOPLE, "wave": [each // 100 for each in range(ROWS)]}
    found = look(tmp_path, ROW, columns, select=select, types={"wave": "number"})
    assert (found.rows, found.asks(SHARE)) == (100, False)


ONE_PERCENT = Fraction(1, 100)
TABLES = """[
  {by: [ward], of: [count, {mean: age, clip: [10, 60]}, {variance: bill, clip: [0, 900]}]},
  {by: [floor], of: [{quantiles: [0.5], of: age}]}]"""


def look_at_clips(scenario: StatisticsScenario, folder: Path) -> Misfits:
    spec, contract, _, ledger = scenario.prepared_of(folder, scenario.plan_type)
    ledger.close()
    table = scenario.taken(folder, spec, contract)
    return Misfits(0, (), (), clips=clip_misfits(table, contract, statistics_product(spec.product), ONE_PERCENT))


def test_rows_beyond_a_clip_are_counted_by_clip_and_by_cell(tmp_path: Path):
    """By Polars: values at an end are not cut. A clip that is the contract's bounds cuts nothing that they allow."""
    scenario = of_tables(TABLES)
    found = look_at_clips(scenario, tmp_path)
    rows = scenario.frame().drop_nulls("age")
    cut = rows.filter(~pl.col("age").is_between(10, 60))
    whole, *cells = found.clips
    assert (whole.column, whole.rows, whole.clipped) == ("age [10, 60] · ward", rows.height, cut.height)
    surgery = next(each for each in cells if each.column == "age [10, 60] · ward: surgery")
    told = rows.filter(pl.col("ward") == "surgery").height, cut.filter(pl.col("ward") == "surgery").height
    assert (surgery.rows, surgery.clipped) == told
    assert found.above(ONE_PERCENT) == found.clips
    assert "age" not in repr(found)


def test_a_cell_of_a_few_rows_is_not_named_and_bounds_are_not_counted(tmp_path: Path):
    """One row of ten is more than 1 %: cells that cannot tell such a share are left to the whole."""
    few = look_at_clips(of_tables(TABLES, rows=40), tmp_path)
    assert [each.column for each in few.clips] == ["age [10, 60] · ward"]
    (tmp_path / "wide").mkdir()
    wide = look_at_clips(of_tables("[{by: [ward], of: [{mean: age}]}]"), tmp_path / "wide")
    assert wide.clips == ()
    assert not wide.above(ONE_PERCENT)
