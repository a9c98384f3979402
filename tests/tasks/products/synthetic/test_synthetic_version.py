"""A synthetic version from the plan to the files: rows, types, constraints, measurements, model, record, page."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from contracts.contract.contract import Contract
from contracts.errors import Finding, Refused
from privacy.generators.generator import OutOfTime
from privacy.marginals.portable import PostProcessingSeed
from tasks.products.fit import seed_of_run
from tasks.products.synthetic.row_constraints import PublishedColumn, check_rows
from tasks.records.groups.field import Run
from tasks.records.record import build_record
from tasks.report import write_files
from tasks.sample import sample
from tasks.verification.record_identity import DESCRIPTIONS, FIXED_FILES
from tasks.verify import verify
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.forgery import load
from tests.worlds.synthetic_rows import SyntheticScenario, aim, fixed, looked_into, pure
from tests.worlds.versions import Version, Worlds, publish_version

SCENARIOS = {"aim": aim, "pure": pure, "fixed": fixed, "looked_into": looked_into}


@pytest.fixture(scope="module")
def made(worlds: Worlds) -> dict[str, Version]:
    return {name: worlds.published(scenario()) for name, scenario in SCENARIOS.items()}


@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_synthetic_version_verifies_and_its_model_is_estimated_again(made: dict[str, Version], name: str):
    """All ten rules, and the eleventh: the generator, run again on the published draws, comes to the same model."""
    report = verify(made[name].folder, public_key=made[name].key, deep=True)
    assert report.ok, report.findings
    assert [check.rule for check in report.checks] == list(range(1, 12))
    assert "rows replayed" in report.checks[8].name


def test_rows_have_their_types_and_keep_what_the_contract_declares(made: dict[str, Version]):
    """Types by logical type, missing values as nulls, values in bounds, constraints and zeros in every row."""
    rows = pl.read_parquet(made["aim"].folder / "data" / "stays.parquet")
    assert [str(kind) for kind in rows.dtypes] == [
        *("Int64", "Date", "Date", "Categorical", "Int64", "Float64", "Boolean", "Categorical")
    ]
    assert abs(len(rows) - 3000) < 600
    assert rows["age"].null_count() > 0
    assert rows["bill"].null_count() == rows["floor"].null_count() == 0
    assert 0 <= rows["age"].min() <= rows["age"].max() <= 99  # type: ignore[operator]
    assert (rows["bill"] * 10 - (rows["bill"] * 10).round()).abs().max() < 1e-9  # type: ignore[operator]
    both = rows.filter(pl.col("arrived").is_not_null() & pl.col("left").is_not_null())
    assert len(both) > 500
    assert (both["arrived"] <= both["left"]).all()
    same_quarter = both.filter(pl.col("arrived").dt.quarter() == pl.col("left").dt.quarter())
    assert (same_quarter["arrived"] < same_quarter["left"]).any()
    text = pl.col("ward").cast(pl.String)
    assert rows.filter((text == "children") & (pl.col("age") >= 75)).is_empty()
    floors = rows.filter(text.is_not_null()).select(text, "floor").unique()
    assert set(floors.iter_rows()) == {("surgery", 1), ("children", 2), ('x, "y"', 2)}
    assert (rows["one"].cast(pl.String) == "only").all()


def test_rows_are_in_random_order(made: dict[str, Version]):
    """The model's own order is by groups; published rows show none: halves have alike shares of each label."""
    rows = pl.read_parquet(made["aim"].folder / "data" / "stays.parquet").with_columns(pl.col("ward").cast(pl.String))
    half = len(rows) // 2
    for part in (rows[:half], rows[half:]):
        for label in ("surgery", "children"):
            whole = (rows["ward"] == label).mean()
            assert abs(float((part["ward"] == label).mean()) - float(whole)) < 0.08  # type: ignore[arg-type]


def test_the_csv_copy_holds_the_same_rows(made: dict[str, Version]):
    folder = made["aim"].folder / "data"
    rows = pl.read_parquet(folder / "stays.parquet")
    copy = pl.read_csv(folder / "stays.csv", schema_overrides=dict(zip(rows.columns, rows.dtypes, strict=True)))
    assert copy.equals(rows)


