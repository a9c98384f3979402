"""What post-processing must know of the noise: how likely a difference is, and the scale on which it blurs.

Only the event's public parameters are read.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteGaussian, DiscreteLaplace
from privacy.marginals.count_noise import variance

SMALLEST_UNIT = 0.3
"""Below this standard deviation nearly every noisy count is the exact one; finer steps than integers have no use."""


def noise_likelihood(event: CountNoise, difference: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return P(noise = difference) up to a constant factor.

    Formula: exp(-t |d|) (discrete Laplace), exp(-d² / (2 σ²)) (discrete Gaussian)
    """
    d = np.abs(difference).astype(np.float64)
    match event:
        case DiscreteLaplace(inverse_scale=t):
            return np.exp(-float(t) * d)
        case DiscreteGaussian(sigma_squared=sigma_squared):
            return np.exp(-(d**2) / (2 * float(sigma_squared)))


def noise_unit(event: CountNoise) -> float:
    """Return the noise's standard deviation, but at least 0.3: the length by which grids and bins are measured."""
    return max(SMALLEST_UNIT, sqrt(variance(event)))
