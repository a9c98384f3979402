"""Mixtures that grow by splitting: each component in two along the axis in which it is longest.

A component with mean m, covariance C, leading eigenvalue l and its axis v becomes two of half its weight:

    m ± sqrt(2 l / pi) v                      the means of a normal's two halves
    C - (2 / pi) l v v'                       what varies within a half along v, and all beside it

so both together have the mean and the covariance that the one had. A next round of expectation and maximisation
starts from there. Which components are split is the caller's rule, of released numbers.

Source: Linde, Buzo, Gray 1980 (splitting of codebooks).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privacy.learning.mixture import Mixture

_HALF: Final = 2 / math.pi
"""Squared mean of the positive half of a standard normal."""


def split_mixture(mixture: Mixture, chosen: NDArray[np.bool_], *, floor: float) -> Mixture:
    """Return the mixture with some of its components split in two, each pair in the place of the one.

    Args:
        mixture: with full covariances and owners; released.
        chosen: which components are split, shape (K,).
        floor: least variance in any direction, > 0.
    Raises:
        ValueError: diagonal covariances, or no owners.
    Privacy: post-processing.
    """
    if mixture.covariance != "full" or mixture.owners is None:
        raise ValueError("components that are split have full covariances and owners")
    values, vectors = np.linalg.eigh(mixture.covariances)
    # Of the components that stay the eigenvalue is kept: a shift of 0, and nothing taken off.
    lengths = np.where(chosen, np.maximum(values[:, -1], 0.0), 0.0)
    values[:, -1] -= _HALF * lengths
    covariances = (vectors * np.maximum(values, floor)[:, None, :]) @ vectors.transpose(0, 2, 1)
    shift = np.sqrt(_HALF * lengths)[:, None] * vectors[:, :, -1]
    times = np.where(chosen, 2, 1)
    # The first of a pair lies on one side of the mean, the second on the other.
    second = np.concatenate([np.arange(each) for each in times]) == 1
    repeated = np.repeat(np.arange(times.size), times)
    means = mixture.means[repeated] + np.where(second, 1.0, -1.0)[:, None] * shift[repeated]
    return Mixture(
        (mixture.weights / times)[repeated],
        means,
        ((covariances + covariances.transpose(0, 2, 1)) / 2)[repeated],
        mixture.owners[repeated],
    )
