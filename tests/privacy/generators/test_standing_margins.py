"""Margins without bins that are noise: what stands stays, other columns keep their place, many small bins stay."""

from __future__ import annotations

import numpy as np
import pytest

from privacy.generators.models import PublishedModel
from privacy.generators.standing_margins import _fitted, standing, standing_margins
from privacy.marginals.domain import CellDomain
from privacy.marginals.graphical_model import GraphicalModel

DOMAIN = CellDomain(("pay", "job", "home"), (4, 3, 2))


def model() -> PublishedModel:
    """Return a model of a chain, pay - job - home, with an impossible cell; pay has three bins and missing values."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
    first[2, 2] = -np.inf
    return PublishedModel.of(GraphicalModel(DOMAIN, (("pay", "job"), ("job", "home")), (first, second), 1000.0), 1000)


def test_a_margin_is_fitted_and_what_depends_on_it_stays_as_it_was() -> None:
    """The margin has the shares to 1e-5, missing values theirs, and the other columns given pay are the same."""
    before = model()
    shares = np.array([0.7, 0.2, 0.1])
    after = _fitted(before, {"pay": shares})
    old, new = before.marginal(("pay",)), after.marginal(("pay",))
    assert np.abs(new[:3] / new[:3].sum() - shares).max() < 1e-5
    assert new[3] / new[:3].sum() == pytest.approx(old[3] / old[:3].sum(), rel=1e-4)
    pairs = before.marginal(("pay", "home")), after.marginal(("pay", "home"))
    given = [pair / pair.sum(axis=1, keepdims=True) for pair in pairs]
    assert np.abs(given[0] - given[1]).max() < 1e-5
    assert after.marginal(("pay", "job"))[2, 2] == 0
    assert (after.domain, after.rows) == (before.domain, before.rows)


def test_two_margins_hold_together() -> None:
    after = _fitted(model(), {"pay": np.array([0.5, 0.3, 0.2]), "home": np.array([0.9, 0.1])})
    pay, home = after.marginal(("pay",)), after.marginal(("home",))
    assert np.abs(pay[:3] / pay[:3].sum() - [0.5, 0.3, 0.2]).max() < 1e-3
    assert np.abs(home / home.sum() - [0.9, 0.1]).max() < 1e-3


def test_bins_of_noise_get_nothing_and_are_not_impossible() -> None:
    """Of 60 empty bins with noise of deviation 10 at most a few stand: P(above 2 deviations) is 0.023 each."""
    noise = np.random.default_rng(2).normal(0, 10, 60)
    estimates = np.concatenate([[4000.0, 3000.0, 900.0], noise])
    shares = standing(estimates, np.full(63, 100.0))
    assert shares is not None
    assert shares[:3] == pytest.approx(np.array([4000, 3000, 900]) / 7900, abs=0.02)
    # Ten or more of 60 at 0.023: probability below 1e-6.
    assert (shares[3:] > 1e-5).sum() < 10
    assert shares.min() > 0
    assert shares.sum() == pytest.approx(1)


def test_many_small_bins_stay_as_they_are() -> None:
    """1,000 bins of 15 rows and noise of 10: to drop those below 20 would lose most rows."""
    estimates = 15 + np.random.default_rng(3).normal(0, 10, 1000)
    assert standing(estimates, np.full(1000, 100.0)) is None
    assert standing(np.full(5, -3.0), np.full(5, 1.0)) is None


def test_without_trees_a_model_is_itself() -> None:
    before = model()
    assert standing_margins(before, [], []) is before
    assert _fitted(before, {}) is before
