"""Registry entry, lineage event and privacy label: their form, where their numbers come from, and forged ones."""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tasks.records.descriptions.deployment_entry import deployment, deployment_yaml, missing_fields
from tasks.records.descriptions.description_files import FROM_RECORD, descriptions
from tasks.records.descriptions.descriptions import label_html
from tasks.records.descriptions.lineage import run_event
from tasks.records.record import RecordExplanation, published_explanation
from tasks.records.software import software
from tests.tasks.records.descriptions.outside_schemas import DEPLOYMENT, RUN_EVENT
from tests.tasks.verification.forgery import Change, as_forged, edit, forge, load, told
from tests.worlds.tables import OTHER_ABOUT, second
from tests.worlds.versions import Version, Worlds, broken, named

DECLARED = {
    "accountability.curator": "Guild of masons",
    "accountability.contact": "statistics@guild.example",
    "accountability.rationale": "Two decimals of the mean wage stay readable.",
    "identity.region": "The town and its suburbs",
    "identity.sector": "Government",
    "source.trust_model": "The guild sees the rows; nobody else is trusted.",
}


@pytest.fixture(scope="module")
def ours(worlds: Worlds) -> Version:
    """A version whose record names the very code that runs here."""
    scenario = second()
    scenario.spec = scenario.spec.removesuffix(OTHER_ABOUT)
    scenario.software = software()
    return worlds.published(scenario)


@pytest.fixture(scope="module")
def forgeable(ours: Version, tmp_path_factory: pytest.TempPathFactory) -> Version:
    return as_forged(ours.copy(tmp_path_factory.mktemp("forged") / "v"))


@pytest.fixture
def spoilt(forgeable: Version, tmp_path: Path) -> Version:
    return forgeable.copy(tmp_path / "v")


@pytest.fixture
def record(ours: Version) -> RecordExplanation:
    return published_explanation(lambda name: (ours.folder / name).read_bytes())


def with_declared(explanation: RecordExplanation, **more: str) -> RecordExplanation:
    fields = {path: {"class": "public", "value": value} for path, value in (DECLARED | more).items()}
    return replace(explanation, fields={**explanation.fields, **fields})


def wrong(schema: dict[str, Any], value: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(schema).iter_errors(value)]


def test_the_entry_has_the_form_of_the_registry(record: RecordExplanation):
    """With everything declared, the entry is complete, and of the highest tier."""
    entry = deployment(with_declared(record))
    assert wrong(DEPLOYMENT, entry) == []
    assert missing_fields(entry["deployment"]) == []
    assert (entry["tier"], entry["status"]) == (3, "Draft")


def test_what_nobody_declared_is_named_and_not_invented(record: RecordExplanation):
    """What the schema misses is what the first lines name, no more; the rest has its form."""
    text = deployment_yaml(record).decode()
    assert "#   product.data_curators: curator: who publishes\n" in text
    assert "#   product.data_product_region: region: where the people are, or whose law holds\n" in text
    messages = wrong(DEPLOYMENT, yaml.safe_load(text))
    assert sorted(re.findall(r"'(\w+)' is a required property", " ".join(messages))) == [
        "data_curators",
        "data_product_region",
    ]
    assert len(messages) == 2


def test_the_form_that_is_asked_for_is_strict(record: RecordExplanation):
    """The test of the form can fail: another name, a missing field, a text for a number."""
    entry = deployment(with_declared(record))
    for spoil in (
        lambda e: e["deployment"]["product"].pop("name"),
        lambda e: e["deployment"]["product"].update(title="x"),
        lambda e: e["deployment"].update(basic=e["deployment"].pop("product")),
        lambda e: e["deployment"]["product"].update(data_curators=[{"data_curator_name": "x"}]),
        lambda e: e["deployment"]["product"].update(data_product_sector="Finance"),
        lambda e: e.pop("status"),
        lambda e: e["deployment"]["resources"].update(status="Draft", tier=3),
        lambda e: e["deployment"]["implementation"].update(composition="x"),
        lambda e: e["deployment"]["privacy_loss"]["privacy_parameters"].update(epsilon="2.5"),
    ):
        other = deepcopy(entry)
        spoil(other)
        assert wrong(DEPLOYMENT, other)


