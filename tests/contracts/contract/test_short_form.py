"""Short contracts: a line a column, read into the model of the long form, and refused at the line that is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from contracts.contract.contract import Contract
from contracts.contract.odcs import load_contract
from contracts.contract.short_form import contract_document
from contracts.reading.placeholders import PLACEHOLDER
from tests.contracts.samples import CONTRACT, contract_findings, line_of, replaced, write

ACS = Path(__file__).parents[3] / "examples" / "acs" / "acs.contract.yaml"
SHORT = """\
id: people
name: People
version: 1.0.0
description: tests
unit: {kind: row, scope: block}
adjacency: add_remove
structural_zeros:
  - {sex: [F], job: [clerk, other]}
gates: ["nulls:age"]
defaults: {nulls: category, provenance: declared}
columns:
  age: {range: "17..90 at 25, 35", missing: ["?", ""]}
  sex: {values: [F, M], nulls: {to: F}}
  job: {labels: {office clerk: clerk, Clerk: clerk, nurse: care}, other: other,
    provenance: {public: "https://example.org/jobs"}}
  income: {range: 0..1.5 by 0.4, nulls: {to: 0.8}}
  moved: 2020-01-15..2020-12-31 by month
"""


def _loaded(folder: Path, text: str) -> Contract:
    return load_contract(write(folder, "short.yaml", text))


def test_a_short_contract_is_the_long_one(tmp_path: Path):
    """The sample contract, written in lines: the same model, and the same digest, so the same accounts."""
    short, long = _loaded(tmp_path, SHORT), load_contract(write(tmp_path, "long.yaml", CONTRACT))
    assert short == long
    assert short.digest == long.digest


NUMBERS = {  # low, high, width
    "AGEP": (0, 99, 5), "NOC": (0, 19, 1), "NPF": (2, 20, 1), "INDP": (0, 9999, 500),
    "PINCP": (-20000, 1359999, 20000), "PWGTP": (0, 9999, 500), "WGTP": (0, 9999, 500),
}  # fmt: skip
LABELS = {
    "SEX": ["male", "female"], "HOUSING_TYPE": ["housing unit", "institution", "other group quarters"],
    "MSP": ["married, together", "married, apart", "widowed", "divorced", "separated", "never married"],
    "DREM": ["yes", "no"], "DPHY": ["yes", "no"], "DEYE": ["yes", "no"], "DEAR": ["yes", "no"],
}  # fmt: skip


def test_twenty_four_columns_of_the_acs_take_at_most_sixty_lines(tmp_path: Path):
    """The shipped contract says what a long form says that is put together here, by another route."""
    contract = load_contract(ACS)
    assert len(ACS.read_text().splitlines()) <= 60
    assert len(contract.columns) == 24
    source = {"kind": "public", "reference": "NIST Diverse Community Data Excerpts, data dictionary"}
    for column in contract.columns:
        common = {"nulls": {"policy": "category"}, "missing": ["N"], "provenance": source}
        if column.name in ("INDP", "PINCP"):
            common["provenance"] = {"kind": "declared"}
        known: dict[str, Any] | None = None
        if column.name in NUMBERS:
            low, high, width = NUMBERS[column.name]
            known = {"kind": "integer", "bounds": [low, high], "bins": {"width": width}}
        elif column.name in LABELS:
            known = {"kind": "mapping", "mapping": {str(n): text for n, text in enumerate(LABELS[column.name], 1)}}
        if known is not None:
            assert column == _long_column(tmp_path, column.name, {**known, **common}, column.description)
    assert contract.column("POVPIP").labels[-3:] == ("400 to 499", "500 to 501", "(null)")
    assert contract.column("DENSITY").domain.kind == "decimal"
    assert contract.column("PUMA").size == 32


def _long_column(folder: Path, name: str, domain: dict[str, Any], description: str | None) -> object:
    """Read one column of a long form that is written as JSON, which is YAML too."""
    described = {} if description is None else {"description": description}
    entry = {"name": name, "logicalType": "integer", **described}
    entry["customProperties"] = [{"property": "domain", "value": domain}]
    privacy = {"property": "privacy", "value": {"unit": {"kind": "row", "scope": "block"}, "adjacency": "add_remove"}}
    table = {"name": "people", "customProperties": [privacy], "properties": [entry]}
    header = {"apiVersion": "v3.1.0", "kind": "DataContract", "id": "x", "version": "1.0.0", "status": "active"}
    text = json.dumps({**header, "schema": [table]})
    return load_contract(write(folder, "one.yaml", text)).column(name)


@pytest.mark.parametrize("text", [SHORT, ACS.read_text()])
def test_the_long_text_of_a_short_contract_loads_as_the_same(tmp_path: Path, text: str):
    """Other tools read the standard's form; nothing is lost on the way there."""
    path = write(tmp_path, "short.yaml", text)
    written = write(tmp_path, "written.yaml", yaml.safe_dump(contract_document(path).text(), sort_keys=False))
    assert "schema:" in written.read_text()
    assert load_contract(written).digest == load_contract(path).digest


