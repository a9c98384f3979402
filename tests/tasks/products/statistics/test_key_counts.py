"""Versions whose keys are selected and counted by one draw: they verify, forgeries are found, counts are right."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from privacy.accounting.amounts import ATTO
from privacy.accounting.events import failures
from privacy.grant.queries.keys import packed_counts
from privacy.statistics.plan import StatisticsPlan
from tasks.verification.refinement_replay import values_sha256
from tests.tasks.verification.forgery import Forgery, Json, load, set_cell
from tests.worlds.private_keys import COMMON, MISSING, KeyScenario, counted, counted_units, pure
from tests.worlds.versions import Version, Worlds

SELECTED = sorted(text.strip() for text in COMMON)
FILE = "measurements/0000-note_x_keys.parquet"


@pytest.fixture(scope="module")
def version(worlds: Worlds) -> Version:
    return worlds.published(counted(), here=True)


def table(version: Version) -> pl.DataFrame:
    return pl.read_parquet(version.folder / "data" / "note.parquet").with_columns(
        pl.col(pl.Categorical).cast(pl.String)
    )


@pytest.mark.long
@pytest.mark.parametrize("scenario", [counted, counted_units])
def test_a_version_verifies_by_all_rules(worlds: Worlds, scenario: Callable[[], KeyScenario]) -> None:
    """Laplace and Gaussian noise, pure and Rényi accounts, rows and units of three, different values beside."""
    report = worlds.published(scenario(), here=True).verify(deep=True)
    assert report.ok, report.findings
    assert [check.rule for check in report.checks][:10] == list(range(1, 11))


def test_one_draw_gives_keys_and_counts_with_all_of_their_table_s_share(tmp_path: Path) -> None:
    """Of the counts alone there is no second draw; rows of a unit, not keys, are what the event is for."""
    for scenario, tables in ((counted(), 2), (counted_units(), 1)):
        _, contract, plan, ledger = scenario.prepared_of(tmp_path / scenario.release, StatisticsPlan)
        ledger.close()
        [selection] = plan.selections
        assert selection.counted_rows == contract.unit.max_rows_per_unit
        assert selection.event.groups == 1
        assert failures([selection.event]) == selection.failure
        assert selection.share == 1 / (tables * (1 + len(plan.of_table("note"))))
        assert all(draw.addends is not None for draw in plan.of_table("note"))
        assert plan.epsilon <= 8 * 10**12


def test_counts_are_near_the_rows_and_intervals_hold_them(version: Version) -> None:
    """stat: epsilon is 4 for the draw; noise on keys passes 10 with a probability below 1e-15, on the rest below

    (scale 4) 200 of e^-50. The ends of intervals are 2.5 % quantiles; of 5 keys at most one misses but with 2 %,
    so that only the distance is asserted here; the coverage is computed in the law's own test.
    """
    published, rows = table(version), counted().frame()
    assert published["note"].to_list() == [*SELECTED, "(others)", "(null)"]
    notes = [None if note in MISSING else str(note).strip() for note in rows["note"]]
    exact = {key: notes.count(key) for key in SELECTED}
    exact["(null)"] = notes.count(None)
    exact["(others)"] = len(notes) - sum(exact.values())
    for row in published.iter_rows(named=True):
        assert abs(row["count"] - exact[row["note"]]) <= (200 if row["note"] == "(others)" else 10)
        assert row["count_low"] <= row["count"] <= row["count_high"]


def test_counts_of_which_more_is_made_are_drawn_apart(tmp_path: Path) -> None:
    """With a refinement or a minimum frequency all counts need one noise: selection and counts are two draws then."""
    more = ["refine: {method: simplex}", "minimum_frequency: {k: 10, t: 12}"]
    for number, words in enumerate(more):
        scenario = replace(counted(), product=counted().product[:-1] + f", {words}}}", release=f"apart-{number}")
        _, _, plan, ledger = scenario.prepared_of(tmp_path / str(number), StatisticsPlan)
        ledger.close()
        assert [each.counted_rows for each in plan.selections] == [None]
        assert len(plan.of_table("note")) == 1


def test_other_statistics_of_which_counts_come_keep_their_draw(tmp_path: Path) -> None:
    _, _, plan, ledger = pure().prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    assert [each.counted_rows for each in plan.selections] == [None]


def test_nobody_s_own_text_is_in_a_published_file(version: Version) -> None:
    for path in version.folder.rglob("*"):
        if path.is_file():
            assert b"rare 7" not in path.read_bytes()


def test_page_record_and_plan_say_what_the_draw_is(version: Version) -> None:
    record = load(version.folder / "record.json")
    [draw] = [each for each in record["replay"]["draws"] if each["kind"] == "key_counts"]
    assert draw["event"]["kind"] == "key_selection"
    assert draw["shape"] == [len(SELECTED) + 2]
    assert record["replay"]["tables"][0]["draws"] == [draw["key"]]
    page = (version.folder / "record.html").read_text()
    assert "others reach down to 1" in page
    assert "the key and its count from one draw" in page
    assert version.words["ledger.account_epsilon"]["selections_after"] == "1e-6"
    assert failures([]) == 0 < ATTO


# --- forgeries ----------------------------------------------------------------------------------------------------


def _draw(record: Json) -> Json:
    draw: Json = record["replay"]["draws"][0]
    return draw


def _other_key_with_its_digest(record: Json) -> None:
    draw = _draw(record)
    draw["selected"][1] = "broken leg"
    words = packed_counts([(key,) for key in sorted(draw["selected"])], np.zeros(7, dtype=np.int64))
    draw["sha256"] = values_sha256(words)


FORGERIES: dict[str, Forgery] = {
    "a key in the record": Forgery({8}, record=lambda record: _draw(record)["selected"].__setitem__(1, "broken leg")),
    "a key with a digest": Forgery({6}, record=_other_key_with_its_digest),
    "keys in another order": Forgery({6}, record=lambda record: _draw(record)["selected"].reverse()),
    "a key that no contract allows": Forgery({6}, record=lambda record: _draw(record)["selected"].append("x" * 41)),
    "another kind of draw": Forgery(
        {5}, record=lambda record: _draw(record).update({"kind": "keys", "shape": [], "measurements": None})
    ),
    "more coins of a unit": Forgery({6}, record=lambda record: _draw(record)["event"].update({"groups": 2})),
    "a count": Forgery({9}, files=lambda folder: set_cell(folder / "data/note.parquet", "count", 0, 10**6)),
    "an interval": Forgery({9}, files=lambda folder: set_cell(folder / "data/note.parquet", "count_low", 0, 1)),
    "what was drawn": Forgery({8}, files=lambda folder: set_cell(folder / FILE, "noisy", 0, 10**4)),
    "a count below the threshold": Forgery({8}, files=lambda folder: set_cell(folder / FILE, "noisy", 0, 1)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found_by_the_rule_it_breaks(worlds: Worlds, tmp_path: Path, name: str) -> None:
    """Everything is signed again; other rules may break beside it, since words and losses follow from the record."""
    FORGERIES[name].check_found(worlds.published(counted()).copy(tmp_path / "v"))


def test_the_product_is_written_as_it_was(tmp_path: Path) -> None:
    """How keys are drawn is no key of the spec: it follows from what is asked for."""
    spec, _, _, ledger = counted().prepared_of(tmp_path, StatisticsPlan)
    ledger.close()
    dumped: Any = json.loads(json.dumps(spec.product.model_dump(mode="json")))
    assert set(dumped["tables"][0]) == {"by", "of", "name", "weight", "keys"}
