"""Statistics against their publisher: whoever owns the key signs anything, and verify says what does not add up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.records.statistics_fields import values_digest
from tests.tasks.verification.forgeries import event, of_terms
from tests.tasks.verification.forgery import (
    Change,
    Forgery,
    Json,
    both,
    drawn,
    edit,
    forge,
    load,
    moved,
    of_kind,
    replay,
    set_cell,
)
from tests.worlds.statistics import gaussian, pure
from tests.worlds.versions import Version, Worlds, broken, publish_version

WARD, BILLS, CSV = "data/ward.parquet", "data/bills.parquet", "data/ward.csv"
AGES = "measurements/0000-ward_x_age.parquet"


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(pure())


def restated(folder: Path, name: str, place: int) -> None:
    """State the digest of a table's numbers as they are in its file now."""
    values = pq.read_table(folder / name)
    by = load(folder / "record.json")["replay"]["tables"][place]["columns"]
    arrays = {column: values.column(column).to_numpy() for column in values.column_names[len(by) :]}
    digest = values_digest(arrays)
    edit(folder / "record.json", lambda record: record["replay"]["tables"][place].update(sha256=digest))


def cell(
    column: str, row: int, change: Callable[[Any], Any], name: str = WARD, place: int = 0
) -> Callable[[Path], None]:
    """Change a published number, in Parquet and in the digest that the record states."""

    def files(folder: Path) -> None:
        values = pq.read_table(folder / name).column(column).to_numpy()
        set_cell(folder / name, column, row, change(values[row]))
        restated(folder, name, place)

    return files


def in_csv(folder: Path) -> None:
    lines = (folder / CSV).read_text().splitlines()
    lines[2] = lines[2].replace(",false", ",true")
    (folder / CSV).write_text("\n".join(lines) + "\n")


def swap(values: list[Any]) -> None:
    values[1], values[2] = values[2], values[1]


def swapped_entries(entries: list[Json]) -> None:
    """Exchange two draws in the plan and in the journal, their numbers kept."""
    swap(of_kind(entries, "charge_reserved")["events"])
    bodies = [each for each in entries if each["kind"] == "noise_drawn"]
    bodies[1]["body"], bodies[2]["body"] = bodies[2]["body"], bodies[1]["body"]
    for number, each in enumerate(bodies):
        each["body"]["number"] = number


def swapped_draws(record: Json) -> None:
    swap(record["draws"])
    for number, each in enumerate(record["draws"]):
        each["number"] = number


def of_product(change: Change) -> Change:
    return replay(lambda r: change(r["product"]))


def first_statistic(**changed: Any) -> Change:
    """State that the spec asked for another clip or step of the first table's ages."""
    return of_product(lambda p: p["tables"][0]["of"][1].update(changed))