@pytest.mark.parametrize(
    ("written", "kind", "logical", "labels"),
    [
        ("0..19 by 10", "integer", "integer", ("0 to 9", "10 to 19")),
        ("0..9 at 5", "integer", "integer", ("0 to 4", "5 to 9")),
        ("-5..4 by 5", "integer", "integer", ("-5 to -1", "0 to 4")),
        ("number 0..2 by 1", "decimal", "number", ("[0, 1)", "[1, 2]")),
        ("0.5..1.5 by 0.5", "decimal", "number", ("[0.5, 1)", "[1, 1.5]")),
        ("2024-01-01..2024-12-31 by quarter", "date", "date", ("2024-Q1", "2024-Q2", "2024-Q3", "2024-Q4")),
        ("[1, 2]", "categories", "integer", ("1", "2")),
        ("['01', '02']", "categories", "string", ("01", "02")),
        ("[false, true]", "categories", "boolean", ("false", "true")),
        ("[1, two]", "categories", "string", ("1", "two")),
        ("{1: male, 2: female}", "mapping", "integer", ("male", "female")),
        ("{labels: {other: rest, values: none}}", "mapping", "string", ("rest", "none")),
        ("{type: string, values: [1, 2]}", "categories", "string", ("1", "2")),
        ("{type: number, range: 0..2 by 1}", "decimal", "number", ("[0, 1)", "[1, 2]")),
        ("{type: integer, bounds: [0, 1], bins: {width: 1}}", "integer", "integer", ("0", "1")),
    ],
)
def test_each_form_means_one_domain(tmp_path: Path, written: str, kind: str, logical: str, labels: tuple[str, ...]):
    """Cells, kind and logical type of every short form."""
    column = _loaded(tmp_path, SHORT.partition("structural")[0] + _COLUMNS.format(written)).column("c")
    assert (column.domain.kind, column.logical_type, column.labels) == (kind, logical, (*labels, "(null)"))


_COLUMNS = "defaults: {{nulls: category, provenance: declared}}\ncolumns:\n  c: {}\n"


