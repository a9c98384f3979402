"""Every field of the record follows from what is published, or the report lists it as the publisher's word."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.products.record_checks import read_record
from tasks.records.model.version_statements import Proof, RecordTerms, read_statement
from tasks.verification.explanations import EXACT
from tasks.verification.fields import check_fields
from tasks.verification.outcomes import NOT_COMPARED
from tasks.verify import verify
from tests.tasks.products.tables.test_minimum_frequency import suppressing
from tests.tasks.verification.forgery import Json, as_forged, forge, load, told, with_words
from tests.worlds.classifiers import dp_sgd
from tests.worlds.sparse_tables import small
from tests.worlds.synthetic_rows import aim
from tests.worlds.tables import second
from tests.worlds.versions import AnyScenario, Version, Worlds, broken

KINDS: dict[str, Callable[[], AnyScenario]] = {
    "dense": second,
    "suppressed": suppressing,
    "sparse": small,
    "synthetic": aim,
    "classifier": dp_sgd,
}
DECLARED = {
    *(
        "identity.sector",
        "identity.region",
        "identity.registry_id",
        "accountability.audience",
        "accountability.curator",
        "accountability.operator",
        "accountability.approvers",
        "accountability.legal_basis",
    ),
    *(
        "accountability.policy_version",
        "accountability.rationale",
        "accountability.contact",
        "source.lineage",
        "source.retention",
        "source.trust_model",
        "integrity.witness",
    ),
    *(
        "guarantee.delta_rationale",
        "unprotected.tuned_on_data",
        "preprocessing.exploratory_access",
        "preprocessing.hyperparameter_search",
    ),
    *("preprocessing.feature_selection", "limits.permitted_uses"),
}
OF_EVERY_RUN = DECLARED | {
    *(
        "source.source_format",
        "source.select",
        "guarantee.second_accountant",
        "guarantee.accountants",
        "ledger.other_charges",
        "unprotected.quantities",
    ),
    *(
        "unprotected.fixed_gates",
        "preprocessing.steps",
        "preprocessing.chosen_by_the_run",
        "noise.packages",
        "noise.python",
        "utility.expected_error",
    ),
    *(
        "utility.error_against_noisy",
        "utility.computed_on",
        "limits.hazards_guarantee",
        "limits.hazards_data",
        "limits.hazards_pipeline",
    ),
    *(
        "limits.quality_warnings",
        "provenance.commit",
        "provenance.sbom",
        "provenance.container",
        "output.files",
        "output.formats",
        "output.partitioning",
    ),
    *("reproducibility.reproducible", "notices.notice"),
}
SETTLED = {"identity", "accountability", "source", "contract", "guarantee", "provenance", "integrity", "notices"}
NEEDS_ACCOUNTANT = {"guarantee.conversion"}
"""Of a claim with delta above 0: which derivation gave it is found with a library of the publisher's."""
OF_TABLES = OF_EVERY_RUN | {"product.tables", "product.noisy_total", "product.suppression"}


@pytest.fixture(scope="module", params=KINDS)
def published(request: pytest.FixtureRequest, worlds: Worlds) -> tuple[str, Version]:
    kind: str = request.param
    return kind, worlds.published(KINDS[kind](), here=True)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, worlds: Worlds) -> Version:
    version = worlds.published(second(), here=True)
    return as_forged(version.copy(tmp_path_factory.mktemp("forged") / "v"))


def terms(record: Json) -> RecordTerms:
    checks, _ = read_record(record, where="record.json", manifest_name="MANIFEST.json")
    assert checks is not None
    return checks.record


def proof(version: Version) -> Proof:
    read, _ = read_statement(Proof, load(version.folder / "PROOF.json"), where="PROOF.json")
    assert read is not None
    return read


