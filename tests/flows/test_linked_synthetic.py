"""Synthetic rows of both tables of the shipped example: one charge, keys that match, and forgeries that are found."""

import csv
import json
import shutil
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from contracts.errors import SpecRefused
from flows.evaluation.evaluate import evaluate_version
from flows.request import read_request
from privacy.accounting.amounts import PICO
from privacy.generators.generator import CannotGenerate
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.portable import PostProcessingSeed
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot_source import SnapshotSource
from tasks.inference import NoisyVersion
from tasks.ingest import ingest
from tasks.products.synthetic.link_checks import check_links
from tasks.products.version_records import published_record
from tasks.sample import sample
from tasks.verify import verify
from tests.flows.test_linked_runs import CAP, Town
from tests.tasks.intake import KEY

SPEC = "synthetic"
RELEASE = "synthetic-households"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Town, Path]:
    town = Town(tmp_path_factory.mktemp("linked"))
    town.change(SPEC, ("formats: [parquet, csv]", "formats: [parquet, csv, parts]"))
    return town, town.run(SPEC)


@pytest.mark.long
def test_both_tables_are_charged_once_and_verified(made: tuple[Town, Path]):
    """Also with the models fitted again."""
    town, folder = made
    report = verify(folder, public_key=town.workspace.signer().public_key, deep=True)
    assert report.ok, report.findings
    assert town.left() == CAP - PICO


def test_no_key_is_broken_and_sizes_are_the_numbers_of_people(made: tuple[Town, Path]):
    """In the Parquet files and in their copies; keys are fresh numbers, and no id of the source."""
    _, folder = made
    people, households = (pl.read_parquet(folder / "data" / f"{RELEASE}{part}.parquet") for part in ("", "-parents"))
    assert people.columns == ["household_id", "age", "work", "income"]
    assert households.columns == ["household_id", "region", "type", "size"]
    assert households["household_id"].to_list() == list(range(1, len(households) + 1))
    counted = Counter(people["household_id"].to_list())
    assert counted.keys() <= set(households["household_id"].to_list())
    assert [counted.get(key, 0) for key in households["household_id"]] == households["size"].to_list()
    with (folder / "data" / f"{RELEASE}.csv").open() as file:
        assert Counter(int(row["household_id"]) for row in csv.DictReader(file)) == counted


def test_the_record_says_which_draws_count_households(made: tuple[Town, Path]):
    """A household moves these by one, and those of people by eight."""
    _, folder = made
    replay = json.loads((folder / "record.json").read_text())["replay"]
    moves = {
        (draw.get("table"), tuple(draw["event"]["moves"])) for draw in replay["draws"] if draw["kind"] == "marginal"
    }
    assert moves == {("household", (1,)), (None, (8,))}
    assert replay["rows_per_unit"] == 8
    above = {"table": "household", "data": f"data/{RELEASE}-parents.parquet"}
    keys = {"key": "household_id", "child_key": "household_id"}
    parents = replay["rows"]["parents"]
    assert parents == {**above, **keys, "number": parents["number"]}


def test_descriptions_state_the_link(made: tuple[Town, Path]):
    """Croissant references the key's field."""
    _, folder = made
    records = {each["name"]: each for each in json.loads((folder / "croissant.json").read_text())["recordSet"]}
    upper, lower = records[f"data/{RELEASE}-parents"], records[f"data/{RELEASE}"]
    key = f"data/{RELEASE}-parents/household_id"
    assert upper["key"] == {"@id": key}
    assert upper["field"][0]["@id"] == key
    assert lower["field"][0]["references"] == {"field": {"@id": key}}
    page = (folder / "record.html").read_text()
    assert "household_id of person is household_id of household" in page
    assert "is not modelled" in page


def test_further_rows_of_one_table_alone_are_refused(made: tuple[Town, Path], tmp_path: Path):
    """Their keys would lead nowhere."""
    _, folder = made
    with pytest.raises(SpecRefused, match="a version of two linked tables"):
        sample(folder, rows=10, where={}, seed=PostProcessingSeed(1), to=tmp_path / "more.parquet")
    assert not list(tmp_path.iterdir())


def test_no_interval_is_of_households_and_people_together(made: tuple[Town, Path]):
    with pytest.raises(SpecRefused, match="a version of two linked tables"):
        NoisyVersion(made[1])


