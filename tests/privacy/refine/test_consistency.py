"""Consistency of tables that share columns: agreement, least squares by another route, less error."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from contracts.release.tables.tables import Refine
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.refine.consistency import (
    Agreement,
    KnownTotal,
    MeasuredTable,
    NoisyTable,
    refine_together,
    shared_cliques,
)
from privacy.refine.tables import NO_SUM

SIZES = {"a": 2, "b": 3, "c": 4, "d": 2}
CLIQUES = [("a", "b"), ("c", "b"), ("a", "c", "d"), ("d",), ("b", "d")]
VARIANCES = [4.0, 0.25, 9.0, 1.0, 2.0]
EVENT = DiscreteLaplace(Fraction(1, 5), (1,))


def shape(clique: Sequence[str]) -> tuple[int, ...]:
    return tuple(SIZES[name] for name in clique)


def tables(
    rng: np.random.Generator, *, zeros: bool = False, cliques: Sequence[tuple[str, ...]] = CLIQUES
) -> list[NoisyTable]:
    made = []
    for number, clique in enumerate(cliques):
        values = rng.normal(20, 30, shape(clique))
        possible = np.ones(values.shape, bool)
        if zeros and number in (0, 2):
            possible.reshape(-1)[[0, 3]] = False
        made.append(NoisyTable(clique, values, VARIANCES[number % 5], possible))
    return made


def least_squares(noisy: Sequence[NoisyTable]) -> list[np.ndarray]:
    """Weighted least squares by another route: every constraint written down, and one dense solution of them all."""
    offsets = np.cumsum([0, *(table.values.size for table in noisy)])
    rows = []
    for (i, one), (j, other) in combinations(enumerate(noisy), 2):
        shared = [name for name in one.clique if name in other.clique]
        for cell in np.ndindex(*shape(shared)):
            row = np.zeros(offsets[-1])
            for number, table, sign in ((i, one, 1.0), (j, other, -1.0)):
                where = tuple(cell[shared.index(name)] if name in shared else slice(None) for name in table.clique)
                block = np.zeros(table.values.shape)
                block[where] = sign
                row[offsets[number] : offsets[number + 1]] = block.reshape(-1)
            rows.append(row)
    for number, table in enumerate(noisy):
        for cell in np.flatnonzero(~table.possible.reshape(-1)):
            row = np.zeros(offsets[-1])
            row[offsets[number] + cell] = 1.0
            rows.append(row)
    constraints = np.array(rows)
    flat = np.concatenate([table.values.reshape(-1) for table in noisy])
    variance = np.concatenate([np.full(table.values.size, table.variance) for table in noisy])
    spread = constraints * variance
    multiplier = np.linalg.pinv(spread @ constraints.T) @ (constraints @ flat)
    best = flat - spread.T @ multiplier
    return [best[a:b].reshape(t.values.shape) for a, b, t in zip(offsets[:-1], offsets[1:], noisy, strict=True)]


def test_the_shared_sets_are_all_intersections_small_ones_first():
    assert shared_cliques(CLIQUES) == ((), ("a",), ("b",), ("c",), ("d",))
    assert shared_cliques([("a", "b", "c"), ("c", "b", "d"), ("b", "e")]) == (("b",), ("b", "c"))
    assert shared_cliques([("a",)]) == ()
    assert shared_cliques([("b", "a"), ("a",)]) == (("a",),)


@pytest.mark.parametrize("seed", range(5))
def test_one_pass_is_the_weighted_least_squares_estimate(seed: int):
    """Claim 2 of the module, against a dense solution of the constrained problem; different variances and sizes."""
    noisy = tables(np.random.default_rng(seed))
    for made, expected in zip(Agreement(noisy).estimates(), least_squares(noisy), strict=True):
        assert np.allclose(made, expected, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_with_structural_zeros_passes_tend_to_the_least_squares_estimate(seed: int):
    noisy = tables(np.random.default_rng(seed), zeros=True)
    agreement = Agreement(noisy)
    made = agreement.estimates()
    for found, expected, table in zip(made, least_squares(noisy), noisy, strict=True):
        assert np.allclose(found, expected, atol=1e-3)
        assert not found[~table.possible].any()
    assert max(agreement.disagreements(made)) < 1e-3


def test_equal_weights_are_not_the_least_squares_estimate():
    """The wrong case: averages that do not look at the variances are found out by the comparison above."""
    noisy = tables(np.random.default_rng(0))
    equal = [NoisyTable(t.clique, t.values, 1.0, t.possible) for t in noisy]
    assert not np.allclose(Agreement(equal).estimates()[0], least_squares(noisy)[0], atol=1e-2)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sets(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=7, unique_by=frozenset),
    st.integers(0, 99),
)
def test_any_set_of_tables_agrees_after_one_pass(sets: list[set[str]], seed: int):
    """Claim 1 of the module."""
    rng = np.random.default_rng(seed)
    noisy = tables(rng, cliques=[tuple(rng.permutation(sorted(names))) for names in sets])
    agreement = Agreement(noisy)
    made = agreement.estimates()
    assert max(agreement.disagreements(made)) < 1e-9
    again = [NoisyTable(t.clique, values, t.variance, t.possible) for t, values in zip(noisy, made, strict=True)]
    assert all(np.allclose(a, b) for a, b in zip(Agreement(again).estimates(), made, strict=True))


def test_an_exact_total_is_kept():
    noisy = [*tables(np.random.default_rng(1)), NoisyTable((), np.asarray(500.0), 0.0, np.ones((), bool))]
    made = Agreement(noisy).estimates()
    assert [float(values.sum()) for values in made] == pytest.approx([500.0] * len(noisy))


def test_disagreements_name_the_table_that_leaves_the_others():
    made = list(Agreement(tables(np.random.default_rng(2))).estimates())
    made[3] = made[3] + np.array([0.0, 2.0])
    gaps = Agreement(tables(np.random.default_rng(2))).disagreements(made)
    assert gaps[3] == pytest.approx(2.0)
    assert gaps[0] == pytest.approx(2.0)  # the totals differ too
    assert len(gaps) == len(CLIQUES)


def test_the_nearest_tables_without_a_negative_cell_are_found():
    """Dykstra's limit against a general solver of the same problem: weighted distance, agreement, no cell below 0."""
    rng = np.random.default_rng(3)
    cliques, sizes = [("a", "b"), ("b", "d")], (6, 6)
    noisy = [
        NoisyTable(clique, rng.normal(2, 6, shape(clique)), variance, np.ones(shape(clique), bool))
        for clique, variance in zip(cliques, (4.0, 1.0), strict=True)
    ]
    made = Agreement(noisy).nearest_tables()
    flat = np.concatenate([table.values.reshape(-1) for table in noisy])
    spread = np.repeat([4.0, 1.0], sizes)

    def margins(x: np.ndarray) -> np.ndarray:
        difference: np.ndarray = x[:6].reshape(2, 3).sum(axis=0) - x[6:].reshape(3, 2).sum(axis=1)
        return difference

    solved = minimize(
        lambda x: float(np.sum((x - flat) ** 2 / spread)),
        np.maximum(flat, 0),
        bounds=[(0, None)] * 12,
        constraints={"type": "eq", "fun": margins},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert np.allclose(np.concatenate([values.reshape(-1) for values in made]), solved.x, atol=0.02)
    assert min(values.min() for values in made) >= 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: NoisyTable(("a",), np.zeros((2, 2)), 1.0, np.ones((2, 2), bool)),
        lambda: NoisyTable(("a", "a"), np.zeros((2, 2)), 1.0, np.ones((2, 2), bool)),
        lambda: NoisyTable(("a",), np.zeros(2), 1.0, np.ones(3, bool)),
        lambda: NoisyTable(("a",), np.zeros(2), 0.0, np.ones(2, bool)),
        lambda: NoisyTable(("a",), np.zeros(2), -1.0, np.ones(2, bool)),
        lambda: NoisyTable(("a",), np.array([0, np.nan]), 1.0, np.ones(2, bool)),
        lambda: Agreement([NoisyTable(("a",), np.zeros(2), 1.0, np.ones(2, bool))] * 2),
        lambda: Agreement([table_of("a", 2), NoisyTable(("a", "b"), np.zeros((3, 2)), 1.0, np.ones((3, 2), bool))]),
    ],
)
def test_tables_that_do_not_fit_are_refused(wrong: object):
    with pytest.raises(ValueError, match=r"must|values in one"):
        wrong()  # type: ignore[operator]


