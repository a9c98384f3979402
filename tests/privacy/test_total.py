"""The total that tables keep: an average of their sums, which makes no table worse, as a measured one did."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from contracts.product import Refine
from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.uncertainty import variance
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SeededBytes
from privacy.refine.tables import refine_table
from privacy.refine.total import NoisySum, estimate_total, table_sum

Counts = NDArray[np.int64]
EVENT = DiscreteLaplace(Fraction(1, 2), (1,))
SIMPLEX = Refine(method="simplex")


@pytest.mark.parametrize("seed", range(30))
def test_the_estimate_is_the_average_by_inverse_variance(seed: int) -> None:
    """Against numpy's weighted average; rounded, and off by what 40 bits of a weight may do at most."""
    random = np.random.default_rng(seed)
    values = random.integers(-(10**9), 10**9, 1 + seed % 6).tolist()
    sums = list(zip(values, (10 ** random.uniform(-3, 9, len(values))).tolist(), strict=True))
    made = estimate_total([NoisySum(*each) for each in sums])
    variances = np.array([each for _, each in sums])
    assert abs(made.value - np.average(values, weights=1 / variances)) <= 0.5 + 1e-2
    assert made.variance == pytest.approx(1 / np.sum(1 / variances))


def test_a_table_alone_keeps_its_own_sum_and_an_exact_sum_beats_all_others() -> None:
    noisy = np.array([[5, -3], [7, 2**62]])
    impossible = np.array([[False, True], [False, False]])
    own = table_sum(noisy, impossible, EVENT)
    assert own == NoisySum(12 + 2**62, 3 * variance(EVENT))
    assert estimate_total([own]).value == own.value
    assert estimate_total([own, NoisySum(40, 0.0)]) == NoisySum(40, 0.0)
    assert estimate_total([]) == NoisySum(0, 0.0)


@pytest.mark.parametrize("cells", [1, 2, 6, 12, 1000])
@pytest.mark.parametrize("share", [0.001, 0.05, 0.5])
def test_a_measured_total_cannot_pay_for_itself(cells: int, share: float) -> None:
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


@pytest.mark.stat
@pytest.mark.parametrize("cells", [2, 3, 6, 12, 100, 3000])
def test_refining_is_never_worse_than_not_refining(cells: int) -> None:
    """n = 300 draws of each of 20 cases a size: five tables, ε from 0.01 to 10.

    A false alarm needs a mean 6 standard errors above 0 where it is 0 or less: below 1e-8 for each of 120 cases.
    """
    for scale in (Fraction(1, 100), Fraction(1, 10), Fraction(1), Fraction(10)):
        for name, truth in tables(cells).items():
            errors, ratio = excess(squared_errors(truth, scale, 300 if cells < 1000 else 40, None))
            assert errors <= 6, (name, scale, ratio)


@pytest.mark.stat
@pytest.mark.parametrize(("cells", "worse"), [(6, 1.5), (12, 1.15)])
def test_a_table_forced_onto_a_measured_total_is_worse(cells: int, worse: float) -> None:
    """The wrong case, which the test above would find: a twentieth for the total, and the table is moved onto it."""
    errors, _ = excess(squared_errors(np.full(cells, 10_000), Fraction(1), 300, 0.05))
    assert errors > 6
    forced = squared_errors(np.full(cells, 10_000), Fraction(1), 300, 0.05)[:, 0].mean()
    alone = squared_errors(np.full(cells, 10_000), Fraction(1), 300, None)[:, 0].mean()
    assert forced / alone > worse


def test_a_total_below_zero_is_kept_as_zero_and_auto_may_leave_the_counts() -> None:
    """Under an estimated total the noisy counts compete with what methods make of them; under a known one not."""
    noisy = np.array([3, -5, 40, 1, 0, 2])
    known = {"impossible": np.zeros(6, bool), "event": DiscreteGaussian(Fraction(4), (1,)), "ordered": ()}
    auto = Refine(method="auto")
    free = refine_table(noisy, auto, total=41, estimated=True, **known)  # type: ignore[arg-type]
    bound = refine_table(noisy, auto, total=41, estimated=False, **known)  # type: ignore[arg-type]
    assert set(free.estimated_rmse) - set(bound.estimated_rmse) == {"none"}
    assert bound.values.min() >= 0
    none = refine_table(noisy, SIMPLEX, total=-3, estimated=True, **known)  # type: ignore[arg-type]
    assert none.total == 0
    assert not none.values.any()
