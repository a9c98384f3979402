"""The record says what the run says: no constants, nothing private in the public copy, a schema that bites."""

import copy
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from contracts.canonical import canonical_json, readable_json
from contracts.release.terms import About
from privacy.accounting.amounts import PICO
from privacy.ledger.ledger import Ledger
from privacy.ledger.terms import ChargeRequest
from tasks.records.across.across_groups import EXECUTION, PRODUCT
from tasks.records.facts import RunFacts
from tasks.records.fitted_groups.classifier_groups import MODEL
from tasks.records.fitted_groups.synthesis_groups import SYNTHESIS
from tasks.records.groups.field import NOT_AVAILABLE, WITHHELD, Run, no_source
from tasks.records.groups.guarantee import odds_factor
from tasks.records.groups.origin import hour
from tasks.records.record import (
    GROUPS,
    RecordExplanation,
    build_record,
    evidence_of,
    explained,
    named_fields,
    public_copy,
)
from tasks.report import write_files
from tests.tasks.records.version_schemas import SCHEMAS, version_schemas
from tests.worlds.hierarchies import mesh
from tests.worlds.tables import Scenario, first, second, third

DOCS = Path(__file__).resolve().parents[3] / "docs"
NAMES = ("first", "second", "third", "mesh")

UNLIKE = {"integrity.journal_entries"}
"""Fields whose facts the test makes up."""
CONSTANT = {
    "identity.status_when_written": "every record is written before its version is published",
    "identity.due": "these runs have no due date; one that has is in tests/flows/periods/test_redraw",
    "identity.product_type": "these runs publish tables; synthetic ones are in test_synthetic_version",
    "contract.validation_outcomes.gate": "true and false, and each run has checks of both kinds",
    "product.tables.minimum_frequency": "no run here has such a rule; test_minimum_frequency has one",
    "product.tables.interval": "one way for every refined table; only tables that are not refined have another",
    "limits.hazards.version": "one page of hazards for all records",
    "limits.hazards.met": "these runs publish tables; other kinds are in test_limitations",
    "limits.hazards.limit": "as before",
    "limits.hazards.not_applicable": "as before",
    "audits.games.claimed_epsilon": "the games of these tests have one claim",
    "audits.games.confidence": "and one confidence",
    "audits.summary.means": "what an audit can show and what not is the same for every code",
    "utility.computed_on.metric": "each record has the same three metrics",
    "utility.computed_on.cost": "two of them read no data, and the third is for auditors",
    "provenance.attempts.lost": "these runs were not interrupted; trainings that were are in test_verify_trainings",
    "provenance.attempts.opened": "each was opened once",
    "provenance.attempts.reserved": "and reserved once",
    "reproducibility.reproducible.exactly": "tables byte for byte; models in test_synthetic_version",
    "notices.notice.form": "these runs publish tables",
    "notices.notice.note": "that the notice is no legal opinion is no fact of a run",
    "accountability.approvals": "these runs ask for none; approvals are in flows/test_approvals",
    "output.exchange": "these runs ask for none; forms of exchange are in records/exchange/test_exchange_files",
    "output.labels": "these runs have labels alone; columns beside them are in verification/files/test_label_checks",
    "output.files.columns.type": "each run writes text, whole numbers, decimals (the variance) and flags",
    "integrity.journal_entries.kind": "each run that ends has reserved, opened and drawn",
}
"""Leaves that read the same for every run, and why; each is still read from the run."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Runs that differ in everything a run can differ in; the last has a table at several resolutions."""
    folder = tmp_path_factory.mktemp("runs")
    made = {
        "first": first().run(folder / "1"),
        "second": unlike(second().run(folder / "2")),
        "third": third().run(folder / "3"),
        "mesh": mesh().run(folder / "4"),
    }
    return {name: Run(facts, write_files(facts, folder / f"files-{name}")) for name, facts in made.items()}


@pytest.fixture(scope="module")
def records(runs: dict[str, Run]) -> dict[str, RecordExplanation]:
    return {name: explained(build_record(run), evidence_of(run)) for name, run in runs.items()}


def unlike(facts: RunFacts) -> RunFacts:
    """Change what the real core gives alike to all three runs: an hour, a note, a second accountant."""
    noted = replace(facts.tables[0], refined=replace(facts.tables[0].refined, notes=("A note.",), disagreement=1.5))
    return replace(
        facts,
        tables=(noted, *facts.tables[1:]),
        entries=(*facts.entries[:-1], replace(facts.entries[-1], at="2027-08-09T11:00:00Z")),
        finished="2027-08-09T11:00:00Z",
        pld_epsilon=2.25,
        flow_run={"flow_run": "0190a6e4"},
    )


def fields(record: RecordExplanation) -> dict[str, Any]:
    return record.values


def leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every leaf of a value, with its path; positions in lists do not count."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{path}.{key}")
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, path)
    else:
        yield path, json.dumps(value)


