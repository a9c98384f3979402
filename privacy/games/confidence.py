"""Bounds on a chance from how often something happened (Clopper and Pearson 1934): exact, at any number of trials."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

Rates = NDArray[np.float64]


def at_least(successes: ArrayLike, trials: int, *, unsure: float) -> Rates:
    """Bound a chance from below.

    Formula: the `unsure` quantile of Beta(k, n - k + 1); 0 where k = 0

    Args:
        successes: k, whole numbers from 0 to `trials`, any shape.
        trials: n independent trials, >= 1.
        unsure: chance with which the bound may be too high, above 0 and below 1.
    Source: Clopper and Pearson 1934.
    """
    found = np.asarray(successes, dtype=np.float64)
    bound = beta.ppf(unsure, np.maximum(found, 1), trials - np.maximum(found, 1) + 1)
    return np.where(found > 0, bound, 0.0)


def at_most(successes: ArrayLike, trials: int, *, unsure: float) -> Rates:
    """Bound a chance from above: one less the bound from below on its opposite."""
    return 1.0 - at_least(trials - np.asarray(successes, dtype=np.float64), trials, unsure=unsure)