FORGERIES = {
    # published numbers
    "another mean": Forgery({9}, files=cell("mean_age", 1, lambda v: v + 0.5), says="column mean_age, row 2"),
    "a mean moved by its last bit": Forgery(
        {9}, files=cell("mean_age", 0, lambda v: np.nextafter(v, 99)), says="row 1"
    ),
    "a shorter interval": Forgery({9}, files=cell("mean_age_low", 2, lambda v: v + 0.01), says="column mean_age_low"),
    "another count": Forgery({9}, files=cell("count", 3, lambda v: v + 1), says="column count, row 4"),
    "another sum": Forgery(
        {9}, files=cell("sum_bill_clipped", 4, lambda v: v + 2.5, BILLS, 1), says="column sum_bill_clipped, row 5"
    ),
    "not near zero": Forgery({9}, files=cell("near_zero", 0, lambda v: not v), says="column near_zero, row 1"),
    "somebody in a structural zero": Forgery(
        {9}, files=cell("count", 8, lambda v: 3, BILLS, 1), says="column count, row 9"
    ),
    "another digest of a table": Forgery(
        {9}, replay(lambda r: r["tables"][0].update(sha256="0" * 64)), says="sha256 of ward"
    ),
    "a number, not in the record": Forgery(
        {9}, files=lambda f: set_cell(f / WARD, "count", 0, 10**6), says="column count"
    ),
    "another flag in CSV": Forgery({9}, files=in_csv, says="data/ward.csv: column near_zero"),
    # what was drawn
    "another noisy part": Forgery({8, 9}, files=moved(AGES, 1, 50), says="when it was drawn"),
    "less variance": Forgery(
        {8}, files=lambda f: set_cell(f / AGES, "variance", 3, 0.5), says="column variance, row 4"
    ),
    "a part that is a structural zero": Forgery(
        {8}, files=lambda f: set_cell(f / AGES, "structural_zero", 2, True), says="column structural_zero, row 3"
    ),
    "the sensitivity of a row that weighs 1": Forgery({6, 7}, *event(0, moves=[1]), says="[99]"),
    "the sensitivity of two numbers": Forgery({6, 7}, *event(0, moves=[33, 33]), says="1 rows a unit that move [99]"),
    "less noise than was charged": Forgery(
        {6, 7}, *event(1, inverse_scale="1/100"), says="recomputed from the event"
    ),
    "a rational of other terms": Forgery(
        {7}, *event(0, lambda e: e.update(inverse_scale=of_terms(e["inverse_scale"], 7))), says="lowest terms"
    ),
    # the lattice
    "a wider clip": Forgery({5, 6}, drawn(0, "addends", high="199"), says="within the bounds [0, 99]"),
    "a narrower clip": Forgery({5, 6}, drawn(0, "addends", high="98"), says="replay.draws"),
    "a narrower clip, in the spec too": Forgery(
        {6}, both(drawn(0, "addends", high="90"), first_statistic(clip=["0", "90"])), says="[90]"
    ),
    "a wider clip, in the spec too": Forgery(
        {5}, both(drawn(0, "addends", high="199"), first_statistic(clip=["0", "199"])), says="within the bounds"
    ),
    "another step": Forgery({5, 6}, drawn(0, "addends", step="3"), says="replay.draws"),
    "another step, in the spec too": Forgery(
        {6}, both(drawn(0, "addends", step="3"), first_statistic(step="3")), says="[33]"
    ),
    "another column": Forgery({5, 6}, drawn(0, "addends", column="bill"), says="replay.draws"),
    "no missing values": Forgery({5, 6}, drawn(0, "addends", counts_missing=False), says="counts_missing"),
    "missing values": Forgery({5, 6}, drawn(1, "addends", counts_missing=True), says="counts_missing"),
    # tables and draws
    "two draws swapped": Forgery({5, 6}, replay(lambda r: swap(r["draws"])), says="replay.draws"),
    "two draws swapped, in the journal too": Forgery(
        {5, 6}, replay(swapped_draws), swapped_entries, says="replay.draws"
    ),
    "a table less": Forgery({5}, replay(lambda r: r["tables"].pop()), says="replay.tables"),
    "a table less, in the spec too": Forgery(
        {5, 6}, replay(lambda r: (r["tables"].pop(), r["product"]["tables"].pop())), says="replay.draws"
    ),
    "a draw less": Forgery({5, 6}, replay(lambda r: r["draws"].pop()), says="number of draws"),
    "the draws of another table": Forgery(
        {5}, replay(lambda r: r["tables"][0].update(draws=["table:all/age"])), says="replay.tables"
    ),
    "the file of another table": Forgery(
        {5}, replay(lambda r: r["tables"][0].update(data=BILLS)), says="replay.tables"
    ),
    "tables in another order": Forgery({5}, replay(lambda r: r["tables"].reverse()), says="replay.tables"),
    "columns in another order": Forgery(
        {5, 6},
        replay(lambda r: (r["draws"][1]["clique"].reverse(), r["tables"][1]["columns"].reverse())),
        says="replay.tables",
    ),
    "another shape": Forgery({6}, drawn(0, shape=[2, 6]), says="shape"),
    "the file of another draw": Forgery({5, 6}, drawn(2, measurements=AGES), says="measurements"),
    # the product
    "noise of another kind": Forgery(
        {6}, of_product(lambda p: p.update(mechanism="gaussian")), says="discrete_gaussian"
    ),
    "another weight": Forgery(
        {6}, of_product(lambda p: p["tables"][0].update(weight="3")), says="the share of the charge"
    ),
    "another statistic": Forgery(
        {9}, of_product(lambda p: p["tables"][0]["of"][1].update(what="sum")), says="sum_age"
    ),
    "a statistic less": Forgery({9}, of_product(lambda p: p["tables"][0]["of"].pop(0)), says="count"),
    "statistics of a column without bounds": Forgery(
        {5}, of_product(lambda p: p["tables"][0]["of"][1].update(column="ward")), says="a column without bounds"
    ),
    "a statistic in its short form": Forgery(
        {5}, of_product(lambda p: p["tables"][0]["of"].__setitem__(0, "count")), says="another form"
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_consistent_forgery_is_caught_by_the_rule_it_breaks(published: Version, tmp_path: Path, name: str):
    FORGERIES[name].check_found(published.copy(tmp_path / "v"), alone=True)


def test_the_forger_s_tools_alone_change_nothing(version: Version):
    """Re-signed and re-chained without a change, a version passes: what is caught is caught for its content."""
    restated(version.folder, WARD, 0)
    forge(version).assert_verifies()


HOSTILE = (
    *("", "NaN", "Infinity", "-0", "0x10", "9" * 400, "1e999999999"),
    *("1e-999999999", "1_0", " 1", "1.0", "abc", "-1e6"),
)


@pytest.mark.long
@pytest.mark.parametrize("end", ["low", "high", "step"])
def test_a_lattice_that_is_none_is_a_finding_and_bounded_work(version: Version, end: str):
    """Texts that are no number, not in their one form, or would be a gigabyte written out; never a traceback."""
    before = load(version.folder / "record.json")["replay"]["draws"][0]["addends"][end]
    for text in HOSTILE:
        report = forge(version, record=drawn(0, "addends", **{end: text})).verify()
        assert broken(report) & {5, 6}, text
        assert "replay.draws" in str(report.findings), text
    forge(version, record=drawn(0, "addends", **{end: before}))
    assert version.verify().ok


@pytest.mark.long
def test_half_the_moves_of_units_under_replace_one_are_too_few(tmp_path: Path):
    """Three rows a unit: the worst neighbour moves 3 widths out of a cell, and 3 into another."""
    version = publish_version(gaussian(), tmp_path / "made").copy(tmp_path / "v")
    for steps in ([297], [99, 99], [297, 296]):
        record, journal = event(0, moves=steps)
        report = forge(version, record=record, journal=journal).verify()
        assert 6 in broken(report)
        assert "[297, 297], under replace_one with 3 rows a unit that move [99]" in str(report.findings)
