"""`contract lint --fix`: what has one lawful answer is written, all else stays, and the layout too."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.contract.odcs import load_contract
from contracts.drafting.repairs import repair_file, repairs
from contracts.errors import ContractRefused
from contracts.reading.placeholders import PLACEHOLDER
from contracts.reading.yaml_lines import located
from tests.contracts.contract.test_short_form import SHORT
from tests.contracts.samples import CONTRACT, contract_findings, replaced, write

OPEN = f": {PLACEHOLDER}"
LONG = [
    ("kind: integer", f"kind: integer   # as {PLACEHOLDER[1:-1]}d"),
    ("bounds: [17, 90]", f"bounds{OPEN}"),
    ("{policy: map, to: F}", "{policy: <declare>, to: F}"),
    ("kind: mapping\n", f"kind{OPEN}\n"),
    ("logicalType: date", f"logicalType{OPEN}"),
    ("nulls: {policy: category}\n              missing", "nulls: category\n              missing"),
]


def test_a_long_contract_gets_every_answer_that_is_the_only_one(tmp_path: Path) -> None:
    """Afterwards it is the contract that it was; comments and line ends are as they were."""
    text = replaced(CONTRACT, *LONG, ("kind: DataContract\n", "")).replace("\n", "\r\n")
    path = write(tmp_path, "c.yaml", text)
    assert [repair.field.rpartition(".")[2] for repair in repair_file(path)] == [
        *("kind", "bounds", "nulls", "policy", "kind", "logicalType")
    ]
    assert "# as declared\r\n" in path.read_bytes().decode()
    assert load_contract(path) == load_contract(write(tmp_path, "d.yaml", CONTRACT))
    assert repair_file(path) == ()


def test_a_short_contract_too_and_the_rest_is_listed(tmp_path: Path) -> None:
    """A range of one number, the kind of a unit with an id, the adjacency of a public total; bins stay open."""
    text = replaced(
        SHORT,
        ("{kind: row, scope: block}", f"{{kind{OPEN}, scope: block, column: who, max_rows_per_unit: 1}}"),
        ("adjacency: add_remove", f'adjacency{OPEN}\ninvariants: [{{kind: total, value: 9, reference: "x"}}]'),
        ("0..1.5 by 0.4", f"7..7 by {PLACEHOLDER}"),
        ("nulls: {to: 0.8}", "nulls: {to: 7}"),
        ("2020-01-15..2020-12-31 by month", f"2020-01-15..2020-12-31 by {PLACEHOLDER}"),
    )
    path = write(tmp_path, "c.yaml", text)
    written = [repair.written for repair in repair_file(path)]
    assert written == ["kind: id", "adjacency: replace_one", "by 1"]
    (finding,) = contract_findings(tmp_path, path.read_text())
    assert finding.field == "columns.moved"


@pytest.mark.parametrize(
    "text",
    [
        f"unit: {{kind{OPEN}, scope{OPEN}}}\nadjacency{OPEN}",
        f"defaults: {{nulls{OPEN}, provenance: {{kind{OPEN}}}}}",
        f"columns: {{a: {{bounds{OPEN}, bins{OPEN}}}}}",
        f"columns: {{a: {PLACEHOLDER}, b: 0..9 by {PLACEHOLDER}}}",
        f"columns: {{a: {{kind{OPEN}, bins: {{edges: [1, {PLACEHOLDER}]}}, bounds{OPEN}}}}}",
        "columns: {a: {nulls: category}}",
    ],
)
def test_what_a_person_has_to_decide_is_left_alone(tmp_path: Path, text: str) -> None:
    """Unit, scope, adjacency, bins, categories, provenance and null policy have several lawful answers."""
    path = write(tmp_path, "c.yaml", text)
    assert repairs(located(path, refusal=ContractRefused)) == ()
    assert repair_file(path) == ()
    assert path.read_text() == text


def test_a_key_that_stands_twice_on_its_line_is_not_guessed_at(tmp_path: Path) -> None:
    """Which of the two is meant, a text cannot tell."""
    text = f"columns: {{a: {{kind{OPEN}, values: [x]}}, b: {{kind{OPEN}, height: 2}}}}"
    assert repair_file(write(tmp_path, "c.yaml", text)) == ()


def test_a_file_that_cannot_be_read_or_written_is_a_finding(tmp_path: Path) -> None:
    """Broken YAML is told as ever."""
    with pytest.raises(ContractRefused, match="YAML syntax"):
        repair_file(write(tmp_path, "c.yaml", "a: ["))
