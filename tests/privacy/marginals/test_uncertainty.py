"""Variance and intervals of the declared noise."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace
from privacy.marginals.count_noise import half_width, variance

LAPLACE = [DiscreteLaplace(Fraction(t).limit_denominator(10**6), (1,)) for t in (0.02, 0.1, 0.5, 1, 3, 12)]
GAUSSIAN = [DiscreteGaussian(Fraction(s).limit_denominator(10**6), (1,)) for s in (0.05, 0.5, 2, 30, 4000, 9000)]


def mass(event: DiscreteLaplace | DiscreteGaussian) -> tuple[np.ndarray, np.ndarray]:
    """The distribution by its definition, on a support that holds all but 1e-30 of it."""
    support = np.arange(-4000, 4001)
    if isinstance(event, DiscreteLaplace):
        weight = exp(-float(event.inverse_scale)) ** np.abs(support)
    else:
        weight = np.exp(-(support.astype(float) ** 2) / (2 * float(event.sigma_squared)))
    return support, weight / weight.sum()


@pytest.mark.parametrize("event", LAPLACE + GAUSSIAN)
def test_the_variance_is_that_of_the_distribution(event: DiscreteLaplace | DiscreteGaussian) -> None:
    support, weight = mass(event)
    assert variance(event) == pytest.approx(float(np.sum(weight * support**2)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("event", LAPLACE + GAUSSIAN)
def test_the_half_width_is_the_smallest_that_covers(
    event: DiscreteLaplace | DiscreteGaussian, confidence: float
) -> None:
    support, weight = mass(event)
    q = half_width(event, confidence)
    assert weight[np.abs(support) <= q].sum() >= confidence - 1e-9
    if q and variance(event) < 64**2:
        assert weight[np.abs(support) < q].sum() < confidence


def test_a_confidence_outside_its_range_is_refused() -> None:
    for confidence in (0, 1, -0.5, 2):
        with pytest.raises(ValueError, match="confidence"):
            half_width(LAPLACE[0], confidence)
