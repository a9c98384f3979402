"""Versions with units and distinct values: they verify, follow from the rows, and forgeries of them are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

from contracts.domains.addends import DistinctCount
from privacy.snapshots.snapshot import SnapshotSums
from privacy.statistics.plan import StatisticsPlan
from tests.tasks.verification.forgery import Forgery, Json, forge, load, set_cell
from tests.worlds.distinct_counts import gaussian, laplace, of_keys
from tests.worlds.private_keys import COMMON, KeyScenario
from tests.worlds.versions import Version, Worlds

SCENARIOS = {"laplace": laplace, "gaussian": gaussian, "keys": of_keys}
OF_WARDS = {"units": 1, "note": 2, "floor": 3}
"""Places of the draws of the first table, after its counts."""


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_version_verifies_by_all_rules(worlds: Worlds, scenario: Callable[[], KeyScenario]) -> None:
    """Both adjacencies, texts and declared columns, a survey weight and selected keys beside."""
    report = worlds.published(scenario()).verify(deep=True)
    assert report.ok, report.findings
    assert not [check for check in report.checks if check.skipped]


@pytest.mark.long
@pytest.mark.parametrize("scenario", [laplace, gaussian], ids=["laplace", "gaussian"])
def test_published_numbers_are_possible_ones(worlds: Worlds, scenario: Callable[[], KeyScenario]) -> None:
    """Whole, between 0 and what the contract declares, the estimate within its interval; excluded cells are 0."""
    version = worlds.published(scenario())
    most = {
        "distinct_floor": 3,
        "distinct_age": 100,
        "distinct_bill": 9001,
        "distinct_arrived": 4,
        "distinct_ward": 3,
    }
    seen = set()
    for path in (version.folder / "data").glob("*.parquet"):
        table = pl.read_parquet(path)
        for name in [each for each in table.columns if each in most or each in ("units", "distinct_note")]:
            value, low, high = (table[f"{name}{end}"] for end in ("", "_low", "_high"))
            assert {each.dtype for each in (value, low, high)} == {pl.Int64}
            assert ((low >= 0) & (low <= value) & (value <= high)).all()
            assert (high <= most.get(name, 10**9)).all()
            seen.add(name)
        if path.stem == "zeros":
            assert "near_zero" not in table.columns  # nothing of it counts rows
            (empty,) = [
                r for r in table.rows(named=True) if r["ward"] == "children" and str(r["age"]).startswith("75")
            ]
            assert {empty[name] for name in table.columns[2:]} == {0}
    assert seen == {*most, "units", "distinct_note"}


def told_apart(rows: pl.DataFrame, column: str | None) -> int:
    """Count units or different values by hand: ages and bills are clipped, missing bills are 0, floors else are 9."""
    if column is None:
        return rows["patient"].n_unique()
    values = rows[column].to_list()
    if column == "note":
        values = [None if text is None else text.strip(" ") for text in values]
        fit = lambda text: text not in (None, "", "none", "(null)", "(others)", "a; =1+1", "bell\x07")  # noqa: E731
        return len({text for text in values if fit(text) and len(text) <= 40 and "\u202e" not in text})
    if column == "age":
        return len({min(99, max(0, age)) for age in values if age is not None})
    if column == "bill":
        steps = np.floor(np.clip(np.nan_to_num(np.array(values, dtype=float)), 0, 900) / 0.1 + 0.5)
        return int(np.unique(steps).size)
    if column == "ward":
        return len({ward for ward in values if ward != "nowhere"})
    return len(set(values))


@pytest.mark.usefixtures("every_row_kept")
@pytest.mark.parametrize("scenario", [laplace, gaussian], ids=["laplace", "gaussian"])
def test_what_is_drawn_are_the_different_values_of_the_rows_that_are_kept(
    tmp_path: Path, scenario: Callable[[], KeyScenario]
) -> None:
    """Of the frame itself, by ward and over all rows. Moves: three rows of a unit, or it in three or six cells."""
    made = scenario()
    spec, contract, plan, ledger = made.prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    table = made.taken(tmp_path, spec, contract)
    with duckdb.connect(str(table.path), read_only=True) as connection:
        kept = connection.execute("SELECT * FROM raw").pl()
    assert kept.group_by("patient").len()["len"].max() == 3
    wards = contract.column("ward").domain.labels
    for draw in plan.draws:
        if not isinstance(draw.addends, DistinctCount) or draw.clique not in ((), ("ward",)):
            continue
        (handle,) = SnapshotSums(table, contract).sums(draw.clique, [draw.addends])
        exact = handle._read()
        groups = [kept] if not draw.clique else [kept.filter(pl.col("ward") == ward) for ward in wards[:-1]]
        found = [told_apart(each, draw.addends.column) for each in groups]
        assert exact.reshape(-1)[: len(found)].tolist() == found, draw.key
    moves = {draw.key: draw.event.moves for draw in plan.draws if isinstance(draw.addends, DistinctCount)}
    sides = 1 if contract.adjacency == "add_remove" else 2
    assert moves["table:ward/distinct/note"] == (3,) * sides
    assert moves["table:ward/units"] == (1,) * min(3 * sides, len(wards))
    assert moves["table:every/units"] == (1,)  # one cell holds a unit once, whatever its rows
    assert moves["table:every/distinct/age"] == (3,)
    assert moves["table:beside/units"] == (1,) * 3 * sides


def test_keys_have_their_units_and_the_notes_of_other_tables_are_told_apart(worlds: Worlds) -> None:
    """A selected key is one text; the cell of all others has many, that of missing ones none.

    stat: epsilon 8 in 5 draws and a selection: the scale of a number is at most 3 / 0.66 < 5, and 100 of it is
    exceeded with probability below 1e-8.
    """
    version = worlds.published(of_keys())
    [path] = (version.folder / "data").glob("insured*.parquet")
    table = pl.read_parquet(path).with_columns(pl.col(pl.Categorical).cast(pl.String))
    assert set(table["note"]) == {*(text.strip() for text in COMMON), "(others)", "(null)"}
    for row in table.rows(named=True):
        assert row["distinct_note"] <= 101 or row["note"] == "(others)"
        assert row["units_low"] <= row["count_high"] + 100
    assert table.filter(pl.col("note") == "(others)")["distinct_note"].max() > 200  # type: ignore[operator]
    wards = pl.read_parquet(version.folder / "data/ward.parquet")
    assert (wards["distinct_note"] > 10).sum() == 4  # each ward has some of hundreds of notes
    events = {each["key"]: each["event"] for each in load(version.folder / "record.json")["replay"]["draws"]}
    units = "table:insured_x_note/units"
    assert events[units]["moves"] == [1, 1, 1]  # how many cells there will be, nobody knows before


def _draw(record: Json, place: int) -> Json:
    draw: Json = record["replay"]["draws"][place]
    return draw


def _addends(place: int, **changed: Any) -> Callable[[Json], object]:
    """Change what a draw says that it told apart; None takes it out."""

    def change(record: Json) -> None:
        stated = _draw(record, place)["addends"]
        stated.update({key: value for key, value in changed.items() if value is not None})
        for key in [key for key, value in changed.items() if value is None]:
            stated.pop(key, None)

    return change


def _moves(place: int, moves: list[int]) -> Callable[[Json], object]:
    return lambda record: _draw(record, place)["event"].update({"moves": moves})


def _set(name: str, column: str, row: int, value: float) -> Callable[[Path], object]:
    return lambda folder: set_cell(folder / name, column, row, value)


FORGERIES = {
    "a noisy number of units": Forgery({8}, files=_set("measurements/0001-ward_x_units.parquet", "noisy", 1, 10**6)),
    "a noisy number of values": Forgery({8}, files=_set("measurements/0002-ward_x_note.parquet", "noisy", 1, 10**6)),
    "units": Forgery({9}, files=_set("data/ward.parquet", "units", 0, 4)),
    "an end of values": Forgery({9}, files=_set("data/ward.parquet", "distinct_note_high", 0, 10**6)),
    "values": Forgery({9}, files=_set("data/every.parquet", "distinct_age", 0, 7)),
    "rows of a unit that move one value": Forgery({6}, record=_moves(OF_WARDS["note"], [1])),
    "a unit in one cell": Forgery({6}, record=_moves(OF_WARDS["units"], [1])),
    "a unit in fewer cells, farther": Forgery({6}, record=_moves(OF_WARDS["units"], [3])),
    "texts that somebody declared": Forgery({6}, record=_addends(OF_WARDS["note"], values=1)),
    "fewer values than are declared": Forgery({6}, record=_addends(OF_WARDS["floor"], values=1)),
    "no values": Forgery({6}, record=_addends(OF_WARDS["floor"], values=0)),
    "values of a column that nobody counts": Forgery({6}, record=_addends(OF_WARDS["floor"], values=None)),
    "another column": Forgery({5}, record=_addends(OF_WARDS["note"], column="ward", values=3)),
    "no column of the contract": Forgery({6}, record=_addends(OF_WARDS["note"], column="patient")),
    "values that are units": Forgery({6}, record=_addends(OF_WARDS["note"], counts="units")),
    "units that are values": Forgery({6}, record=_addends(OF_WARDS["units"], counts="values")),
    "units of a column": Forgery({6}, record=_addends(OF_WARDS["units"], column="ward")),
    "cells that nobody declared": Forgery({6}, record=_addends(OF_WARDS["units"], declared_cells=False)),
    "a lattice": Forgery(
        {6},
        record=lambda record: _draw(record, OF_WARDS["floor"]).update(
            {"addends": {"column": "floor", "low": "0", "high": "9", "step": "1", "counts_missing": True}}
        ),
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, name: str) -> None:
    """Everything is signed again; other rules may break beside it, since words and losses follow from the record."""
    FORGERIES[name].check_found(worlds.published(laplace()).copy(tmp_path / "v"))


def test_the_forger_s_tools_alone_change_nothing(worlds: Worlds, tmp_path: Path) -> None:
    version: Version = worlds.published(laplace()).copy(tmp_path / "v")
    forge(version).assert_verifies()


def test_pages_say_what_was_told_apart(worlds: Worlds) -> None:
    """Each statistic by its name, what is a value, and what is known to be wrong."""
    page = " ".join((worlds.published(laplace()).folder / "record.html").read_text().split())
    for words in (
        "<b>privacy units</b>",
        "<b>different values of note</b>",
        "of the at most 3 rows",
        "at most 40 bytes",
    ):
        assert words in page
