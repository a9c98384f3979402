"""The minimum-frequency rule from the spec to a version: what is missing in its files, what verify refuses of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.tasks.verification.forgery import Forgery, Json, digest_of, edit_table, forge, load, replay
from tests.worlds.tables import Scenario, second
from tests.worlds.versions import Version, Worlds, broken, publish_version

TABLES = "[{columns: [wage, trade], name: pay}, [hired], [hired, trade]]"
RULE = "{k: 10, t: auto, at_most: 0.01}"


def suppressing(rule: str = RULE, tables: str = TABLES) -> Scenario:
    """The guild's tables, unrefined, with structural zeros; small noisy counts are suppressed."""
    base = second()
    written = base.spec[base.spec.index("{kind: tables") : base.spec.index("publish:")]
    product = f"{{kind: tables, mechanism: gaussian, tables: {tables}, minimum_frequency: {rule}}}\n"
    return replace(base, spec=base.spec.replace(written, product), before=0)


@pytest.fixture(scope="module")
def version(worlds: Worlds) -> Version:
    return worlds.published(suppressing())


def processed(version: Version, table: str) -> Json:
    entry: Json = next(each for each in version.words["product.tables"] if each["table"] == table)
    return entry


def rule_of(version: Version, table: str) -> Json:
    told: Json = processed(version, table)["minimum_frequency"]
    return told


@pytest.mark.long
def test_a_release_with_suppressed_cells_is_published_and_verified(version: Version):
    version.assert_verifies()


@pytest.mark.parametrize("name", ["pay", "hired", "hired_x_trade"])
def test_nothing_of_a_suppressed_cell_is_published(version: Version, name: str):
    """Count, noisy count and intervals are missing exactly where `suppressed` says so; the others are large."""
    least = rule_of(version, name)["threshold"]
    measured = pq.read_table(version.folder / f"measurements/{name}.parquet")
    data = pq.read_table(version.folder / f"data/{name}.parquet")
    gone = measured.column("suppressed").to_numpy()
    impossible = measured.column("structural_zero").to_numpy()
    for table, columns, hidden in (
        (measured, ("noisy", "lower", "upper"), gone),
        (data, ("count", "lower", "upper"), gone & ~impossible),
    ):
        for column in columns:
            np.testing.assert_array_equal(table.column(column).is_null().to_numpy(), hidden)
        np.testing.assert_array_equal(table.column("suppressed").to_numpy(), hidden)
    counts = data.column("count").to_pylist()
    assert all(
        count is None or count >= least or (count == 0 and impossible[row]) for row, count in enumerate(counts)
    )
    csv = (version.folder / f"data/{name}.csv").read_text().splitlines()[1:]
    assert [line.endswith(",,,,true") for line in csv] == (gone & ~impossible).tolist()


def test_some_cells_are_suppressed_and_some_are_not(version: Version):
    """Otherwise the tests above would say nothing."""
    gone = pq.read_table(version.folder / "data/hired_x_trade.parquet").column("suppressed").to_numpy()
    assert gone.any()
    assert not pq.read_table(version.folder / "data/hired.parquet").column("suppressed").to_numpy().all()


def test_the_record_states_the_rule_and_what_it_does(version: Version):
    rule = rule_of(version, "pay")
    assert (rule["k"], rule["threshold"]) == (10, 10 + rule["t"])
    assert 0 < float(rule["published_although_below_k"]) <= 0.01
    assert [row["exact"] for row in rule["effect"]][:4] == [0, 1, 9, 10]
    record = load(version.folder / "record.json")
    assert record["replay"]["product"]["minimum_frequency"] == {"k": 10, "t": "auto", "at_most": "0.01"}
    assert "by the minimum-frequency rule" in version.words["product.suppression"]
    assert "above the exact one" in processed(version, "pay")["known_bias"]
    assert "suppressed, before they were written" in " ".join(processed(version, "pay")["steps"])


def test_the_page_says_below_and_shows_no_number_of_a_suppressed_cell(version: Version):
    page = (version.folder / "record.html").read_text()
    threshold = rule_of(version, "hired_x_trade")["threshold"]
    assert f"Cells suppressed, below {threshold}" in page
    assert f"published: at most {rule_of(version, 'hired_x_trade')['published_although_below_k']}." in page
    assert f">below {threshold}<" in page
    assert "their intervals miss more often" in page


def test_a_written_margin_is_followed(tmp_path: Path):
    made = publish_version(suppressing("{k: 3, t: 0}"), tmp_path)
    assert made.verify().ok
    assert {rule_of(made, name)["threshold"] for name in ("pay", "hired")} == {3}


def test_the_page_calls_no_suppressed_cell_one_of_the_largest(tmp_path: Path):
    """Where all possible cells are suppressed, the page of a large table draws none of them and counts them once."""
    made = publish_version(suppressing("{k: 1000000, t: 0}", "[[hired, wage, trade]]"), tmp_path)
    page = (made.folder / "record.html").read_text()
    assert ">below 1,000,000<" not in page
    assert "suppressed (below 1,000,000) or 0" in page
    assert "1 to 9</th>" not in page


