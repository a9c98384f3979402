"""Empirical Bayes: the deconvolved prior, the posterior as lookups, sparse whole tables, intervals, risk."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.count_noise import variance
from privacy.noise.random_bytes import SeededBytes
from privacy.refine.empirical_bayes import (
    deconvolve,
    empirical_bayes,
    lattice,
    noise_covariance,
    reach_in_bins,
    summaries,
    unbiased_risk,
)
from privacy.refine.posterior import expected_rmse, refine_posterior
from privacy.refine.risk import estimate_risk, refine_auto
from privacy.refine.simplex import project_simplex, round_to_total
from tests.privacy.noise.noise_statistics import noise_of

TENTH = DiscreteLaplace(Fraction(1, 10), (1,))
ONE = DiscreteLaplace(Fraction(1), (1,))
GAUSSIAN = DiscreteGaussian(Fraction(100), (1,))


def add_noise(truth: NDArray[np.int64], event: DiscreteLaplace | DiscreteGaussian, seed: int) -> NDArray[np.int64]:
    return truth + noise_of(event, truth.size, source=SeededBytes(seed)).reshape(truth.shape)


def sparse_truth(cells: int = 20_000) -> NDArray[np.int64]:
    rng = np.random.default_rng(5)
    return np.where(rng.random(cells) < 0.05, rng.geometric(0.01, cells), 0).astype(np.int64)


def rmse(table: NDArray[np.int64] | NDArray[np.float64], truth: NDArray[np.int64]) -> float:
    return float(np.sqrt(np.mean((table - truth) ** 2.0)))


def test_deconvolution_finds_a_prior_of_two_points_again():
    """With 80 % zeros and 20 % at 60 the fitted prior has nearly that mass near 0 and near 60."""
    truth = np.repeat([0, 60], [80_000, 20_000])
    frame = lattice(TENTH)
    bins = frame.index(add_noise(truth, TENTH, 1))
    prior = deconvolve(np.bincount(bins, minlength=frame.bins + 1)[: frame.bins], frame)
    assert prior[frame.truths < 20].sum() == pytest.approx(0.8, abs=0.02)
    assert prior[(frame.truths > 45) & (frame.truths < 75)].sum() == pytest.approx(0.2, abs=0.02)


def test_the_posterior_summaries_are_those_of_direct_enumeration():
    frame = lattice(ONE)
    prior = np.zeros(frame.truths.size)
    prior[[0, 3, 7]] = 0.7, 0.2, 0.1
    rows = summaries(prior[None, :], frame)
    place = 4 - frame.low
    weight = np.array([0.7, 0.2, 0.1]) * np.exp(-np.abs(4 - np.array([0, 3, 7])))
    weight /= weight.sum()
    assert rows.mean[place] == pytest.approx(weight @ [0, 3, 7], abs=1e-6)
    assert rows.variance[place] == pytest.approx(weight @ np.array([0, 9, 49]) - (weight @ [0, 3, 7]) ** 2)
    assert rows.zero[place] == pytest.approx(weight[0])


@pytest.mark.parametrize("event", [TENTH, ONE, GAUSSIAN], ids=["tenth", "one", "gaussian"])
def test_it_errs_less_than_the_projection(event: DiscreteLaplace | DiscreteGaussian):
    truth = sparse_truth()
    total = int(truth.sum())
    noisy = add_noise(truth, event, 2)
    refined = refine_posterior(empirical_bayes(noisy, event), total=total, integers=True)
    assert refined.dtype == np.int64
    assert (refined.sum(), refined.min()) == (total, 0)
    assert rmse(refined, truth) < 0.95 * rmse(round_to_total(project_simplex(noisy, total), total), truth)


@pytest.mark.parametrize(
    "truth",
    [np.zeros(500, np.int64), np.eye(1, 500, dtype=np.int64)[0] * 10**6, np.full(500, 300), np.zeros(0, np.int64)],
    ids=["zeros", "one huge cell", "dense", "no cell"],
)
def test_odd_tables_keep_their_total_and_come_out_no_worse_than_the_projection(truth: NDArray[np.int64]):
    noisy = add_noise(truth, TENTH, 3)
    total = int(truth.sum())
    refined = refine_posterior(empirical_bayes(noisy, TENTH), total=total, integers=True)
    assert refined.sum() == total
    assert not truth.size or rmse(refined, truth) <= rmse(project_simplex(noisy, total), truth) + 1.5


def test_a_total_that_the_cells_do_not_suggest_is_kept():
    posterior = empirical_bayes(np.array([-3, 0, 1, -2]), ONE)
    for total in (0, 1, 7, 1000):
        refined = refine_posterior(posterior, total=total, integers=True)
        assert (refined.sum(), refined.min() >= 0) == (total, True)
        assert refine_posterior(posterior, total=total, integers=False).sum() == pytest.approx(total)


def test_the_same_noisy_values_give_the_same_bytes():
    noisy = add_noise(sparse_truth(), TENTH, 4)
    first, second = (refine_posterior(empirical_bayes(noisy, TENTH), total=9000, integers=True) for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_intervals_cover_what_they_claim():
    """Over all cells at least 93 %, and at least 85 % of the cells that are not 0 (n = 20,000)."""
    truth = sparse_truth()
    lower, upper = empirical_bayes(add_noise(truth, ONE, 6), ONE).intervals()
    covered = (lower <= truth) & (truth <= upper)
    assert covered.mean() > 0.93
    assert covered[truth > 0].mean() > 0.85


def test_the_expected_risk_is_near_the_true_one():
    truth = sparse_truth()
    posterior = empirical_bayes(add_noise(truth, TENTH, 7), TENTH)
    mean = posterior.mean[posterior.codes]
    assert estimate_risk(mean, posterior) == pytest.approx(
        expected_rmse(posterior, posterior.cells(), posterior.mean)
    )
    assert estimate_risk(mean, posterior) == pytest.approx(rmse(mean, truth), rel=0.1)


@pytest.mark.parametrize("event", [TENTH, ONE], ids=["tenth", "one"])
def test_the_pick_is_nearly_the_best_where_order_says_nothing(event: DiscreteLaplace):
    truth = sparse_truth(4096).reshape(64, 64)
    noisy, total = add_noise(truth, event, 8), int(truth.sum())
    choice = refine_auto(noisy, event, total=total, axes=2, integers=True)
    alone = refine_posterior(empirical_bayes(noisy, event), total=total, integers=True)
    assert rmse(choice.table, truth) < 1.05 * rmse(alone, truth)


def test_without_axes_the_pick_is_empirical_bayes_or_what_else_competes():
    truth = sparse_truth()
    noisy, total = add_noise(truth, TENTH, 9), int(truth.sum())
    choice = refine_auto(noisy, TENTH, total=total, axes=0, integers=False, others={"all": truth + 1000})
    assert choice.method == "empirical_bayes"
    assert set(choice.risks) == {"simplex", "empirical_bayes", "all"}


@pytest.mark.parametrize("event", [ONE, TENTH], ids=["one", "tenth"])
def test_the_covariance_of_noise_and_estimate_is_unbiased(event: DiscreteLaplace):
    """By enumeration: for each true count, the expectation over the noise of both sides of the identity agrees."""
    values = np.arange(-400, 900)
    estimates = np.where(values > 20, 0.8 * values + 3, 0.02 * (values + 400))
    beyond = 0.8 * np.arange(900.0, 900.0 + reach_in_bins(event, 1)) + 3
    covariance = noise_covariance(estimates[None, :], beyond, 1, event)[0]
    for truth in (0, 7, 21, 300):
        mass = np.exp(-float(event.inverse_scale) * np.abs(values - truth))
        mass /= mass.sum()
        assert mass @ covariance == pytest.approx(mass @ ((values - truth) * estimates), rel=1e-3)


@pytest.mark.parametrize("event", [TENTH, ONE, GAUSSIAN], ids=["tenth", "one", "gaussian"])
def test_the_unbiased_risk_is_near_the_true_one(event: DiscreteLaplace | DiscreteGaussian):
    """n = 20,000, mean of 4 draws; a standard error is about 4 % of the noise's variance."""
    truth = sparse_truth()
    gaps = []
    for seed in range(4):
        noisy = add_noise(truth, event, 30 + seed)
        posterior = empirical_bayes(noisy, event)
        gaps.append(unbiased_risk(noisy, posterior, event) - rmse(posterior.mean[posterior.codes], truth) ** 2)
    assert abs(np.mean(gaps)) < 0.08 * variance(event)


@pytest.mark.parametrize(
    ("noisy", "named"),
    [
        (np.array([1.0, np.nan]), "noisy"),
        (np.array([1.0, np.inf]), "noisy"),
        (np.array([0.5]), "noisy"),
        (np.array(["1"]), "noisy"),
        (np.array([2**53]), "noisy"),
    ],
)
def test_what_is_no_table_of_whole_numbers_is_refused(noisy: NDArray[np.int64], named: str):
    with pytest.raises(ValueError, match=named):
        empirical_bayes(noisy, ONE)


def test_totals_and_shapes_out_of_range_are_refused_by_name():
    posterior = empirical_bayes(np.array([1, 2]), ONE)
    with pytest.raises(ValueError, match="total"):
        refine_posterior(posterior, total=-1, integers=True)
    with pytest.raises(ValueError, match="total"):
        refine_posterior(empirical_bayes(np.zeros(0, np.int64), ONE), total=1, integers=True)
    with pytest.raises(ValueError, match="table"):
        estimate_risk(np.zeros(3), posterior)
    with pytest.raises(ValueError, match="axes"):
        refine_auto(np.array([1, 2]), ONE, total=3, axes=3, integers=True)
