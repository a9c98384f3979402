"""Drafts: what documents declare is taken over, all else is a placeholder, and a draft is refused place by place."""

from pathlib import Path

import pytest
import yaml

from contracts.contract.odcs import load_contract
from contracts.drafting.draft import draft_text
from contracts.drafting.sketch import ColumnSketch, DraftRefused, TableSketch, logical_type_of
from contracts.reading.placeholders import PLACEHOLDER
from tasks.draft import draft_contract, open_places
from tests.contracts.samples import CONTRACT, contract_findings, replaced, write

DBT = """\
version: 2
models:
  - name: orders
    description: One row an order.
    columns:
      - name: order_id
        data_type: integer
        data_tests: [unique, not_null]
      - name: customer_id
        data_type: varchar
        data_tests:
          - relationships: {to: ref('customers'), field: id}
      - name: status
        data_type: varchar
        description: "See {{ doc('status') }}"
        data_tests:
          - not_null
          - accepted_values: {arguments: {values: [placed, shipped, 'on: its way']}}
      - name: amount
        data_type: decimal(10,2)
        tests:
          - dbt_utils.accepted_range: {min_value: 0, max_value: 1000}
        constraints:
          - {type: check, expression: "amount >= 0 # no refunds"}
      - {name: gift, data_type: boolean}
      - {name: day, data_type: timestamp with time zone}
      - {name: payload, data_type: "struct(a int)"}
  - name: customers
    columns: [{name: id, constraints: [{type: primary_key}]}]
sources:
  - name: shop
    tables:
      - name: returns
        columns:
          - name: reason
            tests: [{test_name: accepted_values, values: [1, 2], quote: false}]
"""
ODCS = """\
apiVersion: v3.1.0
kind: DataContract
id: urn:shop:returns
name: Returns
version: 2.1.0
status: active
tags: [shop]
schema:
  - name: returns
    physicalName: shop.returns
    properties:
      - name: country
        logicalType: string
        businessName: Country
        examples: [Liechtenstein]
        customProperties: [{property: owner, value: sales}]
        enum: [{value: AT}, {value: DE, description: Germany}]
      - name: reason
        logicalType: string
        quality:
          - {type: library, metric: invalidValues, arguments: {validValues: [broken, late]}, mustBe: 0}
      - {name: age, logicalType: integer, logicalTypeOptions: {minimum: 16, maximum: 120}}
      - {name: at, logicalType: timestamp}
      - {name: sent, logicalType: date, logicalTypeOptions: {format: dd.MM.yyyy}}
      - {name: back, logicalType: date, logicalTypeOptions: {format: yyyy-MM-dd}}
      - {name: parcel, logicalType: object}
      - {name: number, logicalType: string, unique: true, required: true}
"""


def _columns(text: str) -> dict[str, dict[str, object]]:
    """The domain blocks of a draft, by column."""
    properties = yaml.safe_load(text)["schema"][0]["properties"]
    return {each["name"]: each["customProperties"][-1]["value"] for each in properties}


def _dbt(folder: Path, table: str | None = "orders") -> str:
    return draft_contract(write(folder, "schema.yml", DBT), table=table).text


def test_a_draft_of_a_dbt_model_takes_over_what_is_declared_and_nothing_more(tmp_path: Path):
    """Accepted values and ranges arrive with where they come from; whoever completes the draft has to check them."""
    text = _dbt(tmp_path)
    columns = _columns(text)
    assert columns["status"]["values"] == ["placed", "shipped", "on: its way"]
    assert columns["amount"]["bounds"] == [0, 1000]
    for name, test in (("status", "accepted_values"), ("amount", "accepted_range")):
        provenance = columns[name]["provenance"]
        assert isinstance(provenance, dict)
        assert provenance["kind"] == PLACEHOLDER
        assert f"schema.yml, test {test} of {name}; check it" in provenance["reference"]
    assert columns["customer_id"]["values"] == PLACEHOLDER
    assert (columns["day"]["kind"], columns["day"]["bounds"]) == ("date", PLACEHOLDER)
    assert columns["gift"]["values"] == ["false", "true"]
    assert "customer_id refers to ref('customers'), id: if one of them may have several rows" in text
    assert "order_id is unique, so that it is the id of a row" in text


