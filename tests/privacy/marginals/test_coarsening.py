"""Coarser marginals behind the same handle, and small tables out of a large one, block by block: exact sums."""

from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.contract.impossible_cells import Clique
from contracts.release.tables.levels import levels_of
from contracts.release.tables.tables import TableSpec
from privacy.arrays import Floats
from privacy.grant.grant import Grant, open_grant
from privacy.grant.queries.marginal import MarginalQuery
from privacy.ledger.entries import GrantExceeded, LedgerRefusal
from privacy.marginals import inference as table_plan
from privacy.marginals.counts import Coarsening, coarsening, sum_up
from privacy.marginals.inference import ContractionTree, aligned
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
):
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


def test_overlapping_cells_cannot_be_written_down():
    """The wrong case: a row in two cells would move two. A coarsening gives each cell one number, in its shape."""
    for cells in (np.array([0, 4]), np.array([-1, 0]), np.array([0.0, 1.0])):
        with pytest.raises(ValueError, match="cell_of"):
            Coarsening("x", (2, 2), cells)
    with pytest.raises(ValueError, match="counts of shape"):
        sum_up(PAIRS, np.zeros(9, dtype=np.int64))
    with pytest.raises(ValueError, match="a coarsening of a marginal of shape"):
        Counted(np.zeros(4, dtype=np.int64)).handle.coarser(PAIRS)


def test_a_snapshot_counts_a_table_at_a_coarser_resolution(table, contract, codes):  # type: ignore[no-untyped-def] # noqa: F811
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


def test_a_resumed_run_replays_a_level_and_cannot_ask_for_other_sums(new_place: NewPlace):
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


def test_a_level_that_is_not_planned_is_refused_before_anything_is_read(new_place: NewPlace):
    _, grant = opened(new_place())
    counted = Counted(np.array([5, 6, 7, 8], dtype=np.int64), ("age",))
    handle = counted.handle.coarser(Coarsening("pairs", (2,), np.array([0, 0, 1, 1])))
    with pytest.raises(GrantExceeded, match="not planned"):
        grant.draw(MarginalQuery(handle, LaplaceNoise(Fraction(1, 1000))), key="table:a/pairs")
    assert counted.opened == 0


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("sizes", [[9], [4, 16], [4, 16, 64, 256, 1024, 4096], [2, 50, 50_000], [3, 4, 5]])
def test_the_levels_share_everything_in_thousandths(noise: str, sizes: list[int]):
    shares = level_shares(sizes, noise=noise, total_known=False)  # type: ignore[arg-type]
    assert sum(shares) == 1
    assert min(shares) >= Fraction(1, 1000)
    assert all((1000 * share).denominator == 1 for share in shares)
    assert shares == level_shares(sizes, noise=noise, total_known=False)  # type: ignore[arg-type]


def test_a_coarsening_is_known_by_its_cells(tmp_path: Path):
    """The digest depends on which cells are summed up, and on nothing else."""
    spec = TableSpec.model_validate({"columns": ["row", "col"], "hierarchy": "quadtree"})
    (level,) = levels_of(spec, mesh(4, 4))
    again = coarsening(level)
    assert coarsening(level).to_json() == again.to_json() == {"level": "2x2", "sha256": again.sha256}
    others = {PAIRS.sha256, again.sha256, Coarsening("2x2", (2, 2), again.cell_of.T.copy()[::-1].copy()).sha256}
    assert len(others) == 3


COLUMNS = tuple("abcdef")


@st.composite
def tables(draw: st.DrawFn) -> tuple[Clique, tuple[int, ...], list[Clique], list[Clique], int, int]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=6)))
    columns = COLUMNS[: len(shape)]
    every = [clique for size in range(len(columns) + 1) for clique in combinations(columns, size)]
    chosen = st.lists(st.sampled_from(every), max_size=6, unique=True)
    return (
        columns,
        shape,
        draw(chosen),
        draw(chosen),
        draw(st.sampled_from([1, 7, 40, 10_000])),
        draw(st.integers(0, 99)),
    )


def some_factors(
    columns: Clique, shape: tuple[int, ...], cliques: list[Clique], seed: int
) -> list[tuple[Clique, Floats]]:
    generator = np.random.default_rng(seed)
    size = dict(zip(columns, shape, strict=True))
    return [(clique, generator.normal(size=[size[name] for name in clique])) for clique in cliques]


def whole(columns: Clique, shape: tuple[int, ...], factors: list[tuple[Clique, Floats]]) -> Floats:
    summed = np.zeros(shape)
    for clique, values in factors:
        summed = summed + aligned(values, clique, columns)
    return summed


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(tables())
def test_sums_and_largest_values_are_those_of_the_whole_table(case: tuple):
    """Any factors, any cliques, any size of block, with a weight; the empty clique too."""
    columns, shape, inputs, asked, block, seed = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_plan, "BLOCK", block)
        plan = ContractionTree(columns, shape)
    factors = some_factors(columns, shape, inputs, seed)
    (weight,) = some_factors(columns, shape, [columns[:2]], seed + 1)
    logs = whole(columns, shape, factors)
    summed = np.exp(logs) * aligned(weight[1], weight[0], columns)
    found = plan.sums(factors, asked, weight)
    for clique in asked:
        gone = tuple(axis for axis, name in enumerate(columns) if name not in clique)
        np.testing.assert_allclose(found[clique], summed.sum(axis=gone), rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(plan.largest(factors, clique).shape, summed.sum(axis=gone).shape)
        np.testing.assert_allclose(plan.largest(factors, clique), logs.max(axis=gone), rtol=1e-12, atol=1e-12)


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch):
    """A table of many blocks, in threads and in one loop."""
    shape = (4, 5, 6, 7, 8)
    monkeypatch.setattr(table_plan, "BLOCK", 100)
    plan = ContractionTree(COLUMNS[:5], shape)
    pairs = list(combinations(COLUMNS[:5], 2))
    factors = some_factors(COLUMNS[:5], shape, pairs, 3)
    threaded = plan.sums(factors, pairs)
    monkeypatch.setattr(table_plan, "MANY_BLOCKS", 10**9)
    alone = plan.sums(factors, pairs)
    assert all((threaded[pair] == alone[pair]).all() for pair in pairs)


def test_the_axes_follow_the_asked_order():
    """A reversed clique gives the transposed table."""
    factors = some_factors(("a", "b", "c"), (2, 3, 4), [("a", "b"), ("c", "b")][:1], 1)
    plan = ContractionTree(("a", "b", "c"), (2, 3, 4))
    found = plan.sums(factors, [("a", "b"), ("b", "a")])
    np.testing.assert_array_equal(found[("a", "b")], found[("b", "a")].T)
    np.testing.assert_array_equal(plan.largest(factors, ("b", "a")), plan.largest(factors, ("a", "b")).T)
