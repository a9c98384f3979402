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
from tasks.verification.words import NOT_COMPARED
from tasks.verify import verify
from tests.tasks.forgery import Json, as_forged, forge, load, told, with_words
from tests.tasks.model_runs import dp_sgd
from tests.tasks.runs import second
from tests.tasks.sparse_runs import small
from tests.tasks.synthetic_runs import aim
from tests.tasks.test_minimum_frequency import suppressing
from tests.tasks.version_fixture import AnyScenario, Version, broken, publish_version

KINDS: dict[str, Callable[[], AnyScenario]] = {
    "dense": second,
    "suppressed": suppressing,
    "sparse": small,
    "synthetic": aim,
    "classifier": dp_sgd,
}
DECLARED = {
    *(
        "A.sector",
        "A.region",
        "A.registry_id",
        "B.audience",
        "B.curator",
        "B.operator",
        "B.approvers",
        "B.legal_basis",
    ),
    *("B.policy_version", "B.rationale", "B.contact", "C.lineage", "C.retention", "C.trust_model", "Q.witness"),
    *("F.delta_rationale", "H.tuned_on_data", "I.exploratory_access", "I.hyperparameter_search"),
    *("I.feature_selection", "N.permitted_uses"),
}
OF_EVERY_RUN = DECLARED | {
    *("C.source_format", "C.select", "F.second_accountant", "F.accountants", "G.other_charges", "H.quantities"),
    *("H.fixed_gates", "I.steps", "I.chosen_by_the_run", "J.packages", "J.python", "L.expected_error"),
    *("L.error_against_noisy", "L.computed_on", "N.hazards_guarantee", "N.hazards_data", "N.hazards_pipeline"),
    *("N.quality_warnings", "O.commit", "O.sbom", "O.container", "P.files", "P.formats", "P.partitioning"),
    *("R.reproducible", "S.notice"),
}
NEEDS_ACCOUNTANT = {"F.conversion"}
"""Of a claim with delta above 0: which derivation gave it is found with a library of the publisher's."""
OF_TABLES = OF_EVERY_RUN | {"K.tables", "K.noisy_total", "K.suppression"}


@pytest.fixture(scope="module", params=KINDS)
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Version]:
    kind: str = request.param
    return kind, publish_version(KINDS[kind](), tmp_path_factory.mktemp(kind), here=True)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Version:
    version = publish_version(second(), tmp_path_factory.mktemp("tables"), here=True)
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
    for letter, group in record["groups"].items():
        for name, field in group["fields"].items():
            original, path = copy.deepcopy(field), f"{letter}.{name}"
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
        assert not {name for name in set(word) - OF_EVERY_RUN - NEEDS_ACCOUNTANT if name[0] in "ABCDFOQS"}


FORGED = {
    "F.definition": "For neighbours T and T': P[T gives S] <= exp(0.1) P[T' gives S].",
    "E.unit": "one household",
    "E.neighbours": "Two tables that are the same but for one household, left out or added.",
    "G.refresh_rule": "each month",
    "J.entropy": "a generator that nobody can guess",
    "O.attempts": {"reserved": 1, "opened": 1, "draws": 1, "lost": 0},
    "D.table": "another",
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
    with_words(version, lambda record: told(record, "C.select", "SELECT 1"))
    report = verify(version.folder, public_key=version.key)
    assert report.ok, report.findings
    assert set(report.word) == OF_TABLES | NEEDS_ACCOUNTANT
    assert report.to_json()["publishers_word"] == list(report.word)


def test_of_other_code_all_but_the_exact_fields_are_words(tables: Version, tmp_path: Path) -> None:
    version = tables.copy(tmp_path / "v")
    with_words(version, lambda record: told(record, "J.code", "f" * 64))
    report = verify(version.folder, public_key=version.key)
    assert report.ok, report.findings
    assert NOT_COMPARED in report.cannot_tell
    assert not EXACT & set(report.word)
    assert {"F.definition", "E.unit", "B.curator"} <= set(report.word)


@pytest.mark.parametrize("path", sorted(EXACT))
def test_exact_fields_are_compared_whatever_code_wrote_the_record(tables: Version, tmp_path: Path, path: str) -> None:
    version = tables.copy(tmp_path / "v")
    letter, _, name = path.partition(".")

    def change(record: Json) -> None:
        told(record, "J.code", "f" * 64)
        told(record, path, changed(record["groups"][letter]["fields"][name]["value"]))

    forge(version, record=change)
    report = verify(version.folder, public_key=version.key)
    assert f"groups.{path}" in {finding.field for finding in report.findings}
