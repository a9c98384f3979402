"""Counts by place through the grant: a derived event, exact sums, and what public totals leave of a neighbour."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.grant.queries import place_counts
from privacy.grant.queries.place_counts import PlaceCountQuery, added_up, groups_digest
from privacy.marginals.counts import PrivateCounts
from privacy.marginals.sensitivity import GaussianNoise
from tests.privacy.ledger.ledgers import KEYED_HASH, Place, opened_grant

NOISE = GaussianNoise(Fraction(1, 100))
COUNTS = np.arange(24, dtype=np.int64).reshape(4, 2, 3) * 1000
GROUPS = np.array([1, 0, 1, 1])


def query(
    groups: NDArray[np.int64] = GROUPS, places: int = 2, columns: tuple[str, ...] = ("sex",)
) -> PlaceCountQuery:
    handle = PrivateCounts(("block", "sex", "job"), COUNTS.shape, KEYED_HASH, "b" * 64, lambda: COUNTS)
    return PlaceCountQuery(handle, "region", places, groups, columns, NOISE)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (query(np.array([0, 1, 2, 0])), "groups must lie in"),
        (query(np.array([0, 1, -1, 0])), "groups must lie in"),
        (query(np.array([0, 1, 1])), "allowed: one for each of 4 places"),
        (query(columns=("job", "sex")), "in its order"),
        (query(columns=("sex", "sex")), "in its order"),
        (query(columns=("block",)), "in its order"),
    ],
)
def test_groups_under_which_a_row_is_nowhere_or_twice_are_refused(
    sqlite_place: Place, wrong: PlaceCountQuery, says: str
):
    """Before anything is read."""
    _, grant = opened_grant(sqlite_place)
    with pytest.raises(ValueError, match=says):
        grant.draw(wrong, key="a")


def test_sums_are_exact_in_pieces(monkeypatch: pytest.MonkeyPatch):
    """One place in two pieces, places without parts, no column kept: as by hand."""
    monkeypatch.setattr(place_counts, "PIECE", 7)
    for kept in product([False, True], repeat=2):
        axes = tuple(axis for axis, own in enumerate(kept, start=1) if not own)
        expected = np.zeros((5, *COUNTS.sum(axis=axes).shape[1:]), dtype=np.int64)
        for code, place in enumerate((4, 2, 4, 0)):
            expected[place] += COUNTS.sum(axis=axes)[code]
        assert (added_up(COUNTS, np.array([4, 2, 4, 0]), 5, kept) == expected).all()


def test_which_places_are_added_up_is_part_of_the_query():
    """Another grouping, or one more empty place, has another digest."""
    digests = {groups_digest(2, GROUPS), groups_digest(3, GROUPS), groups_digest(2, GROUPS[::-1].copy())}
    assert len(digests) == 3
    assert replace(query(), places=3) is not None


def moved(first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...], groups: NDArray[np.int64]) -> int:
    """The squared distance of the counts by region and cell of two tables of rows (block, cell)."""
    change = np.zeros((int(groups.max()) + 1, 2), dtype=np.int64)
    for rows, sign in ((first, 1), (second, -1)):
        for block, cell in rows:
            change[groups[block], cell] += sign
    return int((change**2).sum())


def test_public_totals_leave_what_the_record_says():
    """All tables of three people in three blocks and two cells, block 0 and 1 in region 0, block 2 in region 1. Of
    two tables that differ in one row and agree in the totals of regions, the person stays in the region, and the
    counts by region and by block move by two at most (squared). Where two people change their blocks, and keep all
    else, the counts move by four at most: twice the loss. Without the totals one row may change the region: the wrong
    claim that regions never move is found out."""
    groups, places = np.array([0, 0, 1]), np.arange(3)
    rows = list(product(range(3), range(2)))
    tables = list(product(rows, repeat=3))
    totals = {
        table: tuple(sum(groups[block] == region for block, _ in table) for region in (0, 1)) for table in tables
    }
    regions_moved = False
    for table in tables:
        for row in rows:
            other = (row, *table[1:])
            regions_moved = regions_moved or groups[row[0]] != groups[table[0][0]]
            if totals[other] == totals[table]:
                assert groups[row[0]] == groups[table[0][0]]
            assert max(moved(table, other, groups), moved(table, other, places)) <= 2
        changed = ((table[1][0], table[0][1]), (table[0][0], table[1][1]), table[2])
        assert totals[changed] == totals[table]
        assert max(moved(table, changed, groups), moved(table, changed, places)) <= 4
    assert regions_moved


def test_public_counts_by_a_column_leave_what_the_record_says():
    """All tables of three people, each with block, sex and age; counts of two regions by sex are public. Of two
    tables that differ in one row and agree in the public counts, the person stays in region and sex. What is drawn
    moves by two at most (squared), and what follows from the public counts not at all. Two people who exchange place
    and sex move it by four at most, and four is reached. A person may change the sex where nothing is public: the
    wrong claim that sexes never move is found out."""
    groups = np.array([0, 0, 1])
    rows = list(product(range(3), range(2), range(2)))
    public = {row: (int(groups[row[0]]), row[1]) for row in rows}
    told = (
        lambda row: row,  # blocks by sex and age
        lambda row: (groups[row[0]], row[1], row[2]),  # regions by sex and age
        lambda row: (groups[row[0]], row[2]),  # regions by age
        lambda row: (groups[row[0]], row[1]),  # regions by sex: it follows from what is public
    )

    def squares(first: tuple[Any, ...], second: tuple[Any, ...]) -> list[int]:
        found = []
        for cell in told:
            change = Counter(cell(row) for row in first)
            change.subtract(Counter(cell(row) for row in second))
            found.append(sum(moved_by**2 for moved_by in change.values()))
        return found

    sexes_moved, worst = False, [0, 0, 0, 0]
    for table in product(rows, repeat=3):
        counted = Counter(public[row] for row in table)
        for row in rows:
            other = (row, *table[1:])
            sexes_moved = sexes_moved or row[1] != table[0][1]
            if Counter(public[each] for each in other) == counted:
                assert public[row] == public[table[0]]
                assert max(squares(table, other)) <= 2
                assert squares(table, other)[-1] == 0
        first, second = table[:2]
        exchanged = ((*second[:2], first[2]), (*first[:2], second[2]), table[2])
        assert Counter(public[each] for each in exchanged) == counted
        worst = [max(pair) for pair in zip(worst, squares(table, exchanged), strict=True)]
    assert sexes_moved
    assert worst == [4, 4, 4, 0]