def filled_in(folder: Path, path: str, columns: dict[str, int]) -> None:
    """Give the first cell that is suppressed in the data values in a file, as if it had been published."""
    gone = pq.read_table(folder / "data" / Path(path).name).column("suppressed").to_numpy()
    row = int(np.flatnonzero(gone)[0])

    def change(table: pa.Table) -> pa.Table:
        for name, value in {**columns, "suppressed": False}.items():
            values = table.column(name).to_pylist()
            values[row] = value
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
        return table

    edit_table(folder / path, change)


def unsuppressed(folder: Path) -> None:
    """Publish the first suppressed cell as if its noisy count had been 500."""
    shown = pq.read_table(folder / "measurements/hired_x_trade.parquet").filter(pc.field("noisy") > 0)
    width = shown.column("upper")[0].as_py() - shown.column("noisy")[0].as_py()
    ends = {"lower": 500 - width, "upper": 500 + width}
    filled_in(folder, "measurements/hired_x_trade.parquet", {"noisy": 500, **ends})
    filled_in(folder, "data/hired_x_trade.parquet", {"count": 500, **ends})
    csv = folder / "data/hired_x_trade.csv"
    csv.write_text(csv.read_text().replace(",,,,true", f",500,{500 - width},{500 + width},false", 1))


def half_unsuppressed(folder: Path) -> None:
    filled_in(folder, "data/hired_x_trade.parquet", {"count": 500, "lower": 480, "upper": 520})


def shown_beside_the_mark(folder: Path) -> None:
    """A value in a cell that is still marked as suppressed."""

    def change(table: pa.Table) -> pa.Table:
        values = [7 if value is None else value for value in table.column("noisy").to_pylist()]
        place = table.schema.get_field_index("noisy")
        return table.set_column(place, "noisy", pa.array(values, pa.int64()))

    edit_table(folder / "measurements/hired_x_trade.parquet", change)


def one_more(folder: Path) -> None:
    """Suppress a published cell of the data."""

    def change(table: pa.Table) -> pa.Table:
        row = int(np.flatnonzero(~table.column("suppressed").to_numpy())[0])
        for name in ("count", "lower", "upper", "suppressed"):
            values: list[Any] = table.column(name).to_pylist()
            values[row] = True if name == "suppressed" else None
            place = table.schema.get_field_index(name)
            table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
        return table

    edit_table(folder / "data/hired.parquet", change)


def without_the_mark(folder: Path) -> None:
    edit_table(folder / "data/hired.parquet", lambda table: table.drop_columns(["suppressed"]))


def rule(**changed: object) -> Forgery:
    change = replay(lambda r: r["product"]["minimum_frequency"].update(changed))
    return Forgery({8, 9}, change, says="SHA-256 of column noisy")


FORGED = {
    "a suppressed cell unsuppressed": Forgery({8, 9}, files=unsuppressed, says="when it was drawn"),
    "a suppressed cell with a count": Forgery({9}, files=half_unsuppressed, says="column suppressed"),
    "values beside the mark": Forgery({8}, files=shown_beside_the_mark, says="none: the cell is suppressed"),
    "one more suppressed": Forgery({9}, files=one_more, says="column suppressed"),
    "no marks": Forgery({9}, files=without_the_mark, says="columns"),
    "a lower k": rule(k=3),
    "a higher bound of the probability": rule(at_most="0.2"),
    "no rule": Forgery({8, 9}, replay(lambda r: r["product"].update(minimum_frequency=None)), says="columns"),
    "a rule that is none": Forgery(
        {5}, replay(lambda r: r["product"]["minimum_frequency"].update(at_most=None)), says="at_most"
    ),
    "a rule with a method that reads all cells": Forgery(
        {5}, replay(lambda r: r["product"]["refine"].update(method="simplex")), says="method none"
    ),
    "a CSV with a count": Forgery(
        {9},
        files=lambda f: (f / "data/hired_x_trade.csv").write_text(
            (f / "data/hired_x_trade.csv").read_text().replace(",,,,true", ",5,1,9,false", 1)
        ),
        says="data/hired_x_trade.csv",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_consistent_forgery_of_suppressed_tables_is_caught(version: Version, tmp_path: Path, name: str):
    FORGED[name].check_found(version.copy(tmp_path / "v"), alone=True)


def test_an_unsuppressed_cell_is_caught_with_the_digests_of_the_record_made_to_fit(version: Version, tmp_path: Path):
    """The digest in the journal is that of the censored values: no file with another one passes."""
    forged = version.copy(tmp_path / "v")
    unsuppressed(forged.folder)

    def record(value: Json) -> None:
        path = forged.folder / "data/hired_x_trade.parquet"
        value["replay"]["tables"][2]["sha256"] = digest_of_filled(
            path, rule_of(version, "hired_x_trade")["threshold"]
        )

    report = forge(forged, record=record).verify()
    assert broken(report) == {8, 9}, report.findings  # and people are told of another distance to the noisy counts


def digest_of_filled(path: Path, threshold: int) -> str:
    edited = path.with_name("filled.parquet")
    counts = [threshold - 1 if each is None else each for each in pq.read_table(path).column("count").to_pylist()]
    pq.write_table(pa.table({"count": pa.array(counts, pa.int64())}), edited)
    digest = digest_of(edited, "count")
    edited.unlink()
    return digest