def table_of(name: str, cells: int) -> NoisyTable:
    return NoisyTable((name,), np.zeros(cells), 1.0, np.ones(cells, bool))


def town(rng: np.random.Generator) -> tuple[dict[tuple[str, ...], np.ndarray], list[tuple[str, ...]]]:
    """Exact tables of one joint distribution over all pairs of columns: skewed, many cells small."""
    joint = rng.poisson(rng.gamma(0.3, 20, shape("abcd")))
    cliques = list(combinations("abcd", 2))
    sums = {c: joint.sum(axis=tuple(i for i, n in enumerate("abcd") if n not in c)) for c in cliques}
    return sums, cliques


def noisy_town(
    truth: dict[tuple[str, ...], np.ndarray], rng: np.random.Generator, scale: float = 5.0
) -> list[MeasuredTable]:
    """Rounded Laplace noise stands for the discrete one here: only variances matter."""
    return [
        MeasuredTable(c, t + np.rint(rng.laplace(0, scale, t.shape)).astype(int), np.zeros(t.shape, bool), EVENT)
        for c, t in truth.items()
    ]


def one_way(clique: tuple[str, ...], values: np.ndarray, name: str) -> np.ndarray:
    summed: np.ndarray = values.sum(axis=tuple(i for i, n in enumerate(clique) if n != name))
    return summed


