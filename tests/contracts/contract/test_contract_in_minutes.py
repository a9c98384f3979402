"""The manual's page on contracts in minutes: its example loads, its forms are forms, its numbers are these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contracts.contract.odcs import load_contract
from tests.contracts.samples import write

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "contract-in-minutes.md").read_text()
EXAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]


def test_the_example_loads(tmp_path: Path) -> None:
    contract = load_contract(write(tmp_path, "visits.yaml", EXAMPLE))
    assert contract.left_out == ("name", "address", "remarks")
    assert contract.column("age").labels == ("0 to 17", "18 to 39", "40 to 64", "65 to 99", "(null)")
    assert contract.column("hours").domain.provenance.kind == "declared"
    assert contract.column("sex").domain.missing == ("?",)


@pytest.mark.parametrize(
    "written", re.findall(r"^\| `([^|]+)` \| (?:whole|days|categories|codes)", PAGE, re.MULTILINE)
)
def test_each_form_of_the_table_is_one(tmp_path: Path, written: str) -> None:
    """Nothing but the line of the table stands in the column."""
    text = EXAMPLE.partition("structural_zeros")[0] + "defaults: {nulls: category, provenance: declared}\n"
    text = text.replace("column: patient", "column: who")
    assert load_contract(write(tmp_path, "c.yaml", f"{text}columns:\n  c: {written}\n")).columns[0].size > 2