@pytest.mark.parametrize(
    ("old", "new", "field", "found", "said"),
    [
        ("by month", "by mnth", "columns.moved", "'mnth'", "write 'month'"),
        ("at 25, 35", "at 35, 25", "columns.age.range.edges[2]", "25 after 35", "sort them"),
        ('"17..90 at 25, 35"', "17..90", "columns.age.range", "'17..90'", "by WIDTH"),
        ("by 0.4", "at x", "columns.income.range.edges[1]", "'x'", ""),
        ("0..1.5 by 0.4", "from 0", "columns.income.range", "'from 0'", ""),
        ("values: [F, M]", "values: [F, F]", "columns.sex.values[1]", "'F' twice", "drop one"),
        ("values: [F, M]", "value: [F, M]", "columns.sex.value", "the unknown key 'value'", "write 'values'"),
        ("nulls: category", "nulls: categry", "defaults.nulls", "'categry'", ""),
        ("provenance: declared}", "provenance: public}", "defaults.provenance", "public without a reference", ""),
        ("provenance: declared}", "provnance: declared}", "defaults.provnance", "the unknown key", "'provenance'"),
        ("adjacency:", "adjacensy:", "adjacensy", "the unknown key 'adjacensy'", "write 'adjacency'"),
        ("unit: {kind: row, scope: block}", "unit: {kind: row}", "unit.scope", "nothing", "add `scope: block`"),
        ("sex: [F], job", "sex: [X], job", "structural_zeros[0].sex[0]", "the label 'X'", ""),
        ("id: people\n", "", "id", "nothing", ""),
        ("gates:", "left_out: [Age]\ngates:", "left_out[0]", "the declared column 'age'", "drop one of the two"),
        ("gates:", "left_out: [note, Note]\ngates:", "left_out[1]", "'Note' again", "drop one"),
        ("to: F}}", "to: F}, description: Sex, as written}", "columns.sex.as written", "the unknown key", "quotes"),
        ("{values: [F, M], nulls: {to: F}}", "{nulls: category}", "columns.sex", "no range, values or labels", ""),
        (
            "{values: [F, M], nulls: {to: F}}",
            "{1: male, other: x}",
            "columns.sex.1",
            "the unknown key '1'",
            "labels:",
        ),
        ("other: other,", "mapping: {a: b},", "columns.job.mapping", "`mapping` beside `labels`", "drop `mapping`"),
    ],
)
def test_a_mistake_is_told_by_the_names_and_lines_of_the_file(
    tmp_path: Path, old: str, new: str, field: str, found: str, said: str
):
    """Nobody who writes the short form has to know where its parts stand in the long one."""
    text = replaced(SHORT, (old, new))
    findings = contract_findings(tmp_path, text)
    told = next((each for each in findings if each.field == field), None)
    assert told is not None, findings
    assert found in told.found
    assert told.allowed
    assert said in told.remedy
    assert "schema[0]" not in str(findings)
    line = int(told.where.rpartition(":")[2])
    assert line == 1 if field == "id" else line == line_of(text, new.strip().partition("\n")[0])


def test_columns_beside_a_schema_are_refused(tmp_path: Path):
    """A file is short or long, not both."""
    findings = contract_findings(tmp_path, CONTRACT + "columns: {a: 0..1 by 1}\n")
    assert any("the unknown key 'schema'" in finding.found for finding in findings)
    assert contract_findings(tmp_path, "id: x\nversion: 1.0.0\ncolumns:\n")[0].field == "columns"


def test_an_open_default_is_one_finding_and_not_one_a_column(tmp_path: Path):
    """Five columns have no null policy of their own; one place has to be declared."""
    text = replaced(
        SHORT,
        ("nulls: category,", f"nulls: {PLACEHOLDER},"),
        ("2020-01-15..2020-12-31 by month", PLACEHOLDER),
        ("0..1.5 by 0.4", f"0..1.5 by {PLACEHOLDER}"),
    )
    findings = contract_findings(tmp_path, text)
    assert [finding.field for finding in findings] == ["defaults.nulls", "columns.income.range", "columns.moved"]
    assert "0..99 by 5" in findings[-1].allowed
    assert findings[0].allowed == "category or {to: VALUE}"
    assert findings[1].allowed == "a width (0..99 by 5), or where bins begin (0..99 at 18, 40, 65)"


def test_the_unit_s_id_needs_no_line_of_its_own(tmp_path: Path):
    """It is a column of the source without a domain; with a line among the columns it is refused."""
    unit = ("{kind: row, scope: block}", "{kind: id, scope: block, column: who, max_rows_per_unit: 3}")
    assert _loaded(tmp_path, replaced(SHORT, unit)).source_columns[0] == "who"
    findings = contract_findings(tmp_path, replaced(SHORT, unit, ("  sex:", "  who: [a, b]\n  sex:")))
    assert any("'who'" in finding.found for finding in findings)


def test_what_is_left_out_changes_a_digest_only_where_something_is(tmp_path: Path):
    """Contracts from before `left_out` keep digest and JSON, by which their versions and accounts are known."""
    plain, left = _loaded(tmp_path, SHORT), _loaded(tmp_path, replaced(SHORT, ("gates:", "left_out: [b, a]\ngates:")))
    turned = _loaded(tmp_path, replaced(SHORT, ("gates:", "left_out: [a, b]\ngates:")))
    assert "left_out" not in plain.model_dump(mode="json")
    assert left.model_dump(mode="json")["left_out"] == ["b", "a"]
    assert plain.digest != left.digest == turned.digest
    assert Contract.model_validate(left.model_dump(mode="json")) == left