def test_every_domain_of_a_draft_still_has_to_be_declared(tmp_path: Path):
    """Even where a document declares every category: its nulls and its provenance are a person's to say."""
    for file, text in (("schema.yml", DBT), ("returns.odcs.yaml", ODCS)):
        drafted = draft_contract(write(tmp_path, file, text), table="orders" if file == "schema.yml" else None).text
        for domain in _columns(drafted).values():
            assert domain["nulls"] == PLACEHOLDER
            assert isinstance(domain["provenance"], dict)
            assert domain["provenance"]["kind"] == PLACEHOLDER


def test_a_draft_is_refused_with_one_finding_for_each_open_place(tmp_path: Path):
    """No other finding stands beside them, none is left out, and each says what may be written and what to do."""
    text = _dbt(tmp_path)
    findings = contract_findings(tmp_path, text)
    assert len(findings) == open_places(text) == 25
    assert all(PLACEHOLDER in finding.found and finding.allowed and finding.remedy for finding in findings)
    assert len({finding.field for finding in findings}) == len(findings)
    lines = text.splitlines()
    assert all(PLACEHOLDER in lines[int(finding.where.rpartition(":")[2]) - 1] for finding in findings)
    by_field = {finding.field: finding for finding in findings}
    assert by_field["schema[0].privacy.unit.kind"].allowed == "row or id"
    assert "not by looking at the rows" in by_field["schema[0].properties[1].domain.values"].remedy
    assert "is none of these" not in by_field["schema[0].properties[0].domain.bins"].remedy


def test_mistakes_beside_placeholders_are_still_told(tmp_path: Path):
    """A half-completed draft: what was declared wrongly is named together with what is still open."""
    text = replaced(
        CONTRACT,
        ("bins: {edges: [17, 25, 35, 90]}", f"bins: {PLACEHOLDER}"),
        ("values: [F, M]", "values: [F, F]"),
        ("adjacency: add_remove", f"adjacency: {PLACEHOLDER}"),
    )
    findings = contract_findings(tmp_path, text)
    assert [PLACEHOLDER in finding.found for finding in findings] == [True, True, False]
    assert "twice" in findings[-1].found


def test_a_completed_draft_is_a_contract(tmp_path: Path):
    """Replacing the placeholders is all that is left to do."""
    text = draft_contract(write(tmp_path, "schema.yml", DBT), table="returns").text
    done = replaced(
        text,
        (f"kind: {PLACEHOLDER}, scope: {PLACEHOLDER}", "kind: row, scope: block"),
        (f"adjacency: {PLACEHOLDER}", "adjacency: add_remove"),
        (f"logicalType: {PLACEHOLDER}", "logicalType: integer"),
        (f"nulls: {PLACEHOLDER}", "nulls: {policy: category}"),
        (f"{{kind: {PLACEHOLDER}", "{kind: public"),
    )
    contract = load_contract(write(tmp_path, "returns.odcs.yaml", done))
    assert contract.column("reason").labels == ("1", "2", "(null)")


def test_a_draft_of_a_contract_keeps_its_other_keys_and_leaves_examples_out(tmp_path: Path):
    """`enum`, `validValues` and declared bounds are taken over; `examples` may be values of real rows."""
    text = draft_contract(write(tmp_path, "returns.odcs.yaml", ODCS)).text
    tree, columns = yaml.safe_load(text), _columns(text)
    assert (tree["id"], tree["name"], tree["tags"]) == ("urn:shop:returns", "Returns", ["shop"])
    country = tree["schema"][0]["properties"][0]
    assert country["businessName"] == "Country"
    assert country["customProperties"][0] == {"property": "owner", "value": "sales"}
    assert columns["country"]["values"] == ["AT", "DE"]
    assert "Liechtenstein" not in text
    assert columns["reason"]["values"] == ["broken", "late"]
    assert (columns["age"]["kind"], columns["age"]["bounds"]) == ("integer", [16, 120])
    assert columns["at"]["kind"] == "date"
    assert columns["sent"]["format"] == "%d.%m.%Y"
    assert "format" not in columns["back"]
    assert columns["parcel"]["kind"] == PLACEHOLDER
    assert "number: It is unique" in text
    assert {finding.found for finding in contract_findings(tmp_path, text)} == {
        f"{PLACEHOLDER}, which nobody has declared yet"
    }


