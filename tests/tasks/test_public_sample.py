"""Domains proposed from public rows: only with a reason, which stands in the contract, and never over a codebook."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.contract.odcs import load_contract
from contracts.drafting.sketch import DraftRefused
from tasks.draft import draft_contract
from tests.contracts.samples import write

REASON = "Rows of the public use file of 2019, https://example.org/puf"
ROWS = pa.table(
    {
        "age": pa.array([17, 64, 99, None, *range(17, 60)]),
        "sex": pa.array([1, 2] * 23 + [1]),
        "vote": pa.array(["Y", "N"] * 23 + ["N"]),
        "children": pa.array(["0", "3", "N"] * 15 + ["2", "1"]),
        "size": pa.array([0.3, 41.5, *([20.0] * 45)]),
        "day": pa.array(["2021-03-04", "2023-05-06"] * 23 + ["2022-01-01"]),
        "email": pa.array([f"p{number}@example.org" for number in range(47)]),
        "town": pa.array([f"town {number}" for number in range(47)]),
        "mostly": pa.array([None] * 47, pa.string()),
    }
)


def test_values_bounds_and_bins_are_proposed_and_the_reason_is_the_provenance(tmp_path: Path):
    """Round bins of numbers, few numbers as codes, years around days, texts like addresses left out."""
    pq.write_table(ROWS, tmp_path / "people.parquet")
    drafted = draft_contract(tmp_path / "people.parquet", public_because=REASON)
    for line in (
        "  age: 15..99 by 5",
        "  sex: [1, 2]",
        '  vote: ["N", "Y"]',
        '  children: {values: [0, 1, 2, 3], type: string, missing: ["N"]}',
        "  size: number 0..45 by 5",
        "  day: 2021-01-01..2023-12-31 by month",
        "left_out: [email]",
        "  mostly: <declare>",
    ):
        assert f"\n{line}" in drafted.text, drafted.text
    done = drafted.text.replace("kind: <declare>, scope: <declare>", "kind: row, scope: block")
    done = done.replace("adjacency: <declare>", "adjacency: add_remove").replace(
        "nulls: <declare>", "nulls: category"
    )
    contract = load_contract(write(tmp_path, "c.yaml", done.replace("  mostly: <declare>", "  mostly: [a]")))
    provenance = contract.column("age").domain.provenance
    assert provenance.kind == "public"
    assert provenance.reference == f"{REASON} (values, bounds and bins proposed from people.parquet)"
    again = draft_contract(ROWS, public_because=REASON, table="people")
    assert "  age: 15..99 by 5\n" in again.text


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_of_a_csv_file_are_read_as_texts(tmp_path: Path, delimiter: str):
    """Codes keep their zeros; quoted line ends are within a field."""
    lines = [["code", "age", "note"], ["01", "5", '"a\nb"'], ["02", "9000", "c"]]
    path = write(tmp_path, "rows.csv", "\n".join(delimiter.join(cells) for cells in lines) + "\n")
    text = draft_contract(path, public_because=REASON).text
    assert '\n  code: ["01", "02"]' in text
    assert "\n  age: [5, 9000]\n" in text


def test_a_codebook_wins_and_what_the_rows_hold_beyond_it_is_told(tmp_path: Path):
    """A value that the codebook does not list leaves the column open; bounds get bins; the rest is proposed."""
    path = write(tmp_path, "book.csv", "column,values\nsex,1=male\nage,0..119\nvote,Y; N\n")
    drafted = draft_contract(ROWS, path, public_because=REASON)
    findings = {finding.field: finding for finding in drafted.findings if "does not list" in finding.found}
    assert list(findings) == ["column 'sex'"]
    assert "the first is '2'" in findings["column 'sex'"].found
    assert findings["column 'sex'"].where == f"{path}:2"
    assert "\n  sex: <declare>" in drafted.text
    flat = " ".join(drafted.text.split())
    taken = "Taken over from book.csv; check it: nothing of it may have been collected from the rows"
    assert f'age: {{range: 0..119 by 10, provenance: {{kind: <declare>, reference: "{taken}"}}}}' in flat
    assert "size: number 0..45 by 5" in flat


@pytest.mark.parametrize("reason", ["", "public", "it is public\u202e data", "yes it"])
def test_rows_are_not_read_without_a_reason_that_says_something(tmp_path: Path, reason: str):
    """The sentence is published as the provenance of every domain."""
    with pytest.raises(DraftRefused, match="--public-because") as refused:
        draft_contract(ROWS, public_because=reason)
    assert "write a sentence" in refused.value.findings[0].remedy


def test_what_has_no_rows_is_refused(tmp_path: Path):
    """A schema, a codebook, a database; a file that is broken or not there."""
    book = write(tmp_path, "book.csv", "column,values\na,1\n")
    for source, codebook in ((ROWS.schema, None), (None, book)):
        with pytest.raises(DraftRefused, match="a CSV or Parquet file, or an Arrow table"):
            draft_contract(source, codebook, public_because=REASON)
    with pytest.raises(DraftRefused, match="rows that cannot be read"):
        draft_contract(write(tmp_path, "rows.csv", "a,b\n1\n"), public_because=REASON)


def test_without_the_reason_two_tables_with_other_rows_get_the_same_draft(tmp_path: Path):
    """The same schema, other rows: not a byte of the draft differs."""
    one = write(tmp_path, "one.csv", "age,town\n17,Ulm\n")
    (tmp_path / "two").mkdir()
    other = write(tmp_path / "two", "one.csv", "age,town\n99,Bonn\n" * 1000)
    assert draft_contract(one).text == draft_contract(other).text
