"""λ: the computed bootstrap against drawn noise and against the oracle, references, wanted sparsity."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.noise.discrete_gaussian import discrete_gaussian
from privacy.noise.discrete_laplace import discrete_laplace
from privacy.noise.random_bytes import SeededBytes
from privacy.refine import simplex as chunks
from privacy.refine.lambda_choice import (
    LambdaChoice,
    choose_lambda_auto,
    distinct_counts,
    expected_risks,
    lambda_for_reference,
    lambda_for_sparsity,
    population,
)
from privacy.refine.negative_l2 import negative_l2
from privacy.refine.simplex import round_to_total


def laplace(epsilon: str) -> DiscreteLaplace:
    return DiscreteLaplace(Fraction(epsilon), (1,))


def gaussian(variance: int) -> DiscreteGaussian:
    return DiscreteGaussian(Fraction(variance), (1,))


def add_noise(truth: NDArray[np.int64], event: CountNoise, seed: int) -> NDArray[np.int64]:
    source = SeededBytes(seed)
    if isinstance(event, DiscreteGaussian):
        drawn = discrete_gaussian(truth.size, sigma_squared=event.sigma_squared, source=source)
    else:
        drawn = discrete_laplace(truth.size, inverse_scale=event.inverse_scale, source=source)
    return truth + drawn.reshape(truth.shape)


def city() -> NDArray[np.int64]:
    away = np.arange(64) - 32.0
    return np.floor(1000 * np.exp(-0.16 * (away[:, None] ** 2 + away[None, :] ** 2))).astype(np.int64)


def rmse(values: NDArray[np.float64] | NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    return float(np.sqrt(((values - truth) ** 2).mean()))


@pytest.mark.parametrize("event", [laplace("0.1"), laplace("1"), laplace("10"), gaussian(200), gaussian(1)])
@pytest.mark.parametrize("integers", [False, True])
def test_the_computed_risk_is_the_average_over_drawn_noise(event: CountNoise, integers: bool):
    """100 tables: the mean squared error within 6 standard errors and what a threshold that stays put leaves out:
    2 %, and 8 % where all remainders are equal and jump together with it (λ = 0, rounded)."""
    truth, lambdas = np.repeat(city(), 4, axis=0), [0.0, 0.0013, 0.05, 0.3]
    total = int(truth.sum())
    values, cells = distinct_counts(truth)
    computed = expected_risks(population(values.astype(float), cells, unit=1.0), event, lambdas, integers=integers)
    noisy = [add_noise(truth, event, seed) for seed in range(100)]
    for lambda_, risk in zip(lambdas, computed, strict=True):
        refined = [negative_l2(table, total, lambda_=lambda_) for table in noisy]
        tables = [round_to_total(table, total) for table in refined] if integers else refined
        drawn = [rmse(table, truth) ** 2 for table in tables]
        error = float(np.std(drawn)) / len(drawn) ** 0.5
        assert (
            abs(risk.rmse**2 - float(np.mean(drawn)))
            < 6 * error + (0.08 if integers and lambda_ == 0 else 0.02) * risk.rmse**2
        )


@pytest.mark.parametrize("epsilon", ["0.1", "1", "10"])
def test_auto_comes_within_one_per_cent_of_the_oracle(epsilon: str):
    """64 × 64, 20 draws, whole numbers: the oracle is the best of a grid, judged on the truth."""
    truth, event = city(), laplace(epsilon)
    total = int(truth.sum())
    noisy = [add_noise(truth, event, seed) for seed in range(20)]

    def mean_rmse(lambdas: list[float]) -> float:
        pairs = zip(noisy, lambdas, strict=True)
        tables = [round_to_total(negative_l2(table, total, lambda_=one), total) for table, one in pairs]
        return float(np.mean([rmse(table, truth) for table in tables]))

    grid = [0.0, *(c / float(epsilon) for c in np.linspace(0.002, 0.008, 13))]
    oracle = min(mean_rmse([one] * len(noisy)) for one in grid)
    chosen = [choose_lambda_auto(table, total, event=event, integers=True).lambda_ for table in noisy]
    assert mean_rmse(chosen) <= 1.01 * oracle
    plain = mean_rmse([0.0] * len(noisy))
    assert epsilon == "10" or plain > 1.02 * oracle  # the wrong case: λ = 0 would fail


def test_auto_leaves_a_dense_table_alone():
    """Where every cell is far from 0, λ > 0 only amplifies the noise."""
    truth = np.random.default_rng(1).poisson(400, 2000)
    assert (
        choose_lambda_auto(
            add_noise(truth, laplace("0.1"), 2), int(truth.sum()), event=laplace("0.1"), integers=True
        ).lambda_
        == 0
    )


def test_auto_needs_no_seed_and_no_number_of_threads(monkeypatch: pytest.MonkeyPatch):
    truth = np.tile(city(), (9, 9))
    noisy = add_noise(truth, laplace("0.1"), 3)
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(chunks, "_cores", lambda cores=cores: cores)
        found.append(choose_lambda_auto(noisy, 5000, event=laplace("0.1"), integers=True))
    one, two = found
    assert one == two
    assert float(f"{one.lambda_:.6g}") == one.lambda_


@pytest.mark.parametrize("event", [laplace("1/100000"), gaussian(10**12)])
def test_very_wide_noise_is_handled_in_steps(event: CountNoise):
    """Counts of up to 10^9 under noise of 10^5 to 10^6: still better than the plain projection, and quick."""
    truth = city() * 10**6
    noisy, total = add_noise(truth, event, 4), int(truth.sum())
    chosen = choose_lambda_auto(noisy, total, event=event, integers=True)
    refined = rmse(negative_l2(noisy, total, lambda_=chosen.lambda_), truth)
    assert refined <= rmse(negative_l2(noisy, total, lambda_=0.0), truth)
    assert chosen.expected_rmse == pytest.approx(refined, rel=0.5)


def test_an_earlier_version_gives_nearly_the_oracles_lambda():
    earlier, event = city(), laplace("0.1")
    chosen = lambda_for_reference(earlier, event=event, integers=True)
    assert chosen.how == "reference"
    assert chosen.lambda_ == pytest.approx(0.05, rel=0.3)
    noisy, total = add_noise(earlier, event, 5), int(earlier.sum())
    assert chosen.expected_rmse == pytest.approx(
        rmse(negative_l2(noisy, total, lambda_=chosen.lambda_), earlier), rel=0.1
    )
    assert lambda_for_reference(np.zeros(4, np.int64), event=event, integers=True) == LambdaChoice(
        0.0, "reference", 0.0, 0.0
    )
    with pytest.raises(ValueError, match="reference must not have a cell below 0"):
        lambda_for_reference(np.array([1, -1]), event=event, integers=True)


@pytest.mark.parametrize("integers", [True, False])
@pytest.mark.parametrize("target", [0.01, 0.0334, 0.05])
def test_the_wanted_share_of_nonzero_cells_is_reached(integers: bool, target: float):
    """The reported share is the refined table's own, as near as cells that hold the same count allow."""
    truth = city()
    noisy, total = add_noise(truth, laplace("0.1"), 6), int(truth.sum())
    chosen = lambda_for_sparsity(noisy, total, target_share=target, integers=integers)
    refined = negative_l2(noisy, total, lambda_=chosen.lambda_)
    table = round_to_total(refined, total) if integers else refined
    assert np.count_nonzero(table) / table.size == chosen.nonzero_share
    assert chosen.nonzero_share == pytest.approx(target, abs=0.001 if integers else 0.003)
    assert chosen.expected_rmse is None


