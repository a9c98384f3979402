"""Components that are split in two: together as before, apart along the longest axis."""

from __future__ import annotations

import numpy as np
import pytest

from privacy.learning.binary_splitting import split_mixture
from privacy.learning.mixture import Mixture


def two() -> Mixture:
    """Two components in three dimensions; the first is longest along (1, 1, 0), the second along the last axis."""
    generator = np.random.default_rng(4)
    turned = np.linalg.qr(np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]).T)[0]
    first = turned @ np.diag([9.0, 1.0, 0.5]) @ turned.T
    means = generator.normal(0, 1, (2, 3))
    return Mixture(np.array([0.7, 0.3]), means, np.stack([first, np.diag([1.0, 2.0, 5.0])]), np.array([0, 1]))


def moments(mixture: Mixture) -> tuple[np.ndarray, np.ndarray]:
    weights = mixture.weights / mixture.weights.sum()
    mean = weights @ mixture.means
    away = mixture.means - mean
    return mean, np.tensordot(weights, mixture.covariances + away[:, :, None] * away[:, None, :], axes=1)


def test_halves_have_together_the_moments_that_the_one_had() -> None:
    whole = two()
    made = split_mixture(whole, np.array([True, True]), floor=1e-9)
    assert made.owners is not None
    assert made.owners.tolist() == [0, 0, 1, 1]
    assert made.weights == pytest.approx([0.35, 0.35, 0.15, 0.15])
    for before, after in zip(moments(whole), moments(made), strict=True):
        assert after == pytest.approx(before)
    apart = made.means[1] - made.means[0]
    assert np.abs(apart / np.linalg.norm(apart)) == pytest.approx([np.sqrt(0.5), np.sqrt(0.5), 0])


def test_halves_of_a_normal_are_as_far_apart_as_the_rows_on_either_side() -> None:
    """200,000 rows along one axis: means and variances of both sides, against the formula; 5 standard errors."""
    rows = 200_000
    drawn = np.abs(np.random.default_rng(2).normal(0, 3, rows))
    one = Mixture(np.ones(1), np.zeros((1, 1)), np.full((1, 1, 1), 9.0), np.array([0]))
    made = split_mixture(one, np.array([True]), floor=1e-9)
    error = 5 * 3 / np.sqrt(rows)
    assert made.means[1, 0] == pytest.approx(drawn.mean(), abs=error)
    assert made.covariances[1, 0, 0] == pytest.approx(drawn.var(), abs=6 * error)


def test_what_is_not_chosen_stays_and_no_variance_is_below_the_floor() -> None:
    whole = two()
    made = split_mixture(whole, np.array([False, True]), floor=1e-9)
    assert made.weights == pytest.approx([0.7, 0.15, 0.15])
    assert made.means[0] == pytest.approx(whole.means[0])
    assert made.covariances[0] == pytest.approx(whole.covariances[0])
    raised = split_mixture(whole, np.array([True, True]), floor=0.8)
    assert np.linalg.eigvalsh(raised.covariances).min() == pytest.approx(0.8)


def test_components_without_owners_or_full_covariances_are_refused() -> None:
    whole = two()
    for wrong in (
        Mixture(whole.weights, whole.means, whole.covariances, None),
        Mixture(whole.weights, whole.means, np.ones((2, 3)), np.array([0, 1])),
    ):
        with pytest.raises(ValueError, match="full covariances and owners"):
            split_mixture(wrong, np.array([True, True]), floor=1e-9)
