"""CSV files with labels that a spreadsheet would run: neutralised, read back, and found where a quote is missing."""

import csv
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from contracts.contract.labels import Formulas, stated
from contracts.contract.odcs import load_contract
from contracts.errors import SpecRefused
from contracts.release.federation_spec import check_federation, load_federation
from privacy.marginals.portable import PostProcessingSeed
from tasks.records.files.csv_rows import read_csv, write_csv
from tasks.sample import sample
from tasks.verify import verify
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.data_files.test_covert_room import by_other_libraries
from tests.tasks.verification.forgery import as_forged, forge, load, with_words
from tests.worlds.federated_runs import released
from tests.worlds.federations import CONTRACT, FEDERATION, MARGINALS, TABLES, a_coordinator
from tests.worlds.sparse_tables import sparse
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.tables import Scenario, first, property_yaml
from tests.worlds.versions import Version, Worlds, broken, named, publish_version

LABELS = ("=1+1", "+a", "-b", "@c", "'=x", "=x", "'", "-1", "a, b", 'say "=1"')
CELLS = ("'=1+1", "'+a", "'-b", "'@c", "''=x", "'=x", "''", "-1", "a, b", 'say "=1"')
MARK = property_yaml(
    "mark",
    "string",
    """{kind: categories, values: ["=1+1", +a, -b, "@c", "'=x", "=x", "'", "-1", "a, b", 'say "=1"'], """
    "nulls: {policy: map, to: +a}, provenance: {kind: declared}}",
)
SIGN = property_yaml(
    '"=sign"',
    "string",
    "{kind: categories, values: [plus, minus], nulls: {policy: category}, provenance: {kind: declared}}",
)
COLUMNS = MARK + SIGN
WRITTEN = "[parquet, csv, parts], formulas: {}"
Make = Callable[[str], Any]


def tables(scenario: Scenario, formulas: str, form: str) -> Scenario:
    """A table over the columns of formulas, dense or sparse."""
    at = scenario.contract.index("    properties:\n") + len("    properties:\n")
    product = scenario.spec.index("tables: [["), scenario.spec.index("refine:")
    asked = f"tables: [{{name: marks, columns: [mark, '=sign'], form: {form}}}], "
    spec = scenario.spec[: product[0]] + asked + scenario.spec[product[1] :]
    formats = spec.index("formats: "), spec.index("}\n", spec.index("formats: "))
    spec = spec[: formats[0]] + f"formats: {WRITTEN.format(formulas)}" + spec[formats[1] :]
    return replace(scenario, contract=scenario.contract[:at] + COLUMNS, spec=spec, failing="")


def sparse_tables(formulas: str) -> Scenario:
    return tables(sparse((20, 30), rows=400, refine="{method: negative_l2, lambda: 0.1}"), formulas, "sparse")


def synthetic_rows(formulas: str) -> SyntheticScenario:
    return SyntheticScenario(
        privacy="{unit: {kind: row, scope: block}, adjacency: add_remove}",
        product="{kind: synthetic, generator: independent}",
        formats=WRITTEN.format(formulas),
        rows=400,
        release="marks",
        properties=COLUMNS,
    )


KINDS: dict[str, Make] = {
    "dense": lambda formulas: tables(first(), formulas, "dense"),
    "sparse": sparse_tables,
    "rows": synthetic_rows,
}


@pytest.fixture(scope="module", params=KINDS)
def published(request: pytest.FixtureRequest, worlds: Worlds) -> Version:
    return worlds.published(KINDS[request.param]("neutralised"))