@pytest.mark.long
def test_no_field_is_a_constant(records: dict[str, RecordExplanation]):
    """Over runs that differ in everything, every field that has a source differs, down to its leaves."""
    seen: dict[str, list[frozenset[str]]] = defaultdict(list)
    for record in records.values():
        found: dict[str, set[str]] = defaultdict(set)
        for name, value in fields(record).items():
            if value != NOT_AVAILABLE:
                for path, leaf in leaves(value, name):
                    found[path].add(leaf)
        for path, values in found.items():
            seen[path].append(frozenset(values))
    same = {path for path, values in seen.items() if len(values) == len(NAMES) and len(set(values)) == 1}
    assert same == set(CONSTANT)


def test_what_is_not_available_is_what_no_run_knows(records: dict[str, RecordExplanation]):
    """The list names each field that reads "not available", and those without a source are in every record's list."""
    unsourced = {
        f"{group.name}.{field.name}" for group in GROUPS for field in group.fields if field.fill is no_source
    }
    for record in records.values():
        listed = set(record.not_available)
        assert listed == {name for name, value in fields(record).items() if value == NOT_AVAILABLE}
        assert unsourced <= listed
    assert set.intersection(*(set(record.not_available) for record in records.values())) == unsourced


def test_what_is_not_available_says_why(records: dict[str, RecordExplanation]):
    """Every field that reads "not available" has a reason beside it, and no other field has one."""
    for record in records.values():
        for field in record.fields.values():
            assert ("reason" in field) == (field["value"] == NOT_AVAILABLE)
            assert len(field.get("reason", "a reason of some length")) > 10


def test_declarations_are_told_and_marked(records: dict[str, RecordExplanation]):
    """What a spec declares stands in its fields, and these are marked."""
    declarable = {f"{group.name}.{field.name}" for group in GROUPS for field in group.fields if field.declared}
    assert {f"{path.partition('.')[2]}" for path in declarable} == set(About.model_fields)
    assert records["first"].declared == records["second"].declared == declarable
    assert records["third"].declared == frozenset()
    told = fields(records["second"])
    assert told["accountability.approvers"] == [{"name": "B. Master", "at": "2027-08-01T09:30Z"}]
    assert told["unprotected.tuned_on_data"] == {"what": "the bins of wages", "accounted": "unaccounted"}
    assert told["preprocessing.exploratory_access"] == "none"


def test_optional_facts_are_not_made_up(records: dict[str, RecordExplanation]):
    """A contract without a description and a run without a second accountant say so."""
    assert {"accountability.purpose", "contract.limitations", "contract.usage", "guarantee.second_accountant"} <= set(
        records["third"].not_available
    )
    assert fields(records["second"])["guarantee.second_accountant"]["epsilon"] == 2.25


def test_the_fields_say_what_the_run_says(runs: dict[str, Run], records: dict[str, RecordExplanation]):
    """Identity, unit, guarantee, cost and draws are those of the run."""
    facts, told = runs["second"].facts, fields(records["second"])
    assert (told["identity.release_id"], told["identity.version"], told["identity.supersedes"]) == ("guild", 2, 1)
    assert told["identity.measured_hour"] == "2027-08-09T11:00Z"
    assert (told["unit.unit"], told["unit.rows_per_unit"]) == ("one worker (at most 3 rows)", 3)
    assert (told["unit.scope"], fields(records["first"])["unit.scope"]) == ("lifetime", "block")
    assert "bounded by an account whose block is lifetime" in told["unit.group_privacy"]
    assert "the sum of what the accounts of those blocks allow" in fields(records["first"])["unit.group_privacy"]
    assert told["unit.sensitivity"] == [{"l1": 6, "l2_squared": 18}]
    assert told["guarantee.delta"] == "1e-8"
    assert float(told["guarantee.epsilon"]) <= 2.5
    assert float(told["ledger.before"]) + float(told["ledger.charged"]) == pytest.approx(
        float(told["ledger.after"]), abs=1e-12
    )
    assert [draw["key"] for draw in told["ledger.draws"]] == ["table:pay", "table:hired"]
    assert [draw["event"] for draw in told["ledger.draws"]] == [event.to_json() for event in facts.plan.events]
    assert [entry["hash"] for entry in told["integrity.journal_entries"]] == [entry.hash for entry in facts.entries]
    assert told["integrity.draw_digests"] == {
        table.measurement.key: table.measurement.sha256 for table in facts.tables
    }
    assert "seeded" in told["noise.entropy"]
    assert "AES" in fields(records["first"])["noise.entropy"]


def test_unprotected_quantities_are_listed(records: dict[str, RecordExplanation]):
    """A declared public total, gates, a select and the run's own course are named; without a total it says none."""
    first_told, second_told, third_told = (fields(records[name]) for name in NAMES[:3])
    assert first_told["unprotected.exact_total"] == "none"
    assert first_told["unprotected.declared_gates"] == "none"
    assert third_told["unprotected.exact_total"] == {"value": 6000, "declared_public_in": "yearbook, page 3"}
    assert any("6000" in line for line in third_told["unprotected.quantities"])
    assert second_told["unprotected.declared_gates"] == ["domain:wage"]
    text = " ".join(second_told["unprotected.quantities"])
    assert "could be evaluated to its end" in text
    assert "holds for every row" not in text
    for told in (first_told, second_told, third_told):
        assert any("tells that the encoded table changed" in line for line in told["unprotected.quantities"])
    for part in (
        "domain:wage",
        "every row has a worker",
        "SQLite",
        "WHERE wage >= 0",
        "PROOF.json",
        "at least one row",
    ):
        assert part in text


