"""Files of public counts by columns: what is read, and what is refused, by name and line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from contracts.release.spine.place_margins import PlaceMargin, disagreements, margin_of, read_margin
from contracts.release.spine.product import PlaceInvariant
from contracts.release.spine.tree import PlacesRefused
from tests.contracts.samples import column, contract_of

SEX = column("categories", "string", "sex", values=["F", "M"], nulls={"policy": "map", "to": "F"})
JOB = column("categories", "string", "job", values=["care", "none"], nulls={"policy": "map", "to": "none"})
PLACES = pa.array(["A", "B"])
ASKED = PlaceInvariant(column="people", reference="yearbook", columns=("sex",), file="sexes.csv")
WHOLE = "place,sex,people\nB,M,4\nA,F,1\nA,M,2\nB,F,3\n"


def read(folder: Path, text: str) -> PlaceMargin:
    path = folder / "sexes.csv"
    path.write_text(text)
    return read_margin(path, ASKED, {"sex": ("F", "M")}, PLACES)


def test_counts_are_read_in_whatever_order(tmp_path: Path) -> None:
    """A row a place of the level, a column a label."""
    found = read(tmp_path, WHOLE)
    assert (found.columns, found.counts.tolist()) == (("sex",), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        (WHOLE.replace("B,M,4", "C,M,4"), 2, "'C'"),
        (WHOLE.replace("B,M,4", "B,X,4"), 2, "'X'"),
        (WHOLE.replace("A,M,2", "A,F,2"), 4, "'A', 'F' again"),
        (WHOLE.replace("A,M,2", "A,M,2.5"), 4, "'A', 'M': '2.5'"),
        (WHOLE.replace("A,M,2", "A,M,"), 4, "'A', 'M': ''"),
        (WHOLE.replace("A,M,2\n", ""), None, "no line for 'A', 'M'"),
        (WHOLE.replace("people", "persons"), 1, "no column 'people'"),
        ("place,sex,people\n", None, "no line for 'A', 'F'"),
    ],
)
def test_what_is_wrong_is_named_by_line(tmp_path: Path, text: str, line: int | None, found: str) -> None:
    """An unknown place or label, a line twice or missing, no whole number, no such column."""
    with pytest.raises(PlacesRefused) as refused:
        read(tmp_path, text)
    first = refused.value.faults[0]
    assert (first.line, refused.value.path) == (line, tmp_path / "sexes.csv")
    assert found in first.found
    assert first.remedy


def test_public_counts_of_two_levels_must_add_up_and_be_comparable() -> None:
    """Totals over counts by sex; by job over counts by sex; sexes that do not add up."""
    contract = contract_of(SEX, JOB)
    tree = ("nation", "region"), (pa.array([0, 0]).to_numpy(),), (pa.array(["JP"]), PLACES), contract
    regions = PlaceMargin(("sex",), pa.array([1, 2, 3, 4]).to_numpy().reshape(2, 2))

    def found(counts: list[int], *columns: str) -> list[str]:
        nation = PlaceMargin(columns, pa.array(counts).to_numpy().reshape(1, -1))
        return [problem.found for _, problem in disagreements({"nation": nation, "region": regions}, *tree)]

    assert found([10]) == found([4, 6], "sex") == found([1, 3, 2, 4], "sex", "job") == []
    assert found([11]) == ["the place 'JP': 11, while its places at level region have 10 together"]
    assert found([5, 5], "sex") == ["the place 'JP': 5, while its places at level region have 4 together"]
    assert found([5, 5], "job") == ["totals by job, and at level region by sex"]
    assert margin_of(regions.counts, ("sex",), (), contract).tolist() == [[3], [7]]
