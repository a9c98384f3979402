"""The squared error of an estimator, estimated without bias and without a prior.

    Σ (d_i - count_i)² = Σ (d_i - noisy_i)² - n σ² + 2 Σ noise_i d_i + terms of mean 0
For noise with P(z) ∝ r^|z| and d a function of the cell's own noisy value y (whatever else it depends on is
independent of the cell's noise), q(y) = Σ_z P(z) d(y + z) gives
    E[noise d(y)] = E[r / (1 - r)² (q(y + 1) - q(y - 1))],  and 2 r / (1 - r)² = σ²
since the second difference ((1 + r²) q(y) - r q(y + 1) - r q(y - 1)) / (1 - r)² inverts the sum that defines q. For
Gaussian noise it is σ² times the slope of d.
Source: Stein 1981 for the Gaussian; the discrete Laplace case is derived above (checked by enumeration in the tests).
What deviates: a value that was fitted to the same table (a prior) counts as given.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.arrays import Floats
from privacy.marginals.uncertainty import variance
from privacy.refine.noise_mass import noise_likelihood, noise_unit
from privacy.refine.posterior import Posterior

_REACH: int = 24


def reach_in_bins(event: CountNoise, width: int) -> int:
    """Return how many bins of the given width the noise may reach over: 24 units, and one for the difference."""
    return ceil(_REACH * noise_unit(event) / width) + 2


def noise_covariance(estimates: Floats, beyond: Floats, width: int, event: CountNoise) -> Floats:
    """Return an unbiased estimate of the covariance of noise and estimate, for each noisy value.

    Args:
        estimates: d at noisy values one bin apart, shape (rows, bins); below the first it stays the same [units].
        beyond: d at the noisy values after the last, shape (reach_in_bins,), for all rows [units].
        width: of a bin [units].
        event: the noise.
    Returns:
        Shape of estimates [units²].
    """
    # SciPy takes a second to load, and a checker often needs none of it.
    from scipy.ndimage import convolve1d

    rows, bins = estimates.shape
    reach = beyond.size
    # Values beyond both ends, as far as the noise reaches: the smoothing must not see an edge.
    wide = np.hstack([np.repeat(estimates[:, :1], reach, axis=1), estimates, np.tile(beyond, (rows, 1))])
    # q smooths the estimator with Laplace noise; of a Gaussian the slope of d itself counts.
    if isinstance(event, DiscreteLaplace):
        kernel = noise_likelihood(event, width * np.arange(1 - reach, reach))
        wide = convolve1d(wide, kernel / kernel.sum(), axis=1, mode="nearest")
    # q(y + 1) - q(y - 1) over two steps: the central difference of the smoothed estimator.
    slope = (wide[:, reach + 1 : reach + 1 + bins] - wide[:, reach - 1 : reach - 1 + bins]) / (2 * width)
    return variance(event) * slope


def unbiased_risk(noisy: NDArray[np.int64], posterior: Posterior, event: CountNoise) -> float:
    """Return the estimated mean squared error of the posterior means [units²].

    May be negative: it is unbiased, and its standard error falls with the square root of the number of cells.
    Privacy: post-processing.
    """
    gap = posterior.mean[posterior.codes]
    gap -= noisy
    covariance = float(np.sum(posterior.cells() * posterior.covariance))
    # The module's formula for one cell: (d - noisy)² + 2 noise d - σ².
    return (float(np.vdot(gap, gap)) + 2 * covariance) / max(1, noisy.size) - variance(event)
