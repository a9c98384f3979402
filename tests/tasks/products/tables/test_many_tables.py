"""Many tables under one charge, from the short form to a version that verify replays, and its forgeries."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.tasks.verification.forgery import Forgery, Json, forge, load, replay, set_cell
from tests.worlds.tables import Scenario, second
from tests.worlds.versions import Version, Worlds, broken, publish_version

TABLES = "[all 2-way, {columns: [hired], name: hirings, weight: 5}]"


def many_tables(refine: str = "{method: simplex}") -> Scenario:
    """All two-way tables of the guild and one of its one-way tables; the noise is chosen by its error."""
    base = second()
    written = base.spec[base.spec.index("{kind: tables") : base.spec.index("publish:")]
    product = f"{{kind: tables, mechanism: auto, tables: {TABLES}, split: optimal, refine: {refine}}}\n"
    return replace(base, spec=base.spec.replace(written, product), before=0)


@pytest.fixture(scope="module")
def many(worlds: Worlds) -> Version:
    return worlds.published(many_tables())


def test_every_table_of_the_short_form_is_published_and_verified(many: Version):
    assert many.verify().ok
    record = load(many.folder / "record.json")
    assert record["replay"]["product"]["tables"][0] == {"ways": 2, "of": None, "weight": "1"}
    names = [table["name"] for table in record["replay"]["tables"]]
    assert names == ["wage_x_hired", "wage_x_trade", "hired_x_trade", "hirings"]
    assert {f"data/{name}.parquet" for name in names} <= set(many.files)


def test_the_record_says_which_noise_was_chosen_and_what_each_would_err(many: Version):
    fields = many.words
    errors = {kind: float(error) for kind, error in fields["noise.mechanism_choice"]["expected_rmse"].items()}
    assert set(errors) == {"laplace", "gaussian"}
    assert fields["noise.mechanism"] == f"{min(errors, key=lambda noise: errors[noise])} mechanism on marginals"
    assert "public parameters alone" in fields["noise.mechanism_choice"]["by"]


FORGED = {
    "noise that errs more than the other": Forgery(
        {6, 10},
        replay(lambda r: r["charge"].update(delta="0.5")),
        says="discrete_gaussian, of which the error is least",
    ),
    "more ways": Forgery(
        {5, 6, 10}, replay(lambda r: r["product"]["tables"][0].update(ways=1)), says="as the product says"
    ),
    "too many ways": Forgery({5}, replay(lambda r: r["product"]["tables"][0].update(ways=7)), says="at most 3"),
    "fewer columns": Forgery(
        {5, 6, 10},
        replay(lambda r: r["product"]["tables"][0].update(of=["wage", "trade"])),
        says="as the product says",
    ),
    "another split": Forgery(
        {10}, replay(lambda r: r["product"].update(split="by_weight")), says="beliefs after the release"
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_consistent_forgery_of_many_tables_is_caught(many: Version, tmp_path: Path, name: str):
    FORGED[name].check_found(many.copy(tmp_path / "v"), alone=True)


@pytest.fixture(scope="module")
def sharp(worlds: Worlds) -> Version:
    """Noise so small that moving whole cells costs more than the average of all sums gains."""
    base = many_tables()
    return worlds.published(replace(base, spec=base.spec.replace("2.5", "19")))


def test_tables_with_little_noise_keep_their_own_sums_and_verify_chooses_alike(sharp: Version):
    sharp.assert_verifies()
    shared = load(sharp.folder / "record.json")["replay"]["total"]
    assert (shared["kind"], shared["kept"]) == ("estimated", "where_it_gains")
    totals = {table["table"]: table for table in sharp.words["product.tables"]}
    assert {table["total_from"] for table in totals.values()} == {"own", "estimated"}
    for name, table in totals.items():
        measured = pq.read_table(sharp.folder / f"measurements/{name}.parquet")
        possible = ~measured.column("structural_zero").to_numpy()
        own = int(measured.column("noisy").to_numpy()[possible].sum())
        assert table["total"] == (own if table["total_from"] == "own" else shared["value"])
        assert counts(sharp, name).sum() == table["total"]


def test_a_record_that_says_that_all_tables_keep_the_average_is_caught(sharp: Version, tmp_path: Path):
    version = forge(sharp.copy(tmp_path / "v"), record=replay(lambda r: r["total"].update(kept="by_all")))
    assert broken(version.verify()) == {9}


CONSISTENT = "{method: simplex, consistent: true}"
UNBIASED = "{method: none, integers: false, consistent: true}"


@pytest.fixture(scope="module")
def consistent(worlds: Worlds) -> Version:
    return worlds.published(many_tables(CONSISTENT))


def counts(version: Version, name: str) -> np.ndarray:
    values: np.ndarray = pq.read_table(version.folder / f"data/{name}.parquet").column("count").to_numpy()
    return values


def hired(version: Version) -> list[np.ndarray]:
    """The margin of the column `hired` by each of the three tables that have it."""
    alone = counts(version, "hirings")
    by_trade = counts(version, "hired_x_trade").reshape(alone.size, -1).sum(axis=1)
    return [alone, by_trade, counts(version, "wage_x_hired").reshape(-1, alone.size).sum(axis=0)]


def test_consistent_tables_are_published_and_verified(consistent: Version):
    """One total, no negative count; margins agree up to what the record states."""
    consistent.assert_verifies()
    record = load(consistent.folder / "record.json")
    tables = record["replay"]["tables"]
    sums = {int(counts(consistent, table["name"]).sum()) for table in tables}
    told_tables = consistent.words["product.tables"]
    assert {table["total"] for table in told_tables} == sums
    assert {table["total_from"] for table in told_tables} == {"estimated"}
    total = {"kind": "estimated", "value": told_tables[0]["total"], "kept": "by_all"}
    assert {name: record["replay"]["total"][name] for name in total} == total
    assert min(int(counts(consistent, table["name"]).min()) for table in tables) >= 0
    margins = hired(consistent)
    gap = max(float(np.abs(one - other).max()) for one in margins for other in margins)
    assert gap <= max(float(table["disagreement"]) for table in tables) < 10


def test_consistent_tables_cannot_say_that_some_left_the_average(consistent: Version, tmp_path: Path):
    version = consistent.copy(tmp_path / "v")
    report = forge(version, record=replay(lambda r: r["total"].update(kept="where_it_gains"))).verify()
    assert broken(report) == {9}, report.findings
    assert "replay.total.kept" in "\n".join(map(str, report.findings))


def test_unbiased_consistent_tables_agree_to_their_last_digits(tmp_path: Path):
    version = publish_version(many_tables(UNBIASED), tmp_path)
    version.assert_verifies()
    first, *others = hired(version)
    assert all(np.allclose(first, other, atol=1e-3) for other in others)
    tables = load(version.folder / "record.json")["replay"]["tables"]
    assert max(float(table["disagreement"]) for table in tables) < 1e-3
    assert pq.read_schema(version.folder / "data/hirings.parquet").field("count").type == "double"


def more_agreement(record: Json) -> None:
    record["replay"]["tables"][3]["disagreement"] = "0.25"


def one_row_moved(folder: Path) -> None:
    values = pq.read_table(folder / "data/hirings.parquet").column("count").to_numpy()
    set_cell(folder / "data/hirings.parquet", "count", 0, values[0] + 1)
    set_cell(folder / "data/hirings.parquet", "count", 1, values[1] - 1)


FORGED_TOGETHER = {
    "more agreement than there is": Forgery({9}, more_agreement, says="disagreement"),
    "a moved row": Forgery({9}, files=one_row_moved, says="column count, row 1"),
    "tables refined alone, they say": Forgery(
        {9}, replay(lambda r: r["product"]["refine"].update(consistent=False)), says="replay.total.kept"
    ),
    "a consistent method that there is not": Forgery(
        {5}, replay(lambda r: r["product"]["refine"].update(method="auto")), says="`consistent` with method auto"
    ),
    "another total": Forgery({9}, replay(lambda r: r["total"].update(value=17)), says="total.value"),
    "other noisy values": Forgery(
        {8, 9},
        files=lambda folder: set_cell(folder / "measurements/hirings.parquet", "noisy", 0, 10**6),
        says="when it was drawn",
    ),
    "measurements that are none": Forgery(
        {8}, files=lambda f: (f / "measurements/hirings.parquet").write_bytes(b"PAR1"), says="a whole Parquet file"
    ),
}


@pytest.mark.parametrize("name", FORGED_TOGETHER)
def test_a_consistent_forgery_of_consistent_tables_is_caught(consistent: Version, tmp_path: Path, name: str):
    FORGED_TOGETHER[name].check_found(consistent.copy(tmp_path / "v"), alone=True)
