"""Contracts of linked tables: what follows from them for each base, and what is refused, with its line."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from contracts.comparison.changes import compare
from contracts.contract.contract import Contract
from contracts.contract.linked import rows_per_unit
from contracts.errors import ContractRefused
from tests.worlds.linked_tables import (
    CATEGORIES,
    COUNT,
    LINKS,
    TABLES,
    UNIT,
    contract_text,
    linked_contract,
    linked_of,
)

VISIT = "{from: visit.patient, to: patient.patient_id, at_most: 3}"


def test_a_base_has_its_columns_and_those_of_all_that_it_leads_to(tmp_path: Path):
    """`kind` is a column of two tables, so its table stands before it, whatever the base."""
    contract = linked_contract(tmp_path)
    assert contract.table == "patient"
    assert [column.name for column in contract.columns] == ["sex", "visits", "urgent", "code", "floor"]
    drug = contract.over("drug")
    assert [column.name for column in drug.columns] == [
        *("drug_kind", "visit_kind", "drugs", "sex", "visits", "urgent", "code", "floor", "beds", "coast")
    ]
    assert drug.source_columns[0] == "patient_id"


@pytest.mark.parametrize(("base", "rows"), [("patient", 1), ("visit", 3), ("drug", 6)])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_rows_of_a_unit_are_the_product_of_the_bounds_below_it(
    base: str, rows: int, adjacency: str, tmp_path: Path
):
    """k · g1 · g2; the adjacency is the declared one, and the unit's id has one name for all bases."""
    contract = linked_contract(tmp_path, contract_text(adjacency=adjacency)).over(base)
    assert contract.unit.max_rows_per_unit == rows == rows_per_unit(linked_of(contract), base)
    assert (contract.unit.column, contract.unit.kind, contract.adjacency) == ("patient_id", "id", adjacency)


def test_a_declared_bound_of_a_table_is_taken_where_it_is_less(tmp_path: Path):
    """Of at most 6 drugs a patient 4 are kept; a bound above what links allow changes nothing."""
    more = "          rows_per_unit: {drug: 4, visit: 9}"
    contract = linked_contract(tmp_path, contract_text(more=more))
    assert contract.over("drug").unit.max_rows_per_unit == 4
    assert contract.over("visit").unit.max_rows_per_unit == 3


def test_terms_go_with_the_bases_that_have_all_their_columns(tmp_path: Path):
    """A zero about a visit and its patient is none of the patient's own table; gates are those that a base has."""
    more = (
        "          structural_zeros: [{sex: [M], visit_kind: [urgent]}]\n"
        "          gates: ['nulls:sex', 'nulls:visit_kind']"
    )
    contract = linked_contract(tmp_path, contract_text(more=more))
    assert (contract.structural_zeros, contract.gates) == ((), ("nulls:sex",))
    visit = contract.over("visit")
    assert (len(visit.structural_zeros), visit.gates) == (1, ("nulls:sex", "nulls:visit_kind"))


def test_a_contract_is_read_again_from_its_json_and_each_base_has_a_digest(tmp_path: Path):
    """As `verify` reads it from a record; the registered file has one digest."""
    contract = linked_contract(tmp_path)
    bases = [contract.over(base) for base in ("patient", "visit", "drug")]
    for each in bases:
        again = Contract.model_validate(json.loads(json.dumps(each.model_dump(mode="json"))))
        assert (again, again.digest) == (each, each.digest)
    assert len({each.digest for each in bases}) == 3
    assert {each.file_digest for each in bases} == {contract.digest}


