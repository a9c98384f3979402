"""The page of the extension: its numbers are those of the example, and its forms are those that are read."""

from __future__ import annotations

import re
from pathlib import Path

from contracts.contract.odcs import load_contract
from sudare_codebooks import ddi, json_forms, statistical_files
from tasks.draft import draft_contract
from tests.contracts.samples import write
from tests.source_folders import ROOT

PAGE = (ROOT / "extensions" / "sudare_codebooks" / "README.md").read_text(encoding="utf-8")
ACS = ROOT / "examples" / "acs"


def test_every_form_that_the_modules_give_is_on_the_page() -> None:
    """Forms are the texts in the sources that a codebook is made with."""
    listed = re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)
    sources = "".join(Path(str(module.__file__)).read_text() for module in (ddi, json_forms, statistical_files))
    assert listed == ["table-schema", "ddi", "sdnist", "data-dictionary", "spss", "stata"]
    assert [form for form in listed if f'"{form}"' not in sources] == []


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
