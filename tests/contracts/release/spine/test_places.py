"""Files of places and of public counts: what is read, and what is refused, by name and line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.release.spine.place_margins import (
    PlaceMargin,
    PlaceTree,
    disagreements,
    margin_of,
    read_margin,
    read_places,
)
from contracts.release.spine.product import PlaceInvariant
from contracts.release.spine.tree import PlaceFile, PlacesRefused
from tests.contracts.samples import column, contract_of

HEAD = "place,parent,level,people\n"
LEVELS = ("nation", "region", "block")
WHOLE = HEAD + "JP,,nation,9\nA,JP,region,4\nB,JP,region,5\na1,A,block,1\nb1,B,block,5\na2,A,block,3\n"
BLOCKS = ("a1", "a2", "b1")


def read(
    folder: Path, text: str, labels: tuple[str, ...] = BLOCKS, *, unbalanced: bool = False, totals: str = ""
) -> PlaceTree:
    path = folder / "places.csv"
    path.write_text(text)
    return read_places(path, PlaceFile(LEVELS, labels, unbalanced, dict.fromkeys(totals.split(), "people")))


def test_a_tree_is_read_level_by_level_with_families_side_by_side(tmp_path: Path):
    """Lines in any order; parents never fall; codes are those of the contract; totals follow the places."""
    tree = read(tmp_path, WHOLE, totals="nation region block")
    assert [names.to_pylist() for names in tree.names] == [["JP"], ["A", "B"], ["a1", "a2", "b1"]]
    assert [parent.tolist() for parent in tree.parents] == [[0, 0], [0, 0, 1]]
    assert tree.codes.tolist() == [0, 1, 2]
    assert {level: totals.tolist() for level, totals in tree.totals.items()} == {
        "nation": [9],
        "region": [4, 5],
        "block": [1, 3, 5],
    }
    assert tree.groups("region").tolist() == [0, 0, 1]
    assert tree.groups("nation").tolist() == [0, 0, 0]


def test_codes_are_those_of_the_contract_in_whatever_order(tmp_path: Path):
    """The labels of the contract in another order: each code leads to its own region."""
    tree = read(tmp_path, WHOLE, ("b1", "a2", "a1"))
    assert tree.codes.tolist() == [2, 1, 0]
    assert tree.groups("region").tolist() == [1, 0, 0]
    assert tree.sha256 != read(tmp_path, WHOLE).sha256


def test_parquet_and_csv_are_one_tree(tmp_path: Path):
    """The digest is that of the tree, not of the file."""
    rows = [line.split(",") for line in WHOLE.splitlines()]
    table = pa.table({name: [row[place] for row in rows[1:]] for place, name in enumerate(rows[0])})
    pq.write_table(table, tmp_path / "places.parquet")
    parquet = read_places(tmp_path / "places.parquet", PlaceFile(LEVELS, BLOCKS, unbalanced=False, totals={}))
    assert parquet.sha256 == read(tmp_path, WHOLE).sha256


def test_skipped_levels_are_filled_with_the_place_itself(tmp_path: Path):
    """A block right below the nation, and a region without blocks, stand at each level in between."""
    text = HEAD + "JP,,nation,\nA,JP,region,\nB,JP,region,\na1,A,block,\nc,JP,block,\n"
    tree = read(tmp_path, text, ("a1", "B", "c"), unbalanced=True)
    assert [names.to_pylist() for names in tree.names] == [["JP"], ["A", "B", "c"], ["a1", "B", "c"]]
    assert [parent.tolist() for parent in tree.parents] == [[0, 0, 0], [0, 1, 2]]
    assert np.array_equal(np.bincount(tree.parents[1]), [1, 1, 1])


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        (WHOLE.replace("b1,B,", "b1,X,"), 6, "the place 'b1' below 'X', which is no place"),
        (WHOLE.replace("B,JP,", "B,,"), 4, "the place 'B', a second root"),
        (WHOLE.replace("B,JP,", "B,b1,"), 4, "a circle: the place 'B' below the place 'b1' below the place 'B'"),
        (WHOLE.replace("JP,,", "JP,JP,"), None, "no place without a parent"),
        (WHOLE.replace("b1,B,block", "b1,JP,block"), 6, "right below the place 'JP' at level nation"),
        (WHOLE.replace("b1,B,block,5\n", ""), 4, "the place 'B' at level region, without places below it"),
        (WHOLE.replace("a2,A,", "a1,A,"), 7, "the place 'a1' again"),
        (WHOLE.replace("b1,B,block", "b1,B,street"), 6, "the level 'street'"),
        (WHOLE.replace("b1,B,block", "b1,B,region"), 6, "at level region, below the place 'B' at level region"),
        (WHOLE.replace("b1,", "b9,"), 6, "the place 'b9', no label of the column"),
        (WHOLE + "b2,B,block,0\n", 8, "the place 'b2', no label of the column"),
        (WHOLE.replace("a2,A,block,3\n", ""), None, "no place for 'a2'"),
        (WHOLE.replace("B,JP,region,5", "B,JP,region,6"), 2, "'JP': 9, while its places at level region have 10"),
        (WHOLE.replace("B,JP,region,5", "B,JP,region,many"), 4, "the place 'B': 'many'"),
        (WHOLE.replace("B,JP,region,5", "B,JP,region,"), 4, "the place 'B': ''"),
        (HEAD, None, "0 places"),
        (WHOLE.replace(",people", ",persons"), 1, "no column 'people', of place, parent, level, persons"),
    ],
)
def test_what_is_no_tree_is_refused_by_name_and_line(tmp_path: Path, text: str, line: int | None, found: str):
    """Each fault names the line, what was found, what is allowed, and what to do."""
    with pytest.raises(PlacesRefused) as refused:
        read(tmp_path, text, totals="nation region")
    [fault] = refused.value.faults
    assert (fault.line, found in fault.found) == (line, True), fault
    assert fault.allowed
    assert fault.remedy


def test_a_missing_file_is_refused(tmp_path: Path):
    """With its name, and what to write."""
    with pytest.raises(PlacesRefused, match=r"places\.parquet"):
        read_places(tmp_path / "places.parquet", PlaceFile(LEVELS, BLOCKS, unbalanced=False, totals={}))


SEX = column("categories", "string", "sex", values=["F", "M"], nulls={"policy": "map", "to": "F"})
JOB = column("categories", "string", "job", values=["care", "none"], nulls={"policy": "map", "to": "none"})
PLACES = pa.array(["A", "B"])
ASKED = PlaceInvariant(column="people", reference="yearbook", columns=("sex",), file="sexes.csv")
COUNTS = "place,sex,people\nB,M,4\nA,F,1\nA,M,2\nB,F,3\n"


def margin_from(folder: Path, text: str) -> PlaceMargin:
    path = folder / "sexes.csv"
    path.write_text(text)
    return read_margin(path, ASKED, {"sex": ("F", "M")}, PLACES)


def test_counts_are_read_in_whatever_order(tmp_path: Path):
    """A row a place of the level, a column a label."""
    found = margin_from(tmp_path, COUNTS)
    assert (found.columns, found.counts.tolist()) == (("sex",), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        (COUNTS.replace("B,M,4", "C,M,4"), 2, "'C'"),
        (COUNTS.replace("B,M,4", "B,X,4"), 2, "'X'"),
        (COUNTS.replace("A,M,2", "A,F,2"), 4, "'A', 'F' again"),
        (COUNTS.replace("A,M,2", "A,M,2.5"), 4, "'A', 'M': '2.5'"),
        (COUNTS.replace("A,M,2", "A,M,"), 4, "'A', 'M': ''"),
        (COUNTS.replace("A,M,2\n", ""), None, "no line for 'A', 'M'"),
        (COUNTS.replace("people", "persons"), 1, "no column 'people'"),
        ("place,sex,people\n", None, "no line for 'A', 'F'"),
    ],
)
def test_what_is_wrong_is_named_by_line(tmp_path: Path, text: str, line: int | None, found: str):
    """An unknown place or label, a line twice or missing, no whole number, no such column."""
    with pytest.raises(PlacesRefused) as refused:
        margin_from(tmp_path, text)
    first = refused.value.faults[0]
    assert (first.line, refused.value.path) == (line, tmp_path / "sexes.csv")
    assert found in first.found
    assert first.remedy


def test_public_counts_of_two_levels_must_add_up_and_be_comparable():
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
