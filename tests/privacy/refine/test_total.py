"""The total that tables keep: an average of their sums, which makes no table worse, as a measured one did."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.release.tables.tables import Refine
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.count_noise import variance
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SeededBytes
from privacy.refine.tables import NoisySum, estimate_total, kept_total, refine_table, table_sum

Counts = NDArray[np.int64]
EVENT = DiscreteLaplace(Fraction(1, 2), (1,))
SIMPLEX = Refine(method="simplex")


@pytest.mark.parametrize("seed", range(30))
def test_the_estimate_is_the_average_by_inverse_variance(seed: int):
    """Against numpy's weighted average; rounded, and off by what 40 bits of a weight may do at most."""
    random = np.random.default_rng(seed)
    values = random.integers(-(10**9), 10**9, 1 + seed % 6).tolist()
    sums = list(zip(values, (10 ** random.uniform(-3, 9, len(values))).tolist(), strict=True))
    made = estimate_total([NoisySum(*each) for each in sums])
    variances = np.array([each for _, each in sums])
    assert abs(made.value - np.average(values, weights=1 / variances)) <= 0.5 + 1e-2
    assert made.variance == pytest.approx(1 / np.sum(1 / variances))


def test_a_table_alone_keeps_its_own_sum_and_an_exact_sum_beats_all_others():
    noisy = np.array([[5, -3], [7, 2**62]])
    impossible = np.array([[False, True], [False, False]])
    own = table_sum(noisy, impossible, EVENT)
    assert own == NoisySum(12 + 2**62, 3 * variance(EVENT))
    assert estimate_total([own]).value == own.value
    assert estimate_total([own, NoisySum(40, 0.0)]) == NoisySum(40, 0.0)
    assert estimate_total([]) == NoisySum(0, 0.0)


@pytest.mark.parametrize("cells", [1, 2, 6, 12, 1000])
@pytest.mark.parametrize("share", [0.001, 0.05, 0.5])
def test_a_measured_total_cannot_pay_for_itself(cells: int, share: float):
    """The module's two formulas against least squares solved as a linear system; both are at least 1."""
    system = np.vstack([np.eye(cells), np.ones(cells)])
    for noise, factor in (
        ((1 - share) ** -2, 1 - share**2 / (cells * share**2 + (1 - share) ** 2)),
        (1 / (1 - share), 1 - share / (cells * share + 1 - share)),
    ):
        alone = share**-2 if noise == (1 - share) ** -2 else 1 / share
        weights = np.array([1 / noise] * cells + [1 / alone])
        left = float(np.linalg.inv(system.T @ (weights[:, None] * system))[0, 0])
        assert left == pytest.approx(noise * factor)
        assert left >= 1 - 1e-12