def test_the_entry_has_the_numbers_of_the_record(record: RecordExplanation):
    entry = yaml.safe_load(deployment_yaml(record))["deployment"]
    assert entry["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.499999995191, "delta": 1e-8}
    assert entry["dp_flavor"]["name"] == "Approximate DP"
    assert "the check domain:wage held" in entry["dp_flavor"]["unprotected_quantities"]


def test_the_event_has_the_form_of_openlineage(versions: dict[str, Version]):
    for version in versions.values():
        assert wrong(RUN_EVENT, load(version.folder / "lineage.json")) == []


def test_the_form_of_an_event_is_strict(record: RecordExplanation):
    event = run_event(record)
    for spoil in (
        lambda e: e.pop("schemaURL"),
        lambda e: e["run"].update(runId="guild"),
        lambda e: e["outputs"][0]["facets"]["storage"].pop("_producer"),
        lambda e: e["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"][0].pop("success"),
    ):
        other = deepcopy(event)
        spoil(other)
        assert wrong(RUN_EVENT, other)


def test_the_event_tells_of_gates_and_files_and_nothing_private(ours: Version, record: RecordExplanation):
    """Only the declared gate is an assertion; the source is named by its contract; every file is an output."""
    event = run_event(record)
    [source] = event["inputs"]
    assert source["name"] == "workers.contracts_of_work"
    assertions = source["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert assertions == [{"assertion": "domain", "column": "wage", "severity": "error", "success": True}]
    outputs = {each["name"].partition("/v2/")[2] for each in event["outputs"]}
    assert outputs == {name for name in ours.files if name.startswith(("data/", "measurements/"))}
    assert "rowCount" not in json.dumps(source)


def test_no_description_shows_what_is_withheld(ours: Version):
    """The path and name of the source, and the exact times, are for auditors."""
    path = ours.folder.parents[2] / "records" / Path(*ours.folder.parts[-2:]) / "record.auditor.json"
    hidden = [value for value in load(path)["record"]["auditor"].values() if isinstance(value, str)]
    assert len(hidden) >= 4
    for name in FROM_RECORD:
        text = (ours.folder / name).read_text(encoding="utf-8")
        assert [value for value in hidden if value in text] == []


def test_the_label_is_one_page_of_escaped_text_without_script(record: RecordExplanation):
    """What a contract says is text; nothing is loaded from anywhere."""
    curator = '"><img src=x onerror=alert(1)>'
    hostile = {"identity.title": "<script>alert(1)</script>", "accountability.curator": curator}
    hostile = with_declared(record, **hostile)
    page = label_html(hostile).decode()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert not re.findall(r'(?:src|href)="(?!record)[^"]*"', page)
    assert '<data value="2.499999995191">' in page


def test_descriptions_are_made_of_the_written_record(ours: Version, record: RecordExplanation):
    """Made again from record.json as it is read, they have the same bytes."""
    for name, content in descriptions(record).items():
        assert (ours.folder / name).read_bytes() == content


def replaced(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new), encoding="utf-8")

    return change


def event(change: Change) -> Callable[[Path], object]:
    return lambda folder: edit(folder / "lineage.json", change)


def less_learned(folder: Path) -> None:
    """Let the label say that less can be learned than the record says."""
    path = folder / "label.html"
    path.write_text(re.sub(r'<data value="[0-9.]+ %">', '<data value="1.5 %">', path.read_text(), count=1))


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("deployment.yaml", replaced("deployment.yaml", "epsilon: 2.499999995191", "epsilon: 0.5"), "0.5"),
        ("deployment.yaml", replaced("deployment.yaml", "delta: 1.0e-08", "delta: 1.0e-12"), "1e-12"),
        ("deployment.yaml", replaced("deployment.yaml", "      delta: 1.0e-08\n", ""), "0.0"),
        ("deployment.yaml", lambda folder: (folder / "deployment.yaml").write_text("{"), "no YAML"),
        ("deployment.yaml", replaced("deployment.yaml", "tier: 1", "tier: 3"), "other bytes"),
        ("lineage.json", event(lambda e: e["run"]["facets"]["sudare_privacy"].update(epsilon="0.1")), "0.1"),
        ("lineage.json", event(lambda e: e["outputs"].pop()), "files"),
        (
            "lineage.json",
            event(lambda e: e["outputs"][0]["outputFacets"]["outputStatistics"].update(rowCount=7)),
            "data/hired",
        ),
        ("lineage.json", event(lambda e: e.update(extra=1)), "other bytes"),
        ("label.html", replaced("label.html", 'value="2.499999995191"', 'value="0.1"'), "0.1"),
        ("label.html", replaced("label.html", "</span> ≤ 2.5<", "</span> ≤ 0.5<"), "other bytes"),
        ("label.html", less_learned, "1.5 %"),
    ],
)
def test_a_description_that_says_something_else_is_found(
    spoilt: Version, name: str, change: Callable[[Path], object], says: str
):
    """Also by a publisher who signs it: rule 10, in the file that was changed."""
    change(spoilt.folder)
    report = forge(spoilt).verify()
    assert broken(report) == {10}
    assert named(report) == {name}
    assert says in " ".join(f.found for f in report.findings)


def test_other_code_compares_numbers_and_not_bytes(spoilt: Version):
    """A record of other code: another layout is no finding, another ε is."""
    forge(spoilt, record=lambda record: told(record, "software.code", "2" * 64))
    replaced("deployment.yaml", "tier: 1", "tier: 3")(spoilt.folder)
    forge(spoilt)
    assert spoilt.verify().findings == ()
    replaced("deployment.yaml", "epsilon: 2.499999995191", "epsilon: 0.5")(spoilt.folder)
    forge(spoilt)
    assert named(spoilt.verify()) == {"deployment.yaml"}


@pytest.mark.parametrize("name", sorted(FROM_RECORD))
def test_a_missing_description_is_a_missing_file(spoilt: Version, name: str):
    (spoilt.folder / name).unlink()
    assert name in " ".join(str(vars(f)) for f in spoilt.verify().findings)