@pytest.mark.long
def test_evaluation_tells_both_tables_and_what_is_across(made: tuple[Town, Path]):
    """Private; the sizes' distance is that of the files themselves."""
    town, folder = made
    spec = town.example / f"{SPEC}.yaml"
    found = evaluate_version(folder, spec, target=None, workspace=town.workspace, at=datetime.now(UTC))
    linked = json.loads(found.files.numbers.read_text())["linked"]
    with (town.example / "data" / "person.csv").open() as file:
        people = Counter(row["household_id"] for row in csv.DictReader(file))
    with (town.example / "data" / "household.csv").open() as file:
        keys = {row["household_id"] for row in csv.DictReader(file)}
    real = Counter(min(8, people[key]) for key in keys)
    sizes = Counter(pl.read_parquet(folder / "data" / f"{RELEASE}-parents.parquet")["size"].to_list())
    distance = sum(abs(real[size] - sizes[size]) for size in range(9)) / len(keys)
    assert linked["sizes"] == pytest.approx(distance)
    assert len(linked["across"]["by_marginal"]) == 9
    assert len(linked["siblings"]["by_pair"]) == 6


def _stray_child(folder: Path) -> None:
    path = folder / "data" / f"{RELEASE}.parquet"
    _rewrite(path, lambda rows: rows.with_columns(pl.col("household_id") + 1))


def _other_size(folder: Path) -> None:
    path = folder / "data" / f"{RELEASE}-parents.parquet"
    _rewrite(path, lambda rows: rows.with_columns((pl.col("size") + 1) % 9))


def _as_if_of_people(folder: Path) -> None:
    _change(folder, lambda replay: [draw.pop("table", None) for draw in replay["draws"]])


def _as_if_of_households(folder: Path) -> None:
    _change(folder, lambda replay: [draw.update(table="household") for draw in replay["draws"] if draw["shape"]])


def _other_table(folder: Path) -> None:
    _change(folder, lambda replay: [draw.update(table="region") for draw in replay["draws"] if "table" in draw])


def _no_parents(folder: Path) -> None:
    _change(folder, lambda replay: replay["rows"].pop("parents"))


def _more_parents(folder: Path) -> None:
    _change(folder, lambda replay: replay["rows"]["parents"].update(number=7))


def _change(folder: Path, change: Callable[[Any], object]) -> None:
    record = json.loads((folder / "record.json").read_text())
    change(record["replay"])
    (folder / "record.json").chmod(0o644)
    (folder / "record.json").write_text(json.dumps(record))


