"""Margins without bins that are noise: what stands stays, other columns keep their place, many small bins stay."""

from __future__ import annotations

import numpy as np
import pytest

from privacy.generators.bin_weights import _factors, standing, standing_margins
from privacy.marginals.graph import CellDomain
from privacy.marginals.inference import GraphicalModel
from privacy.marginals.model import PublishedModel, times

DOMAIN = CellDomain(("pay", "job", "home"), (4, 3, 2))


def model() -> PublishedModel:
    """Return a model of a chain, pay - job - home, with an impossible cell; pay has three bins and missing values."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
    first[2, 2] = -np.inf
    return PublishedModel.of(GraphicalModel(DOMAIN, (("pay", "job"), ("job", "home")), (first, second), 1000.0), 1000)


def test_a_bin_that_does_not_stand_is_left_and_all_else_stays_as_it_was() -> None:
    """It keeps a millionth; bins that stand take the rest, and missing values keep their share."""
    before = model().graphical
    margin = before.marginal(("pay",))
    after = times(before, "pay", _factors(margin, np.array([True, False, True])))
    new = after.marginal(("pay",))
    assert new[1] / new.sum() < 2e-6
    kept = [0, 2]
    assert new[3] / new.sum() == pytest.approx(margin[3] / margin.sum(), abs=1e-6)
    assert np.abs(new[kept] / new[kept].sum() - margin[kept] / margin[kept].sum()).max() < 1e-6
    pairs = before.marginal(("pay", "home")), after.marginal(("pay", "home"))
    given = [pair / pair.sum(axis=1, keepdims=True) for pair in pairs]
    assert np.abs(given[0] - given[1]).max() < 1e-6
    assert after.marginal(("pay", "job"))[2, 2] == 0


def test_bins_of_noise_do_not_stand() -> None:
    """Of 60 empty bins with noise of deviation 10 at most a few stand: P(above 2 deviations) is 0.023 each."""
    noise = np.random.default_rng(2).normal(0, 10, 60)
    estimates = np.concatenate([[4000.0, 3000.0, 900.0], noise])
    stands = standing(estimates, np.full(63, 100.0))
    assert stands is not None
    assert stands[:3].all()
    # Ten or more of 60 at 0.023: probability below 1e-6.
    assert stands[3:].sum() < 10


def test_many_small_bins_stay_as_they_are() -> None:
    """1,000 bins of 15 rows and noise of 10: to drop those below 20 would lose most rows."""
    estimates = 15 + np.random.default_rng(3).normal(0, 10, 1000)
    assert standing(estimates, np.full(1000, 100.0)) is None
    assert standing(np.full(5, -3.0), np.full(5, 1.0)) is None


def test_without_trees_a_model_is_itself() -> None:
    before = model()
    assert standing_margins(before, [], []) is before
