"""Votes for the nearest of public candidates: exact however they are counted, and moved no more than is said."""

import tracemalloc
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from numpy.typing import NDArray

from contracts.contract.contract import Adjacency
from privacy.learning import candidates as counted
from privacy.learning.candidates import Candidates, vote_event, vote_vectors
from privacy.learning.layout import ColumnLayout, RowLayout
from privacy.marginals.sensitivity import GaussianNoise, LaplaceNoise
from tests.privacy.learning.learning_rows import LAYOUT, random_rows

SMALL = RowLayout(
    (ColumnLayout("size", "number", np.array([[0.0], [0.5], [1.0]])), ColumnLayout("kind", "category", np.eye(2)))
)
"""Six different rows."""


def by_hand(rows: NDArray[np.integer], candidates: Candidates, layout: RowLayout) -> list[int]:
    """Count the votes row by row, in Python's whole numbers: the first of the nearest that the row may choose."""
    votes = [0] * len(candidates)
    place = None if candidates.label is None else layout.names.index(candidates.label)
    for row in rows.tolist():
        may = range(len(candidates))
        if place is not None:
            own = [each for each in may if candidates.codes[each, place] == row[place]]
            may = own or may  # type: ignore[assignment]
        votes[min(may, key=lambda each: (distance(row, candidates.codes[each].tolist(), layout), each))] += 1
    return votes


def distance(one: list[int], other: list[int], layout: RowLayout) -> int:
    """256 steps from the lowest to the highest number; categories that differ, and a null and a number, by 2 · 128²
    and 128²."""
    total = 0
    for first, second, column in zip(one, other, layout.columns, strict=True):
        if column.kind == "category":
            total += 0 if first == second else 2 * 128**2
            continue
        steps = [round(float(column.table[code, 0]) * 256) for code in (first, second)]
        total += (steps[0] - steps[1]) ** 2
        if column.nullable:
            null = column.table.shape[0] - 1
            total += 0 if (first == null) == (second == null) else 128**2
    return total