@pytest.mark.long
@pytest.mark.stat
def test_the_error_of_shared_margins_falls_as_the_least_squares_say():
    """Column a is in 3 of the 6 pairs, with b, c, d of 3, 4, 2 cells: its margins have variances 3 v, 4 v and 2 v.
    Their average by 1 / variance has 12/13 v. Over n = 2,000 draws the mean square of the margin's contrast (first
    cell minus second) is 2 x 12/13 v with a standard error of 3.2 %, measured; the bound of 26 % is eight of these,
    false alarm below 1e-14. The wrong case, one table alone, is off by a factor of more than three."""
    rng = np.random.default_rng(4)
    truth, _ = town(rng)
    contrasts, alone = [], []
    for _ in range(2000):
        noisy = noisy_town(truth, rng)
        made = refine_together(noisy, Refine(method="none", integers=False, consistent=True), total=None)
        exact = one_way(("a", "b"), truth["a", "b"], "a")
        error = one_way(("a", "b"), made[0].values, "a") - exact
        raw = one_way(("a", "b"), noisy[0].noisy, "a") - exact
        contrasts.append(float(error[0] - error[1]) ** 2)
        alone.append(float(raw[0] - raw[1]) ** 2)
    scale = 2 * 25.0 + 1 / 12  # variance of rounded Laplace noise, up to a relative 1e-3
    assert np.mean(contrasts) == pytest.approx(2 * 12 / 13 * scale, rel=0.26)
    assert np.mean(alone) != pytest.approx(2 * 12 / 13 * scale, rel=0.26)