def test_the_public_copy_withholds_what_is_for_auditors(runs: dict[str, Run], records: dict[str, RecordExplanation]):
    """Paths, exact times and outcomes of checks are in the auditor's record and nowhere in the public one."""
    for name, run in runs.items():
        full, published = records[name], public_copy(records[name].record)
        text = json.dumps(published)
        for private in (str(run.facts.spec.source.path), str(run.facts.spec.path.parent)):
            assert private not in text
        assert "auditor" not in published
        told = explained(published, evidence_of(run)).values
        assert {
            told[f] for f in ("identity.started", "identity.finished", "source.source", "source.source_path")
        } == {WITHHELD}
        assert told["contract.validation_outcomes"] == WITHHELD
        outcomes = fields(full)["contract.validation_outcomes"]
        assert [outcome["passed"] for outcome in outcomes] == [outcome.passed for outcome in run.facts.outcomes]
        assert published == {part: value for part, value in full.record.items() if part != "auditor"}


class Stopped(Scenario):
    """A run in an account that gates have stopped others of; `before` says how many."""

    def _earlier(self, ledger: Ledger, request: ChargeRequest, number: int) -> None:
        ledger.record_gate_failure(request, ["rows"])


def test_what_gates_answered_about_other_runs_is_not_in_the_record(tmp_path: Path):
    """Whether a gate stopped a run is an exact bit about rows; the record is the same after none and after two."""
    told = []
    for number in (0, 2):
        facts = Stopped(**{**vars(first()), "seeded": True, "before": number}).run(tmp_path / str(number))
        told.append(public_copy(build_record(Run(facts, write_files(facts, tmp_path / f"files-{number}"))), "0" * 64))
    assert told[0] == told[1]


def test_what_is_explained_is_what_the_run_knows(runs: dict[str, Run], records: dict[str, RecordExplanation]):
    """Every field that record, journal and manifest give is the one that the run itself would fill."""
    for name, run in runs.items():
        known = {path: field.fill(run) for path, field in named_fields("tables")}
        filled = json.loads(canonical_json(known))
        told = fields(records[name])
        assert {path for path, value in filled.items() if told[path] != value} <= {
            path for path, value in filled.items() if value is None or path in UNLIKE
        }


def test_the_schema_holds_for_the_records_and_is_the_one_in_docs(records: dict[str, RecordExplanation]):
    """The schemas in docs/schema are current and valid; that of records holds for full and public ones."""
    for name, schema in version_schemas().items():
        assert (SCHEMAS / f"{name}.schema.json").read_bytes() == readable_json(schema)
        Draft202012Validator.check_schema(schema)
    schema = version_schemas()["record"]
    for record in records.values():
        for form in (record.record, public_copy(record.record, "0" * 64)):
            assert list(Draft202012Validator(schema).iter_errors(json.loads(readable_json(form)))) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record.update(epsilon="0.1"),
        lambda record: record["declarations"].update(epsilon="0.1"),
        lambda record: record["declarations"]["software"].pop("code"),
        lambda record: record["replay"].update(amount="1"),
        lambda record: record["replay"]["tables"][0].update(sha256="00"),
        lambda record: record.pop("declarations"),
    ],
)
def test_the_schema_refuses_a_spoiled_record(records: dict[str, RecordExplanation], spoil: Any):
    """A missing or an unknown part, an amount that is text, a short digest."""
    record = copy.deepcopy(records["second"].record)
    spoil(record)
    assert list(Draft202012Validator(version_schemas()["record"]).iter_errors(record))


def test_the_manual_explains_every_field():
    """docs/record.md has a line for each field, with its class and meaning, under its group."""
    manual = (DOCS / "record.md").read_text(encoding="utf-8")
    for group in (*GROUPS, SYNTHESIS, MODEL, PRODUCT, EXECUTION):
        section = manual.partition(f"### {group.title} (`{group.name}`)\n")[2].partition("\n### ")[0]
        for field in group.fields:
            assert f"| `{field.name}` | {field.visibility} | {field.means} |" in section


@pytest.mark.parametrize(
    ("epsilon", "factor"),
    [(PICO, "2.719"), (0, "1"), (PICO // 2, "1.649"), (10 * PICO, "22030"), (1000 * PICO, "1.971e+434")],
)
def test_the_odds_factor_is_rounded_up(epsilon: int, factor: str):
    """e^1 = 2.71828…, e^0.5 = 1.64872…, e^10 = 22026.5; e^1000, 1.97007e434, does not overflow."""
    assert odds_factor(epsilon) == factor


def test_an_hour_keeps_no_minute():
    assert hour("2026-03-04T05:59:59Z") == "2026-03-04T05:00Z"
