"""Empirical Bayes for noisy counts: the posterior mean under a prior deconvolved from the noisy values themselves.

The prior is the nonparametric maximum-likelihood estimate on {0} and a grid, found by EM on the histogram of the
noisy values, so beyond one histogram the cost does not grow with the cells. No exchange of cells changes it: for
ordered axes see `spatial`.
Source: Robbins 1956 (empirical Bayes); Kiefer and Wolfowitz 1956, Laird 1978 (nonparametric maximum likelihood, EM).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.accounting.events import CountNoise, DiscreteLaplace
from privacy.arrays import Floats
from privacy.marginals.count_noise import half_width, variance
from privacy.refine.noise_mass import noise_likelihood, noise_unit
from privacy.refine.posterior import STEP, Posterior

# --- The squared error of an estimator, estimated without bias and without a prior.


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


BELOW: Final = 6
"""Noisy values under -6 units count as -6 units: there all true counts are about as unlikely as each other."""
ABOVE: Final = 46
"""Beyond 46 units a count is kept as it is: the noise is small beside it."""
ITERATIONS: Final = 200


@dataclass(frozen=True)
class PosteriorLattice:
    """The binned noisy values, the grid of true counts, and the likelihood of the one given the other.

    Args:
        low: first noisy value; bin i covers low + i * width and the width - 1 values above it [units].
        width: whole [units].
        bins: how many; what lies above them is kept as it is.
        truths: 0 and a grid that widens with the count, shape (truths,) [units].
        likelihood: shape (bins, truths), up to a constant factor.
        event: the noise.
    """

    low: int
    width: int
    bins: int
    truths: NDArray[np.int64]
    likelihood: Floats
    event: CountNoise

    @property
    def high(self) -> int:
        """Return the first noisy value above the bins."""
        return self.low + self.bins * self.width

    def index(self, noisy: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the bin of each value; `bins` for what lies above."""
        clipped = np.clip(noisy, self.low, self.high)
        clipped -= self.low
        # 32 bits hold nearly every reach, and halve the memory.
        if self.high - self.low >= 2**31:
            return (clipped // self.width).astype(np.int32)
        short = clipped.astype(np.int32)
        return short if self.width == 1 else short // np.int32(self.width)


@lru_cache(maxsize=8)
def lattice(event: CountNoise) -> PosteriorLattice:
    """Build the lattice of an event: bins of 1/12 of the noise's scale, a grid of 1/6 of it that widens by 1 %."""
    unit = noise_unit(event)
    width = max(1, floor(unit / 12))
    low = -width * ceil(BELOW * unit / width)
    bins = ceil((ceil(ABOVE * unit) + 1 - low) / width)
    truths = [0]
    while truths[-1] < low + bins * width + 8 * unit:
        # Steps of 1/6 of the noise's scale resolve what the noise can tell apart; far up, 1 % of the count is fine
        # enough.
        truths.append(truths[-1] + max(1, floor(unit / 6), floor(0.01 * truths[-1])))
    grid = np.array(truths, dtype=np.int64)
    centres = low + width * np.arange(bins) + (width - 1) // 2
    return PosteriorLattice(low, width, bins, grid, noise_likelihood(event, centres[:, None] - grid[None, :]), event)


def empirical_bayes(noisy: NDArray[np.int64], event: CountNoise) -> Posterior:
    """Return the posterior of every cell under a prior deconvolved from the noisy values.

    Args:
        noisy: exact counts plus independent noise, any shape, whole numbers [units].
        event: the noise.
    Returns:
        Posterior: turn it into a table with `refine_posterior`.
    Raises:
        ValueError: noisy is not an array of whole numbers.
    Privacy: post-processing; deterministic.
    Source: see the module. Laird's EM is stopped after 200 steps.
    """
    values = check_noisy(noisy)
    frame = lattice(event)
    codes = frame.index(values)
    # What lies above the bins is kept as it is and has no part in the prior.
    histogram = np.bincount(codes.reshape(-1), minlength=frame.bins + 1)[: frame.bins]
    rows = summaries(deconvolve(histogram, frame)[None, :], frame)
    return append_kept(codes, rows, values, codes == frame.bins, event)


def posterior_means(noisy: NDArray[np.int64], event: CountNoise) -> Floats:
    """Return the mean that `empirical_bayes` gives each cell, by work on the bins that occur alone."""
    frame = lattice(event)
    codes = frame.index(noisy)
    histogram = np.bincount(codes.reshape(-1), minlength=frame.bins + 1)[: frame.bins]
    seen, prior = np.flatnonzero(histogram), deconvolve(histogram, frame)
    likelihood, means = frame.likelihood[seen], np.zeros(frame.bins + 1)
    expected = likelihood @ (prior * frame.truths) / np.maximum(likelihood @ prior, 1e-300)
    means[seen] = np.rint(expected / STEP) * STEP
    return np.asarray(np.where(codes == frame.bins, noisy, means[codes]))


def deconvolve(histogram: NDArray[np.int64], frame: PosteriorLattice) -> Floats:
    """Return the prior over the truths that makes the histogram likely, by EM from the uniform one."""
    seen = np.flatnonzero(histogram)
    likelihood, counts = frame.likelihood[seen], histogram[seen]
    prior = np.full(frame.truths.size, 1 / frame.truths.size)
    for _ in range(ITERATIONS if seen.size else 0):
        # One step of EM: each noisy value shares its cells out among the truths that explain it.
        prior = prior * ((counts / (likelihood @ prior)) @ likelihood)
        prior /= prior.sum()
    return prior


@dataclass(frozen=True)
class PosteriorRows:
    """The six summaries of a posterior for each prior and bin, flattened to shape (priors * bins,)."""

    mean: Floats
    variance: Floats
    zero: Floats
    lower: Floats
    upper: Floats
    covariance: Floats

    def parts(self) -> tuple[Floats, ...]:
        """Return the six arrays in the order of the fields."""
        return self.mean, self.variance, self.zero, self.lower, self.upper, self.covariance


def summaries(priors: Floats, frame: PosteriorLattice) -> PosteriorRows:
    """Return mean, variance, P(0) and the 95 % interval of the posterior of each prior (priors, truths) and bin."""
    truths = frame.truths.astype(np.float64)
    likelihood = frame.likelihood
    # P(bin | prior): the floor keeps the quotients finite in bins that no truth of the prior reaches.
    mass = np.maximum(priors @ likelihood.T, 1e-300)
    mean = priors @ (likelihood * truths).T / mass
    # E[x²] - E[x]², which rounding may leave below 0.
    spread = np.maximum(priors @ (likelihood * truths**2).T / mass - mean**2, 0)
    zero = priors[:, :1] * likelihood[:, 0] / mass
    lower, upper = np.empty_like(mean), np.empty_like(mean)
    for row, prior in enumerate(priors):
        # The ends are the least truths at which the cumulated posterior reaches 2.5 % and 97.5 %.
        share = np.cumsum(likelihood * prior, axis=1)
        share /= np.maximum(share[:, -1:], 1e-300)
        lower[row] = truths[np.argmax(share >= 0.025, axis=1)]
        upper[row] = truths[np.argmax(share >= 0.975, axis=1)]
    # On a coarse grid, so that the last bits of exp on another machine cannot change what is published.
    mean = np.rint(mean / STEP) * STEP
    steps = np.arange(reach_in_bins(frame.event, frame.width), dtype=np.float64)
    beyond = frame.high + (frame.width - 1) / 2 + frame.width * steps
    covariance = noise_covariance(mean, beyond, frame.width, frame.event)
    return PosteriorRows(*(part.reshape(-1) for part in (mean, spread, zero, lower, upper, covariance)))


def append_kept(
    codes: NDArray[np.int32],
    rows: PosteriorRows,
    noisy: NDArray[np.int64],
    above: NDArray[np.bool_],
    event: CountNoise,
) -> Posterior:
    """Give each cell above the bins a code of its own, with its noisy value as mean. Changes `codes` in place."""
    # Codes stay few: one for each distinct large value, not one a cell.
    kept, own = np.unique(noisy[above], return_inverse=True)
    codes[above] = (rows.mean.size + own).astype(np.int32)
    return join(codes, rows, exact_rows(kept, event))


def exact_rows(kept: NDArray[np.int64], event: CountNoise) -> PosteriorRows:
    """Return the summaries of counts that are so large that the prior does not matter."""
    value, reach = kept.astype(np.float64), half_width(event, 0.95)
    spread = np.full(kept.size, variance(event))
    return PosteriorRows(value, spread, np.zeros(kept.size), np.maximum(value - reach, 0), value + reach, spread)


def join(codes: NDArray[np.int32], *parts: PosteriorRows) -> Posterior:
    """Put summaries one after the other behind the codes of the cells."""
    return Posterior(codes, *map(np.concatenate, zip(*(part.parts() for part in parts), strict=True)))


def check_noisy(noisy: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the noisy counts as int64, or raise `ValueError`: they are whole numbers below 2^53 in size."""
    values = np.asarray(noisy)
    if values.dtype.kind == "f" and not (np.isfinite(values).all() and (values == np.rint(values)).all()):
        raise ValueError("noisy must hold finite whole numbers")
    if values.dtype.kind not in "iuf":
        raise ValueError(f"noisy must hold whole numbers, not {values.dtype}")
    if values.size and max(abs(int(values.max())), abs(int(values.min()))) >= 2**53:
        raise ValueError("noisy must lie between -2^53 and 2^53")
    return values.astype(np.int64, copy=False)