@pytest.mark.stat
def test_tables_refined_together_err_less_than_each_by_itself():
    """Over n = 60 towns the mean square error of all cells falls by a quarter and more, with simplex and without.
    Over 600 towns it fell to 0.57 of the raw tables' and 0.63 of the simplex tables', with a standard error of 0.011
    for 60 of them; the bound is ten of these away, false alarm below 1e-15."""
    rng = np.random.default_rng(5)
    squares = dict.fromkeys(("raw", "none", "alone", "together"), 0.0)
    for _ in range(60):
        truth, cliques = town(rng)
        noisy = noisy_town(truth, rng)
        total = int(truth[cliques[0]].sum())
        none = refine_together(noisy, Refine(method="none", integers=False, consistent=True), total=None)
        simplex = refine_together(noisy, Refine(method="simplex", consistent=True), total=KnownTotal(total, None))
        alone = [refine_together([t], Refine(method="simplex"), total=KnownTotal(total, None))[0] for t in noisy]
        for name, made in (
            ("raw", [t.noisy for t in noisy]),
            ("none", [r.values for r in none]),
            ("alone", [r.values for r in alone]),
            ("together", [r.values for r in simplex]),
        ):
            squares[name] += sum(float(np.sum((m - truth[c]) ** 2)) for m, c in zip(made, cliques, strict=True))
    assert squares["none"] < 0.75 * squares["raw"]
    assert squares["together"] < 0.75 * squares["alone"]


def test_whole_tables_have_the_total_no_negative_cell_and_state_how_far_they_disagree():
    rng = np.random.default_rng(6)
    truth, cliques = town(rng)
    noisy = noisy_town(truth, rng, scale=40.0)
    event = DiscreteGaussian(Fraction(100), (1,))
    made = refine_together(noisy, Refine(method="simplex", consistent=True), total=KnownTotal(700, event))
    totals = {int(refined.values.sum()) for refined in made}
    assert totals == {made[0].total}
    assert totals != {700}  # the tables know something of the total as well
    assert all(refined.values.dtype == np.int64 and refined.values.min() >= 0 for refined in made)
    gaps = [
        max(
            float(np.abs(one_way(c, r.values, n) - one_way(o, s.values, n)).max())
            for o, s in zip(cliques, made, strict=True)
            for n in set(c) & set(o)
        )
        for c, r in zip(cliques, made, strict=True)
    ]
    assert [refined.disagreement for refined in made] == gaps
    assert max(gaps) < 6
    fractions = refine_together(
        noisy, Refine(method="simplex", consistent=True, integers=False), total=KnownTotal(700, None)
    )
    assert max(refined.disagreement or 0.0 for refined in fractions) < 0.2
    assert all(float(refined.values.sum()) == pytest.approx(700, abs=1e-3) for refined in fractions)


def test_structural_zeros_stay_zero_and_a_negative_total_becomes_zero():
    rng = np.random.default_rng(7)
    noisy = [
        MeasuredTable(clique, rng.integers(-5, 9, shape(clique)), np.zeros(shape(clique), bool), EVENT)
        for clique in (("a", "b"), ("b", "c"))
    ]
    noisy[0].impossible[0, :] = True
    noisy[1].impossible[2, 3] = True
    for terms in (Refine(method="simplex", consistent=True), Refine(method="none", integers=False, consistent=True)):
        made = refine_together(noisy, terms, total=KnownTotal(30, None))
        assert not any(refined.values[table.impossible].any() for refined, table in zip(made, noisy, strict=True))
        assert not any(
            refined.intervals.upper[table.impossible].any() for refined, table in zip(made, noisy, strict=True)
        )
    below = [MeasuredTable(t.columns, t.noisy - 100, t.impossible, EVENT) for t in noisy]
    made = refine_together(below, Refine(method="simplex", consistent=True), total=KnownTotal(-500, EVENT))
    assert all(refined.total == 0 and NO_SUM in refined.notes and not refined.values.any() for refined in made)


def test_other_methods_and_no_total_are_refused():
    table = MeasuredTable(("a",), np.array([1, 2]), np.zeros(2, bool), EVENT)
    with pytest.raises(ValueError, match="method must be one of none, simplex"):
        refine_together([table], Refine(method="auto"), total=KnownTotal(3, None))
    with pytest.raises(ValueError, match="needs a total"):
        refine_together([table], Refine(method="simplex"), total=None)
