"""Weighted sums by cell: row by row, and as sums of a table in which each row stands as often as its weight says."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.contract.contract import Contract
from contracts.domains.addends import Addends, WeightedCount
from contracts.domains.lattice import ValueLattice
from contracts.domains.trees import ValueTree
from privacy.private_table import PrivateTable
from privacy.snapshots.snapshot import SnapshotSums
from tests.privacy.snapshots.test_snapshot_sums import stored

Rows = dict[str, NDArray[np.int64]]
WEIGHT = ValueLattice('of "people"', Decimal(0), Decimal(7), Decimal("0.5"), counts_missing=True)
OTHER = ValueLattice("of households", Decimal(0), Decimal(3), Decimal(1), counts_missing=False)
AGE = ValueLattice("age", Decimal(17), Decimal(90), Decimal(1), counts_missing=True, weight=WEIGHT)
ADDENDS: tuple[Addends, ...] = (
    AGE,
    replace(AGE, weight=None),
    replace(AGE, weight=OTHER),
    ValueTree(AGE, Decimal(5)),
    ValueTree(replace(AGE, weight=OTHER), Decimal(5)),
    WeightedCount(WEIGHT),
    WeightedCount(OTHER),
)
CLIQUES = [(), ("sex",), ("income", "education")]
ROWS = 400


@pytest.fixture(scope="module")
def rows(contract: Contract) -> Rows:
    """Random codes, offsets and weights: the ends of both among them, and missing ones; stored as 0."""
    random = np.random.default_rng(11)
    codes = {each.name: random.integers(0, each.size, ROWS) for each in contract.columns}
    for each in (AGE, WEIGHT, OTHER):
        values = random.integers(1, each.width + 2, ROWS)
        values[random.random(ROWS) < 0.2] = 1
        values[random.random(ROWS) < 0.2] = each.width + 1
        codes[each.name] = np.where(random.random(ROWS) < 0.2, 0, values) if each.counts_missing else values
    return codes


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, contract: Contract, rows: Rows) -> PrivateTable:
    return stored(tmp_path_factory.mktemp("weighted") / "snapshot.duckdb", contract, rows)


def weight_of(rows: Rows, place: int, weight: ValueLattice | None) -> int:
    """What one row counts: 1 without a weight, 0 where its weight is missing."""
    return 1 if weight is None else max(0, int(rows[weight.name][place]) - 1)


def handed_out(rows: Rows, place: int, addends: Addends) -> NDArray[np.int64]:
    weight, parts = weight_of(rows, place, addends.weight), np.zeros(addends.parts, dtype=np.int64)
    if isinstance(addends, WeightedCount):
        parts[0] = weight
        return parts
    offset = int(rows[addends.lattice.name][place]) - 1
    if offset < 0:
        parts[-1] = weight * (1 if isinstance(addends, ValueTree) else addends.width)
    elif isinstance(addends, ValueTree):
        [leaf] = [each for each in range(addends.leaves) if addends.first(each) <= offset <= addends.last(each)]
        starts = np.cumsum((0, *addends.level_nodes))
        for start, size in zip(starts, addends.level_leaves, strict=False):
            parts[start + leaf // size] += weight
    else:
        parts[:2] = weight * offset, weight * (addends.width - offset)
    return parts


def brute_force(contract: Contract, rows: Rows, clique: tuple[str, ...], addends: Addends) -> NDArray[np.int64]:
    exact = np.zeros((*contract.shape(clique), addends.parts), dtype=np.int64)
    for place in range(ROWS):
        exact[tuple(int(rows[name][place]) for name in clique)] += handed_out(rows, place, addends)
    return exact


@pytest.mark.parametrize("clique", CLIQUES, ids="×".join)
def test_weighted_sums_are_those_of_the_rows(
    table: PrivateTable, contract: Contract, rows: Rows, clique: tuple[str, ...]
):
    """Sums, trees and counts, with two weights and without, all asked for at once and opened in any order."""
    handles = SnapshotSums(table, contract).sums(clique, ADDENDS)
    for handle in reversed(handles):
        exact = handle._read()
        assert exact.dtype == np.int64
        np.testing.assert_array_equal(exact, brute_force(contract, rows, clique, handle.addends))


def test_a_row_moves_the_numbers_by_its_moves_at_most(rows: Rows):
    """Row by row: no number below 0, L1 at most the width times the largest weight, which some row reaches."""
    for addends in ADDENDS:
        most = sum(addends.row_moves)
        found = [int(handed_out(rows, place, addends).sum()) for place in range(ROWS)]
        assert min(int(handed_out(rows, place, addends).min()) for place in range(ROWS)) >= 0
        assert max(found) == most


def test_a_weight_counts_a_row_as_often(tmp_path: Path, contract: Contract, rows: Rows):
    """A second derivation: without weights, over a table in which each row stands as often as its weight says."""
    times = [weight_of(rows, place, OTHER) for place in range(ROWS)]
    repeated = {name: np.repeat(values, times) for name, values in rows.items()}
    weighed, plain = (
        SnapshotSums(stored(tmp_path / name, contract, each), contract)
        for name, each in (("once.duckdb", rows), ("often.duckdb", repeated))
    )
    lattice = replace(AGE, weight=OTHER)
    for first, second in (
        (lattice, replace(lattice, weight=None)),
        (ValueTree(lattice, Decimal(5)), ValueTree(replace(lattice, weight=None), Decimal(5))),
    ):
        [some], [others] = weighed.sums(("sex",), [first]), plain.sums(("sex",), [second])
        np.testing.assert_array_equal(some._read(), others._read())


def test_the_largest_weighted_sums_fit_64_bits(tmp_path: Path, contract: Contract):
    """As many steps as a unit may move, by weights of one step and of nearly all of them; nine billion such rows."""
    shapes: tuple[tuple[int, int], ...] = ((1, 10**9), (10**9, 1), (31_250, 32_000))
    for steps, weights in shapes:
        weight = ValueLattice("w", Decimal(0), Decimal(weights), Decimal(1), counts_missing=True)
        lattice = ValueLattice("v", Decimal(0), Decimal(steps), Decimal(1), counts_missing=True, weight=weight)
        codes = {each.name: np.zeros(3, dtype=np.int64) for each in contract.columns}
        codes |= {lattice.name: np.array([0, 1, steps + 1]), weight.name: np.full(3, weights + 1)}
        found = SnapshotSums(stored(tmp_path / f"{steps}.duckdb", contract, codes), contract).sums((), [lattice])
        assert found[0]._read().tolist() == [10**9] * 3
        assert 9 * 10**9 * steps * weights < 2**63


def test_nobody_weighs_nothing(tmp_path: Path, contract: Contract, rows: Rows):
    """A snapshot without rows, and one whose weights are all missing."""
    take: tuple[Callable[[NDArray[np.int64]], NDArray[np.int64]], ...] = (lambda a: a[:0], lambda a: a)
    for number, some in enumerate(take):
        codes = {name: some(values) for name, values in rows.items()}
        codes |= {each.name: np.zeros_like(codes[each.name]) for each in (WEIGHT, OTHER)}
        table = stored(tmp_path / f"{number}.duckdb", contract, codes)
        for clique in ((), ("sex",)):
            weighed = [each for each in ADDENDS if each.weight is not None]
            assert not any(handle._read().any() for handle in SnapshotSums(table, contract).sums(clique, weighed))


def test_a_handle_reads_the_weight_that_its_price_is_derived_of(table: PrivateTable, contract: Contract, rows: Rows):
    """Whoever puts another weight into a handle gets the sums of that one, and pays for it."""
    (made,) = SnapshotSums(table, contract).sums(("sex",), [AGE])
    for other in ADDENDS:
        exact = replace(made, addends=other)._read()
        np.testing.assert_array_equal(exact, brute_force(contract, rows, ("sex",), other))