def _rewrite(path: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    path.chmod(0o644)
    change(pl.read_parquet(path)).write_parquet(path)


@pytest.mark.parametrize(
    ("forge", "named"),
    [
        (_stray_child, f"data/{RELEASE}.parquet"),
        (_other_size, f"data/{RELEASE}-parents.parquet"),
        (_as_if_of_people, "event.moves"),
        (_as_if_of_households, "clique"),
        (_other_table, "table"),
        (_no_parents, "replay.rows.parents"),
        (_more_parents, "replay.rows.parents.number"),
    ],
)
def test_a_forged_link_is_found(made: tuple[Town, Path], tmp_path: Path, forge: Callable[[Path], None], named: str):
    town, folder = made
    shutil.copytree(folder, tmp_path / "forged")
    forge(tmp_path / "forged")
    report = verify(tmp_path / "forged", public_key=town.workspace.signer().public_key)
    assert not report.ok
    assert any(named in f"{finding.where} {finding.field}" for finding in report.findings), report.findings


def test_links_are_checked_by_the_values_alone(made: tuple[Town, Path], tmp_path: Path):
    """A key twice, a child without a parent, a parent with another number of children."""
    _, folder = made
    record, meaning = published_record(folder)
    files = [folder / "data" / f"{RELEASE}{part}.parquet" for part in ("", "-parents")]
    assert not check_links(*(file.read_bytes() for file in files), record.replay.rows, meaning)
    spoilt = {
        "a key twice": (1, lambda rows: rows.with_columns(household_id=pl.lit(1, pl.Int64))),
        "a key that no parent has": (0, lambda rows: rows.with_columns(pl.col("household_id") + 10**6)),
        "another number": (0, lambda rows: rows.head(len(rows) - 1)),
    }
    for found, (place, change) in spoilt.items():
        data = [file.read_bytes() for file in files]
        pq.write_table(change(pl.from_arrow(pq.read_table(files[place]))).to_arrow(), tmp_path / "spoilt.parquet")
        data[place] = (tmp_path / "spoilt.parquet").read_bytes()
        (finding,) = check_links(*data, record.replay.rows, meaning)
        assert finding.found == found


@pytest.mark.long
def test_no_household_moves_a_count_further_than_its_handle_says(tmp_path: Path):
    """The largest household leaves: counts of households move by one row of it, those of people by eight at most."""
    town = Town(tmp_path)
    before = _counts(town)
    with (town.example / "data" / "person.csv").open() as file:
        (largest, number) = Counter(row["household_id"] for row in csv.DictReader(file)).most_common(1)[0]
    assert number > 8
    for name in ("household", "person"):
        path = town.example / "data" / f"{name}.csv"
        header, *lines = path.read_text().splitlines()
        path.write_text("\n".join([header, *(line for line in lines if line.split(",")[0] != largest)]) + "\n")
    after = _counts(town)
    for clique, (counts, bound) in before.items():
        assert int(np.abs(counts - after[clique][0]).sum()) == bound, clique


def _counts(town: Town) -> dict[tuple[str, ...], tuple[np.ndarray, int]]:
    """Count some marginals of both tables as a grant would, each with the bound that its handle leads to."""
    request = read_request(town.example / f"{SPEC}.yaml")
    shutil.rmtree(town.example / "private", ignore_errors=True)
    source = SnapshotSource(_taken_in(town), request.contract)
    above = source.parent_marginals([(), ("region",), ("type", "size")])
    below = source.marginals([("age",), ("work", "income"), ("age", "size")])
    handles: list[PrivateCounts] = [*above, *below]
    return {each.clique: (each._count(), each.rows_per_unit(8)) for each in handles}


def _taken_in(town: Town) -> PrivateTable:
    request = read_request(town.example / f"{SPEC}.yaml")
    terms: dict[str, Any] = {"folder": town.example / "private", "key": KEY, "memory_limit": "256MB"}
    return ingest(request.spec.source, request.contract, parents=True, **terms)


@pytest.mark.long
def test_the_hash_of_a_snapshot_covers_the_parents(tmp_path: Path):
    """A household without people changes no row of people; the run that resumes must still see another snapshot."""
    town = Town(tmp_path)
    first = _taken_in(town)
    with (town.example / "data" / "household.csv").open("a") as file:
        file.write("987654,north,alone\n")
    shutil.rmtree(town.example / "private")
    assert _taken_in(town).keyed_hash != first.keyed_hash


@pytest.mark.parametrize(
    ("old", "new", "at", "found"),
    [
        ("base: person ", "base: household ", "product.generator", "the base household"),
        (", size, age", ", age", "product.columns", "no 'size'"),
        (", size, age", ", size, earners, age", "product.columns", "the column 'earners'"),
        (", age, work, income]", "]", "product.columns", "no column of person"),
        (
            "  generator: linked",
            "  inside_bins: measured\n  generator: linked",
            "product.inside_bins",
            "inside_bins beside",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_by_its_key(tmp_path: Path, old: str, new: str, at: str, found: str):
    """With what was found and what to do; nothing is read or charged."""
    town = Town(tmp_path)
    town.change(SPEC, (old, new))
    with pytest.raises(SpecRefused) as refused:
        read_request(town.example / f"{SPEC}.yaml")
    (finding,) = (each for each in refused.value.findings if found in each.found)
    assert at in finding.field
    assert finding.remedy
    assert town.left() == CAP


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "bounds: [0, 8], bins: {width: 1}, nulls: {policy: map, to: 0}",
            "bounds: [0, 9], bins: {width: 1}, nulls: {policy: map, to: 0}",
            "the cells of size",
        ),
        ("at_most: 8}", "at_most: 8}\n      rows_per_unit: {person: 4}", "rows_per_unit of person"),
    ],
)
def test_a_contract_whose_sizes_would_not_agree_is_refused(tmp_path: Path, old: str, new: str, found: str):
    town = Town(tmp_path)
    path = town.example / "households.odcs.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(SpecRefused, match=found):
        read_request(town.example / f"{SPEC}.yaml")


def test_a_generator_that_reads_rows_makes_no_parents(tmp_path: Path):
    """The option names the generators that count; the line is told."""
    town = Town(tmp_path)
    town.change(SPEC, ("  generator: linked_tables", "  generator: linked_tables\n  options: {parents: p3gm}"))
    with pytest.raises((SpecRefused, CannotGenerate), match="parents"):
        read_request(town.example / f"{SPEC}.yaml")
