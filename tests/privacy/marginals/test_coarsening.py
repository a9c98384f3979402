"""Coarser marginals: exact sums of a marginal's cells, with its sensitivity, behind the same handle."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.release.tables.levels import levels_of
from contracts.release.tables.tables import TableSpec
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.marginals.counts import Coarsening, coarsening, sum_up
from privacy.marginals.sensitivity import LaplaceNoise, marginal_moves
from privacy.snapshots.snapshot import SnapshotCounts
from privacy.table_plans.split import level_shares
from tests.contracts.release.tables.test_levels import mesh
from tests.privacy.conftest import NewPlace
from tests.privacy.grant.crashes import opened
from tests.privacy.ledger.ledgers import HALF, Counted
from tests.privacy.snapshots.test_snapshot_counts import codes, table  # noqa: F401

PAIRS = Coarsening("pairs", (2, 2), np.array([[0, 1, 1], [2, 3, 3], [2, 3, 3]]))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=4, max_size=4),
)
def test_a_unit_moves_a_coarser_marginal_no_further_than_the_marginal(
    rows: list[tuple[int, int]], gone: list[tuple[int, int]], come: list[tuple[int, int]]
) -> None:
    """k rows fewer: L1 and L2 at most k. The same k rows replaced: L1 at most 2k, L2² at most 2k²."""
    k = len(gone)

    def counted(cells: list[tuple[int, int]]) -> np.ndarray:
        counts = np.zeros((3, 3), dtype=np.int64)
        for cell in cells:
            counts[cell] += 1
        return sum_up(PAIRS, counts)

    with_unit, without = counted(rows + gone), counted(rows)
    replaced = counted(rows + come[:k])
    for adjacency, change in (("add_remove", with_unit - without), ("replace_one", with_unit - replaced)):
        moves = marginal_moves(adjacency, k)  # type: ignore[arg-type]
        assert np.abs(change).sum() <= sum(moves)
        assert (change**2).sum() <= sum(move**2 for move in moves)


def test_overlapping_cells_cannot_be_written_down() -> None:
    """The wrong case: a row in two cells would move two. A coarsening gives each cell one number, in its shape."""
    for cells in (np.array([0, 4]), np.array([-1, 0]), np.array([0.0, 1.0])):
        with pytest.raises(ValueError, match="cell_of"):
            Coarsening("x", (2, 2), cells)
    with pytest.raises(ValueError, match="counts of shape"):
        sum_up(PAIRS, np.zeros(9, dtype=np.int64))
    with pytest.raises(ValueError, match="a coarsening of a marginal of shape"):
        Counted(np.zeros(4, dtype=np.int64)).handle.coarser(PAIRS)


def test_a_snapshot_counts_a_table_at_a_coarser_resolution(table, contract, codes) -> None:  # type: ignore[no-untyped-def] # noqa: F811
    """Counted in DuckDB, summed up behind the handle, which shows the resolution and no count."""
    groups = {"low": [*contract.column("education").labels[:7]], "high": [*contract.column("education").labels[7:]]}
    spec = TableSpec.model_validate(
        {"columns": ["sex", "education"], "hierarchy": {"education": [{"name": "half", "groups": groups}]}}
    )
    (level,) = levels_of(spec, contract)
    handle = SnapshotCounts(table, contract).marginal(spec.columns, coarsening(level))
    expected = np.zeros((2, 2), dtype=np.int64)
    np.add.at(expected, (codes["sex"], (codes["education"] >= 7).astype(int)), 1)
    np.testing.assert_array_equal(handle._count(), expected)
    assert (handle.shape, repr(handle)) == ((2, 2), "PrivateCounts(sex×education by half)")
    with pytest.raises(ValueError, match="a coarsening of a marginal"):
        handle.coarser(coarsening(level))


def _measured(grant: Grant, cells: list[int], level: str = "pairs", key: str = "table:a/pairs") -> np.ndarray:
    counts = Counted(np.array([5, 6, 7, 8], dtype=np.int64), ("age",)).handle
    coarser = Coarsening(level, (2,), np.array(cells))
    return grant.draw(MarginalQuery(counts.coarser(coarser), HALF), key=key).values


def test_a_resumed_run_replays_a_level_and_cannot_ask_for_other_sums(new_place: NewPlace) -> None:
    """Level and digest of the sums are in the draw's file: other cells under the same name are refused."""
    ledger, grant = opened(new_place())
    first = _measured(grant, [0, 0, 1, 1])
    assert first.shape == (2,)
    np.testing.assert_array_equal(first, _measured(open_grant(ledger, "run-1"), [0, 0, 1, 1]))
    for cells, level in (([0, 1, 1, 1], "pairs"), ([0, 0, 1, 1], "halves")):
        with pytest.raises(LedgerRefusal, match="as it was drawn before"):
            _measured(grant, cells, level)
    with pytest.raises(LedgerRefusal, match="as it was drawn before"):
        grant.draw(
            MarginalQuery(Counted(np.array([5, 6], dtype=np.int64), ("age",)).handle, HALF), key="table:a/pairs"
        )


def test_a_level_that_is_not_planned_is_refused_before_anything_is_read(new_place: NewPlace) -> None:
    _, grant = opened(new_place())
    counted = Counted(np.array([5, 6, 7, 8], dtype=np.int64), ("age",))
    handle = counted.handle.coarser(Coarsening("pairs", (2,), np.array([0, 0, 1, 1])))
    with pytest.raises(GrantExceeded, match="not planned"):
        grant.draw(MarginalQuery(handle, LaplaceNoise(Fraction(1, 1000))), key="table:a/pairs")
    assert counted.opened == 0


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("sizes", [[9], [4, 16], [4, 16, 64, 256, 1024, 4096], [2, 50, 50_000], [3, 4, 5]])
def test_the_levels_share_everything_in_thousandths(noise: str, sizes: list[int]) -> None:
    shares = level_shares(sizes, noise=noise, total_known=False)  # type: ignore[arg-type]
    assert sum(shares) == 1
    assert min(shares) >= Fraction(1, 1000)
    assert all((1000 * share).denominator == 1 for share in shares)
    assert shares == level_shares(sizes, noise=noise, total_known=False)  # type: ignore[arg-type]


def test_a_coarsening_is_known_by_its_cells(tmp_path: Path) -> None:
    """The digest depends on which cells are summed up, and on nothing else."""
    spec = TableSpec.model_validate({"columns": ["row", "col"], "hierarchy": "quadtree"})
    (level,) = levels_of(spec, mesh(4, 4))
    again = coarsening(level)
    assert coarsening(level).to_json() == again.to_json() == {"level": "2x2", "sha256": again.sha256}
    others = {PAIRS.sha256, again.sha256, Coarsening("2x2", (2, 2), again.cell_of.T.copy()[::-1].copy()).sha256}
    assert len(others) == 3
