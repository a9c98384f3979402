"""The manual's page on contracts in minutes: its example loads, its forms are forms, its numbers are these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contracts.contract.odcs import load_contract
from contracts.drafting.codebooks.codebook import FORMS
from tasks.draft import draft_contract
from tests.contracts.samples import write

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "contract-in-minutes.md").read_text()
EXAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
ACS = ROOT / "examples" / "acs"


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


def test_every_form_of_codebook_is_on_the_page() -> None:
    assert all(f"`{form}`" in PAGE for form in FORMS)


def test_the_draft_of_the_acs_leaves_as_few_places_open_as_the_page_says(tmp_path: Path) -> None:
    """The header of NIST's file and NIST's data dictionary; the finished contract has as many lines as it says."""
    names = ",".join(column.name for column in load_contract(ACS / "acs.contract.yaml").columns)
    drafted = draft_contract(write(tmp_path, "acs.csv", f"{names}\n"), ACS / "codebook.json")
    assert drafted.findings == ()
    assert f"leaves {drafted.open_places} places open" in PAGE
    assert (
        f"{len((ACS / 'acs.contract.yaml').read_text().splitlines())} lines: `examples/acs/acs.contract.yaml`"
        in " ".join(PAGE.split())
    )
    done = drafted.text.replace("kind: <declare>, scope: <declare>", "kind: row, scope: block")
    done = done.replace("adjacency: <declare>", "adjacency: add_remove").replace(
        "nulls: <declare>", "nulls: category"
    )
    done = done.replace("kind: <declare>", "kind: public").replace("by <declare>", "by 100")
    done = done.replace("INDP: <declare>", "INDP: 0..9999 by 500")
    assert len(load_contract(write(tmp_path, "acs.yaml", done)).columns) == 24