def changed(value: Any) -> Any:
    """Another value of the same form."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value} or not"
        case [first, *rest]:
            return [changed(first), *rest]
        case {**parts} if parts:
            name = next(iter(parts))
            return {**parts, name: changed(parts[name])}
    return "something"


def test_each_field_that_is_changed_is_found_or_is_the_publishers_word(published: tuple[str, Version]) -> None:
    """All public fields of the record, one by one: value, class, and the reason why there is none."""
    _, version = published
    record, entries = load(version.folder / "record.json"), proof(version)
    findings, word = check_fields(terms(record), entries, where="record.json")
    assert findings == []
    for section, group in record["groups"].items():
        for name, field in group["fields"].items():
            original, path = copy.deepcopy(field), f"{section}.{name}"
            field["value"] = changed(field["value"])
            found, _ = check_fields(terms(record), entries, where="record.json")
            named = {each.field.partition(",")[0] for each in found}
            assert (f"groups.{path}" in named) or path in word, path
            field.update(original)
            field["class"] = "auditor" if field["class"] == "public" else "public"
            found, _ = check_fields(terms(record), entries, where="record.json")
            assert f"groups.{path}, class" in {each.field for each in found}
            field.update(original)


def test_what_is_the_publishers_word_is_a_short_list(published: tuple[str, Version]) -> None:
    """A field that joins it is a decision: each is a fact that no file of the version holds."""
    kind, version = published
    _, word = check_fields(terms(load(version.folder / "record.json")), proof(version), where="record.json")
    if kind in ("dense", "suppressed", "sparse"):
        assert set(word) - NEEDS_ACCOUNTANT == OF_TABLES
    else:
        assert set(word) > OF_EVERY_RUN
        assert not {name for name in set(word) - OF_EVERY_RUN - NEEDS_ACCOUNTANT if name.partition(".")[0] in SETTLED}


FORGED = {
    "guarantee.definition": "For neighbours T and T': P[T gives S] <= exp(0.1) P[T' gives S].",
    "unit.unit": "one household",
    "unit.neighbours": "Two tables that are the same but for one household, left out or added.",
    "ledger.refresh_rule": "each month",
    "noise.entropy": "a generator that nobody can guess",
    "provenance.attempts": {"reserved": 1, "opened": 1, "draws": 1, "lost": 0},
    "contract.table": "another",
}


def test_words_that_their_publisher_changed_rendered_and_signed_are_found(tables: Version, tmp_path: Path) -> None:
    """Record, pages, descriptions, manifest and journal are consistent again; rule 10 names each field."""
    version = tables.copy(tmp_path / "v")
    with_words(version, lambda record: [told(record, path, value) for path, value in FORGED.items()])
    report = verify(version.folder, public_key=version.key)
    assert broken(report) == {10}
    of_the_record = {finding.field for finding in report.findings if finding.where == "record.json"}
    assert of_the_record == {f"groups.{path}" for path in FORGED}
    assert {finding.where for finding in report.findings} == {"record.json", "croissant.json"}


def test_the_report_lists_the_publishers_word(tables: Version, tmp_path: Path) -> None:
    """A word that is changed passes, and everybody who reads the report sees that it is one."""
    version = tables.copy(tmp_path / "v")
    with_words(version, lambda record: told(record, "source.select", "SELECT 1"))
    report = verify(version.folder, public_key=version.key)
    assert report.ok, report.findings
    assert set(report.word) == OF_TABLES | NEEDS_ACCOUNTANT
    assert report.to_json()["publishers_word"] == list(report.word)


def test_of_other_code_all_but_the_exact_fields_are_words(tables: Version, tmp_path: Path) -> None:
    version = tables.copy(tmp_path / "v")
    with_words(version, lambda record: told(record, "noise.code", "f" * 64))
    report = verify(version.folder, public_key=version.key)
    assert report.ok, report.findings
    assert NOT_COMPARED in report.cannot_tell
    assert not EXACT & set(report.word)
    assert {"guarantee.definition", "unit.unit", "accountability.curator"} <= set(report.word)


@pytest.mark.parametrize("path", sorted(EXACT))
def test_exact_fields_are_compared_whatever_code_wrote_the_record(tables: Version, tmp_path: Path, path: str) -> None:
    version = tables.copy(tmp_path / "v")
    section, _, name = path.partition(".")

    def change(record: Json) -> None:
        told(record, "noise.code", "f" * 64)
        told(record, path, changed(record["groups"][section]["fields"][name]["value"]))

    forge(version, record=change)
    report = verify(version.folder, public_key=version.key)
    assert f"groups.{path}" in {finding.field for finding in report.findings}