@given(
    seed=some.integers(0, 2**32),
    rows=some.integers(0, 60),
    count=some.integers(1, 40),
    label=some.sampled_from([None, "label"]),
)
def test_each_row_votes_for_the_first_of_the_nearest(seed: int, rows: int, count: int, label: str | None):
    """Against a count row by row; candidates repeat, so that ties are many, and some labels have no candidate."""
    codes = random_rows(rows, seed)
    candidates = Candidates(LAYOUT.names, random_rows(count, seed + 1).astype(np.int64) // 3, label)
    votes = candidates.votes(codes, LAYOUT)
    assert votes.tolist() == by_hand(codes, candidates, LAYOUT)
    assert votes.sum() == rows


def test_blocks_and_kinds_of_floats_do_not_matter(monkeypatch: pytest.MonkeyPatch):
    """Rows in one block, in blocks of a few, and in float64: the same votes, to the last one."""
    codes, wide = random_rows(5000), Candidates(LAYOUT.names, random_rows(300, 2).astype(np.int64), "label")
    votes = wide.votes(codes, LAYOUT)
    assert vote_vectors(codes, LAYOUT).dtype == np.float32
    monkeypatch.setattr(counted, "_BLOCK_NUMBERS", 300 * 7)
    assert np.array_equal(wide.votes(codes, LAYOUT), votes)
    monkeypatch.setattr(counted, "_EXACT_FLOAT32", 0)
    assert vote_vectors(codes, LAYOUT).dtype == np.float64
    assert np.array_equal(wide.votes(codes, LAYOUT), votes)


@pytest.mark.long
def test_memory_does_not_grow_with_the_rows():
    """Ten times the rows take no more at once than blocks do: 50 MB, where all distances would take 800 MB."""
    candidates = Candidates(LAYOUT.names, random_rows(1000, 2).astype(np.int64), "label")
    codes, peaks = random_rows(200_000), []
    for rows in (20_000, 200_000):
        tracemalloc.start()
        candidates.votes(codes[:rows], LAYOUT)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 50 * 2**20


def test_many_columns_are_counted_in_float64_and_exactly():
    """200 numbers are too long for float32: 2 · 200 · 2^16 is above 2^24. Votes are those of whole numbers."""
    levels = np.linspace(0, 1, 256)[:, None]
    layout = RowLayout(tuple(ColumnLayout(f"x{place}", "number", levels) for place in range(200)))
    random = np.random.default_rng(5)
    rows, chosen = random.integers(200, 256, (50, 200)), random.integers(200, 256, (20, 200))
    assert vote_vectors(rows, layout).dtype == np.float64
    candidates = Candidates(layout.names, chosen, None)
    assert candidates.votes(rows.astype(np.uint8), layout).tolist() == by_hand(rows, candidates, layout)


@pytest.mark.parametrize("rows_per_unit", [1, 2])
@pytest.mark.parametrize("label", [None, "kind"])
def test_no_neighbour_moves_votes_further_than_the_event_says(label: str | None, rows_per_unit: int):
    """Every table of up to three rows, and every neighbour of it, by all candidates of three lists. L1 and squared L2
    of the largest move are those of the event's moves, exactly: reached, and never passed."""
    every = np.array(list(product(range(3), range(2))))
    lists = [every, every[[0, 3]], every[[0, 0, 5]]]
    for chosen in lists:
        candidates = Candidates(SMALL.names, chosen.astype(np.int64), label)
        # Votes add up over rows, so that what moves are the votes of the unit's rows alone.
        units = [
            candidates.votes(every[list(unit)].astype(np.uint8).reshape(-1, 2), SMALL)
            for size in range(rows_per_unit + 1)
            for unit in combinations_with_replacement(range(len(every)), size)
        ]
        tables = [every[list(table)] for table in combinations_with_replacement(range(len(every)), 3)]
        for table in tables[::7]:
            whole = candidates.votes(table.astype(np.uint8), SMALL)
            parts = sum(candidates.votes(row[None].astype(np.uint8), SMALL) for row in table)
            assert np.array_equal(whole, parts)
        relations: dict[Adjacency, list[NDArray[np.int64]]] = {
            "add_remove": units,
            "replace_one": [one - other for one in units for other in units],
        }
        for adjacency, moved in relations.items():
            terms = {"adjacency": adjacency, "rows_per_unit": rows_per_unit}
            for noise in (GaussianNoise(Fraction(1, 10)), LaplaceNoise(Fraction(1))):
                moves = vote_event(noise, **terms).moves  # type: ignore[arg-type]
                l1, l2 = sum(map(abs, moves)), sum(move**2 for move in moves)
                assert max(int(np.abs(each).sum()) for each in moved) == l1
                assert max(int((each**2).sum()) for each in moved) == l2


@pytest.mark.parametrize(
    ("columns", "codes", "label", "found"),
    [
        (("height",), [[0]], None, "candidates of height"),
        (LAYOUT.names, [[0, 0, 0, 3]], None, "a code that its column does not have"),
        (LAYOUT.names, [[-1, 0, 0, 0]], None, "a code that its column does not have"),
        (LAYOUT.names, [[0, 0, 0, 0]], "height", "the label 'height' is a number"),
    ],
)
def test_candidates_of_other_rows_are_refused(
    columns: tuple[str, ...], codes: list[list[int]], label: str | None, found: str
):
    with pytest.raises(ValueError, match=found):
        Candidates(columns, np.array(codes, dtype=np.int64), label).check(LAYOUT)


def test_pictures_are_refused():
    layout = RowLayout((ColumnLayout("picture", "array", np.linspace(0, 1, 4)[:, None], 9),))
    with pytest.raises(ValueError, match="several codes a row"):
        Candidates(("picture",), np.zeros((1, 1), dtype=np.int64), None).check(layout)


@pytest.mark.parametrize(
    ("columns", "shape", "label"),
    [
        ((), (1, 0), None),
        (("a",), (0, 1), None),
        (("a", "a"), (1, 2), None),
        (("a",), (1, 1), "b"),
        (("a",), (1, 2), None),
    ],
)
def test_candidates_have_rows_columns_and_their_label(
    columns: tuple[str, ...], shape: tuple[int, int], label: str | None
):
    with pytest.raises(ValueError, match=r"candidates must|the label"):
        Candidates(columns, np.zeros(shape, dtype=np.int64), label)


def test_the_digest_tells_columns_label_and_codes_apart():
    codes = np.arange(6, dtype=np.int64).reshape(3, 2)
    made = [
        Candidates(("a", "b"), codes, None),
        Candidates(("a", "b"), codes, "a"),
        Candidates(("b", "a"), codes, None),
        Candidates(("a", "b"), codes[::-1].copy(), None),
        Candidates(("a", "b"), codes[:2], None),
    ]
    assert len({each.digest for each in made}) == len(made)