def test_the_rows_follow_the_dependencies_that_were_measured(made: dict[str, Version]):
    """AIM's pairs survive sampling and shuffling: ward and age are as dependent as their noisy marginal says."""
    folder = made["fixed"].folder
    rows = pl.read_parquet(folder / "data" / "fixed.parquet")
    assert len(rows) == 3000
    found = rows.group_by(pl.col("ward").cast(pl.String), pl.col("floor")).len()
    measured = pl.read_parquet(next((folder / "measurements").glob("*ward_x_floor.parquet")))
    both = measured.filter(~pl.col("structural_zero")).join(
        found.with_columns(pl.col("floor").cast(pl.String)),
        left_on=[pl.col("ward").cast(pl.String), pl.col("floor").cast(pl.String)],
        right_on=["ward", "floor"],
        how="inner",
    )
    assert (both["noisy"] - both["len"]).abs().max() < 150  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "number", "origin"), [("pure", 500, "declared"), ("fixed", 3000, "public"), ("aim", None, "estimated")]
)
def test_where_the_number_of_rows_comes_from(made: dict[str, Version], name: str, number: int | None, origin: str):
    """The spec's own number, the contract's public total, or the noisy estimate."""
    rows = load(made[name].folder / "record.json")["replay"]["rows"]
    assert rows["from"] == origin
    assert rows["number"] == pq.read_metadata(made[name].folder / rows["data"]).num_rows
    assert number in (None, rows["number"])
    assert (made[name].words["unprotected.exact_total"] != "none") == (origin == "public")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_record_follows_the_schema_and_says_what_was_done(made: dict[str, Version], name: str):
    """Generator, options, draws, choices, model, rows, seed, constraints, uses; nothing of the private kind."""
    record = load(made[name].folder / "record.json")
    assert list(Draft202012Validator(version_schemas()["record"]).iter_errors(record)) == []
    told = {key.partition(".")[2]: value for key, value in made[name].words.items() if key.startswith("product.")}
    draws = record["replay"]["draws"]
    assert told["generator"] == {"aim": "aim", "pure": "independent", "fixed": "fixed", "looked_into": "mst"}[name]
    assert len(told["measured"]) == sum(draw["kind"] != "choice" for draw in draws)
    assert (told["choices"] != "none") == (name in ("aim", "looked_into"))
    assert told["options"]["max_model_megabytes"] == 80
    assert told["utility"].startswith("private, for auditors only")
    assert ("arrived <= left" in told["constraints"]) == (name != "pure")
    assert {draw["what"] for draw in made[name].words["ledger.draws"]} <= {
        "measurement",
        "choice",
        *(["tree of counts inside bins"] if name == "looked_into" else []),
    }
    events = [draw["event"]["kind"] for draw in draws]
    assert ("exponential_mechanism" in events) == (name in ("aim", "looked_into"))
    assert set(events) <= {"discrete_gaussian", "discrete_laplace", "exponential_mechanism"}


def test_the_catalogue_describes_every_file(made: dict[str, Version]):
    """Rows, measurements, choices and model; the rows' columns by their types."""
    catalogue = load(made["aim"].folder / "croissant.json")
    described = {part["contentUrl"] for part in catalogue["distribution"]}
    outside = {"MANIFEST.json", "PROOF.json"} | FIXED_FILES | DESCRIPTIONS
    assert described == set(made["aim"].files) - outside
    assert {"measurements/choices.json", "model/model.json", "model/arrays.parquet"} <= described
    rows = next(each for each in catalogue["recordSet"] if each["name"] == "data/stays")
    assert {field["name"]: field["dataType"] for field in rows["field"]} == {
        **{"age": "sc:Integer", "arrived": "sc:Date", "left": "sc:Date", "ward": "sc:Text"},
        **{"floor": "sc:Integer", "bill": "sc:Float", "insured": "sc:Boolean", "one": "sc:Text"},
    }


def test_the_page_says_what_was_measured_and_how_to_use_the_rows(made: dict[str, Version]):
    """The measured marginals with their noise, which columns met, uses; a label with quotes is escaped."""
    page = (made["aim"].folder / "record.html").read_text()
    for words in (
        "The synthetic rows",
        "How to use them",
        "What errors to expect",
        "Which columns were measured together",
    ):
        assert words in page
    assert "arrived × left" in page
    assert "Do not look for anybody in the rows" in page
    assert "<script" not in page