def tables(cells: int) -> dict[str, Counts]:
    """Tables whose cells are far from zero, half empty, sparse, or hold next to nobody."""
    falling = np.floor(50_000 / np.arange(1, cells + 1) ** 2).astype(np.int64)
    half = np.where(np.arange(cells) % 2, 0, 50_000 // cells)
    one = np.where(np.arange(cells), 0, 50_000)
    return {"full": np.full(cells, 10_000), "half": half, "falling": falling, "one": one, "few": one * 0 + 1}


def squared_errors(truth: Counts, inverse_scale: Fraction, draws: int, total: float | None) -> NDArray[np.float64]:
    """Mean squared error of the refined and of the noisy table, for each draw.

    Args:
        total: share of the charge that a total of its own takes, onto which the table is forced; None for none.
    """
    source, found = SeededBytes(18_15), []
    kept = 1 if total is None else 1 - Fraction(total)
    event = DiscreteLaplace(inverse_scale * kept, (1,))
    for _ in range(draws):
        noisy = truth + discrete_laplace(truth.size, inverse_scale=event.inverse_scale, source=source)
        own = estimate_total([table_sum(noisy, np.zeros(truth.shape, bool), event)]).value
        if total is not None:
            noise = discrete_laplace(1, inverse_scale=inverse_scale * Fraction(total), source=source)
            own = int(truth.sum() + noise[0])
        made = refine_table(
            noisy, SIMPLEX, impossible=np.zeros(truth.shape, bool), total=own, event=event, ordered=()
        )
        found.append([np.mean((made.values - truth) ** 2.0), np.mean((noisy - truth) ** 2.0)])
    return np.array(found)


def excess(errors: NDArray[np.float64]) -> tuple[float, float]:
    """The mean of what refining adds to the squared error, in standard errors of it, and as a share."""
    added = errors[:, 0] - errors[:, 1]
    spread = float(added.std()) / sqrt(len(added))
    return float(added.mean()) / max(spread, 1e-12), float(errors[:, 0].mean() / max(errors[:, 1].mean(), 1e-12))


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("cells", [2, 3, 6, 12, 100, 3000])
def test_refining_is_never_worse_than_not_refining(cells: int):
    """n = 300 draws of each of 20 cases a size: five tables, ε from 0.01 to 10. A false alarm needs a mean 6 standard
    errors above 0 where it is 0 or less: below 1e-8 for each of 120 cases."""
    for scale in (Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(10)):
        for name, truth in tables(cells).items():
            errors, ratio = excess(squared_errors(truth, scale, 300 if cells < 1000 else 40, None))
            assert errors <= 6, (name, scale, ratio)


@pytest.mark.stat
@pytest.mark.parametrize(("cells", "worse"), [(6, 1.5), (12, 1.15)])
def test_a_table_forced_onto_a_measured_total_is_worse(cells: int, worse: float):
    """The wrong case, which the test above would find: a twentieth for the total, and the table is moved onto it."""
    errors, _ = excess(squared_errors(np.full(cells, 10_000), Fraction(1), 300, 0.05))
    assert errors > 6
    forced = squared_errors(np.full(cells, 10_000), Fraction(1), 300, 0.05)[:, 0].mean()
    alone = squared_errors(np.full(cells, 10_000), Fraction(1), 300, None)[:, 0].mean()
    assert forced / alone > worse


def test_a_total_below_zero_is_kept_as_zero_and_auto_may_leave_the_counts():
    """Under an estimated total the noisy counts compete with what methods make of them; under a known one not."""
    noisy = np.array([3, -5, 40, 1, 0, 2])
    known = {"impossible": np.zeros(6, bool), "event": DiscreteGaussian(Fraction(2), (1,)), "ordered": ()}
    auto = Refine(method="auto")
    free = refine_table(noisy, auto, total=NoisySum(41, 20.0), **known)  # type: ignore[arg-type]
    bound = refine_table(noisy, auto, total=41, **known)  # type: ignore[arg-type]
    assert set(free.estimated_rmse) - set(bound.estimated_rmse) == {"none"}
    assert bound.values.min() >= 0
    none = refine_table(noisy, SIMPLEX, total=NoisySum(-3, 20.0), **known)  # type: ignore[arg-type]
    assert none.total == 0
    assert not none.values.any()


def several(truths: list[Counts], inverse_scale: Fraction, draws: int, *, forced: bool) -> NDArray[np.float64]:
    """Mean squared error over the tables of a release, refined and noisy, for each draw.

    Args:
        forced: all tables are moved onto the average of their sums, whatever that costs.
    """
    source, found, event = SeededBytes(18_15), [], DiscreteLaplace(inverse_scale, (1,))
    zeros = [np.zeros(truth.shape, bool) for truth in truths]
    for _ in range(draws):
        noisy = [
            truth + discrete_laplace(truth.size, inverse_scale=event.inverse_scale, source=source) for truth in truths
        ]
        shared = estimate_total(table_sum(*each, event) for each in zip(noisy, zeros, strict=True))
        total = shared.value if forced else shared
        made = [
            refine_table(values, SIMPLEX, impossible=impossible, total=total, event=event, ordered=()).values
            for values, impossible in zip(noisy, zeros, strict=True)
        ]
        pairs = zip(made, noisy, truths, strict=True)
        found.append(
            np.mean(
                [(np.mean((one - true) ** 2.0), np.mean((raw - true) ** 2.0)) for one, raw, true in pairs], axis=0
            )
        )
    return np.array(found)


@pytest.mark.long
@pytest.mark.stat
@pytest.mark.parametrize("cells", [(2, 6), (6, 6), (12, 12, 12), (16,) * 6, (2, 100)], ids=str)
def test_no_release_of_several_tables_is_worse_than_not_refining(cells: tuple[int, ...]):
    """n = 100 draws of each of 16 cases: four kinds of tables with the same rows, ε from 0.1 to 10 per table. A false
    alarm needs a mean 6 standard errors above 0 where it is 0 or less: below 1e-8 for each of 80 cases."""
    for scale in (Fraction(1, 10), Fraction(1), Fraction(3), Fraction(10)):
        for name in ("full", "half", "falling", "one"):
            truths = [tables(each)[name] for each in cells]
            most = max(truth.sum() for truth in truths)
            for truth in truths:
                truth[0] += most - truth.sum()
            errors, ratio = excess(several(truths, scale, 100, forced=False))
            assert errors <= 6, (name, scale, ratio)


@pytest.mark.stat
@pytest.mark.parametrize(("cells", "worse"), [((6, 6), 1.2), ((12, 12, 12), 1.3)], ids=str)
def test_tables_of_whole_numbers_forced_onto_one_total_are_worse(cells: tuple[int, ...], worse: float):
    """The wrong case, which the test above would find: noise is below a row, and every table takes the average."""
    truths = [np.full(each, 1200 // each) for each in cells]
    errors, ratio = excess(several(truths, Fraction(3), 300, forced=True))
    assert errors > 6
    assert ratio > worse  # of squares


@pytest.mark.stat
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(3)], ids=str)
def test_moving_onto_the_average_adds_what_the_derivation_says(scale: Fraction):
    """n = 40,000 draws of two full tables of 6 cells: on average -2 (n v - V) / n + D² / n + r (1 - r / n). Within 6
    standard errors, a false alarm below 1e-8 for each of 2 cases; without the rounding it is off by more."""
    event, cells, draws = DiscreteLaplace(scale, (1,)), 6, 40_000
    drawn = discrete_laplace(draws * 2 * cells, inverse_scale=scale, source=SeededBytes(18_16))
    noisy = drawn.reshape(draws, 2, cells)
    sums = noisy.sum(axis=2)
    odd = np.arange(draws) % 2  # halves are rounded to even numbers: exact totals of both kinds
    apart = np.rint(sums.mean(axis=1) + odd).astype(np.int64) - odd - sums[:, 0]
    share, rest = np.divmod(apart, cells)
    moved = noisy[:, 0] + share[:, None] + (np.arange(cells) < rest[:, None])
    for row, made, gap in zip(noisy[:40, 0] + 1000, moved + 1000, apart.tolist(), strict=False):
        refined = refine_table(
            row, SIMPLEX, impossible=np.zeros(cells, bool), total=int(row.sum()) + gap, event=event, ordered=()
        )
        np.testing.assert_array_equal(refined.values, made)
    added = (moved**2).sum(axis=1) - (noisy[:, 0] ** 2).sum(axis=1)
    gained = -variance(event) + apart**2 / cells  # V is half of n v
    rounding = rest * (1 - rest / cells)
    assert abs(standard_errors(added - gained - rounding)) <= 6
    assert standard_errors(added - gained) > 6


def standard_errors(values: NDArray[np.float64]) -> float:
    return float(values.mean() / (values.std() / sqrt(values.size)))


@pytest.mark.parametrize(
    ("noisy", "spread", "keeps_average"),
    [
        ([1000] * 6, 6.0, True),  # gains 7; moving 3 of 6 cells costs 3/2
        ([1000] * 6, 39.0, True),  # gains 3/2: a tie
        ([1000] * 6, 39.001, False),
        ([1000] * 5 + [-1], 42.0, True),  # gains 1, and 1 by the cell below zero
        ([1000] * 5 + [0], 42.0, False),
        ([1000] * 24, 150.0, False),
        ([-(2**40)] + [1000] * 3000, 23_999.0, True),
        ([1000], 7.9, True),  # one cell moves without rounding
        ([1000] * 6, 48.0, True),  # its own sum is the average
    ],
)
def test_a_table_keeps_the_average_where_it_gains_what_rounding_costs(
    noisy: list[int], spread: float, keeps_average: bool
):
    """With variance 8 in each cell, beside one that is declared impossible, and has no part in it."""
    cells, event = np.array([*noisy, -900]), DiscreteGaussian(Fraction(8), (1,))
    impossible = np.arange(cells.size) == cells.size - 1
    made = kept_total(cells, impossible, event, shared=NoisySum(17, spread))
    assert made == (17 if keeps_average else sum(noisy))


def test_fractions_always_keep_the_average():
    noisy, zeros = np.array([1000] * 24), np.zeros(24, bool)
    event = DiscreteGaussian(Fraction(8), (1,))
    for integers in (True, False):
        terms = Refine(method="simplex", integers=integers)
        shared = NoisySum(24_006, 150.0)
        made = refine_table(noisy, terms, impossible=zeros, total=shared, event=event, ordered=())
        assert made.total == (24_000 if integers else 24_006)
        assert made.values.sum() == pytest.approx(made.total)
