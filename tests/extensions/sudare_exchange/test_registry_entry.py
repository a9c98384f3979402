"""The entry of the deployments registry in its newer form: strict, with nothing invented, and checked by verify."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from sudare_exchange.registry_entry import newer_entry, registry_files
from tasks.records.record import RecordExplanation, published_explanation
from tests.tasks.records.descriptions.outside_schemas import NEWER_DEPLOYMENT
from tests.tasks.verification.files.test_label_checks import dense, in_formats
from tests.tasks.verification.forgery import as_forged, forge
from tests.worlds.tables import Scenario
from tests.worlds.versions import Version, Worlds, broken, named

DECLARED = {
    "accountability.curator": "Town registrar",
    "accountability.purpose": "Planning",
    "accountability.rationale": "The council chose it.",
    "identity.region": "The town",
    "identity.sector": "Government",
}


def exchanged() -> Scenario:
    """Tables whose spec asks for the entry."""
    scenario = dense()
    return replace(scenario, spec=in_formats(scenario.spec, "[parquet], exchange: [registry]"))


@pytest.fixture(scope="module")
def version(worlds: Worlds) -> Version:
    return worlds.published(exchanged(), here=True)


@pytest.fixture(scope="module")
def record(version: Version) -> RecordExplanation:
    return published_explanation(lambda name: (version.folder / name).read_bytes())


def with_declared(record: RecordExplanation, **more: str) -> RecordExplanation:
    fields = {path: {"class": "public", "value": value} for path, value in (DECLARED | more).items()}
    return replace(record, fields={**record.fields, **fields})


def wrong(entry: Any) -> list[str]:
    return [error.message for error in Draft202012Validator(NEWER_DEPLOYMENT).iter_errors(entry)]


def test_the_entry_has_the_newer_form(record: RecordExplanation):
    """With everything declared nothing is missing; every group of the old entry is there."""
    entry = newer_entry(with_declared(record))
    assert wrong(entry) == []
    assert list(entry["deployment"]) == [
        *("basic", "dp_variant", "privacy_loss", "deployment_model", "implementation", "administrative")
    ]
    assert entry["deployment"]["basic"]["data_curators"] == [
        {"data_curator_name": "Town registrar", "data_curator_type": "Government"}
    ]


def test_what_nobody_declared_is_named_and_not_invented(record: RecordExplanation):
    """A sector that says nothing of who publishes leaves the type of the curator open, in the first lines too."""
    known = with_declared(record, **{"identity.sector": "Finance"})
    [(name, pieces)] = registry_files(known, lambda path: b"")
    text = b"".join(pieces).decode()
    assert name == "exchange/deployment.yaml"
    assert "#   basic.data_curators.data_curator_type: sector: Government" in text
    entry = yaml.safe_load(text)
    assert entry["deployment"]["basic"]["data_product_sector"] == "Finance"
    assert wrong(entry) == ["'data_curator_type' is a required property"]


SPOILT: list[Callable[[dict[str, Any]], Any]] = [
    lambda e: e.update(status="Draft"),
    lambda e: e["deployment"].update(product=e["deployment"].pop("basic")),
    lambda e: e["deployment"]["basic"].update(data_curators=["Town registrar"]),
    lambda e: e["deployment"]["basic"].pop("publication_date"),
    lambda e: e["deployment"]["dp_variant"].update(name="Pure DP"),
    lambda e: e["deployment"]["privacy_loss"].update(privacy_unit_description="x"),
    lambda e: e["deployment"]["implementation"].update(post_processing=3),
    lambda e: e["deployment"]["administrative"].pop("tier"),
]


@pytest.mark.parametrize("spoil", SPOILT)
def test_the_form_is_strict(record: RecordExplanation, spoil: Callable[[dict[str, Any]], Any]):
    """The test can fail: names of the old form, missing fields, another type."""
    entry = deepcopy(newer_entry(with_declared(record)))
    spoil(entry)
    assert wrong(entry)


def test_verify_makes_the_entry_again(version: Version, tmp_path: Path):
    """A changed number is found by its file, though it was signed again; the old entry stays beside it."""
    version.assert_verifies()
    assert (version.folder / "deployment.yaml").exists()
    other = as_forged(version.copy(tmp_path / "v"))
    path = other.folder / "exchange/deployment.yaml"
    path.write_text(path.read_text().replace("tier: ", "tier: 1", 1))
    forge(other)
    report = other.verify()
    assert broken(report) == {10}
    assert named(report) == {"exchange/deployment.yaml"}
