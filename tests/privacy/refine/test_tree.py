"""Refinement of a table at several resolutions: zeros, totals, fractions, and what the coarse sums gain."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from contracts.release.tables.levels import levels_of
from contracts.release.tables.tables import Refine, TableSpec
from privacy.marginals.counts import coarsening, sum_up
from privacy.marginals.sensitivity import LaplaceNoise, noise_event
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SeededBytes
from privacy.refine.consistency import MeasuredTree, measured_tree, refine_tree
from privacy.refine.tables import NO_SUM, Refined, refine_table
from privacy.table_plans.split import level_shares
from tests.contracts.release.tables.test_levels import mesh

MESH = TableSpec.model_validate({"columns": ["row", "col"], "hierarchy": "quadtree"})
EVENT = noise_event(LaplaceNoise(Fraction(1, 3)), adjacency="add_remove", rows_per_unit=1)
PARENTS = (np.array([0, 0, 1]), np.array([0, 0, 1, 2, 2, 2, 2]))
SIZES = (2, 3, 7)


def tree(seed: int, zeros: list[int] = [], low: int = -20) -> MeasuredTree:  # noqa: B006
    rng = np.random.default_rng(seed)
    impossible = [np.zeros(size, bool) for size in SIZES]
    impossible[2][zeros] = True
    for level in (1, 0):
        impossible[level] = np.bincount(PARENTS[level], weights=~impossible[level + 1]) == 0
    return MeasuredTree([rng.integers(low, 60, size) for size in SIZES], impossible, [EVENT] * 3, PARENTS)


def add_up(refined: Refined) -> None:
    levels = [*(level.values for level in refined.coarser), refined.values]
    for parent, above, below in zip(PARENTS, levels, levels[1:], strict=False):
        np.testing.assert_allclose(np.bincount(parent, weights=below), above, rtol=1e-12)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32), st.sampled_from([None, -3, 0, 7, 200]), st.booleans(), st.sampled_from([[], [2], [0, 1]])
)
def test_all_levels_add_up_to_the_total_and_nothing_is_negative(
    seed: int, total: int | None, integers: bool, zeros: list[int]
):
    """With structural zeros too: the cells, and coarser cells of which they are all, stay at zero."""
    made = tree(seed, zeros)
    refined = refine_tree(made, total=total, integers=integers)
    add_up(refined)
    for level, impossible in zip((*refined.coarser, refined), made.impossible, strict=True):
        values = level.values
        assert (level.intervals.lower <= values).all()
        assert (values <= level.intervals.upper).all()
        assert values.min() >= 0
        assert not values[impossible].any()
        assert values.dtype == (np.int64 if integers else np.float64)
        assert values.sum() == pytest.approx(refined.total)
    assert refined.total is not None
    assert refined.total == max(total, 0) if total is not None else refined.total >= 0
    assert (refined.method, refined.lambda_, refined.chosen) == ("hierarchy", None, None)


def test_without_a_total_the_levels_estimate_it():
    """Three equally noisy levels over 1,200 rows; their mean is the estimate that least squares gives the root."""
    flat = MeasuredTree(
        [np.array([300]), np.array([310]), np.array([290])],
        [np.zeros(1, bool)] * 3,
        [EVENT] * 3,
        (np.array([0]),) * 2,
    )
    assert refine_tree(flat, total=None, integers=True).total == 300


def test_a_total_below_zero_becomes_zero_with_a_note():
    low = tree(5, low=-2000)
    for refined in (refine_tree(low, total=None, integers=True), refine_tree(tree(5), total=-1, integers=False)):
        assert refined.notes == (NO_SUM,)
        assert refined.total == 0
        assert not refined.values.any()


def test_levels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="reshape"):
        measured_tree(MESH, mesh(4, 4), [np.zeros(4, np.int64), np.zeros(15, np.int64)], [EVENT] * 2)
    impossible = tree(1, list(range(7)))
    with pytest.raises(ValueError, match="total"):
        refine_tree(impossible, total=5, integers=True)
    assert refine_tree(impossible, total=0, integers=True).total == 0


def truth(size: int) -> NDArray[np.int64]:
    rng = np.random.default_rng(20)
    counts = np.zeros((size, size), np.int64)
    for _ in range(12):
        place = rng.integers(0, size, 2)
        around = np.clip(np.rint(rng.normal(place, size / 20, (4000, 2))).astype(int), 0, size - 1)
        np.add.at(counts, (around[:, 0], around[:, 1]), 1)
    return counts


def released(counts: NDArray[np.int64], epsilon: Fraction, seed: int) -> list[list[NDArray[np.int64]]]:
    """The coarse sums of the hierarchical release, and of a flat one of the same cost and the same total noise."""
    contract, source = mesh(*counts.shape), SeededBytes(seed)
    levels = levels_of(MESH, contract)
    shares = level_shares(
        [level.cells(MESH.columns) for level in levels] + [counts.size], noise="laplace", total_known=False
    )
    exact = [sum_up(coarsening(level), counts) for level in levels] + [counts]

    def noisy(values: NDArray[np.int64], part: Fraction) -> tuple[NDArray[np.int64], object]:
        event = noise_event(LaplaceNoise(epsilon * part), adjacency="add_remove", rows_per_unit=1)
        drawn = discrete_laplace(values.size, inverse_scale=event.inverse_scale, source=source)  # type: ignore[union-attr]
        return values + drawn.reshape(values.shape), event

    measured = [noisy(values, part) for values, part in zip(exact, shares, strict=True)]
    made = measured_tree(MESH, contract, [m[0] for m in measured], [m[1] for m in measured])  # type: ignore[misc]
    tree = refine_tree(made, total=None, integers=True)
    flat, event = noisy(counts, Fraction(19, 20))
    total = int(noisy(np.array([counts.sum()]), Fraction(1, 20))[0][0])
    refined = refine_table(
        flat,
        Refine(method="simplex"),
        impossible=np.zeros(counts.shape, bool),
        total=total,
        event=event,  # type: ignore[arg-type]
        ordered=(0, 1),
    )
    sums = [sum_up(coarsening(level), refined.values.astype(np.int64)) for level in levels]
    return [exact[:-1], [level.values for level in tree.coarser], sums]  # type: ignore[list-item]


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1)])
def test_the_coarse_sums_err_less_than_those_of_a_flat_release_of_the_same_cost(epsilon: Fraction):
    """64 x 64, 8 fixed seeds: RMSE of the 4, 16 and 64 coarsest cells at most half of what summing a flat table errs.
    Measured: 0.07 to 0.26."""
    errors = np.zeros((2, 3))
    for seed in range(8):
        exact, ours, flat = released(truth(64), epsilon, seed)
        for row, others in enumerate((ours, flat)):
            errors[row] += [np.mean((a - b) ** 2) for a, b in zip(others[:3], exact[:3], strict=True)]
    ratio = np.sqrt(errors[0] / errors[1])
    assert ratio.max() < 0.5, ratio


def tables(size: int) -> dict[str, NDArray[np.int64]]:
    place = np.indices((size, size)).sum(axis=0)
    return {
        "full": np.full((size, size), 1000),
        "half": np.where(place % 2, 0, 500),
        "one": np.where(place, 0, 50_000),
        "clusters": truth(size),
    }


@pytest.mark.parametrize("name", ["full", "half", "one", "clusters"])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 10), Fraction(1)])
def test_no_level_errs_more_than_it_did_when_it_was_measured(name: str, epsilon: Fraction):
    """8 x 8 in three levels, 40 draws from a fixed seed: RMSE of each level over that of its own noisy counts.
    Measured: 0.25 to 0.94. Where noise is below a row, rounding to whole numbers errs more (docs/tables.md)."""
    counts, source = tables(8)[name], SeededBytes(18)
    contract = mesh(*counts.shape)
    levels = levels_of(MESH, contract)
    sizes = [level.cells(MESH.columns) for level in levels] + [counts.size]
    shares = level_shares(sizes, noise="laplace", total_known=False)
    exact = [sum_up(coarsening(level), counts) for level in levels] + [counts]
    scales = [LaplaceNoise(epsilon * share) for share in shares]
    events = [noise_event(scale, adjacency="add_remove", rows_per_unit=1) for scale in scales]
    errors = np.zeros((2, len(exact)))
    for _ in range(40):
        noisy = [
            values
            + discrete_laplace(values.size, inverse_scale=scale.inverse_scale, source=source).reshape(values.shape)
            for values, scale in zip(exact, events, strict=True)  # type: ignore[union-attr]
        ]
        made = refine_tree(measured_tree(MESH, contract, noisy, events), total=None, integers=True)  # type: ignore[arg-type]
        refined = [*(level.values for level in made.coarser), made.values]
        for row, published in enumerate((refined, noisy)):
            errors[row] += [
                np.mean((each.reshape(true.shape) - true) ** 2.0) for each, true in zip(published, exact, strict=True)
            ]
    assert (errors[0] <= errors[1]).all(), np.sqrt(errors[0] / np.maximum(errors[1], 1e-12))
