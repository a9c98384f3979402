"""How often the declared noise reaches a bound: tails of the discrete noises, from public parameters alone.

Discrete Laplace, r = exp(-inverse_scale):   P(X >= q) = r^q / (1 + r)  for q >= 1,  and  1 - P(X >= 1 - q)  below.
Discrete Gaussian: the sum over the integers from q on. Where sigma is too large for a table of the support, the bound
    P(X >= q) <= Q((q - 1/2) / sigma)  for q - 1/2 >= sigma,  and  <= Q((q - 1) / sigma)  for any q >= 1
    with Q the upper tail of the normal distribution: beyond sigma the density is convex, so that its value at an
    integer is at most its mean over the interval of length one around it; before, it falls, and is at most its mean
    over the interval to the left. The weights add up to at least sigma sqrt(2 pi), by Poisson's summation formula.
    At the width from which it is used, bound and sum differ by less than a relative 10^-4 up to ten sigma.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, erfc, exp, expm1, isqrt, log1p, pi, sqrt
from typing import Final, assert_never

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace

WIDEST_TABLE: Final = 2**16
_SIGMAS: Final = 40


def tail(event: CountNoise, least: int) -> float:
    """Return the probability that the noise is at least a number.

    Args:
        event: the noise.
        least: q, any whole number [units].
    Returns:
        float: P(noise >= q), exact up to a relative 10^-9; of Gaussian noise with sigma above 65,536 a bound from
        above for q >= 1, and from below for q <= 0.
    Privacy: computed from the declared noise; reads no data.
    """
    if least <= 0:
        return 1.0 - tail(event, 1 - least)
    if isinstance(event, DiscreteLaplace):
        inverse_scale = float(event.inverse_scale)
        return exp(-inverse_scale * least - log1p(exp(-inverse_scale)))
    sigma = sqrt(event.sigma_squared)
    if sigma > WIDEST_TABLE:
        # Beyond sigma the density is convex, before it falls: the module's docstring has the two bounds.
        shift = 0.5 if least - 0.5 >= sigma else 1.0
        return 0.5 * erfc((least - shift) / sigma / sqrt(2))
    above = _gaussian_tails(event.sigma_squared)
    return float(above[least]) if least < above.size else 0.0


def least_margin(event: CountNoise, at_most: float) -> int:
    """Return the smallest whole t >= 0 with P(noise >= t + 1) <= at_most.

    Raises:
        ValueError: at_most outside (0, 1).
    """
    if not 0 < at_most < 1:
        raise ValueError(f"at_most must lie in (0, 1), not {at_most}")
    if tail(event, 1) <= at_most:
        return 0
    high = 1
    # Double, then halve: the tail falls as t grows.
    while tail(event, high + 1) > at_most:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tail(event, middle + 1) > at_most else (low, middle)
    return high


def mean_above(event: CountNoise, least: int) -> float:
    """Return the mean of the noise among the draws that are at least a number [units].

    Formula: discrete Laplace, q >= 1: q + r / (1 - r), for the noise has no memory there; by symmetry
        E[X; X >= q] = E[X; X >= 1 - q] for q <= 0, and the mean is that over P(X >= q). Gaussian: the sum over the
        support, or sigma phi(z) / Q(z) at z = (q - 1/2) / sigma.

    Args:
        event: the noise.
        least: q, any whole number, P(noise >= q) > 0 [units].
    Privacy: computed from the declared noise; reads no data.
    """
    if least <= 0:
        flipped = 1 - least
        chance = tail(event, flipped)
        return mean_above(event, flipped) * chance / (1.0 - chance) if chance > 0 else 0.0
    if isinstance(event, DiscreteLaplace):
        inverse_scale = float(event.inverse_scale)
        return least + exp(-inverse_scale) / -expm1(-inverse_scale)
    sigma = sqrt(event.sigma_squared)
    above = _gaussian_tails(event.sigma_squared) if sigma <= WIDEST_TABLE else np.zeros(0)
    if least < above.size and above[least] > 0:
        # the sum of tails beyond q is the sum of (x - q) P(x)
        return least + float(np.sum(above[least + 1 :])) / float(above[least])
    z = (least - 0.5) / sigma
    below = 0.5 * erfc(z / sqrt(2))
    return sigma * exp(-z * z / 2) / sqrt(2 * np.pi) / below if below > 0 else float(least)


@lru_cache(maxsize=8)
def _gaussian_tails(sigma_squared: Fraction) -> NDArray[np.float64]:
    """Return P(X >= q) for q = 0, 1, ... up to forty sigma, where doubles end; summed from the small terms on."""
    reach = _SIGMAS * (isqrt(ceil(sigma_squared)) + 1)
    weight = np.exp(-(np.arange(reach + 1, dtype=np.float64) ** 2) / (2 * float(sigma_squared)))
    sums: NDArray[np.float64] = np.cumsum(weight[::-1])[::-1]
    tails: NDArray[np.float64] = sums / (2 * sums[0] - weight[0])
    return tails


# --- How far a noisy count may lie from the exact one, from the declared noise alone.


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
