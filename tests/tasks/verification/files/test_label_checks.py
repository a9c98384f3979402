"""Versions with columns beside labels: what they hold, that verify makes them again, and that forgeries are found."""

import csv
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from sudare.table import Table
from tests.tasks.records.version_schemas import version_schemas
from tests.tasks.verification.data_files.test_covert_room import by_other_libraries
from tests.tasks.verification.forgery import forge, load, with_words
from tests.worlds.hierarchies import hierarchical
from tests.worlds.private_keys import pure
from tests.worlds.sparse_tables import small
from tests.worlds.statistics import of_tables
from tests.worlds.synthetic_rows import SyntheticScenario
from tests.worlds.tables import AGE, HIRED, SCHOOLED, WAGE, Scenario, first, property_yaml
from tests.worlds.versions import Version, Worlds, broken, named, publish_version

WARD = property_yaml(
    "ward",
    "string",
    '{kind: mapping, mapping: {"=1+1": 外科, "07": 内科, "08": 内科, "<b>": "<i>小児科</i>"}, other: 不明, '
    "nulls: {policy: category}, provenance: {kind: declared}}",
)
TABLES = """{kind: tables, mechanism: laplace, tables: [[schooled, ward], [wage], [ward],
  {columns: [hired, age], name: hires, hierarchy: {hired: [year]}}]}"""
BESIDE_WARD = {
    "外科": (1, "=1+1"),
    "内科": (2, "07|08"),
    "<i>小児科</i>": (3, "<b>"),
    "不明": (4, None),
    "(null)": (5, None),
}


def in_formats(spec: str, formats: str) -> str:
    begin = spec.index("formats: ")
    return spec[:begin] + f"formats: {formats}" + spec[spec.index("}\n", begin) :]


def dense() -> Scenario:
    """Numbers, decimals, days by quarter and year, and codes with labels in Japanese; Parquet, parts and CSV."""
    scenario = hierarchical(AGE + SCHOOLED + WAGE + HIRED + WARD, TABLES, first())
    formats = "[parquet, csv, parts], formulas: neutralised, labels: columns"
    return replace(scenario, spec=in_formats(scenario.spec, formats))


def listed() -> Scenario:
    """A table that lists cells, refined."""
    scenario = small()
    return replace(scenario, spec=in_formats(scenario.spec, "[parquet, csv], labels: columns"))


def summed() -> SyntheticScenario:
    """Statistics by bins and quarters."""
    tables = "[{by: [bill, arrived], name: stays, of: [count, {mean: age}]}, {by: [], of: [count]}]"
    return replace(of_tables(tables), formats="[parquet, csv], labels: columns")


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> Version:
    return worlds.published(dense())


def table(version: Version, name: str) -> pl.DataFrame:
    found = pl.from_arrow(pq.read_table(version.folder / f"data/{name}.parquet"))
    assert isinstance(found, pl.DataFrame)
    return found