@pytest.mark.parametrize(
    ("field", "forged"),
    [
        ("unit", {"kind": "id", "scope": "block", "column": "patient_id", "max_rows_per_unit": 1}),
        ("unit", {"kind": "id", "scope": "block", "column": "kind", "max_rows_per_unit": 3}),
        ("unit", {"kind": "row", "scope": "block"}),
        ("adjacency", "replace_one"),
        ("table", "patient"),
        ("table", "ward"),
        ("table", "nothing"),
        ("columns", "all but the last"),
    ],
)
def test_a_contract_that_does_not_follow_from_its_links_is_refused(field: str, forged: object, tmp_path: Path):
    """Unit, rows of a unit, adjacency, base and columns are derived again; nothing else is believed."""
    written = linked_contract(tmp_path).over("visit").model_dump(mode="json")
    Contract.model_validate(written)
    written[field] = written["columns"][:-1] if field == "columns" else forged
    with pytest.raises(ValidationError):
        Contract.model_validate(written)


REFUSED = [
    (VISIT, VISIT.replace("patient.patient_id", "patent.patient_id"), "links[0].to", "the table 'patent'"),
    (VISIT, VISIT.replace("visit.patient", "visit.patent"), "links[0].from", "the column 'patent' of visit"),
    (VISIT, VISIT.replace("visit.patient", "visit"), "links[0].from", "'visit'"),
    (VISIT, VISIT.replace(", at_most: 3", ""), "links[0].at_most", "a link without `at_most`"),
    (VISIT, VISIT.replace("3", "0"), "links[0].at_most", "0"),
    (VISIT, VISIT.replace("3", "-1"), "links[0].at_most", "-1"),
    (VISIT, VISIT.replace("3", "1.5"), "links[0].at_most", "'1.5'"),
    (VISIT, VISIT.replace("3", "2000000"), "links[0].at_most", "2000000"),
    (VISIT, VISIT.replace("at_most", "at_mots"), "links[0].at_mots", "the unknown key 'at_mots'"),
    (VISIT, f"{VISIT}, {VISIT}", "links[1]", "a second link from visit to patient"),
    (VISIT, f"{VISIT}, {{from: visit.visit_id, to: patient.patient_id, at_most: 1}}", "links[1]", "a second link"),
    (VISIT, f"{VISIT}, {{from: ward.code, to: drug.visit}}", "links[0]", "links that lead in a circle"),
    (VISIT, f"{VISIT}, {{from: ward.code, to: ward.code}}", "links[1].to", "a link from ward to itself"),
    (VISIT, f"{VISIT}, {{from: drug.visit, to: ward.code}}", "links[2]", "a second way from drug to ward"),
    ("patient.ward, to: ward.code", "patient.ward, to: ward.floor", "links[2]", "patient.ward of integers"),
    ("  - name: hospital\n    l", "  - name: WARD\n    l", "privacy", "2 tables 'ward'"),
    ("{from: patient.ward, to: ward.code},", "", "links", "the table 'ward' without a link"),
    ("to: ward.code}", "to: ward.code, at_most: 5}", "links[2].at_most", "belong to no unit of patient"),
    ("table: patient", "table: ptient", "unit.table", "'ptient'"),
    ("table: patient, ", "", "unit.table", "nothing"),
    ("column: patient_id", "column: patientid", "unit.column", "'patientid'"),
    ("max_rows_per_unit: 1", "max_rows_per_unit: 2", "unit.max_rows_per_unit", "whose key is the unit's id"),
    ("kind: id", "kind: row", "unit", "kind: row"),
    ("table: patient", "table: ward", "unit.column", "'patient_id'"),
    ("{count: drug}", "{count: hospital}", "derived.count", "rows of 'hospital'"),
    ("{count: drug}", "{sum: drug}", "derived.sum", "'drug'"),
    ("{count: drug}", "{total: drug}", "derived.total", "the unknown key 'total'"),
    ("{count: drug}", "{count: drug, where: {sort: [a]}}", "derived.where.sort", "the column 'sort'"),
    ("{count: drug}", "{count: drug, where: {kind: [z]}}", "derived.where.kind", "the label 'z'"),
    (COUNT % 2, CATEGORIES % "1, 2", "derived", "a domain of kind categories"),
]