def cells(path: Path) -> list[list[str]]:
    """The rows of a CSV file as any program reads them, names of the columns first."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_csv_files_have_a_quote_in_front_and_parquet_keeps_the_label(published: Version):
    """Every formula, quoted label and name of a column is text in CSV; verify reads them back."""
    header, *rows = cells(published.folder / "data/marks.csv")
    table = pq.read_table(published.folder / "data/marks.parquet")
    assert header[:2] == ["mark", "'=sign"]
    assert table.column_names[:2] == ["mark", "=sign"]
    names = dict(zip(LABELS, CELLS, strict=True))
    labels = table.column("mark").to_pylist()
    assert [row[0] for row in rows] == [names[label] for label in labels]
    assert {"=1+1", "'=x", "=x", "-1"} <= set(labels)
    parts = sorted((published.folder / "data/marks").glob("*.parquet"))
    assert pq.read_table(parts[0]).column("mark").to_pylist() == labels
    published.assert_verifies()


def test_the_version_says_how_its_csv_files_are_written(version: Version):
    """It is public."""
    record = load(version.folder / "record.json")
    Draft202012Validator(version_schemas()["record"]).validate(record)
    assert record["replay"]["formulas"] == "neutralised"
    assert version.words["output.formulas"] == stated("neutralised")


def test_a_file_of_one_column_keeps_its_missing_values():
    rows = pa.table({"age": pa.array([1, None, 3, None], pa.int64())})
    written = BytesIO()
    write_csv(rows, written, header=True, formulas=None)
    assert read_csv(written.getvalue(), {"age": pa.int64()}, formulas=None).equals(rows)


@pytest.mark.parametrize("formulas", ["accepted", None])
def test_a_record_that_states_another_way_of_writing_is_refused(version: Version, formulas: Formulas | None):
    def change(record: Any) -> None:
        record["replay"]["formulas"] = formulas

    report = forge(version, record=change).verify()
    assert (broken(report), "data/marks.csv" in named(report)) == ({9} if formulas else {5, 9}, True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_version_with_formulas_does_not_say_that_it_has_none(worlds: Worlds, tmp_path: Path, kind: str):
    """As they are, they are no other bytes under `formulas: accepted` than under nothing; the labels tell."""
    version = as_forged(worlds.published(KINDS[kind]("accepted")).copy(tmp_path / "v"))
    report = version.verify()
    assert report.ok, report.findings
    assert "replay.formulas" in report.word
    with_words(version, lambda record: record["replay"].update(formulas=None))
    report = version.verify()
    assert {(finding.where, finding.field) for finding in report.findings} == {("record.json", "replay.formulas")}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\n'=1+1,", b"\n=1+1,"),
        (b"\n''=x,", b"\n'=x,"),
        (b"\n''=x,", b"\n'''=x,"),
        (b"\n-1,", b"\n'-1,"),
        (b",'=sign", b",=sign"),
        (b"\n'@c,", b"\n@c,"),
    ],
)
@pytest.mark.parametrize("record", [lambda record: None, by_other_libraries], ids=["these", "others"])
def test_a_quote_that_is_missing_or_too_many_is_found(
    version: Version, before: bytes, after: bytes, record: Callable[[Any], object]
):
    """Whichever libraries wrote the file, and though its publisher signed it."""
    path = version.folder / "data/marks.csv"
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after, 1))
    report = forge(version, record=record).verify()
    assert (broken(report), named(report)) == ({9}, {"data/marks.csv"})


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_accepted_labels_stand_in_csv_files_as_they_are(make: Make, tmp_path: Path):
    version = publish_version(make("accepted"), tmp_path)
    header, *rows = cells(version.folder / "data/marks.csv")
    assert header[:2] == ["mark", "=sign"]
    assert [row[0] for row in rows] == pq.read_table(version.folder / "data/marks.parquet")["mark"].to_pylist()
    version.assert_verifies()


def test_sampled_rows_are_written_as_the_version_writes_them(tmp_path: Path):
    version = publish_version(synthetic_rows("neutralised"), tmp_path / "v")
    for name in ("more.csv", "more.parquet"):
        where = {"mark": ["=x", "'=x", "-1"]}
        sample(version.folder, rows=60, where=where, seed=PostProcessingSeed(5), to=tmp_path / name)
    assert set(pq.read_table(tmp_path / "more.parquet")["mark"].to_pylist()) == {"=x", "'=x", "-1"}
    assert {row[0] for row in cells(tmp_path / "more.csv")} == {"mark", "'=x", "''=x", "-1"}


@pytest.mark.parametrize("formulas", ["neutralised", "accepted", None])
def test_what_is_written_is_read_back(formulas: Formulas | None):
    """Labels in a dictionary or not, missing ones too, in several pieces; without neutralising they stay."""
    labels = pa.chunked_array([[*LABELS, None], ["=x", "plain"], []], pa.string())
    numbers = pa.chunked_array([list(range(-6, 7))], pa.int64())
    rows = pa.table({"mark": labels, "=coded": labels.dictionary_encode(), "count": numbers})
    file = BytesIO()
    for place in range(2):
        write_csv(rows.slice(7 * place, 7), file, header=place == 0, formulas=formulas)
    types = {"mark": pa.string(), "=coded": pa.string(), "count": pa.int64()}
    assert read_csv(file.getvalue(), types, formulas=formulas).to_pylist() == rows.to_pylist()
    assert (file.getvalue() == pl.DataFrame(rows).write_csv().encode()) == (formulas != "neutralised")
    found = [line.rpartition(b",")[2] for line in file.getvalue().splitlines()[1:]]
    assert found == [str(number).encode() for number in numbers.to_pylist()]


@pytest.mark.parametrize("formulas", ["neutralised", "accepted", None])
def test_labels_of_wide_offsets_are_written_and_read_as_any(formulas: Formulas | None):
    """Arrow keeps texts as string or large_string: the same labels are the same bytes, quotes and all."""
    labels, written = ["=1+1", "'x", "a, b", 'say "no"', None], []
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.large_string())):
        file = BytesIO()
        rows = pa.table({"label": pa.array(labels, kind), "count": range(5)})
        write_csv(rows, file, header=True, formulas=formulas)
        written.append(file.getvalue())
    assert len(set(written)) == 1
    again = read_csv(written[0], {"label": pa.large_string(), "count": pa.int64()}, formulas=formulas)
    assert again["label"].cast(pa.string()).to_pylist() == labels


def test_numbers_are_written_as_polars_writes_them():
    """Every form of a number, 20,000 random ones and the ends of the range: a second writer agrees on each byte."""
    bits = np.random.default_rng(7).integers(0, 2**63, 20_000, dtype=np.int64)
    ends = [0.0, -0.0, 9.99e-6, 1e-5, -1.25e-5, 1e-4, 1e15, 1e16, -1e16, 5e-324, math.inf, -math.inf, math.nan, None]
    numbers = pa.array([*bits.view(np.float64).tolist(), *ends], pa.float64())
    days = pa.array([date(2020, 1, 2), None], pa.date32()).take(pa.array(np.arange(len(numbers)) % 2))
    truths = pa.array([True, False, None]).take(pa.array(np.arange(len(numbers)) % 3))
    rows, file = pa.table({"number": numbers, "day": days, "truth": truths}), BytesIO()
    write_csv(rows, file, header=True, formulas=None)
    assert file.getvalue() == pl.DataFrame(rows).write_csv().encode()


ODD_WARDS = (
    "{kind: categories, values: [A, B, C], nulls: {policy: map, to: A}",
    """{kind: mapping, mapping: {A: =a, B: "'=a", C: c}, nulls: {policy: map, to: c}""",
)
ODD_CONTRACT = CONTRACT.replace(*ODD_WARDS)


@pytest.mark.long
@pytest.mark.parametrize(("federation", "name"), [(TABLES, "ward_x_long.csv"), (MARGINALS, "long-stays.csv")])
def test_a_federation_neutralises_too(tmp_path: Path, federation: str, name: str):
    """What is published is found otherwise when the coordinator takes a quote away, and signs it."""
    run = released(tmp_path, f"{federation}formulas: neutralised\n", contract=ODD_CONTRACT)
    assert verify(run.folder, public_key=run.version.key).ok
    copy = as_forged(run.version.copy(tmp_path / "copy"))
    path = copy.folder / "data" / name
    header, *rows = cells(path)
    assert {row[header.index("ward")] for row in rows} == {"'=a", "''=a", "c"}
    again = StringIO()
    csv.writer(again, lineterminator="\n").writerows([header, *rows])
    assert again.getvalue() == path.read_text()
    assert load(copy.folder / "record.json")["replay"]["formulas"] == "neutralised"
    path.write_bytes(path.read_bytes().replace(b"'=a", b"=a"))
    forge(copy)
    assert f"data/{name}" in {each.where for each in copy.verify().findings}


@pytest.mark.parametrize("federation", [TABLES, MARGINALS])
def test_a_federation_that_writes_formulas_needs_a_choice(tmp_path: Path, federation: str):
    """A classifier has no CSV file, and needs none."""
    spec = a_coordinator(tmp_path / "c", federation=federation, contract=ODD_CONTRACT)[0]
    contract = load_contract(spec.parent / "wards.odcs.yaml")
    (finding,) = check_federation(load_federation(spec), contract, where=str(spec))
    assert (finding.field, "the first: number 1 of column 'ward'" in finding.found) == ("formulas", True)
    assert "formulas: neutralised" in finding.remedy
    for choice in (f"{federation}formulas: accepted\n", FEDERATION):
        spec.write_text(choice)
        assert check_federation(load_federation(spec), contract, where=str(spec)) == []
    spec.write_text(f"{federation}formulas: quoted\n")
    with pytest.raises(SpecRefused, match="one of accepted, neutralised"):
        load_federation(spec)