@pytest.mark.long
def test_nothing_in_the_version_is_an_exact_count(tmp_path: Path):
    """Under add_remove the number of rows of the snapshot stands nowhere, unless the noise happens to give it."""
    version = publish_version(replace(aim(), rows=30_917), tmp_path)
    if load(version.folder / "record.json")["replay"]["rows"]["number"] == 30_917:
        return
    for name in ("record.json", "record.html", "croissant.json", "model/model.json"):
        assert not re.findall(r"\b30,?917\b", (version.folder / name).read_text())


@pytest.mark.long
def test_a_run_that_resumes_samples_the_same_rows(tmp_path: Path):
    """Draws and seed are replayed: the same model and bytes; another run key has another seed."""
    scenario = aim()
    spec, contract, plan, ledger = scenario.prepared(tmp_path)
    one = scenario.made(tmp_path, spec, contract, plan, ledger)
    again = scenario.made(tmp_path, spec, contract, plan, ledger)
    assert one.seed == again.seed
    assert one.rows == again.rows
    codes = [each.model.sample(each.rows, seed=5) for each in (one, again)]
    assert (codes[0] == codes[1]).all()
    assert seed_of_run(tmp_path / "private", "another-run") != one.seed
    assert (tmp_path / "private" / f"seed-{scenario.run_key(spec)}.json").stat().st_mode & 0o777 == 0o600
    ledger.close()


def test_the_same_facts_write_the_same_bytes(tmp_path: Path):
    """A staging that is written again is the same: rows, measurements, model, record."""
    facts = fixed().run(tmp_path)
    files = [write_files(facts, tmp_path / name) for name in ("one", "two")]
    assert files[0] == files[1]
    records = [json.dumps(build_record(Run(facts, each))) for each in files]
    assert records[0] == records[1]


@pytest.mark.long
def test_a_time_limit_that_is_too_short_is_refused_by_the_plan_and_one_that_stops_the_fit_is_replayed(tmp_path: Path):
    """The plan refuses what cannot give a model; a fit that stops early publishes what it has, and says so."""
    from contracts.errors import SpecRefused

    hasty = replace(aim(), product="{kind: synthetic, generator: aim, options: {time_limit: 0.001}}")
    with pytest.raises(SpecRefused, match="time_limit"):
        hasty.prepared(tmp_path / "refused")
    short = replace(aim(), product="{kind: synthetic, generator: aim, options: {degree: 2, time_limit: 1.5}}")
    try:
        version = publish_version(short, tmp_path / "short")
    except OutOfTime:  # on a machine so slow that there was no model yet
        return
    version.assert_verifies(deep=True)
    assert "within its time limit" in str(version.words["unprotected.quantities"])


def test_a_column_s_codes_survive_publication(made: dict[str, Version]):
    """The model's numbers come back from their file: the published arrays are those of the record's digests."""
    import hashlib

    stated = load(made["aim"].folder / "record.json")["replay"]["model"]["sha256"]
    table = pq.read_table(made["aim"].folder / "model" / "arrays.parquet")
    names, values = table.column("array").to_pylist(), table.column("value").to_numpy()
    for name, digest in stated.items():
        own = values[np.array([each == name for each in names])]
        assert hashlib.sha256(own.astype("<i8").tobytes()).hexdigest() == digest


def test_scenarios_are_of_different_kinds():
    assert {type(make()) for make in SCENARIOS.values()} == {SyntheticScenario}


def test_further_rows_are_sampled_under_a_condition(made: dict[str, Version], tmp_path: Path):
    """Only the labels that were asked for; zeros and orders hold; the same seed gives the same bytes."""
    folder, seed = made["aim"].folder, PostProcessingSeed(12)
    where = {"ward": ["children", "surgery"], "age": ["25 to 49"]}
    for name in ("one.parquet", "two.parquet"):
        sample(folder, rows=400, where=where, seed=seed, to=tmp_path / name)
    sample(folder, rows=400, where=where, seed=PostProcessingSeed(13), to=tmp_path / "three.csv")
    rows = pl.read_parquet(tmp_path / "one.parquet")
    assert len(rows) == 400
    assert set(rows["ward"].cast(pl.String)) == {"children", "surgery"}
    assert 25 <= rows["age"].min() <= rows["age"].max() <= 49  # type: ignore[operator]
    both = rows.drop_nulls(["arrived", "left"])
    assert (both["arrived"] <= both["left"]).all()
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    assert len(pl.read_csv(tmp_path / "three.csv")) == 400