@pytest.mark.parametrize(("old", "new", "field", "found"), REFUSED)
def test_what_is_wrong_with_links_is_refused_by_line(old: str, new: str, field: str, found: str, tmp_path: Path):
    """File, line, field, what was found, what is allowed and what to do; exit 2."""
    text = contract_text()
    assert old in text
    with pytest.raises(ContractRefused) as refused:
        linked_contract(tmp_path, text.replace(old, new, 1))
    assert refused.value.exit_code == 2
    [finding, *_] = [each for each in refused.value.findings if field in each.field and found in each.found]
    path, _, line = finding.where.rpartition(":")
    assert path.endswith("contract.odcs.yaml")
    assert 1 < int(line) <= len(text.splitlines())
    assert finding.allowed


def test_a_count_for_rows_that_belong_to_nobody_is_refused(tmp_path: Path):
    """A household's size is a fact about others too where a person is the unit; the words say what to declare."""
    tables = {"person": [("person_id", "integer", "", ""), ("home", "integer", "", "")]}
    tables["household"] = [("id", "integer", "", ""), ("size", "integer", COUNT % 8, "{count: person}")]
    unit = "{kind: id, table: person, column: person_id, max_rows_per_unit: 1, scope: block}"
    links = "[{from: person.home, to: household.id%s}]"
    with pytest.raises(ContractRefused) as refused:
        linked_contract(tmp_path, contract_text(unit, links % "", tables))
    [finding] = refused.value.findings
    assert "whose rows belong to no unit of person" in finding.found
    assert "declare the unit on household" in finding.remedy
    with pytest.raises(ContractRefused) as refused:
        linked_contract(tmp_path, contract_text(unit, links % ", at_most: 8", tables))
    [trap] = [each for each in refused.value.findings if each.field.endswith("at_most")]
    assert "a unit that leaves makes room for others" in trap.remedy


def test_names_that_meet_once_they_stand_beside_each_other_are_refused(tmp_path: Path):
    """`visit_kind` of the ward and the `kind` of the visit would have one name."""
    tables = {**TABLES, "ward": [TABLES["ward"][0], ("visit_kind", "string", CATEGORIES % "x, y", "")]}
    with pytest.raises(ContractRefused, match="rename one"):
        linked_contract(tmp_path, contract_text(tables=tables))


@pytest.mark.parametrize("more", ["          invariants: [{kind: total, value: 5, reference: there}]"])
def test_a_public_total_of_linked_tables_is_refused(more: str, tmp_path: Path):
    """Nothing says which table's rows it is about."""
    with pytest.raises(ContractRefused, match="a public total of linked tables"):
        linked_contract(tmp_path, contract_text(adjacency="replace_one", more=more))


def test_a_privacy_block_of_one_table_beside_that_of_the_file_is_refused(tmp_path: Path):
    """There is one unit for all tables."""
    own = "  - name: ward\n    customProperties:\n      - property: privacy\n        value: {adjacency: add_remove}\n"
    with pytest.raises(ContractRefused, match="of one of several tables"):
        linked_contract(tmp_path, contract_text().replace("  - name: ward\n", own))


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("at_most: 2", "at_most: 1", "links.drug.visit"),
        ("where: {kind: [urgent]}", "where: {kind: [planned]}", "columns.urgent.derived"),
        ("values: [yes, no]", "values: [yes, no, unknown]", "columns.coast"),
        ("values: [a, b, c]", "values: [a, b]", "columns.drug_kind"),
    ],
)
def test_a_changed_link_is_a_change_of_the_contract(old: str, new: str, field: str, tmp_path: Path):
    """Whichever base is compared, and whether or not its columns show it."""
    before = linked_contract(tmp_path)
    after = linked_contract(tmp_path, contract_text().replace(old, new))
    assert not compare(before, before).changes
    changes = [change for change in compare(before, after).changes if change.field.startswith(field)]
    assert [change.effect for change in changes] == ["account"]
    assert compare(before, after).breaking


def test_links_and_unit_are_those_of_the_file(tmp_path: Path):
    """The text that the tests vary is the one that is read."""
    terms = linked_of(linked_contract(tmp_path)).terms
    assert len(terms.links) == LINKS.count("from:")
    assert terms.unit.table in UNIT
