"""How far one privacy unit moves distinct counts, and in how many keys it is: by brute force, from the file on."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency, Contract
from contracts.domains.addends import DistinctCount, distinct_count, encoded_beside
from contracts.domains.text import KeyColumn
from contracts.release.spec import Source
from contracts.release.statistics import statistics_product
from contracts.release.survey_weight import most_cells
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.query import Relation
from privacy.marginals.cell_sums import PrivateCellSums
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotKeys, SnapshotSums, first_keys
from privacy.statistics.plan import StatisticsPlan
from tasks.ingest import ingest
from tests.tasks.intake import HEADER, KEY, write_csv
from tests.tasks.test_ingest_sensitivity import Rows, contract_for, random_row
from tests.worlds.distinct_counts import laplace
from tests.worlds.private_keys import few_groups

CLIQUES: tuple[tuple[str, ...], ...] = ((), ("sex",), ("sex", "since"))
COLUMNS = (None, "age", "wage", "since", "sex")


def counted_of(contract: Contract) -> list[DistinctCount]:
    """Units, numbers, days and categories."""
    return [
        DistinctCount(None, None, True)
        if name is None
        else distinct_count(name, contract.column(name).domain, declared_cells=True)
        for name in COLUMNS
    ]


def opened(source: Source, contract: Contract, folder: Path) -> list[tuple[PrivateCellSums, NDArray[np.int64]]]:
    beside = [encoded_beside(name, contract.column(name).domain) for name in COLUMNS if name is not None]
    lattices = (*(each for each in beside if each is not None), KeyColumn(str(contract.unit.column)))
    table = ingest(source, contract, folder=folder / "run", key=KEY, memory_limit="256MB", lattices=lattices)
    sums, counted = SnapshotSums(table, contract), counted_of(contract)
    return [(handle, handle._read()) for clique in CLIQUES for handle in sums.sums(clique, counted)]


def of_units(
    units: dict[str, Rows], contract: Contract, folder: Path
) -> list[tuple[PrivateCellSums, NDArray[np.int64]]]:
    folder.mkdir()
    lines = [f"{unit},{row}" for unit, rows in units.items() for row in rows]
    return opened(write_csv(folder, *lines, header=f"person,{HEADER}"), contract, folder)


@pytest.mark.long
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows_per_unit", [2, 3])
def test_a_unit_moves_distinct_counts_by_the_moves_of_the_event_at_most(
    tmp_path: Path, adjacency: Adjacency, rows_per_unit: int
):
    """Random tables and neighbours, some units with more rows than are kept; the bound is reached."""
    random = Random(f"distinct {adjacency} {rows_per_unit}")
    contract, _ = contract_for(tmp_path, rows_per_unit, adjacency)
    relation, reached = Relation(adjacency, rows_per_unit), set()
    for turn in range(4):
        most = rows_per_unit + 2
        units = {f"p{unit}": [random_row(random) for _ in range(random.randint(1, most))] for unit in range(3)}
        ages = iter(range(20, 90))
        units["p9"] = [f"{next(ages)},{sex},1{turn},2020-06-01" for sex in "FM" for _ in range(rows_per_unit)][::2]
        other = {unit: rows for unit, rows in units.items() if unit != "p9"}
        if adjacency == "replace_one":
            other["p9"] = [random_row(random) for _ in range(most)]
        before, after = (
            of_units(each, contract, tmp_path / f"{turn}{name}") for each, name in ((units, "a"), (other, "b"))
        )
        for (handle, exact), (_, neighbour) in zip(before, after, strict=True):
            change = np.abs(exact - neighbour)
            event = CellSumQuery(handle, LaplaceNoise(Fraction(1))).event(relation)
            assert change.sum() <= sum(event.moves)
            assert (change**2).sum() <= sum(move * move for move in event.moves)
            assert change.max() <= max(event.moves)
            if change.sum() == sum(event.moves):
                reached.add(handle.addends.column)
    assert reached >= ({"age"} if adjacency == "replace_one" else {None, "age"})


@pytest.mark.long
def test_rows_are_chosen_before_values_are_counted(tmp_path: Path):
    """Five rows of which three are kept have three values at most, and the unit is in three cells at most.

    Which are kept, the key says: other values of the same rows are those of the same places.
    """
    contract, _ = contract_for(tmp_path, 3, "add_remove")
    first = of_units({"p1": [f"{20 + n},F,,2020-06-01" for n in range(5)]}, contract, tmp_path / "a")
    second = of_units({"p1": [f"{70 - n},F,,2020-06-01" for n in range(5)]}, contract, tmp_path / "b")
    for found in (first, second):
        by_column = {handle.addends.column: exact for handle, exact in found if not handle.clique}
        assert by_column["age"].tolist() == [3]
        assert by_column[None].tolist() == [1]


@pytest.mark.parametrize("spelling", ["1234", "1234.0", " 1234 ", "1_234"])
def test_a_number_is_one_value_however_it_is_spelled(tmp_path: Path, spelling: str):
    """Wages of 0 to 1,000 in a CSV file of texts: 41, 41.0 and 41.00 are one; a missing wage is none."""
    contract, _ = contract_for(tmp_path, 3, "add_remove")
    wages = ["41", "41.0", " 41 ", "41.00", "", "nan", "110", "1e6"]
    units = {f"p{place}": [f"30,F,{wage},2020-06-01"] for place, wage in enumerate([*wages, spelling])}
    found = {handle.addends.column: exact for handle, exact in of_units(units, contract, tmp_path / "a")[:5]}
    assert found["wage"].tolist() == [3]  # 41, 110, and all that lies above the bounds; what is no number is missing
    assert found[None].tolist() == [9]


def notes_of(tmp_path: Path, notes: pl.Series, name: str) -> tuple[PrivateTable, Contract]:
    scenario = replace(laplace(), rows=len(notes))
    folder = tmp_path / name
    spec, contract, _, ledger = scenario.prepared_of(folder, StatisticsPlan)
    ledger.close()
    frame = scenario.frame().with_columns(notes.alias("note"), pl.lit("p").alias("patient"))
    contract = contract.model_copy(update={"unit": contract.unit.model_copy(update={"max_rows_per_unit": 100})})
    if notes.dtype.is_float():
        contract = with_largest(contract, "note", 10**6)
    frame.select(contract.source_columns).write_parquet(folder / "stays.parquet")
    lattices = spec.product.lattices(contract)
    table = ingest(spec.source, contract, folder=folder / "run", key=KEY, memory_limit="256MB", lattices=lattices)
    return table, contract


def with_largest(contract: Contract, name: str, largest: int) -> Contract:
    """The contract that declares how large the numbers of a column of texts are."""
    domain = contract.column(name).domain.model_copy(update={"numbers_up_to": largest})
    columns = (c.model_copy(update={"domain": domain}) if c.name == name else c for c in contract.columns)
    return contract.model_copy(update={"columns": tuple(columns)})


@pytest.mark.parametrize(
    ("stored", "values"),
    [
        (pl.Series([1234, 1234, 77, None], dtype=pl.Int64), 2),
        (pl.Series([1234.0, 1234.0, 77.0, None], dtype=pl.Float64), 2),
        (pl.Series(["1234", " 1234", "77", ""]), 2),
        (pl.Series(["1234", "01234", "none", "(null)", "(others)", "x" * 41, "bell\x07"]), 2),
    ],
)
def test_an_identifier_is_one_value_whatever_its_type(tmp_path: Path, stored: pl.Series, values: int):
    """Whole numbers, declared doubles, spaced texts; leading noughts differ; missing ones and no keys are none."""
    table, contract = notes_of(tmp_path, stored, "a")
    (handle,) = SnapshotSums(table, contract).sums((), [DistinctCount("note", None, True)])
    assert handle._read().tolist() == [values]
    if stored.dtype != pl.String:  # the same texts as those of the writer that has whole numbers
        other, _ = notes_of(tmp_path, stored.cast(pl.Int64).cast(pl.String), "b")
        codes = [_notes(each) for each in (table, other)]
        assert codes[0] == codes[1]


def _notes(table: PrivateTable) -> list[str]:
    with duckdb.connect(str(table.path), read_only=True) as connection:
        name = KeyColumn("note").name
        return [row[0] for row in connection.execute(f'SELECT "{name}" FROM codes').fetchall()]


def test_a_count_of_fewer_values_than_are_declared_is_not_read(tmp_path: Path):
    """Its price would be that of one value; the reader holds it against its own contract."""
    table, contract = notes_of(tmp_path, pl.Series(["a", "b"]), "a")
    for wrong in (
        DistinctCount("floor", 1, True),
        DistinctCount("note", 1, True),
        DistinctCount("floor", None, True),
    ):
        (handle,) = SnapshotSums(table, contract).sums(("ward",), [wrong])
        with pytest.raises(ValueError, match="the values that the contract declares"):
            handle._read()


ROWS = 6
KEYS = ("alpha", "beta", "gamma", "delta", "epsilon")


def stays(groups: int) -> str:
    """The product with so many keys of a unit, whose rows are six at most."""
    return few_groups().product.replace("at_most_groups: 1", f"at_most_groups: {groups}")


def taken(folder: Path, frame: pl.DataFrame, groups: int) -> tuple[PrivateTable, Contract, DistinctCount]:
    """Take rows in, through the real scan, with what the product needs beside the codes."""
    scenario = few_groups()
    privacy = scenario.privacy.replace("max_rows_per_unit: 3", f"max_rows_per_unit: {ROWS}")
    scenario = replace(scenario, product=stays(groups), privacy=privacy, rows=len(frame))
    spec, contract, _, ledger = scenario.prepared_of(folder, StatisticsPlan)
    ledger.close()
    frame.select(contract.source_columns).write_parquet(folder / "stays.parquet")
    lattices = spec.product.lattices(contract)
    terms = {"folder": folder / "run", "key": KEY, "memory_limit": "256MB", "lattices": lattices}
    table = ingest(spec.source, contract, **terms)  # type: ignore[arg-type]
    [wanted] = statistics_product(spec.product).tables
    return table, contract, DistinctCount(None, None, False, most_cells(wanted.by, wanted.at_most_groups, contract))


def rows_of(random: Random) -> pl.DataFrame:
    """Make up stays of five patients, each with up to nine rows and any notes, some of which are no keys."""
    base = replace(few_groups(), rows=60).frame()
    patients = [f"p{unit}" for unit in range(5) for _ in range(random.randint(4, 9))]
    notes = [random.choice([*KEYS, *KEYS, "", "x" * 50]) for _ in patients]
    some = base.sample(len(patients), seed=random.randint(0, 10**6))
    return some.with_columns(pl.Series("patient", patients), pl.Series("note", notes))


def numbers(folder: Path, frame: pl.DataFrame, groups: int) -> tuple[dict[str, int], np.ndarray, np.ndarray]:
    table, contract, counted = taken(folder, frame, groups)
    reader = SnapshotKeys(table, contract)
    keys, units = reader.keys("note", groups)._read()
    recoded, with_keys = reader.recoded({"note": sorted(KEYS)}, (), {"note": groups})
    (people,) = SnapshotSums(recoded, with_keys).sums(("note",), [counted])
    with duckdb.connect(str(recoded.path), read_only=True) as connection:
        found = dict(connection.execute("SELECT note, count(*) FROM codes GROUP BY 1").fetchall())
    rows = np.array([found.get(code, 0) for code in range(len(KEYS) + 2)])
    event = CellSumQuery(people, LaplaceNoise(Fraction(1))).event(Relation("add_remove", ROWS))
    assert sum(event.moves) == min(ROWS, groups + 2)
    return dict(zip([key for (key,) in keys], units.tolist(), strict=True)), rows, people._read()[..., 0]


@pytest.mark.long
@pytest.mark.parametrize("groups", [1, 2])
def test_a_unit_changes_no_more_keys_than_the_spec_says(tmp_path: Path, groups: int):
    """Each of five patients leaves, of random tables: keys, rows and people move by no more than is charged."""
    random, reached = Random(f"groups {groups}"), set()
    for turn in range(2):
        frame = rows_of(random)
        keys, rows, people = numbers(tmp_path / f"{turn}", frame, groups)
        for gone in ("p0", "p3"):
            other = numbers(tmp_path / f"{turn}{gone}", frame.filter(pl.col("patient") != gone), groups)
            moved = {key: keys.get(key, 0) - other[0].get(key, 0) for key in keys | other[0]}
            assert set(moved.values()) <= {0, 1}
            assert sum(moved.values()) <= groups
            assert np.abs(rows - other[1]).sum() <= ROWS
            assert (rows - other[1])[: len(KEYS)].astype(bool).sum() <= groups
            assert np.abs(people - other[2]).max() <= 1
            assert np.abs(people - other[2]).sum() <= groups + 2
            reached.add(sum(moved.values()))
    assert groups in reached


def test_without_the_bound_a_unit_changes_more_keys(tmp_path: Path):
    """The twin: the same tables by the handle that bounds nothing; and by keys in the order of their texts,

    where what another row says decides which key a row has.
    """
    frame = rows_of(Random("twin"))
    found = {}
    for name, rows in (("all", frame), ("less", frame.filter(pl.col("patient") != "p0"))):
        table, contract, _ = taken(tmp_path / name, rows, 1)
        keys, units = SnapshotKeys(table, contract).keys("note")._read()
        found[name] = dict(zip(keys, units.tolist(), strict=True))
    assert sum(found["all"].values()) - sum(found["less"].values()) > 1


def test_which_keys_are_kept_no_value_decides(tmp_path: Path):
    """With all notes renamed one by one, the rows that keep a key are the same ones; and each unit has its number."""
    frame = rows_of(Random("order"))
    renamed = {key: f"z{len(KEYS) - place}" for place, key in enumerate(KEYS)}
    other = frame.with_columns(pl.col("note").replace(renamed))
    kept = []
    for name, rows in (("a", frame), ("b", other)):
        table, _, _ = taken(tmp_path / name, rows, 2)
        with duckdb.connect(str(table.path), read_only=True) as connection:
            found = connection.execute(first_keys("note", "patient", 2)).fetchall()
        kept.append({number for _, _, number in found})
        by_unit: dict[str, set[str]] = {}
        for text, unit, _ in found:
            by_unit.setdefault(unit, set()).add(text)
        assert max(map(len, by_unit.values())) == 2
    assert kept[0] == kept[1]


def test_a_price_for_fewer_cells_than_the_snapshot_was_bounded_to_is_refused(tmp_path: Path):
    """The sensitivity is the snapshot's own: a spec's word alone bounds nothing (law 1)."""
    table, contract, counted = taken(tmp_path, rows_of(Random("bound")), 2)
    reader = SnapshotKeys(table, contract)
    for bounds, cells in (({"note": 2}, 3), ({}, 4), ({"note": 3}, 4)):
        recoded, with_keys = reader.recoded({"note": sorted(KEYS)}, (), bounds)
        with pytest.raises(ValueError, match=f"the distinct count says {cells}"):
            SnapshotSums(recoded, with_keys).sums(("note",), [replace(counted, most_cells=cells)])
    recoded, with_keys = reader.recoded({"note": sorted(KEYS)}, (), {"note": 2})
    assert SnapshotSums(recoded, with_keys).sums(("note",), [counted])
    with pytest.raises(ValueError, match="in any number of cells"):
        SnapshotSums(recoded, with_keys).sums((), [counted])