@pytest.mark.parametrize(
    ("where", "to", "told"),
    [
        ({"wart": ["children"]}, "a.csv", "write 'ward'"),
        ({"ward": ["childen"]}, "a.csv", "write 'children'"),
        ({"ward": ["children"], "age": ["75 to 99"]}, "a.csv", "that no row meets"),
        ({}, "a.xlsx", ".parquet or .csv"),
    ],
)
def test_a_condition_that_cannot_be_met_is_refused(
    made: dict[str, Version], tmp_path: Path, where: dict[str, list[str]], to: str, told: str
):
    with pytest.raises(Refused, match=re.escape(told)):
        sample(made["aim"].folder, rows=5, where=where, seed=PostProcessingSeed(1), to=tmp_path / to)


def test_no_rows_are_written_into_a_version_over_a_file_or_into_no_folder(made: dict[str, Version], tmp_path: Path):
    """A version never changes: not by its own model's rows either, nor through a link."""
    folder = made["aim"].folder
    (tmp_path / "link").symlink_to(folder / "data")
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "dangling.csv").symlink_to(tmp_path / "nothing")
    before = sorted(folder.rglob("*"))
    for to, told in (
        (folder / "data" / "more.csv", "inside the release"),
        (folder / "more.parquet", "inside the release"),
        (tmp_path / "link" / "more.csv", "inside the release"),
        (tmp_path / "nowhere" / "more.csv", "a folder that is not there"),
        (tmp_path / "there.csv", "it is there already"),
        (tmp_path / "dangling.csv", "it is there already"),
    ):
        with pytest.raises(Refused, match=told):
            sample(folder, rows=5, where={}, seed=PostProcessingSeed(1), to=to)
    assert sorted(folder.rglob("*")) == before
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_only_synthetic_versions_are_sampled(versions: dict[str, Version], tmp_path: Path):
    """A version of tables has no model: it is named as what it is, and its record is not called broken."""
    with pytest.raises(Refused) as refused:
        sample(versions["town"].folder, rows=5, where={}, seed=PostProcessingSeed(1), to=tmp_path / "a.csv")
    assert [finding.found for finding in refused.value.findings] == ["a release of kind tables"]


CONDITION = "constraints: [{null_exactly_where: {column: age, by: ward, labels: [surgery]}}]"


@pytest.fixture(scope="module")
def conditioned(tmp_path_factory: pytest.TempPathFactory) -> Version:
    privacy = f"{{unit: {{kind: row, scope: block}}, adjacency: add_remove, {CONDITION}}}"
    product = "{kind: synthetic, generator: mst, columns: [age, ward, insured], inside_bins: measured}"
    scenario = replace(aim(), privacy=privacy, product=product, release="children")
    return publish_version(scenario, tmp_path_factory.mktemp("children") / "v")


def test_every_row_keeps_the_condition_both_ways(conditioned: Version):
    """Age is missing in surgery, and known in the other wards; where the ward is missing either may be."""
    conditioned.assert_verifies()
    rows = pl.read_parquet(conditioned.folder / "data" / "children.parquet")
    there = rows.filter(pl.col("ward").is_not_null())
    surgery = there["ward"].cast(pl.String) == "surgery"
    assert 30 < surgery.sum() < len(there) - 30
    assert (there["age"].is_null() == surgery).all()
    words = conditioned.words["contract.functional_dependencies"]
    assert words == ["ward determines whether age is missing"]


def test_a_row_that_breaks_it_is_found(conditioned: Version):
    """By the checker's own code, from the values alone."""
    contract = Contract.model_validate(load(conditioned.folder / "record.json")["replay"]["contract"])

    def found(ward: int, *, missing: bool) -> list[Finding]:
        age = PublishedColumn(np.array([30]), np.array([missing]))
        wards = PublishedColumn(np.array([ward]), np.array([False]), ["surgery", "children"])
        return check_rows(contract, {"age": age, "ward": wards}, first_row=1, where="rows")

    assert found(0, missing=False)
    assert found(1, missing=True)
    assert not found(0, missing=True)
    assert not found(1, missing=False)
