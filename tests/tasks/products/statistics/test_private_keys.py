"""Versions by keys that nobody declared, selected alone or with their counts: nothing else is published."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from contracts.errors import SpecRefused
from contracts.release.spec_checks import check_spec
from privacy.accounting.amounts import ATTO
from privacy.accounting.calculus import PureCalculus
from privacy.accounting.events import failures
from privacy.ledger.entries import BudgetExceeded, LedgerRefusal
from privacy.snapshots.snapshot import SnapshotKeys
from tests.tasks.verification.forgery import load
from tests.worlds.private_keys import (
    COMMON,
    MISSING,
    UNFIT,
    KeyScenario,
    counted,
    counted_units,
    few_groups,
    gaussian,
    pure,
)
from tests.worlds.versions import Version, Worlds

SELECTED = sorted(text.strip() for text in COMMON)


@pytest.fixture(scope="module")
def version(worlds: Worlds) -> Version:
    return worlds.published(pure(), here=True)


@pytest.fixture(scope="module")
def units(worlds: Worlds) -> Version:
    return worlds.published(gaussian(), here=True)


@pytest.fixture(scope="module")
def counts(worlds: Worlds) -> Version:
    return worlds.published(counted(), here=True)


def table(version: Version, name: str) -> pl.DataFrame:
    return pl.read_parquet(version.folder / "data" / f"{name}.parquet").with_columns(
        pl.col(pl.Categorical).cast(pl.String)
    )


@pytest.mark.long
@pytest.mark.parametrize("scenario", [pure, gaussian, counted, counted_units])
def test_a_version_verifies_by_all_rules(worlds: Worlds, scenario: Callable[[], KeyScenario]):
    """Laplace and Gaussian noise, pure and Rényi accounts, rows and units of three, another column beside.

    Keys that are selected, and keys that one draw selects and counts.
    """
    report = worlds.published(scenario(), here=True).verify(deep=True)
    assert report.ok, report.findings
    assert [check.rule for check in report.checks][:10] == list(range(1, 11))


def exact_counts() -> dict[str | None, int]:
    """Count notes by hand: keys that no contract lets be published are among the others, missing ones apart."""
    notes = [None if note in MISSING else str(note).strip() for note in pure().frame()["note"]]
    exact = {key: notes.count(key) for key in (*SELECTED, None)}
    return {**exact, "(others)": len(notes) - sum(exact.values())}


def test_common_keys_are_published_and_all_others_have_one_cell(version: Version):
    """stat: texts of 400 stays are selected, of one stay not, each with a false alarm below 1e-6.

    Counts have noise of scale 1: none is 40 off but with a probability below 1e-15.
    """
    published, rows, exact = table(version, "note"), pure().frame(), exact_counts()
    assert published["note"].to_list() == [*SELECTED, "(others)", "(null)"]
    assert rows["note"].is_in(UNFIT).sum() > 500
    for row in published.iter_rows(named=True):
        assert abs(row["count"] - exact[None if row["note"] == "(null)" else row["note"]]) < 40
    broken_arms = rows.filter(pl.col("note").str.strip_chars() == "broken arm")["bill"]
    [mean] = published.filter(pl.col("note") == "broken arm")["mean_bill"]
    assert mean == pytest.approx(float(broken_arms.fill_nan(0).clip(0, 900).mean()), abs=25)  # type: ignore[arg-type]


def test_counts_are_near_the_rows_and_intervals_hold_them(counts: Version):
    """stat: epsilon is 4 for the draw; noise on keys passes 10 with a probability below 1e-15, on the rest below

    (scale 4) 200 of e^-50. The ends of intervals are 2.5 % quantiles; of 5 keys at most one misses but with 2 %,
    so that only the distance is asserted here; the coverage is computed in the law's own test.
    """
    published, exact = table(counts, "note"), exact_counts()
    assert published["note"].to_list() == [*SELECTED, "(others)", "(null)"]
    for row in published.iter_rows(named=True):
        near = abs(row["count"] - exact[None if row["note"] == "(null)" else row["note"]])
        assert near <= (200 if row["note"] == "(others)" else 10)
        assert row["count_low"] <= row["count"] <= row["count_high"]


def test_every_key_has_all_cells_of_a_declared_column(units: Version):
    published = table(units, "insured_x_note")
    assert len(published) == 3 * 7
    assert published["note"].to_list()[:7] == [*SELECTED, "(others)", "(null)"]
    [drawn] = [each for each in load(units.folder / "record.json")["replay"]["draws"] if each["kind"] == "keys"]
    assert drawn["event"]["groups"] == 3


def test_a_text_that_was_not_selected_is_in_no_published_file(version: Version, counts: Version):
    """Nor are those that could be no keys, but for the label of all others."""
    for path in (*version.folder.rglob("*"), *counts.folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            assert b"rare 7" not in data
            assert b"long long" not in data
            assert "\u202e".encode() not in data


def test_the_charge_states_both_sums_and_the_record_tells_them(version: Version):
    events = load(version.folder / "record.json")["replay"]["draws"][0]["event"]
    assert events["kind"] == "key_selection"
    [charge] = [
        each["entry"]["body"]
        for each in load(version.folder / "PROOF.json")["entries"]
        if each["entry"]["kind"] == "charge_reserved"
    ]
    [part] = charge["parts"]
    assert (part["failure_before"], part["failure_after"]) == (0, ATTO // 10**6)
    assert charge["delta"] == ATTO // 10**6
    told = version.words["ledger.account_epsilon"]
    assert {name: told[name] for name in ("for_selections", "selections_before", "selections_after")} == {
        "for_selections": "1e-5",
        "selections_before": "0",
        "selections_after": "1e-6",
    }
    assert "may fail with 1e-6" in version.words["guarantee.conversion"]


@pytest.mark.usefixtures("every_row_kept")
def test_a_unit_of_several_rows_counts_once_in_a_key(tmp_path: Path):
    """By its id, without the spaces around it; the codes of selected keys are those of the rows.

    Keys come sorted, however many threads group them, so that a seed gives each the same noise again.
    """
    scenario = gaussian()
    contract, _, taken = scenario.snapshot(tmp_path)
    handle = SnapshotKeys(taken, contract).keys("note")
    keys, units = handle._read()
    with duckdb.connect(str(taken.path), read_only=True) as connection:
        rows = connection.execute("SELECT note, patient FROM raw").fetchall()
    expected: dict[str, set[str]] = {}
    for note, patient in rows:
        text = None if note in MISSING else note.strip()
        if text is not None and note not in UNFIT:
            expected.setdefault(text, set()).add(patient.strip())
    assert [*zip(keys, units.tolist(), strict=True)] == sorted(((k,), len(v)) for k, v in expected.items())
    assert SnapshotKeys(taken, contract).key_rows("note")._read()[0] == keys
    assert max(len(v) for v in expected.values()) < max(
        sum(note is not None and note.strip() == key for note, _ in rows) for key in expected
    )
    assert handle.groups == 3
    recoded, with_keys = SnapshotKeys(taken, contract).recoded({"note": ("broken arm", "café")})
    assert with_keys.column("note").labels == ("broken arm", "café", "(others)", "(null)")
    assert with_keys.digest == contract.digest
    assert recoded.path.stat().st_mode & 0o077 == 0
    with duckdb.connect(str(recoded.path), read_only=True) as connection:
        codes = [code for (code,) in connection.execute('SELECT "note" FROM codes').fetchall()]
        assert not [name for (name, *_) in connection.execute("DESCRIBE codes").fetchall() if "keys" in name]
    place = {"broken arm": 0, "café": 1}
    wanted = [3 if note in MISSING else place.get(note.strip(), 2) for note, _ in rows]
    assert codes == wanted


@pytest.mark.long
def test_no_key_may_be_selected_and_a_version_still_verifies(worlds: Worlds):
    """Of twelve rows: all of them are with the others. stat: false alarm below 1e-4 x 12."""
    made = worlds.published(replace(pure(), rows=12, epsilon="1", release="few"))
    assert table(made, "note")["note"].to_list() == ["(others)", "(null)"]
    made.assert_verifies()


@pytest.mark.long
def test_a_unit_has_fewer_keys_than_rows_where_the_spec_says_so(worlds: Worlds):
    """One key of a unit of three rows: the selection has all of its part for it, and people move three cells."""
    made = worlds.published(few_groups())
    made.assert_verifies(deep=True)
    record = load(made.folder / "record.json")
    draws = {draw["key"]: draw for draw in record["replay"]["draws"]}
    assert draws["table:note/keys"]["event"]["groups"] == 1
    assert draws["table:note/units"]["addends"]["most_cells"] == 3
    assert made.words["product.tables"][0]["at_most_groups"] == 1


# --- refusals -----------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[KeyScenario, str]] = {
    "no delta": (replace(pure(), delta="0"), "charge.delta"),
    "declared keys of a text": (
        replace(pure(), product=pure().product.replace("keys: private, ", "")),
        "product.tables[0].by[0]",
    ),
    "as many keys as rows": (
        replace(few_groups(), product=few_groups().product.replace("at_most_groups: 1", "at_most_groups: 3")),
        "product.tables[0].at_most_groups",
    ),
    "no key of a unit": (
        replace(few_groups(), product=few_groups().product.replace("at_most_groups: 1", "at_most_groups: 0")),
        "product.tables[0].at_most_groups",
    ),
    "several keys of a row": (
        replace(pure(), product=pure().product.replace("keys: private", "keys: private, at_most_groups: 1")),
        "product.tables[0].at_most_groups",
    ),
    "a bound of declared keys": (
        replace(pure(), product=pure().product.replace("{by: [ward]", "{by: [ward], at_most_groups: 1")),
        "product.tables[1].at_most_groups",
    ),
    "no text among the columns": (
        replace(pure(), product=pure().product.replace("by: [note]", "by: [floor]")),
        "product.tables[0].by",
    ),
    "replace_one": (
        replace(pure(), privacy=pure().privacy.replace("add_remove", "replace_one")),
        "product.tables[0].keys",
    ),
    "the same text twice": (
        replace(pure(), product=pure().product.replace("{by: [ward]", "{by: [ward, note], keys: private")),
        "product.tables[1].by",
    ),
    "no word on formulas": (replace(pure(), formats="[csv]"), "publish.formats"),
    "a word that is none": (
        replace(pure(), product=pure().product.replace("keys: private", "keys: secret")),
        "product.tables[0].keys",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_spec_that_does_not_fit_is_refused_before_anything_is_charged(tmp_path: Path, name: str):
    """With the place in its file."""
    scenario, field = REFUSED[name]
    with pytest.raises(SpecRefused) as refused:
        scenario.run(tmp_path)
    assert field in {finding.field for finding in refused.value.findings}, refused.value.findings
    assert refused.value.exit_code == 2
    assert not (tmp_path / "ledger.sqlite").exists()


@pytest.mark.parametrize(
    ("calculus", "cap", "error"),
    [
        (PureCalculus(), (20 * 10**12, 0), LedgerRefusal),
        (PureCalculus(ATTO // 10**7), (20 * 10**12, ATTO // 10**5), BudgetExceeded),
    ],
    ids=["nothing aside", "too little aside"],
)
def test_an_account_without_room_for_the_selection_refuses(
    tmp_path: Path, calculus: PureCalculus, cap: tuple[int, int], error: type[Exception]
):
    with pytest.raises(error, match="selection"):
        replace(pure(), calculus=calculus, cap=cap).run(tmp_path)


def test_a_plan_splits_epsilon_and_delta(tmp_path: Path):
    """A selection has the part of a draw of its table; beside Gaussian noise half of delta, beside Laplace all."""
    for scenario, part in ((pure(), 1), (gaussian(), 2)):
        _, _, plan = scenario.planned(tmp_path / scenario.release)
        [selection] = plan.selections
        delta = ATTO // 10**6
        assert failures([selection.event]) == delta // part
        assert plan.delta == delta
        assert plan.epsilon <= 8 * 10**12
        assert plan.events[0] == selection.event
        assert selection.share == (plan.of_table(selection.table)[0].share)


def test_a_version_without_a_selection_reads_as_it_always_did(tmp_path: Path):
    """No new field in product, spec digest or plan of tables whose keys are declared, none of how keys are drawn."""
    scenario = replace(pure(), product="{kind: statistics, tables: [{by: [ward], of: [count]}]}", delta="0")
    spec, contract, plan = scenario.planned(tmp_path)
    assert set(spec.product.model_dump(mode="json")["tables"][0]) == {"by", "of", "name", "weight"}
    counted_spec, _, _ = counted().planned(tmp_path / "counted")
    assert set(counted_spec.product.model_dump(mode="json")["tables"][0]) == {"by", "of", "name", "weight", "keys"}
    assert plan.selections == ()
    assert check_spec(spec, contract) == []
    assert np.isfinite(plan.draws[0].variance)


# --- what one person's row must not change ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["unit_of_row", "unit", "text"])
def test_a_declared_column_is_never_taken_for_the_units(tmp_path: Path, name: str):
    """Whatever columns are called, it is units that are counted in a key, and never codes of a column."""
    scenario = gaussian()
    contract, _, taken = scenario.snapshot(tmp_path)
    before = SnapshotKeys(taken, contract).keys("note")._read()
    with duckdb.connect(str(taken.path)) as connection:
        for relation in ("codes", "raw"):
            connection.execute(f"ALTER TABLE {relation} RENAME floor TO {name}")
    after = SnapshotKeys(taken, contract).keys("note")._read()
    assert dict(zip(after[0], after[1].tolist(), strict=True)) == dict(
        zip(before[0], before[1].tolist(), strict=True)
    )


def test_a_selection_whose_chances_cannot_be_computed_is_refused_before_the_charge(tmp_path: Path):
    with pytest.raises(SpecRefused) as refused:
        replace(pure(), epsilon="0.000003", delta="1e-12").run(tmp_path)
    [finding] = refused.value.findings
    assert (finding.field, "selection of keys" in finding.found) == ("charge.epsilon", True)
    assert not (tmp_path / "ledger.sqlite").exists()


# --- keys that one draw selects and counts -----------------------------------------------------------------------


def test_one_draw_gives_keys_and_counts_with_all_of_their_table_s_share(tmp_path: Path):
    """Of the counts alone there is no second draw; rows of a unit, not keys, are what the event is for."""
    for scenario, tables in ((counted(), 2), (counted_units(), 1)):
        _, contract, plan = scenario.planned(tmp_path / scenario.release)
        [selection] = plan.selections
        assert selection.counted_rows == contract.unit.max_rows_per_unit
        assert selection.event.groups == 1
        assert failures([selection.event]) == selection.failure
        assert selection.share == 1 / (tables * (1 + len(plan.of_table("note"))))
        assert all(draw.addends is not None for draw in plan.of_table("note"))
        assert plan.epsilon <= 8 * 10**12


def test_counts_of_which_more_is_made_are_drawn_apart(tmp_path: Path):
    """With a refinement or a minimum frequency all counts need one noise: selection and counts are two draws then."""
    more = ["refine: {method: simplex}", "minimum_frequency: {k: 10, t: 12}"]
    for number, words in enumerate(more):
        scenario = replace(counted(), product=counted().product[:-1] + f", {words}}}", release=f"apart-{number}")
        _, _, plan = scenario.planned(tmp_path / str(number))
        assert [each.counted_rows for each in plan.selections] == [None]
        assert len(plan.of_table("note")) == 1


def test_other_statistics_of_which_counts_come_keep_their_draw(tmp_path: Path):
    _, _, plan = pure().planned(tmp_path)
    assert [each.counted_rows for each in plan.selections] == [None]


def test_page_record_and_plan_say_what_the_draw_is(counts: Version):
    record = load(counts.folder / "record.json")
    [draw] = [each for each in record["replay"]["draws"] if each["kind"] == "key_counts"]
    assert draw["event"]["kind"] == "key_selection"
    assert draw["shape"] == [len(SELECTED) + 2]
    assert record["replay"]["tables"][0]["draws"] == [draw["key"]]
    page = (counts.folder / "record.html").read_text()
    assert "others reach down to 1" in page
    assert "the key and its count from one draw" in page
    assert counts.words["ledger.account_epsilon"]["selections_after"] == "1e-6"
    assert failures([]) == 0 < ATTO