def rewritten(path: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Write a Parquet file again with another column in the place of one, and all else as it is written here."""
    whole = pq.read_table(path, read_dictionary=[])
    place = whole.schema.get_field_index(name)
    field = whole.schema.field(name)
    changed = whole.set_column(place, field, change(whole.column(name)).cast(field.type))
    labels = [each.name for each in whole.schema if pa.types.is_dictionary(each.type)]
    pq.write_table(changed, path, compression="zstd", use_dictionary=labels)


def test_every_label_has_beside_it_what_it_stands_for(published: Version):
    """Order, ends as numbers and days, codes; nothing beside "(null)" and `other`."""
    found = table(published, "schooled_x_ward")
    beside = ["schooled_order", "schooled_lower", "schooled_upper", "ward_order", "ward_code"]
    assert found.columns == ["schooled", "ward", *beside, "count", "lower", "upper"]
    wards = {row["ward"]: (row["ward_order"], row["ward_code"]) for row in found.to_dicts()}
    assert wards == BESIDE_WARD
    years = {row["schooled"]: [row[name] for name in beside[:3]] for row in found.to_dicts()}
    assert list(years.items())[:2] == [("0 to 4", [1, 0, 4]), ("5 to 9", [2, 5, 9])]
    assert list(years.items())[-2:] == [("30", [7, 30, 30]), ("(null)", [8, None, None])]
    wages = table(published, "wage").select("wage", "wage_lower", "wage_upper").rows()
    assert wages == [
        ("[0, 12.5)", 0.0, 12.5),
        ("[12.5, 20)", 12.5, 20.0),
        ("[20, 50]", 20.0, 50.0),
        ("(null)", None, None),
    ]
    hires = (
        table(published, "hires").unique(["hired"]).sort("hired_order").select("hired_lower", "hired_upper").rows()
    )
    assert (hires[0], hires[-1], len(hires)) == (
        (date(2020, 1, 1), date(2020, 3, 31)),
        (date(2021, 10, 1), date(2021, 12, 31)),
        8,
    )
    years_of_hiring = table(published, "hires.year").unique(["hired"]).sort("hired_order")
    assert years_of_hiring.select("hired_lower", "hired_upper").rows() == [
        (date(2020, 1, 1), date(2020, 12, 31)),
        (date(2021, 1, 1), date(2021, 12, 31)),
    ]


def test_measurements_and_old_versions_have_labels_alone(published: Version, worlds: Worlds):
    """Columns are added where the spec asks for them, and in `data/` only."""
    measured = pq.read_schema(published.folder / "measurements/ward.parquet").names
    assert measured == ["ward", "noisy", "variance", "lower", "upper", "structural_zero"]
    old = worlds.published(first())
    assert "labels" not in load(old.folder / "record.json")["replay"]
    assert not [
        name for file in old.folder.glob("data/*.parquet") for name in pq.read_schema(file).names if "_order" in name
    ]


def test_csv_copies_hold_the_same_and_no_code_is_a_formula(published: Version):
    with (published.folder / "data/ward.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header[:3] == ["ward", "ward_order", "ward_code"]
    assert [tuple(row[:3]) for row in rows] == [
        (label, str(order), {None: "", "=1+1": "'=1+1"}.get(code, code))
        for label, (order, code) in BESIDE_WARD.items()
    ]


def keyed() -> SyntheticScenario:
    """Statistics by texts that nobody declared, whose keys are selected."""
    return replace(pure(), formats="[parquet, csv], formulas: neutralised, labels: columns")


@pytest.mark.long
@pytest.mark.parametrize("make", [dense, listed, summed, keyed])
def test_verify_makes_the_columns_again(worlds: Worlds, make: Callable[[], Any]):
    """Of dense and sparse tables and of statistics; the record says that they are there, in words too."""
    version = worlds.published(make())
    version.assert_verifies()
    record = load(version.folder / "record.json")
    Draft202012Validator(version_schemas()["record"]).validate(record)
    assert record["replay"]["labels"] == "columns"
    assert "beside each column of labels" in str(version.words["output.labels"])


def test_a_notebook_shows_the_ends_of_bins_and_takes_none_for_an_interval(published: Version):
    """Whiskers belong to numbers; `wage_lower` is no end of an interval of `wage`, which is a label."""
    shown = Table("wage", published.folder / "data/wage.parquet")._repr_html_()
    assert "wage_lower" in shown
    assert shown.count("<svg") == 4


def test_croissant_says_what_the_columns_mean(published: Version):
    sets = load(published.folder / "croissant.json")["recordSet"]
    fields = {field["name"]: field for each in sets if each["name"].startswith("data/") for field in each["field"]}
    assert fields["ward_code"]["description"].startswith("Code in the data that the label of ward stands for")
    assert "which the bin does not hold, but for the last one" in fields["wage_upper"]["description"]
    assert (fields["hired_lower"]["dataType"], fields["wage_lower"]["dataType"]) == ("sc:Date", "sc:Float")
    assert fields["schooled_order"]["dataType"] == "sc:Integer"
    assert fields["ward"]["description"] == "Label of the cell."


@pytest.mark.parametrize(
    ("name", "column", "change"),
    [
        ("schooled_x_ward", "ward_code", lambda values: pc.replace_substring(values, "07|08", "07")),
        ("schooled_x_ward", "schooled_lower", lambda values: pc.add(values, 1)),
        ("schooled_x_ward", "schooled_upper", lambda values: pc.fill_null(values, 0)),
        ("wage", "wage_lower", lambda values: pc.negate(values)),
        ("wage", "wage_order", lambda values: pc.subtract(5, values)),
        ("hires", "hired_upper", lambda values: pc.add(values.cast(pa.int32()), pa.scalar(1, pa.int32()))),
        ("hires.year", "hired_lower", lambda values: pc.add(values.cast(pa.int32()), pa.scalar(1, pa.int32()))),
    ],
)
@pytest.mark.parametrize("record", [lambda record: None, by_other_libraries], ids=["these", "others"])
def test_a_forged_column_is_found(
    version: Version, name: str, column: str, change: Callable[[Any], Any], record: Callable[[Any], object]
):
    """Whichever libraries wrote the file, and though its publisher signed it."""
    rewritten(version.folder / f"data/{name}.parquet", column, change)
    report = forge(version, record=record).verify()
    assert 9 in broken(report)
    assert any(
        f"column {column}, row" in each.field for each in report.findings if each.where == f"data/{name}.parquet"
    )


def test_codes_that_hide_further_ones_in_a_dictionary_are_found(version: Version):
    """The file reads the same; a dictionary has room for entries that no row shows."""
    path = version.folder / "data/ward.parquet"
    whole = pq.read_table(path)
    place = whole.schema.get_field_index("ward_code")
    coded = pa.DictionaryArray.from_arrays(
        pc.index_in(whole.column("ward_code").combine_chunks(), pa.array(["=1+1", "07|08", "<b>"])),
        pa.array(["=1+1", "07|08", "<b>", "hidden"]),
    )
    pq.write_table(whole.set_column(place, "ward_code", coded), path, compression="zstd", use_dictionary=["ward"])
    report = forge(version).verify()
    assert (9 in broken(report), "data/ward.parquet" in named(report)) == (True, True)


@pytest.mark.parametrize("make", [listed, summed])
def test_a_forged_csv_copy_is_found(worlds: Worlds, tmp_path: Path, make: Callable[[], Any]):
    version = worlds.published(make()).copy(tmp_path / "v")
    path = next(each for each in sorted(version.folder.glob("data/*.csv")) if "_order" in each.read_text())
    lines = path.read_text().splitlines()
    place = lines[0].split(",").index(next(each for each in lines[0].split(",") if each.endswith("_order")))
    cells = next(csv.reader([lines[1]]))
    cells[place] = "77"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([next(csv.reader([lines[0]])), cells, *csv.reader(lines[2:])])
    report = forge(version).verify()
    assert (broken(report), named(report)) == ({9}, {f"data/{path.name}"})


@pytest.mark.parametrize("made", [True, False])
def test_a_record_that_says_otherwise_is_found(published: Version, worlds: Worlds, tmp_path: Path, made: bool):
    """Columns without the statement, and the statement without columns."""
    version = (published if made else worlds.published(first())).copy(tmp_path / "v")

    def change(record: Any) -> None:
        if made:
            del record["replay"]["labels"]
        else:
            record["replay"]["labels"] = "columns"

    report = forge(version, record=change).verify()
    assert 9 in broken(report)
    assert any(each.field == "columns" for each in report.findings)


@pytest.mark.long
def test_rows_that_are_no_cells_have_no_such_statement(worlds: Worlds, tmp_path: Path):
    """A record of synthetic rows that claims columns beside labels is refused."""
    scenario = SyntheticScenario(product="{kind: synthetic, generator: independent}", rows=300)
    version = publish_version(scenario, tmp_path)
    with_words(version, lambda record: record["replay"].update(labels="columns"))
    assert ("record.json", "replay.labels") in {(each.where, each.field) for each in version.verify().findings}