def test_a_share_that_only_lambda_zero_comes_near_to_gives_zero():
    noisy = add_noise(city(), laplace("0.1"), 7)
    assert lambda_for_sparsity(noisy, 20_000, target_share=0.9, integers=True).lambda_ == 0


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, float("nan")])
def test_a_share_out_of_range_is_refused(share: float):
    with pytest.raises(ValueError, match=r"target_share must lie in \(0, 1\]"):
        lambda_for_sparsity(np.array([1, 2]), 3, target_share=share, integers=True)


def test_totals_out_of_range_are_refused_and_zero_needs_no_lambda():
    noisy = np.array([1, 2, -3])
    with pytest.raises(ValueError, match="total must be finite and at least 0, not -1"):
        choose_lambda_auto(noisy, -1, event=laplace("1"), integers=True)
    with pytest.raises(ValueError, match="total must be above 0"):
        lambda_for_sparsity(noisy, 0, target_share=0.5, integers=True)
    assert choose_lambda_auto(noisy, 0, event=laplace("1"), integers=True).lambda_ == 0


@pytest.mark.parametrize("step", [1, 7])
def test_the_histogram_counts_what_sorting_counts(step: int):
    generator = np.random.default_rng(8)
    for values in (
        generator.integers(-50, 50, 300_000),
        (generator.pareto(0.2, 300_000)).clip(max=1e15).astype(np.int64),
    ):
        found = distinct_counts(values, step=step)
        expected = np.unique(values // step * step, return_counts=True)
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
    assert distinct_counts(np.empty(0, np.int64))[0].size == 0


@pytest.mark.parametrize("epsilon", ["1", "40"])
def test_a_tie_goes_to_a_lambda_above_zero_in_a_whole_number_table(epsilon: str):
    """At 0 all remainders are alike, and cell numbers decide. In a full table, or without noise, 0 only ties."""
    event, full = laplace(epsilon), np.full(50, 1000)
    assert 0 < choose_lambda_auto(full, 50_000, event=event, integers=True).lambda_ < 1e-5
    assert 0 < lambda_for_reference(full, event=event, integers=True).lambda_ < 1e-5
    assert choose_lambda_auto(np.full(4, 9), 36, event=gaussian(900), integers=True).lambda_ == 0
