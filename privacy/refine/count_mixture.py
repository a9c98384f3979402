"""Priors for a count whose mean is predicted: a mixture of dispersions around the prediction.

    P(count | x) = w_0 [count = 0] + Σ_k w_k NegativeBinomial(count; mean x, shape k) + w_∞ [count ≈ x]
The shapes are fixed from nearly always 0 (k = 0.003) to nearly Poisson (k = 100); the weights are estimated by EM
from the noisy values of all rows of one class (rows whose predictions are of like size). Since every component keeps
the mean x, a few extreme noise values cannot found a component of their own, as they can in a nonparametric prior.
Source: empirical Bayes with a scale mixture, after Stephens 2017 ("False discovery rates: a new deal", fixed grid of
scales, weights by EM); negative binomials instead of normals.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.arrays import Floats
from privacy.refine.empirical_bayes import PosteriorLattice

SHAPES: Final = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
ITERATIONS: Final = 100
_CLASSES: Final = (0.05, 0.2, 0.8, 3.2)


def mixture_priors(
    histograms: NDArray[np.int64], predictions: Floats, frame: PosteriorLattice, unit: float
) -> Floats:
    """Return one prior over the truths for each row.

    Args:
        histograms: noisy values of the row's cells by bin, shape (rows, bins).
        predictions: x of each row, > 0 [units].
        frame: of the noise.
        unit: the noise's scale; rows form one class where x / unit lies between 0, 0.05, 0.2, 0.8, 3.2, ∞ [units].
    Returns:
        Shape (rows, truths), each row sums to 1.
    """
    priors = np.zeros((predictions.size, frame.truths.size))
    classes = np.searchsorted(np.array(_CLASSES) * unit, predictions)
    for class_ in np.unique(classes):
        rows = np.flatnonzero(classes == class_)
        parts = components(predictions[rows], frame)
        seen = np.flatnonzero(histograms[rows].sum(axis=0))
        # The likelihood of each noisy bin under each component; only bins that occur are needed.
        fits = parts @ frame.likelihood[seen].T
        priors[rows] = np.einsum("k,rkt->rt", _weights(histograms[np.ix_(rows, seen)], fits), parts)
    return priors


def components(predictions: Floats, frame: PosteriorLattice) -> Floats:
    """Return the mass of each component on the grid of truths, shape (rows, components, truths)."""
    # SciPy takes a second to load, and a checker often needs none of it.
    from scipy.special import betainc

    truths = frame.truths
    # A grid point stands for the counts nearer to it than to its neighbours: its mass is the difference of the
    # cumulative distribution at the ends of its stretch. The last stretch has no end.
    upper = np.append((truths[1:] + truths[:-1] - 1) // 2, 2**53).astype(np.float64)
    parts = np.zeros((predictions.size, len(SHAPES) + 2, truths.size))
    # Component 0 has all its mass at the count 0.
    parts[:, 0, 0] = 1
    for place, shape in enumerate(SHAPES, start=1):
        # P(NB(mean x, shape k) ≤ u) = I_p(k, u + 1) with p = k / (k + x).
        below = betainc(shape, upper[None, :] + 1, shape / (shape + predictions[:, None]))
        parts[:, place] = np.diff(below, axis=1, prepend=0)
    # The last component is the prediction itself, shared between the two grid points around it so that the mean is x.
    right = np.clip(np.searchsorted(truths, predictions), 1, truths.size - 1)
    share = (predictions - truths[right - 1]) / (truths[right] - truths[right - 1])
    rows = np.arange(predictions.size)
    parts[rows, -1, right], parts[rows, -1, right - 1] = share, 1 - share
    return parts


def _weights(histograms: NDArray[np.int64], fits: Floats) -> Floats:
    """Estimate the mixture's weights by EM; fits has shape (rows, components, bins)."""
    used = histograms > 0
    counts = histograms[used].astype(np.float64)
    columns = np.ascontiguousarray(fits.transpose(1, 0, 2)[:, used])
    weights = np.full(len(columns), 1 / len(columns))
    for _ in range(ITERATIONS if counts.size else 0):
        # One step of EM for a mixture with known components. The floor guards a value that no component explains.
        weights = weights * (columns @ (counts / np.maximum(weights @ columns, 1e-300)))
        weights /= weights.sum()
    return weights
