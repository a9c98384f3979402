"""Versions with survey weights: they verify, say what they hide, and forgeries of the weight are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from contracts.domains.addends import WeightedCount
from tests.tasks.verification.forgery import Forgery, Json, load, set_cell
from tests.worlds.statistics import StatisticsScenario, of_tables, three_rows
from tests.worlds.versions import Worlds

TABLES = """[
  {by: [ward], of: [count, {mean: bill}, {sum: bill, step: 0.5}], survey_weight: age},
  {by: [ward, age], name: wards, of: [count], survey_weight: {column: bill, clip: [0, 400], step: 2.5}},
  {by: [], of: [count, {quantiles: [0.25, 0.5], of: age}, {mean: age}], survey_weight: {column: bill, step: 100}}]"""
WARD = "data/ward.parquet"
BILLS, WARDS = "measurements/0000-ward_x_bill.parquet", "measurements/0001-ward_x_age_x_bill.parquet"


def laplace() -> StatisticsScenario:
    """Weights that may be missing and weights that are mapped, broken steps, excluded cells; Parquet and CSV."""
    return replace(of_tables(TABLES, release="weighted"), formats="[parquet, csv]")


@pytest.mark.long
@pytest.mark.parametrize("scenario", [laplace(), three_rows(TABLES)], ids=["laplace", "gaussian"])
def test_a_version_with_weights_verifies(worlds: Worlds, scenario: StatisticsScenario) -> None:
    """All rules; the moves of each draw are those of rows that weigh the largest weight."""
    version = worlds.published(scenario)
    version.assert_verifies()
    draws = load(version.folder / "record.json")["replay"]["draws"]
    sides = [1] if scenario.delta == "0" else [3, 3]
    assert [each["event"]["moves"] for each in draws] == [
        [k * 1800 * 99 for k in sides],
        [k * 160 for k in sides],
        [k * 99 * 9 for k in sides],
        [k * 9 for k in sides * (len(draws[3]["event"]["moves"]) // len(sides))],
    ]
    assert draws[0]["addends"]["weight"]["column"] == "age"
    assert draws[1]["addends"]["counts_rows"] is True


def test_statistics_follow_from_the_noisy_numbers(worlds: Worlds) -> None:
    """A second derivation by exact fractions of every estimate that nothing cuts."""
    folder = worlds.published(laplace()).folder
    rows = pq.read_table(folder / WARD).to_pylist()
    noisy = pq.read_table(folder / BILLS).column("noisy").to_numpy().reshape(len(rows), -1).tolist()
    for row, (above, below) in zip(rows, noisy, strict=True):
        assert abs(row["count"] - Fraction(above + below, 1800)) <= Fraction(1, 2)
        off = (row["mean_bill_high"] - row["mean_bill_low"]) / 3.92 / 20  # half of a tenth of the standard error
        assert row["mean_bill"] == pytest.approx(900 * above / (above + below), abs=off)
        assert row["sum_bill"] == pytest.approx(above / 2, abs=0.26)
    wards = pq.read_table(folder / "data/wards.parquet").to_pylist()
    noisy = pq.read_table(folder / WARDS).column("noisy").to_numpy().tolist()
    zeros = pq.read_table(folder / WARDS).column("structural_zero").to_numpy().tolist()
    assert [row["count"] for row in wards] == [
        0 if zero else max(0, each) * 2.5 for each, zero in zip(noisy, zeros, strict=True)
    ]


def test_published_numbers_are_near_those_of_the_rows(worlds: Worlds) -> None:
    """Weighted sums of the frame itself, clipped and rounded, lie within 20 deviations of what is published."""
    scenario = laplace()
    version, frame = worlds.published(scenario), scenario.frame()
    age = np.clip(frame["age"].fill_null(0).to_numpy(), 0, 99)
    bill = np.clip(np.nan_to_num(frame["bill"].to_numpy()), 0, 900)
    bill, ward = np.round(bill * 2) / 2, frame["ward"].to_numpy()
    for row in pq.read_table(version.folder / WARD).to_pylist():
        here = ward == row["ward"] if row["ward"] != "(null)" else ward == "nowhere"
        if row["ward"] != "children":  # ages from 75 on are excluded there
            assert abs(row["count"] - age[here].sum()) < 10 * (row["count_high"] - row["count_low"])
            assert abs(row["sum_bill"] - (age * bill)[here].sum()) < 10 * (row["sum_bill_high"] - row["sum_bill_low"])
    (everybody,) = pq.read_table(version.folder / "data/all.parquet").to_pylist()
    weights = np.clip(np.floor(np.nan_to_num(frame["bill"].to_numpy()) / 100 + 0.5), 0, 9) * 100
    wide = everybody["count_high"] - everybody["count_low"]
    assert abs(everybody["count"] - weights.sum()) < 10 * wide


def test_the_record_says_by_what_rows_are_weighed(worlds: Worlds) -> None:
    words = worlds.published(laplace()).words
    tables = words["product.tables"]
    assert [each["survey_weight"]["column"] for each in tables] == ["age", "bill", "bill"]
    assert tables[1]["survey_weight"] == {"column": "bill", "clip": "[0, 400]", "steps_of": "2.5"}
    assert any("as often as its weight says" in each for each in words["product.known_bias"])
    errors = [each for each in words["utility.expected_error"] if each["statistic"] == "mean_bill"]
    assert [each["rows"] for each in errors] == [1000, 10_000, 100_000]
    page = (worlds.published(laplace()).folder / "record.html").read_text()
    assert "every row counts as often as age says: weights above 99 count as 99" in page
    assert "in a cell of weight 10,000" in page
    assert "bill, up to 400: counts are sums of it" in page


def _weight(place: int, **changed: object) -> Callable[[Json], object]:
    """State another weight of a draw."""
    return lambda record: record["replay"]["draws"][place]["addends"]["weight"].update(changed)


def _addends(place: int, **changed: object) -> Callable[[Json], object]:
    return lambda record: record["replay"]["draws"][place]["addends"].update(changed)


def _without(place: int, key: str) -> Callable[[Json], object]:
    return lambda record: record["replay"]["draws"][place]["addends"].pop(key)


def _moves(place: int, moves: list[int]) -> Callable[[Json], object]:
    return lambda record: record["replay"]["draws"][place]["event"].update(moves=moves)


def _of_spec(**changed: object) -> Callable[[Json], object]:
    """State another weight of the second table, in the spec and in its draw."""

    def record(record: Json) -> None:
        record["replay"]["product"]["tables"][1]["survey_weight"].update(changed)
        ends = {key: value for key, value in changed.items() if key == "step"}
        ends |= {"high": changed["clip"][1]} if "clip" in changed else {}  # type: ignore[index]
        _addends(1, **ends)(record)

    return record


FORGERIES = {
    "a weight that moves less": Forgery({6}, record=_moves(0, [1800]), says="[178200]"),
    "a count that moves 1": Forgery({6}, record=_moves(1, [1]), says="[160]"),
    "a lower clip of the weight": Forgery({6}, record=_weight(0, high="50"), says="[90000]"),
    "a coarser step of the weight": Forgery({6}, record=_weight(0, step="33"), says="[5400]"),
    "a weight that does not start at 0": Forgery({6}, record=_weight(0, low="9"), says="a weight that starts at 0"),
    "a weight above its bounds": Forgery({6}, record=_weight(0, high="198"), says="within the bounds [0, 99]"),
    "a weight of another column": Forgery({6}, record=_weight(0, column="floor"), says="a column of weights"),
    "missing weights counted otherwise": Forgery(
        {6}, record=_weight(0, counts_missing=False), says="as the contract says"
    ),
    "a weight that is no number": Forgery({6}, record=_weight(0, step="fine"), says="no lattice"),
    "no weight": Forgery({6}, record=_without(0, "weight"), says="[1800]"),
    "values in place of a count": Forgery({6}, record=_without(1, "counts_rows"), says="replay.draws"),
    "a count in place of values": Forgery({6}, record=_addends(0, counts_rows=True), says="no lattice"),
    "a count by resolution": Forgery({6}, record=_addends(1, resolution="5"), says="no lattice"),
    "another clip, in the spec too": Forgery({6}, record=_of_spec(clip=["0", "200"]), says="[80]"),
    "another step, in the spec too": Forgery({6}, record=_of_spec(step="5"), says="[80]"),
    "a noisy count": Forgery({8}, files=lambda folder: set_cell(folder / WARDS, "noisy", 3, 10**6)),
    "a weighted count": Forgery({9}, files=lambda folder: set_cell(folder / WARD, "count", 0, 5.0)),
    "an end of a weighted count": Forgery(
        {9}, files=lambda folder: set_cell(folder / "data/wards.parquet", "count_high", 1, 2.5)
    ),
    "a weighted mean": Forgery({9}, files=lambda folder: set_cell(folder / WARD, "mean_bill", 0, 1.0)),
    "a weighted quantile": Forgery(
        {9}, files=lambda folder: set_cell(folder / "data/all.parquet", "q25_age", 0, 1.0)
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, name: str) -> None:
    """Everything is signed again; other rules may break beside it, since words and losses follow from the record."""
    FORGERIES[name].check_found(worlds.published(laplace()).copy(tmp_path / "v"))


def test_a_count_alone_is_read_as_it_was_stated(worlds: Worlds) -> None:
    """The statement gives the addends again, with the numbers of their lattice."""
    from tasks.records.draws.draws import AddendsStatement

    stated = load(worlds.published(laplace()).folder / "record.json")["replay"]["draws"][1]["addends"]
    addends = AddendsStatement.model_validate(stated).addends
    assert isinstance(addends, WeightedCount)
    assert (addends.weight.high, addends.weight.step, addends.weight.width) == (400, Decimal("2.5"), 160)