def test_a_draft_of_our_own_contract_asks_for_all_of_it_again(tmp_path: Path):
    """Its blocks are left out: whoever drafts from a contract means another table."""
    text = draft_contract(write(tmp_path, "people.odcs.yaml", CONTRACT)).text
    assert "edges" not in text
    assert open_places(text) >= 5 * 3


@pytest.mark.parametrize(
    ("file", "text", "table", "found"),
    [
        ("schema.yml", DBT, None, "3 tables"),
        ("schema.yml", DBT, "order", "no table 'order'"),
        ("schema.yml", "models: []", None, "no table with columns"),
        ("schema.yml", "models: {a: [", None, "YAML syntax"),
        ("plain.yaml", "a: 1", None, "no table with columns"),
        ("rows.csv", "", None, "an empty first line"),
        ("rows.tsv", "a", None, "the suffix of 'rows.tsv'"),
        ("notes.txt", "", None, "the suffix of 'notes.txt'"),
        ("gone.parquet", None, None, "not a Parquet file"),
        ("bad.parquet", "PAR1", None, "not a Parquet file"),
        ("bad.duckdb", "no", None, "not a DuckDB file"),
        ("gone.duckdb", None, None, "no such file"),
    ],
)
def test_what_no_draft_can_be_made_of(tmp_path: Path, file: str, text: str | None, table: str | None, found: str):
    """One finding in words, never a traceback."""
    path = tmp_path / file if text is None else write(tmp_path, file, text)
    with pytest.raises(DraftRefused) as refused:
        draft_contract(path, table=table)
    (finding,) = refused.value.findings
    assert found in f"{finding.field} {finding.found}"


def test_texts_of_a_document_cannot_break_out_of_the_draft():
    """Names, descriptions, values, bounds and hints with line breaks, quotes and control characters stay one text."""
    nasty = "a\n      - name: b: [\"'\\ \u2028\x85# c"
    column = ColumnSketch(nasty, "string", nasty, (nasty, "yes", "1"), None, nasty, (nasty,))
    bounded = ColumnSketch("n", "integer", bounds=("1, 2]", nasty))
    text = draft_text(TableSketch(nasty, (column, bounded), nasty, nasty, nasty, {"purpose": nasty}, (nasty,)))
    tree = yaml.safe_load(text)
    one, two = tree["schema"][0]["properties"]
    assert tree["id"] == tree["schema"][0]["name"] == one["name"] == one["description"] == nasty
    assert one["customProperties"][0]["value"]["values"] == [nasty, "yes", "1"]
    assert two["customProperties"][0]["value"]["bounds"] == ["1, 2]", nasty]


@pytest.mark.parametrize(
    ("stated", "logical"),
    [
        ("BIGINT", "integer"),
        ("uint8", "integer"),
        ("NUMBER(38,0)", "integer"),
        ("numeric(10, 2)", "number"),
        ("DOUBLE PRECISION", "number"),
        ("decimal128(9, 2)", "number"),
        ("VARCHAR(20)", "string"),
        ("large_string", "string"),
        ("timestamp[us, tz=UTC]", "date"),
        ("TIMESTAMP WITH TIME ZONE", "date"),
        ("bool", "boolean"),
        ("list<item: float>", "array"),
        ("INTEGER[784]", "array"),
        ("struct<a: int64>", None),
        ("INTERVAL", None),
        ("time", None),
        ("blob", None),
        ("", None),
        (None, None),
    ],
)
def test_types_of_databases_become_logical_types(stated: str | None, logical: str | None):
    assert logical_type_of(stated) == logical
