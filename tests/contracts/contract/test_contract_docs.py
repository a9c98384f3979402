"""The manual's pages on contracts: their examples load, their forms, numbers and messages are real ones."""

import re
from pathlib import Path
from typing import get_args

import pytest

from contracts.contract.column import LogicalType
from contracts.contract.odcs import load_contract
from contracts.domains.kinds import domain_class
from contracts.sql.select import check_select
from tests.contracts.samples import contract_findings, replaced, write

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "contracts.md").read_text()
EXAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]


def test_the_example_loads(tmp_path: Path):
    """All five kinds of domain, both null policies, and an id column."""
    contract = load_contract(write(tmp_path, "visits.odcs.yaml", EXAMPLE))
    assert {column.domain.kind for column in contract.columns} == {
        "integer",
        "mapping",
        "categories",
        "decimal",
        "date",
    }
    assert contract.source_columns == ("patient", "age", "sex", "ward", "hours", "day")
    assert contract.cells(("age", "sex", "ward")) == 5 * 3 * 5
    assert int(contract.impossible(("sex", "ward")).sum()) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [("[0, 18, 40, 65, 99]", "[0, 40, 18, 65, 99]"), ("scope: lifetime, ", "")],
    ids=["edges", "scope"],
)
def test_the_message_is_the_one_that_the_mistake_gets(tmp_path: Path, old: str, new: str):
    """Line and wording of the quoted message are what a person would see."""
    (finding,) = contract_findings(tmp_path, replaced(EXAMPLE, (old, new)))
    shown = str(finding).replace(str(tmp_path), "").lstrip("/").replace("bad.odcs.yaml", "visits.odcs.yaml")
    assert "\n".join("    " + line for line in shown.splitlines()) in PAGE


def test_the_table_of_kinds_is_complete():
    """Which kind goes with which logical type is what the code allows."""
    for kind in ("integer", "decimal", "date", "image"):
        row = re.search(rf"^\| `{kind}` \| ([a-z, ]+) \|", PAGE, re.MULTILINE)
        assert row is not None
        assert set(row[1].split(", ")) == set(domain_class(kind).logical_types)
    for kind in ("categories", "mapping"):
        assert set(domain_class(kind).logical_types) == set(get_args(LogicalType)) - {"array"}


def test_the_select_of_the_manual_is_row_wise():
    """The quoted select passes."""
    select = re.search(r"select: \|\n((?: {8}.*\n)+)", PAGE)
    assert select is not None
    assert check_select(select[1]) == []


ROOT = Path(__file__).resolve().parents[3]
MINUTES = (ROOT / "docs" / "contract-in-minutes.md").read_text()
SHORT = re.findall(r"```yaml\n(.*?)```", MINUTES, re.DOTALL)[0]


def test_the_example_in_minutes_loads(tmp_path: Path):
    contract = load_contract(write(tmp_path, "visits.yaml", SHORT))
    assert contract.left_out == ("name", "address", "remarks")
    assert contract.column("age").labels == ("0 to 17", "18 to 39", "40 to 64", "65 to 99", "(null)")
    assert contract.column("hours").domain.provenance.kind == "declared"
    assert contract.column("sex").domain.missing == ("?",)


@pytest.mark.parametrize(
    "written", re.findall(r"^\| `([^|]+)` \| (?:whole|days|categories|codes)", MINUTES, re.MULTILINE)
)
def test_each_form_of_the_table_is_one(tmp_path: Path, written: str):
    """Nothing but the line of the table stands in the column."""
    text = SHORT.partition("structural_zeros")[0] + "defaults: {nulls: category, provenance: declared}\n"
    text = text.replace("column: patient", "column: who")
    assert load_contract(write(tmp_path, "c.yaml", f"{text}columns:\n  c: {written}\n")).columns[0].size > 2
