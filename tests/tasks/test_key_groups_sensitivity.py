"""A unit is in at most so many keys as the spec says: by brute force, from the file to the numbers that get noise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import duckdb
import numpy as np
import polars as pl
import pytest

from contracts.contract.contract import Contract
from contracts.domains.addends import DistinctCount
from contracts.release.statistics import statistics_product
from contracts.release.survey_weight import most_cells
from privacy.grant.queries.cell_sums import CellSumQuery
from privacy.grant.queries.query import Relation
from privacy.marginals.sensitivity import LaplaceNoise
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotKeys, SnapshotSums, first_keys
from privacy.statistics.plan import StatisticsPlan
from tasks.ingest import ingest
from tests.tasks.intake import KEY
from tests.worlds.private_keys import few_groups

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
def test_a_unit_changes_no_more_keys_than_the_spec_says(tmp_path: Path, groups: int) -> None:
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


def test_without_the_bound_a_unit_changes_more_keys(tmp_path: Path) -> None:
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


def test_which_keys_are_kept_no_value_decides(tmp_path: Path) -> None:
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


def test_a_price_for_fewer_cells_than_the_snapshot_was_bounded_to_is_refused(tmp_path: Path) -> None:
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
