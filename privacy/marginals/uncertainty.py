"""How far a noisy count may lie from the exact one, from the declared noise alone."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, expm1, isqrt, log1p, pi, sqrt
from typing import assert_never

import numpy as np

from privacy.accounting.events import DiscreteGaussian, DiscreteLaplace

_TABLE_SIGMA = 64


def variance(event: DiscreteLaplace | DiscreteGaussian) -> float:
    """Return the variance of the noise in one cell [units²].

    Formula: 2r / (1 - r)², r = exp(-inverse_scale) (discrete Laplace); the sum over the support (discrete Gaussian;
    σ² itself where σ > 64, which differs by less than a float can show).
    """
    match event:
        case DiscreteLaplace(inverse_scale=t):
            return 2 * exp(-float(t)) / expm1(-float(t)) ** 2
        case DiscreteGaussian(sigma_squared=sigma_squared):
            if sigma_squared > _TABLE_SIGMA**2:
                return float(sigma_squared)
            support, mass = _gaussian_mass(sigma_squared)
            return float(np.sum(mass * support.astype(np.float64) ** 2))
        case _:
            assert_never(event)


def mean_absolute(event: DiscreteLaplace | DiscreteGaussian) -> float:
    """Return the expected size E|x| of the noise in one cell [units].

    Formula: 2r / (1 - r²), r = exp(-inverse_scale) (discrete Laplace); the sum over the support (discrete Gaussian;
    σ √(2/π) where σ > 64).
    """
    match event:
        case DiscreteLaplace(inverse_scale=t):
            return 2 * exp(-float(t)) / -expm1(-2 * float(t))
        case DiscreteGaussian(sigma_squared=sigma_squared):
            if sigma_squared > _TABLE_SIGMA**2:
                return sqrt(2 / pi * float(sigma_squared))
            support, mass = _gaussian_mass(sigma_squared)
            return float(np.sum(mass * np.abs(support)))
        case _:
            assert_never(event)


def half_width(event: DiscreteLaplace | DiscreteGaussian, confidence: float) -> int:
    """Return the smallest whole q for which |noise| ≤ q with at least the given probability [units].

    Args:
        event: the noise.
        confidence: in (0, 1).
    Raises:
        ValueError: confidence outside (0, 1).
    Privacy: computed from the declared noise; reads no data.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie in (0, 1), not {confidence}")
    match event:
        case DiscreteLaplace(inverse_scale=t):
            # P(|X| > q) = 2 r^(q+1) / (1 + r)
            tail = log1p(-confidence) + log1p(exp(-float(t))) - log1p(1.0)
            # 1e-12 keeps rounding from lifting an exact solution to the next whole number.
            return max(0, ceil(-tail / float(t) - 1 - 1e-12))
        case DiscreteGaussian(sigma_squared=sigma_squared):
            return _gaussian_half_width(sigma_squared, confidence)
        case _:
            assert_never(event)


def _gaussian_half_width(sigma_squared: Fraction, confidence: float) -> int:
    if sigma_squared > _TABLE_SIGMA**2:
        from scipy.special import ndtri  # what scipy.stats.norm.ppf calls; it loads a tenth of the modules

        return ceil(float(ndtri(0.5 + confidence / 2)) * sqrt(float(sigma_squared)))
    support, mass = _gaussian_mass(sigma_squared)
    # Each size but 0 comes with two signs.
    cumulated = np.cumsum(np.where(support == 0, mass, 2 * mass)[support >= 0])
    return int(np.searchsorted(cumulated, confidence - 1e-12))


def _gaussian_mass(sigma_squared: Fraction) -> tuple[np.ndarray, np.ndarray]:
    # Beyond 16 deviations lies less than e^-128 of the mass.
    reach = 16 * (isqrt(ceil(sigma_squared)) + 1)
    support = np.arange(-reach, reach + 1)
    weight = np.exp(-(support.astype(np.float64) ** 2) / (2 * float(sigma_squared)))
    return support, weight / weight.sum()
